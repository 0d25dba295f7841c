"""What a single value may be."""

from __future__ import annotations

import datetime

import pytest

P = '[providers.a]\npreset = "openai"\n'


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("30s", 30), ("2m", 120), ("8h", 28800), ("7d", 604800), ("1.5s", 1.5)],
)
def test_a_duration_is_a_number_with_its_unit(config, text: str, seconds: float) -> None:
    assert config(f'limits.stall = "{text}"').limits.stall == seconds


@pytest.mark.parametrize("value", ["30", "0.5", "nan", "inf", "-3"])
def test_a_bare_number_is_no_duration_and_the_unit_is_asked_for(errors, value: str) -> None:
    (error,) = errors(f"limits.stall = {value}")
    assert error.startswith("1 limits.stall: ")
    assert "which unit?" in error


@pytest.mark.parametrize(
    "value", ['"30"', '"s"', '"-1s"', '"1h30m"', '"30 s"', '"99999999d"', '"٣s"', "true", "[]", "{}", "2020-01-01"]
)
def test_anything_else_is_no_duration(errors, value: str) -> None:
    (error,) = errors(f"limits.stall = {value}")
    assert '"250ms"' in error


def test_a_limit_is_longer_than_nothing(errors) -> None:
    assert len(errors('limits.stall = "0s"')) == 1


def test_first_zero_turns_cool_downs_off_with_or_without_a_unit(config) -> None:
    for value in ("0", '"0s"'):
        assert config(f"{P}health.first = {value}").providers["a"].health.first == 0


@pytest.mark.parametrize("value", ["true", "false", "1.0", "-1", "1001", '"3"', "99999999999999999999999999999"])
def test_a_weight_is_a_whole_number_up_to_a_thousand_and_never_a_switch(errors, value: str) -> None:
    (error,) = errors(f'{P}[routes.r]\ntargets = [\n  {{ target = "a/m", weight = {value} }},\n]')
    assert error.startswith("5 routes.r.targets[1].weight: ")
    assert "0 to 1000" in error


@pytest.mark.parametrize("value", [0, 1, 1000])
def test_weights_from_nothing_to_a_thousand_are_taken(config, value: int) -> None:
    route = config(f'{P}[routes.r]\ntargets = [{{ target = "a/m", weight = {value} }}]').routes["r"]
    assert route.targets[0].weight == value


@pytest.mark.parametrize(
    "line",
    [
        "max_parallel = true",
        "max_parallel = 0",
        'enabled = "yes"',
        "enabled = 1",
        "models = 'gpt-*'",
        'models = [""]',
        "budget.requests_per_day = 1.5",
        "budget.usd_per_day = true",
        "budget.usd_per_day = nan",
        "health.failures = 0",
        "health.factor = 0.5",
        "health.probe = 1",
        'model_info."m".context = 0',
        'model_info."m".price = { input = 1 }',
        'model_info."m".price = { input = 1, output = -1 }',
        "anthropic_version = 2023-06-01",
        'auth = "header:"',
        'auth = "header: X"',
        'auth = "basic"',
        "params = { a = nan }",
        "params = { a = 2020-01-01 }",
        "params = { a = [ { b = 10:00:00 } ] }",
        "params = { a = 99999999999999999999 }",
        'headers = { "X Y" = "a" }',
        'headers = { X = "é" }',
        'headers = { X = "a\\nb" }',
        "headers = { X = 1 }",
    ],
)
def test_a_provider_refuses_values_that_do_not_fit(errors, line: str) -> None:
    (error,) = errors(f"{P}{line}")
    assert error.startswith("3 providers.a.")


@pytest.mark.parametrize("line", ["fixed = 1", 'sticky = "yes"', "sticky = 1", 'last_resort = "maybe"', "attempts = 0"])
def test_a_route_and_the_defaults_refuse_policies_that_do_not_exist(errors, line: str) -> None:
    assert len(errors(f'{P}[routes.r]\ntargets = ["a/m"]\n{line}')) == 1
    assert len(errors(f"[defaults]\n{line}")) == 1


def test_until_is_an_instant_with_its_zone(config, errors) -> None:
    route = '{P}[routes.r]\ntargets = [{{ target = "a/m", until = {value} }}]'
    until = config(route.format(P=P, value="2026-12-31T00:00:00+01:00")).routes["r"].targets[0].until
    assert until == datetime.datetime(2026, 12, 30, 23, tzinfo=datetime.UTC)
    for value in ("2026-12-31", "2026-12-31T00:00:00", '"2026-12-31T00:00:00Z"', "10:00:00"):
        (error,) = errors(route.format(P=P, value=value))
        assert "2026-12-31T00:00:00Z" in error


@pytest.mark.parametrize(
    "url",
    ["ftp://h", "h/v1", "https://", "https://h/?key=1", "https://h/#a", "https://h h", "https://a:b@h", "scripted:"],
)
def test_an_address_is_http_without_name_query_or_fragment(errors, url: str) -> None:
    (error,) = errors(f'[providers.a]\napi = "openai-chat"\nbase_url = "{url}"')
    assert error.startswith("3 providers.a.base_url: ")


def test_a_password_in_an_address_is_refused_and_not_repeated(errors) -> None:
    (error,) = errors('[providers.a]\napi = "openai-chat"\nbase_url = "https://me:hunter22@h/v1"')
    assert "hunter22" not in error


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8080/v1", "http://127.0.0.1:1", "http://[::1]:8000/v1", "https://h.example/v1", "https://h"],
)
def test_addresses_in_use_are_taken_without_a_word(config, url: str) -> None:
    read = config(f'[providers.a]\napi = "openai-chat"\nbase_url = "{url}/"')
    assert read.providers["a"].base_url == url
    assert read.warnings == ()


def test_an_unencrypted_address_elsewhere_is_warned_of(warnings) -> None:
    (warning,) = warnings('[providers.a]\napi = "openai-chat"\nbase_url = "http://h.example/v1"')
    assert "https" in warning


def test_an_anthropic_style_address_with_its_version_is_warned_of(warnings) -> None:
    (warning,) = warnings('[providers.a]\napi = "anthropic-messages"\nbase_url = "https://h.example/v1"')
    assert "without '/v1'" in warning
