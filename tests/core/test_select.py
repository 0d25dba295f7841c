"""The four selections, the registry, stickiness and demotion (semantics §4)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core.record import GroupDecision
from routekit.core.select import Child, Context, GroupView, Pick, Registry, built_in
from routekit.core.select.ordered import Ordered
from routekit.core.select.round_robin import RoundRobin
from routekit.core.select.smooth import Smooth
from routekit.core.select.weighted import Weighted
from routekit.errors import UsageError
from tests.core.world import World, providers, route


def world(*targets: str, selection: str, **settings: object) -> World:
    ids = dict.fromkeys(target.partition("/")[0] for target in targets)
    return World(providers(*ids) + route("r", *targets, selection=selection, **settings))


def served(world: World, times: int, **walk: Any) -> str:
    """Who served, by the first letter of the provider."""
    return "".join(world.serve(**walk)[0] for _ in range(times))


# --- the registry -----------------------------------------------------------------------------------------------------


def test_a_registry_refuses_an_empty_name_a_non_callable_and_a_duplicate_and_lists_names_for_an_unknown_one() -> None:
    registry = Registry()
    said = []
    for attempt in (
        lambda: registry.register("", Ordered),
        lambda: registry.register("mine", 3),  # type: ignore[arg-type]
        lambda: registry.register("mine", Ordered).register("mine", Ordered),
        lambda: registry.resolve("other"),
    ):
        with pytest.raises(UsageError) as error:
            attempt()
        said.append(error.value.message)
    assert len(set(said)) == 4
    assert "mine" in said[-1]
    assert registry.has("mine")
    assert not registry.has("other")
    with pytest.raises(UsageError, match="none"):
        Registry().resolve("x")


def test_names_come_in_the_order_of_registration_and_register_chains() -> None:
    registry = Registry().register("b", Ordered).register("a", Ordered)
    assert registry.names() == ("b", "a")
    assert built_in().names() == ("ordered", "priority", "round-robin", "weighted", "smooth")


def test_each_router_owns_its_registry() -> None:
    built_in().register("mine", Ordered)
    assert not built_in().has("mine")


# --- ordered ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ordered", "priority"])
def test_ordered_takes_the_first_ready_child_in_configured_order(name: str) -> None:
    place = world("a/m", "b/m", "c/m", selection=name)
    assert served(place, 2) == "aa"
    place.fail("a/m", "b/m")
    assert served(place, 2) == "cc"


# --- round-robin ------------------------------------------------------------------------------------------------------


def test_round_robin_takes_turns_request_by_request() -> None:
    assert served(world("a/m", "b/m", selection="round-robin"), 3) == "aba"


def test_round_robin_without_a_session_rotates_too() -> None:
    assert served(world("a/m", "b/m", "c/m", selection="round-robin", sticky=False), 4) == "abca"


def test_the_cursor_runs_over_configured_members_and_moves_to_the_picks_place_plus_one() -> None:
    """With a asleep its share is nobody's: b, c, b, c — not b, b, c."""
    place = world("a/m", "b/m", "c/m", selection="round-robin")
    place.fail("a/m")
    assert served(place, 4) == "bcbc"


def test_a_member_that_wakes_takes_its_turn_where_the_cursor_stands() -> None:
    place = world("a/m", "b/m", "c/m", selection="round-robin")
    place.fail("a/m")
    assert served(place, 2) == "bc"
    place.now += 30
    assert served(place, 3) == "abc"


def test_weights_of_round_robin_are_tiers_and_the_highest_with_somebody_ready_rotates() -> None:
    place = world("a/m 2", "b/m 2", "c/m", selection="round-robin")
    assert served(place, 4) == "abab"
    place.fail("a/m", "b/m")
    assert served(place, 2) == "cc"


def test_each_tier_keeps_a_cursor_of_its_own() -> None:
    place = world("a/m 2", "b/m 2", "c/m", "d/m", selection="round-robin")
    assert served(place, 1) == "a"
    place.fail("a/m", "b/m")
    assert served(place, 3) == "cdc"
    place.now += 30
    assert served(place, 2) == "ba"


def test_an_unset_weight_is_one() -> None:
    assert served(world("a/m", "b/m 1", selection="round-robin"), 3) == "aba"


