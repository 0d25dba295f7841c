"""Conversations: -c goes on with this terminal's last one, then this directory's, aloud; the log can be off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def said(machine: Any) -> list[tuple[str, Any]]:
    """The messages of the last request, as the vendor got them."""
    return [(row["role"], row["content"]) for row in machine.loopback.requests[-1].body["messages"]]


def test_a_question_goes_on_where_the_last_one_in_this_directory_ended(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": "Paris."}, {"text": "Two million."})
    first = machine.ask("-s", "Brief.", "Capital of France?")
    assert (first.code, first.err) == (0, "")
    second = machine.ask("-c", "How many live there?")
    assert (second.code, second.out) == (0, "Two million.\n")
    assert said(machine) == [
        ("system", "Brief."),
        ("user", "Capital of France?"),
        ("assistant", "Paris."),
        ("user", "How many live there?"),
    ]
    assert "routekit: continuing " in second.err
    assert "'Capital of France?' (1 answer" in second.err
    alone = machine.ask("Something else?")
    assert alone.code == 0
    assert said(machine) == [("user", "Something else?")]


def test_another_terminal_has_its_own_last_conversation(machine: Any) -> None:
    machine.config("a/m")
    one, other = {"TERM_SESSION_ID": "one"}, {"TERM_SESSION_ID": "other"}
    machine.ask("first", env=one)
    machine.ask("second", env=other)
    assert "'first'" in machine.ask("-c", "and?", env=one).err
    assert "'second'" in machine.ask("-c", "and?", env=other).err


def test_where_nothing_was_said_nothing_is_continued_and_others_are_named(machine: Any, tmp_path: Path) -> None:
    machine.config("a/m")
    none = machine.ask("-c", "and?")
    assert (none.code, none.out) == (2, "")
    assert "no conversation was had in this terminal or this directory" in none.err
    id = machine.ask("--json", "first").json["conversation_id"]
    machine.cwd = tmp_path / "elsewhere"
    machine.cwd.mkdir()
    elsewhere = machine.ask("-c", "and?")
    assert elsewhere.code == 2
    assert f"try: routekit ask --cid {id}" in elsewhere.err
    assert len(machine.loopback.requests) == 1


def test_a_conversation_is_continued_by_its_id_and_keeps_its_model(machine: Any) -> None:
    machine.config("a/m", "b/n")
    id = machine.ask("--json", "-m", "b/n", "first").json["conversation_id"]
    machine.ask("second")
    done = machine.ask("--cid", id[:-2], "--json", "third")
    assert done.code == 0, done.err
    assert (done.json["conversation_id"], done.json["model"]) == (id, "b/n")
    assert said(machine)[0] == ("user", "first")


def test_what_is_not_logged_cannot_be_continued(machine: Any) -> None:
    machine.config("a/m")
    assert machine.ask("-n", "secret plans").code == 0
    assert machine.ask("-c", "and?").code == 2
    machine.run("logs", "off")
    machine.ask("more secret plans")
    machine.ask("--log", "public plans")
    rows = machine.run("logs", "list", "--json").json
    assert [row["prompt"] for row in rows] == ["public plans"]
    assert b"secret" not in b"".join(file.read_bytes() for file in machine.home.glob("conversations.db*"))
    machine.run("logs", "on")
    machine.ask("later")
    assert "later" in machine.run("logs").out


def test_a_log_that_cannot_be_written_costs_a_warning_not_an_answer(machine: Any) -> None:
    machine.config("a/m")
    (machine.home / "conversations.db").mkdir()
    done = machine.ask("hi")
    assert (done.code, done.out[:5]) == (0, "word1")
    assert done.err.count("\n") == 1
    assert "not in the log" in done.err


def test_an_interrupted_answer_is_kept_and_marked(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"tokens": 60, "delay": 0.1}, {"text": "fine"})
    child = machine.start("ask", "--stream", "long?")
    machine.read(child, 11)
    machine.interrupt(child)
    assert machine.ask("-c", "go on").code == 0
    assert said(machine)[1][0] == "assistant"
    assert said(machine)[1][1].startswith("word1 word2")
    assert said(machine)[1][1].endswith("[this answer was cut short]")


@pytest.mark.parametrize("arguments", [["-c", "--cid", "x"], ["--cid", "nosuch"]])
def test_a_conversation_that_is_none_asks_nobody(machine: Any, arguments: list[str]) -> None:
    machine.config("a/m")
    assert machine.ask(*arguments, "hi").code == 2
    assert machine.loopback.requests == []


def test_askers_side_by_side_all_reach_the_log(machine: Any) -> None:
    machine.config("a/m")
    script = 'for n in 1 2 3 4 5 6 7 8 9 10 11 12; do "$0" -m routekit ask n$n >/dev/null & done; wait'

    env = machine.environ()
    done = subprocess.run(
        ["sh", "-c", script, sys.executable], env=env, cwd=machine.cwd, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    rows = json.loads(machine.run("logs", "list", "--json", "-n", "0").raw)
    assert sorted(row["prompt"] for row in rows) == sorted(f"n{number}" for number in range(1, 13))
    assert len(machine.records()) == 12
    assert oct(os.stat(machine.home / "conversations.db").st_mode & 0o777) == "0o600"
