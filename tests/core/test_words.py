"""One phrasing for attempts, skips and decisions on every surface (semantics §6.6, §6.9)."""

from __future__ import annotations

from typing import Any

import pytest

from routekit.core import words
from routekit.core.chat import Usage
from routekit.core.record import Attempt, Candidate, GroupDecision, RequestRecord, Skip, document, from_document


def attempt(**more: Any) -> Attempt:
    fields = {"target": "a/m", "wire_id": "m", "provider": "a", "credential": "env:A", "start": 10.0, "end": 12.5}
    return Attempt(**{**fields, "outcome": "failed", **more})


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"kind": "transient", "status": 503, "message": "overloaded", "window_s": 30}, "503 overloaded (sleep 30s)"),
        ({"kind": "transient", "message": "down", "window_s": 60}, "down (sleep 1m0s)"),
        ({"kind": "unknown", "message": "down", "window_s": 28800}, "down (sleep 8h0m)"),
        ({"kind": "rate_limit", "status": 429, "message": "slow down"}, "429 rate limit: slow down"),
        ({"kind": "timeout", "message": "no output within 10s"}, "no output within 10s"),
        ({"kind": "transient", "status": 502}, "502 failed"),
        ({"kind": "auth", "status": 401}, "401 key refused"),
    ],
)
def test_a_cause_ends_in_the_window_it_earned(fields: dict[str, Any], text: str) -> None:
    assert words.cause(attempt(**fields)) == text


def test_an_attempt_that_earned_no_window_has_no_suffix() -> None:
    assert "sleep" not in words.cause(attempt(kind="request", status=400, message="bad"))


def test_a_cancelled_attempt_is_never_annotated() -> None:
    line = words.attempt_line(attempt(outcome="cancelled", kind="cancelled", window_s=30))
    assert line == "a/m: cancelled after 2.5s"


def test_sleepers_are_listed_with_the_time_left() -> None:
    assert words.sleepers([("a/m", 29.9), ("b/n", 60)]) == "sleeping: a/m 29.9s, b/n 1m0s"
    assert words.sleepers([]) == ""


def test_a_skip_names_its_reason_and_when_it_ends() -> None:
    held = Skip(target="a/m", reason="hold", until=20)
    assert words.skip_line(held, 10) == "a/m: skipped, on hold by its vendor, back in 10s"
    assert words.skip_line(Skip(target="a/m", reason="expired"), 10) == "a/m: skipped, expired"


@pytest.mark.parametrize(
    ("reason", "said", "plain"),
    [
        ("target window (transient)", "503 overloaded", "asleep after 503 overloaded"),
        ("target window (rate_limit)", "", "asleep (rate limit)"),
        ("credential window (auth)", "401 invalid key", "its key was refused: 401 invalid key"),
        ("credential window (quota)", "", "its account's quota is used up"),
        ("credential absent (KEY_A is not set)", "", "no key (KEY_A is not set)"),
        ("credential locked", "", "its key is in a locked keyring"),
        ("its probe is out", "", "being tried by another request"),
        ("given up (auth)", "", "just now: key refused"),
        ("budget provider:a: 1 spent of 1", "", "budget provider:a: 1 spent of 1"),
        ("an algorithm's own (reason)", "", "an algorithm's own (reason)"),
    ],
)
def test_a_reason_is_told_in_plain_words_and_with_the_vendors_own(reason: str, said: str, plain: str) -> None:
    assert words.why_skipped(reason, said) == plain


def test_attempts_that_failed_alike_are_told_once_with_how_often() -> None:
    down = {"kind": "transient", "status": 503, "message": "overloaded", "start": 100.0, "end": 100.01}
    rows = [attempt(**down), attempt(**down, window_s=30), attempt(outcome="success", start=101.0, end=102.0)]
    assert words.attempt_lines(rows) == ["a/m: 503 overloaded, twice (sleep 30s)", "a/m: answered in 1s"]
    other = attempt(**{**down, "message": "gone"})
    assert words.attempt_lines([rows[0], other]) == ["a/m: 503 overloaded", "a/m: 503 gone"]


def test_a_decision_names_chosen_reason_and_who_was_passed_over() -> None:
    row = GroupDecision(
        group="syn",
        label="syn/m",
        algorithm="ordered",
        candidates=(Candidate(label="b/m"),),
        chosen="b/m",
        reason="ordered",
        excluded=(Skip(target="a/m", reason="hold"),),
    )
    assert words.decision_line(row) == "syn/m (ordered) → b/m: ordered; passed over a/m (on hold by its vendor)"


def record(**more: Any) -> RequestRecord:
    return RequestRecord(**{"id": "x", "time": 0.0, "surface": "python", "reference": "r", **more})


def test_a_substitution_is_never_silent_and_no_substitution_says_nothing() -> None:
    swapped = record(served_by="b/m", first_choice="a/m", why_not="503 (sleep 30s)")
    assert words.served_line(swapped) == "r → b/m (a/m: 503 (sleep 30s))"
    assert words.served_line(record(served_by="a/m", first_choice="a/m")) == ""


def test_a_usage_line_marks_an_estimate() -> None:
    said = words.usage_line(
        record(served_by="a/m", duration_s=2.1, usage=Usage(input_tokens=8, output_tokens=3, estimated=True))
    )
    assert said == "r → a/m · 2.1s · ~8→3 tok"


def test_a_record_is_the_same_after_the_store() -> None:
    whole = record(
        attempts=(attempt(kind="quota", usage=Usage(input_tokens=1)),),
        skipped=(Skip(target="c/m", reason="hold", until=3.0),),
        decisions=(
            GroupDecision(group="r", label="r", algorithm="smooth", candidates=(), chosen="a/m", reason="turn"),
        ),
    )
    assert from_document(document(whole)) == whole