def test_two_requests_started_back_to_back_go_to_different_members_while_the_first_still_answers() -> None:
    place = world("a/m", "b/m", selection="round-robin")
    assert [place.ask().go(), place.ask().go(), place.ask().go()] == ["a/m", "b/m", "a/m"]


def test_a_failed_request_spends_its_turn_and_its_failover_none() -> None:
    place = world("a/m", "b/m", "c/m", selection="round-robin")
    asked = place.ask()
    assert asked.go() == "a/m"
    assert asked.failed().go() == "b/m"
    assert place.serve() == "b/m"


def test_a_cancelled_request_has_spent_its_turn() -> None:
    place = world("a/m", "b/m", selection="round-robin")
    asked = place.ask()
    asked.go()
    asked.released()
    assert place.serve() == "b/m"


def test_a_group_reached_only_by_failover_still_rotates() -> None:
    text = (
        providers("a", "b", "c")
        + route("r", "a/m", "route/inner")
        + route("inner", "b/m", "c/m", selection="round-robin")
    )
    place = World(text)
    went = []
    for _ in range(3):
        asked = place.ask()
        asked.go()
        went.append(asked.failed("request").go())
    assert went == ["b/m", "c/m", "b/m"]


def test_only_groups_on_the_chosen_path_draw() -> None:
    text = providers("a", "b", "c") + route("r", "route/x 99", "c/m", selection="weighted")
    place = World(text + route("x", "a/m", "b/m", selection="round-robin"))
    assert place.serve(r=0.999) == "c/m"
    assert place.values.keys() & {group.turn_key for group in place.plan.groups} == set()
    assert [place.serve(r=0.0), place.serve(r=0.0)] == ["a/m", "b/m"]


def test_failover_walks_the_whole_tree_without_those_given_up() -> None:
    text = providers("a", "b", "c", "d") + route("r", "route/x 3", "c/m", "d/m", selection="weighted")
    place = World(text + route("x", "a/m", "b/m"))
    asked = place.ask(r=0.3)
    went = [asked.go(), *(asked.failed().go() for _ in range(3))]
    assert went[:2] == ["a/m", "b/m"]
    assert sorted(went) == ["a/m", "b/m", "c/m", "d/m"]


# --- weighted ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("r", "first"), [(0.0, "a"), (0.75, "a"), (0.7501, "b"), (0.9999, "b")])
def test_weighted_walks_down_to_the_first_position_with_nothing_left(r: float, first: str) -> None:
    assert served(world("a/m 3", "b/m", selection="weighted"), 1, r=r) == first


def test_weighted_gives_the_last_when_rounding_leaves_none() -> None:
    children = tuple(Child(label=name, weight=1) for name in "abc")
    context = Context(group="g", members=("a", "b", "c"), weights=(1, 1, 1))
    # A draw of 1 and a crumb stands for what rounding may leave.
    assert Weighted(context).select(GroupView(id="g", children=children), None, Pick(r=1.0000001)) == 2


def test_weighted_draws_by_weight_among_the_ready() -> None:
    place = world("a/m 3", "b/m", "c/m 4", selection="weighted", sticky=False)
    draws = [number / 400 for number in range(1, 401)]
    assert Counter(place.serve(r=r)[0] for r in draws) == {"a": 150, "b": 50, "c": 200}
    place.fail("c/m")
    assert Counter(place.serve(r=r)[0] for r in draws) == {"a": 300, "b": 100}


# --- smooth -----------------------------------------------------------------------------------------------------------


def test_smooth_three_to_one_gives_a_a_b_a_and_forty_picks_are_exactly_thirty_to_ten() -> None:
    assert served(world("a/m 3", "b/m", selection="smooth"), 40) == "aaba" * 10


def test_smooth_five_one_one_spreads_the_heavy_one() -> None:
    assert served(world("a/m 5", "b/m", "c/m", selection="smooth"), 7) == "aabacaa"


def test_smooth_with_equal_weights_alternates_and_the_earlier_wins_a_tie() -> None:
    assert served(world("a/m", "b/m", selection="smooth"), 4) == "abab"


def test_smooth_with_one_member_always_picks_it_and_its_score_returns_to_zero() -> None:
    place = world("a/m 7", selection="smooth")
    assert served(place, 3) == "aaa"
    assert place.values.get(place.plan.root.turn_key) in (None, b"[0]")


