"""What must hold between entries."""

# ruff: noqa: E501 -- one-line documents read best as one line

from __future__ import annotations

import msgspec
import pytest

from routekit.config.rules import deepest_chain, find_cycles

A = '[providers.a]\npreset = "openai"\n'
AB = A + '[providers.b]\npreset = "anthropic"\n'


def test_members_are_written_as_ids_with_weights_or_as_tables(config) -> None:
    plain = config(AB + '[synthetic_providers.s]\nproviders = ["b", "a"]\nweights = { a = 3 }')
    tables = config(AB + '[synthetic_providers.s]\nmembers = [{ provider = "b" }, { provider = "a", weight = 3 }]')
    assert plain.synthetic_providers == tables.synthetic_providers
    assert [member.provider for member in plain.synthetic_providers["s"].members] == ["b", "a"]
    assert plain.digest == tables.digest


@pytest.mark.parametrize("other", ['providers = ["a"]', "weights = { a = 1 }"])
def test_both_spellings_of_members_in_one_entry_are_an_error(errors, other: str) -> None:
    (error,) = errors(A + f'[synthetic_providers.s]\nmembers = [{{ provider = "a" }}]\n{other}')
    assert error.startswith("3 synthetic_providers.s: ")


def test_a_synthetic_provider_needs_members(errors) -> None:
    (error,) = errors('[synthetic_providers.s]\nselection = "smooth"')
    assert "'providers' is missing" in error


def test_a_weight_of_a_stranger_is_answered_with_the_nearest_member(errors) -> None:
    (error,) = errors(A + '[synthetic_providers.s]\nproviders = ["a"]\nweights = { aa = 1 }')
    assert error == "5 synthetic_providers.s.weights.aa: 'aa' is no member; did you mean 'a'?"


@pytest.mark.parametrize(
    ("id", "more", "reason"),
    [
        ("a", "", "a provider of its own"),
        ("route", "", "reserved"),
        ("r", '[routes.r]\ntargets = ["a/m"]\n', "is a route"),
    ],
)
def test_a_synthetic_id_that_is_taken_is_dropped_with_a_warning(config, id: str, more: str, reason: str) -> None:
    read = config(A + more + f'[synthetic_providers.{id}]\nproviders = ["a"]')
    assert read.synthetic_providers == {}
    (warning,) = read.warnings
    assert warning.key == f"synthetic_providers.{id}"
    assert reason in warning.message


def test_members_that_are_no_accounts_are_dropped_and_the_rest_stays(config) -> None:
    text = AB + (
        '[synthetic_providers.s]\nproviders = ["t", "pool", "route", "nobody", "a", "r", "a"]\n'
        '[synthetic_providers.t]\nproviders = ["b"]\n'
        '[routes.r]\ntargets = ["a/m"]\nprovider = "pool"\n'
    )
    read = config(text)
    assert [member.provider for member in read.synthetic_providers["s"].members] == ["a"]
    reasons = {warning.message for warning in read.warnings}
    assert len(reasons) == 6
    for name, reason in {
        "t": "do not nest",
        "pool": "stands for routes",
        "route": "stands for routes",
        "r": "stands for routes",
        "nobody": "no provider has this id",
        "a": "listed earlier",
    }.items():
        assert any(f"'{name}' is dropped" in text and reason in text for text in reasons)


def test_a_target_of_an_unknown_provider_is_dropped_and_the_rest_stays(config) -> None:
    read = config(A + '[routes.r]\ntargets = [\n  "opnai/m",\n  "a/m",\n]')
    assert [target.target for target in read.routes["r"].targets] == ["a/m"]
    (warning,) = read.warnings
    assert (warning.line, warning.key) == (5, "routes.r.targets[1]")
    assert "no provider is named 'opnai'" in warning.message


def test_a_provider_with_an_error_of_its_own_makes_no_second_problem(reading) -> None:
    found = reading('[providers.a]\napi = "openai"\n[routes.r]\ntargets = ["a/m"]\n[aliases]\nq = "a/m"')
    assert [problem.key for problem in found.problems] == ["providers.a.api"]


def test_an_unknown_bare_name_is_an_error_that_names_who_offers_such_a_model(errors) -> None:
    text = A + 'models = ["gpt-6"]\n[routes.plan]\ntargets = ["a/m"]\n[routes.r]\ntargets = ["plam", "gpt-6"]'
    first, second = errors(text)
    assert first == "7 routes.r.targets[1]: no route or alias is named 'plam'; did you mean 'plan'?"
    assert second.endswith("a model of that name: a/gpt-6")


