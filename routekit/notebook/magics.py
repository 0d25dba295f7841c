"""``%route``, ``%%route`` and ``%routekit``: loaded into a shell and out of it again without a trace.

It parses and hands on; what a question or a verb does is decided below, and shown by ``display`` and ``reports``.
"""

from __future__ import annotations

import os
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import RoutekitError, UsageError
from . import transform

MAGICS = (("line", "route"), ("cell", "route"), ("line", "routekit"))
#: verbs that need a screen of their own
FOR_TERMINALS = frozenset({("config", "edit"), ("completion",)})
#: variables that decide which configuration counts
_DECIDING = ("ROUTEKIT_", "XDG_", "HOME", "APPDATA", "LOCALAPPDATA")


def load(shell: Any) -> None:
    """Put the magics, the two input transformers, the completion and the pictures into a shell. Says nothing."""
    from IPython.core.magic import needs_local_scope, no_var_expand

    unload(shell)
    companion = Companion(shell)

    def route(line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None) -> Any:
        return companion.route(line, cell, local_ns or {})

    def routekit(line: str) -> Any:
        return companion.routekit(line)

    # IPython's own replacement is all or nothing, and not for cells: ours is neither.
    magics: dict[str, Any] = {"route": no_var_expand(needs_local_scope(route)), "routekit": no_var_expand(routekit)}
    magics["route"].__doc__, magics["routekit"].__doc__ = _help_of_route(), _help_of_routekit()
    for kind, name in MAGICS:
        companion.replaced[kind, name] = shell.magics_manager.magics[kind].get(name)
        shell.magics_manager.magics[kind][name] = magics[name]
        magics[name].companion = companion
    companion.attach()


def unload(shell: Any) -> None:
    """Take everything out again, and put back what was there before."""
    magic = shell.magics_manager.magics["line"].get("route")
    companion = getattr(magic, "companion", None)
    if companion is None:
        return
    for kind, name in MAGICS:
        before = companion.replaced[kind, name]
        if before is not None:
            shell.magics_manager.magics[kind][name] = before
        else:
            shell.magics_manager.magics[kind].pop(name, None)
    companion.detach()


def _help_of_route() -> str:
    from .options import route_options

    rows = [f"    {', '.join(row.flags)} {row.metavar}".rstrip().ljust(30) + row.help for row in route_options()]
    return "\n".join(
        [
            "Ask a language model.",
            "",
            "    %route [options] PROMPT            the rest of the line is the prompt, as typed",
            "    ans = %route is 17 prime?",
            "    %%route [MODEL] [options]          the cell below is the prompt",
            "",
            "{name} stands for a variable, {In[3]}, {Out[3]}, {Err[3]} for a cell; all else in braces is text.",
            "",
            *rows,
        ]
    )


def _help_of_routekit() -> str:
    from ..commands.table import VERBS

    rows = [f"    %routekit {verb.name}".ljust(34) + verb.help for verb in VERBS]
    return "\n".join(["Every routekit command, as in the shell.", "", *rows])


