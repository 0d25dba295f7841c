"""Standard input as half of the prompt, and readers that go away before the answer ends."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest


def sent(machine: Any) -> Any:
    """The user's message as the vendor got it."""
    return machine.loopback.requests[-1].body["messages"][-1]["content"]


# -- in ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("piped", "words", "prompt"),
    [
        ("", ["one", "two"], "one two"),
        ("piped", [], "piped"),
        ("piped\n", ["words"], "piped\nwords"),
        ("piped\n\n\n", ["words"], "piped\nwords"),
        ("a\nb\n", [], "a\nb\n"),
        ("piped", ["-"], "piped"),
        ("piped", ["-", "words"], "piped\nwords"),
        ("  keep  \n", ["  my  spaces "], "  keep  \n  my  spaces "),
    ],
)
def test_the_prompt_is_the_pipe_a_newline_and_the_words(
    machine: Any, piped: str, words: list[str], prompt: str
) -> None:
    machine.config("a/m")
    assert machine.ask(*words, stdin=piped).code == 0
    assert sent(machine) == prompt


@pytest.mark.parametrize(
    "words",
    [
        """{"a": 1} {x} {{y}} }{ $HOME ${HOME} `id` \\n \\ "quoted" it's %s %(a)s {{ jinja }} {% if %} #!/bin/sh""",
        "@file -not-an-option; rm -rf / && echo 'x' | cat > y *.py ~ !! ? \t tab",
    ],
)
def test_a_prompt_is_taken_literally(machine: Any, words: str) -> None:
    machine.config("a/m")
    assert machine.ask("--", words).code == 0
    assert sent(machine) == words


def test_words_that_look_like_options_need_two_dashes(machine: Any) -> None:
    machine.config("a/m")
    assert machine.ask("--", "--json", "-m", "x").code == 0
    assert sent(machine) == "--json -m x"


def test_a_prompt_behind_two_dashes_changes_no_error(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"status": 400})
    done = machine.ask("--", "--json", "--debug")
    assert (done.code, done.out) == (65, "")
    assert "Traceback" not in done.err


def test_a_megabyte_goes_through_a_pipe(machine: Any) -> None:
    machine.config("a/m")
    text = "0123456789abcde\n" * 65536
    assert machine.ask("count", stdin=text).code == 0
    assert sent(machine) == text.rstrip("\n") + "\ncount"


def test_input_that_is_no_utf8_is_marked_and_said_so(machine: Any) -> None:
    machine.config("a/m")
    done = machine.ask("what?", stdin=b"caf\xe9 \xff ok \xc3\xa9")
    assert done.code == 0
    assert sent(machine) == "caf� � ok é\nwhat?"
    assert "not UTF-8" in done.err


def test_words_that_are_no_utf8_are_marked_and_said_so(machine: Any) -> None:
    machine.config("a/m")
    done = machine.ask(b"caf\xe9")
    assert done.code == 0, done.err
    assert sent(machine) == "caf�"
    assert "not UTF-8" in done.err


def test_words_keep_their_characters_in_a_c_locale(machine: Any) -> None:
    machine.config("a/m")
    done = machine.ask("Grüße 漢字", env={"LC_ALL": "C", "LANG": "C"})
    assert done.code == 0, done.err
    assert sent(machine) == "Grüße 漢字"


def test_a_pipe_left_open_is_spoken_of_soon(machine: Any) -> None:
    machine.config("a/m")
    child = machine.start("ask", "hi", stdin=subprocess.PIPE)
    machine.until(lambda: child.stdin is not None)
    began = time.monotonic()
    line = child.stderr.readline().decode()
    assert "--no-stdin" in line
    # A second of patience after start-up; 1.5 s on a machine that is not busy.
    assert time.monotonic() - began < 4
    assert machine.finish(child, data=b"late\n").code == 0
    assert sent(machine) == "late\nhi"