def test_routes_are_reached_by_name_by_prefix_by_alias_and_by_what_they_advertise(config) -> None:
    text = A + (
        '[aliases]\nq = "one"\n'
        '[routes.one]\ntargets = ["a/m"]\nprovider = "routed"\nmodel = "strong"\n'
        '[routes.two]\ntargets = ["one", "route/one", "q", "routed/strong", "route/one#high"]\n'
    )
    read = config(text)
    assert len(read.routes["two"].targets) == 5
    assert read.warnings == ()


def test_a_route_under_a_virtual_provider_must_exist(errors) -> None:
    text = A + '[routes.one]\ntargets = ["a/m"]\nprovider = "routed"\n[routes.two]\ntargets = ["routed/strong"]'
    (error,) = errors(text)
    assert error == "7 routes.two.targets[1]: no route is listed as 'routed/strong'; did you mean 'routed/one'?"


def test_two_routes_that_advertise_the_same_are_an_error_naming_both(errors) -> None:
    text = A + '[routes.pool]\ntargets = ["a/m"]\n[routes.other]\ntargets = ["a/m"]\nprovider = "pool"\nmodel = "pool"'
    (error,) = errors(text)
    assert "'pool' and 'other' both advertise pool/pool" in error


def test_an_empty_advertised_name_counts_as_unset(config) -> None:
    read = config(
        A + '[routes.pool]\ntargets = ["a/m"]\nprovider = ""\nmodel = ""\n[routes.x]\ntargets = ["pool/pool"]'
    )
    assert read.warnings == ()


@pytest.mark.parametrize("owner", ["a", "s", "route"])
def test_a_virtual_provider_with_a_name_that_is_taken_is_an_error(errors, owner: str) -> None:
    text = A + f'[synthetic_providers.s]\nproviders = ["a"]\n[routes.r]\ntargets = ["a/m"]\nprovider = "{owner}"'
    (error,) = errors(text)
    assert error.startswith("7 routes.r.provider: ")


def test_a_route_named_like_a_provider_is_warned_of(warnings) -> None:
    (warning,) = warnings(A + '[routes.a]\ntargets = ["a/m"]')
    assert warning.startswith("3 routes.a: ")


def test_a_provider_may_not_be_named_route(errors) -> None:
    (error,) = errors('[providers.route]\npreset = "openai"')
    assert "reserved" in error


def test_a_circle_of_routes_is_an_error_that_prints_the_chain(errors) -> None:
    text = '[routes.a]\ntargets = ["b"]\n[routes.b]\ntargets = ["c"]\n[routes.c]\ntargets = ["route/a"]'
    (error,) = errors(text)
    assert "a → b → c → a" in error


def test_a_route_may_not_name_itself_not_even_by_alias_or_advertised_name(errors) -> None:
    text = '[aliases]\nq = "a"\n[routes.a]\ntargets = ["{}"]'
    for target in ("a", "q", "a/a", "route/a"):
        (error,) = errors(text.format(target))
        assert "a → a" in error


def test_two_ways_to_one_route_are_no_circle(config) -> None:
    text = A + '[routes.x]\ntargets = ["a/m"]\n[routes.y]\ntargets = ["x"]\n[routes.z]\ntargets = ["x", "y"]'
    assert config(text).warnings == ()


def test_what_is_switched_off_closes_no_circle(config) -> None:
    off = ("{ target = 'b', enabled = false }", "{ target = 'b', weight = 0 }")
    for target in off:
        config(
            f'[providers.p]\npreset = "openai"\n[routes.a]\ntargets = ["p/m", {target}]\n[routes.b]\ntargets = ["a"]'
        )


def test_a_chain_of_thousands_of_routes_is_walked_without_recursion() -> None:
    edges = {str(place): [str(place + 1)] for place in range(20_000)}
    assert find_cycles(edges) == []
    edges["19999"] = ["0"]
    (chain,) = find_cycles(edges)
    assert len(chain) == 20_001


def test_the_deepest_chain_is_found_without_recursion_and_every_edge_is_walked_once() -> None:
    edges = {str(place): [str(place + 1)] * 2 for place in range(20_000)}
    assert deepest_chain(edges) == [str(place) for place in range(20_001)]
    assert deepest_chain({}) == []
    assert deepest_chain({"a": ["b", "c"], "b": ["d"], "c": ["e"], "e": ["d"]}) == ["a", "c", "e", "d"]
    assert deepest_chain({"a": ["b"], "b": ["a"]}) == ["a", "b"]