class Companion:
    """The extension in one shell: its router, what it remembers of cells, what it must put back."""

    def __init__(self, shell: Any) -> None:
        from .cells import Cells

        self.shell = shell
        self.cells = Cells(shell)
        self.replaced: dict[tuple[str, str], Any] = {}
        self._undo: list[Callable[[], None]] = []
        self._router: Any = None
        self._chosen: Any = None
        self._said: dict[str, Any] = {}
        self._told: set[str] = set()
        #: the notebook's conversation (``session.Session``), and what was last asked outside of it
        self._session: Any = None
        self.alone: Any = None

    # --- coming and going ---------------------------------------------------------------------------------------------

    def attach(self) -> None:
        from .reports import formatters

        shell = self.shell
        self.cells.attach()
        # First of all, since IPython's clean-up takes ``>>>`` off lines, and cuts ours at a form feed; and once more
        # after it, for lines that were pasted with a prompt before them.
        shell.input_transformers_cleanup[:0] = [transform.cell, transform.statements]
        shell.input_transformers_cleanup.append(transform.statements)
        self._undo += [
            self.cells.detach,
            lambda: _remove(shell.input_transformers_cleanup, transform.cell, transform.statements),
            self.close,
        ]
        self._undo += formatters(shell.display_formatter.formatters)
        matcher = self._matcher()
        shell.Completer.custom_matchers.append(matcher)
        self._undo.append(lambda: _remove(shell.Completer.custom_matchers, matcher))

    def detach(self) -> None:
        while self._undo:
            self._undo.pop()()

    def close(self) -> None:
        router, self._router = self._router, None
        if router is not None:
            router.close()

    def _matcher(self) -> Any:
        from IPython.core.completer import SimpleCompletion, context_matcher

        @context_matcher()  # type: ignore[untyped-decorator, unused-ignore]
        def routekit_matcher(context: Any) -> Any:
            from .complete import find

            before = context.text_until_cursor
            found = find(before, first_line=context.cursor_line == 0, names=self._names) if "%route" in before else None
            if found is None:
                return {"completions": [], "suppress": False}
            fragment, names = found
            done = [SimpleCompletion(text=name, type="routekit") for name in names]
            return {"completions": done, "matched_fragment": fragment, "suppress": bool(done)}

        return routekit_matcher

    def _names(self, kind: str) -> list[str]:
        from ..commands.complete import SOURCES

        try:
            return list(SOURCES[kind](self.context())) if kind in SOURCES else []
        except (RoutekitError, OSError):
            return []

    # --- the router ---------------------------------------------------------------------------------------------------

    def context(self, said: Mapping[str, Any] | None = None) -> Any:
        """What a verb is given: over the notebook's router, or one of its own where global options are said."""
        from ..commands.report import Context
        from .person import Person

        if said and any(said.values()):
            router = _router({**self._said, **{name: value for name, value in said.items() if value}})
        else:
            router = self.router()
        return Context(Person(self.shell), environ=os.environ, router=router, surface="notebook")

    def router(self) -> Any:
        """The notebook's router; a new one when the environment names another configuration."""
        chosen = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(_DECIDING)))
        if self._router is None or self._chosen != chosen:
            self.close()
            self._router, self._chosen = _router(self._said), chosen
        return self._router

    def session(self, named: str | None = None) -> Any:
        """The notebook's one conversation, or from here on that one of the log. It begins with what was asked last
        before anybody continued anything."""
        from ..session import Session
        from ..state.conversations import Place

        router, place = self.router(), Place(surface="notebook")
        if named is not None:
            self._session = Session.load(router, named, place=place)
        elif self._session is None:
            begun = self.alone.conversation if self.alone is not None and self.alone.conversation else None
            self._session = Session(router, id=begun, place=place)
            if self.alone is not None and not self._session.entries:
                self._session.begin_with(self.alone)
        self._session.router = router
        return self._session

    # --- %routekit ----------------------------------------------------------------------------------------------------

    def routekit(self, line: str) -> Any:
        return self._guarded(lambda: self._verb(line), debug="--debug" in line)

    def _verb(self, line: str) -> Any:
        from importlib import import_module

        from . import options, reports
        from .display import Output

        typed, said = options.read_globals(line)
        if not typed:
            return self._choose(said)
        if typed[0] == "ask":
            return self._ask(line.partition("ask")[2].lstrip(), None, {})
        if tuple(typed[:2]) in FOR_TERMINALS or typed[0] == "chat":
            raise UsageError(f"{' '.join(typed[:2])} is for terminals", hints=["%route -c your question"])
        if {"-h", "--help"} & set(typed):
            verb, _ = options.verb_of([word for word in typed if word not in ("-h", "--help")])
            Output(self.shell).lines(options.help_text(verb))
            return None
        verb, given, said = options.read_verb(line)
        module = import_module(f"..commands.{verb.module}", __package__)
        context = self.context(said)
        try:
            report = getattr(module, verb.function)(context, **given)
            reports.show(Output(self.shell), report, path=verb.path, context=context, given=given)
        finally:
            if context.router is not self._router:
                context.router.close()
        if report.exit_code:
            said_no = f"{verb.name}: not all is well (exit code {report.exit_code})"
            raise RoutekitError(said_no, exit_code=report.exit_code)
        return None

    def _choose(self, said: Mapping[str, Any]) -> None:
        """``%routekit --profile demo``: from here on this notebook uses that configuration."""
        from .display import Output

        chosen = {name: value for name, value in said.items() if value and name != "debug"}
        if not chosen:
            Output(self.shell).lines(_help_of_routekit().splitlines())
            return
        self.close()
        self._said = chosen
        model = self.router().default_model()
        named = ", ".join(f"{name} {value}" for name, value in chosen.items())
        Output(self.shell).lines([f"this notebook now uses: {named}; asked when nothing is named: {model}"])

    # --- %route -------------------------------------------------------------------------------------------------------

    def route(self, line: str, cell: str | None, local: Mapping[str, Any]) -> Any:
        return self._guarded(
            lambda: self._ask(line, cell, local), soft=_has(line, "--soft"), debug=_has(line, "--debug")
        )

    def _ask(self, line: str, cell: str | None, local: Mapping[str, Any]) -> Any:
        from .asking import Asking

        return Asking(self, line, cell, local).run()

    def typed_body(self, cell: str) -> str:
        """A cell's body as typed: without the newline that IPython adds to a cell that ends without one."""
        typed = self.cells.typed
        if cell.endswith("\n") and not typed.endswith("\n") and typed.lstrip().startswith("%%route"):
            return cell[:-1]
        return cell

    def namespace(self, local: Mapping[str, Any]) -> Any:
        from .interpolate import namespace

        names: Mapping[str, Any] = ChainMap(dict(local), self.shell.user_ns)
        hidden = [name for name in self.shell.user_ns_hidden if name not in ("_", "__", "___")]
        return namespace(names, self._of_cell, hidden=hidden)

    def _of_cell(self, kind: str, number: int) -> str | None:
        found = self.cells.text(kind, number)
        # A traceback may hold what nobody meant to send anywhere.
        return self.router().clean(found) if found is not None and kind == "Err" else found

    def notices(self) -> list[str]:
        """What a person should be told once."""
        from ..commands.notices import due

        router = self.router()
        found = [line for line in (*due(router), *router.store.warnings) if line not in self._told]
        self._told.update(found)
        return [line.replace("try: routekit ", "try: %routekit ") for line in found]

    # --- errors -------------------------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[], Any], *, soft: bool = False, debug: bool = False) -> Any:
        """Run ``work``; what it raises fails the cell with its lines, without a stack and without what it stood on."""
        try:
            return work()
        except KeyboardInterrupt as caught:
            raised: BaseException = caught
        except RoutekitError as caught:
            raised = self._clean(caught)
        except Exception as caught:
            if debug:
                _trace()
            raised = self._clean(_bug(caught))
        # Outside of the handlers: what was caught there holds frames, and they hold anything.
        if soft and isinstance(raised, RoutekitError):
            return self._soft(raised)
        raise _stopped(raised).with_traceback(None) from None

    def _clean(self, error: RoutekitError) -> RoutekitError:
        from .display import as_magic

        if self._router is not None:
            self._router.set_aside(error)
        error.hints = tuple(as_magic(hint) for hint in error.hints)
        error.__context__ = error.__cause__ = None
        return error

    def _soft(self, error: RoutekitError) -> RoutekitError:
        from .display import Output

        Output(self.shell).lines(error._render_traceback_())
        return error.with_traceback(None)


