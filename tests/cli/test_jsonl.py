"""--jsonl: one event a line, as it happens, ending in ``done``; also when nothing was answered."""

from __future__ import annotations

import json
from typing import Any

from tests.loopback import answer


def events(raw: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in raw.splitlines()]


def test_events_tell_the_whole_story(machine: Any) -> None:
    machine.config("a/m", "b/n")
    machine.loopback.script("m", {"status": 401})
    machine.loopback.script("n", {"tokens": 3, "reasoning": "hm"})
    done = machine.ask("--jsonl", "hi")
    assert done.code == 0
    found = events(done.raw)
    names = [row["event"] for row in found]
    assert names[:3] == ["decision", "attempt", "decision"]
    assert names[-3:] == ["attempt", "usage", "done"]
    assert "".join(row["text"] for row in found if row["event"] == "delta" and row["kind"] == "text") == answer(3)
    assert {row["kind"] for row in found if row["event"] == "delta"} == {"text", "reasoning"}
    last = found[-1]
    assert (last["served_by"], last["error"]) == ("b/n", None)
    assert found[1]["class"] == "auth"


def test_events_come_while_the_answer_does(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"tokens": 5, "delay": 0.3})
    child = machine.start("ask", "--jsonl", "hi")
    assert child.stdout is not None
    lines = [json.loads(child.stdout.readline()) for _ in range(2)]
    assert child.poll() is None
    assert [row["event"] for row in lines] == ["decision", "delta"]
    assert events(machine.finish(child).raw)[-1]["event"] == "done"


def test_a_failure_ends_in_done_with_its_error(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"status": 400, "body": {"error": {"message": "no"}}})
    done = machine.ask("--jsonl", "hi")
    last = events(done.raw)[-1]
    assert (done.code, last["event"], last["error"]["exit_code"]) == (65, "done", 65)
    unknown = machine.ask("--jsonl", "-m", "nosuch", "hi")
    (only,) = events(unknown.raw)
    assert (unknown.code, only["event"], only["error"]["class"]) == (2, "done", "usage")


def test_a_cut_answer_keeps_its_deltas_and_says_so(machine: Any) -> None:
    machine.config("a/m", "b/n")
    machine.loopback.script("m", {"cut_after": 3, "cut": "rst"})
    done = machine.ask("--jsonl", "hi")
    found = events(done.raw)
    assert done.code == 74
    assert "".join(row.get("text", "") for row in found if row["event"] == "delta").split() == answer(3).split()
    assert found[-1]["error"]["class"] == "truncated"
