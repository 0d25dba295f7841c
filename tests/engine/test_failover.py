"""The loop: retry, fail over, give up, and the one error at the end (semantics §6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from routekit.core.chat import Delta, Event, Finish, Opened
from routekit.core.faults import FAULTS, Fault, VendorFault
from routekit.core.record import RequestRecord
from routekit.dispatch import Note
from routekit.errors import (
    BudgetExceeded,
    CredentialError,
    RequestRefused,
    RouteExhausted,
    TruncatedAnswer,
    UsageError,
)
from routekit.loop import run
from routekit.vendors import VendorCall
from routekit.vendors.scripted import Vendor
from tests.engine.stage import Stage, accounts, down, remote

AB = accounts("a", "b") + '[routes.r]\ntargets = ["a/m", "b/m"]\n'
A = accounts("a") + '[routes.r]\ntargets = ["a/m"]\n'
ABC = accounts("a", "b", "c") + '[routes.r]\ntargets = ["a/m", "b/m", "c/m"]\n'

#: class → does the same target get it again, does another, does the target or credential cool, exit code alone
TABLE = {
    "transient": (True, True, "a/m", 69),
    "timeout": (False, True, "a/m", 69),
    "rate_limit": (False, True, "a/m", 75),
    "quota": (False, True, "none:a", 75),
    "auth": (False, True, "none:a", 77),
    "region": (False, True, "a/m", 69),
    "model_gone": (False, True, "a/m", 69),
    "unsupported": (False, True, None, 65),
    "context": (False, True, None, 65),
    "content_filter": (False, False, None, 65),
    "request": (False, False, None, 65),
    "client_error": (False, True, None, 69),
    "setup": (False, True, None, 78),
    "truncated": (False, True, "a/m", 74),
    "cancelled": (False, False, None, 130),
    "unknown": (False, True, "a/m", 69),
}


def test_the_table_has_a_row_for_every_class() -> None:
    assert set(TABLE) == set(FAULTS)


@pytest.mark.parametrize("kind", TABLE)
def test_each_class_is_tried_again_handed_over_and_cooled_as_its_row_says(kind: str) -> None:
    again, over, cools, _ = TABLE[kind]
    stage = Stage(AB, {"a": [down(kind)]})
    if over:
        assert stage.ask().text == "b"
    else:
        stage.fails()
    assert stage.calls == ["a/m"] * (1 + again) + ["b/m"] * over
    assert list(stage.asleep()) == ([cools] if cools else [])


@pytest.mark.parametrize("kind", TABLE)
def test_each_class_alone_has_its_exit_code(kind: str) -> None:
    stage = Stage(A, {"a": [down(kind)]})
    error = stage.fails()
    assert error.exit_code == TABLE[kind][3]
    assert stage.record().exit_code == error.exit_code


@pytest.mark.parametrize(
    ("kinds", "code", "made"),
    [
        (("auth", "auth"), 77, CredentialError),
        (("rate_limit", "quota"), 75, RouteExhausted),
        (("unsupported", "context"), 65, RequestRefused),
        (("truncated", "truncated"), 74, TruncatedAnswer),
        (("auth", "rate_limit"), 69, RouteExhausted),
        (("timeout", "unknown"), 69, RouteExhausted),
    ],
)
def test_attempts_that_share_a_code_give_it_and_mixed_ones_69(kinds: tuple[str, str], code: int, made: type) -> None:
    error = Stage(AB, {"a": [down(kinds[0])], "b": [down(kinds[1])]}).fails()
    assert error.exit_code == code
    assert type(error) is made


# --- the same target again --------------------------------------------------------------------------------------------


def test_a_transient_failure_is_retried_once_on_the_same_target_and_its_success_leaves_no_window() -> None:
    stage = Stage(AB, {"a": [down("transient"), "fine"]})
    assert stage.ask().text == "fine"
    assert stage.calls == ["a/m", "a/m"]
    assert stage.asleep() == {}


def test_a_retry_waits_half_a_second_give_or_take_half() -> None:
    async def took(draw: float) -> float:
        stage = Stage(A, {"a": [down("transient"), "fine"]}, draw=draw)
        began = asyncio.get_running_loop().time()
        await stage.router.aask("x", model="r")
        return asyncio.get_running_loop().time() - began

    assert run(took(0.0)) >= 0.25
    assert run(took(0.999)) >= 0.74


def test_a_rate_limit_with_a_short_wait_is_waited_out_on_the_same_target() -> None:
    stage = Stage(AB, {"a": [down("rate_limit", hint=0.05), "fine"]})
    assert stage.ask().text == "fine"
    assert stage.calls == ["a/m", "a/m"]


def test_a_rate_limit_with_a_long_wait_goes_to_another_at_once_and_its_wait_is_kept_with_what_was_said() -> None:
    stage = Stage(AB, {"a": [down("rate_limit", hint=120)]})
    assert stage.ask().text == "b"
    assert stage.asleep() == {"a/m": 120}
    failed = stage.record().attempts[0]
    assert (failed.retry_after, failed.hint_used, failed.window_s) == (120, 120, 120)


def test_hint_and_clamp_are_both_recorded() -> None:
    text = '[health]\nmax_hint = "1h"\n' + AB
    stage = Stage(text, {"a": [down("rate_limit", hint=86400)]})
    stage.ask()
    failed = stage.record().attempts[0]
    assert (failed.retry_after, failed.hint_used, stage.asleep()) == (86400, 3600, {"a/m": 3600})


def test_a_parameter_a_request_can_do_without_is_left_out_once() -> None:
    stage = Stage(AB, {"a": [down("unsupported", parameter="temperature"), "fine"]})
    assert stage.ask(options={"temperature": 1}).text == "fine"
    assert [call.without for call in stage.made] == [frozenset(), frozenset({"temperature"})]


def test_a_parameter_that_matters_sends_the_request_to_another() -> None:
    stage = Stage(AB, {"a": [down("unsupported", parameter="tools")]})
    assert stage.ask().text == "b"
    assert stage.calls == ["a/m", "b/m"]


def test_half_open_and_last_resort_attempts_are_not_retried() -> None:
    stage = Stage(A, {"a": [down("unknown"), down("transient")]})
    stage.fails()
    stage.fails()
    assert stage.record().attempts[0].last_resort
    stage.now += 31
    stage.fails()
    assert stage.calls == ["a/m"] * 3


def test_attempts_bound_the_whole_request() -> None:
    text = accounts("a", "b", "c") + '[routes.r]\ntargets = ["a/m", "b/m", "c/m"]\nattempts = 2\n'
    stage = Stage(text, {name: [down()] for name in "abc"})
    stage.fails()
    assert stage.calls == ["a/m", "b/m"]


def test_a_targets_health_is_hit_once_per_request() -> None:
    stage = Stage(A, {"a": [down("transient")]})
    stage.fails()
    assert stage.calls == ["a/m", "a/m"]
    assert stage.router.health()[0].rung == 1


def test_after_three_failures_of_one_class_on_one_credential_its_other_leaves_are_left() -> None:
    ids = [f"p{number}" for number in range(5)]
    text = remote(*ids).replace('key = "none"', 'key = "env:KEY"') + accounts("z") + "[health]\nfirst = 0\n"
    targets = ", ".join(f'"{id}/m"' for id in (*ids, "z"))
    account = [Fault(kind="rate_limit", message="slow", scope="credential")]
    environ = {"KEY": "placeholder-for-tests"}
    stage = Stage(text + f"[routes.r]\ntargets = [{targets}]\n", dict.fromkeys(ids, account), environ=environ)
    assert stage.ask().served_by == "z/m"
    assert stage.calls == ["p0/m", "p1/m", "p2/m", "z/m"]
    target = [Fault(kind="rate_limit", message="slow")]
    scoped = Stage(text + f"[routes.r]\ntargets = [{targets}]\n", dict.fromkeys(ids, target), environ=environ)
    assert scoped.ask().served_by == "z/m"
    assert len(scoped.calls) == 6


# --- going over -------------------------------------------------------------------------------------------------------


def test_a_request_goes_over_until_served_and_the_next_one_begins_with_who_is_well() -> None:
    stage = Stage(ABC, {"a": [down()], "b": [down()]})
    assert stage.ask().served_by == "c/m"
    assert stage.causes() == ["a/m unknown", "b/m unknown", "c/m success"]
    assert stage.ask().served_by == "c/m"
    assert stage.calls == ["a/m", "b/m", "c/m", "c/m"]


def test_failover_false_keeps_to_the_first_target() -> None:
    stage = Stage(AB, {"a": [down()]})
    stage.fails(failover=False)
    assert stage.calls == ["a/m"]


def test_a_pinned_reference_is_honoured_or_fails() -> None:
    stage = Stage(AB, {"a": [down("model_gone")]})
    error = stage.fails("a/m")
    assert (stage.calls, error.exit_code) == (["a/m"], 69)


def test_nested_routes_fail_over_in_one_walk() -> None:
    text = accounts("a", "b", "c")
    text += '[routes.r]\ntargets = ["route/inner", "c/m"]\n[routes.inner]\ntargets = ["a/m", "b/m"]\n'
    stage = Stage(text, {"a": [down()]})
    assert stage.ask().served_by == "b/m"
    assert stage.calls == ["a/m", "b/m"]
    assert list(stage.asleep()) == ["a/m"]


def test_a_content_refusal_is_returned_with_its_reason_and_nobody_else_is_asked() -> None:
    stage = Stage(AB, {"a": [down("content_filter", "against the policy")]})
    error = stage.fails()
    assert isinstance(error, RequestRefused)
    assert "against the policy" in error.message
    assert stage.calls == ["a/m"]


def test_a_secret_that_cannot_be_had_costs_no_attempt_and_the_walk_goes_on() -> None:
    text = (
        '[providers.k]\napi = "openai-chat"\nbase_url = "https://k.example"\nkey = "env:NOT_SET"\n'
        + accounts("b")
        + '[routes.r]\ntargets = ["k/m", "b/m"]\n'
    )
    stage = Stage(text, environ={})
    assert stage.ask().served_by == "b/m"
    assert [row.target for row in stage.record().attempts] == ["b/m"]
    assert stage.record().skipped[0].reason.startswith("credential absent")
    alone = Stage(text.replace('"k/m", "b/m"', '"k/m"'), environ={})
    assert isinstance(alone.fails(), CredentialError)


# --- limits -----------------------------------------------------------------------------------------------------------

QUICK = '[limits]\nfirst_output = "80ms"\nstall = "80ms"\n'


def test_silence_before_output_is_a_timeout_when_another_ready_leaf_remains() -> None:
    stage = Stage(QUICK + AB, {"a": [...]})
    assert stage.ask().text == "b"
    assert stage.causes() == ["a/m timeout", "b/m success"]
    assert stage.record().attempts[0].message == "no output within 0.1s"


def test_the_last_leaf_is_given_all_the_time_there_is() -> None:
    stage = Stage(QUICK + A, {"a": [{"text": "late", "first": 0.3}]})
    assert stage.ask().text == "late"


def test_a_stall_after_output_is_a_cut_answer() -> None:
    stage = Stage(QUICK + AB, {"a": [{"pieces": ["one ", "two"], "stall_after": 1}]})
    assert stage.ask().text == "b"
    assert stage.causes() == ["a/m truncated", "b/m success"]
    assert list(stage.asleep()) == ["a/m"]


def test_the_requests_deadline_is_no_fault_of_the_target_it_ends() -> None:
    stage = Stage('[limits]\ndeadline = "100ms"\n' + A, {"a": [...]})
    error = stage.fails()
    assert (error.exit_code, stage.asleep()) == (69, {})
    assert "deadline of 0.1s" in error.message
    assert stage.causes() == ["a/m cancelled"]
    assert "sleep" not in "\n".join(error.lines())


def test_the_deadline_ends_with_the_first_output() -> None:
    slow = {"pieces": ["a", "b", "c"], "delay": 0.06}
    stage = Stage('[limits]\ndeadline = "100ms"\n' + A, {"a": [slow]})
    assert stage.ask().text == "abc"


@pytest.mark.parametrize(("live", "code"), [(False, 69), (True, 74)])
def test_the_callers_timeout_is_69_before_output_and_74_after(live: bool, code: int) -> None:
    stage = Stage(A, {"a": [{"pieces": ["one ", "two"], "stall_after": 1}]})
    if live:
        shown, error = stage.live(timeout=0.1)
        assert shown == "one "
        assert isinstance(error, TruncatedAnswer)
        assert error.partial == "one "
    else:
        error = stage.fails(timeout=0.1)
    assert error is not None
    assert error.exit_code == code
    assert stage.asleep() == {}
    assert stage.causes() == ["a/m cancelled"]


# --- the commit point -------------------------------------------------------------------------------------------------

CUT = {"pieces": ["one ", "two ", "three"], "cut_after": 2}


def test_a_held_back_answer_that_is_cut_begins_anew_on_the_next_leaf_and_is_shown_once() -> None:
    stage = Stage(AB, {"a": [CUT]})
    assert stage.ask().text == "b"
    assert stage.causes() == ["a/m truncated", "b/m success"]


def test_a_live_answer_that_is_cut_keeps_its_part_and_never_goes_on_elsewhere() -> None:
    stage = Stage(AB, {"a": [CUT]})
    shown, error = stage.live()
    assert shown == "one two "
    assert isinstance(error, TruncatedAnswer)
    assert (error.exit_code, error.partial, stage.calls) == (74, "one two ", ["a/m"])


class Breaks(Vendor):
    """Says one piece and then fails."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    async def stream(self, call: VendorCall) -> AsyncGenerator[Event, None]:
        yield Opened()
        yield Delta(text="one ")
        raise VendorFault(Fault(kind=self.kind, message="in the middle"))


