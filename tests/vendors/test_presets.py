"""Presets: rows of facts that must agree with each other and with the typed config."""

from __future__ import annotations

from typing import get_args
from urllib.parse import urlsplit

import pytest

from routekit.core.config import Api
from routekit.core.ids import is_id
from routekit.vendors.presets import API_DEFAULTS, PRESETS, QUIRKS, Preset

ROWS = list(PRESETS.values())

#: the vendors the product promises, each under the APIs it speaks
PROMISED = {
    "openai": "openai-responses",
    "anthropic": "anthropic-messages",
    "azure": "openai-chat",
    "azure-anthropic": "anthropic-messages",
    "deepseek": "openai-chat",
    "deepseek-anthropic": "anthropic-messages",
    "openrouter": "openai-chat",
    "openrouter-anthropic": "anthropic-messages",
    "groq": "openai-chat",
    "together": "openai-chat",
    "mistral": "openai-chat",
    "gemini": "openai-chat",
    "xai": "openai-chat",
    "moonshot": "openai-chat",
    "moonshot-anthropic": "anthropic-messages",
    "zai": "openai-chat",
    "zai-anthropic": "anthropic-messages",
    "minimax": "openai-chat",
    "minimax-anthropic": "anthropic-messages",
    "ollama": "openai-chat",
    "ollama-anthropic": "anthropic-messages",
    "llamacpp": "openai-chat",
    "llamacpp-anthropic": "anthropic-messages",
    "vllm": "openai-chat",
    "vllm-anthropic": "anthropic-messages",
}


def test_every_promised_vendor_has_its_preset_and_api() -> None:
    assert {row.name: row.api for row in ROWS} == PROMISED


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_preset_is_named_by_an_id_and_filed_under_it(row: Preset) -> None:
    assert is_id(row.name)
    assert PRESETS[row.name] is row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_base_url_is_whole_or_left_to_the_user_with_its_form_shown(row: Preset) -> None:
    assert bool(row.base_url) != bool(row.place)
    parts = urlsplit(row.base_url or row.place or "")
    assert parts.scheme in {"https", "http"}
    assert parts.hostname
    assert "?" not in row.base_url
    assert "@" not in row.base_url


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_plain_http_is_for_this_machine_only(row: Preset) -> None:
    local = urlsplit(row.base_url).hostname == "localhost"
    assert row.base_url.startswith("http://") == local
    assert row.keyless == local
    assert (row.auth == "none") == local


@pytest.mark.parametrize("row", [row for row in ROWS if row.api == "anthropic-messages"], ids=lambda row: row.name)
def test_the_messages_api_gets_its_base_url_without_v1(row: Preset) -> None:
    # the SDK appends /v1/messages itself
    assert "/v1" not in (row.base_url or row.place or "")


@pytest.mark.parametrize("row", [row for row in ROWS if row.base_url], ids=lambda row: row.name)
def test_only_the_anthropic_api_names_an_anthropic_version(row: Preset) -> None:
    other = row.api == "anthropic-messages" and row.name != "anthropic"
    assert row.anthropic_version == ("2023-06-01" if other else None)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_vendor_that_wants_a_key_names_its_usual_variable(row: Preset) -> None:
    assert bool(row.key_variable) != row.keyless
    assert row.key_variable is None or (row.key_variable.isupper() and row.key_variable.endswith("_API_KEY"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_auth_is_a_form_the_config_allows(row: Preset) -> None:
    assert row.auth in {"bearer", "x-api-key", "none"} or row.auth.startswith("header:")


def test_every_quirk_named_is_documented_and_every_documented_one_is_named() -> None:
    named = {quirk for row in ROWS for quirk in row.quirks}
    assert named == set(QUIRKS)
    assert list(QUIRKS) == sorted(QUIRKS)


@pytest.mark.parametrize("name", sorted(QUIRKS))
def test_a_quirk_is_one_sentence(name: str) -> None:
    assert is_id(name)
    assert 20 < len(QUIRKS[name]) < 120
    assert not QUIRKS[name].endswith(".")


def test_only_api_openai_com_is_spoken_to_with_responses() -> None:
    assert [row.name for row in ROWS if row.api == "openai-responses"] == ["openai"]


def test_each_real_api_has_a_default_that_speaks_at_its_first_vendor() -> None:
    assert set(API_DEFAULTS) == set(get_args(Api)) - {"scripted"}
    assert all(PRESETS[name].base_url for name in API_DEFAULTS.values())
