"""Provider entries: presets, keys, headers, parameters."""

from __future__ import annotations

import pytest

from routekit.vendors.presets import PRESETS

CANARY = "sk-canary-0123456789abcdefABCDEF"


def test_a_preset_fills_what_the_entry_leaves_open(config) -> None:
    provider = config('[providers.work]\npreset = "anthropic"').providers["work"]
    assert provider.api == "anthropic-messages"
    assert provider.base_url == "https://api.anthropic.com"
    assert provider.key == "keyring:work"
    assert provider.key_variable == "ANTHROPIC_API_KEY"
    assert provider.origin == "preset"


def test_an_api_without_an_address_is_its_own_vendor(config) -> None:
    provider = config('[providers."openai.alternate"]\napi = "openai-responses"').providers["openai.alternate"]
    assert provider.base_url == "https://api.openai.com/v1"
    assert provider.preset == "openai"
    assert provider.key == "keyring:openai.alternate"


def test_an_address_of_its_own_has_no_usual_variable(config) -> None:
    for text in ('api = "openai-chat"', 'preset = "openai"'):
        provider = config(f'[providers.a]\n{text}\nbase_url = "https://relay.example/v1"\nkey = "auto"').providers["a"]
        assert provider.key_variable is None
        assert provider.origin == "config"


def test_what_the_entry_says_beats_the_preset(config) -> None:
    provider = config('[providers.a]\npreset = "openai"\napi = "openai-chat"\nauth = "x-api-key"').providers["a"]
    assert (provider.api, provider.auth) == ("openai-chat", "x-api-key")


def test_a_preset_has_no_address_for_another_family_of_apis(errors) -> None:
    (error,) = errors('[providers.a]\npreset = "openai"\napi = "anthropic-messages"')
    assert error.startswith("3 providers.a.api: ")
    assert "base_url" in error


def test_an_unknown_preset_is_answered_with_the_nearest(errors) -> None:
    (error,) = errors('[providers.a]\npreset = "opnai"')
    assert error == "2 providers.a.preset: 'opnai' is no known vendor; did you mean 'openai'?"


def test_an_entry_without_api_and_preset_is_told_of_both(errors) -> None:
    (error,) = errors("[providers.openai]\nenabled = true")
    assert error.startswith("1 providers.openai: 'api' is missing")
    assert 'preset = "openai"' in error


def test_the_scripted_api_is_for_demos_and_tests_only(errors) -> None:
    (error,) = errors('[providers.a]\napi = "scripted"')
    assert error.startswith("2 providers.a.api: ")


@pytest.mark.parametrize(
    ("written", "full"),
    [
        ("keyring", "keyring:a"),
        ("keyring:work", "keyring:work"),
        ("env:MY_KEY", "env:MY_KEY"),
        ("cmd:pass show openai", "cmd:pass show openai"),
        ("file:~/.secrets/openai", "file:~/.secrets/openai"),
        ("auto", "auto:a"),
        ("none", "none"),
    ],
)
def test_a_key_is_a_reference_in_its_full_form(config, written: str, full: str) -> None:
    assert config(f'[providers.a]\npreset = "openai"\nkey = "{written}"').providers["a"].key == full


def test_two_providers_may_share_one_credential(config) -> None:
    read = config('[providers.a]\npreset = "openai"\n[providers.b]\npreset = "openai"\nkey = "keyring:a"')
    assert read.providers["a"].credential == read.providers["b"].credential


@pytest.mark.parametrize("value", ["keyrng:a", "env:", "env:1X", "keyring:a/b", "file:relative", "cmd:", "", "none:x"])
def test_a_key_that_is_no_reference_is_refused_with_what_is_allowed(errors, value: str) -> None:
    (error,) = errors(f'[providers.a]\npreset = "openai"\nkey = "{value}"')
    assert error.startswith("3 providers.a.key: ")


@pytest.mark.parametrize(
    "line",
    [
        f'key = "{CANARY}"',
        f'key = "env:{CANARY}"',
        f'key = "keyring:{CANARY}"',
        f'key = ["{CANARY}"]',
        f'api_key = "{CANARY}"',
        f'token = "{CANARY}"',
        f'auth = "{CANARY}"',
        f'auth = "header:{CANARY}: x"',
        f'base_url = "https://h/{CANARY}?x"',
        f'proxy = "http://me:{CANARY}@h"',
        f'headers = {{ X = "{CANARY}" }}',
        f'headers = {{ X = "Bearer {CANARY}" }}',
        f'headers = {{ Authorization = "Bearer {CANARY}" }}',
        f'headers = {{ "{CANARY} " = "x" }}',
        f'params = {{ user = "{CANARY}" }}',
        f'params = {{ api_key = "{CANARY}" }}',
        f'max_parallel = "{CANARY}"',
        f'models = "{CANARY}"',
        f'"{CANARY}" = 1',
        f'"{CANARY}" = {{ x = 1 }}',
        f'[routes.r]\ntargets = ["{CANARY}"]',
        f'[aliases]\nq = "{CANARY}"',
        f'preset = "{CANARY}"',
        f'unknown = "{CANARY}"',
    ],
)
def test_a_secret_in_the_file_is_refused_and_never_repeated(reading, line: str) -> None:
    found = reading(f'[providers.a]\napi = "openai-chat"\n{line}')
    assert found.errors
    assert CANARY not in repr(found)


def test_a_secret_in_broken_text_is_never_repeated(reading) -> None:
    for text in (
        f"{CANARY} = ",
        f'key = "{CANARY}',
        f"a.{CANARY} = 1\na.{CANARY} = 1",
        f"a = {{{CANARY}=1,{CANARY}=1}}",
    ):
        found = reading(text)
        assert found.errors
        assert CANARY not in repr(found)