@pytest.mark.parametrize("kind", ["rate_limit", "quota", "client_error", "transient", "unknown"])
def test_whatever_breaks_a_live_answer_it_is_said_to_be_cut(kind: str) -> None:
    shown, error = Stage(AB, speaker=Breaks(kind)).live()
    assert shown == "one "
    assert isinstance(error, TruncatedAnswer)
    assert (error.exit_code, error.partial) == (74, "one ")


def test_a_live_failure_before_any_output_is_invisible() -> None:
    stage = Stage(AB, {"a": [{"pieces": ["one"], "cut_after": 0}]})
    assert stage.live() == ("b", None)


def test_an_answer_is_complete_only_with_its_end() -> None:
    stage = Stage(AB, {"a": [{"events": [Delta(text="half")]}]})
    assert stage.ask().text == "b"
    assert stage.causes()[0] == "a/m truncated"
    silent = Stage(AB, {"a": [{"events": []}]})
    assert silent.ask().text == "b"
    assert silent.causes() == ["a/m transient", "a/m transient", "b/m success"]


def test_a_complete_answer_without_text_is_a_success_with_a_note() -> None:
    stage = Stage(AB, {"a": [{"events": [Finish(reason="length")]}]})
    answer = stage.ask()
    assert (answer.text, answer.served_by, answer.finish_reason) == ("", "a/m", "length")
    assert "the answer is empty (finish reason: length)" in stage.record().notes


