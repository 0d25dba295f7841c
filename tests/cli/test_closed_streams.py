"""Streams that are closed, full, or without a reader: the answer where it can go, words where they can, a code."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMANDS = ("--version", "--help", "ask --help", "ask hi", "ask --json hi", "config path", "models list", "why")


@pytest.fixture
def shell(machine: Any) -> Any:
    """``shell("ask hi", ">&-")`` runs the command with those redirections."""
    machine.config("a/m")

    def run(command: str, redirections: str) -> Any:
        line = f"{shlex.quote(sys.executable)} -m routekit {command} {redirections}"
        return subprocess.run(
            ["sh", "-c", line],
            env=machine.environ(),
            cwd=machine.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return run


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("stream", [">&-", "</dev/null >&-"])
def test_a_closed_output_is_74_in_words(shell: Any, machine: Any, command: str, stream: str) -> None:
    if command == "why":
        assert machine.ask("hi").code == 0
        machine.loopback.reset()
    done = shell(command, stream)
    assert done.returncode == 74
    assert done.stderr == "routekit: standard output cannot be written: it is closed\n"
    # nothing is paid for that nobody could read
    assert machine.loopback.requests == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is full")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_output_is_74_in_words(shell: Any, command: str) -> None:
    if command == "why":
        assert shell("ask hi", "").returncode == 0
    done = shell(command, ">/dev/full")
    assert done.returncode == 74
    assert "standard output cannot be written: No space left on device" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("streams", ["2>&-", "2>&- <&-"])
def test_with_closed_errors_the_answer_arrives(shell: Any, command: str, streams: str) -> None:
    if command == "why":
        assert shell("ask hi", "").returncode == 0
    done = shell(command, streams)
    assert done.returncode == 0
    assert done.stdout.strip()


def test_what_is_opened_first_is_not_written_into(shell: Any, machine: Any) -> None:
    for streams in ("2>&-", ">&-", "<&- >&- 2>&-"):
        shell("ask hi", streams)
        shell("nonsense", streams)
    for file in Path(machine.home).iterdir():
        assert b"routekit: " not in file.read_bytes()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_left_is_141_without_a_word(machine: Any, command: str) -> None:
    machine.config("a/m")
    if command == "why":
        assert machine.ask("hi").code == 0
    out, into = os.pipe()
    os.close(out)
    try:
        done = machine.run(*command.split(), stdout=into)
    finally:
        os.close(into)
    assert done.code == 141
    assert "Traceback" not in done.err
    assert "bug" not in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (("nonsense", "--json"), 2, "usage"),
        (("ask", "--json", "--nonsense", "hi"), 2, "usage"),
        (("ask", "--timeout", "x", "--json", "hi"), 2, "usage"),
        (("ask", "--json", "-m"), 2, "usage"),
        (("keys", "list", "extra", "--json"), 2, "usage"),
        (("models", "list", "--json", "--nonsense"), 2, "usage"),
    ],
)
def test_json_is_printed_for_a_misused_command_too(machine: Any, arguments: Any, code: int, kind: str) -> None:
    machine.config("a/m")
    done = machine.run(*arguments)
    assert done.code == code
    error = json.loads(done.out)["error"]
    assert (error["class"], error["exit_code"]) == (kind, code)
    assert error["message"] in done.err
    assert error["try"]


def test_json_is_printed_for_a_fault_of_our_own_too() -> None:
    script = (
        "import sys; from routekit.cli import boundary, render\n"
        "def work(): raise KeyError('secret words')\n"
        "sys.exit(boundary.guarded(['ask', sys.argv[1]], work))"
    )
    for form in ("--json", "--jsonl"):
        done = subprocess.run([sys.executable, "-c", script, form], capture_output=True, text=True, check=False)
        assert done.returncode == 70
        error = json.loads(done.stdout)["error"]
        assert (error["class"], error["message"]) == ("bug", "a bug in routekit: KeyError")
        assert "secret words" not in done.stdout + done.stderr
