"""Where an answer's text goes: as it comes, as rendered Markdown, as one fenced block, or nowhere. Nothing else is
written to stdout while a question is answered, but JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol

from ..answer import fenced
from ..terminal.page import Page
from . import render
from .manner import Manner


class Paper(Protocol):
    def feed(self, text: str) -> None: ...

    def rest(self) -> None:
        """Show what is kept back, and end the line: something else is going to be said, or the answer has ended."""

    def end(self) -> None:
        """The answer is whole."""

    @property
    def growing(self) -> bool:
        """Whether text has come that is not shown yet."""


def paper(manner: Manner, *, before: Callable[[], None]) -> Paper:
    """``before`` is called ahead of everything that is written."""
    if manner.json or manner.events:
        return Nowhere()
    if manner.extract or manner.data:
        return Held(manner, before=before)
    return Rendered(manner, before=before) if manner.rendered else AsItComes(before=before)


class Nowhere:
    growing = False

    def feed(self, text: str) -> None:
        return

    rest = end = lambda self: None


class AsItComes:
    """The bytes as received. On a terminal an answer's own last newlines become one."""

    growing = False

    def __init__(self, *, before: Callable[[], None]) -> None:
        self._before = before
        self._tty = sys.stdout.isatty()
        self._began = self._ended = False
        self._owed = ""

    def feed(self, text: str) -> None:
        if self._tty:
            text = self._owed + text
            self._owed = text[len(text.rstrip("\n")) :]
            text = text.rstrip("\n")
        if text:
            self._before()
            render.write(text)
            self._began, self._ended = True, text.endswith("\n")

    def rest(self) -> None:
        if self._began and not self._ended:
            self._ended = True
            render.write("\n")

    end = rest


class Rendered:
    def __init__(self, manner: Manner, *, before: Callable[[], None]) -> None:
        self._page = Page(render.put, manner.out, before=before)

    @property
    def growing(self) -> bool:
        return self._page.growing

    def feed(self, text: str) -> None:
        self._page.feed(text)

    def rest(self) -> None:
        self._page.end()

    end = rest


class Held:
    """Nothing until the answer is whole; then one block of it, or all."""

    growing = False

    def __init__(self, manner: Manner, *, before: Callable[[], None]) -> None:
        self._manner, self._before = manner, before
        self._text: list[str] = []

    def feed(self, text: str) -> None:
        self._text.append(text)

    def rest(self) -> None:
        return

    def end(self) -> None:
        text = "".join(self._text)
        blocks = fenced(text)
        if self._manner.data:
            # the JSON alone, which a model may have put into a fence
            text = blocks[0] if len(blocks) == 1 and text.lstrip().startswith(("```", "~~~")) else text
        elif blocks:
            text = blocks[-1 if self._manner.extract == "last" else 0]
        else:
            render.note("the answer has no fenced block; this is all of it")
        self._before()
        if text:
            render.write(text if text.endswith("\n") else text + "\n")