def test_the_token_limit_is_a_success_for_health() -> None:
    stage = Stage(A, {"a": [down(), {"text": "half", "finish": "length"}]})
    stage.fails()
    stage.now += 30
    stage.ask()
    assert stage.asleep() == {}
    assert stage.router.health()[0].rung == 0


# --- the one error ----------------------------------------------------------------------------------------------------


def test_failed_attempts_carry_the_window_they_earned_30_s_then_1_m_then_2_m() -> None:
    stage = Stage(A, {"a": [down(message="alpha down")]})
    said = []
    for wait in (30, 60, 120):
        said.append(stage.fails().message)
        stage.now += wait
    assert said == [f"r: a/m failed: alpha down (sleep {window})" for window in ("30s", "1m0s", "2m0s")]


def test_own_success_resets_the_windows_and_anothers_does_not() -> None:
    stage = Stage(AB, {"a": [down(message="alpha down"), "fine", down(message="alpha down")]})
    stage.ask()
    assert stage.asleep() == {"a/m": 30}
    stage.ask()
    assert stage.asleep() == {"a/m": 30}
    stage.now += 30
    assert stage.ask().text == "fine"
    stage.ask()
    assert stage.record().attempts[0].window_s == 30


def test_with_cool_downs_off_the_words_are_the_vendors_alone() -> None:
    stage = Stage("[health]\nfirst = 0\n" + A, {"a": [down(message="alpha down")]})
    assert stage.fails().message == "r: a/m failed: alpha down"


