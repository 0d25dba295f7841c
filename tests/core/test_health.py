"""Windows, the ladder, claims and holds of one target or credential (semantics §5), and durations as text (§6.8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core import health
from routekit.core.config import Health
from routekit.core.faults import FAULTS, Fault
from routekit.core.health import CLEAR, Claim, Failure, Hold, Standing, Window, clamp_hint, duration, ladder

DEFAULT = Health()
HOUR = 3600.0


class Target:
    """One target's standing, changed by hand."""

    def __init__(self, settings: Health = DEFAULT, now: float = 0.0) -> None:
        self.settings, self.now, self.standing = settings, now, CLEAR

    def fail(self, kind: str = "unknown", *, started: float | None = None, holder: str = "x", **fault: Any) -> Target:
        failure = Failure(
            fault=Fault(kind=kind, **fault), started=self.now if started is None else started, holder=holder
        )
        change = health.fail_credential if FAULTS[kind].scope == "credential" else health.fail_target
        self.standing = change(self.standing, failure, self.settings, self.now)
        return self

    def succeed(self, *, started: float | None = None, holder: str = "x") -> Target:
        started = self.now if started is None else started
        self.standing = health.answered(self.standing, started=started, holder=holder, now=self.now)
        self.standing = health.finished(self.standing, started=started, holder=holder, now=self.now)
        return self

    def claim(self, holder: str, *, until: float) -> Target:
        import msgspec

        claim = Claim(holder=holder, since=self.now, until=until)
        self.standing = msgspec.structs.replace(self.standing, claim=claim)
        return self

    def at(self, now: float) -> Target:
        self.now = now
        return self

    @property
    def asleep(self) -> bool:
        return health.sleeping(self.standing, self.now) is not None

    @property
    def end(self) -> float | None:
        return self.standing.window.end if self.standing.window else None

    @property
    def left(self) -> float:
        return self.standing.window.left(self.now) if self.standing.window else 0.0


# --- the ladder -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rung", "window"),
    [
        (1, 30),
        (2, 60),
        (3, 120),
        (8, 3840),
        (9, 7680),
        (10, 4 * HOUR + 16 * 60),
        (11, 8 * HOUR),
        (40, 8 * HOUR),
        (100_000, 8 * HOUR),
    ],
)
def test_the_ladder_doubles_from_30_s_to_8_h_and_never_overflows(rung: int, window: float) -> None:
    assert ladder(rung, DEFAULT) == window


@given(
    st.integers(1, 10**9),
    st.floats(0.1, 1e5),
    st.floats(1, 10),
    st.floats(0.1, 1e6),
)
def test_no_window_of_the_ladder_is_over_the_cap_nor_shorter_than_the_one_before(
    rung: int, first: float, factor: float, cap: float
) -> None:
    settings = Health(first=first, factor=factor, cap=cap)
    assert 0 < ladder(rung, settings) <= cap
    assert ladder(rung, settings) <= ladder(rung + 1, settings)


def test_a_target_is_usable_from_the_instant_its_window_ends() -> None:
    target = Target().fail()
    assert target.at(29.999).asleep
    assert not target.at(30.0).asleep


def test_each_incident_takes_the_next_rung() -> None:
    target = Target().fail()
    assert target.at(30).fail().left == 60
    assert target.at(89.999).asleep
    assert not target.at(90).asleep
    assert target.at(90).fail().left == 120
    assert target.at(209.999).asleep
    assert not target.at(210).asleep


def test_the_rung_outlives_its_window() -> None:
    assert Target().fail().at(86400).fail().left == 60


def test_the_rung_is_forgotten_after_seven_days_without_a_failure() -> None:
    assert Target().fail().at(7 * 86400 - 1).fail().left == 60
    assert Target().fail().at(7 * 86400).fail().left == 30


def test_a_clean_finish_resets_the_ladder() -> None:
    assert Target().fail().at(30).fail().at(90).succeed().fail().left == 30


def test_what_is_left_is_told_without_changing_anything() -> None:
    target = Target().fail()
    kept = target.standing
    assert [target.at(now).left for now in (0, 15, 30)] == [30, 15, 0]
    assert Target().left == 0
    assert target.standing is kept


def test_first_zero_turns_cool_downs_off() -> None:
    target = Target(Health(first=0)).fail().fail("rate_limit", hint=60)
    assert (target.end, target.standing.rung) == (None, 0)


def test_failures_is_how_many_in_a_row_begin_a_window() -> None:
    target = Target(Health(failures=3)).fail().fail()
    assert not target.asleep
    target.succeed().fail().fail()
    assert not target.asleep
    assert target.fail().left == 30


# --- one incident, one rung -------------------------------------------------------------------------------------------


def test_forty_eight_failures_of_one_incident_cost_one_rung() -> None:
    target = Target()
    for _ in range(48):
        target.now += 0.1
        target.fail(started=0.0)
    assert target.standing.rung == 1
    assert target.left == 30


