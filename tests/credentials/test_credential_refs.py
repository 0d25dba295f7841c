"""Credential references: the forms, their canonical text, and what is refused without being repeated."""

from __future__ import annotations

import pytest

from routekit.credentials import CredentialRef, is_ref, looks_like_key, parse_ref
from routekit.errors import CredentialError

KEYS = [
    "sk-proj-abcdefgh0123456789",
    "sk-ant-api03-Zk3vQ9xLm2Rt8Yw1Pb6N",
    "gsk_0123456789abcdef",
    "AIzaSyA0123456789abcdefghijkl",
    "3f9a1c7be0d24856af91c3d5",
    "Zk3vQ9xLm2Rt8Yw1Pb6N7cV5",
    "0a1b2c3d-0000-4111-8222-333344445555",
]
NAMES = ["openai.alternate", "OPENAI_API_KEY_ACCOUNT_2", "verylongaccountname20240101", "claude-opus-5", "sk-learn"]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("keyring", "keyring:openai"),
        ("keyring:work", "keyring:work"),
        (" keyring:work ", "keyring:work"),
        ("env:OPENAI_API_KEY", "env:OPENAI_API_KEY"),
        ("cmd:pass show openai | head -n 1", "cmd:pass show openai | head -n 1"),
        ("cmd: op read 'op://a/b:c'", "cmd:op read 'op://a/b:c'"),
        ("file:~/.secrets/openai", "file:~/.secrets/openai"),
        ("file:/run/secrets/a b", "file:/run/secrets/a b"),
        ("auto", "auto:openai"),
        ("auto:other", "auto:other"),
        ("none", "none"),
    ],
)
def test_a_reference_has_one_canonical_text_which_reads_back(text: str, canonical: str) -> None:
    ref = parse_ref(text, entry="openai")
    assert str(ref) == canonical
    assert parse_ref(canonical, entry="another") == ref


@pytest.mark.parametrize(
    "text",
    ["", "keyring:", "keyring:../x", "keyring:a b", "env:", "env:1X", "env:A-B", "cmd:", "cmd:  ", "file:", "file:x/y",
     "none:x", "auto:", "vault:x", "openai", "KEYRING", "Keyring:x"],
)  # fmt: skip
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(CredentialError) as caught:
        parse_ref(text, entry="openai")
    assert caught.value.state == "invalid"
    assert "openai" in caught.value.message
    assert caught.value.hints


@pytest.mark.parametrize("form", ["{}", "keyring:{}", "auto:{}", "env:{}", "{}\n"])
@pytest.mark.parametrize("key", KEYS)
def test_a_written_out_key_is_refused_with_the_command_that_stores_it_and_not_repeated(key: str, form: str) -> None:
    with pytest.raises(CredentialError) as caught:
        parse_ref(form.format(key), entry="openai")
    assert caught.value.hints == ("routekit keys set openai",)
    assert key not in "\n".join(caught.value.lines())


@pytest.mark.parametrize("form", ["cmd:echo {}", "file:/tmp/{}"])
def test_a_key_inside_a_command_or_path_is_refused(form: str) -> None:
    with pytest.raises(CredentialError) as caught:
        parse_ref(form.format(KEYS[0]), entry="openai")
    assert caught.value.hints == ("routekit keys set openai",)
    assert KEYS[0] not in str(caught.value)


def test_a_text_that_is_no_reference_is_not_repeated_either() -> None:
    with pytest.raises(CredentialError) as caught:
        parse_ref("hunter2hunter", entry="openai")
    assert "hunter2" not in "\n".join(caught.value.lines())


@pytest.mark.parametrize("key", KEYS)
def test_keys_look_like_keys(key: str) -> None:
    assert looks_like_key(key)


@pytest.mark.parametrize("name", NAMES)
def test_names_do_not_look_like_keys(name: str) -> None:
    assert not looks_like_key(name)


def test_a_plain_header_value_is_no_reference() -> None:
    assert is_ref("env:GATE")
    assert is_ref("none")
    assert not is_ref("lab")
    assert not is_ref("env")
    assert not is_ref("https://example.com")


def test_a_reference_names_its_source_in_words() -> None:
    assert CredentialRef(kind="env", name="X").source == "env X"
    assert CredentialRef(kind="auto", name="openai").source == "keyring entry openai"