def test_a_failed_request_tells_all_attempts_in_order_and_names_the_first_cause() -> None:
    stage = Stage(
        ABC,
        {
            "a": [down("auth", "bad key", status=401)],
            "b": [down("rate_limit", "slow", status=429)],
            "c": [down("unknown", "boom")],
        },
    )
    error = stage.fails()
    assert error.exit_code == 69
    lines = error.lines()
    assert lines[0] == "r: 3 candidates failed"
    assert lines[1].startswith("  first cause: a/m: 401 key refused: bad key (sleep 30m0s)")
    assert lines[2].startswith("  b/m: 429 rate limit: slow (sleep 30s)")
    assert lines[3].startswith("  c/m: boom (sleep 30s)")
    assert [row.kind for row in error.attempts] == ["auth", "rate_limit", "unknown"]


def test_exhaustion_lists_the_sleepers_with_the_time_left() -> None:
    text = accounts("a", "b") + '[routes.r]\ntargets = ["a/m", "b/n"]\nlast_resort = "never"\n'
    stage = Stage(text, {"a": [down(), down()], "b": [down()]})
    stage.fails()
    stage.now += 0.1
    error = stage.fails()
    assert isinstance(error, RouteExhausted)
    assert error.message == "r: no candidate is ready; sleeping: a/m 29.9s, b/n 29.9s"
    assert (error.exit_code, error.retry_after) == (75, pytest.approx(29.9))
    assert len(stage.calls) == 2


