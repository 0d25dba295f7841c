"""Expansion: a reference becomes a tree of groups and leaves (semantics §2.4–§2.6, §3)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core.config import Catalog, ModelInfo
from routekit.core.plan import DEEPEST, LISTED_EARLIER, MOST_LEAVES, Plan, expand, is_local, mapped
from routekit.errors import ConfigError, RoutekitError, UsageError
from tests.core.world import World, configured, providers, route

TWO = providers("alt", "main", more='models = ["terra", "sol"]')
PLAN = '[synthetic_providers.syn]\nproviders = ["alt", "main"]\n'


def plan(text: str, asked: str = "r", **more: Any) -> Plan:
    return expand(configured(text), more.pop("catalogs", {}), asked, **more)


def labels(text: str, asked: str = "r", **more: Any) -> list[str]:
    return [leaf.label for leaf in plan(text, asked, **more).leaves]


def why_dropped(text: str, asked: str = "r") -> dict[str, str]:
    return {drop.label: drop.reason for drop in plan(text, asked).dropped}


def shape(found: Plan, index: int = 0) -> list[Any]:
    group = found.groups[index]
    return [child.label if child.kind == "leaf" else shape(found, child.index) for child in group.children]


# --- owners, pins, unknown names --------------------------------------------------------------------------------------


def test_an_account_before_a_synthetic_provider_before_a_virtual_group_owns_a_name() -> None:
    text = TWO + PLAN + route("strong", "main/sol", provider="routed", model="best")
    assert shape(plan(text, "alt/terra")) == ["alt/terra"]
    assert shape(plan(text, "syn/terra")) == ["alt/terra", "main/terra"]
    assert shape(plan(text, "routed/best")) == ["main/sol"]
    taken = TWO + '[synthetic_providers.main]\nproviders = ["alt"]\n'
    assert labels(taken, "main/terra") == ["main/terra"]


def test_route_slash_name_and_an_alias_reach_the_same_route() -> None:
    text = TWO + route("r", "alt/terra") + '[aliases]\nq = "r"\nhigh = "alt/sol#high"\n'
    assert labels(text, "route/r") == labels(text, "q") == labels(text, "r")
    assert labels(text, "high") == ["alt/sol#high"]
    assert labels(text, "high#low") == ["alt/sol#low"]


def test_a_pinned_reference_has_one_leaf_and_no_other() -> None:
    found = plan(TWO + PLAN, "main/terra")
    assert (found.pinned, [leaf.label for leaf in found.leaves], found.attempts) == (True, ["main/terra"], 2)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("terra", "alt/terra, main/terra"),
        ("rr", "did you mean r"),
        ("mian/terra", "did you mean main"),
        ("main/tera", "did you mean terra"),
        ("route/terra", "no main/terra"),
        ("main/*", "a pattern"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_and_never_a_default(asked: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        plan(TWO + PLAN + route("r", "alt/terra"), asked)
    assert said.split()[0] in "\n".join(error.value.lines())
    assert said.rpartition(" ")[2] in "\n".join(error.value.lines())


def test_a_model_absent_from_a_configured_catalog_is_an_error_from_a_fetched_one_a_note() -> None:
    with pytest.raises(UsageError, match="offers no model 'luna'"):
        plan(TWO, "main/luna")
    text = providers("main")
    fetched = {"main": Catalog(kind="fetched", models=("terra",))}
    found = plan(text, "main/luna", catalogs=fetched)
    assert [leaf.label for leaf in found.leaves] == ["main/luna"]
    assert found.notes == ("luna is not in the fetched list of main; tried all the same",)
    assert plan(text, "main/luna").notes == ()  # an open catalog cannot tell


# --- the tree ---------------------------------------------------------------------------------------------------------


def test_expansion_is_depth_first_in_configured_order_and_node_0_is_the_route() -> None:
    text = providers("a", "b", "c") + route("r", "a/m", "route/inner", "c/m") + route("inner", "b/x", "b/y")
    found = plan(text)
    assert shape(found) == ["a/m", ["b/x", "b/y"], "c/m"]
    assert [leaf.label for leaf in found.leaves] == ["a/m", "b/x", "b/y", "c/m"]
    assert [leaf.index for leaf in found.leaves] == [0, 1, 2, 3]
    assert (found.root.id, found.root.children[1].label) == ("r", "inner")


def test_a_cycle_of_routes_is_an_error_printing_the_chain() -> None:
    text = providers("a") + route("x", "route/y") + route("y", "a/m", "route/z") + route("z", "route/x")
    with pytest.raises(ConfigError) as error:
        configured(text)
    assert "x → y → z → x" in "\n".join(error.value.lines())


def test_a_cycle_is_judged_on_routes_and_not_on_the_providers_they_share() -> None:
    text = providers("a") + route("x", "a/m", provider="g", model="x") + route("y", "g/x", provider="g", model="y")
    assert labels(text, "g/y") == ["a/m"]


def test_a_nested_route_is_a_group_of_the_same_tree() -> None:
    text = providers("alpha", "beta") + route("outer", "inner/inner", "alpha/m") + route("inner", "beta/m")
    assert shape(plan(text, "outer")) == [["beta/m"], "alpha/m"]


def test_a_glob_follows_the_providers_own_order_and_no_match_adds_nothing() -> None:
    text = providers("p", more='models = ["opus-2", "sonnet-1", "opus-1"]')
    assert labels(text + route("r", "p/sonnet-*", "p/opus-*")) == ["p/sonnet-1", "p/opus-2", "p/opus-1"]
    assert labels(text + route("r", "p/opus-*", "p/opus-1")) == ["p/opus-2", "p/opus-1"]
    assert labels(text + route("r", "p/haiku-*", "p/opus-1")) == ["p/opus-1"]


def test_a_group_without_leaves_is_not_attached() -> None:
    text = TWO + PLAN + route("r", "syn/luna", "route/empty", "main/sol") + route("empty", "alt/luna-*")
    assert shape(plan(text)) == ["main/sol"]


def test_a_route_without_leaves_is_an_error_when_used_and_says_why_each_target_gave_none() -> None:
    text = TWO + PLAN + route("r", "syn/luna", "main/luna", "alt/luna-*")
    with pytest.raises(ConfigError) as error:
        plan(text)
    said = "\n".join(error.value.lines())
    for part in ("alt/luna: model not offered", "main/luna: not among", "alt/luna-*: no model of its catalog matches"):
        assert part in said


# --- synthetic providers ----------------------------------------------------------------------------------------------


def test_one_definition_serves_every_model_in_any_number_of_routes() -> None:
    text = TWO + PLAN + route("one", "syn/terra") + route("two", "syn/sol", "syn/terra")
    assert shape(plan(text, "one")) == [["alt/terra", "main/terra"]]
    assert shape(plan(text, "two")) == [["alt/sol", "main/sol"], ["alt/terra", "main/terra"]]
    assert plan(text, "one").leaves[0].target_key == plan(text, "two").leaves[2].target_key


def test_a_synthetic_target_is_one_group_per_model_and_its_label_names_the_model() -> None:
    found = plan(TWO + PLAN + route("r", "syn/terra"))
    group = found.groups[1]
    assert (group.id, group.label, group.synthetic, found.root.children[0].label) == (
        "syn",
        "syn/terra",
        True,
        "syn/terra",
    )


def test_a_glob_fans_out_to_a_group_per_model_first_seen_over_members_and_never_mixes() -> None:
    text = (
        providers("a", more='models = ["gpt-2", "gpt-1"]')
        + providers("b", more='models = ["gpt-3", "gpt-1", "other"]')
        + '[synthetic_providers.syn]\nproviders = ["a", "b"]\n'
        + route("r", "syn/gpt-*")
    )
    assert shape(plan(text)) == [["a/gpt-2"], ["a/gpt-1", "b/gpt-1"], ["b/gpt-3"]]


def test_a_member_that_does_not_offer_the_model_is_skipped_and_never_an_error() -> None:
    text = providers("a", more='models = ["m"]') + providers("b", more='models = ["x"]')
    text += '[synthetic_providers.syn]\nproviders = ["a", "b"]\n' + route("r", "syn/m")
    assert labels(text) == ["a/m"]
    assert why_dropped(text) == {"b/m": "model not offered"}


def test_a_member_without_a_catalog_is_believed_and_a_fetched_one_counts() -> None:
    text = providers("a", "b") + '[synthetic_providers.syn]\nproviders = ["a", "b"]\n' + route("r", "syn/m")
    assert labels(text) == ["a/m", "b/m"]
    assert labels(text, catalogs={"b": Catalog(kind="fetched", models=("x",))}) == ["a/m"]


def test_a_key_of_a_members_map_offers_the_model_and_names_what_is_sent() -> None:
    text = providers("a", more='models = ["fast"]') + providers("b", more='models = ["m"]')
    text += '[synthetic_providers.syn]\nmembers = [{ provider = "a", map = { m = "fast" } }, { provider = "b" }]\n'
    found = plan(text + route("r", "syn/m"))
    assert [(leaf.label, leaf.model, leaf.wire_id) for leaf in found.leaves] == [
        ("a/fast", "m", "fast"),
        ("b/m", "m", "m"),
    ]
    assert shape(plan(text + route("r", "syn/m*"))) == [["a/fast", "b/m"]]


@pytest.mark.parametrize("off", ["enabled = false", "weight = 0"])
def test_a_member_switched_off_contributes_nothing_and_is_named_when_nobody_is_left(off: str) -> None:
    text = (
        providers("a", "b")
        + f'[synthetic_providers.syn]\nmembers = [{{ provider = "a", {off} }}, {{ provider = "b" }}]\n'
    )
    assert labels(text + route("r", "syn/m")) == ["b/m"]
    alone = (
        providers("a") + f'[synthetic_providers.syn]\nmembers = [{{ provider = "a", {off} }}]\n' + route("r", "syn/m")
    )
    with pytest.raises(ConfigError, match=r"a/m: (switched off|weight 0)"):
        plan(alone)


def test_what_is_switched_off_contributes_nothing_in_any_path() -> None:
    base = providers("a") + providers("off", more="enabled = false")
    syn = '[synthetic_providers.syn]\nproviders = ["off", "a"]\n'
    syn += '[synthetic_providers.none]\nproviders = ["a"]\nenabled = false\n'
    inner = route("inner", "a/x", enabled=False)
    assert labels(base + syn + inner + route("r", "off/m", "syn/m", "none/y", "route/inner", "a/z 0")) == ["a/m"]
    target = '[routes.r]\ntargets = [{ target = "a/m", enabled = false }, "a/n"]\n'
    assert labels(base + target) == ["a/n"]
    with pytest.raises(ConfigError, match="switched off"):
        plan(base, "off/m")
    with pytest.raises(ConfigError, match="switched off"):
        plan(base + inner, "inner")


def test_a_synthetic_reference_asked_alone_is_its_own_root_and_a_glob_of_several_is_refused() -> None:
    assert shape(plan(TWO + PLAN, "syn/terra")) == ["alt/terra", "main/terra"]
    with pytest.raises(UsageError, match="names 2 models"):
        plan(TWO + PLAN, "syn/*")


# --- de-duplication ---------------------------------------------------------------------------------------------------


def test_the_first_occurrence_wins_across_the_whole_tree() -> None:
    text = TWO + PLAN + route("r", "route/inner", "main/terra", "syn/terra") + route("inner", "main/terra")
    found = plan(text)
    assert shape(found) == [["main/terra"], ["alt/terra"]]
    assert [(drop.group, drop.reason) for drop in found.dropped] == [
        ("r", LISTED_EARLIER),
        ("syn/terra", LISTED_EARLIER),
    ]


def tower(levels: int, *listed: str) -> str:
    """Routes ``r``, ``r1`` … in one another, each listing the next as told, the last a target."""
    names = ["r", *(f"r{level}" for level in range(1, levels))]
    floors = [route(name, *(text.format(below) for text in listed)) for name, below in pairwise(names)]
    return providers("a") + "".join(floors) + route(names[-1], "a/m")


def test_a_route_listed_twice_is_expanded_once() -> None:
    text = tower(3, "route/{}", "route/{}")
    assert shape(plan(text)) == [[["a/m"]]]
    assert [(drop.group, drop.label, drop.reason) for drop in plan(text).dropped] == [
        ("r1", "route/r2", LISTED_EARLIER),
        ("r", "route/r1", LISTED_EARLIER),
    ]


def test_a_route_listed_again_keeps_its_first_place_and_weight() -> None:
    text = providers("a", "b") + route("inner", "a/m") + route("r", "inner 3", "b/m", "inner 7")
    children = plan(text).root.children
    assert [(child.label, child.weight) for child in children] == [("inner", 3), ("b/m", 1)]


def test_a_route_listed_again_with_another_variant_is_expanded_again() -> None:
    text = providers("a") + route("inner", "a/m") + route("r", "inner#low", "inner#high", "inner", "inner#low")
    assert labels(text) == ["a/m#low", "a/m#high", "a/m"]


def test_routes_that_double_at_every_level_cost_no_more_than_their_number() -> None:
    found = plan(tower(40, "route/{}", "route/{}"))
    assert (len(found.groups), len(found.leaves), len(found.dropped)) == (40, 1, 39)
    several = plan(tower(40, "route/{}#low", "route/{}#high", "route/{}"))
    assert len(several.leaves) == 3
    assert len(several.dropped) < 40 * 9


def test_routes_nest_as_deep_as_is_allowed_and_no_deeper() -> None:
    assert labels(tower(DEEPEST, "route/{}")) == ["a/m"]
    with pytest.raises(ConfigError) as caught:
        plan(tower(500, "route/{}"))
    assert "route r nests more than 64 routes deep: r → r1 → … → r499" in str(caught.value.details or caught.value)


def test_a_plan_has_no_more_leaves_than_is_allowed() -> None:
    models = tuple(f"m{number}" for number in range(MOST_LEAVES + 1))
    text = providers("a") + route("r", "a/*")
    catalog = {"a": Catalog(kind="fetched", models=models)}
    with pytest.raises(ConfigError, match="r leads to more than 2000 targets"):
        expand(configured(text), catalog, "r")
    assert len(expand(configured(text), {"a": Catalog(kind="fetched", models=models[1:])}, "r").leaves) == MOST_LEAVES


def test_two_variants_of_one_model_are_two_leaves_and_two_names_of_one_wire_id_are_one() -> None:
    text = providers("a")
    assert labels(text + route("r", "a/m#low", "a/m#high", "a/m", "a/m#low")) == ["a/m#low", "a/m#high", "a/m"]
    mapped_twice = '[routes.r]\ntargets = ["a/wire", { target = "a/m", map = { m = "wire" } }]\n'
    assert labels(text + mapped_twice) == ["a/wire"]


# --- variants ---------------------------------------------------------------------------------------------------------


def test_a_route_hands_its_variant_to_each_leaf_that_names_none() -> None:
    text = providers("a", "b") + route("r", "a/m", "b/m#low", "route/inner") + route("inner", "a/x", "a/y#medium")
    assert labels(text, "r#high") == ["a/m#high", "b/m#low", "a/x#high", "a/y#medium"]
    assert plan(text, "r#high").leaves[0].params == {"reasoning_effort": "high"}


def test_with_none_asked_the_targets_default_variant_counts_and_default_asks_for_none() -> None:
    text = providers("a") + '[routes.r]\ntargets = [{ target = "a/m", default_variant = "low" }]\n'
    assert labels(text) == ["a/m#low"]
    assert labels(text, "r#high") == ["a/m#high"]
    assert labels(text, "r#default") == ["a/m"]


def test_a_target_remaps_the_routes_variant_but_neither_its_own_nor_its_default() -> None:
    entry = 'default_variant = "high", variants = { high = "low" }'
    text = (
        providers("a") + f'[routes.r]\ntargets = [{{ target = "a/m", {entry} }}, {{ target = "a/n#high", {entry} }}]\n'
    )
    assert labels(text, "r#high") == ["a/m#low", "a/n#high"]
    assert labels(text) == ["a/m#high", "a/n#high"]


def test_a_remap_reaches_through_a_nested_route() -> None:
    text = providers("a") + route("inner", "a/m")
    text += '[routes.r]\ntargets = [{ target = "route/inner", variants = { high = "low" } }]\n'
    assert labels(text, "r#high") == ["a/m#low"]


def test_a_remap_or_default_the_model_lacks_is_dropped_and_the_target_stays() -> None:
    entry = 'default_variant = "wild", variants = { high = "wild" }'
    text = providers("a") + f'[routes.r]\ntargets = [{{ target = "a/m", {entry} }}]\n'
    assert labels(text) == ["a/m"]
    assert labels(text, "r#high") == ["a/m#high"]


@pytest.mark.parametrize("mark", ["-", ":"])
def test_a_variant_may_be_a_suffixed_id_the_catalog_lists(mark: str) -> None:
    text = providers("a", more=f'models = ["m", "m{mark}turbo"]') + route("r", "a/m")
    found = plan(text, "r#turbo").leaves[0]
    assert (found.label, found.wire_id, found.variant) == (f"a/m{mark}turbo", f"m{mark}turbo", None)


def test_a_variant_declared_for_the_model_is_native_and_carries_its_parameters() -> None:
    text = providers("a", more='model_info."m*".variants.deep = { thinking = 9 }') + route("r", "a/m")
    assert plan(text, "r#deep").leaves[0].params == {"thinking": 9}


def test_a_model_known_not_to_reason_has_no_efforts() -> None:
    text = providers("a", more="model_info.m.reasons = false") + route("r", "a/m")
    with pytest.raises(UsageError, match="route r has no variant 'high': it has none"):
        plan(text, "r#high")


def test_a_member_that_cannot_produce_the_variant_is_skipped_and_one_that_can_by_any_way_stays() -> None:
    plain = providers("plain", more="model_info.m.reasons = false")
    native = providers("native")
    suffixed = providers("suffixed", more='models = ["m", "m-high"]\nmodel_info."*".reasons = false')
    text = plain + native + suffixed + '[synthetic_providers.syn]\nproviders = ["plain", "native", "suffixed"]\n'
    assert labels(text + route("r", "syn/m#high")) == ["native/m#high", "suffixed/m-high"]
    remapped = providers("r1", more="model_info.m.reasons = false\nmodel_info.m.variants.max = { effort = 1 }")
    remapped += '[synthetic_providers.syn]\nproviders = ["r1"]\n'
    remapped += '[routes.r]\ntargets = [{ target = "syn/m", variants = { high = "max" } }]\n'
    assert labels(remapped, "r#high") == ["r1/m#max"]


def test_a_variant_no_leaf_can_produce_is_an_error_naming_route_variant_and_those_on_offer() -> None:
    text = providers("a", more="model_info.m.variants.deep = { x = 1 }") + route("r", "a/m")
    with pytest.raises(UsageError, match=r"route r has no variant 'wild': it offers low, medium, high, deep"):
        plan(text, "r#wild")
    with pytest.raises(UsageError, match="a/m has no variant 'wild'"):
        plan(text, "a/m#wild")
    with pytest.raises(UsageError, match="syn/m has no variant 'wild'"):
        plan(text + '[synthetic_providers.syn]\nproviders = ["a"]\n', "syn/m#wild")


def test_a_route_of_pinned_variants_offers_only_those() -> None:
    text = providers("a") + route("r", "a/m#low", "a/n#high")
    assert labels(text, "r#high") == ["a/m#low", "a/n#high"]
    with pytest.raises(UsageError, match="route r has no variant 'medium'"):
        plan(text, "r#medium")


# --- maps, until, fixed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "asked", "sent"),
    [
        ({"x": "y"}, "x", "y"),
        ({"x": "y"}, "x[1m]", "y"),
        ({"x": "y"}, "x[1M]", "y"),
        ({"x": "y", "x[1m]": "z"}, "x[1m]", "z"),
        ({"x[1m]": "z"}, "x", "x"),
        ({"x": "y"}, "x[1m][1m]", "x[1m][1m]"),
        ({"x": "y", "y": "bad"}, "x", "y"),
        ({}, "x[1m]", "x[1m]"),
    ],
)
def test_a_map_is_exact_then_without_one_marker_then_verbatim_and_final(
    table: dict[str, str], asked: str, sent: str
) -> None:
    assert mapped(table, asked) == sent


def test_a_key_of_a_targets_map_needs_no_place_in_the_catalog() -> None:
    text = providers("a", more='models = ["real"]')
    text += '[routes.r]\ntargets = [{ target = "a/nick", map = { nick = "real" } }]\n'
    assert labels(text) == ["a/real"]


def test_until_is_the_earliest_of_the_target_and_of_every_route_it_stands_in() -> None:
    text = providers("a")
    text += '[routes.r]\ntargets = [{ target = "route/inner", until = 2030-01-01T00:00:00Z }, "a/z"]\n'
    text += '[routes.inner]\ntargets = [{ target = "a/x", until = 2029-01-01T00:00:00Z }, "a/y"]\n'
    assert [leaf.until for leaf in plan(text).leaves] == [1861920000.0, 1893456000.0, None]


def test_a_fixed_route_orders_its_own_groups_with_unit_weights_and_leaves_nested_routes_alone() -> None:
    text = TWO + PLAN + 'selection = "round-robin"\nweights = { main = 9 }\n'
    text += route("r", "main/sol 5", "syn/terra", "route/inner", fixed=True, selection="weighted")
    text += route("inner", "alt/sol 3", "main/terra", selection="smooth") + route("free", "syn/terra")
    found = plan(text)
    rows = {group.label: (group.algorithm, [child.weight for child in group.children]) for group in found.groups}
    assert rows["r"] == ("ordered", [1, 1, 1])
    assert rows["syn/terra"] == ("ordered", [1, 1])
    assert rows["inner"] == ("smooth", [3])
    free = {
        group.label: (group.algorithm, [child.weight for child in group.children])
        for group in plan(text, "free").groups
    }
    assert free["syn/terra"] == ("round-robin", [1, 9])


def test_attempts_default_to_twice_the_leaves_and_at_most_twenty() -> None:
    many = " ".join(f"m{number}" for number in range(15)).split()
    assert plan(providers("a") + route("r", "a/m", "a/n")).attempts == 4
    assert plan(providers("a") + route("r", *(f"a/{model}" for model in many))).attempts == 20
    assert plan(providers("a") + route("r", "a/m", attempts=3)).attempts == 3


def test_another_shape_starts_afresh_and_an_edit_back_finds_its_state() -> None:
    def key(**settings: object) -> str:
        return plan(providers("a", "b") + route("r", "a/m", "b/m", **settings)).root.turn_key

    assert key(selection="smooth") == key(selection="smooth")
    assert key(selection="smooth") != key(selection="round-robin")
    weighted = plan(providers("a", "b") + route("r", "a/m 3", "b/m", selection="smooth")).root.turn_key
    assert weighted != key(selection="smooth")


def test_the_limits_of_model_route_provider_and_file_come_in_that_order() -> None:
    text = '[limits]\nstall = "4s"\n' + providers("a", more='limits = { stall = "3s", connect = "3s" }')
    assert plan(text, "a/m").leaves[0].limits.stall == 3
    text = text + '[routes.r]\ntargets = ["a/m"]\nlimits = { stall = "2s" }\n'
    assert plan(text).leaves[0].limits.stall == 2
    assert plan(text).leaves[0].limits.connect == 3
    with_model = text.replace('stall = "3s",', 'stall = "3s",').replace(
        "[routes.r]", '[providers.a.model_info.m]\nlimits = { stall = "1s" }\n[routes.r]'
    )
    assert plan(with_model).leaves[0].limits.stall == 1


def test_models_that_reason_and_vendors_on_this_machine_get_patience() -> None:
    text = providers("a", more="model_info.deep.reasons = true")
    text += '[providers.here]\napi = "openai-chat"\nkey = "none"\nbase_url = "http://127.0.0.1:1"\n'
    found = [plan(text, asked).leaves[0].limits.first_output for asked in ("a/m", "a/deep", "here/m")]
    assert found == [10, 120, 120]


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.0.0.9/v1", True),
        ("http://[::1]:1/v1", True),
        ("http://localhost.evil.example/v1", False),
        ("http://127.0.0.1.example", False),
    ],
)
def test_this_machine_is_known_by_its_whole_host_name(url: str, local: bool) -> None:
    assert is_local(url) is local


# --- a property -------------------------------------------------------------------------------------------------------

_names = st.sampled_from(["a", "b", "c", "syn", "route/x", "route/y"])
_models = st.sampled_from(["m", "n", "m*", "m#high", "zz", "*"])


@st.composite
def _routes(draw: st.DrawFn) -> str:
    def targets(names: st.SearchStrategy[str]) -> list[str]:
        rows = draw(st.lists(st.tuples(names, _models), min_size=1, max_size=5))
        return [name if name.startswith("route/") else f"{name}/{model}" for name, model in rows]

    plain = st.sampled_from(["a", "b", "c", "syn"])
    with_y = st.sampled_from(["a", "b", "c", "syn", "route/y"])
    return route("r", *targets(_names)) + route("x", *targets(with_y)) + route("y", *targets(plain))


@given(_routes())
def test_every_leaf_of_a_plan_is_a_configured_target_and_stands_once(routes: str) -> None:
    text = providers("a", more='models = ["m", "n", "m-high"]') + providers("b", more='models = ["n"]') + providers("c")
    config = configured(text + '[synthetic_providers.syn]\nproviders = ["a", "b"]\n' + routes)
    try:
        found = expand(config, {}, "r")
    except RoutekitError:
        return
    offered = {"a": {"m", "n", "m-high"}, "b": {"n"}}
    for leaf in found.leaves:
        assert leaf.wire_id in offered.get(leaf.provider, {leaf.wire_id})
        assert leaf.provider in config.providers
    listed = [child.index for group in found.groups for child in group.children if child.kind == "leaf"]
    assert sorted(listed) == list(range(len(found.leaves)))
    assert len({leaf.label for leaf in found.leaves}) == len(found.leaves)
    for group in found.groups:
        assert group.children
        assert found.groups[group.index] is group


def test_what_is_known_of_a_model_is_merged_from_its_entry_its_globs_and_the_catalog() -> None:
    more = 'model_info.m = { context = 1 }\nmodel_info."m*" = { context = 2, output = 3 }'
    catalogs = {"a": Catalog(kind="fetched", models=("m",), info={"m": ModelInfo(output=4, tools=False)})}
    info = plan(providers("a", more=more), "a/m", catalogs=catalogs).leaves[0].info
    assert (info.context, info.output, info.tools, info.images) == (1, 3, False, None)


def test_a_leaf_past_its_until_contributes_nothing_from_that_instant_on() -> None:
    text = providers("a", "b") + '[routes.r]\ntargets = [{ target = "a/m", until = 2030-01-01T00:00:00Z }, "b/m"]\n'
    world = World(text, now=1893456000.0 - 0.001)
    assert world.serve() == "a/m"
    world.now = 1893456000.0
    assert world.serve() == "b/m"


def test_a_plan_bears_the_name_that_was_asked_for() -> None:
    text = TWO + route("r", "alt/terra") + '[aliases]\nq = "route/r"\n'
    assert [plan(text, asked).reference for asked in ("q", " r ", "r#high")] == ["q", "r", "r#high"]
