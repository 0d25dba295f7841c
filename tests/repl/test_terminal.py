"""`routekit chat` as a person meets it: a real process on a real terminal, and one that is fed by a pipe."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest

from tests.loopback import Loopback

SIZE = (24, 90)
CONFIG = """
version = 1
[defaults]
route = "chat"
[limits]
first_output = "20s"
stall = "20s"
[providers.a]
api = "openai-chat"
base_url = "{url}"
key = "env:KEY_A"
models = ["m", "other"]
[routes.chat]
targets = ["a/m"]
"""
Start = Callable[..., "Window"]


class Window:
    """A terminal of its own, drawn by pyte as a terminal draws it."""

    def __init__(self, *arguments: str, env: dict[str, str], cwd: Path) -> None:
        self.screen = pyte.Screen(SIZE[1], SIZE[0])
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.child: Any = pexpect.spawn(
            sys.executable, ["-m", "routekit", *arguments], env=env, cwd=str(cwd), dimensions=SIZE, timeout=20
        )

    def type(self, keys: str) -> None:
        self.child.send(keys)

    def read(self) -> None:
        try:
            data = self.child.read_nonblocking(65536, timeout=0.05)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return
        self.raw += data
        self._stream.feed(data)
        # prompt-toolkit asks where the cursor is, as every terminal can tell
        if b"\x1b[6n" in data:
            self.child.send(f"\x1b[{self.screen.cursor.y + 1};{self.screen.cursor.x + 1}R")

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def until(self, seen: str, *, seconds: float = 25) -> list[str]:
        """Wait until the screen shows it; the screen's lines."""
        end = time.monotonic() + seconds
        while not re.search(seen, "\n".join(self.lines), re.MULTILINE):
            assert time.monotonic() < end, "\n".join(self.lines)
            self.read()
        return self.lines

    def ended(self) -> tuple[int | None, int | None]:
        end = time.monotonic() + 25
        while self.child.isalive():
            assert time.monotonic() < end, "\n".join(self.lines)
            self.read()
        self.child.close()
        return self.child.exitstatus, self.child.signalstatus


@pytest.fixture
def environ(home: Path, loopback: Loopback) -> dict[str, str]:
    place = home / "rk"
    place.mkdir(mode=0o700)
    file = place / "config.toml"
    file.write_text(CONFIG.format(url=loopback.url("openai-chat")))
    file.chmod(0o600)
    return {**os.environ, "ROUTEKIT_HOME": str(place), "KEY_A": "sk-canary-0000", "TERM": "xterm-256color"}


