"""click commands made from the verb table, each at the moment it is needed. It holds no option of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from ..commands.report import Context, Report
from ..commands.table import GLOBAL, GROUPS, VERBS, Argument, Option, Verb
from ..version import __version__
from . import render

HELP = {"help_option_names": ["-h", "--help"]}


if TYPE_CHECKING:
    ParamType = click.ParamType[float]
else:
    # Older releases of click have no generic form of it at run time.
    ParamType = click.ParamType


class Seconds(ParamType):
    """A length of time on the command line: ``30``, ``45.5``, ``250ms``, ``2m``, ``1h``."""

    name = "time"
    UNITS: Mapping[str, float] = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", str(value).strip())
        if not found or float(found[1]) <= 0:
            self.fail(f"'{value}' is no length of time: write 30, 250ms, 30s or 2m", param, ctx)
        return float(found[1]) * self.UNITS[found[2] or ""]


class Unknown(click.UsageError):
    """No such command; ``hint`` is what to type instead."""

    def __init__(self, message: str, *, ctx: click.Context, hint: str = "") -> None:
        super().__init__(message, ctx=ctx)
        self.hint = hint


#: names less alike than this are no guess worth making
NEAR = 0.7


def _unknown(ctx: click.Context, args: list[str], known: list[str]) -> Unknown:
    """A word that is no command: a question somebody has forgotten to ask with ``ask``, or a name mistyped."""
    import difflib
    import shlex

    from ..core.keyref import MASK, looks_like_key

    # What may be a key is never said again.
    args = [MASK if looks_like_key(word) else word for word in args]
    name = args[0]
    words = " ".join(args)
    question = " " in name or words.endswith("?") or (len(args) > 2 and not any(one.startswith("-") for one in args))
    if question and ctx.parent is None:
        first = name.split()[0] if name.split() else name
        ask = f"routekit ask {shlex.quote(words)}"
        return Unknown(f"'{first}' is no command; to ask a question:", ctx=ctx, hint=ask)
    near = difflib.get_close_matches(name, known, n=3, cutoff=NEAR)
    said = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
    hint = " ".join([ctx.command_path, near[0], *(shlex.quote(word) for word in args[1:])]) if len(near) == 1 else ""
    return Unknown(f"unknown command '{name}'; {said}", ctx=ctx, hint=hint)


class Command(click.Command):
    """Its help is written as everything else is: to a full disk or a reader that left in words."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _help
        return option


def _help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        render.write(ctx.get_help() + "\n")
        ctx.exit()


class Lazy(Command, click.Group):
    """A group whose commands are rows until somebody asks for one."""

    def __init__(self, makers: Mapping[str, Callable[[], click.Command]], *, bare: str | None = None, **more: Any):
        super().__init__(**more, invoke_without_command=bare is not None)
        self._makers, self._bare = makers, bare

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        verb = self._bare or ""
        if verb.isalpha() and args and args[0].startswith("-") and args[0] not in HELP["help_option_names"]:
            # ``models -q text`` means ``models list -q text``.
            args = [verb, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._makers)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        maker = self._makers.get(name)
        return maker() if maker else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in self._makers:
            return name, self.get_command(ctx, name), args[1:]
        if name.startswith("-"):
            raise click.NoSuchOption(name, ctx=ctx)
        raise _unknown(ctx, args, list(self._makers))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # From the table alone: building every command to print its first line would load nothing, but cost time.
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(ctx, name)) for name in self._makers])


def _summary(ctx: click.Context, name: str) -> str:
    prefix = tuple(ctx.command_path.split()[1:])
    for group in GROUPS:
        if not prefix and group.name == name:
            return group.help
    return next(verb.help for verb in VERBS if verb.path == (*prefix, name))


def root() -> click.Group:
    makers: dict[str, Callable[[], click.Command]] = {}
    for verb in VERBS:
        word = verb.path[0]
        if len(verb.path) == 1:
            makers[word] = _maker(verb)
        elif word not in makers:
            makers[word] = _group_maker(word)
    return Lazy(
        makers,
        name="routekit",
        help="Ask language models through names you own: routed, failed over, explained.",
        params=[*(_param(row) for row in GLOBAL), _version()],
        callback=_globals,
        context_settings=HELP,
        bare="--help",
        epilog="Start with: routekit init  ·  or look around with: routekit --profile demo ask hello",
    )


def _version() -> click.Option:
    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            render.write(f"routekit {__version__}\n")
            ctx.exit()

    return click.Option(["--version"], is_flag=True, expose_value=False, is_eager=True, callback=show, help="Version.")


def _globals(**given: Any) -> None:
    ctx = click.get_current_context()
    ctx.obj = given
    if ctx.invoked_subcommand is None:
        render.write(ctx.get_help() + "\n")


def _anywhere() -> list[click.Parameter]:
    """The global options once more for a verb: people type them where they think of them."""
    return [_param(row, hidden=True) for row in GLOBAL]


