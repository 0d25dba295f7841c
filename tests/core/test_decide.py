"""The heart: readiness, last resort, claims, waiting, what a decision records (semantics §4.4–§4.6, §5, §7)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core import decide as heart
from routekit.core import judge as judging
from routekit.core import settle as settling
from routekit.core.decide import Choice, Exhausted, Waiting
from routekit.core.faults import FAULTS, Fault
from routekit.core.health import Claim, Hold, Standing, Window
from routekit.core.judge import Walk
from routekit.core.record import Skip
from routekit.core.settle import Try
from tests.core.world import NOW, Asked, World, providers, route

HOUR = 3600.0


def world(*targets: str, **settings: object) -> World:
    ids = dict.fromkeys(target.partition("/")[0] for target in targets)
    return World(providers(*ids) + route("r", *targets, **settings))


def keyed(*ids: str, more: str = "") -> str:
    """Accounts with credentials of their own."""
    return "".join(
        f'[providers.{id}]\napi = "openai-chat"\nbase_url = "https://{id}.example"\nkey = "env:{id}"\n{more}\n'
        for id in ids
    )


def shared(*ids: str) -> str:
    """Accounts that share one credential."""
    return "".join(
        f'[providers.{id}]\napi = "openai-chat"\nbase_url = "https://{id}.example"\nkey = "env:KEY"\n' for id in ids
    )


def put(place: World, key: str, **standing: Any) -> None:
    place.values[key] = msgspec.json.encode(Standing(**standing))


def exhausted(asked: Asked) -> Exhausted:
    outcome = asked.outcome()
    assert isinstance(outcome, Exhausted), outcome
    return outcome


def waiting(asked: Asked) -> Waiting:
    outcome = asked.outcome()
    assert isinstance(outcome, Waiting), outcome
    return outcome


def skips(rows: tuple[Skip, ...]) -> dict[str, str]:
    return {row.target: row.reason for row in rows}


# --- readiness --------------------------------------------------------------------------------------------------------


def test_the_first_exclusion_in_the_order_of_the_rules_is_the_recorded_reason() -> None:
    text = keyed("A", more="model_info.m = { context = 10, tools = false }")
    place = World(
        text + '[routes.r]\ntargets = [{ target = "A/m", until = 2023-11-14T22:13:21Z }]\nlast_resort = "never"\n'
    )
    leaf = place.plan.leaves[0]
    window = Window(start=NOW, end=NOW + 60, cause="transient")
    claim = Claim(holder="other", since=NOW, until=NOW + 50)
    put(place, leaf.credential_key, window=msgspec.structs.replace(window, cause="quota"))
    put(place, leaf.target_key, window=window, claim=claim, hold=Hold(start=NOW, end=NOW + 40))
    walk: dict[str, Any] = {
        "given_up": {0: "given up (timeout)"},
        "blocked": {leaf.credential: "credential absent"},
        "tokens": 1000,
        "needs": frozenset({"tools"}),
        "waited": True,
    }
    found = []

    def look() -> None:
        judged = judging.judge(leaf, judging.View(place.values, place.now), place.ask(**walk).walk, place.now)
        found.append(judged.reason)

    look()
    del walk["given_up"]
    place.now = NOW + 1  # the target's until
    look()
    place.now = NOW + 0.5
    look()
    del walk["blocked"]
    look()
    del place.values[leaf.credential_key]
    look()
    put(place, leaf.target_key, claim=claim, hold=Hold(start=NOW, end=NOW + 40))
    look()
    put(place, leaf.target_key, hold=Hold(start=NOW, end=NOW + 40))
    look()
    del place.values[leaf.target_key]
    look()
    del walk["tokens"]
    look()
    del walk["needs"]
    look()
    assert found == [
        "given up (timeout)",
        "expired",
        "credential absent",
        "credential window (quota)",
        "target window (transient)",
        "its probe is out",
        "hold",
        "window too small",
        "cannot take tools",
        "",
    ]


@pytest.mark.parametrize(("tokens", "ready"), [(142, True), (143, False)])
def test_a_prompt_certainly_too_long_is_seven_tenths_of_its_estimate_over_the_window(tokens: int, ready: bool) -> None:
    place = World(providers("a", more="model_info.m.context = 100") + route("r", "a/m"))
    outcome = place.ask(tokens=tokens).outcome()
    assert isinstance(outcome, Choice) is ready


def test_unknown_means_can() -> None:
    place = world("a/m")
    assert place.ask(tokens=10**9, needs=frozenset({"images", "pdf", "tools"})).go() == "a/m"


def test_a_request_needs_one_able_leaf() -> None:
    text = providers("a", more="model_info.m.images = false") + providers("b") + route("r", "a/m", "b/m")
    assert World(text).ask(needs=frozenset({"images"})).go() == "b/m"


@pytest.mark.parametrize(
    ("declared", "served"),
    [
        ({"A": 100, "B": 50, "C": 200}, "C/m"),
        ({"A": 100, "B": 100, "C": None}, None),
        ({"A": None, "B": None, "C": None}, "B/m"),
        ({"A": 100, "B": None, "C": 101}, "C/m"),
    ],
)
def test_after_a_context_fault_only_a_larger_declared_window_or_if_neither_is_declared(
    declared: dict[str, int | None], served: str | None
) -> None:
    text = "".join(keyed(id, more=f"model_info.m.context = {size}" if size else "") for id, size in declared.items())
    place = World(text + route("r", "A/m", "B/m", "C/m"))
    asked = place.ask()
    asked.go()
    asked.failed("context").change(larger_than=place.plan.leaves[0].info.context or 0)
    outcome = asked.outcome()
    assert (asked.label if isinstance(outcome, Choice) else None) == served
    assert place.left("A/m") is None


# --- windows in the walk ----------------------------------------------------------------------------------------------


def test_a_failing_target_is_skipped_by_the_next_request_until_its_window_ends() -> None:
    place = world("a/m", "b/m")
    asked = place.ask()
    asked.go()
    assert asked.failed().go() == "b/m"
    assert place.serve() == "b/m"
    place.now += 29.999
    assert place.serve() == "b/m"
    place.now += 0.001
    assert place.serve() == "a/m"


def test_a_window_is_the_concrete_targets_own() -> None:
    place = world("a/m", "a/m2")
    place.fail("a/m")
    assert place.serve() == "a/m2"


def test_two_variants_of_one_model_share_their_health() -> None:
    place = world("a/m#low", "a/m#high", "b/m")
    place.fail("a/m#low")
    assert place.serve() == "b/m"


def test_a_failure_met_in_one_route_is_respected_in_another() -> None:
    text = providers("a", "b") + route("r", "a/m", "b/m") + route("s", "a/m", "b/m")
    one, two = World(text), World(text, "s")
    one.fail("a/m")
    two.values = one.values
    assert two.serve() == "b/m"


def test_anothers_success_ends_no_window_and_the_targets_own_does() -> None:
    place = world("a/m", "b/m")
    place.fail("a/m")
    assert place.serve() == "b/m"
    assert place.target("a/m").window
    place.now += 30
    assert place.serve() == "a/m"
    assert place.target("a/m").window is None
    place.fail("a/m")
    assert place.left("a/m") == 30


def test_a_credential_window_leaves_out_every_target_of_that_credential() -> None:
    place = World(shared("a", "b") + keyed("C") + route("r", "a/m", "b/m", "C/m"))
    place.fail("a/m", kind="quota")
    assert place.serve() == "C/m"
    place.now += 900
    assert place.serve() == "a/m"


def test_a_refused_keys_window_ends_at_once_when_the_key_changes() -> None:
    place = World(keyed("A", "B") + route("r", "A/m", "B/m"))
    leaf = place.leaf("A/m")
    done = Try(holder="x", started=place.now, leaf=leaf, key_tag="old")
    settings = place.health()
    place.write(settling.settle(done, Fault(kind="auth"), place.values, settings=settings, now=place.now))
    assert place.serve() == "B/m"
    assert place.serve(tags={"env:A": "old"}) == "B/m"
    assert place.serve(tags={"env:A": "new"}) == "A/m"
    assert place.serve() == "A/m"


def test_a_changed_key_ends_no_quota_window() -> None:
    place = World(keyed("A", "B") + route("r", "A/m", "B/m"))
    place.fail("A/m", kind="quota")
    assert place.serve(tags={"env:A": "new"}) == "B/m"


@pytest.mark.parametrize("kind", [row.name for row in FAULTS.values() if row.scope == "nobody"])
def test_faults_of_nobody_cool_nobody(kind: str) -> None:
    place = world("a/m")
    place.fail("a/m", kind=kind)
    assert place.values == {}


@pytest.mark.parametrize("kind", [row.name for row in FAULTS.values() if row.scope == "target"])
def test_faults_of_the_target_cool_the_target_alone(kind: str) -> None:
    place = world("a/m")
    place.fail("a/m", kind=kind)
    assert place.target("a/m").window
    assert place.credential("a/m").window is None


@pytest.mark.parametrize("kind", [row.name for row in FAULTS.values() if row.scope == "credential"])
def test_faults_of_the_credential_cool_the_credential_alone(kind: str) -> None:
    place = world("a/m")
    place.fail("a/m", kind=kind)
    assert place.credential("a/m").window
    assert place.target("a/m").window is None


def test_a_vendor_may_say_that_a_limit_is_the_accounts() -> None:
    place = World(shared("a", "b") + keyed("C") + route("r", "a/m", "b/m", "C/m"))
    place.fail("a/m", kind="rate_limit", scope="credential", hint=60)
    assert place.serve() == "C/m"


# --- last resort ------------------------------------------------------------------------------------------------------


def test_with_everybody_in_a_guessed_window_the_one_that_wakes_soonest_is_used_once() -> None:
    place = world("a/m", "b/m", "c/m")
    place.fail("b/m")
    place.now += 1
    place.fail("a/m", "c/m")
    asked = place.ask()
    assert asked.go() == "b/m"
    assert asked.picked.last_resort
    assert [row.reason for row in asked.picked.path] == ["last-resort"]
    asked.failed()
    exhausted(asked)


def test_a_last_resort_spends_no_turn_and_takes_no_claim() -> None:
    place = world("a/m", "b/m", selection="round-robin")
    place.fail("a/m", "b/m")
    before = place.values.get(place.plan.root.turn_key)
    asked = place.ask()
    asked.go()
    assert place.values.get(place.plan.root.turn_key) == before
    assert asked.picked.claims == ()


def test_a_failed_last_resort_moves_the_end_and_keeps_the_rung() -> None:
    place = world("a/m")
    place.fail("a/m")
    place.now += 10
    asked = place.ask()
    asked.go()
    place.now += 1
    asked.failed()
    assert (place.left("a/m"), place.target("a/m").rung) == (30, 1)


def test_a_last_resort_that_is_served_ends_the_window() -> None:
    place = world("a/m")
    place.fail("a/m")
    place.now += 10
    assert place.serve() == "a/m"
    assert place.target("a/m").window is None


def test_there_is_no_last_resort_after_a_failure_in_the_same_request() -> None:
    place = world("a/m", "b/m")
    place.fail("b/m")
    asked = place.ask()
    assert asked.go() == "a/m"
    asked.failed()
    assert skips(exhausted(asked).skipped) == {"b/m": "target window (unknown)"}


def test_last_resort_never_fails_at_once_with_the_sleepers_and_their_time_left() -> None:
    place = world("a/m", "b/n", last_resort="never")
    place.fail("a/m")
    place.now += 0.125
    place.fail("b/n")
    outcome = exhausted(place.ask())
    assert outcome.sleepers == (("a/m", 29.875), ("b/n", 30.0))
    assert outcome.wakes == place.now + 29.875


def test_last_resort_wait_sleeps_until_the_first_end_inside_the_deadline() -> None:
    place = world("a/m", "b/m", last_resort="wait")
    place.fail("a/m", "b/m")
    found = waiting(place.ask(deadline=place.now + 600))
    assert (found.until, found.cause, found.target) == (place.now + 30, "window", "a/m")
    exhausted(place.ask(deadline=place.now + 29))


@pytest.mark.parametrize("what", ["stated", "credential", "hold"])
def test_what_a_vendor_said_and_credentials_are_never_overridden(what: str) -> None:
    place = world("a/m")
    if what == "stated":
        place.fail("a/m", kind="rate_limit", hint=60)
    elif what == "credential":
        place.fail("a/m", kind="auth")
    else:
        put(place, place.leaf("a/m").target_key, hold=Hold(start=NOW, end=NOW + 60))
    outcome = exhausted(place.ask())
    assert outcome.wakes is not None


def test_a_guessed_window_over_a_hold_or_a_lacking_ability_is_not_overridden() -> None:
    text = providers("a", more="model_info.m = { tools = false, context = 10 }") + route("r", "a/m")
    place = World(text)
    place.fail("a/m")
    exhausted(place.ask(needs=frozenset({"tools"})))
    exhausted(place.ask(tokens=1000))
    held = msgspec.structs.replace(place.target("a/m"), hold=Hold(start=NOW, end=NOW + 60))
    place.values[place.leaf("a/m").target_key] = msgspec.json.encode(held)
    exhausted(place.ask())


def test_expired_and_absent_candidates_wake_never() -> None:
    place = world("a/m")
    outcome = exhausted(place.ask(blocked={"none:a": "credential absent"}))
    assert (outcome.sleepers, outcome.wakes, skips(outcome.skipped)) == ((), None, {"a/m": "credential absent"})


# --- half-open --------------------------------------------------------------------------------------------------------


def test_after_a_guessed_window_one_request_at_a_time_is_let_through() -> None:
    place = world("a/m", "b/m")
    place.fail("a/m")
    place.now += 30
    first, second = place.ask(), place.ask()
    assert (first.go(), second.go()) == ("a/m", "b/m")
    assert first.picked.claims == (place.leaf("a/m").target_key,)
    assert skips(second.picked.skipped) == {"a/m": "its probe is out"}


def test_a_claims_lease_is_connect_and_first_output_and_five_seconds() -> None:
    text = providers("a", "b", more='limits = { connect = "2s", first_output = "3s" }') + route("r", "a/m", "b/m")
    place = World(text)
    place.fail("a/m")
    place.now += 30
    place.ask().go()
    place.now += 9.999
    assert place.ask().go() == "b/m"
    place.now += 0.001
    assert place.ask().go() == "a/m"


def test_the_probers_first_output_lets_everybody_back() -> None:
    place = world("a/m", "b/m")
    place.fail("a/m")
    place.now += 30
    prober = place.ask()
    prober.go()
    prober.answered()
    assert [place.ask().go(), place.ask().go()] == ["a/m", "a/m"]


def test_a_failed_probe_takes_the_next_rung() -> None:
    place = world("a/m", "b/m")
    place.fail("a/m")
    place.now += 30
    prober = place.ask()
    prober.go()
    assert prober.failed().go() == "b/m"
    assert place.left("a/m") == 60


@pytest.mark.parametrize("kind", ["request", "content_filter", "context", "setup"])
def test_a_callers_fault_frees_the_claim_and_proves_nothing(kind: str) -> None:
    place = world("a/m", "b/m")
    place.fail("a/m")
    place.now += 30
    prober = place.ask()
    prober.go()
    prober.failed(kind)
    assert (place.target("a/m").claim, place.target("a/m").rung) == (None, 1)
    assert place.ask().go() == "a/m"
    assert place.ask().go() == "b/m"


def test_a_cancelled_probe_frees_its_claim() -> None:
    place = world("a/m", "b/m")
    place.fail("a/m")
    place.now += 30
    prober = place.ask()
    prober.go()
    prober.released()
    assert place.ask().go() == "a/m"


def test_a_late_result_of_an_older_prober_frees_nobody_elses_claim() -> None:
    place = world("a/m", "b/m")
    place.fail("a/m")
    place.now += 30
    older = place.ask()
    older.go()
    place.now += 60  # its lease is over
    newer = place.ask()
    assert newer.go() == "a/m"
    older.released()
    assert place.ask().go() == "b/m"


def test_a_stated_window_ends_without_a_claim() -> None:
    place = world("a/m", "b/m")
    place.fail("a/m", kind="rate_limit", hint=30)
    place.now += 30
    assert [place.ask().go(), place.ask().go()] == ["a/m", "a/m"]


def test_a_credential_that_woke_is_probed_by_one_request_over_all_its_targets() -> None:
    place = World(shared("a", "b") + keyed("C") + route("r", "a/m", "b/m", "C/m"))
    place.fail("a/m", kind="quota")
    place.now += 900
    assert [place.ask().go(), place.ask().go()] == ["a/m", "C/m"]


def test_with_nothing_else_the_others_wait_for_the_verdict_at_most_first_output() -> None:
    place = world("a/m")
    place.fail("a/m")
    place.now += 30
    place.ask().go()
    found = waiting(place.ask())
    assert (found.cause, found.until, found.target) == ("probe", place.now + 10, "a/m")
    exhausted(place.ask(waited=True))


def test_a_probe_is_waited_for_on_the_first_choice_only() -> None:
    place = world("a/m", "b/m")
    place.fail("a/m")
    place.now += 30
    place.ask().go()
    asked = place.ask()
    assert asked.go() == "b/m"
    asked.failed()
    exhausted(asked)


def test_of_sixteen_requests_at_the_end_of_a_window_exactly_one_probes() -> None:
    place = world("a/m", "b/m")
    place.fail("a/m")
    place.now += 30
    assert sorted(place.ask().go() for _ in range(16)) == ["a/m"] + ["b/m"] * 15


# --- holds ------------------------------------------------------------------------------------------------------------


def test_a_hold_leaves_a_target_out_and_a_fixed_route_ignores_what_only_demotes() -> None:
    free = World(providers("a", "b") + route("r", "a/m", "b/m", selection="round-robin"))
    fixed = World(providers("a", "b") + route("r", "a/m", "b/m", fixed=True))
    for place in (free, fixed):
        put(place, place.leaf("a/m").target_key, hold=Hold(start=NOW, end=NOW + 60, demotes=True))
    assert [free.serve(), free.serve()] == ["b/m", "b/m"]
    assert fixed.serve() == "a/m"
    for place in (free, fixed):
        put(place, place.leaf("a/m").target_key, hold=Hold(start=NOW, end=NOW + 60))
    assert (free.serve(), fixed.serve()) == ("b/m", "b/m")


def test_a_fixed_route_counts_cool_downs() -> None:
    place = World(providers("a", "b") + route("r", "a/m", "b/m", fixed=True))
    place.fail("a/m")
    assert place.serve() == "b/m"


# --- the clock --------------------------------------------------------------------------------------------------------


def test_a_clock_set_back_by_days_suspends_nothing_longer_than_its_window() -> None:
    place = world("a/m", "b/m")
    place.fail("a/m")
    place.now -= 3 * 86400
    assert place.serve() == "b/m"
    place.now += 29
    assert place.serve() == "b/m"
    place.now += 1
    assert place.serve() == "a/m"


@given(st.lists(st.floats(-86400, 40), min_size=1, max_size=6))
def test_whatever_the_clock_does_a_window_is_over_once_its_length_has_passed_without_a_look(jumps: list[float]) -> None:
    """After any jumps of the clock, a target sleeps no longer than its window from the next look on."""
    place = world("a/m", "b/m")
    place.fail("a/m")
    for jump in jumps:
        place.now += jump
        place.ask(id="same").go()
        place.settle("b/m", "released", holder="same")
    place.now += 30 + 15  # the window and a claim's lease
    assert place.ask().go() == "a/m"


# --- what is recorded -------------------------------------------------------------------------------------------------


SYN = '[synthetic_providers.syn]\nproviders = ["alt", "main"]\n'


def test_a_synthetic_group_records_its_concrete_leaves_and_its_parent_names_it_by_reference() -> None:
    place = World(providers("alt", "main") + SYN + route("r", "syn/terra"))
    place.fail("alt/terra")
    asked = place.ask()
    asked.go()
    parent, group = asked.picked.path
    assert (parent.group, parent.chosen, [row.label for row in parent.candidates]) == ("r", "syn/terra", ["syn/terra"])
    assert (group.group, group.label, group.chosen) == ("syn", "syn/terra", "main/terra")
    assert [row.label for row in group.candidates] == ["main/terra"]
    asleep = Skip(target="alt/terra", reason="target window (unknown)", until=place.now + 30, since=place.now)
    assert group.excluded == (asleep,)


def test_candidates_stand_in_order_with_weight_and_demotion() -> None:
    place = World(
        providers("alt", "main") + SYN + 'selection = "smooth"\nweights = { alt = 3 }\n' + route("r", "syn/terra")
    )
    put(place, place.leaf("main/terra").target_key, hold=Hold(start=NOW, end=NOW + 60, demotes=True))
    asked = place.ask()
    asked.go()
    rows = asked.picked.path[1].candidates
    assert [(row.label, row.weight, row.demoted) for row in rows] == [("alt/terra", 3, False), ("main/terra", 1, True)]


def test_a_leaf_listed_earlier_is_named_where_it_is_missing() -> None:
    place = World(providers("alt", "main") + SYN + route("r", "main/terra", "syn/terra"))
    asked = place.ask()
    asked.go()
    asked.failed("request").go()
    assert skips(asked.picked.path[1].excluded) == {"main/terra": "listed earlier"}
    assert skips(asked.picked.path[0].excluded) == {"main/terra": "given up (request)"}


def test_a_group_with_nobody_ready_is_passed_over_as_one() -> None:
    place = World(providers("alt", "main", "c") + SYN + route("r", "syn/m", "c/m"))
    place.fail("alt/m", "main/m")
    asked = place.ask()
    assert asked.go() == "c/m"
    assert skips(asked.picked.path[0].excluded) == {"syn/m": "nobody ready"}
    assert skips(asked.picked.skipped) == {"alt/m": "target window (unknown)", "main/m": "target window (unknown)"}


def test_a_leaf_given_up_is_excluded_with_its_reason_and_is_no_candidate() -> None:
    place = world("a/m", "b/m")
    asked = place.ask()
    asked.go()
    asked.failed("timeout").go()
    row = asked.picked.path[0]
    assert skips(row.excluded) == {"a/m": "given up (timeout)"}
    assert [one.label for one in row.candidates] == ["b/m"]


def test_the_leaf_that_would_have_served_is_named_where_another_does() -> None:
    place = world("a/m", "b/m")
    asked = place.ask()
    asked.go()
    assert asked.picked.preferred is None
    place.fail("a/m")
    other = place.ask()
    other.go()
    assert other.picked.preferred == 0


def test_who_would_have_served_is_found_without_spending_or_telling_anything() -> None:
    place = world("a/m", "b/m", "c/m", selection="round-robin")
    place.fail("a/m")
    asked = place.ask(extras=({},))
    assert asked.go() == "b/m"
    assert asked.picked.preferred == 0
    assert place.serve() == "c/m"


def test_spare_says_whether_another_ready_leaf_remains() -> None:
    place = world("a/m", "b/m")
    asked = place.ask()
    asked.go()
    assert asked.picked.spare
    asked.failed().go()
    assert not asked.picked.spare


# --- purity -----------------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 3),
    st.integers(0, 40),
    st.sampled_from(["ordered", "round-robin", "weighted", "smooth"]),
    st.booleans(),
)
def test_deciding_twice_is_deciding_once(failing: int, later: int, selection: str, in_session: bool) -> None:
    """A store may run the step again: the same values give the same outcome and writes, and stay as they were."""
    place = world("a/m 2", "b/m", "c/m", selection=selection)
    place.serve(session="s")
    place.fail(*["a/m", "b/m", "c/m"][:failing])
    place.now += later
    walk = Walk(id="x", draws=(0.5,), session="s" if in_session else None, extras=({},))
    kept = dict(place.values)
    first = heart.decide(place.plan, place.selectors, place.values, walk=walk, now=place.now)
    second = heart.decide(place.plan, place.selectors, place.values, walk=walk, now=place.now)
    assert first == second
    assert place.values == kept


def test_a_damaged_or_newer_row_is_worth_nothing_and_no_error() -> None:
    place = world("a/m", "b/m")
    place.values[place.leaf("a/m").target_key] = b'{"window": "sometime"}'
    place.values[place.leaf("b/m").target_key] = b"\xff"
    assert place.serve() == "a/m"


_ends = st.sampled_from(["answered", "finished", "released", "unknown", "rate_limit", "request", "quota"])


@given(st.lists(st.tuples(st.integers(0, 5), _ends, st.floats(0, 20)), max_size=20))
def test_any_interleaving_of_settlements_never_shortens_a_window_that_runs(rows: list[tuple[int, str, float]]) -> None:
    """However six requests end, in any order: only a success that began inside a guessed window ends it."""
    place = world("a/m")
    leaf = place.leaf("a/m")
    started = [place.now + number for number in range(6)]
    place.now += 6
    for who, end, gap in rows:
        place.now += gap
        before = {key: place.standing(key).window for key in (leaf.target_key, leaf.credential_key)}
        outcome: Any = Fault(kind=end, hint=gap or None) if end in FAULTS else end
        place.settle("a/m", outcome, holder=f"r{who}", started=started[who])
        for key, old in before.items():
            new = place.standing(key).window
            if old is None or old.end <= place.now:
                continue
            ended = end in ("answered", "finished") and started[who] >= old.start and not old.stated
            assert ended or (new is not None and new.end >= old.end)
