"""The only writer of the shell: answers and reports to stdout, everything else to stderr. It decides nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..commands.report import Lines, Report, Table
from ..errors import EX_IO, RoutekitError
from ..terminal.look import safe
from .streams import Closed


def note(text: str) -> None:
    """A line for the person: on stderr, under the program's name."""
    complain(f"routekit: {text}")


def complain(text: str) -> None:
    try:
        sys.stderr.write(safe(text, sys.stderr) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        # Nobody listens on stderr: the answer matters more.
        return


def dim(text: str, *, colour: bool) -> None:
    """A piece of text on stderr, less bright where the terminal can do that."""
    shown = safe(text, sys.stderr)
    if colour:
        shown = f"\x1b[2m{shown}\x1b[22m"
    try:
        sys.stderr.write(shown)
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def failure(error: RoutekitError) -> None:
    head, *rest = error.lines()
    complain("\n".join([f"routekit: {head}", *rest]))


def report(result: Report, *, as_json: bool) -> None:
    """A verb's result: rows on stdout, or the same as JSON."""
    for text in result.notes:
        note(text)
    if as_json:
        write(dumps(result.data) + "\n")
    else:
        for block in result.blocks:
            write("".join(line + "\n" for line in block_lines(block)))
    for hint in result.hints:
        complain(f"  try: {hint}")


def dumps(data: Any) -> str:
    import msgspec

    return msgspec.json.format(_encoded(data), indent=2).decode()


def line(data: Any) -> str:
    return _encoded(data).decode()


def _encoded(data: Any) -> bytes:
    import msgspec

    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        # A path or a word of the command line that is no UTF-8.
        return msgspec.json.encode(_whole(data))


def _whole(data: Any) -> Any:
    """The same with every half character written out, as it is shown elsewhere."""
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {_whole(name): _whole(value) for name, value in data.items()}
    return [_whole(value) for value in data] if isinstance(data, list | tuple) else data


def block_lines(block: Table | Lines) -> list[str]:
    if isinstance(block, Lines):
        return list(block.text)
    if not block.rows:
        return [block.empty] if block.empty else []
    rows: list[Sequence[str]] = [block.columns, *block.rows] if any(block.columns) else [*block.rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(block.columns))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def must_be_open() -> None:
    """Raises ``Unwritable`` where nobody could ever read the answer: it would be paid for all the same."""
    if isinstance(sys.stdout, Closed):
        put("-")


class Unwritable(RoutekitError):
    """Standard output is there but takes nothing: a full disk, say. Unlike a reader that left, this is worth words."""

    exit_code = EX_IO
    kind = "output"


def write(text: str) -> None:
    """To stdout, as UTF-8 where the stream takes it, never raising for a character a console cannot show."""
    put(safe(text, sys.stdout))


def put(text: str) -> None:
    """As ``write``, of text that holds escape sequences of ours and nobody else's."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        silence_stdout()
        raise Unwritable(f"standard output cannot be written: {getattr(error, 'strerror', None) or error}") from None


def prepare_streams() -> None:
    """UTF-8 in and out; what a stream cannot encode is shown escaped instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            utf8 = (stream.encoding or "").lower().replace("-", "") in ("utf8", "ascii", "ansi_x3.41968", "usascii")
            with suppress(OSError, ValueError):
                reconfigure(encoding="utf-8" if utf8 else None, errors="backslashreplace", newline="\n")


def silence_stdout() -> None:
    """The reader is gone: what is still buffered goes nowhere, and the interpreter's exit does not complain."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        return
