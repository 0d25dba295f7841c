"""Holds in the core: what an announcement of a vendor excludes, demotes and lifts, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core import decide as heart
from routekit.core import health
from routekit.core import judge as judging
from routekit.core import settle as settling
from routekit.core.decide import Choice, Exhausted, Waiting
from routekit.core.health import CLEAR, Hold, Standing
from routekit.core.judge import Walk
from routekit.core.plan import Branch, Group, Leaf, Plan
from routekit.core.select import Context, built_in
from routekit.core.settle import Try

NOW = 1_700_000_000.0


def plan(*ids: str, algorithm: str = "ordered", fixed: bool = False, last_resort: str = "guessed") -> Plan:
    leaves = tuple(
        Leaf(
            index=at,
            label=f"{id}/m",
            provider=id,
            model="m",
            wire_id="m",
            credential=f"none:{id}",
            fixed=fixed,
            target_key=f"target:{id}/m",
            credential_key=f"credential:none:{id}",
        )
        for at, id in enumerate(ids)
    )
    children = tuple(Branch(kind="leaf", index=leaf.index, label=leaf.label) for leaf in leaves)
    group = Group(index=0, id="r", label="r", algorithm=algorithm, children=children, turn_key="turn:r")
    return Plan(reference="r", groups=(group,), leaves=leaves, last_resort=last_resort)


def decided(over: Plan, values: Mapping[str, bytes], now: float = NOW, **walk: Any) -> Any:
    return stepped(over, values, now, **walk)[0]


def stepped(over: Plan, values: Mapping[str, bytes], now: float = NOW, **walk: Any) -> tuple[Any, Any]:
    labels = tuple(leaf.label for leaf in over.leaves)
    context = Context(group="r", members=labels, weights=(1,) * len(labels))
    selector = built_in().resolve(over.root.algorithm)(context)
    return heart.decide(over, [selector], values, walk=Walk(id="w", draws=(0.5,), **walk), now=now)


def held(id: str, seconds: float, *, start: float = NOW, demotes: bool = False) -> dict[str, bytes]:
    hold = Hold(start=start, end=start + seconds, demotes=demotes)
    return {f"target:{id}/m": msgspec.json.encode(Standing(hold=hold))}


def served(over: Plan, values: Mapping[str, bytes], now: float = NOW, **walk: Any) -> str:
    outcome = decided(over, values, now, **walk)
    assert isinstance(outcome, Choice)
    return over.leaves[outcome.leaf].label


# --- what a hold does -------------------------------------------------------------------------------------------------


def test_a_hold_excludes_until_its_end_and_says_so() -> None:
    over, values = plan("a", "b"), held("a", 90)
    outcome = decided(over, values)
    assert over.leaves[outcome.leaf].label == "b/m"
    assert [(skip.target, skip.reason, skip.until) for skip in outcome.skipped] == [("a/m", "hold", NOW + 90)]
    assert served(over, values, NOW + 89.9) == "b/m"
    assert served(over, values, NOW + 90) == "a/m"


def test_a_hold_is_never_overridden_by_the_last_resort() -> None:
    outcome = decided(plan("a"), held("a", 90))
    assert isinstance(outcome, Exhausted)
    assert outcome.wakes == NOW + 90


def test_a_fixed_route_respects_a_hold_with_nothing_remaining() -> None:
    assert served(plan("a", "b", fixed=True), held("a", 90)) == "b/m"


def test_nearly_nothing_remaining_sorts_last_where_turns_are_taken() -> None:
    assert served(plan("a", "b", algorithm="round-robin"), held("a", 90, demotes=True)) == "b/m"
    assert served(plan("a", algorithm="round-robin"), held("a", 90, demotes=True)) == "a/m"
    assert served(plan("a", "b", algorithm="round-robin"), held("a", 90, demotes=True), NOW + 90) == "a/m"


def test_nearly_nothing_remaining_changes_nothing_where_order_rules_or_the_route_is_fixed() -> None:
    values = held("a", 90, demotes=True)
    assert served(plan("a", "b"), values) == "a/m"
    assert served(plan("a", "b", algorithm="round-robin", fixed=True), values) == "a/m"


def test_a_short_hold_is_waited_for_once_where_nobody_else_is_ready() -> None:
    over, values = plan("a"), held("a", 2)
    outcome = decided(over, values)
    assert (outcome, isinstance(outcome, Waiting)) == (Waiting(until=NOW + 2, cause="hold", target="a/m"), True)
    assert isinstance(decided(over, values, waited=True), Exhausted)
    assert isinstance(decided(over, values, deadline=NOW + 1), Exhausted)
    assert isinstance(decided(plan("a", last_resort="never"), values), Exhausted)
    assert served(plan("a", "b"), values) == "b/m"


# --- what is announced ------------------------------------------------------------------------------------------------


def announced(before: Mapping[str, bytes], outcome: str, *, hold: Hold | None, heard: float | None, now: float) -> Any:
    leaf = plan("a").leaves[0]
    done = Try(holder="w", started=NOW, leaf=leaf, hold=hold, heard=heard)
    values = dict(before)
    for key, value in settling.settle(done, outcome, values, settings=health.Health(), now=now).items():
        values[key] = value or b""
    raw = values.get("target:a/m")
    return judging.read_standing(raw).hold if raw else None


LATER = Hold(start=NOW + 5, end=NOW + 60)


@pytest.mark.parametrize("outcome", ["opened", "answered", "finished", "released"])
def test_every_outcome_keeps_what_the_vendor_said(outcome: str) -> None:
    assert announced({}, outcome, hold=LATER, heard=NOW + 5, now=NOW + 9) == LATER


@pytest.mark.parametrize("outcome", ["opened", "answered", "finished", "released"])
def test_a_healthier_answer_lifts_a_hold_and_a_silent_one_does_not(outcome: str) -> None:
    before = held("a", 90)
    assert announced(before, outcome, hold=None, heard=NOW + 5, now=NOW + 9) is None
    assert announced(before, outcome, hold=None, heard=None, now=NOW + 9) == Hold(start=NOW, end=NOW + 90)


def test_an_answer_that_began_earlier_but_ends_later_lifts_nothing() -> None:
    before = held("a", 90, start=NOW + 10)
    assert announced(before, "finished", hold=None, heard=NOW + 5, now=NOW + 60) == Hold(start=NOW + 10, end=NOW + 100)


def test_opening_alone_says_nothing_of_health() -> None:
    rung = {"target:a/m": msgspec.json.encode(Standing(rung=3, last_failure=NOW))}
    leaf = plan("a").leaves[0]
    done = Try(holder="w", started=NOW, leaf=leaf)
    assert settling.settle(done, "opened", rung, settings=health.Health(), now=NOW + 1) == {}


# --- the clock --------------------------------------------------------------------------------------------------------


@given(back=st.integers(3, 10 * 365 * 86400), seconds=st.integers(6, 86400))
def test_a_clock_set_back_holds_nothing_longer_than_it_was(back: int, seconds: int) -> None:
    over, values = plan("a"), held("a", seconds)
    after = NOW - back
    outcome, writes = stepped(over, values, after)
    assert isinstance(outcome, Exhausted)
    values |= {key: value for key, value in writes.items() if value is not None}
    assert isinstance(decided(over, values, after + seconds), Choice)


def test_a_window_under_a_clock_set_back_ends_after_its_own_length() -> None:
    window = health.Window(start=NOW, end=NOW + 600, stated=True, cause="rate_limit")
    over, values = plan("a"), {"target:a/m": msgspec.json.encode(Standing(window=window))}
    after = NOW - 86400
    outcome, writes = stepped(over, values, after)
    assert outcome.wakes == after + 600
    values |= writes
    assert isinstance(decided(over, values, after + 300), Exhausted)
    assert isinstance(decided(over, values, after + 600), Choice)


def test_a_neighbours_clock_a_moment_ahead_moves_nothing() -> None:
    assert stepped(plan("a"), held("a", 90, start=NOW + 1), NOW)[1] == {}


def test_nothing_held_is_nothing_stored() -> None:
    assert health.announced(CLEAR, None, NOW) is CLEAR