def test_a_pipe_is_not_looked_at_with_no_stdin(machine: Any) -> None:
    machine.config("a/m")
    child = machine.start("ask", "--no-stdin", "hi", stdin=subprocess.PIPE)
    child.wait(timeout=20)
    assert (child.returncode, child.stderr.read()) == (0, b"")
    assert sent(machine) == "hi"


def test_a_closed_standard_input_is_an_empty_one(machine: Any) -> None:
    machine.config("a/m")
    child = machine.start("ask", "hi", preexec_fn=lambda: os.close(0))
    assert machine.finish(child).code == 0
    assert sent(machine) == "hi"


# -- out ---------------------------------------------------------------------------------------------------------------


def lines(count: int) -> list[str]:
    """A chat stream of so many lines, a frame each, and its end."""
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def frame(delta: Any, finish: str | None = None) -> str:
        return f"data: {json.dumps({**chunk, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n"

    body = [frame({"content": f"line {number}\n"}) for number in range(count)]
    return [*body, frame({}, "stop"), "data: [DONE]\n\n"]


def into_head(machine: Any, *arguments: str, step: Any) -> tuple[bytes, int, bytes, float]:
    """``routekit ask … | head -1``: what head got, and how the ask ended and when."""
    machine.config("a/m", limits='stall = "30s"')
    machine.loopback.script("m", step)
    child = machine.start("ask", *arguments, "hi")
    head = subprocess.Popen(["head", "-1"], stdin=child.stdout, stdout=subprocess.PIPE)
    child.stdout.close()
    child.stdout = None
    out, _ = head.communicate(timeout=20)
    began = time.monotonic()
    code = child.wait(timeout=10)
    return out, code, child.stderr.read(), time.monotonic() - began


@pytest.mark.parametrize("end", ["clean", "hang"])
def test_a_reader_that_takes_one_line_of_3000_ends_it_quietly(machine: Any, end: str) -> None:
    out, code, err, took = into_head(machine, "--stream", step={"sse": lines(3000), "end": end})
    assert (out, code, err) == (b"line 0\n", 141, b"")
    assert took < 2


def test_a_reader_that_leaves_closes_the_upstream_and_is_recorded(machine: Any) -> None:
    machine.config("a/m", limits='stall = "30s"')
    machine.loopback.script("m", {"tokens": 3000, "delay": 0.01})
    child = machine.start("ask", "--stream", "hi")
    assert machine.read(child, 5) == b"word1"
    child.stdout.close()
    child.stdout = None
    assert child.wait(timeout=10) == 141
    assert child.stderr.read() == b""
    machine.until(lambda: machine.loopback.requests[0].closed_by == "client", 1.0)
    record = machine.why()
    assert record["error"] == {"class": "cancelled", "message": "reader closed", "exit_code": 141}
    assert [row["outcome"] for row in record["attempts"]] == ["cancelled"]
    assert machine.run("health", "--json").json == []


def test_a_held_back_answer_without_a_reader_is_recorded_too(machine: Any) -> None:
    machine.config("a/m")
    child = machine.start("ask", "hi")
    child.stdout.close()
    child.stdout = None
    assert child.wait(timeout=20) == 141
    assert child.stderr.read() == b""
    record = machine.why()
    assert record["error"]["message"] == "reader closed"
    assert [row["outcome"] for row in record["attempts"]] == ["success"]


def test_a_full_disk_is_an_error_and_not_a_bug(machine: Any) -> None:
    machine.config("a/m")
    with Path("/dev/full").open("wb") as full:
        child = machine.start("ask", "hi", stdout=full)
        done = machine.finish(child)
    assert done.code == 74
    assert "No space left" in done.err
    assert "bug" not in done.err


def test_nobody_on_stderr_costs_no_answer(machine: Any) -> None:
    machine.config("b/n", "a/m")
    machine.loopback.script("n", {"status": 503})
    child = machine.start("ask", "hi", "-v", stderr=subprocess.PIPE)
    child.stderr.close()
    child.stderr = None
    out = child.stdout.read()
    assert child.wait(timeout=20) == 0
    assert out.startswith(b"word1 ")
