"""``routekit.testing``: what users' own tests stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

from routekit import ConfigError, RouteExhausted, UsageError, testing

TOML = """
[providers.a]
api = "openai-chat"
base_url = "https://a.example/v1"
key = "env:NOT_SET"
[providers.b]
api = "anthropic-messages"
key = "keyring"
headers = { x-team = "env:NOT_SET_EITHER" }
base_url = "https://b.example"
[defaults]
route = "r"
[routes.r]
targets = ["a/m", "b/m"]
[routes.w]
selection = "weighted"
targets = ["a/m", "b/m"]
"""


def test_the_example_of_the_documentation_is_true() -> None:
    clock = testing.Clock()
    scripts = {"a": [testing.fails("unknown", status=503), "back again"], "b": ["hi"]}
    router = testing.router_from(TOML, clock=clock, scripts=scripts)
    assert router.ask("hello").text == "hi"
    assert testing.attempts(router) == [("a/m", "failed"), ("b/m", "success")]
    assert router.ask("hello").served_by == "b/m"
    clock.advance(31)
    assert router.ask("hello").text == "back again"


def test_no_key_file_or_environment_is_needed_or_touched(home: Path) -> None:
    router = testing.router_from(TOML, scripts={"a": [testing.fails("unknown")], "b": ["hi"]})
    assert router.ask("hello", log=True).served_by == "b/m"
    assert list(home.rglob("*")) == []


def test_requests_tell_who_was_asked_what_in_order() -> None:
    router = testing.router_from(
        TOML, scripts={"a": [testing.fails("unknown")], "b": [lambda call: call.model.upper()]}
    )
    assert router.ask("hello", system="Brief.").text == "M"
    assert [(target, request.system) for target, request in router.requests] == [("a/m", "Brief."), ("b/m", "Brief.")]


def test_a_script_may_differ_by_model_and_its_last_step_repeats() -> None:
    router = testing.router_from(TOML, scripts={"a": {"m": ["one", "two"], "*": ["other"]}})
    assert [router.ask("x", model="a/m").text for _ in range(3)] == ["one", "two", "two"]
    assert router.ask("x", model="a/n").text == "other"


def test_draws_decide_weighted_groups() -> None:
    router = testing.router_from(TOML, scripts={"a": ["a"], "b": ["b"]}, draws=[0.1, 0.9])
    # a weighted group is the plan's only one: one draw a request
    assert [router.ask("x", model="w").text for _ in range(2)] == ["a", "b"]


def test_records_are_whole_and_in_order() -> None:
    router = testing.router_from(TOML, scripts={"a": ["a", testing.fails("request")], "b": ["b"]})
    router.ask("x", model="r")
    with pytest.raises(Exception):  # noqa: B017, PT011 - which one is not this test's business
        router.ask("x", model="r")
    assert [record.exit_code for record in testing.records(router)] == [0, 65]


def test_nothing_is_probed_alongside_unless_asked_for() -> None:
    def outcomes(*, probes: bool) -> set[str]:
        clock = testing.Clock()
        # after three failures the window is two minutes long: a probe is due in its middle
        scripts = {"a": [testing.fails("unknown")], "b": ["b"]}
        router = testing.router_from(TOML, scripts=scripts, clock=clock, probes=probes)
        router.long_lived = True
        for seconds in (0, 31, 61, 45):
            clock.advance(seconds)
            router.ask("x", model="r")
        router.background.call(router.end_probes(5.0))
        return {outcome for target, outcome in testing.attempts(router) if target == "a/m"}

    assert outcomes(probes=False) == {"failed"}
    assert outcomes(probes=True) == {"failed", "probe"}


def test_mistakes_in_a_test_are_said_at_once() -> None:
    with pytest.raises(UsageError, match="unknown fault class 'flaky'"):
        testing.fails("flaky")
    with pytest.raises(UsageError, match=r"write \['hi'\]"):
        testing.router_from(TOML, scripts={"a": "hi"})
    with pytest.raises(UsageError, match="no provider c"):
        testing.router_from(TOML, scripts={"c": ["hi"]})
    with pytest.raises(ConfigError):
        testing.router_from("nonsense = 1")
    with pytest.raises(RouteExhausted) as failed:
        testing.router_from(TOML, scripts={"a": [testing.fails("unknown")]}).ask("x", model="r")
    assert [attempt.kind for attempt in failed.value.attempts] == ["unknown", "setup"]