def _taken(given: dict[str, Any]) -> dict[str, Any]:
    """Move the global options out of a verb's own; what is said at the verb counts over what was said before it."""
    said = click.get_current_context().find_root().obj or {}
    for row in GLOBAL:
        value = given.pop(row.name)
        if value:
            said[row.name] = (*said.get(row.name, ()), *value) if row.many else value
    click.get_current_context().find_root().obj = said
    return given


def _group_maker(word: str) -> Callable[[], click.Command]:
    def make() -> click.Command:
        row = next(group for group in GROUPS if group.name == word)
        below = {verb.path[1]: _maker(verb) for verb in VERBS if verb.path[0] == word}
        default = next(verb for verb in VERBS if verb.path == (word, row.default))

        def bare(**given: Any) -> int:
            _taken(given)
            ctx = click.get_current_context()
            return 0 if ctx.invoked_subcommand else run_verb(default, {})

        return Lazy(
            below,
            bare=row.default,
            name=word,
            help=row.help,
            params=_anywhere(),
            callback=bare,
            context_settings=HELP,
        )

    return make


def _maker(verb: Verb) -> Callable[[], click.Command]:
    def make() -> click.Command:
        examples = "\n".join(["\b", "Examples:", *(f"  {line}" for line in verb.examples)]) if verb.examples else None
        return Command(
            name=verb.path[-1],
            help=verb.help,
            params=[*(_argument(row) for row in verb.arguments), *(_param(row) for row in verb.options), *_anywhere()],
            callback=lambda **given: run_verb(verb, _taken(given)),
            context_settings=HELP,
            epilog=examples,
        )

    return make


def _argument(row: Argument) -> click.Parameter:
    return click.Argument(
        [row.name],
        nargs=-1 if row.many else 1,
        required=row.required,
        type=KINDS[row.kind].get("type"),
        shell_complete=_complete(row),
    )


#: how an option's kind is told to click
KINDS: Mapping[str, Mapping[str, Any]] = {
    "text": {},
    "flag": {"is_flag": True},
    "switch": {"default": None},
    "integer": {"type": int},
    "seconds": {"type": Seconds()},
    "money": {"type": float},
    "pair": {"nargs": 2},
    "choice": {},
}


def _param(row: Option, *, hidden: bool = False) -> click.Option:
    flags = list(row.flags)
    if row.kind == "switch":
        flags = ["/".join(row.flags[:2]), *(f" /{flag}" for flag in row.flags[2:])]
    more: dict[str, Any] = dict(KINDS[row.kind])
    if row.kind == "choice":
        more["type"] = click.Choice(row.choices)
    if row.kind not in ("flag", "switch"):
        more |= {"metavar": row.metavar or None, "multiple": row.many, "default": row.default}
    return click.Option([*flags, row.name], help=row.help, shell_complete=_complete(row), hidden=hidden, **more)


def _complete(row: Option | Argument) -> Callable[..., Any] | None:
    if not row.completes:
        return None

    def find(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from ..commands.complete import candidates, second

        first = _first_of_pair(row, incomplete) if row.kind == "pair" else None
        if first is not None:
            return list(second(row.completes, first, incomplete))
        if row.completes == "files":
            from click.shell_completion import CompletionItem

            return [CompletionItem(incomplete, type="file")]
        return list(candidates(context(ctx), row.completes, incomplete))

    return find


def _first_of_pair(row: Option | Argument, incomplete: str) -> str | None:
    """The first word of a pair, where the second is being typed. click says which option it is, not which word."""
    flags = row.flags if isinstance(row, Option) else ()
    words = os.environ.get("COMP_WORDS", "").split()
    at = os.environ.get("COMP_CWORD", "")
    words = words[: int(at)] if at.isdigit() and at != incomplete else words[:-1] if incomplete else words
    return words[-1] if len(words) > 1 and words[-2] in flags else None


def context(ctx: click.Context | None = None) -> Context:
    """The verb's context, from the global options of the command line."""
    from .person import Person

    given: dict[str, Any] = (ctx or click.get_current_context()).find_root().obj or {}
    if not given and ctx is not None:
        # While completing, click parses but calls nothing.
        given = ctx.find_root().params
    return Context(
        Person(),
        environ=os.environ,
        config_file=given.get("config"),
        profile=given.get("profile"),
        patches=given.get("patch") or (),
    )


def run_verb(verb: Verb, given: dict[str, Any]) -> int:
    """Load the verb's module, call its function, show what it gives back."""
    if verb.streams:
        shown = import_module(f".{verb.path[0]}", __package__)
        return int(shown.show(context(), given))
    module = import_module(f"..commands.{verb.module}", __package__)
    as_json = bool(given.get("json"))
    with_context = context()
    try:
        result = getattr(module, verb.function)(with_context, **given)
    finally:
        with_context.close()
    if not isinstance(result, Report):
        raise TypeError(f"{verb.name} gave no report")
    render.report(result, as_json=as_json)
    return result.exit_code
