"""How much a stream may be given: colour, rendered Markdown, moving lines; and what it must never see.

It writes nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from ..core.value import Value

#: control characters a terminal must not see from a model or vendor; tab and newline stay
_STRIP = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}


class Look(Value):
    """``colour``: escape sequences are allowed at all. ``render``: Markdown is shown, not its source. ``moves``: a line
    may be written over (spinner, "writing…")."""

    colour: bool = False
    render: bool = False
    moves: bool = False
    width: int = 80


def look(stream: TextIO, environ: Mapping[str, str], *, colour: str = "auto", render: str = "auto") -> Look:
    """``colour`` and ``render`` are ``auto``, ``always`` or ``never``. A dumb terminal gets neither."""
    tty = stream.isatty()
    # Consoles of Windows have no TERM; elsewhere one that is not named can do nothing.
    able = tty and environ.get("TERM", "" if sys.platform == "win32" else "dumb") != "dumb"
    coloured = {"always": True, "never": False}.get(colour, able and not environ.get("NO_COLOR"))
    rendered = {"always": True, "never": False}.get(render, able)
    return Look(colour=coloured, render=rendered, moves=able, width=columns(stream, environ))


def columns(stream: TextIO, environ: Mapping[str, str]) -> int:
    """The width to wrap at: the terminal's, or as ``COLUMNS`` says, or 80."""
    said = environ.get("COLUMNS", "")
    if said.isdigit() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


def stripped(text: str) -> str:
    """The text without control characters but newline and tab."""
    return text.translate(_STRIP)


def safe(text: str, stream: Any) -> str:
    """The text as that stream may show it: on a terminal without control characters, elsewhere as it is."""
    return stripped(text) if stream.isatty() else text