def test_a_chain_of_routes_that_is_too_deep_is_one_error_at_its_beginning(errors) -> None:
    chain = "".join(f'[routes.r{place}]\ntargets = ["r{place + 1}"]\n' for place in range(500))
    (error,) = errors(A + chain + '[routes.r500]\ntargets = ["a/m"]')
    assert "routes.r0.targets: route r0 nests more than 64 routes deep: r0 → r1 → … → r500" in error


def test_an_alias_is_an_id_that_stands_for_something_that_exists(errors) -> None:
    text = A + '[aliases]\nx = "nope"\n"y/z" = "a/m"\nu = "nobody/m"\nw = "a/"\nv = 3'
    keys = [error.split(": ")[0] for error in errors(text)]
    assert keys == ["4 aliases.x", '5 aliases."y/z"', "6 aliases.u", "7 aliases.w", "8 aliases.v"]


def test_an_alias_of_an_alias_is_an_error(errors) -> None:
    (error,) = errors(A + '[aliases]\nx = "y"\ny = "a/m"')
    assert error.startswith("4 aliases.x: ")


def test_an_alias_named_like_a_route_is_warned_of(warnings) -> None:
    (warning,) = warnings(A + '[routes.r]\ntargets = ["a/m"]\n[aliases]\nr = "a/m"')
    assert warning.startswith("6 aliases.r: ")


@pytest.mark.parametrize("route", ["r", "q", "a/m", "route/r", "a/m#high"])
def test_the_default_is_any_reference(config, route: str) -> None:
    read = config(A + f'[defaults]\nroute = "{route}"\n[routes.r]\ntargets = ["a/m"]\n[aliases]\nq = "r"')
    assert read.defaults.route == route


def test_a_default_that_leads_nowhere_is_an_error(errors) -> None:
    assert [error.split(": ")[0] for error in errors('[defaults]\nroute = "nope"')] == ["2 defaults.route"]


def test_an_unknown_selection_lists_the_registered_names(errors, reading, setting) -> None:
    text = (
        A
        + '[routes.r]\ntargets = ["a/m"]\nselection = "least"\n[synthetic_providers.s]\nproviders = ["a"]\nselection = "x"'
    )
    first, second = errors(text)
    assert first.startswith("5 routes.r.selection: 'least' is no selection")
    assert "ordered, priority, round-robin, weighted, smooth" in second
    more = msgspec.structs.replace(setting, selections=["least", "x"])
    assert reading(text, setting=more).config is not None


def test_policies_of_the_defaults_reach_every_route_that_says_nothing(config) -> None:
    text = (
        A
        + '[defaults]\nsticky = "cache"\nattempts = 3\n[routes.r]\ntargets = ["a/m"]\n[routes.x]\ntargets = ["a/m"]\nsticky = false'
    )
    read = config(text)
    assert (read.routes["r"].sticky, read.routes["r"].attempts) == ("cache", 3)
    assert (read.routes["x"].sticky, read.routes["x"].attempts) == (False, 3)


def test_a_route_without_targets_is_an_error_and_with_an_empty_list_a_warning(errors, warnings) -> None:
    assert len(errors('[routes.r]\nname = "x"')) == 1
    (warning,) = warnings("[routes.r]\ntargets = []")
    assert "no targets left" in warning


def test_a_misspelled_table_is_one_fault_and_its_followers_are_none(reading) -> None:
    text = (
        '[provider.a]\napi = "openai-chat"\nbase_url = "https://a.example"\n'
        '[synthetic_providers.s]\nproviders = ["a"]\n[routes.r]\ntargets = ["a/m", "s/m"]\n'
    )
    assert [problem.key for problem in reading(text).problems] == ["provider"]
    text = A + '[route.r]\ntargets = ["a/m"]\n[defaults]\nroute = "r"\n[aliases]\nx = "r"\n'
    assert [problem.key for problem in reading(text).problems] == ["route"]


def test_a_provider_written_as_a_target_is_called_one(errors) -> None:
    (error,) = errors(A + 'models = ["m"]\n[routes.r]\ntargets = ["a"]\n')
    assert error.endswith("'a' is a provider: write a/MODEL, such as a/m")


def test_routes_are_not_listed_as_providers(warnings) -> None:
    first, *_ = warnings(A + '[routes.r]\ntargets = ["zzz/m", "a/m"]\n')
    assert first.endswith("; providers: a")
