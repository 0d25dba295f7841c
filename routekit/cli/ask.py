"""``routekit ask`` in the shell: reads the pipe, shows the answer live or when it is whole, ends with its code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..commands import ask as command
from ..commands.report import Context
from ..commands.shapes import record_json
from ..core import words
from ..core.chat import Delta
from ..core.decide import Choice
from ..core.record import Attempt, RequestRecord
from ..core.words import plural
from ..errors import EX_PIPE, RoutekitError
from . import render
from .boundary import die_interrupted, guarded, leave

#: how long a probe alongside may still take once the answer is out, in seconds
PROBE_PATIENCE = 0.5
#: how long a prompt's own pipe may stay silent before the person is told that it is being waited for
PATIENCE = 1.0


def show(context: Context, given: Mapping[str, Any]) -> int:
    """Answer and end the process; only a dry run returns."""
    asked = dict(given)
    how = Manner(asked)
    if asked.pop("dry_run"):
        return _preview(context, asked, as_json=how.json)
    no_stdin = asked.pop("no_stdin")
    asked["prompt"] = [readable(word) for word in asked["prompt"]]
    piped = "" if no_stdin else read_pipe(words=bool(asked["prompt"]))
    question = command.question(context, piped=piped, **asked)
    code = guarded(sys.argv, lambda: _answer(context, question, how), clean=context.router.clean)
    if not how.quiet:
        for warning in context.router.store.warnings:
            render.note(warning)
    return leave(code)


class Manner:
    """How the answer is to be shown: the options that are not part of the question."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.json: bool = given.pop("json")
        self.usage: bool = given.pop("usage")
        self.explain: bool = given.pop("explain")
        self.quiet: bool = given.pop("quiet")
        self.verbose: bool = given.pop("verbose")
        self.hide_reasoning: bool = given.pop("hide_reasoning")
        stream: bool | None = given.pop("stream")
        self.live: bool = not self.json and (sys.stdout.isatty() if stream is None else stream)


def _preview(context: Context, asked: Mapping[str, Any], *, as_json: bool) -> int:
    from ..commands.routes import preview

    try:
        result = preview(context, id=asked["model"], only=asked["only"])
    finally:
        context.close()
    render.report(result, as_json=as_json)
    return 0


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
    return _decoded(stream.buffer.read(), "standard input")


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


def _answer(context: Context, question: command.Question, how: Manner) -> int:
    from ..loop import run

    screen = Screen(how)
    try:
        if not how.quiet:
            tell_about(context)
        return run(_play(context, question, screen))
    except KeyboardInterrupt:
        screen.end_line()
        if not how.quiet:
            render.note("interrupted")
        die_interrupted()
    except BrokenPipeError:
        render.silence_stdout()
        return EX_PIPE
    except render.Unwritable:
        raise
    except RoutekitError as error:
        screen.end_line()
        context.router.set_aside(error)
        if how.json:
            render.write(render.dumps(screen.failure_json(context, error)) + "\n")
            render.failure(error)
            return error.exit_code
        raise


async def _play(context: Context, question: command.Question, screen: Screen) -> int:
    from contextlib import aclosing

    happenings = context.router.run(question.prompt, model=question.model, live=screen.how.live, **question.how)
    async with aclosing(happenings) as steps:
        async for step in steps:
            screen.take(step)
    await context.router.end_probes(PROBE_PATIENCE)
    return 0


class Screen:
    """What has been shown of one answer. It writes stdout only here: the answer's bytes, and one final newline."""

    def __init__(self, how: Manner) -> None:
        self.how = how
        self.text: list[str] = []
        self.record: RequestRecord | None = None
        #: whether anything of the answer is on stdout, and whether it ends with a newline
        self.began = self.ended = False
        #: newlines a terminal has not been shown: an answer's own last ones become one
        self.owed = ""
        self.thinking = False

    def take(self, step: Any) -> None:
        if isinstance(step, Delta):
            self._delta(step)
        elif isinstance(step, Choice):
            self._explain(step)
        elif isinstance(step, Attempt):
            self._attempt(step)
        elif isinstance(step, RequestRecord):
            self._end(step)

    def _delta(self, delta: Delta) -> None:
        if delta.kind == "reasoning":
            if not self.how.hide_reasoning and sys.stderr.isatty() and self.how.live:
                self._think(delta.text)
            return
        if delta.kind == "tool" or not delta.text:
            return
        self._stop_thinking()
        self.text.append(delta.text)
        if not self.how.json:
            self._show(delta.text)

    def _show(self, text: str) -> None:
        if sys.stdout.isatty():
            text = self.owed + text
            self.owed = text[len(text.rstrip("\n")) :]
            text = text.rstrip("\n")
        if text:
            render.write(text)
            self.began, self.ended = True, text.endswith("\n")

    def _think(self, text: str) -> None:
        """Reasoning, where both streams are a terminal's: dim, and on lines of its own."""
        self.thinking = True
        render.dim(text)

    def _stop_thinking(self) -> None:
        if self.thinking:
            self.thinking = False
            render.complain("")

    def _explain(self, choice: Choice) -> None:
        if self.how.explain:
            for row in choice.path:
                render.note(words.decision_line(row))

    def _attempt(self, attempt: Attempt) -> None:
        if self.how.verbose or self.how.explain:
            self.end_line()
            render.note(words.attempt_line(attempt))

    def end_line(self) -> None:
        self._stop_thinking()
        if self.began and not self.ended:
            self.ended = True
            render.write("\n")

    def _end(self, record: RequestRecord) -> None:
        self.record = record
        self.end_line()
        if self.how.json:
            body = record_json(record)
            head = {key: body.pop(key) for key in ("schema_version", "id", "conversation_id", "model", "served_by")}
            render.write(render.dumps({**head, "response": "".join(self.text), **body}) + "\n")
        if self.how.quiet:
            return
        line = words.served_line(record)
        if line:
            render.note(line)
        for text in record.notes:
            render.note(text)
        if self.how.usage:
            render.complain(words.usage_line(record))

    def failure_json(self, context: Context, error: RoutekitError) -> dict[str, Any]:
        """The failed request as ``--json`` shows it: its record, or the error alone when it never came to one."""
        from ..commands.shapes import error_json

        alone = error_json(error)
        record = context.router.last_record()
        if record is None or record.error is None:
            return alone
        response = "".join(self.text) or alone["response"]
        return {**record_json(record), "response": response, "error": alone["error"]}
