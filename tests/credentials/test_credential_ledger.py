"""What is kept on disk about keys: who can read it, what it holds, and that writers do not lose each other's lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from routekit.credentials import (
    KeyPlace,
    KeyRecord,
    Secret,
    host_allowed,
    host_of,
    parse_ref,
    read_ledger,
    remove,
    store,
    stored_hosts,
)
from routekit.errors import CredentialError, StateError, UsageError

CANARY = "sk-canary-0123456789abcdefghijklmnop"


@pytest.fixture
def place(tmp_path: Path) -> KeyPlace:
    return KeyPlace(files=tmp_path / "deep" / "own" / "keys", ledger=tmp_path / "deep" / "own" / "keys.json")


def keep(place: KeyPlace, name: str = "openai", *, hosts: tuple[str, ...] = (), now: float = 1.0) -> None:
    store(name, Secret(CANARY), place=place, now=now, where="file", hosts=hosts)


def test_folders_and_files_are_the_owners_alone_whatever_the_umask(place: KeyPlace) -> None:
    before = os.umask(0)
    try:
        keep(place)
    finally:
        os.umask(before)
    folders = [place.files, place.files.parent, place.files.parent.parent]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700] * 3
    files = [path for path in place.files.parent.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert place.ledger in files


def test_the_ledger_remembers_hosts_characters_and_time_and_no_key(place: KeyPlace) -> None:
    keep(place, hosts=("b.example", "a.example"), now=7.0)
    expected = KeyRecord(where="file", last4="mnop", hosts=("a.example", "b.example"), when=7.0)
    assert read_ledger(place.ledger) == {"openai": expected}
    assert CANARY[:-4] not in place.ledger.read_text()


def test_storing_again_replaces_the_hosts(place: KeyPlace) -> None:
    keep(place, hosts=("a.example",))
    keep(place, hosts=("b.example",))
    assert stored_hosts(parse_ref("keyring", entry="openai"), place) == ("b.example",)


def test_nothing_is_remembered_of_keys_that_are_not_ours(place: KeyPlace) -> None:
    keep(place, hosts=("a.example",))
    assert stored_hosts(parse_ref("env:openai", entry="openai"), place) is None
    assert stored_hosts(parse_ref("keyring:other", entry="openai"), place) is None


def test_a_plaintext_key_is_removed_with_its_record(place: KeyPlace) -> None:
    keep(place)
    assert str(place.files / "openai") in remove("openai", place=place)
    assert not (place.files / "openai").exists()
    assert read_ledger(place.ledger) == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"openai": {"where": "moon"}}', b"\xff"])
def test_a_damaged_ledger_reads_as_empty_and_is_replaced(place: KeyPlace, content: bytes) -> None:
    place.ledger.parent.mkdir(parents=True)
    place.ledger.write_bytes(content)
    assert read_ledger(place.ledger) == {}
    keep(place)
    assert list(read_ledger(place.ledger)) == ["openai"]


@pytest.mark.parametrize("name", ["../escape", "a/b", "", ".hidden", "a b", CANARY])
def test_a_name_that_is_no_name_is_refused_before_anything_is_written(place: KeyPlace, name: str) -> None:
    for attempt in (lambda: keep(place, name), lambda: remove(name, place=place)):
        with pytest.raises(UsageError) as caught:
            attempt()
        assert "canary" not in str(caught.value)
    assert not place.files.parent.parent.exists()


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = KeyPlace(files=tmp_path / "file" / "keys", ledger=tmp_path / "keys.json")
    with pytest.raises(StateError) as caught:
        keep(place)
    assert str(place.files) in caught.value.message


def test_a_ledger_that_cannot_be_written_is_a_note_since_the_key_is_stored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = KeyPlace(files=tmp_path / "keys", ledger=tmp_path / "file" / "keys.json")
    stored = store("openai", Secret(CANARY), place=place, now=1.0, where="file")
    assert str(place.ledger) in stored.note
    assert (place.files / "openai").read_text() == CANARY + "\n"


def test_a_linked_ledger_stays_a_link(place: KeyPlace, tmp_path: Path) -> None:
    place.ledger.parent.mkdir(parents=True)
    place.ledger.symlink_to(tmp_path / "real.json")
    keep(place)
    assert place.ledger.is_symlink()
    assert list(read_ledger(tmp_path / "real.json")) == ["openai"]


def test_writers_at_the_same_time_lose_no_line(place: KeyPlace) -> None:
    code = (
        "import sys; from pathlib import Path; from routekit.credentials import *\n"
        "place = KeyPlace(files=Path(sys.argv[1]), ledger=Path(sys.argv[2]))\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "for n in range(10): store(f'k{sys.argv[3]}-{n}', Secret('abcdefghijkl'), place=place, now=1.0, where='file')"
    )
    argv = [sys.executable, "-c", code, str(place.files), str(place.ledger)]
    writers = [subprocess.Popen([*argv, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for n in range(4)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    for writer in writers:
        writer.wait(20)
    assert [writer.returncode for writer in writers] == [0] * 4
    assert len(read_ledger(place.ledger)) == 40
    names = {f"k{writer}-{n}" for writer in range(4) for n in range(10)}
    assert {path.name for path in place.files.iterdir()} == {*names, *(f".{name}.hosts" for name in names)}


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://API.Example.com/v1", "api.example.com"),
        ("https://api.example.com:443/v1", "api.example.com"),
        ("https://api.example.com./v1", "api.example.com"),
        ("https://api.example.com:8443", "api.example.com:8443"),
        ("http://api.example.com/v1", "api.example.com:80"),
        ("http://127.0.0.1:8000/v1", "127.0.0.1:8000"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
        ("https://user@api.example.com/", "api.example.com"),
    ],
)
def test_a_host_has_one_spelling(url: str, host: str) -> None:
    assert host_of(url) == host


def test_a_key_goes_only_to_hosts_it_was_stored_for() -> None:
    stored = ("api.example.com",)
    assert host_allowed(stored, host_of("https://API.example.com/other/path"))
    assert not host_allowed(stored, host_of("http://api.example.com/v1"))
    assert not host_allowed(stored, host_of("https://api.example.com.evil.test/v1"))
    assert not host_allowed(stored, host_of("https://sub.api.example.com/v1"))


def test_where_nothing_is_remembered_nothing_is_refused() -> None:
    assert host_allowed(None, "anywhere")
    assert host_allowed((), "anywhere")


def test_removing_a_key_nobody_stored_writes_nothing(place: KeyPlace) -> None:
    with pytest.raises(CredentialError):
        remove("openai", place=place)
    assert not place.ledger.exists()
