"""Whole requests through one router: turns, sessions, shared health, records, previews (semantics §4, §5, §7)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from routekit.core.record import RequestRecord
from routekit.core.select import Context, GroupView, Pick
from routekit.errors import RequestRefused, RouteExhausted, UsageError
from routekit.loop import run
from routekit.state import open_store
from routekit.views import GroupNode, LeafView
from tests.engine.stage import Stage, accounts, down

SYN = '[synthetic_providers.syn]\nproviders = ["alt", "main"]\n'


def two(selection: str, *, weights: str = "", more: str = "") -> str:
    text = accounts("alt", "main", more='models = ["terra", "sol"]') + SYN + f'selection = "{selection}"\n{weights}\n'
    return text + f'[routes.r]\ntargets = ["syn/terra"]\n{more}\n'


def flat(*targets: str, selection: str = "round-robin", more: str = "") -> str:
    ids = dict.fromkeys(target.partition("/")[0] for target in targets)
    listed = ", ".join(f'"{target}"' for target in targets)
    return accounts(*ids) + f'[routes.r]\ntargets = [{listed}]\nselection = "{selection}"\n{more}\n'


def served(stage: Stage, times: int, **how: Any) -> list[str]:
    return [str(stage.ask(**how).served_by).partition("/")[0] for _ in range(times)]


# --- synthetic providers, end to end (the first seed) -----------------------------------------------------------------


def test_an_ordered_synthetic_provider_serves_by_its_first_ready_member_and_falls_through() -> None:
    stage = Stage(two("ordered"), {"alt": ["alt", down(), "alt"]})
    assert served(stage, 3) == ["alt", "main", "main"]
    group = stage.record().decisions[1]
    assert (group.group, [row.label for row in group.candidates], group.chosen) == ("syn", ["main/terra"], "main/terra")


def test_a_round_robin_synthetic_provider_takes_turns_evenly() -> None:
    assert served(Stage(two("round-robin")), 4) == ["alt", "main", "alt", "main"]


def test_a_round_robin_synthetic_provider_has_tiers() -> None:
    text = (
        accounts("a", "b", "c") + '[synthetic_providers.syn]\nproviders = ["a", "b", "c"]\nselection = "round-robin"\n'
    )
    text += 'weights = { a = 2, b = 2 }\n[routes.r]\ntargets = ["syn/m"]\n'
    stage = Stage(text)
    assert served(stage, 4) == ["a", "b", "a", "b"]
    stage.script("a", down())
    stage.script("b", down())
    assert served(stage, 3) == ["c", "c", "c"]


def test_a_weighted_synthetic_provider_draws_about_by_weight() -> None:
    draw = random.Random(7).random
    stage = Stage(two("weighted", weights="weights = { alt = 3 }"))
    stage.router._draw = draw  # the seeded draw of this test
    found = Counter(served(stage, 200))
    assert 130 <= found["alt"] <= 170


def test_a_smooth_synthetic_provider_shares_exactly() -> None:
    stage = Stage(two("smooth", weights="weights = { alt = 3 }"))
    assert Counter(served(stage, 40)) == {"alt": 30, "main": 10}


def test_one_synthetic_provider_serves_two_routes_and_health_is_shared() -> None:
    text = two("ordered") + '[routes.s]\ntargets = ["syn/terra", "syn/sol"]\n'
    stage = Stage(text, {"alt/terra": [down()]})
    assert stage.ask("r").served_by == "main/terra"
    assert stage.ask("s").served_by == "main/terra"
    assert stage.calls == ["alt/terra", "main/terra", "main/terra"]
    assert {row.key for row in stage.router.health()} == {"alt/terra", "main/terra"}


def test_a_fixed_route_sees_a_rotating_synthetic_provider_as_ordered() -> None:
    assert served(Stage(two("round-robin", more="fixed = true")), 3) == ["alt", "alt", "alt"]


def test_records_show_the_synthetic_resolution_from_the_parent_down() -> None:
    stage = Stage(two("ordered"), {"alt": [down("request")]})
    with pytest.raises(RequestRefused):
        stage.ask()
    stage.script("alt", down())
    stage.ask()
    first, second = stage.record().decisions[:2], stage.record().decisions[2:]
    assert [(row.group, row.chosen, row.attempt) for row in first] == [("r", "syn/terra", 1), ("syn", "alt/terra", 1)]
    assert [row.label for row in first[1].candidates] == ["alt/terra", "main/terra"]
    assert [(row.group, row.chosen, row.attempt) for row in second] == [("r", "syn/terra", 2), ("syn", "main/terra", 2)]
    assert [(skip.target, skip.reason) for skip in second[1].excluded] == [("alt/terra", "given up (unknown)")]


def test_a_members_map_names_what_is_sent_and_each_attempt_starts_from_the_original() -> None:
    text = accounts("a", "b") + "[synthetic_providers.syn]\nmembers = [\n"
    text += '{ provider = "a", map = { x = "y" } },\n{ provider = "b", map = { x = "z", y = "bad" } }]\n'
    stage = Stage(text + '[routes.r]\ntargets = ["syn/x"]\n', {"a": [down()]})
    assert stage.ask().served_by == "b/z"
    assert stage.calls == ["a/y", "b/z"]


def test_a_member_without_a_map_gets_the_asked_model_verbatim() -> None:
    text = accounts("a", "b") + "[synthetic_providers.syn]\nmembers = [\n"
    text += '{ provider = "a", map = { x = "y" } }, { provider = "b" }]\nselection = "round-robin"\n'
    stage = Stage(text + '[routes.r]\ntargets = ["syn/x[1m]"]\n')
    served(stage, 2)
    assert stage.calls == ["a/y", "b/x[1m]"]


# --- turns ------------------------------------------------------------------------------------------------------------


def test_round_robin_with_one_asleep_gives_b_c_b_c() -> None:
    stage = Stage(flat("a/m", "b/m", "c/m"), {"a": [down()]})
    assert served(stage, 1) == ["b"]  # a failed first; its turn is spent
    assert served(stage, 4) == ["b", "c", "b", "c"]


def test_a_failed_request_spends_its_turn_and_its_retry_none() -> None:
    stage = Stage(flat("a/m", "b/m"), {"a": [down("transient"), "a"]})
    assert served(stage, 2) == ["a", "b"]
    assert stage.calls == ["a/m", "a/m", "b/m"]


def test_a_request_that_nobody_served_has_spent_its_turn() -> None:
    stage = Stage(flat("a/m", "b/m"), {"a": [down("request"), "a"]})
    stage.fails()
    assert served(stage, 2) == ["b", "a"]


def test_two_requests_started_back_to_back_go_to_different_members_while_the_first_still_answers() -> None:
    stage = Stage(flat("a/m", "b/m"), {"a": [{"text": "slow", "first": 0.1}]})

    async def both() -> list[str | None]:
        first = asyncio.ensure_future(stage.router.aask("x", model="r"))
        while not stage.calls:
            await asyncio.sleep(0.005)
        second = await stage.router.aask("x", model="r")
        assert not first.done()
        return [(await first).served_by, second.served_by]

    assert run(both()) == ["a/m", "b/m"]


def test_a_group_reached_only_by_failover_still_rotates() -> None:
    text = accounts("a", "b", "c")
    text += '[routes.r]\ntargets = ["a/m", "route/inner"]\n'
    text += '[routes.inner]\ntargets = ["b/m", "c/m"]\nselection = "round-robin"\n'
    stage = Stage(text, {"a": [down("client_error")]})
    assert served(stage, 4) == ["b", "c", "b", "c"]


def test_rotation_and_windows_outlive_the_router() -> None:
    store = open_store(None)
    text = flat("a/m", "b/m", "c/m")
    first = Stage(text, {"a": [down()]}, state=store)
    assert served(first, 1) == ["b"]
    assert served(Stage(text, state=store), 2) == ["b", "c"]


def test_an_edited_route_begins_afresh_and_keeps_its_windows() -> None:
    store = open_store(None)
    stage = Stage(flat("a/m", "b/m"), {"b": [down()]}, state=store)
    assert served(stage, 3) == ["a", "a", "a"]
    edited = Stage(flat("a/m", "b/m", "c/m"), state=store)
    assert served(edited, 3) == ["a", "c", "a"]


def test_a_renamed_target_order_is_another_shape() -> None:
    store = open_store(None)
    assert served(Stage(flat("a/m", "b/m"), state=store), 1) == ["a"]
    assert served(Stage(flat("b/m", "a/m"), state=store), 1) == ["b"]
    assert served(Stage(flat("a/m", "b/m"), state=store), 1) == ["b"]


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_stays_and_a_lone_ask_rotates() -> None:
    stage = Stage(flat("a/m", "b/m"))
    assert served(stage, 3, session="s") == ["a", "a", "a"]
    assert served(stage, 2) == ["b", "a"]


# --- health -----------------------------------------------------------------------------------------------------------


def test_a_success_that_began_before_a_stated_window_does_not_end_it() -> None:
    store = open_store(None)
    text = flat("a/m", selection="ordered")
    slow = Stage(text, {"a": [{"text": "slow", "first": 0.15}]}, state=store)
    limited = Stage(text, {"a": [down("rate_limit", hint=60)]}, state=store)
    limited.now += 1

    async def both() -> None:
        first = asyncio.ensure_future(slow.router.aask("x", model="r"))
        while not slow.calls:
            await asyncio.sleep(0.005)
        with pytest.raises(RouteExhausted):
            await limited.router.aask("x", model="r")
        slow.now += 2
        await first

    run(both())
    assert limited.asleep() == {"a/m": 60}


def test_a_success_that_began_before_a_guessed_window_does_not_end_it_either() -> None:
    store = open_store(None)
    text = flat("a/m", selection="ordered")
    slow = Stage(text, {"a": [{"text": "slow", "first": 0.15}]}, state=store)
    failing = Stage(text, {"a": [down()]}, state=store)
    failing.now += 1

    async def both() -> None:
        first = asyncio.ensure_future(slow.router.aask("x", model="r"))
        while not slow.calls:
            await asyncio.sleep(0.005)
        with pytest.raises(RouteExhausted):
            await failing.router.aask("x", model="r")
        slow.now += 2
        await first

    run(both())
    assert failing.asleep() == {"a/m": 30}


def test_many_requests_at_once_that_meet_one_outage_cost_one_rung() -> None:
    stage = Stage(flat("a/m", "b/m", selection="ordered"), {"a": [{**down(), "first": 0.05}]})

    async def all_of_them() -> None:
        await asyncio.gather(*(stage.router.aask("x", model="r") for _ in range(20)))

    run(all_of_them())
    assert stage.calls.count("a/m") == 20
    assert next(row.rung for row in stage.router.health() if row.key == "a/m") == 1


def test_a_cancelled_prober_lets_the_next_one_probe() -> None:
    stage = Stage(flat("a/m", "b/m", selection="ordered"), {"a": [down(), ..., "a"]})
    assert served(stage, 1) == ["b"]
    stage.now += 30

    async def interrupted() -> None:
        task = asyncio.ensure_future(stage.router.aask("x", model="r"))
        while stage.calls.count("a/m") < 2:
            await asyncio.sleep(0.005)
        assert (await stage.router.aask("x", model="r")).served_by == "b/m"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(interrupted())
    assert served(stage, 1) == ["a"]


def test_looking_changes_nothing() -> None:
    store = open_store(None)
    stage = Stage(flat("a/m", "b/m"), {"a": [down()]}, state=store)
    served(stage, 1)
    stage.now += 40
    kept = store.scan("")
    for _ in range(3):
        stage.router.health()
        stage.router.preview("r")
    assert store.scan("") == kept
    assert stage.calls == ["a/m", "b/m"]


def test_health_reset_ends_windows_by_hand() -> None:
    stage = Stage(flat("a/m", "b/m", selection="ordered"), {"a": [down("rate_limit", hint=600), "a"]})
    assert served(stage, 1) == ["b"]
    assert stage.router.reset_health("a/m") == ["a/m"]
    assert served(stage, 1) == ["a"]
    with pytest.raises(UsageError, match="nothing is remembered of 'z/m'"):
        stage.router.reset_health("z/m")


def test_a_preview_names_who_would_serve_and_why_not_the_others_with_the_time_left() -> None:
    stage = Stage(two("ordered"), {"alt": [down()]})
    stage.ask()
    stage.now += 10
    top = stage.router.preview("r")
    group = top.children[0]
    assert isinstance(group, GroupNode)
    alt, main = group.children
    assert isinstance(alt, LeafView)
    assert isinstance(main, LeafView)
    assert (alt.ready, alt.reason, alt.until) == (False, "target window (unknown)", stage.now + 20)
    assert (main.ready, main.serves) == (True, True)


# --- algorithms of one's own ------------------------------------------------------------------------------------------


class LeastDispatched:
    """Whoever was asked least often; ties by configured order."""

    def __init__(self, context: Context) -> None:
        self.members = context.members

    def select(self, group: GroupView, state: Any, call: Pick) -> int | None:
        ready = [at for at, child in enumerate(group.children) if child.ready]
        return min(ready, key=lambda at: (state or {}).get(group.children[at].label, 0), default=None)

    def on_dispatch(self, group: GroupView, state: Any, call: Pick, index: int) -> Any:
        label = group.children[index].label
        return {**(state or {}), label: (state or {}).get(label, 0) + 1}


def test_an_algorithm_of_ones_own_is_named_in_the_config_and_fails_over_like_any_other() -> None:
    text = flat("a/m", "b/m", "c/m", selection="least")
    stage = Stage(text, {"b": ["b", down()]}, algorithms={"least": LeastDispatched})
    assert served(stage, 4) == ["a", "b", "c", "a"]
    assert served(stage, 1) == ["c"]  # b's turn, which failed
    assert stage.causes() == ["b/m unknown", "c/m success"]


# --- records ----------------------------------------------------------------------------------------------------------


def test_a_record_holds_what_explains_the_request_and_never_prompt_or_answer() -> None:
    text = two("ordered") + "\n"
    stage = Stage(text, {"alt": [down("unknown", "boom")], "main": ["the answer"]})
    run(stage.router.aask("the prompt", model="r", session="s"))
    stored = stage.router.store.records()[0]
    assert "the prompt" not in str(stored)
    assert "the answer" not in str(stored)
    record = stage.router.why()
    assert (record.reference, record.session, record.served_by, record.exit_code) == ("r", "s", "main/terra", 0)
    failed, success = record.attempts
    assert (failed.kind, failed.scope, failed.message, failed.window_s) == ("unknown", "target", "boom", 30)
    assert (success.outcome, success.wire_id, success.credential) == ("success", "terra", "none:main")
    assert success.usage
    assert success.first_output is not None


def test_a_failed_request_leaves_a_record_too() -> None:
    stage = Stage(flat("a/m", selection="ordered"), {"a": [down("request", "bad", status=400)]})
    stage.fails()
    record = stage.router.why()
    assert record.error is not None
    assert (record.exit_code, record.error.exit_code, record.served_by) == (65, 65, None)


def test_why_finds_a_record_by_the_beginning_of_its_id_and_says_when_there_is_none() -> None:
    stage = Stage(flat("a/m", selection="ordered"))
    with pytest.raises(UsageError, match="nothing has been asked yet"):
        stage.router.why()
    stage.ask()
    stage.now += 100
    stage.ask()
    assert stage.router.why(stage.record().id[:14]) == stage.record()
    with pytest.raises(UsageError, match="no request zzz"):
        stage.router.why("zzz")


def test_a_skipped_candidate_is_recorded_with_reason_and_time_left() -> None:
    stage = Stage(flat("a/m", "b/m", selection="ordered"), {"a": [down()]})
    stage.ask()
    stage.now += 5
    record: RequestRecord = stage.ask().record
    assert [(skip.target, skip.reason, skip.until) for skip in record.skipped] == [
        ("a/m", "target window (unknown)", stage.now + 25)
    ]
