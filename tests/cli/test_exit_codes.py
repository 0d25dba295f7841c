"""The exit code says what kind of end a question came to: one test a row of the table."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.loopback import answer

#: bodies as the vendors send them
CONTEXT = {"status": 400, "body": {"error": {"message": "too many tokens", "code": "context_length_exceeded"}}}
POLICY = {"status": 400, "body": {"error": {"message": "against our policy", "code": "content_policy_violation"}}}
BAD = {"status": 400, "body": {"error": {"message": "messages: field required", "type": "invalid_request_error"}}}
LIMITED = {"status": 429, "headers": {"Retry-After": "120"}, "body": {"error": {"message": "slow down"}}}
REFUSED = {"status": 401, "body": {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}}
MONEY = {"status": 429, "body": {"error": {"message": "no credit", "code": "insufficient_quota"}}}
CUT = {"cut_after": 5}


def failing(machine: Any, *arguments: str, **steps: Any) -> Any:
    for model, step in steps.items():
        machine.loopback.script(model, step)
    machine.config(*(f"{'abc'[at]}/{model}" for at, model in enumerate(steps)))
    return machine.ask("hi", "--json", *arguments)


def test_0_is_a_whole_answer(machine: Any) -> None:
    done = failing(machine, m={})
    assert done.code == 0
    assert done.json["response"] == answer()
    assert done.json["error"] is None


@pytest.mark.parametrize("step", [CONTEXT, POLICY, BAD], ids=["context", "content_filter", "request"])
def test_65_is_an_input_nobody_can_use(machine: Any, step: Any) -> None:
    done = failing(machine, m=step)
    assert done.code == done.json["error"]["exit_code"] == 65
    assert step["body"]["error"]["message"] in done.err
    assert machine.loopback.count("m") == 1


def test_69_is_everybody_tried_and_failed(machine: Any) -> None:
    machine.loopback.script("m", {"status": 503})
    machine.loopback.script("n", {"hang": "accept"})
    machine.config("a/m", "b/n", limits='deadline = "2s"')
    done = machine.ask("hi", "--json")
    assert done.code == done.json["error"]["exit_code"] == 69


def test_69_is_what_different_ends_come_to(machine: Any) -> None:
    assert failing(machine, m=REFUSED, n=LIMITED).code == 69


def test_74_is_a_live_answer_that_broke_off(machine: Any) -> None:
    machine.config("a/m", "b/n")
    machine.loopback.script("m", CUT)
    done = machine.ask("--stream", "hi")
    assert (done.code, done.out) == (74, answer(5) + "\n")
    assert done.err.count("broke off") == 1
    assert "of a/m broke off: its vendor hung up in the middle (sleep 30s)\n" in done.err
    assert machine.models() == ["m"]


def test_74_is_a_held_back_answer_cut_everywhere(machine: Any) -> None:
    done = failing(machine, m=CUT, n=CUT)
    assert done.code == 74
    assert [row["outcome"] for row in done.json["attempts"]] == ["truncated", "truncated"]


@pytest.mark.parametrize("step", [LIMITED, MONEY], ids=["rate_limit", "quota"])
def test_75_is_everybody_limited(machine: Any, step: Any) -> None:
    done = failing(machine, m=step, n=step)
    assert done.code == 75
    assert done.json["error"]["class"] in ("rate_limit", "quota")


def test_75_is_everybody_asleep_with_the_sleepers_and_their_time_left(machine: Any) -> None:
    failing(machine, m=LIMITED, n=LIMITED)
    done = machine.ask("hi")
    assert (done.code, done.out) == (75, "")
    assert re.search(r"sleeping: a/m (2m0s|1m5\d\.?\d?s), b/n (2m0s|1m5\d\.?\d?s)\n", done.err)
    assert "try: routekit health list" in done.err
    assert len(machine.loopback.requests) == 2


def test_75_says_in_json_when_to_come_back(machine: Any) -> None:
    failing(machine, m=LIMITED)
    error = machine.ask("hi", "--json").json["error"]
    assert (error["class"], error["exit_code"]) == ("exhausted", 75)
    assert 100 < error["retry_after"] <= 120


def test_77_is_a_key_refused_everywhere(machine: Any) -> None:
    done = failing(machine, m=REFUSED, n=REFUSED)
    assert done.code == 77
    assert "try: export KEY_A=…" in done.err


def test_77_stays_while_keys_are_refused_since_waiting_does_not_help(machine: Any) -> None:
    first = failing(machine, m=REFUSED, n=REFUSED)
    done = machine.ask("hi")
    assert (first.code, done.code, done.out) == (77, 77, "")
    assert re.search(r"chat: the key of a was refused \d+s ago \(401 .*\); the key of b was refused ", done.err)
    assert "waiting does not help" in done.err
    assert done.err.index("try: export KEY_A=…") < done.err.index("try: export KEY_B=…")
    assert len(machine.loopback.requests) == 2
    assert machine.ask("hi", "--json").json["error"]["retry_after"] is None


def test_75_is_one_key_refused_and_another_target_asleep(machine: Any) -> None:
    failing(machine, m=REFUSED, n=LIMITED)
    assert machine.ask("hi").code == 75


def test_a_key_that_was_changed_since_its_refusal_is_used_at_once(machine: Any) -> None:
    failing(machine, m=REFUSED)
    machine.loopback.script("m", {"text": "well"})
    assert machine.ask("hi").code == 77
    assert machine.ask("hi", env={"KEY_A": "sk-another-0123456789"}).code == 0


def test_77_is_a_key_that_is_missing(machine: Any) -> None:
    machine.config("a/m")
    done = machine.ask("hi", env={"KEY_A": None})
    assert (done.code, done.out) == (77, "")
    assert "KEY_A" in done.err
    assert "try: " in done.err
    assert machine.loopback.requests == []


def test_77_is_every_key_missing(machine: Any) -> None:
    machine.config("a/m", "b/n")
    done = machine.ask("hi", "--json", env={"KEY_A": None, "KEY_B": None})
    assert done.code == done.json["error"]["exit_code"] == 77
    assert machine.loopback.requests == []


def test_78_is_a_redirect_which_only_a_config_can_cause(machine: Any) -> None:
    assert failing(machine, m={"redirect": "https://elsewhere.example/"}).code == 78


def test_78_is_a_broken_config_with_every_fault_and_its_line(machine: Any) -> None:
    file = machine.write(
        'version = 1\n[providers.a]\napi = "openai-chatt"\nbase_url = 5\n'
        '[routes.r]\ntargets = ["a/m"]\nselecton = "x"\n'
    )
    done = machine.ask("hi")
    assert (done.code, done.out) == (78, "")
    for line in (3, 4, 7):
        assert f"{file.name}:{line}" in done.err
    assert "selection" in done.err


def test_a_broken_config_is_json_where_json_is_asked_for(machine: Any) -> None:
    machine.write("version = \n")
    done = machine.ask("hi", "--json")
    assert done.code == done.json["error"]["exit_code"] == 78


def test_a_failed_json_answer_lists_its_attempts_in_order(machine: Any) -> None:
    done = failing(machine, m=REFUSED, n=LIMITED, o={"status": 503})
    rows = done.json["attempts"]
    assert [row["class"] for row in rows] == ["auth", "rate_limit", "transient", "transient"]
    assert [row["target"] for row in rows] == ["a/m", "b/n", "c/o", "c/o"]
    assert [row["scope"] for row in rows[:3]] == ["credential", "target", "target"]
    assert rows[1]["retry_after"] == 120
    assert rows[1]["window_s"] == pytest.approx(120, abs=1)
    assert rows[3]["window_s"] == pytest.approx(30, abs=1)
    assert done.json["response"] is None
    assert done.json["error"]["exit_code"] == 69


def test_success_and_failure_have_the_same_fields(machine: Any) -> None:
    good = failing(machine, m={}).json
    bad = failing(machine, m=POLICY).json
    assert set(good) == set(bad) == {*machine.why(), "response"}
    assert json.dumps(bad)