def test_scores_of_children_not_ready_are_frozen() -> None:
    place = world("a/m 3", "b/m", "c/m", selection="smooth")
    assert served(place, 2) == "ab"
    before = place.values[place.plan.root.turn_key]
    place.fail("a/m")
    served(place, 2)
    frozen = place.values[place.plan.root.turn_key]
    assert before.split(b",")[0] == frozen.split(b",")[0]


def test_an_edited_weight_begins_a_cycle_of_its_own() -> None:
    place = world("a/m", "b/m", selection="smooth")
    assert served(place, 1) == "a"
    edited = world("a/m 3", "b/m", selection="smooth")
    edited.values = place.values
    assert served(edited, 4) == "aaba"
    place.values = edited.values
    assert served(place, 1) == "b"


_weights = st.lists(st.integers(1, 20), min_size=1, max_size=6)


@given(_weights, st.integers(1, 3))
def test_smooth_shares_are_exact_over_every_cycle(weights: list[int], cycles: int) -> None:
    """After each whole cycle (as many picks as the weights' sum) everybody has had exactly its weight in picks."""
    names = tuple(str(at) for at in range(len(weights)))
    smooth = Smooth(Context(group="g", members=names, weights=tuple(weights)))
    children = tuple(Child(label=name, weight=weight) for name, weight in zip(names, weights, strict=True))
    view, state = GroupView(id="g", children=children), None
    for _ in range(cycles):
        picks = []
        for _ in range(sum(weights)):
            index = smooth.select(view, state, Pick())
            assert index is not None
            state = smooth.on_dispatch(view, state, Pick(), index)
            picks.append(index)
        assert [picks.count(at) for at in range(len(weights))] == weights


@given(
    st.sampled_from([Ordered, RoundRobin, Weighted, Smooth]),
    st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.booleans()), min_size=1, max_size=6),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 12),
)
def test_select_twice_equals_once_and_picks_a_ready_child_if_there_is_one(
    kind: Any, rows: list[tuple[int, bool, bool]], r: float, turns: int
) -> None:
    """``select`` is pure: the same arguments give the same answer, and the state is left as it was."""
    names = tuple(str(at) for at in range(len(rows)))
    algorithm = kind(Context(group="g", members=names, weights=tuple(row[0] for row in rows)))
    everybody = tuple(Child(label=name, weight=row[0]) for name, row in zip(names, rows, strict=True))
    state: Any = None
    for _ in range(turns):
        ready = GroupView(id="g", children=everybody)
        index = algorithm.select(ready, state, Pick(r=r))
        state = algorithm.on_dispatch(ready, state, Pick(r=r), index)
    view = GroupView(
        id="g",
        children=tuple(
            Child(label=name, weight=weight, ready=ready, demoted=demoted)
            for name, (weight, ready, demoted) in zip(names, rows, strict=True)
        ),
    )
    kept = repr(state)
    first, second = algorithm.select(view, state, Pick(r=r)), algorithm.select(view, state, Pick(r=r))
    assert first == second
    assert repr(state) == kept
    assert (first is None) == (not any(child.ready for child in view.children))
    assert first is None or view.children[first].ready


def test_probing_a_hundred_times_moves_nothing() -> None:
    place = world("a/m", "b/m", selection="round-robin")
    for _ in range(100):
        asked = place.ask()
        values = dict(place.values)
        asked.go()
        place.values = values  # a plain read keeps nothing
    assert place.serve() == "a/m"


# --- stickiness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["round-robin", "smooth", "weighted"])
def test_a_session_keeps_its_last_pick(selection: str) -> None:
    place = world("a/m", "b/m", selection=selection)
    assert place.serve(session="s", r=0.2) == "a/m"
    assert served(place, 3, session="s", r=0.9) == "aaa"
    assert place.serve(session="other", r=0.9) == "b/m"


def test_a_kept_pick_spends_no_turn() -> None:
    place = world("a/m", "b/m", selection="round-robin")
    served(place, 3, session="s")
    assert served(place, 2) == "ba"


def test_stickiness_yields_to_health_and_stays_with_whoever_answers_then() -> None:
    place = world("a/m", "b/m", selection="round-robin")
    assert served(place, 2, session="s") == "aa"
    place.fail("a/m")
    assert served(place, 1, session="s") == "b"
    place.now += 30
    assert served(place, 2, session="s") == "bb"


