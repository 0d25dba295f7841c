"""What a key may look like, and that its text shows nowhere but where it is asked for."""

from __future__ import annotations

import copy
import pickle
import traceback
from pathlib import Path

import pytest

from routekit.credentials import KeyPlace, Secret, clean_key, key_tag, parse_ref, resolve, store
from routekit.errors import CredentialError

CANARY = "sk-canary-0123456789abcdefghijklmnop"


def whole_traceback(error: BaseException) -> str:
    """Everything a verbose handler could print: each frame with its locals, and every cause."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


@pytest.mark.parametrize("text", [CANARY, f"{CANARY}\n", f"  {CANARY}\r\n", f"\ufeff{CANARY}", f"\u00a0{CANARY}\u200b"])
def test_white_space_around_a_key_is_removed(text: str) -> None:
    assert clean_key(text) == CANARY


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        (" \n", "empty"),
        (f"{CANARY}\n{CANARY}", "more than one line"),
        (f"{CANARY}\rX", "more than one line"),
        (f"{CANARY}\x1b[0m", "control character"),
        (f"{CANARY}\x00", "control character"),
        (f"{CANARY}é", "ASCII"),
        (f"Bearer {CANARY}", "space"),
        (f'"{CANARY}"', "quotation marks"),
        (CANARY * 1000, "longer"),
    ],
)
def test_a_key_no_header_can_carry_is_refused_and_never_repeated(text: str, words: str) -> None:
    with pytest.raises(CredentialError) as caught:
        clean_key(text)
    assert caught.value.state == "invalid"
    assert words in caught.value.message
    assert "canary" not in "\n".join(caught.value.lines())


def test_a_secret_shows_only_where_it_is_revealed() -> None:
    secret = Secret(CANARY, "env X")
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>60}", repr({"key": [secret]})]
    assert not any("canary" in text for text in shown)
    assert secret.reveal() == CANARY


def test_a_secret_is_neither_pickled_nor_copied() -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            attempt(Secret(CANARY))


def test_the_last_characters_of_a_short_secret_are_not_shown() -> None:
    assert Secret(CANARY).last4 == "mnop"
    assert Secret("hunter2pass").last4 == ""


@pytest.mark.parametrize("text", ["env:BAD", 'cmd:printf \'%s\\n%s\' "$BAD" "$BAD"', 'cmd:printf %s "$BAD"; exit 3'])
def test_a_traceback_with_all_locals_and_causes_holds_no_key(text: str) -> None:
    def attempt() -> None:
        # the environment is full of keys; this frame must not be the one that shows them
        resolve(parse_ref(text, entry="x"), variable=None, environ={"BAD": f"{CANARY}\nX", "PATH": "/usr/bin:/bin"})

    with pytest.raises(CredentialError) as caught:
        attempt()
    shown = whole_traceback(caught.value)
    assert "asked = <" in shown
    assert CANARY not in shown
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_refused_key_is_not_in_the_traceback_of_storing_it(tmp_path: Path) -> None:
    place = KeyPlace(files=tmp_path / "keys", ledger=tmp_path / "keys.json")
    secret = Secret(f"{CANARY}\nX", "what was typed")
    with pytest.raises(CredentialError) as caught:
        store("openai", secret, place=place, now=0.0, where="file")
    shown = whole_traceback(caught.value)
    assert "Secret(•••, source='what was typed')" in shown
    assert CANARY not in shown
    assert not place.files.exists()


def test_the_mark_of_a_key_changes_with_key_and_salt_and_does_not_show_it() -> None:
    mark = key_tag(Secret(CANARY), b"salt")
    assert mark == key_tag(Secret(CANARY, "elsewhere"), b"salt")
    assert mark != key_tag(Secret(CANARY + "q"), b"salt")
    assert mark != key_tag(Secret(CANARY), b"tlas")
    assert len(mark) == 16
    assert CANARY.encode().hex()[:8] not in mark
