"""Where every error of a command ends: its words on stderr, its exit code, and a quiet end for a closed pipe."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import click

from ..commands.shapes import error_json
from ..errors import EX_INTERRUPTED, EX_PIPE, ConfigError, RoutekitError, UsageError
from . import render
from .parser import NEAR, root


def run(words: Sequence[str]) -> int:
    render.prepare_streams()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return guarded(words, lambda: _invoke(words))
    except BrokenPipeError:
        render.silence_stdout()
        return EX_PIPE


def _invoke(words: Sequence[str]) -> int:
    streams = sys.stdout, sys.stderr
    try:
        result = root().main(args=list(words), prog_name="routekit", standalone_mode=False)
    except SystemExit:
        # click's own way out where the reader has gone: it leaves with 1, and with other streams
        if sys.stdout is streams[0]:
            raise
        sys.stdout, sys.stderr = streams
        raise BrokenPipeError from None
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
        return _explained(error, words, form=next((form for form in ("--jsonl", "--json") if form in words), ""))


def _explained(error: Exception, words: Sequence[str], *, form: str) -> int:
    """The words for an exception, on stderr; the exit code it stands for."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    told = _told(error, words)
    _as_data(told, form)
    render.failure(told)
    return told.exit_code


def _told(error: Exception, words: Sequence[str]) -> RoutekitError:
    if isinstance(error, RoutekitError):
        return error
    if isinstance(error, click.ClickException):
        return _misused(error, words)
    if isinstance(error, OSError) and (error.filename or error.errno in SHORTAGES):
        return _of_the_system(error)
    # The text of a foreign exception may hold anything: only its kind is shown.
    return RoutekitError(
        f"a bug in routekit: {type(error).__name__}",
        hints=["the same command with --debug, and report what it prints"],
    )


def _as_data(error: RoutekitError, form: str) -> None:
    """The error where JSON was asked for. An output that cannot be written has been complained of, or will be."""
    try:
        if form == "--json":
            render.write(render.dumps(error_json(error)) + "\n")
        elif form == "--jsonl":
            render.write(render.line({"event": "done", **error_json(error)}) + "\n")
    except render.Unwritable as unwritable:
        if not isinstance(error, render.Unwritable):
            render.failure(unwritable)


#: what the system has too little of, by its error's number, and what to type
SHORTAGES = {
    errno.EMFILE: ("this process may not open that many files", "ulimit -n 1024"),
    errno.ENFILE: ("the system has too many files open", "routekit doctor"),
    errno.ENOSPC: ("the disk is full", "df -h"),
    errno.EDQUOT: ("the disk is full for you", "quota"),
}


def _of_the_system(error: OSError) -> RoutekitError:
    """What the system refuses is no bug of ours, and no fault of the command's."""
    # What was begun and could not be finished would say so at the very end, in a traceback.
    sys.unraisablehook = _unheard
    words, hint = SHORTAGES.get(error.errno or 0, (error.strerror or type(error).__name__, "routekit config path"))
    place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return ConfigError(f"{place}{words}", hints=[hint])


def _unheard(_: object) -> None:
    return


def _misused(error: click.ClickException, words: Sequence[str]) -> UsageError:
    said = _said(error)
    context = getattr(error, "ctx", None)
    typed = context.command_path if context else _command(words)
    return UsageError(said[:1].lower() + said[1:], hints=[getattr(error, "hint", "") or f"{typed} --help"])


def _said(error: click.ClickException) -> str:
    if not isinstance(error, click.NoSuchOption):
        return error.format_message()
    import difflib

    near = difflib.get_close_matches(error.option_name, error.possibilities or (), n=2, cutoff=NEAR)
    return f"no such option '{error.option_name}'" + (f"; did you mean {' or '.join(near)}?" if near else "")


def _command(words: Sequence[str]) -> str:
    """The command that was typed, as far as it is one: click does not say where every mistake was made."""
    from ..commands.table import VERBS

    typed = [word for word in words if not word.startswith("-")]
    paths = {verb.path for verb in VERBS} | {verb.path[:1] for verb in VERBS}
    found = next((typed[:length] for length in (2, 1) if tuple(typed[:length]) in paths), [])
    return " ".join(["routekit", *found])


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
