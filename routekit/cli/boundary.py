"""Where every error of a command ends: its words on stderr, its exit code, and a quiet end for a closed pipe."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import click

from ..commands.shapes import error_json
from ..errors import EX_INTERRUPTED, EX_PIPE, EX_SOFTWARE, EX_USAGE, RoutekitError
from . import render
from .parser import root


def run(words: Sequence[str]) -> int:
    render.prepare_streams()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return guarded(words, lambda: _invoke(words))
    except BrokenPipeError:
        render.silence_stdout()
        return EX_PIPE


def _invoke(words: Sequence[str]) -> int:
    result = root().main(args=list(words), prog_name="routekit", standalone_mode=False)
    return result if isinstance(result, int) else 0


def guarded(words: Sequence[str], work: Callable[[], int], *, clean: Callable[[str], str] | None = None) -> int:
    """Run ``work`` and turn what it raises into words and an exit code. ``clean`` takes secrets out of a traceback."""
    # Behind two dashes stands the prompt, whatever it looks like.
    words = words[: words.index("--")] if "--" in words else words
    try:
        return work()
    except (KeyboardInterrupt, click.Abort):
        die_interrupted()
    except BrokenPipeError:
        raise
    except Exception as error:
        if "--debug" in words:
            _trace(clean)
        return _explained(error, form=next((form for form in ("--jsonl", "--json") if form in words), ""))


def _explained(error: Exception, *, form: str) -> int:
    """The words for an exception, on stderr; the exit code it stands for."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.ClickException):
        return _misused(error)
    if isinstance(error, RoutekitError):
        if form == "--json":
            render.write(render.dumps(error_json(error)) + "\n")
        elif form == "--jsonl":
            render.write(render.line({"event": "done", **error_json(error)}) + "\n")
        render.failure(error)
        return error.exit_code
    # The text of a foreign exception may hold anything: only its kind is shown.
    render.note(f"a bug in routekit: {type(error).__name__}")
    render.complain("  try: the same command with --debug, and report what it prints")
    return EX_SOFTWARE


def _misused(error: click.ClickException) -> int:
    words = error.format_message()
    context = getattr(error, "ctx", None)
    render.note(words[:1].lower() + words[1:])
    render.complain(f"  try: {context.command_path if context else 'routekit'} --help")
    return EX_USAGE


def _trace(clean: Callable[[str], str] | None) -> None:
    """The traceback, with every secret known, or looking like one, taken out; values of variables are never shown."""
    import traceback

    from ..credentials import Redactor

    render.complain((clean or Redactor().clean)(traceback.format_exc()))


def die_interrupted() -> NoReturn:
    """End by the signal itself, so that the shell sees an interrupt, and at once: nothing is left to tidy up."""
    _flush()
    if os.name == "posix":
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(EX_INTERRUPTED)


def leave(code: int) -> NoReturn:
    """End at once. The interpreter's own farewell would tear down thousands of SDK modules first, for nothing."""
    _flush()
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
