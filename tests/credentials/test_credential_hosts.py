"""A stored key goes to the hosts it was stored for and to no other, whichever way a config leads to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from routekit.config.paths import find_paths
from routekit.credentials import KeyPlace, Secret, remove, store
from routekit.errors import CredentialError
from routekit.loop import run
from routekit.router import Router
from tests.commands.conftest import unlocked_keyring
from tests.conftest import Cli
from tests.keyring.rig import Session
from tests.keyring.test_secret_service import use

__all__ = ["unlocked_keyring"]

CANARY = "sk-canary-0123456789abcdefghijklmnop"

#: every way to write one stored key: what stands before its folder is filled in
WAYS = (
    "keyring:v",
    "auto:v",
    "file:{keys}/v",
    "file:{keys}/../keys/./v",
    "file:{link}/v",
    "file:{soft}",
    "file:{hard}",
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeyPlace:
    monkeypatch.setenv("ROUTEKIT_HOME", str(tmp_path / "rk"))
    paths = find_paths(os.environ)
    place = KeyPlace(files=Path(paths.state_dir) / "keys", ledger=Path(paths.keys))
    store("v", Secret(CANARY), place=place, now=1.0, where="file", hosts=["good.example"])
    (tmp_path / "link").symlink_to(place.files)
    (tmp_path / "soft").symlink_to(place.files / "v")
    (tmp_path / "hard").hardlink_to(place.files / "v")
    return place


def reference(way: str, place: KeyPlace, folder: Path) -> str:
    return way.format(keys=place.files, link=folder / "link", soft=folder / "soft", hard=folder / "hard")


def opened(*, host: str, key: str = "none", header: str = "") -> Router:
    more = f'headers = {{ X-K = "{header}" }}' if header else ""
    text = f'[providers.p]\napi = "openai-chat"\nbase_url = "https://{host}/v1"\nkey = "{key}"\n{more}'
    return Router(config=Router.from_toml(f"version = 1\n{text}").config)


def sent(*, host: str, ref: str, header: bool) -> str | CredentialError:
    """The key as it would be sent to a host, as a header or as the provider's own; or the refusal."""
    router = opened(host=host, header=ref) if header else opened(host=host, key=ref)
    provider = router.config.providers["p"]
    try:
        if header:
            return dict(run(router.headers(provider)))["X-K"]
        secret = run(router.secret(provider))
    except CredentialError as error:
        return error
    finally:
        router.close()
    return secret.reveal() if secret else ""


def is_refusal(found: str | CredentialError, host: str) -> bool:
    return (
        isinstance(found, CredentialError)
        and found.state == "elsewhere"
        and CANARY not in repr(found)
        and f"p would send it to {host}" in found.message
        and found.hints == ("routekit keys set v --store file",)
    )


@pytest.mark.parametrize("header", [False, True], ids=["key", "header"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ledger", ["whole", "missing", "damaged", "empty"])
def test_a_stored_key_goes_to_its_own_hosts_alone(
    place: KeyPlace, tmp_path: Path, way: str, header: bool, ledger: str
) -> None:
    spoil(place.ledger, ledger)
    ref = reference(way, place, tmp_path)
    assert is_refusal(sent(host="foreign.example", ref=ref, header=header), "foreign.example")
    assert sent(host="good.example", ref=ref, header=header) == CANARY


def spoil(ledger: Path, how: str) -> None:
    if how == "missing":
        ledger.unlink()
    elif how != "whole":
        ledger.write_text({"damaged": "{", "empty": "{}"}[how])


def test_a_key_file_of_which_no_record_is_left_is_sent_nowhere(place: KeyPlace) -> None:
    place.ledger.unlink()
    (place.files / ".v.hosts").unlink()
    assert is_refusal(sent(host="good.example", ref="keyring:v", header=False), "good.example")
    assert is_refusal(sent(host="good.example", ref=f"file:{place.files}/v", header=True), "good.example")


def test_a_key_file_of_the_users_own_goes_where_the_config_says(place: KeyPlace, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.touch(mode=0o600)
    own.write_text(CANARY)
    assert sent(host="any.example", ref=f"file:{own}", header=True) == CANARY
    assert sent(host="any.example", ref=f"file:{own}", header=False) == CANARY


def test_nothing_of_a_removed_key_stays_beside_it(place: KeyPlace) -> None:
    remove("v", place=place)
    assert list(place.files.iterdir()) == []


def test_config_check_warns_of_a_header_that_would_carry_a_key_to_a_foreign_host(place: KeyPlace, cli: Cli) -> None:
    text = 'api = "openai-chat"\nbase_url = "https://foreign.example/v1"\nkey = "none"\nheaders = { X-K = "keyring:v" }'
    file = Path(find_paths(os.environ).config_file)
    file.touch(mode=0o600)
    file.write_text(f"version = 1\n[providers.p]\n{text}\n")
    env = {"ROUTEKIT_HOME": os.environ["ROUTEKIT_HOME"]}
    done = cli("config", "check", env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the key v was stored for good.example, so it is not sent to foreign.example" in done.stdout
    checked = cli("keys", "check", env=env)
    assert "stored for another host" in checked.stdout + checked.stderr


def test_the_keyring_knows_the_hosts_of_a_key_when_the_ledger_is_lost(unlocked_keyring: Session) -> None:
    use(unlocked_keyring, "set", "bound", key=CANARY)
    (unlocked_keyring.home / "keys.json").unlink()
    program = """
import json, sys
from routekit.errors import CredentialError
from routekit.loop import run
from routekit.router import Router
entry = 'api = "openai-chat"\\nbase_url = "https://%s/v1"\\nkey = "keyring:bound"\\nheaders = { X-K = "keyring:bound" }'
found = []
for host in ("api.example.com", "foreign.example"):
    router = Router(config=Router.from_toml("version = 1\\n[providers.p]\\n" + entry % host).config)
    provider = router.config.providers["p"]
    for ask in (router.secret, router.headers, router.secret):
        try:
            run(ask(provider))
            found.append("sent")
        except CredentialError as error:
            found.append(error.message)
print(json.dumps(found))
"""
    refused = "the key bound was stored for api.example.com; p would send it to foreign.example"
    assert unlocked_keyring.run(program).value == [*["sent"] * 3, *[refused] * 3]


def test_nothing_of_a_key_removed_from_the_keyring_stays_beside_it(unlocked_keyring: Session) -> None:
    use(unlocked_keyring, "set", "gone", key=CANARY)
    look = ["secret-tool", "lookup", "service", "routekit", "username", "gone (hosts)"]
    assert unlocked_keyring.command(look).stdout.strip() == "api.example.com"
    use(unlocked_keyring, "rm", "gone")
    assert unlocked_keyring.command(look).stdout.strip() == ""
