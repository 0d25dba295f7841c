"""Failover as a person sees it: who served and why, in this process and in the next ones."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

DOWN = {"status": 503, "body": {"error": {"message": "overloaded", "type": "server_error"}}}


def left(machine: Any, name: str) -> Any:
    rows = [row for row in machine.run("health", "--json").json if name in row.values()]
    return rows[0] if rows else None


def test_a_primary_that_is_down_is_told_of_and_left_alone(machine: Any, api: str) -> None:
    machine.config("a/m", "b/n", api=api)
    machine.loopback.script("m", DOWN)
    first = machine.ask("hi")
    assert (first.code, first.raw.split()[0]) == (0, b"word1")
    assert first.err == "routekit: chat → b/n (a/m: 503 overloaded (sleep 30s))\n"
    assert machine.models() == ["m", "m", "n"]

    story = machine.run("why").out
    assert "chat (ordered) → a/m: ordered" in story
    assert re.search(r"a/m: 503 overloaded, twice \(sleep 30s\)", story)
    assert "served by b/n" in story

    second = machine.ask("hi")
    assert second.code == 0
    later = machine.run("why").out.splitlines()
    lefts = re.findall(r"back in ([\d.]+s)", "\n".join(later))
    assert (len(later), len(lefts), len(set(lefts))) == (4, 2, 1), later
    assert re.fullmatch(
        r"routekit: chat → b/n \(a/m: asleep after 503 overloaded, back in \d\d(\.\d)?s\)\n", second.err
    )
    assert machine.loopback.count("m") == 2

    row = left(machine, "a/m")
    assert (row["state"], row["cause"], row["rung"]) == ("asleep", "transient", 1)
    assert 0 < row["left_s"] <= 30
    assert re.search(r"a/m +asleep +\d\d(\.\d)?s", machine.run("health").out)
    preview = machine.run("routes", "preview").out
    assert re.search(r"a/m +asleep after 503 overloaded, back in ", preview)
    assert re.search(r"b/n +ready.*← would serve", preview)


def test_a_failure_met_in_one_route_is_respected_in_another(machine: Any) -> None:
    machine.config("a/m", more='[routes.other]\ntargets = ["a/m", "b/n"]')
    machine.loopback.script("m", DOWN)
    assert machine.ask("hi").code == 69
    assert machine.ask("-m", "other", "hi").code == 0
    assert machine.models() == ["m", "m", "n"]


def test_the_sleep_doubles_with_each_incident_until_its_own_success(machine: Any) -> None:
    machine.config("a/m", "b/n", health='first = "200ms"\nprobe = false')
    # The first failure is retried on the spot; a target that has just woken is not.
    machine.loopback.script("m", DOWN, DOWN, DOWN, DOWN, {}, DOWN)
    earned = []
    for _ in range(5):
        rows = [row for row in machine.ask("hi", "--json").json["attempts"] if row["target"] == "a/m"]
        earned.append(rows[-1]["window_s"])
        time.sleep(1.1 * (earned[-1] or 0))
    assert earned == [pytest.approx(0.2), pytest.approx(0.4), pytest.approx(0.8), None, pytest.approx(0.2)]


def test_health_reset_lets_a_target_be_tried_again(machine: Any) -> None:
    machine.config("a/m", "b/n")
    machine.loopback.script("m", DOWN, DOWN, {})
    machine.ask("hi")
    assert machine.run("health", "reset", "a/m").code == 0
    done = machine.ask("hi")
    assert (done.code, done.err) == (0, "")
    assert machine.models() == ["m", "m", "n", "m"]


def test_a_refused_key_spares_the_other_account_and_is_warned_of(machine: Any) -> None:
    machine.config("a/m", "a/other", "b/n")
    machine.loopback.script("m", {"status": 401, "body": {"error": {"message": "no", "code": "invalid_api_key"}}})
    machine.loopback.script("other", {"status": 401, "body": {"error": {"message": "no", "code": "invalid_api_key"}}})
    done = machine.ask("hi")
    assert done.code == 0
    assert "401 key refused" in done.err
    assert machine.models()[-1] == "n"
    assert left(machine, "env:KEY_A")["state"] == "asleep"


def test_a_changed_key_ends_its_refusal_at_once(machine: Any) -> None:
    machine.config("a/m", "b/n")
    machine.loopback.script("m", {"status": 401, "body": {"error": {"message": "no", "code": "invalid_api_key"}}}, {})
    machine.ask("hi")
    assert machine.ask("hi", "--json").json["served_by"] == "b/n"
    assert machine.ask("hi", "--json", env={"KEY_A": "another-key-entirely"}).json["served_by"] == "a/m"


def test_a_missing_key_is_passed_over_with_its_reason(machine: Any) -> None:
    machine.config("a/m", "b/n")
    done = machine.ask("hi", env={"KEY_A": None})
    assert done.code == 0
    assert done.err == "routekit: chat → b/n (a/m: no key (KEY_A is not set))\n"
    assert machine.models() == ["n"]


# -- options -----------------------------------------------------------------------------------------------------------


def test_a_dry_run_reads_no_key_asks_nobody_and_spends_no_turn(machine: Any) -> None:
    trap = machine.place / "read"
    rows = (
        machine.providers(names="bc")
        + f"""
