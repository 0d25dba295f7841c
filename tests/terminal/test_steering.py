"""No text from elsewhere steers a terminal, whichever way it gets there: as an answer, an entity, a line that moves."""

from __future__ import annotations

import io

import pytest

from routekit.terminal.look import Look, safe, stripped
from routekit.terminal.page import Page
from routekit.terminal.waiting import Waiting

STEERING = [*"\x1b\x07\x08\x9b\r\x7f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("mark", STEERING)
def test_what_steers_is_taken_out(mark: str) -> None:
    assert stripped(f"a{mark}b") == "ab"
    assert safe(f"a{mark}b", Terminal()) == "ab"
    # elsewhere the bytes are the answer's
    assert safe(f"a{mark}b", io.StringIO()) == f"a{mark}b"


@pytest.mark.parametrize("mark", STEERING)
def test_the_line_that_moves_shows_nothing_that_steers(mark: str) -> None:
    stream, times = Terminal(), iter((0.0, 5.0, 5.0, 9.0, 9.0))
    line = Waiting(stream, Look(moves=True), "a", clock=lambda: next(times))
    # set beside the constructor, as a name that a vendor or a config says
    line.what = f"x{mark}y\nz"
    line.pulse()
    shown = stream.getvalue().lstrip("\r")
    assert "xy z" in shown
    assert not set(STEERING) & set(shown)


@pytest.mark.parametrize(
    "text",
    [
        "a &#27;[31mb&#x9b;c&#8238;d\n\n",
        "`&#27;[31m` \x1b[2J\n\n",
        "```\n\x1b]0;title\x07 &#27;\n```\n",
        "![x&#27;](http://h/&#27;[31m)\n\n",
        "[x](http://h/%1b[31m 'ti&#27;tle')\n\n",
        "# a&#27;b\n",
        "- a&#27;b\n\n",
        "| a&#27; | b |\n|---|---|\n| c&#8238; | d |\n\n",
        "<b>&#27;[31m</b>\n\n",
    ],
)
def test_a_page_shows_nothing_that_steers(text: str) -> None:
    shown: list[str] = []
    page = Page(shown.append, Look(render=True, colour=False))
    page.feed(text)
    page.end()
    assert not (set(STEERING) - {"\r"}) & set("".join(shown)), shown
