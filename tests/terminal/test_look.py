"""What a stream may be given: by what it is, by the environment, by what the person says. And the line that moves."""

from __future__ import annotations

import io
from typing import Any

import pytest

from routekit.terminal.look import Look, look
from routekit.terminal.waiting import Waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("tty", "environ", "said", "coloured", "rendered"),
    [
        (True, {"TERM": "xterm"}, {}, True, True),
        (False, {"TERM": "xterm"}, {}, False, False),
        (True, {"TERM": "dumb"}, {}, False, False),
        (True, {"TERM": "xterm", "NO_COLOR": "0"}, {}, False, True),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, {}, True, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, {"colour": "always"}, True, True),
        (True, {"TERM": "xterm"}, {"colour": "never"}, False, True),
        (True, {"TERM": "xterm"}, {"render": "never"}, True, False),
        (False, {}, {"render": "always"}, False, True),
        (False, {}, {"render": "always", "colour": "always"}, True, True),
    ],
)
def test_what_a_stream_may_be_given(
    tty: bool, environ: dict[str, str], said: dict[str, str], coloured: bool, rendered: bool
) -> None:
    found = look(Terminal() if tty else io.StringIO(), environ, **said)
    assert (found.colour, found.render) == (coloured, rendered)


def waiting(now: list[float], what: str = "chat", **more: Any) -> tuple[Terminal, Waiting]:
    out = Terminal()
    return out, Waiting(out, Look(**{"moves": True, "width": 40, **more}), what, clock=lambda: now[0])


def test_nothing_is_said_of_a_short_wait() -> None:
    now = [0.0]
    out, line = waiting(now)
    now[0] = 0.29
    line.pulse()
    assert out.getvalue() == ""
    now[0] = 0.31
    line.pulse()
    assert "chat 0.3s" in out.getvalue()


def test_the_line_is_wiped_without_escape_sequences() -> None:
    now = [0.0]
    out, line = waiting(now, "x" * 100)
    now[0] = 1.0
    line.pulse()
    line.wipe()
    assert "\x1b" not in out.getvalue()
    shown = out.getvalue().split("\r")
    assert len(shown[1]) == 39
    assert shown[2] == " " * 39
    assert shown[3] == ""
    line.wipe()
    assert out.getvalue().endswith("\r")


def test_a_stopped_line_and_one_that_may_not_move_say_nothing() -> None:
    now = [0.0]
    for out, line in (waiting(now, moves=False), waiting(now)):
        if line._look.moves:
            line.stop()
        now[0] = 5.0
        line.pulse()
        assert out.getvalue() == ""
