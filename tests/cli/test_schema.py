"""--schema: JSON on stdout or exit 65 after one repair; -x and --xl: one fenced block."""

from __future__ import annotations

import json
from typing import Any

import pytest

DOG = '{"name": "Rex", "age": 3}'
BLOCKS = "First:\n```sh\nls\n```\nthen\n```python\nprint(1)\n```\nDone.\n"


def test_an_answer_that_fits_is_printed_as_json_alone(machine: Any, api: str) -> None:
    machine.config("a/m", api=api)
    machine.loopback.script("m", {"text": f"```json\n{DOG}\n```"})
    done = machine.ask("--schema", "name, age int", "invent a dog")
    assert (done.code, done.json, done.err) == (0, {"name": "Rex", "age": 3}, "")
    assert "additionalProperties" in json.dumps(machine.loopback.requests[0].body)


def test_one_that_does_not_is_asked_for_once_more(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": "A dog called Rex."}, {"text": DOG})
    done = machine.ask("--schema", "name, age int", "--json", "invent a dog")
    assert (done.code, done.json["data"], done.json["response"]) == (0, {"name": "Rex", "age": 3}, DOG)
    assert "asked once more" in done.err
    assert len(machine.loopback.requests) == 2


def test_one_that_never_fits_is_exit_65_with_its_reasons(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": "A dog called Rex."})
    done = machine.ask("--schema", "name, age int", "invent a dog")
    assert (done.code, done.out) == (65, "")
    assert "did not fit the schema, twice" in done.err
    assert len(machine.loopback.requests) == 2


def test_many_are_asked_for_as_a_list(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": f'{{"items": [{DOG}, {DOG}]}}'})
    assert len(machine.ask("--schema-multi", "name, age int", "dogs").json["items"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--schema", "9lives"], 65), (["--schema", '{"type": 3}'], 65), (["--schema", "a", "--schema-multi", "b"], 2)],
    ids=["no field", "no schema", "both"],
)
def test_a_schema_that_is_none_asks_nobody(machine: Any, arguments: list[str], code: int) -> None:
    machine.config("a/m")
    assert machine.ask(*arguments, "hi").code == code
    assert machine.loopback.requests == []


@pytest.mark.parametrize(("flag", "block"), [("-x", "ls\n"), ("--xl", "print(1)\n")])
def test_one_block_is_printed_alone(machine: Any, flag: str, block: str) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": BLOCKS})
    done = machine.ask(flag, "code?")
    assert (done.code, done.out, done.err) == (0, block, "")


def test_without_a_block_all_is_printed_and_said_so(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"text": "No code."})
    done = machine.ask("-x", "code?")
    assert (done.code, done.out) == (0, "No code.\n")
    assert "no fenced block" in done.err
