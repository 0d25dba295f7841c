"""Secrets are taken out of text in every form in which a library may write them, and ordinary text is left alone."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.credentials import Redactor, Secret

CANARY = "canary+/=&%Zk3vQ9xLm2Rt8Yw1"
KEYS = st.text(alphabet=string.ascii_letters + string.digits + "+/=_-.&%:\"'\\", min_size=8, max_size=60)
TEXTS = st.text(alphabet=string.printable, max_size=40)


@given(key=KEYS, before=TEXTS, after=TEXTS)
def test_no_known_secret_survives_in_any_text(key: str, before: str, after: str) -> None:
    assert key not in Redactor([Secret(key)]).clean(before + key + after).replace("•••", "\0")


@pytest.mark.parametrize(
    "form",
    [
        lambda key: key,
        lambda key: quote(key, safe=""),
        lambda key: quote(key, safe="").replace("%2B", "%2b").replace("%2F", "%2f").replace("%3D", "%3d"),
        quote_plus,
        json.dumps,
        repr,
        lambda key: key.encode().hex(),
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
        lambda key: base64.b64encode(f"u:{key}".encode()).decode(),
        lambda key: base64.b64encode(f"me:{key}@x".encode()).decode(),
        lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
    ],
)
@pytest.mark.parametrize("key", [CANARY, 'quo"te\\slash-0123456789'])
def test_a_secret_is_found_in_the_forms_libraries_write(form: Callable[[str], str], key: str) -> None:
    text = form(key)
    cleaned = Redactor([Secret(key)]).clean(f"<{text}>")
    assert "•••" in cleaned
    # at most what its neighbours have a part in is left of base64: two characters and the padding at each end
    assert len(cleaned.replace("•••", "")) <= 14
    assert text[6:-8] not in cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Incorrect API key provided: sk-proj-abcdefgh0123", "Incorrect API key provided: •••"),
        ("Incorrect API key: sk-ab***************wxyz. See", "Incorrect API key: •••. See"),
        ("Authorization: Bearer abcd1234efgh", "Authorization: Bearer •••"),
        ("{'authorization': 'Bearer abcdefgh'}", "{'authorization': 'Bearer •••'}"),
        ('"x-api-key": "abcd"', '"x-api-key": "•••"'),
        ("GET /v1?api_key=abcdef&x=1", "GET /v1?api_key=•••&x=1"),
        ("https://me:pass@host/v1", "https://•••@host/v1"),
        ("token gsk_0123456789abcdef!", "token •••!"),
    ],
)
def test_what_is_shaped_like_a_key_is_masked_though_nobody_told(text: str, cleaned: str) -> None:
    assert Redactor().clean(text) == cleaned


@pytest.mark.parametrize(
    "text",
    [
        "openai/gpt-6.1-terra answered 503 after 1.2s (sleep 30s)",
        "Bearer authentication is required",
        "scikit-learn, sk-learn and task-1 are no keys",
        "no key for openai: the keyring is locked",
        "https://api.example.com/v1/chat/completions",
        "the api key is missing",
        "ollama/llama3",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Redactor([Secret("ollama"), Secret("none")]).clean(text) == text


def test_cleaning_twice_changes_nothing_more() -> None:
    redactor = Redactor([Secret(CANARY)])
    once = redactor.clean(f"Authorization: Bearer {CANARY} api_key={CANARY}")
    assert redactor.clean(once) == once


def test_a_secret_that_holds_another_leaves_none_of_itself() -> None:
    redactor = Redactor([Secret("abcdefgh"), Secret("abcdefgh-longer-tail")])
    assert redactor.clean("x abcdefgh-longer-tail y") == "x ••• y"


def test_redactors_know_only_what_their_owner_told_them() -> None:
    Redactor([Secret(CANARY)])
    assert CANARY in Redactor().clean(f"text {CANARY}")


def test_a_redactor_shows_no_secret() -> None:
    assert "canary" not in repr(Redactor([Secret(CANARY)]))