def test_a_failure_inside_a_window_moves_its_end_and_leaves_the_rung() -> None:
    target = Target().fail().at(10).fail()
    assert (target.end, target.standing.rung) == (40, 1)
    assert target.at(40).fail().left == 60


def test_an_attempt_older_than_the_window_costs_no_rung_even_after_its_end() -> None:
    target = Target().at(5).fail().at(50).fail(started=0)
    assert (target.end, target.standing.rung) == (80, 1)


def test_the_claims_holder_climbs_and_gives_the_claim_back() -> None:
    target = Target().fail().at(31).claim("prober", until=60).at(35)
    target.fail(started=31, holder="prober")
    assert (target.left, target.standing.rung, target.standing.claim) == (60, 2, None)


@given(
    st.lists(st.tuples(st.floats(0, 200), st.floats(0, 200), st.booleans()), max_size=12), st.permutations(range(12))
)
def test_no_order_of_settling_ever_shortens_a_window(rows: list[tuple[float, float, bool]], order: list[int]) -> None:
    """Whatever fails after whatever, and however long each attempt ran, the end of the window only moves later."""
    target, now = Target(), 0.0
    for step, at in enumerate(place for place in order if place < len(rows)):
        gap, ran, hinted = rows[at]
        now += gap / (step + 1)
        before = target.end or 0.0
        if hinted:
            target.at(now).fail("rate_limit", started=now - ran, hint=ran)
        else:
            target.at(now).fail(started=now - ran)
        assert (target.end or 0.0) >= before
        assert target.left <= 24 * HOUR


# --- stated windows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "used"),
    [
        (None, None),
        (0, None),
        (-5, None),
        (float("nan"), None),
        (0.2, 1),
        (5, 5),
        (1e12, 24 * HOUR),
        (float("inf"), 24 * HOUR),
    ],
)
def test_a_stated_wait_is_clamped_to_1_s_and_24_h_and_nothing_is_no_wait(
    hint: float | None, used: float | None
) -> None:
    assert clamp_hint(hint, DEFAULT) == used


def test_max_hint_bounds_a_stated_wait() -> None:
    assert clamp_hint(24 * HOUR, Health(max_hint=HOUR)) == HOUR


def test_a_stated_wait_of_zero_falls_to_the_ladder() -> None:
    assert Target().fail("rate_limit", hint=0).left == 30


def test_a_failure_never_shortens_a_stated_window() -> None:
    target = Target().fail("rate_limit", hint=120).at(10).fail(started=0)
    assert (target.end, target.standing.window and target.standing.window.stated) == (120, True)


def test_what_a_vendor_stated_stays_stated_when_a_guess_lengthens_it() -> None:
    target = Target().fail("rate_limit", hint=20).at(1).fail(started=0)
    assert target.standing.window == Window(start=0, end=31, stated=True, cause="unknown")


def test_a_stated_window_climbs_no_rung() -> None:
    target = Target().fail("rate_limit", hint=10)
    assert target.standing.rung == 0
    assert target.at(10).fail().left == 30


@pytest.mark.parametrize(("kind", "window"), [("region", 8 * HOUR), ("model_gone", 12 * HOUR)])
def test_some_faults_have_a_window_of_their_own(kind: str, window: float) -> None:
    assert Target().fail(kind).left == window


# --- credentials ------------------------------------------------------------------------------------------------------


def test_an_exhausted_quota_takes_15_minutes_or_the_stated_reset() -> None:
    assert Target().fail("quota").left == 900
    stated = Target().fail("quota", hint=60)
    assert (stated.left, stated.standing.window and stated.standing.window.stated) == (60, True)


def test_a_refused_key_takes_30_minutes() -> None:
    assert Target().fail("auth").left == 1800


def test_a_rate_limit_of_the_account_climbs_the_ladder() -> None:
    failure = Failure(fault=Fault(kind="rate_limit", scope="credential"), started=0, holder="x")
    standing = health.fail_credential(CLEAR, failure, DEFAULT, 0)
    assert (standing.window and standing.window.length, standing.rung) == (30, 1)


def test_a_quota_of_one_model_takes_the_quotas_window() -> None:
    failure = Failure(fault=Fault(kind="quota", scope="target"), started=0, holder="x")
    standing = health.fail_target(CLEAR, failure, DEFAULT, 0)
    assert standing.window
    assert standing.window.length == 900


def test_a_failed_probe_of_a_credential_gives_its_claim_back() -> None:
    target = Target().fail("quota").at(900).claim("prober", until=925).fail("quota", holder="prober")
    assert (target.standing.claim, target.left) == (None, 900)


# --- what ends a window -----------------------------------------------------------------------------------------------


def test_a_success_ends_a_guessed_window_only_if_it_began_after_the_window() -> None:
    assert Target().at(5).fail().at(6).succeed(started=0).asleep
    assert not Target().at(5).fail().at(6).succeed(started=5.5).asleep


def test_a_success_that_began_before_a_window_leaves_its_rung() -> None:
    target = Target().at(5).fail().at(6).succeed(started=0)
    assert target.standing.rung == 1


