"""A vendor may call a tool though nobody offered one: the shell shows the call, however it is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

CALL = {"id": "call_1", "name": "lookup", "arguments": '{"name": "x", "self": 1, "event": 2}'}
#: what a model may write where JSON is due
ODD = ('{"name": ', "", "not json", "[1, 2", '{"a": "\\ud800"}')


def _calls(body: Any) -> list[tuple[str, str]]:
    return [(call["function"]["name"], call["function"]["arguments"]) for call in body["tool_calls"]]


@pytest.mark.parametrize("extra", [(), ("--stream",)])
def test_a_call_of_a_tool_is_one_line_on_stderr(machine: Any, api: str, extra: tuple[str, ...]) -> None:
    machine.config("a/m", api=api)
    machine.loopback.script("m", {"tokens": 2, "tools": [CALL]})
    done = machine.ask(*extra, "hi")
    assert done.code == 0, done.err
    assert done.out.rstrip("\n") == "word1 word2"
    assert [line for line in done.err.splitlines() if "the tool lookup" in line] == [
        f"routekit: the model calls the tool lookup: {CALL['arguments']}"
    ]


def test_calls_of_tools_are_a_field_of_the_json(machine: Any, api: str) -> None:
    machine.config("a/m", api=api)
    machine.loopback.script("m", {"tokens": 2, "tools": [CALL, {**CALL, "id": "call_2", "name": "other"}]})
    done = machine.ask("--json", "hi")
    assert done.code == 0, done.err
    assert _calls(done.json) == [("lookup", CALL["arguments"]), ("other", CALL["arguments"])]


def test_calls_of_tools_are_events(machine: Any, api: str) -> None:
    machine.config("a/m", api=api)
    machine.loopback.script("m", {"tokens": 2, "tools": [CALL]})
    done = machine.ask("--jsonl", "hi")
    assert done.code == 0, done.err
    events = [json.loads(line) for line in done.out.splitlines()]
    pieces = [event for event in events if event["event"] == "delta" and event["kind"] == "tool"]
    assert pieces[0]["name"] == "lookup"
    assert "".join(piece["text"] for piece in pieces) == CALL["arguments"]
    assert _calls(events[-1]) == [("lookup", CALL["arguments"])]


def test_an_answer_without_calls_has_no_such_field(machine: Any) -> None:
    machine.config("a/m")
    assert "tool_calls" not in machine.ask("--json", "hi").json


@pytest.mark.parametrize("form", [(), ("--json",), ("--jsonl",)])
def test_arguments_that_are_no_json_are_shown_as_they_came(machine: Any, api: str, form: tuple[str, ...]) -> None:
    machine.config("a/m", api=api)
    tools = [{**CALL, "id": f"call_{number}", "arguments": arguments} for number, arguments in enumerate(ODD)]
    machine.loopback.script("m", {"tokens": 2, "tools": tools})
    done = machine.ask(*form, "hi")
    assert done.code == 0, done.err
    if form:
        last = json.loads(done.out if form == ("--json",) else done.out.splitlines()[-1])
        assert [arguments for _, arguments in _calls(last)] == [
            text or "{}" if api == "anthropic-messages" else text for text in ODD
        ]
    else:
        assert done.err.count("the model calls the tool lookup") == len(ODD)


@pytest.mark.parametrize("form", [(), ("--json",), ("--jsonl",)])
@pytest.mark.parametrize(
    "fragment", [{"function": {"name": "f", "arguments": "{}"}}, {"function": None}, {"index": "x"}, 7, None]
)
def test_a_call_without_its_number_does_no_harm(machine: Any, fragment: Any, form: tuple[str, ...]) -> None:
    machine.config("a/m")
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    frames = [
        {**chunk, "choices": [{"index": 0, "delta": {"tool_calls": [fragment]}, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {"content": "well"}, "finish_reason": "tool_calls"}]},
    ]
    machine.loopback.script("m", {"sse": [*(f"data: {json.dumps(frame)}\n\n" for frame in frames), "data: [DONE]\n\n"]})
    done = machine.ask(*form, "hi")
    assert "bug" not in done.err
    assert "exception" not in done.err
    assert done.code == 0, done.err
    assert "well" in done.out
