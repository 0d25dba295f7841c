"""An answer on a real terminal: Markdown block by block, nothing redrawn, one line that moves and is wiped."""

from __future__ import annotations

import http.server
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from fcntl import ioctl
from typing import Any

import pyte
import pytest

MARKDOWN = "# Title\n\nSome **bold** text.\n\n```python\nprint('x')\n```\n\n- one\n- two\n\n![pic](http://e.x/p.png)\n"
ESCAPE = re.compile(rb"\x1b\[[\d;]*m")


class Screen:
    """A real pseudo-terminal, and what a person would see on it."""

    def __init__(self, rows: int = 12, columns: int = 60) -> None:
        self.ours, self.theirs = pty.openpty()
        ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.size = (columns, rows)
        self.raw = b""

    def drain(self, child: subprocess.Popen[bytes]) -> bytes:
        os.close(self.theirs)
        while True:
            try:
                data = os.read(self.ours, 65536)
            except OSError:
                break
            if not data:
                break
            self.raw += data
        child.wait(timeout=20)
        return self.raw

    @property
    def lines(self) -> list[str]:
        """Everything that was ever shown, scrolled away or not, as it was left."""
        screen = pyte.HistoryScreen(*self.size, history=5000, ratio=0.5)
        pyte.ByteStream(screen).feed(self.raw)
        history = ["".join(line[column].data for column in range(self.size[0])).rstrip() for line in screen.history.top]
        return [*history, *(line.rstrip() for line in screen.display)]


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    os.close(made.ours)


def ask(machine: Any, screen: Screen, *arguments: str, both: bool = True, **env: str) -> bytes:
    child = machine.start(
        "ask",
        *arguments,
        env={"TERM": "xterm", **env},
        stdout=screen.theirs,
        **({"stderr": screen.theirs} if both else {}),
    )
    return screen.drain(child)


def trimmed(lines: list[str]) -> list[str]:
    return "\n".join(lines).strip("\n").split("\n")


def test_markdown_is_rendered_on_a_terminal(machine: Any, screen: Screen, api: str) -> None:
    machine.config("a/m", api=api)
    machine.loopback.script("m", {"text": MARKDOWN})
    ask(machine, screen, "hi")
    assert trimmed(screen.lines) == [
        *("Title", "", "Some bold text.", ""),
        *("```python", "print('x')", "```", "", " • one", " • two", "", "pic (http://e.x/p.png)"),
    ]
    assert b"\x1b[1m" in screen.raw


def test_an_answer_longer_than_the_screen_is_shown_once(machine: Any, screen: Screen) -> None:
    machine.config("a/m")
    text = "\n\n".join(f"Paragraph {number} 🎈 漢字." for number in range(60))
    machine.loopback.script("m", {"text": text, "tokens": 400})
    ask(machine, screen, "hi")
    shown = [line.replace(" ", "") for line in screen.lines if line.startswith("Paragraph")]
    assert shown == [f"Paragraph{number}🎈漢字." for number in range(60)]
    assert b"\x1b[A" not in screen.raw
    assert b"\x1b[2J" not in screen.raw


def test_while_a_block_grows_a_line_says_so_and_is_wiped(machine: Any, screen: Screen) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"tokens": 12, "delay": 0.1})
    ask(machine, screen, "hi")
    assert "writing…".encode() in screen.raw
    assert " ".join(trimmed(screen.lines)) == " ".join(f"word{number}" for number in range(1, 13))
    assert not any("writing" in line or "⠋" in line for line in screen.lines)


def test_a_wait_names_the_route_and_the_target_and_is_wiped(machine: Any, screen: Screen) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"wait": 1.2, "text": "late"})
    ask(machine, screen, "hi")
    assert re.search("chat → a/m \\d".encode(), screen.raw)
    assert trimmed(screen.lines) == ["late"]


def test_nothing_moves_where_stderr_is_no_terminal(machine: Any, screen: Screen) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"wait": 0.8, "text": "late"})
    assert ask(machine, screen, "hi", both=False) == b"late\r\n"
    assert machine.ask("hi").err == ""


@pytest.mark.parametrize(
    ("arguments", "env", "escapes", "rendered"),
    [
        ((), {"NO_COLOR": "1"}, False, True),
        ((), {"TERM": "dumb"}, False, False),
        (("--color", "never"), {}, False, True),
        (("--color", "always"), {"NO_COLOR": "1"}, True, True),
        (("--render", "never"), {}, False, False),
        ((), {}, True, True),
    ],
    ids=["NO_COLOR", "dumb", "never", "always", "source", "auto"],
)
def test_colour_and_rendering_are_as_asked(
    machine: Any, screen: Screen, arguments: tuple[str, ...], env: dict[str, str], escapes: bool, rendered: bool
) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": MARKDOWN, "wait": 0.4})
    ask(machine, screen, *arguments, "hi", **env)
    assert (b"\x1b" in screen.raw) is escapes
    assert ("Some bold text." in screen.lines, "Some **bold** text." in screen.lines) == (rendered, not rendered)


def test_a_pipe_gets_the_source_unless_rendering_is_asked_for(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": MARKDOWN})
    assert machine.ask("hi", env={"TERM": "xterm"}).out == MARKDOWN
    rendered = machine.ask("--render", "always", "hi", env={"COLUMNS": "40"}).out
    assert "Some bold text.\n" in rendered
    assert "\x1b" not in rendered


def test_an_answer_that_breaks_off_is_shown_as_far_as_it_came(machine: Any, screen: Screen) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"tokens": 60, "cut_after": 5, "cut": "rst"})
    ask(machine, screen, "hi")
    lines = trimmed(screen.lines)
    assert lines[0] == "word1 word2 word3 word4 word5"
    assert lines[1].startswith("routekit: ")


def test_model_text_sends_no_escape_through_rendering(machine: Any, screen: Screen) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": "a\x1b]0;title\x07b\x1b[2Jc **d\x9b31m** `e\x1b[5m`"})
    ask(machine, screen, "hi")
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", ESCAPE.sub(b"", screen.raw))


def test_reasoning_is_dim_and_apart(machine: Any, screen: Screen) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": "**yes**", "reasoning": "let me see"})
    ask(machine, screen, "hi")
    assert b"\x1b[2mlet me see\x1b[22m" in screen.raw
    assert trimmed(screen.lines) == ["let me see", "yes"]


@pytest.fixture
def slow_site() -> Iterator[str]:
    """A vendor that takes its time to list its models."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(1)
            body = b'{"data": [{"id": "m"}]}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_a_long_fetch_shows_that_it_goes_on_and_leaves_its_lines_alone(
    machine: Any, screen: Screen, slow_site: str
) -> None:
    machine.config("a/m", providers=machine.providers(names="ab", base_url=slow_site))
    child = machine.start("models", "refresh", env={"TERM": "xterm"}, stdout=screen.theirs, stderr=screen.theirs)
    screen.drain(child)
    assert b"asking a, b " in screen.raw
    assert not any("asking" in line for line in screen.lines)
    assert len([line for line in trimmed(screen.lines) if line.startswith(("a: ", "b: "))]) == 2