def test_no_success_ends_a_stated_window_before_its_time() -> None:
    target = Target().fail("rate_limit", hint=120).at(60).succeed(started=50)
    assert target.left == 60


def test_a_success_after_a_stated_window_leaves_nothing_of_it() -> None:
    assert Target().fail("rate_limit", hint=10).at(11).succeed().standing.window is None


# --- half-open --------------------------------------------------------------------------------------------------------


def test_a_guessed_window_that_ended_leaves_the_target_half_open_a_stated_one_does_not() -> None:
    assert health.half_open(Target().fail().at(30).standing, 30)
    assert not health.half_open(Target().fail().at(29).standing, 29)
    assert not health.half_open(Target().fail("rate_limit", hint=10).standing, 30)


def test_a_claim_is_seen_by_others_until_its_lease_ends() -> None:
    standing = Target().fail().at(30).claim("prober", until=50).standing
    assert health.claimed(standing, 40, "other")
    assert not health.claimed(standing, 40, "prober")
    assert not health.claimed(standing, 50, "other")


def test_a_late_result_frees_nobody_elses_claim() -> None:
    standing = Target().fail().at(60).claim("second", until=90).standing
    assert health.released(standing, "first").claim == standing.claim
    assert health.released(standing, "second").claim is None
    late = health.answered(standing, started=31, holder="first", now=61)
    assert late.claim == standing.claim


def test_first_output_ends_window_and_claim_and_a_clean_finish_the_rung() -> None:
    standing = Target().fail().at(30).claim("prober", until=50).standing
    spoke = health.answered(standing, started=30, holder="prober", now=31)
    assert (spoke.window, spoke.claim, spoke.rung) == (None, None, 1)
    assert health.finished(spoke, started=30, holder="prober", now=32).rung == 0


def test_a_stream_that_breaks_after_first_output_of_a_probe_climbs() -> None:
    target = Target().fail().at(30).claim("prober", until=50)
    target.standing = health.answered(target.standing, started=30, holder="prober", now=31)
    assert target.at(35).fail("truncated", started=30, holder="prober").left == 60


# --- a clock set back -------------------------------------------------------------------------------------------------


@given(
    st.floats(0, 1e6),
    st.floats(1, 30 * 86400),
    st.floats(-1e9, 1e9),
    st.booleans(),
)
def test_a_clock_set_anywhere_shows_nothing_longer_than_its_window(
    start: float, length: float, now: float, stated: bool
) -> None:
    """Whatever the clock says, what is left of a window or hold is at most its own length."""
    window = Window(start=start, end=start + length, stated=stated)
    standing = Standing(window=window, hold=Hold(start=start, end=start + length))
    seen = health.rebased(standing, now)
    assert seen.window
    assert 0 <= seen.window.left(now) <= length * (1 + 1e-9) + 1e-3
    assert seen.hold
    assert 0 <= seen.hold.left(now) <= length * (1 + 1e-9) + 1e-3


def test_a_window_from_the_future_begins_now() -> None:
    seen = health.rebased(Standing(window=Window(start=1000, end=1030)), 10)
    assert seen.window == Window(start=10, end=40)


def test_a_claim_from_the_future_has_lost_its_meaning() -> None:
    standing = Standing(claim=Claim(holder="x", since=1000, until=1020))
    assert health.claimed(standing, 10, "other") is None


def test_a_claim_taken_while_another_waited_for_the_store_counts() -> None:
    """Its look at the clock may be older than the claim."""
    standing = Standing(claim=Claim(holder="x", since=1000, until=1020))
    assert health.claimed(standing, 999.9, "other")


# --- holds ------------------------------------------------------------------------------------------------------------


def test_a_hold_excludes_until_its_end_and_one_with_something_left_only_demotes() -> None:
    assert health.held(Standing(hold=Hold(start=0, end=20)), 19.9)
    assert not health.held(Standing(hold=Hold(start=0, end=20)), 20)
    nearly = Standing(hold=Hold(start=0, end=20, demotes=True))
    assert not health.held(nearly, 10)
    assert health.demoted(nearly, 10)
    assert not health.demoted(nearly, 20)


def test_a_healthier_answer_lifts_a_hold() -> None:
    held = health.announced(CLEAR, Hold(start=0, end=20), 0)
    assert held.hold
    assert health.announced(held, None, 1).hold is None
    assert health.announced(CLEAR, None, 1) is CLEAR


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0002, "1ms"),
        (0.04, "40ms"),
        (0.05, "0.1s"),
        (0.25, "0.3s"),
        (29.9, "29.9s"),
        (30, "30s"),
        (45.2, "45.2s"),
        (59.94, "59.9s"),
        (59.96, "60s"),
        (60, "1m0s"),
        (62.5, "1m3s"),
        (162, "2m42s"),
        (3599.5, "1h0m"),
        (3600, "1h0m"),
        (3900, "1h5m"),
        (15360, "4h16m"),
        (28800, "8h0m"),
    ],
)
def test_durations_round_half_up_and_drop_a_zero_tenth(seconds: float, text: str) -> None:
    assert duration(seconds) == text
