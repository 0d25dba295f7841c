"""How much a stream may be given: colour, rendered Markdown, moving lines; and what it must never see.

It writes nothing.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from ..core.value import Value

#: what a terminal must not see from a model or vendor: control characters (tab and newline stay), and those that have
#: text shown in another order than it is written in
_REORDERING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_STRIP = {code: None for code in (*range(0x20), *range(0x7F, 0xA0), *_REORDERING) if code not in (0x09, 0x0A)}


#: columns where nothing says how many there are
USUAL = 80


class Look(Value):
    """``colour``: escape sequences are allowed at all. ``render``: Markdown is shown, not its source. ``moves``: a line
    may be written over (spinner, "writing…")."""

    colour: bool = False
    render: bool = False
    moves: bool = False
    width: int = USUAL


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
    if re.fullmatch("[0-9]{1,5}", said) and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL
    except (OSError, ValueError):
        return USUAL


def stripped(text: str) -> str:
    """The text without control characters but newline and tab."""
    return text.translate(_STRIP)


def safe(text: str, stream: Any) -> str:
    """The text as that stream may show it: on a terminal without control characters, elsewhere as it is."""
    return stripped(text) if stream.isatty() else text