@pytest.fixture
def start(environ: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    made: list[Window] = []

    def open_(*arguments: str, **env: str) -> Window:
        made.append(Window(*arguments, env={**environ, **env}, cwd=tmp_path))
        return made[-1]

    yield open_
    for one in made:
        one.child.close(force=True)


def test_the_demo_talks_on_a_terminal(start: Start) -> None:
    window = start("--profile", "demo", "chat")
    lines = window.until(r"^demo ❯[\s\S]*^demo → demo-primary/model$")
    assert "demo · ordered over 2 candidates · /help" in lines
    window.type("hello\r")
    window.until(r"You asked: hello[\s\S]*^demo ❯$")
    lines = window.until("1 cooling")
    assert lines[-1].startswith("demo → demo-backup/model │ 1 cooling │ ")
    assert any(line.startswith("routekit: demo → demo-backup/model (demo-primary/model: 503") for line in lines)
    window.type("/mod\t")
    window.until("^demo ❯ /model$")
    window.type("\x03/why\r")
    window.until("^served by demo-backup/model in")
    window.type("\x04")
    assert window.ended() == (0, None)


def test_ctrl_c_stops_the_answer_and_the_next_question_carries_what_came(start: Start, loopback: Loopback) -> None:
    loopback.script("m", {"tokens": 400, "delay": 0.02}, {"text": "whole"})
    window = start("chat", "--render", "never")
    window.until("^chat ❯")
    window.type("one\r")
    window.until("word3")
    window.type("\x03")
    began = time.monotonic()
    assert loopback.wait_for(lambda server: server.requests[0].closed_at is not None)
    assert time.monotonic() - began < 1.0
    window.until("^routekit: stopped; what came is kept$")
    window.until("^chat ❯$")
    window.type("two\r")
    window.until("^whole$")
    roles = [(one["role"], one["content"]) for one in loopback.requests[1].body["messages"]]
    assert [role for role, _ in roles] == ["user", "assistant", "user"]
    assert roles[1][1].startswith("word1 word2 word3")
    assert roles[1][1].endswith("[this answer was cut short]")
    window.type("\x04")
    assert window.ended() == (0, None)


def test_ctrl_c_before_the_first_byte_stops_it_too(start: Start, loopback: Loopback) -> None:
    loopback.script("m", {"hang": "accept"}, {"text": "whole"})
    window = start("chat")
    window.until("^chat ❯")
    window.type("one\r")
    assert loopback.wait_for(lambda server: len(server.requests) == 1, 20)
    window.type("\x03")
    window.until("^routekit: stopped before anything came$")
    assert loopback.wait_for(lambda server: server.requests[0].closed_at is not None)
    window.type("two\r")
    window.until("^whole$")
    assert [one["content"] for one in loopback.requests[1].body["messages"]] == ["two"]


def test_what_is_typed_while_an_answer_comes_waits_for_its_end(start: Start, loopback: Loopback) -> None:
    loopback.script("m", {"tokens": 40, "delay": 0.02}, {"text": "whole"})
    window = start("chat", "--render", "never")
    window.until("^chat ❯")
    window.type("one\r")
    window.until("word3")
    window.type("two\r")
    lines = window.until("^whole$")
    assert loopback.requests[1].body["messages"][-1]["content"] == "two"
    assert " ".join(line for line in lines if line.startswith("word")).count("two") == 0


def test_markdown_is_shown_block_by_block_and_a_vendors_escapes_never(start: Start, loopback: Loopback) -> None:
    loopback.script("m", {"text": "# Title\n\nSome `code` and \x1b]0;owned\x07 more.\n"})
    window = start("chat")
    window.until("^chat ❯")
    window.type("one\r")
    lines = window.until("more")
    assert "Title" in lines
    assert "# Title" not in lines
    assert b"\x1b]0;owned" not in window.raw


@pytest.mark.parametrize("term", ["dumb"])
def test_a_dumb_terminal_gets_plain_lines(start: Start, loopback: Loopback, term: str) -> None:
    loopback.script("m", {"text": "whole"})
    window = start("chat", TERM=term)
    window.until("^chat ❯")
    window.type("one\r")
    window.until("^whole$")
    window.type("\x04")
    assert window.ended() == (0, None)
    assert b"\x1b" not in window.raw
    assert "WARNING" not in window.raw.decode()


def test_no_bottom_line_where_the_config_says_so(start: Start, environ: dict[str, str]) -> None:
    with (Path(environ["ROUTEKIT_HOME"]) / "config.toml").open("a") as file:
        file.write("[repl]\ntoolbar = false\n")
    window = start("chat")
    assert not any("→" in line for line in window.until("^chat ❯"))


# --- fed by a pipe ----------------------------------------------------------------------------------------------------


def test_lines_of_a_pipe_are_messages_and_stdout_carries_answers_alone(cli: Any, environ: dict[str, str]) -> None:
    done = cli("--profile", "demo", "chat", stdin="hello\n/modle\ntwo\\\nlines\n", env=environ)
    assert done.returncode == 0
    assert done.stdout == "Hello from the demo. You asked: hello\nHello from the demo. You asked: two lines\n"
    assert "unknown command /modle; did you mean /model?" in done.stderr
    assert "WARNING" not in done.stderr
    assert "❯" not in done.stderr


def test_a_mistyped_command_sends_nothing(cli: Any, environ: dict[str, str], loopback: Loopback) -> None:
    done = cli("chat", stdin="/modle\n", env=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert loopback.requests == []
    assert loopback.connections == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [(("-m", "nobody"), 2, "nobody"), (("--only", "nobody"), 2, "nobody"), (("--cid", "nobody"), 2, "nobody")],
)
def test_what_cannot_work_is_said_before_the_first_question(
    cli: Any, environ: dict[str, str], arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = cli("chat", *arguments, stdin="hello\n", env=environ)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr


def test_without_any_config_chat_says_what_to_do(cli: Any) -> None:
    assert cli("chat", stdin="hello\n").returncode == 78


def test_piped_chat_loads_no_prompt_toolkit_and_a_prompt_loads_no_sdk(cli: Any, start: Start, tmp_path: Path) -> None:
    dear = {"openai", "anthropic", "httpx2", "pydantic", "keyring", "rich", "IPython"}
    done = cli("--profile", "demo", "chat", stdin="hello\n", python=("-X", "importtime"))
    loaded = set(re.findall(r"\|\s*([\w]+)\S*$", done.stderr, re.MULTILINE))
    assert "routekit" in loaded
    assert not loaded & (dear | {"prompt_toolkit"})
    report = tmp_path / "loaded"
    window = start("--profile", "demo", "chat", PYTHONPROFILEIMPORTTIME="1")
    window.until("^demo ❯")
    report.write_bytes(window.raw)
    loaded = set(re.findall(r"\|\s*([\w]+)\S*\r?$", report.read_text(), re.MULTILINE))
    assert "prompt_toolkit" in loaded
    assert not loaded & dear