def _router(said: Mapping[str, Any]) -> Any:
    """A router as a kernel needs it: its SDKs are loaded without pausing collections."""
    from ..config.paths import find_paths
    from ..router import Router
    from ..vendors import MODULES, vendor_for

    router = Router(
        paths=find_paths(os.environ, config_file=said.get("config")),
        profile=said.get("profile"),
        patches=said.get("patch") or (),
        speakers={api: Late(lambda api=api: vendor_for(api, pause_gc=False)) for api in MODULES},  # type: ignore[misc]
    )
    router.long_lived = True
    return router


class Late:
    """A vendor made at its first use."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = self._make()
        return getattr(self._made, name)


def _bug(error: Exception) -> RoutekitError:
    # The text of a foreign exception may hold anything: only its kind is shown.
    hint = "the same with --debug, and report what it prints"
    return RoutekitError(f"a bug in routekit: {type(error).__name__}", hints=[hint])


def _stopped(raised: BaseException) -> BaseException:
    """An interrupt that came while nothing was being shown, as one line; all else as it is."""
    from .play import Interrupted

    plain = isinstance(raised, KeyboardInterrupt) and not isinstance(raised, Interrupted)
    return Interrupted("stopped") if plain else raised


def _remove(rows: list[Any], *ours: Any) -> None:
    rows[:] = [row for row in rows if row not in ours]


def _has(line: str, flag: str) -> bool:
    return flag in line.split("-- ")[0].split()


def _trace() -> None:
    """The traceback on stderr, without values of variables and without what looks like a secret."""
    import traceback

    from ..credentials import Redactor

    sys.stderr.write(Redactor().clean(traceback.format_exc()))
