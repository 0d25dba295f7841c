"""The public catalogue of a failover layer's bad days, each asked through the shell into a pipe, where it must pass:
the whole answer, clean conduct. S: crash tests, T: public reports."""

from __future__ import annotations

import time
from email.utils import formatdate
from itertools import pairwise
from typing import Any

import pytest

from tests.cli.conftest import QUICK
from tests.loopback import answer

WHOLE = answer() + "\n"


def ask(machine: Any, *steps: dict[str, Any], arguments: tuple[str, ...] = (), **config: Any) -> Any:
    """Ask a route of a (model ``m``, with these steps) and b (model ``n``, healthy)."""
    machine.loopback.script("m", *steps)
    machine.config("a/m", "b/n", **config)
    return machine.ask("hi", *arguments)


def served(machine: Any, done: Any, by: str) -> None:
    assert (done.code, done.out) == (0, WHOLE), done.err
    assert machine.why()["served_by"] == by


def counts(machine: Any) -> tuple[int, int]:
    return machine.loopback.count("m"), machine.loopback.count("n")


def gaps(machine: Any) -> list[float]:
    times = [request.at for request in machine.loopback.requests]
    return [late - early for early, late in pairwise(times)]


# -- the crash tests ---------------------------------------------------------------------------------------------------


def test_s01_a_short_wait_that_was_asked_for_is_waited_on_the_same_target(machine: Any) -> None:
    served(machine, ask(machine, {"status": 429, "headers": {"Retry-After": "2"}}, {}), "a/m")
    assert counts(machine) == (2, 0)
    assert gaps(machine)[0] >= 1.8


def test_s02_a_limit_without_a_hint_is_not_hammered(machine: Any) -> None:
    served(machine, ask(machine, {"status": 429}), "b/n")
    assert counts(machine) == (1, 1)


def test_s03_a_single_500_is_retried_where_it_happened(machine: Any) -> None:
    served(machine, ask(machine, {"status": 500}, {}), "a/m")
    assert counts(machine) == (2, 0)


def test_s04_and_s16_a_dead_primary_costs_two_attempts_and_the_answer_names_who_served(machine: Any) -> None:
    done = ask(machine, {"status": 503}, arguments=("--json",))
    assert (done.code, done.json["served_by"], done.json["response"]) == (0, "b/n", answer())
    assert (done.json["input_tokens"], done.json["output_tokens"]) == (7, 60)
    assert counts(machine) == (2, 1)


def test_s05_a_reset_before_headers_is_survived(machine: Any) -> None:
    served(machine, ask(machine, {"close": "rst"}, {}), "a/m")


@pytest.mark.parametrize("step", [{"hang": "accept"}, {"hang": "headers"}, {"hold": 20}], ids=["s06", "t03", "s07"])
def test_s06_s07_t03_a_silent_vendor_is_tried_once_and_let_go_of(machine: Any, step: dict[str, Any]) -> None:
    served(machine, ask(machine, step, limits=QUICK), "b/n")
    assert counts(machine) == (1, 1)
    assert gaps(machine)[0] < 3
    machine.until(lambda: machine.loopback.requests[0].closed_by == "client", 1.0)


@pytest.mark.parametrize("cut", ["clean", "fin", "rst"])
def test_s08_t02_a_cut_answer_is_never_shown_as_whole(machine: Any, cut: str) -> None:
    served(machine, ask(machine, {"cut_after": 40, "cut": cut}), "b/n")
    assert counts(machine) == (1, 1)
    assert [row["outcome"] for row in machine.why()["attempts"]] == ["truncated", "success"]


def test_s09_a_stream_that_falls_silent_is_left_and_the_next_call_works(machine: Any) -> None:
    served(machine, ask(machine, {"cut_after": 20, "cut": "stall"}, limits=QUICK), "b/n")
    served(machine, machine.ask("again"), "b/n")


def test_s10_an_event_that_is_no_json_garbles_nothing(machine: Any) -> None:
    bad = 'data: {"choices": [{"delta": {"content": " word10\n\n'
    done = ask(machine, {"bad_after": 9, "bad": bad, "bad_replaces": True})
    assert (done.code, done.out) == (0, WHOLE)
    assert machine.ask("again").out == WHOLE


