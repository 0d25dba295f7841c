"""Markdown cut into blocks while it comes: each is given out once, when it is complete. Pure; it renders nothing."""

from __future__ import annotations

import re

_FENCE = re.compile(r"\s*(?:[-*+]\s+|\d{1,9}[.)]\s+)?(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")
#: an item that may follow a paragraph's line without a blank one between
_INTERRUPTS = re.compile(r" {0,3}(?:[-*+]|1[.)])\s+\S")


class Blocks:
    """A block ends with a blank line outside a fence, with its fence, or with a heading's line. What stands below a
    list's item with an indent belongs to it, blank lines or not."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        #: the line that has not ended, in pieces: joining them each time would cost the square of a long one
        self._line: list[str] = []
        self._fence = ""
        self._done: list[str] = []

    @property
    def growing(self) -> bool:
        """Whether something has come that is not given out yet."""
        return bool(any(self._line) or any(line.strip() for line in self._lines))

    def feed(self, text: str) -> list[str]:
        """The blocks that this piece completes."""
        first, *more = text.split("\n")
        self._line.append(first)
        for rest in more:
            self._take("".join(self._line))
            self._line = [rest]
        return self._given()

    def end(self) -> list[str]:
        """All that is left: an answer may end within a block."""
        line = "".join(self._line)
        if line:
            self._take(line)
        self._line = []
        self._close()
        return self._given()

    def _given(self) -> list[str]:
        done, self._done = self._done, []
        return done

    def _close(self) -> None:
        lines, self._lines = self._lines, []
        while lines and not lines[-1].strip():
            lines.pop()
        while lines and not lines[0].strip():
            lines.pop(0)
        if lines:
            self._done.append("\n".join(lines))
        self._fence = ""

    @property
    def _in_list(self) -> bool:
        return bool(self._lines) and _ITEM.match(self._lines[0]) is not None

    def _take(self, line: str) -> None:
        if self._fence:
            self._fenced(line)
        elif not line.strip():
            self._blank()
        else:
            self._plain(line)

    def _fenced(self, line: str) -> None:
        self._lines.append(line)
        mark = line.strip()
        if mark and mark == mark[0] * len(mark) and mark.startswith(self._fence):
            self._fence = ""
            if not self._in_list:
                self._close()

    def _blank(self) -> None:
        # Only what follows tells whether a list's item goes on.
        self._lines.append("")
        if not self._in_list:
            self._close()

    def _plain(self, line: str) -> None:
        if self._lines and not self._lines[-1] and not line.startswith((" ", "\t")):
            self._close()
        found = _FENCE.fullmatch(line)
        opens = found is not None and not (found[1][0] == "`" and "`" in found[2])
        heading = _HEADING.match(line) is not None
        if (opens or heading or _INTERRUPTS.match(line)) and not self._in_list:
            self._close()
        self._lines.append(line)
        if opens and found is not None:
            self._fence = found[1]
        elif heading and not self._in_list:
            self._close()
