"""Cells rewritten so that a prompt reaches the magic as it was typed. Pure, and blind to every line that is not ours.

IPython would take a question's final ``?`` for a request for help, and strip ``>>>`` from the text below ``%%route``.
So both forms become plain calls before it looks: ``%route what's up?`` → ``get_ipython().run_line_magic('route', …)``.
"""

from __future__ import annotations

import re

_TARGET = r"[^\W\d][\w.]*(?:\[[^\]\n]*\])?(?:[ \t]*:[ \t]*[\w.\[\], |]+?)?[ \t]*=[ \t]*"
_OURS = re.compile(rf"(?P<lead>[ \t]*(?:{_TARGET})*)%(?P<name>routekit|route)[ \t](?P<rest>.*)", re.DOTALL)
#: lines that IPython reads by rules of its own; what is quoted in them is not Python
_ESCAPED = re.compile(rf"[ \t]*(?:{_TARGET})*[%!]|[ \t]*[?,;/](?![ \t]|$)")
_CELL = re.compile(r"%%route(?:[ \t](?P<line>.*))?\s*", re.DOTALL)
_QUOTE = re.compile(r"'''|\"\"\"|'|\"")


def cell(lines: list[str]) -> list[str]:
    """``%%route …`` with all below it as one call. To run before IPython's own clean-up, which would touch the body."""
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    found = _CELL.fullmatch(lines[first]) if first is not None else None
    if first is None or not found:
        return lines
    line = (found["line"] or "").rstrip("\r\n")
    body = "".join(lines[first + 1 :])
    return [f"get_ipython().run_cell_magic('route', {line!r}, {body!r})\n"]


# Whether a cell is complete is judged by its typed lines: one call would always be.
cell.has_side_effects = True  # type: ignore[attr-defined]


def statements(lines: list[str]) -> list[str]:
    """Every line of the form ``[indent][target =] %route …`` as a call; all other lines as they are. Lines inside a
    string, a bracket or a continued statement are not ours, and no cell that is another magic's is."""
    if not any("%route" in line for line in lines) or next((x for x in lines if x.strip()), "").lstrip().startswith(
        "%%"
    ):
        return lines
    place = Place()
    done: list[str] = []
    at = 0
    while at < len(lines):
        found = _OURS.match(lines[at]) if place.fresh else None
        if found:
            rest, at = _whole(lines, at, found["rest"])
            text, end = _cut_newline(rest)
            done.append(f"{found['lead']}get_ipython().run_line_magic({found['name']!r}, {text!r}){end}")
        else:
            place.pass_over(lines[at])
            done.append(lines[at])
            at += 1
    return done


def _whole(lines: list[str], at: int, rest: str) -> tuple[str, int]:
    """The text of a line to its real end, and the number of the next one. IPython cuts lines also where Python does
    not (form feed, U+2028); an odd backslash at the end joins the next line, as for any magic, if there is one."""
    at += 1
    while at < len(lines):
        text, end = _cut_newline(rest)
        if end and not _continues(text):
            break
        rest = (text[:-1].rstrip() + " " if end else text) + lines[at]
        at += 1
    return rest, at


def _cut_newline(text: str) -> tuple[str, str]:
    bare = text.rstrip("\r\n") if text.endswith(("\n", "\r")) else text
    return (bare, text[len(bare) :]) if bare != text else (text, "")


def _continues(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


class Place:
    """Where in Python's text a line begins: ``fresh`` is the beginning of a statement. A scanner of its own, since
    ``tokenize`` fails on the other IPython lines of a cell, and differently in each Python version."""

    def __init__(self) -> None:
        self._quote = ""
        self._depth = 0
        self._continued = False
        self._escaped = False

    @property
    def fresh(self) -> bool:
        return not (self._quote or self._depth or self._continued or self._escaped)

    def pass_over(self, line: str) -> None:
        text, _ = _cut_newline(line)
        if self._escaped or (self.fresh and _ESCAPED.match(line)):
            self._escaped = _continues(text)
            return
        at = 0
        comment = False
        while at < len(text) and not comment:
            at, comment = self._in_string(text, at) if self._quote else self._in_code(text, at)
        ends_open = _continues(text) and not comment
        if len(self._quote) == 1 and not ends_open:
            # A quote left open on its line is an error of that line alone.
            self._quote = ""
        self._continued = ends_open and not self._quote

    def _in_string(self, text: str, at: int) -> tuple[int, bool]:
        if text[at] == "\\":
            return at + 2, False
        if text.startswith(self._quote, at):
            at += len(self._quote)
            self._quote = ""
            return at, False
        return at + 1, False

    def _in_code(self, text: str, at: int) -> tuple[int, bool]:
        found = _QUOTE.match(text, at)
        if found:
            self._quote = found[0]
            return found.end(), False
        if text[at] in "([{":
            self._depth += 1
        elif text[at] in ")]}":
            self._depth = max(0, self._depth - 1)
        return at + 1, text[at] == "#"