def test_s11_a_whole_answer_without_its_done_marker_is_whole(machine: Any) -> None:
    done = ask(machine, {"no_done": True}, arguments=("--json",))
    assert (done.code, done.json["served_by"], done.json["output_tokens"]) == (0, "a/m", 60)
    assert counts(machine) == (1, 0)


def test_s12_a_prompt_too_long_goes_once_to_a_larger_model(machine: Any) -> None:
    body = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    served(machine, ask(machine, {"status": 400, "body": body}), "b/n")
    assert counts(machine) == (1, 1)


def test_s13_a_policy_refusal_is_returned_with_its_reason(machine: Any) -> None:
    body = {"error": {"message": "this violates our policy", "code": "content_policy_violation"}}
    done = ask(machine, {"status": 400, "body": body})
    assert (done.code, done.out) == (65, "")
    assert "this violates our policy" in done.err
    assert counts(machine) == (1, 0)


def test_s14_a_restart_sends_the_original_request_and_no_prefill(machine: Any) -> None:
    served(machine, ask(machine, {"cut_after": 40}), "b/n")
    first, second = machine.loopback.requests
    assert second.body["messages"] == first.body["messages"] == [{"role": "user", "content": "hi"}]


# -- from public reports -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["openai-chat", "anthropic-messages"])
def test_t01_an_error_frame_before_output_is_invisible_even_live(machine: Any, api: str) -> None:
    done = ask(machine, {"error_after": 0}, arguments=("--stream",), api=api)
    served(machine, done, "b/n")
    rows = machine.why()["attempts"]
    assert {row["class"] for row in rows[:-1]} == {"transient"}
    assert rows[-1]["outcome"] == "success"


@pytest.mark.parametrize("cut", ["clean", "rst"])
def test_t02_a_live_answer_that_breaks_off_stays_with_its_model(machine: Any, cut: str) -> None:
    done = ask(machine, {"cut_after": 40, "cut": cut}, arguments=("--stream",))
    # A reset may overtake what was sent before it.
    shown = answer(40).startswith(done.out.rstrip("\n")) if cut == "rst" else done.out == answer(40) + "\n"
    assert (done.code, shown, done.out[-1:]) == (74, True, "\n")
    assert "broke off" in done.err
    assert counts(machine) == (1, 0)


@pytest.mark.parametrize(
    "step",
    [
        {"status": 200, "body": {"choices": []}},
        {"status": 200, "body": "good morning"},
        {"sse": ['data: {"choices": []}\n\n', "data: [DONE]\n\n"]},
        {"status": 200, "body": ""},
    ],
    ids=["empty-choices", "text", "empty-stream", "nothing"],
)
def test_t04_a_200_that_is_no_answer_is_a_failure(machine: Any, step: dict[str, Any]) -> None:
    served(machine, ask(machine, step), "b/n")
    row = next(row for row in machine.run("health", "--json").json if row.get("target") == "a/m")
    assert row["state"] == "asleep"


def test_t05_processes_after_another_meet_a_dead_primary_once(machine: Any) -> None:
    first = ask(machine, {"status": 503})
    served(machine, first, "b/n")
    for _ in range(5):
        assert machine.ask("hi").code == 0
    assert counts(machine) == (2, 6)


@pytest.mark.parametrize(
    ("stated", "health", "window"),
    [
        (lambda: "120", "", 120),
        (lambda: formatdate(time.time() + 90, usegmt=True), "", 90),
        (lambda: "86400", 'max_hint = "1h"', 3600),
    ],
    ids=["seconds", "date", "clamped"],
)
def test_t06_a_stated_wait_is_kept_as_stated_and_as_used(machine: Any, stated: Any, health: str, window: float) -> None:
    done = ask(machine, {"status": 429, "headers": {"Retry-After": stated()}}, arguments=("--json",), health=health)
    row = done.json["attempts"][0]
    assert row["window_s"] == pytest.approx(window, abs=5)
    assert row["retry_after"] == pytest.approx(86400 if window == 3600 else window, abs=5)
    left = machine.run("health", "--json").json[0]["left_s"]
    assert window - 30 < left <= window


