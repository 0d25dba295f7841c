"""``routekit ask`` in the shell: reads the pipe, shows the answer live or when it is whole, ends with its code."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TextIO

from ..commands import ask as command
from ..commands.report import Context
from ..core.words import plural
from ..errors import EX_PIPE, RequestRefused, RoutekitError, UsageError
from ..files import LARGEST, bound
from ..session import Session
from . import render
from .boundary import die_interrupted, guarded, leave
from .manner import Manner
from .screen import Screen

#: how long a probe alongside may still take once the answer is out, in seconds
PROBE_PATIENCE = 0.5
#: how long a prompt's own pipe may stay silent before the person is told that it is being waited for
PATIENCE = 1.0
#: options that may name standard input
SOURCES = ("fragment", "attachment", "at", "sf")


def show(context: Context, given: Mapping[str, Any]) -> int:
    """Answer and end the process; only a dry run returns."""
    render.must_be_open()
    asked = dict(given)
    how = Manner(asked)
    talk = Talk(asked)
    if asked.pop("dry_run"):
        return _preview(context, asked, talk, as_json=how.json)
    question = _question(context, asked, talk)
    code = guarded(sys.argv, lambda: _answer(context, question, talk, how), clean=context.router.clean)
    if not how.quiet:
        for warning in context.router.store.warnings:
            render.note(warning)
    return leave(code)


class Talk:
    """Which conversation a question belongs to, and whether it is logged. Takes its own options out of what was
    given."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.last: bool = given.pop("continue")
        self.id: str | None = given.pop("cid")
        self.log: bool | None = given.pop("log")
        if self.last and self.id is not None:
            raise UsageError("-c continues the last conversation, --cid another: give one of them")

    def session(self, context: Context, question: command.Question | None = None) -> Session | None:
        if not self.last and self.id is None:
            return None
        return command.conversation(context, id=self.id, question=question, log=self.log)


def _question(context: Context, asked: dict[str, Any], talk: Talk) -> command.Question:
    no_stdin, edits = asked.pop("no_stdin"), asked.pop("edit")
    asked["prompt"] = [readable(word) for word in asked["prompt"]]
    stdin, piped = None, ""
    if _wants_stdin(asked):
        stdin = read_bytes()
    elif not no_stdin:
        piped = read_pipe(words=bool(asked["prompt"]))
    if edits:
        from ..commands.editor import compose

        words = " ".join(asked["prompt"])
        asked["prompt"] = compose(context, "\n".join(part for part in (piped.rstrip("\n"), words) if part))
        piped = ""
    return command.question(context, piped=piped, stdin=stdin, **asked)


def _wants_stdin(asked: Mapping[str, Any]) -> bool:
    """Whether an option names standard input. Raises ``UsageError`` where two do: there is only one."""
    named = [source for name in SOURCES for source in _listed(asked[name]) if source == "-"]
    if len(named) > 1:
        raise UsageError("standard input can be read once: only one option can say '-'")
    return bool(named)


def _listed(value: Any) -> list[str]:
    if value is None or isinstance(value, str):
        return [value] if value else []
    return [one if isinstance(one, str) else one[0] for one in value]


def _preview(context: Context, asked: Mapping[str, Any], talk: Talk, *, as_json: bool) -> int:
    from ..commands.routes import preview

    try:
        model = command.chosen(context.router, asked["model"], asked["query"])
        session = talk.session(context) if model is None else None
        result = preview(context, id=model or (session.model if session else None), only=asked["only"])
    finally:
        context.close()
    render.report(result, as_json=as_json)
    return 0


def read_bytes() -> bytes:
    """All of standard input, for an option that says ``-``."""
    if sys.stdin is None:
        return b""
    if sys.stdin.isatty():
        render.note("reading standard input; end it with Ctrl-D")
    return _all(sys.stdin)


def read_pipe(*, words: bool) -> str:
    """What is piped in. With words on the command line a silent pipe is waited for, and the person told so after a
    second: another program may have left it open by mistake."""
    stream = sys.stdin
    if stream is None or stream.isatty():
        return ""
    if words:
        import select

        try:
            ready, _, _ = select.select([stream], [], [], PATIENCE)
        except (OSError, ValueError):
            ready = [stream]
        if not ready:
            render.note("waiting for standard input; end it with Ctrl-D, or use --no-stdin")
    return _decoded(_all(stream), "standard input")


def _all(stream: TextIO) -> bytes:
    """Raises ``RequestRefused`` for more than any vendor takes: a pipe need not ever end."""
    raw = stream.buffer.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise RequestRefused(f"standard input is larger than {bound(LARGEST)}: no vendor takes it", kind="input")
    return raw


def readable(word: str) -> str:
    """A word of the command line as text: bytes that were no UTF-8 reach us as half characters no vendor can take."""
    return word if word.isprintable() else _decoded(word.encode("utf-8", "surrogateescape"), "the prompt")


def _decoded(raw: bytes, what: str) -> str:
    text = raw.decode("utf-8", "replace")
    odd = text.count("�") - raw.count("�".encode())
    if odd > 0:
        render.note(f"{what} is not UTF-8: {plural(odd, 'character')} could not be read and became '�'")
    return text


def tell_about(context: Context) -> None:
    """What the config has to say, once per config: dropped entries, or that there is no file."""
    from ..commands.notices import due

    for line in due(context.router):
        render.note(line)


def _answer(context: Context, question: command.Question, talk: Talk, how: Manner) -> int:
    from ..loop import run

    if not how.quiet:
        tell_about(context)
    session = talk.session(context, question)
    if session is not None and not how.quiet:
        render.note(command.continuing(session))
    screen = Screen(how, question.model or (session.model if session else None) or context.router.default_model())
    try:
        return run(_play(context, _happenings(context, question, session, talk, how), screen))
    except KeyboardInterrupt:
        screen.pause()
        if not how.quiet:
            render.note("interrupted")
        die_interrupted()
    except BrokenPipeError:
        render.silence_stdout()
        return EX_PIPE
    except RoutekitError as error:
        return _failed(context, screen, error)


def _failed(context: Context, screen: Screen, error: RoutekitError) -> int:
    if isinstance(error, render.Unwritable):
        raise error
    screen.pause()
    context.router.set_aside(error)
    if not (screen.how.json or screen.how.events):
        raise error
    screen.failed(context, error)
    render.failure(error)
    return error.exit_code


def _happenings(
    context: Context, question: command.Question, session: Session | None, talk: Talk, how: Manner
) -> AsyncGenerator[Any, None]:
    if session is not None:
        return session.run(question.prompt, live=how.live, model=question.model, **question.how)
    return context.router.run(
        question.prompt,
        model=question.model,
        live=how.live,
        log=talk.log,
        place=command.place(context),
        **question.how,
    )


async def _play(context: Context, happenings: AsyncGenerator[Any, None], screen: Screen) -> int:
    import asyncio
    from contextlib import aclosing

    ticking = asyncio.create_task(screen.waiting.run())
    try:
        async with aclosing(happenings) as steps:
            async for step in steps:
                screen.take(step)
    finally:
        ticking.cancel()
    await context.router.end_probes(PROBE_PATIENCE)
    return 0
