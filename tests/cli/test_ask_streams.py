"""What an answer looks like on a terminal and in a pipe, for each wire API: the answer's bytes and nothing else."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.loopback import answer


class Terminal:
    """A real pseudo-terminal for a child's stdout, and for its stderr where it is not told apart."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()

    def read(self, child: subprocess.Popen[bytes], seconds: float = 20.0) -> list[tuple[float, bytes]]:
        """Everything shown until the child has ended, each piece with its time."""
        os.close(self.theirs)
        pieces: list[tuple[float, bytes]] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ready, _, _ = select.select([self.ours], [], [], 0.1)
            try:
                data = os.read(self.ours, 65536) if ready else None
            except OSError:
                # the last holder of the other side is gone
                return pieces
            if data == b"":
                return pieces
            if data:
                pieces.append((time.monotonic(), data))
            elif child.poll() is not None and not ready:
                return pieces
        raise AssertionError("the terminal was not closed in time")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    os.close(made.ours)


def shown(machine: Any, terminal: Terminal, *arguments: str, env: Any = None, **more: Any) -> tuple[bytes, Any]:
    """(what the terminal was sent, the ended process). The text as it is, not as Markdown."""
    child = machine.start(
        "ask", "--render", "never", *arguments, env={"TERM": "xterm", **(env or {})}, stdout=terminal.theirs, **more
    )
    pieces = terminal.read(child)
    return b"".join(data for _, data in pieces), machine.finish(child)


def settled(text: bytes) -> bytes:
    """What stays on the terminal when the line that moves has been wiped."""
    return re.sub(rb"(\r[^\r\n]+)+\r +\r", b"", text)


def test_on_a_terminal_an_answer_arrives_piece_by_piece(machine: Any, terminal: Terminal, api: str) -> None:
    machine.config("a/m", api=api)
    machine.loopback.script("m", {"tokens": 6, "delay": 0.08})
    child = machine.start("ask", "--render", "never", "hi", stdout=terminal.theirs)
    pieces = terminal.read(child)
    assert machine.finish(child).code == 0
    assert b"".join(data for _, data in pieces) == answer(6).encode() + b"\r\n"
    assert len(pieces) >= 4
    assert pieces[-1][0] - pieces[0][0] > 0.2


def test_in_a_pipe_nothing_comes_before_the_answer_is_whole(machine: Any, api: str) -> None:
    machine.config("a/m", api=api)
    machine.loopback.script("m", {"tokens": 6, "delay": 0.1})
    child = machine.start("ask", "hi")
    machine.until(lambda: machine.loopback.requests and machine.loopback.requests[0].sent >= 3)
    assert select.select([child.stdout], [], [], 0)[0] == []
    done = machine.finish(child)
    assert (done.code, done.raw) == (0, answer(6).encode() + b"\n")


def test_stdout_holds_the_answers_bytes_and_one_newline(machine: Any, api: str) -> None:
    text = "  tab\there, Ünïcode 漢字 🎈, a \x1b[31mred\x1b[0m escape, \r\n trailing  "
    machine.config("a/m", api=api)
    machine.loopback.script("m", {"text": text, "reasoning": "hm, let me see"})
    done = machine.ask("hi")
    assert (done.code, done.raw, done.err) == (0, text.encode() + b"\n", "")


@pytest.mark.parametrize(("text", "bytes_"), [("end\n", b"end\n"), ("end\n\n\n", b"end\n\n\n"), ("\nx", b"\nx\n")])
def test_in_a_pipe_a_newline_is_added_only_where_it_is_missing(machine: Any, text: str, bytes_: bytes) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": text})
    assert machine.ask("hi").raw == bytes_


def test_stream_makes_a_pipe_live(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"tokens": 6, "delay": 0.15})
    child = machine.start("ask", "--stream", "hi")
    assert machine.read(child, 5) == b"word1"
    assert child.poll() is None
    assert machine.finish(child).raw == answer(6).encode()[5:] + b"\n"


def test_no_stream_holds_back_on_a_terminal(machine: Any, terminal: Terminal) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"tokens": 30, "delay": 0.05})
    child = machine.start("ask", "--render", "never", "--no-stream", "hi", stdout=terminal.theirs)
    pieces = terminal.read(child)
    assert b"".join(data for _, data in pieces) == answer(30).encode() + b"\r\n"
    # The vendor took 1.5 s over it.
    assert pieces[-1][0] - pieces[0][0] < 1


@pytest.mark.parametrize("text", ["two lines\nend\n\n\n", "two lines\nend", "two lines\nend\n"])
def test_on_a_terminal_there_is_exactly_one_final_newline(machine: Any, terminal: Terminal, text: str) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": text})
    assert shown(machine, terminal, "hi")[0] == b"two lines\r\nend\r\n"


def test_on_a_terminal_model_text_moves_no_cursor_and_sets_no_title(machine: Any, terminal: Terminal) -> None:
    machine.config("a/m")
    evil = "a\x1b]0;title\x07b\x1b[2Jc\x9b31md\x08e\rf\x00g\tt\nnext\x7f"
    machine.loopback.script("m", {"text": evil})
    assert shown(machine, terminal, "hi")[0] == b"a]0;titleb[2Jc31mdefg\tt\r\nnext\r\n"


def test_on_a_terminal_vendor_words_move_no_cursor(machine: Any, terminal: Terminal) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"status": 400, "body": {"error": {"message": "bad \x1b]0;x\x07 thing"}}})
    child = machine.start("ask", "hi", stderr=terminal.theirs)
    text = b"".join(data for _, data in terminal.read(child))
    assert machine.finish(child).code == 65
    assert b"\x1b" not in text
    assert b"bad ]0;x thing" in text


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_no_escape_reaches_a_terminal_that_wants_none(machine: Any, terminal: Terminal, env: dict[str, str]) -> None:
    machine.config("b/n", "a/m")
    machine.loopback.script("n", {"status": 503})
    machine.loopback.script("m", {"text": "the answer", "reasoning": "let me think"})
    text, _ = shown(machine, terminal, "hi", "-u", "-v", "--explain", env=env, stderr=terminal.theirs)
    assert b"let me think\r\nthe answer\r\n" in settled(text)
    assert b"\x1b" not in text


def test_reasoning_is_shown_apart_from_the_answer_and_never_on_stdout(machine: Any, terminal: Terminal) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": "the answer", "reasoning": "let me think"})
    both, _ = shown(machine, terminal, "hi", stderr=terminal.theirs)
    assert settled(both) == b"\x1b[2mlet me think\x1b[22m\r\nthe answer\r\n"


def test_reasoning_can_be_hidden(machine: Any, terminal: Terminal) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": "the answer", "reasoning": "let me think"})
    both, _ = shown(machine, terminal, "hi", "-R", stderr=terminal.theirs)
    assert settled(both) == b"the answer\r\n"


def test_an_answer_without_text_is_a_success_with_a_note(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": ""})
    done = machine.ask("hi")
    assert (done.code, done.raw.strip()) == (0, b"")
    assert "empty" in done.err


def test_a_console_that_cannot_show_a_character_gets_it_escaped(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": "café 漢"})
    done = machine.ask("hi", env={"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"})
    assert (done.code, done.raw) == (0, b"caf\xe9 \\u6f22\n")
