"""An answer on a terminal: Markdown, block by block, never redrawn. It writes where it is told to and nowhere else.

Rich is loaded when the first block is complete, not before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from .blocks import Blocks
from .look import Look, stripped

#: colours of the terminal's own palette, light or dark
THEME = "ansi_dark"
#: how much of an address is shown where it stands for a picture
SHOWN = 80


class Page:
    """``write`` takes text that may hold escape sequences of ours; a model's are taken out before. ``before`` is called
    ahead of each block, so that a line that moves can be wiped."""

    def __init__(self, write: Callable[[str], None], look: Look, *, before: Callable[[], None] = lambda: None) -> None:
        self._write, self._look, self._before = write, look, before
        self._blocks = Blocks()
        self._first = True

    @property
    def growing(self) -> bool:
        return self._blocks.growing

    @property
    def empty(self) -> bool:
        """Whether no block has been shown yet."""
        return self._first

    def feed(self, text: str) -> None:
        self._show(self._blocks.feed(stripped(text)))

    def end(self) -> None:
        """Show what is left, complete or not."""
        self._show(self._blocks.end())

    def _show(self, blocks: list[str]) -> None:
        for block in blocks:
            self._before()
            shown = self._painter.painted(block)
            self._write(shown if self._first else "\n" + shown)
            self._first = False

    @cached_property
    def _painter(self) -> Painter:
        return Painter(self._look)


class Painter:
    """Blocks of Markdown as lines for a terminal of one width. No line is padded, and code is never wrapped: what is
    selected with the mouse is what was said."""

    def __init__(self, look: Look) -> None:
        from io import StringIO

        from rich.console import Console
        from rich.theme import Theme

        self._out = StringIO()
        self._console = Console(
            file=self._out,
            width=look.width,
            force_terminal=look.colour,
            color_system="standard" if look.colour else None,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            # no background: the terminal's own is not known
            theme=Theme({"markdown.code": "cyan", "markdown.code_block": "cyan"}),
            _environ={},
        )
        self._markdown = _markdown_class()

    def painted(self, block: str) -> str:
        """One block, with a newline at its end."""
        fence = re.match(r" {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]*)", block)
        if fence:
            self._code(block, language=fence[2], mark=fence[1])
        else:
            self._console.print(self._markdown(block, code_theme=THEME, hyperlinks=False))
        text = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return _tidy(text)

    def _code(self, block: str, *, language: str, mark: str) -> None:
        """The fences stay, less bright: without colours they are what tells code from text."""
        from rich.syntax import Syntax
        from rich.text import Text

        head, _, body = block.partition("\n")
        inner, _, foot = body.rpartition("\n")
        if not foot.strip().startswith(mark):  # a fence that was never closed
            inner, foot = body, ""
        elif body == foot:
            inner = ""
        parts = [Text(head, style="dim")]
        if inner:
            painter = Syntax("", language or "text", theme=THEME, background_color="default")
            parts.append(painter.highlight(inner))
        parts += [Text(foot, style="dim")] if foot else []
        for part in parts:
            part.rstrip()
            self._console.print(part, soft_wrap=True)


def _tidy(text: str) -> str:
    """Whole lines without blanks at their ends, and none that is empty before the first or after the last."""
    lines = [_unpadded(line) for line in text.split("\n")]
    seen = [at for at, line in enumerate(lines) if _ESCAPE.sub("", line).strip()]
    return "\n".join(lines[seen[0] : seen[-1] + 1]) + "\n" if seen else "\n"


_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
_TAIL = re.compile(r"(?: |\x1b\[[\d;]*m)+$")


def _unpadded(line: str) -> str:
    return _TAIL.sub(lambda found: "".join(_ESCAPE.findall(found[0])), line)


def _markdown_class() -> Any:
    from rich import markdown
    from rich.syntax import Syntax

    class Heading(markdown.Heading):
        """At the left, as everything else."""

        def __rich_console__(self, console: Any, options: Any) -> Any:
            self.text.justify = "left"
            yield self.text

    class Code(markdown.CodeBlock):
        """Code within a list or a quotation: folded, since a line cut short would say something else."""

        def __rich_console__(self, console: Any, options: Any) -> Any:
            code = self.text.plain.rstrip()
            yield Syntax(code, self.lexer_name, theme=THEME, background_color="default", word_wrap=True)

    class Markdown(markdown.Markdown):
        elements = {  # noqa: RUF012
            **markdown.Markdown.elements,
            "heading_open": Heading,
            "fence": Code,
            "code_block": Code,
        }

        def __init__(self, text: str, **more: Any) -> None:
            super().__init__(text, **more)
            for token in self.parsed:
                token.content = stripped(token.content)
                if token.children:
                    token.children = [one for child in token.children for one in _adapted(child)]

    return Markdown


def _adapted(token: Any) -> list[Any]:
    """A picture as a link to it: its text, and where it is. The end of a line as one: models mean theirs."""
    # "&#27;" has become the character by now.
    token.content = stripped(token.content)
    if token.type == "softbreak":
        token.type = "hardbreak"
    if token.type != "image":
        return [token]
    made = type(token)
    to = stripped(str(token.attrs.get("src", "")))
    to = to if len(to) <= SHOWN else to[:SHOWN] + "…"
    return [
        made("link_open", "a", 1, attrs={"href": to}),
        made("text", "", 0, content=token.content or "image"),
        made("link_close", "a", -1),
    ]
