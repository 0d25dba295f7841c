"""What was typed: a message, a command, or something that goes on in the next line. Pure.

It never decides that something is a message because it is no command: what looks like a command is one, known or not.
"""

from __future__ import annotations

import re
from typing import Literal

from ..core.value import Value

_FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)")
_WORD = re.compile(r"\s*(?:(?P<quote>[\"'])(?P<inner>.*?)(?P=quote)(?=\s|$)|(?P<word>\S+))", re.DOTALL)
#: what fingers from `llm` type; a line that is none of these is a message
FINGERS = {"exit": "quit", "quit": "quit", "!edit": "edit", "!fragment": "file", "!multi": "multi"}


class Typed(Value):
    """``text`` is a message as it goes out; a command has its ``name`` (without the slash) and the ``rest`` of its
    line."""

    kind: Literal["nothing", "message", "command"]
    text: str = ""
    name: str = ""
    rest: str = ""


def read(text: str, *, literal: bool = False) -> Typed:
    """``literal``: a message whatever it looks like, as a paste of several lines is."""
    if not text.strip():
        return Typed(kind="nothing")
    said = text.strip()
    if literal:
        return Typed(kind="message", text=text)
    if said.startswith("//"):
        return Typed(kind="message", text=text.replace("//", "/", 1))
    if said.startswith("/"):
        name, rest = _parted(said[1:])
        return Typed(kind="command", name=name, rest=rest)
    name, rest = _parted(said)
    if name in FINGERS and "\n" not in said and (not rest or name.startswith("!")):
        return Typed(kind="command", name=FINGERS[name], rest=rest)
    return Typed(kind="message", text=text)


def _parted(said: str) -> tuple[str, str]:
    name, *rest = said.split(None, 1)[:2] or [""]
    # ``/`` and a blank name nothing
    return (name, rest[0] if rest else "") if not said[:1].isspace() else ("", said.strip())


def words(text: str) -> list[str]:
    """The words of a command's line, quotes around whole words taken off; an apostrophe inside one is a letter."""
    return [found["word"] if found["inner"] is None else found["inner"] for found in _WORD.finditer(text)]


def goes_on(text: str) -> bool:
    """Whether Enter here begins a new line: after a backslash, or in a fence that is still open."""
    return text.endswith("\\") or in_fence(text)


def joined(text: str) -> str:
    """The text with the backslash that asked for a new line taken off."""
    return text[:-1] if text.endswith("\\") and not in_fence(text) else text


def in_fence(text: str) -> bool:
    """Whether the text ends inside a fenced block. A fence closes with at least as many of its own marks."""
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if found is None:
            continue
        mark, info = found[1], found[2]
        if not fence:
            # ```code``` in one line is no fence
            fence = "" if mark[0] == "`" and "`" in info else mark
        elif mark.startswith(fence) and not info.strip():
            fence = ""
    return bool(fence)


def remembered(text: str) -> bool:
    """Whether a line belongs in the history file: commands do not, and a leading space keeps one out."""
    return bool(text.strip()) and not text.startswith((" ", "/"))