def test_exhaustion_with_nobody_asleep_has_no_list() -> None:
    text = '[providers.a]\napi = "scripted"\n[routes.r]\ntargets = [{ target = "a/m", until = 2020-01-01T00:00:00Z }]\n'
    error = Stage(text).fails()
    assert "sleeping" not in error.message


def test_a_cancelled_request_is_never_annotated_and_cools_nobody() -> None:
    stage = Stage(A, {"a": [...]})

    async def interrupted() -> None:
        task = asyncio.ensure_future(stage.router.aask("x", model="r"))
        while not stage.calls:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(interrupted())
    record = stage.record()
    assert (record.exit_code, [row.outcome for row in record.attempts]) == (130, ["cancelled"])
    assert stage.asleep() == {}


def test_a_reader_that_leaves_cools_nobody() -> None:
    stage = Stage(A, {"a": [{"pieces": ["one", "two"], "delay": 0.01}]})

    async def leave() -> None:
        async with aclosing(stage.happenings()) as happenings:
            async for happening in happenings:
                if isinstance(happening, Delta):
                    break

    run(leave())
    assert stage.record().exit_code == 141
    assert stage.asleep() == {}


# --- no silent substitution -------------------------------------------------------------------------------------------


def test_served_by_anything_but_the_first_choice_says_so_with_the_reason() -> None:
    stage = Stage(AB, {"a": [down(message="alpha down")]})
    record = stage.ask().record
    assert (record.served_by, record.first_choice, record.why_not) == ("b/m", "a/m", "alpha down (sleep 30s)")
    again = stage.ask().record
    assert (again.served_by, again.first_choice) == ("b/m", "a/m")
    assert again.why_not == "asleep after alpha down, back in 30s"


def test_served_by_the_first_choice_says_nothing() -> None:
    record = Stage(AB).ask().record
    assert (record.served_by, record.why_not) == ("a/m", None)