def test_a_session_never_stays_below_a_higher_tier_that_is_ready() -> None:
    place = world("a/m 2", "b/m", selection="round-robin")
    place.fail("a/m")
    assert served(place, 1, session="s") == "b"
    place.now += 30
    assert served(place, 1, session="s") == "a"


def test_a_session_never_outranks_a_ready_earlier_child_of_ordered() -> None:
    place = world("a/m", "b/m", selection="ordered")
    place.fail("a/m")
    assert served(place, 1, session="s") == "b"
    place.now += 30
    assert served(place, 1, session="s") == "a"


def test_sticky_cache_keeps_a_session_on_the_leaf_that_last_answered_it_in_ordered_too() -> None:
    place = world("a/m", "b/m", selection="ordered", sticky="cache")
    place.fail("a/m")
    assert served(place, 1, session="s") == "b"
    place.now += 30
    assert served(place, 2, session="s") == "bb"
    assert served(place, 1) == "a"


def test_sticky_false_turns_all_of_it_off() -> None:
    place = world("a/m", "b/m", selection="round-robin", sticky=False)
    assert served(place, 4, session="s") == "abab"


def test_stickiness_ends_an_hour_after_the_sessions_last_answer() -> None:
    place = world("a/m", "b/m", selection="round-robin")
    assert served(place, 1, session="s") == "a"
    place.now += 3599
    assert served(place, 1, session="s") == "a"
    place.now += 3599
    assert served(place, 1, session="s") == "a"
    place.now += 3600
    assert served(place, 1, session="s") == "b"


def test_only_an_answer_makes_a_session_stay() -> None:
    place = world("a/m", "b/m", selection="round-robin")
    asked = place.ask(session="s")
    asked.go()
    asked.released()
    assert served(place, 1, session="s") == "b"


def test_a_fixed_route_ignores_stickiness() -> None:
    text = providers("a", "b") + '[synthetic_providers.syn]\nproviders = ["a", "b"]\nselection = "round-robin"\n'
    place = World(text + route("r", "syn/m", fixed=True))
    place.fail("a/m")
    assert served(place, 1, session="s") == "b"
    place.now += 30
    assert served(place, 3, session="s") == "aaa"


# --- demotion ---------------------------------------------------------------------------------------------------------


def demote(place: World, label: str) -> None:
    """Three quota faults within four hours, each an incident of its own."""
    for _ in range(3):
        place.fail(label, kind="quota")
        place.now += 15 * 60


def clear(place: World, label: str) -> None:
    """Somebody has proved the credential well since."""
    asked = place.ask(given_up={leaf.index: "" for leaf in place.plan.leaves if leaf.label != label})
    asked.go()
    asked.finished()


def keyed(*ids: str) -> str:
    """Accounts with credentials of their own."""
    return "".join(
        f'[providers.{id}]\napi = "openai-chat"\nbase_url = "https://{id}.example"\nkey = "env:{id}"\n' for id in ids
    )


def test_three_quota_faults_in_four_hours_sort_a_child_behind_the_live_of_its_tier() -> None:
    place = World(keyed("A", "B", "C") + route("r", "A/m 2", "B/m 2", "C/m", selection="round-robin"))
    demote(place, "A/m")
    clear(place, "A/m")
    assert served(place, 3) == "BBB"
    place.fail("B/m")
    # Of its own tier, still before the next one.
    assert served(place, 2) == "AA"


def test_two_quota_faults_demote_nobody_and_demotion_ends_with_the_four_hours() -> None:
    place = World(keyed("A", "B") + route("r", "A/m", "B/m", selection="round-robin"))
    for _ in range(2):
        place.fail("A/m", kind="quota")
        place.now += 15 * 60
    clear(place, "A/m")
    assert set(served(place, 4)) == {"A", "B"}
    place.fail("A/m", kind="quota")
    place.now += 15 * 60
    clear(place, "A/m")
    assert set(served(place, 4)) == {"B"}
    place.now += 4 * 3600
    assert set(served(place, 4)) == {"A", "B"}


def test_many_requests_that_meet_one_empty_account_are_one_quota_fault() -> None:
    place = World(keyed("A", "B") + route("r", "A/m", "B/m", selection="round-robin"))
    place.fail("A/m", "A/m", "A/m", kind="quota")
    assert len(place.credential("A/m").quota_faults) == 1