def test_a_secret_is_answered_with_the_command_that_stores_it(errors) -> None:
    assert "routekit keys set a" in errors(f'[providers.a]\npreset = "openai"\nkey = "{CANARY}"')[0]
    assert "routekit keys set a" in errors(f'[providers.a]\npreset = "openai"\napi_key = "{CANARY}"')[0]
    assert "routekit keys set a-x" in errors(f'[providers.a]\npreset = "openai"\nheaders = {{ X = "{CANARY}" }}')[0]


def test_a_model_id_with_many_digits_is_no_secret(config) -> None:
    text = '[providers.a]\npreset = "anthropic"\nmodels = ["claude-sonnet-4-20250514"]\n'
    read = config(text + '[routes.r]\ntargets = ["a/claude-sonnet-4-20250514"]')
    assert read.routes["r"].targets[0].target == "a/claude-sonnet-4-20250514"


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "API-KEY", "Cookie", "Host", "anthropic-version"])
def test_headers_that_carry_keys_or_belong_to_the_wire_are_refused(errors, name: str) -> None:
    (error,) = errors(f'[providers.a]\npreset = "openai"\nheaders = {{ {name} = "x" }}')
    assert error.startswith(f"3 providers.a.headers.{name}: ")


def test_the_header_that_auth_names_is_refused_among_the_headers(errors) -> None:
    (error,) = errors('[providers.a]\npreset = "openai"\nauth = "header:X-Key"\nheaders = { x-key = "v" }')
    assert error.startswith("4 providers.a.headers.x-key: ")


def test_a_header_may_hold_text_or_a_reference(config) -> None:
    provider = config('[providers.a]\npreset = "openai"\nheaders = { X-Team = "lab", X-Gate = "env:GATE" }').providers[
        "a"
    ]
    assert provider.headers == {"X-Team": "lab", "X-Gate": "env:GATE"}


@pytest.mark.parametrize("name", ["model", "stream", "messages", "input", "key", "api_key", "Authorization"])
def test_parameters_that_are_not_the_providers_to_say_are_refused(errors, name: str) -> None:
    (error,) = errors(f'[providers.a]\npreset = "openai"\nparams = {{ {name} = "x" }}')
    assert error.startswith(f"3 providers.a.params.{name}: ")


def test_parameters_may_nest(config) -> None:
    provider = config(
        '[providers.a]\npreset = "openai"\nparams = { store = false, a = { model = [1, "x"] } }'
    ).providers["a"]
    assert provider.params == {"store": False, "a": {"model": [1, "x"]}}


def test_a_providers_health_lies_over_the_top_level_one(config) -> None:
    text = '[health]\nfirst = "10s"\ncap = "1h"\n[providers.a]\npreset = "openai"\nhealth.first = "5s"'
    health = config(text).providers["a"].health
    assert (health.first, health.cap, health.factor) == (5, 3600, 2)


def test_limits_hold_only_what_the_file_says(config) -> None:
    limits = config('limits.stall = "1m"').limits
    # The defaults come last, in the plan: a limit said to be 10s is another thing than one never said.
    assert (limits.connect, limits.stall) == (None, 60)


def test_a_keyless_api_needs_no_key(config) -> None:
    assert config('[providers.a]\npreset = "openai"\nauth = "none"').providers["a"].key == "none"


def test_model_info_is_read_by_id_or_glob(config) -> None:
    text = """
[providers.a]
preset = "openai"
[providers.a.model_info."gpt-6.1-*"]
context = 400_000
reasons = true
variants.high = { reasoning_effort = "high" }
limits.first_output = "60s"
price = { input = 1.25, output = 10, cached = 0.125 }
budget = { usd_per_day = 2 }
"""
    info = config(text).providers["a"].model_info["gpt-6.1-*"]
    assert info.context == 400_000
    assert info.variants == {"high": {"reasoning_effort": "high"}}
    assert info.limits is not None
    assert info.limits.first_output == 60
    assert info.price is not None
    assert info.price.output == 10.0
    assert info.budget is not None
    assert info.budget.usd_per_day == 2.0


@pytest.mark.parametrize("name", [row.name for row in PRESETS.values() if row.base_url])
def test_a_known_vendor_makes_a_provider_from_its_name_alone(config, name: str) -> None:
    read = config(f'[providers.mine]\npreset = "{name}"')
    assert read.warnings == ()
    assert read.providers["mine"].preset == name
    assert read.providers["mine"].base_url == PRESETS[name].base_url.rstrip("/")


@pytest.mark.parametrize("name", [row.name for row in PRESETS.values() if not row.base_url])
def test_a_vendor_without_an_address_for_all_asks_for_it_and_keeps_its_variable(config, errors, name: str) -> None:
    (error,) = errors(f'[providers.mine]\npreset = "{name}"')
    assert str(PRESETS[name].place) in error
    provider = config(f'[providers.mine]\npreset = "{name}"\nbase_url = "https://mine.example/v2"').providers["mine"]
    assert (provider.key_variable, provider.origin) == (PRESETS[name].key_variable, "config")


@pytest.mark.parametrize("name", [row.name for row in PRESETS.values() if row.keyless])
def test_a_keyless_vendor_has_no_key_unless_one_is_named_with_its_way(config, name: str) -> None:
    assert config(f'[providers.mine]\npreset = "{name}"').providers["mine"].key == "none"
    assert config(f'[providers.mine]\npreset = "{name}"\nauth = "bearer"').providers["mine"].key == "keyring:mine"
    (warning,) = config(f'[providers.mine]\npreset = "{name}"\nkey = "env:X"').warnings
    assert "never sent" in warning.message