def test_t08_a_malformed_request_is_nobodys_fault_but_its_own(machine: Any) -> None:
    done = ask(machine, {"status": 400, "body": {"error": {"message": "bad field", "type": "invalid_request_error"}}})
    assert done.code == 65
    assert counts(machine) == (1, 0)
    assert machine.run("health", "--json").json == []


def test_t09_with_everybody_asleep_nobody_is_asked_and_nothing_changes(machine: Any) -> None:
    machine.loopback.script("n", {"status": 429, "headers": {"Retry-After": "600"}})
    ask(machine, {"status": 429, "headers": {"Retry-After": "300"}})
    before = machine.run("health", "--json").json
    done = machine.ask("hi")
    assert done.code == 75
    assert done.err.index("a/m") < done.err.index("b/n")
    assert done.err.count("asleep after 429 ") == 2
    assert counts(machine) == (1, 1)
    after = machine.run("health", "--json").json
    assert [row["until"] for row in after] == [row["until"] for row in before]


def test_t10_after_a_window_one_of_many_processes_tries_the_sleeper(machine: Any) -> None:
    served(machine, ask(machine, {"status": 503}, health='first = "100ms"\nfactor = 10_000\nprobe = false'), "b/n")
    before = machine.loopback.count("m")
    time.sleep(0.2)
    children = [machine.start("ask", "hi") for _ in range(6)]
    ended = [machine.finish(child) for child in children]
    assert [(done.code, done.out) for done in ended] == [(0, WHOLE)] * 6
    assert machine.loopback.count("m") == before + 1


def test_t11_attempts_are_two_a_target_and_spaced(machine: Any) -> None:
    for model in "mno":
        machine.loopback.script(model, {"status": 500})
    machine.config("a/m", "b/n", "c/o")
    assert machine.ask("hi").code == 69
    assert machine.models() == ["m", "m", "n", "n", "o", "o"]
    assert min(gaps(machine)[::2]) >= 0.24


def test_t12_one_error_tells_all_three_causes_in_order(machine: Any) -> None:
    machine.loopback.script("m", {"status": 401, "body": {"error": {"message": "bad key", "code": "invalid_api_key"}}})
    machine.loopback.script("n", {"status": 429, "body": {"error": {"message": "too fast"}}})
    machine.loopback.script("o", {"status": 500, "body": {"error": {"message": "oh no"}}})
    machine.config("a/m", "b/n", "c/o")
    done = machine.ask("hi")
    assert (done.code, done.out) == (69, "")
    lines = [line for line in done.err.splitlines() if line.startswith("  ")]
    assert lines[0].startswith("  first cause: a/m: 401 key refused: bad key")
    assert lines[1].startswith("  b/n: 429 rate limit: too fast (sleep 30s)")
    assert lines[2].startswith("  c/o: 500 oh no, twice (sleep 30s)")
    assert lines[3:] == ["  try: export KEY_A=…", "  try: routekit providers test a"]


def test_t13_a_pin_to_a_missing_model_fails_where_a_route_goes_on(machine: Any) -> None:
    gone = {"status": 404, "body": {"error": {"message": "no such model", "code": "model_not_found"}}}
    done = ask(machine, gone, arguments=("-m", "a/m"))
    assert done.code == 69
    assert counts(machine) == (1, 0)
    machine.run("health", "reset", "--all")
    done = machine.ask("hi", "--json")
    assert (done.code, done.json["served_by"]) == (0, "b/n")
    assert "a/m: 404" in done.err


def test_t14_a_prompt_too_long_skips_the_smaller_model(machine: Any) -> None:
    body = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    machine.loopback.script("m", {"status": 400, "body": body})
    sizes = [("a", "m", 1000), ("b", "n", 500), ("c", "o", 2000)]
    more = "\n".join(f"[providers.{name}.model_info.{model}]\ncontext = {size}" for name, model, size in sizes)
    machine.config("a/m", "b/n", "c/o", more=more)
    data = machine.ask("hi", "--json").json
    assert data["served_by"] == "c/o"
    assert machine.models() == ["m", "o"]
    assert [(row["target"], row["reason"]) for row in data["skipped"]] == [("b/n", "window too small")]
    assert all(row["state"] == "well" for row in machine.run("health", "--json").json)