[providers.a]
api = "openai-chat"
base_url = "{machine.loopback.url()}"
key = "cmd:touch {trap}"
"""
    )
    machine.config("a/m", "b/n", providers=rows, route='selection = "smooth"')
    shown = [machine.ask("hi", "--dry-run") for _ in range(3)]
    assert {(done.code, done.out) for done in shown} == {(0, shown[0].out)}
    assert re.search(r"1  a/m .*← would serve", shown[0].out)
    assert not trap.exists()
    assert machine.loopback.requests == []
    assert machine.run("why").code == 2


def test_a_turn_is_where_it_was_after_a_dry_run(machine: Any) -> None:
    machine.config("a/m", "b/n", route='selection = "smooth"')
    for model in ("m", "n", "m"):
        machine.ask("--dry-run")
        machine.ask("hi")
        assert machine.models()[-1] == model


def test_a_dry_run_is_json_where_json_is_asked_for(machine: Any) -> None:
    machine.config("a/m", "b/n")
    data = machine.ask("--dry-run", "--json").json
    assert [(row["target"], row["would_serve"]) for row in data["children"]] == [("a/m", True), ("b/n", False)]


def test_no_failover_tries_the_first_choice_only(machine: Any) -> None:
    machine.config("a/m", "b/n")
    machine.loopback.script("m", DOWN)
    done = machine.ask("hi", "--no-failover")
    assert done.code == 69
    assert set(machine.models()) == {"m"}


def test_no_failover_holds_for_a_key_that_cannot_be_read(machine: Any) -> None:
    rows = (
        machine.providers(names="bc")
        + f"""