def test_ordered_ignores_demotion() -> None:
    place = World(keyed("A", "B") + route("r", "A/m", "B/m"))
    demote(place, "A/m")
    clear(place, "A/m")
    assert served(place, 2) == "AA"


@pytest.mark.parametrize("selection", ["smooth", "weighted"])
def test_a_demoted_childs_weight_counts_a_hundredth(selection: str) -> None:
    place = World(keyed("A", "B") + route("r", "A/m", "B/m", selection=selection))
    demote(place, "A/m")
    clear(place, "A/m")
    place.values.pop(place.plan.root.turn_key, None)
    draws = [number / 101 - 1e-9 for number in range(1, 102)]
    found = Counter(place.serve(r=max(0.0, r))[0] for r in draws)
    assert found == {"A": 1, "B": 100}


def test_a_session_does_not_stay_with_a_demoted_child() -> None:
    place = World(keyed("A", "B") + route("r", "A/m", "B/m", selection="round-robin"))
    assert served(place, 2, session="s") == "AA"
    demote(place, "A/m")
    clear(place, "A/m")
    place.now -= 60  # still within the hour of the session's last answer
    assert served(place, 1, session="s") == "B"


# --- the contract of algorithms ---------------------------------------------------------------------------------------


class Listener:
    """Counts what it is told, in the store; keeps a note for the request in ``extras``."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def select(self, group: GroupView, state: Any, call: Pick) -> int | None:
        return next((at for at, child in enumerate(group.children) if child.ready), None)

    def on_dispatch(self, group: GroupView, state: Any, call: Pick, index: int) -> Any:
        call.extras["picked"] = call.extras.get("picked", 0) + 1  # type: ignore[index]
        return [*(state or []), f"go {group.children[index].label}"]

    def on_failure(self, group: GroupView, state: Any, call: Pick, index: int) -> Any:
        return [*(state or []), f"failed {group.children[index].label}"]

    def on_success(self, group: GroupView, state: Any, call: Pick, index: int) -> Any:
        return [*(state or []), f"served {group.children[index].label} {call.extras.get('picked')}"]


def test_an_algorithm_may_hear_of_the_end_and_keep_notes_that_die_with_the_request() -> None:
    registry = built_in().register("listener", Listener)
    place = World(providers("a", "b") + route("r", "a/m", "b/m", selection="listener"), registry=registry)
    for _ in range(2):
        asked = place.ask(extras=({},))
        asked.go()
        asked.failed("request")
        asked.go()
        asked.finished()
    import msgspec

    told = msgspec.json.decode(place.values[place.plan.root.turn_key])
    assert told == ["go a/m", "failed a/m", "served b/m 1"] * 2


def test_an_algorithm_sees_the_labels_given_up_and_the_session() -> None:
    seen: list[Pick] = []

    class Watcher(Listener):
        def select(self, group: GroupView, state: Any, call: Pick) -> int | None:
            seen.append(call)
            return super().select(group, state, call)

    registry = built_in().register("watcher", Watcher)
    place = World(providers("a", "b") + route("r", "a/m", "b/m", selection="watcher"), registry=registry)
    asked = place.ask(session="s", r=0.25)
    asked.go()
    asked.failed("request").go()
    assert [(call.session, call.r, call.tried) for call in seen if call.tried] == [("s", 0.25, frozenset({"a/m"}))]


def reasons(path: tuple[GroupDecision, ...]) -> list[str]:
    return [row.reason for row in path]


def test_the_recorded_reason_says_how_a_group_chose() -> None:
    found = {}
    for selection in ("ordered", "round-robin", "smooth", "weighted"):
        asked = world("a/m", "b/m", selection=selection).ask()
        asked.go()
        found[selection] = reasons(asked.picked.path)
    assert found == {"ordered": ["ordered"], "round-robin": ["turn"], "smooth": ["turn"], "weighted": ["drawn"]}
    alone = world("a/m", selection="round-robin").ask()
    alone.go()
    assert reasons(alone.picked.path) == ["only"]
    place = world("a/m", "b/m", selection="round-robin")
    place.serve(session="s")
    kept = place.ask(session="s")
    kept.go()
    assert reasons(kept.picked.path) == ["sticky"]