@pytest.mark.parametrize(
    ("claimed", "noted"), [("m", False), ("m-2026-01-01", False), ("vendor/m", False), ("other", True)]
)
def test_a_vendor_that_answers_with_another_model_is_noted(claimed: str, noted: bool) -> None:
    stage = Stage(A, {"a": [{"text": "x", "served": claimed}]})
    notes = stage.ask().record.notes
    assert (f"a/m answered as {claimed}" in notes) is noted


def test_waiting_is_said_while_it_lasts() -> None:
    text = accounts("a") + '[routes.r]\ntargets = ["a/m"]\nlast_resort = "wait"\n[health]\nfirst = "200ms"\n'
    stage = Stage(text, {"a": [down(), "fine"]})
    stage.fails()
    said: list[Any] = []

    async def ask() -> None:
        async for happening in stage.happenings():
            said.append(happening)
            stage.now += 0.3 if isinstance(happening, Note) else 0

    run(ask())
    assert [one.text for one in said if isinstance(one, Note)] == ["everyone is asleep; waiting 0.2s for a/m"]
    assert isinstance(said[-1], RequestRecord)


# --- offline ----------------------------------------------------------------------------------------------------------

GONE = down("timeout", "no way out", delivered=False)
FAR = remote("x", "y") + '[routes.r]\ntargets = ["x/m", "y/m"]\n'


def test_offline_cools_nobody_and_says_so() -> None:
    stage = Stage(FAR, {"x": [GONE], "y": [GONE]})
    error = stage.fails()
    assert stage.asleep() == {}
    assert "this machine seems to be offline" in "\n".join(error.lines())
    assert "sleep" not in "\n".join(error.lines())


def test_one_host_alone_says_nothing_of_the_network() -> None:
    stage = Stage(remote("x") + '[routes.r]\ntargets = ["x/m", "x/n"]\n', {"x": [GONE]})
    stage.fails()
    assert set(stage.asleep()) == {"x/m", "x/n"}


def test_an_answer_from_anyone_within_thirty_seconds_is_a_network() -> None:
    stage = Stage(FAR + '[routes.other]\ntargets = ["y/n"]\n', {"x": [GONE], "y/m": [GONE], "y/n": ["fine"]})
    stage.ask("other")
    stage.now += 29
    stage.fails()
    assert set(stage.asleep()) == {"x/m", "y/m"}
    stage.now += 3600
    late = Stage(FAR, {"x": [GONE], "y": [GONE]}, state=stage.router.store)
    late.now = stage.now
    stage.router.reset_health()
    late.fails()
    assert late.asleep() == {}


@pytest.mark.parametrize("other", [down("unknown", "reset", delivered=True), down("rate_limit", "429", status=429)])
def test_a_failure_that_reached_a_vendor_is_no_sign_of_being_offline(other: Any) -> None:
    text = remote("x", "y", "z") + '[routes.r]\ntargets = ["x/m", "y/m", "z/m"]\n'
    stage = Stage(text, {"x": [GONE], "y": [GONE], "z": [other]})
    stage.fails()
    assert set(stage.asleep()) == {"x/m", "y/m", "z/m"}


def test_being_offline_is_judged_even_if_a_vendor_on_this_machine_answers() -> None:
    text = FAR.replace('"y/m"]', '"y/m", "here/m"]')
    text += '[providers.here]\napi = "openai-chat"\nbase_url = "http://127.0.0.1:9"\nkey = "none"\n'
    stage = Stage(text, {"x": [GONE], "y": [GONE]})
    assert stage.ask().served_by == "here/m"
    assert stage.asleep() == {}


def test_a_refusal_on_this_machine_is_a_plain_failure() -> None:
    text = '[providers.here]\napi = "openai-chat"\nbase_url = "http://127.0.0.1:9"\nkey = "none"\n'
    stage = Stage(text + '[routes.r]\ntargets = ["here/m"]\n', {"here": [GONE]})
    stage.fails()
    assert list(stage.asleep()) == ["here/m"]


def test_connections_that_failed_are_cooled_when_somebody_answers_after_all() -> None:
    stage = Stage(FAR, {"x": [GONE]})
    assert stage.ask().served_by == "y/m"
    assert stage.asleep() == {"x/m": 30}