[providers.a]
api = "openai-chat"
base_url = "{machine.loopback.url()}"
key = "file:{machine.place}/absent"
"""
    )
    machine.config("a/m", "b/n", providers=rows)
    assert machine.ask("hi", "--no-failover").code == 77
    assert machine.loopback.requests == []


def test_only_one_provider_is_asked_and_the_others_are_recorded(machine: Any) -> None:
    machine.config("a/m", "b/n", "b/o", "c/p")
    machine.loopback.script("n", DOWN)
    done = machine.ask("hi", "--only", "b", "--json")
    assert (done.code, done.json["served_by"]) == (0, "b/o")
    assert [(row["target"], row["reason"]) for row in done.json["skipped"]] == [("a/m", "not b"), ("c/p", "not b")]
    assert set(machine.models()) == {"n", "o"}
    assert "not b" in machine.run("why").out


def test_only_a_provider_that_is_down_fails_without_the_others(machine: Any) -> None:
    machine.config("a/m", "b/n")
    machine.loopback.script("n", DOWN)
    assert machine.ask("hi", "--only", "b").code == 69
    assert set(machine.models()) == {"n"}


def test_only_a_synthetic_provider_means_its_members(machine: Any) -> None:
    more = '[synthetic_providers.pair]\nproviders = ["b", "c"]'
    machine.config("a/m", "pair/n", more=more)
    assert machine.ask("hi", "--only", "pair", "--json").json["served_by"] == "b/n"
    assert machine.models() == ["n"]


def test_only_counts_in_a_dry_run(machine: Any) -> None:
    machine.config("a/m", "b/n")
    assert re.search(r"b/n .*← would serve", machine.ask("--dry-run", "--only", "b").out)


def test_a_pin_is_honoured_or_fails(machine: Any) -> None:
    machine.config("a/m", "b/m")
    machine.loopback.script("m", {"status": 404, "body": {"error": {"message": "gone", "code": "model_not_found"}}})
    done = machine.ask("-m", "a/m", "hi")
    assert done.code == 69
    assert machine.models() == ["m"]


@pytest.mark.parametrize(
    ("api", "options", "body"),
    [
        (
            "openai-chat",
            ["-o", "temperature", "0.5", "-o", "max_tokens", "9", "-o", "stop", '["x"]'],
            {"temperature": 0.5, "max_tokens": 9, "stop": ["x"]},
        ),
        ("openai-responses", ["-o", "max_tokens", "9", "-o", "top_p", "0.5"], {"max_output_tokens": 9, "top_p": 0.5}),
        (
            "anthropic-messages",
            ["-o", "max_tokens", "9", "-o", "stop", '["x"]'],
            {"max_tokens": 9, "stop_sequences": ["x"]},
        ),
    ],
)
def test_options_reach_the_wire_in_each_apis_form(
    machine: Any, api: str, options: list[str], body: dict[str, Any]
) -> None:
    machine.config("a/m", api=api)
    done = machine.ask("hi", *options)
    assert done.code == 0, done.err
    sent = machine.loopback.requests[0].body
    assert {name: sent.get(name) for name in body} == body


@pytest.mark.parametrize(("value", "said"), [("low", "low"), ("true", True), ("3", 3), ('"3"', "3"), ("{", "{")])
def test_an_options_value_is_json_where_it_reads_as_json(machine: Any, value: str, said: Any) -> None:
    machine.config("a/m")
    machine.ask("hi", "-o", "made_up", value)
    assert machine.loopback.requests[0].body["made_up"] == said


def test_a_system_prompt_reaches_the_wire_in_each_apis_form(machine: Any, api: str) -> None:
    machine.config("a/m", api=api)
    machine.ask("hi", "-s", "Be brief.")
    body = machine.loopback.requests[0].body
    where = {
        "openai-chat": lambda: body["messages"][0] == {"role": "system", "content": "Be brief."},
        "openai-responses": lambda: body["instructions"] == "Be brief.",
        "anthropic-messages": lambda: "Be brief." in repr(body["system"]),
    }
    assert where[api]()


def test_a_session_keeps_its_pick(machine: Any) -> None:
    machine.config("a/m", "b/n", route='selection = "round-robin"')
    for _ in range(3):
        machine.ask("hi", "--session", "s1")
    assert machine.models() == ["m", "m", "m"]
    machine.ask("hi", "--session", "s2")
    assert machine.models()[-1] == "n"


def test_without_a_session_turns_alternate(machine: Any) -> None:
    machine.config("a/m", "b/n", route='selection = "round-robin"')
    for _ in range(3):
        machine.ask("hi")
    assert machine.models() == ["m", "n", "m"]


def test_a_timeout_before_output_is_69_and_cools_nobody(machine: Any) -> None:
    machine.config("a/m", "b/n", limits='first_output = "30s"')
    machine.loopback.script("m", {"hang": "headers"})
    done = machine.ask("hi", "--timeout", "3s")
    assert (done.code, done.out) == (69, "")
    assert "--timeout 3s" in done.err
    assert machine.models() == ["m"]
    assert left(machine, "a/m") is None


def test_a_timeout_after_output_is_74_and_cools_nobody(machine: Any) -> None:
    machine.config("a/m", "b/n", limits='stall = "30s"')
    machine.loopback.script("m", {"cut_after": 3, "cut": "stall"})
    done = machine.ask("hi", "--timeout", "3s", "--stream")
    assert (done.code, done.out) == (74, "word1 word2 word3\n")
    assert machine.models() == ["m"]
    assert left(machine, "a/m") is None
    record = machine.why()
    assert [row["outcome"] for row in record["attempts"]] == ["cancelled"]


def test_the_usage_line_says_who_how_long_and_how_much(machine: Any) -> None:
    price = "[providers.a.model_info.m]\nprice = { input = 1.0, output = 10.0 }"
    machine.config("a/m", more=price)
    assert re.fullmatch(r"chat → a/m · [\d.]+s · 7→60 tok · \$0\.000607\n", machine.ask("hi", "-u").err)


def test_explain_and_verbose_tell_it_as_it_happens(machine: Any) -> None:
    machine.config("a/m", "b/n")
    machine.loopback.script("m", DOWN)
    lines = machine.ask("hi", "--explain").err.splitlines()
    assert lines[0] == "routekit: chat (ordered) → a/m: ordered"
    assert lines[1].startswith("routekit: a/m: 503 overloaded")
    assert "routekit: chat (ordered) → b/n: ordered; passed over a/m (just now: failed)" in lines
    machine.run("health", "reset", "--all")
    lines = machine.ask("hi", "-v").err.splitlines()
    assert any(re.fullmatch(r"routekit: b/n: answered in [\d.]+m?s", line) for line in lines)
    assert not any("(ordered)" in line for line in lines)


def test_json_says_who_served_instead_and_why(machine: Any) -> None:
    machine.config("a/m", "b/n")
    machine.loopback.script("m", DOWN)
    data = machine.ask("hi", "--json").json
    assert (data["model"], data["served_by"], data["reason"]) == ("chat", "b/n", "503 overloaded (sleep 30s)")
    assert data["input_tokens"] == 7
    assert data["output_tokens"] == 60
    assert list(data)[:6] == ["schema_version", "id", "conversation_id", "model", "served_by", "response"]
    assert {key: value for key, value in data.items() if key != "response"} == machine.why()


def test_a_vendor_that_answers_as_another_model_is_noted(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"model": "cheap-one"})
    assert machine.ask("hi").err == "routekit: a/m answered as cheap-one\n"