def test_connections_that_failed_are_judged_even_when_the_caller_runs_out_of_time() -> None:
    stage = Stage(FAR, {"x": [GONE], "y": [...]})
    stage.fails(timeout=0.1)
    assert stage.asleep() == {"x/m": 30}


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_changed_key_wakes_its_targets_at_once_even_while_another_serves() -> None:
    text = (
        '[providers.k]\napi = "openai-chat"\nbase_url = "https://k.example"\nkey = "env:KEY"\n'
        + accounts("b")
        + '[routes.r]\ntargets = ["k/m", "b/m"]\n'
    )
    stage = Stage(text, {"k": [down("auth"), "fine"]}, environ={"KEY": "placeholder-one"})
    assert stage.ask().served_by == "b/m"
    assert stage.ask().served_by == "b/m"
    renewed = Stage(text, {"k": ["fine"]}, environ={"KEY": "placeholder-two"}, state=stage.router.store)
    assert renewed.ask().served_by == "k/m"
    assert renewed.asleep() == {}


def test_unknown_names_are_errors_before_anything_is_asked() -> None:
    stage = Stage(AB)
    with pytest.raises(UsageError):
        stage.ask("nobody")
    assert stage.calls == []
    assert BudgetExceeded.exit_code == 80


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_waiting_for_a_window_never_outlasts_the_callers_time() -> None:
    text = accounts("a") + '[routes.r]\ntargets = ["a/m"]\nlast_resort = "wait"\n'
    stage = Stage(text, {"a": [down()]})
    stage.fails()
    error = stage.fails(timeout=0.1)
    assert error.exit_code == 69
    assert "--timeout 0.1s" in error.message
    assert stage.calls == ["a/m"]


def test_a_request_with_nobody_else_waits_for_anothers_probe_and_is_served_after_it() -> None:
    stage = Stage(A, {"a": [down(), {"text": "probe", "first": 0.15}, "after"]})
    stage.fails()
    stage.now += 30

    async def both() -> list[str]:
        first = asyncio.ensure_future(stage.router.aask("x", model="r"))
        while len(stage.calls) < 2:
            await asyncio.sleep(0.005)
        second = asyncio.ensure_future(stage.router.aask("x", model="r"))
        await asyncio.sleep(0.05)
        assert len(stage.calls) == 2
        return [(await first).text, (await second).text]

    assert run(both()) == ["probe", "after"]


def test_anothers_probe_is_waited_for_no_longer_than_first_output() -> None:
    text = '[limits]\nfirst_output = "100ms"\n' + A
    stage = Stage(text, {"a": [down(), ...]})
    stage.fails()
    stage.now += 30

    async def second() -> RouteExhausted:
        prober = asyncio.ensure_future(stage.router.aask("x", model="r"))
        while len(stage.calls) < 2:
            await asyncio.sleep(0.005)
        with pytest.raises(RouteExhausted) as error:
            await stage.router.aask("x", model="r")
        prober.cancel()
        await asyncio.gather(prober, return_exceptions=True)
        return error.value

    error = run(second())
    assert error.exit_code == 75
    assert [(skip.target, skip.reason) for skip in error.skipped] == [("a/m", "its probe is out")]


# --- exit codes without an attempt ------------------------------------------------------------------------------------


def test_without_an_attempt_a_sleeper_counts_before_a_missing_key_and_a_lacking_ability_is_the_requests() -> None:
    key = '[providers.k]\napi = "openai-chat"\nbase_url = "https://k.example"\nkey = "env:NOT_SET"\n'
    both = key + accounts("a") + '[routes.r]\ntargets = ["k/m", "a/m"]\nlast_resort = "never"\n'
    stage = Stage(both, {"a": [down()]}, environ={})
    stage.fails()
    assert stage.fails().exit_code == 75
    unable = Stage(accounts("a", more="model_info.m.tools = false") + '[routes.r]\ntargets = ["a/m"]\n')
    assert unable.fails(tools=[{"type": "function", "function": {"name": "f"}}]).exit_code == 65
    assert unable.calls == []
