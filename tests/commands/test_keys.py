"""``routekit keys`` as it is typed: in every state of a keyring, with a config, without one, and with a broken one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from routekit.commands import keys
from routekit.commands.report import Context
from routekit.core.health import Standing, Window
from routekit.credentials import KeyRecord
from routekit.credentials.ledger import change_ledger
from routekit.errors import CredentialError, UsageError
from routekit.keychain import Seen
from routekit.loop import run
from routekit.router import Router
from tests.conftest import Cli
from tests.keyring.rig import Ran, Session
from tests.loopback import Loopback

CANARY = "sk-canary-0123456789abcdefghijklmnop"
OTHER = "sk-canary-zyxwvutsrqponmlkjihg98765"
Write = Callable[[str], Path]
Contexts = Callable[..., Context]


def routekit(session: Session, *words: str, stdin: str = "") -> Ran:
    return session.command([sys.executable, "-m", "routekit", *words], stdin=stdin)


def in_time(session: Session, *words: str, stdin: str = "") -> Ran:
    """The fastest of up to three runs: another test may hold the processor, but not always."""
    for _ in range(3):
        ran = routekit(session, *words, stdin=stdin)
        if ran.seconds < 3.0:
            break
    return ran


# --- listing


def test_the_list_touches_no_keyring_and_runs_no_command(cli: Cli, config: Write, place: Path) -> None:
    marker = place / "ran"
    config(
        f"""
        [providers.openai]
        api = "openai-responses"
        [providers.other]
        api = "openai-responses"
        key = "cmd:touch {marker}; echo {CANARY[3:]}"
        """
    )
    ran = cli("keys", "list", python=("-X", "importtime"))
    assert ran.returncode == 0
    assert not marker.exists()
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "routekit.router" in loaded
    assert not loaded & {"keyring", "asyncio", "openai", "anthropic", "secretstorage"}
    assert "try: routekit keys set openai" in ran.stdout


def test_the_list_says_where_each_key_is_and_its_last_four_characters_only(cli: Cli, config: Write) -> None:
    config(
        """
        [providers.one]
        api = "openai-responses"
        key = "env:KEY_ONE"
        [providers.two]
        api = "openai-responses"
        key = "env:KEY_TWO"
        headers = { X-Gate = "env:GATE" }
        [providers.local]
        preset = "ollama"
        """
    )
    ran = cli("keys", "list", env={"KEY_ONE": CANARY, "GATE": OTHER})
    rows = {line.split("  ")[0]: line for line in ran.stdout.splitlines()}
    assert rows["one"].split() == ["one", "env", "KEY_ONE", "…mnop"]
    assert "missing" in rows["two"]
    assert "try: export KEY_TWO=…" in rows["two"]
    assert "env GATE" in rows["two X-Gate"]
    assert "…8765" in rows["two X-Gate"]
    assert "no key needed" in rows["local"]
    assert CANARY[:-4] not in ran.stdout + ran.stderr


def test_a_set_variable_that_does_not_count_is_named(cli: Cli, config: Write) -> None:
    config('[providers.openai]\napi = "openai-responses"\n')
    ran = cli("keys", "list", env={"OPENAI_API_KEY": CANARY})
    assert "OPENAI_API_KEY is set, and counts only with" in ran.stdout


def test_on_an_empty_machine_the_list_is_empty_and_says_what_to_type(cli: Cli, place: Path) -> None:
    ran = cli("keys", "list")
    assert (ran.returncode, ran.stdout.startswith("No keys")) == (0, True)
    assert "try: routekit init" in ran.stderr


def test_what_a_look_found_is_in_the_list_afterwards(cli: Cli, config: Write) -> None:
    config('[providers.openai]\napi = "openai-responses"\nkey = "cmd:exit 3"\n')
    assert cli("keys", "check").returncode == 77
    row = json.loads(cli("keys", "list", "--json").stdout)[0]
    assert row["state"] == "absent"
    assert row["seen"] is not None


def test_a_key_its_vendor_refused_is_marked_until_another_is_stored(cli: Cli, place: Path, vendor: Loopback) -> None:
    vendor.script("*", {"status": 401})
    env = {"OPENAI_BASE_URL": vendor.url()}
    cli("keys", "set", "openai", "--store", "file", stdin=CANARY, env=env)
    assert cli("ask", "-m", "openai/m", "hi", env=env).returncode == 77
    listed = cli("keys", "list", env=env).stdout
    assert "…mnop, refused by its vendor" in listed
    assert "try: routekit keys set openai" in listed
    vendor.script("*", {})
    cli("keys", "set", "openai", "--store", "file", stdin=OTHER, env=env)
    assert "refused by" not in cli("keys", "list", env=env).stdout
    assert cli("ask", "-m", "openai/m", "hi", env=env).returncode == 0
    assert vendor.requests[-1].header("authorization") == [f"Bearer {OTHER}"]


# --- storing


def test_a_key_can_be_stored_before_there_is_a_config_and_counts_then(cli: Cli, place: Path) -> None:
    ran = cli("keys", "set", "openai", "--store", "file", stdin=f"  {CANARY}\n")
    assert ran.returncode == 0, ran.stderr
    assert "…mnop" in ran.stdout
    assert "api.openai.com only" in ran.stdout
    assert "file" in cli("keys", "list").stdout
    assert cli("keys", "check").returncode == 0
    assert CANARY not in ran.stdout + ran.stderr
    assert (place / "keys" / "openai").stat().st_mode & 0o777 == 0o600


def test_an_unknown_name_is_a_usage_error_with_the_nearest(cli: Cli, place: Path) -> None:
    for verb in ("set", "rm"):
        ran = cli("keys", verb, "opnai", stdin=CANARY)
        assert ran.returncode == 2
        assert "did you mean 'openai'?" in ran.stderr
    assert not (place / "keys.json").exists()


def test_a_key_is_never_taken_from_the_command_line(cli: Cli, place: Path) -> None:
    for words in (("set", CANARY), ("set", "openai", CANARY), ("rm", CANARY)):
        ran = cli("keys", *words)
        assert ran.returncode == 2
        if words[1] == CANARY:
            assert CANARY not in ran.stdout + ran.stderr
    assert not (place / "keys").exists()


def test_a_key_named_by_its_entry_goes_to_the_hosts_of_all_who_share_it(cli: Cli, config: Write, place: Path) -> None:
    config(
        """
        [providers.a]
        api = "openai-chat"
        base_url = "https://a.example/v1"
        key = "keyring:work"
        [providers.b]
        api = "openai-chat"
        base_url = "https://b.example:8443/v1"
        key = "keyring:work"
        [providers.c]
        api = "openai-chat"
        base_url = "https://c.example/v1"
        """
    )
    for name in ("work", "a"):
        assert cli("keys", "set", name, "--store", "file", stdin=CANARY).returncode == 0
        ledger = json.loads((place / "keys.json").read_text())
        assert list(ledger) == ["work"]
        assert ledger["work"]["hosts"] == ["a.example", "b.example:8443"]


def test_a_stored_key_that_would_never_be_read_is_refused(cli: Cli, config: Write, place: Path) -> None:
    config('[providers.openai]\napi = "openai-responses"\nkey = "env:MINE"\n')
    ran = cli("keys", "set", "openai", stdin=CANARY)
    assert ran.returncode == 2
    assert "env MINE" in ran.stderr
    assert not (place / "keys.json").exists()


@pytest.mark.parametrize(
    ("text", "name", "host"),
    [
        (f'[providers.mine]\npreset = "deepseek"\nkey = "{CANARY}"\n', "mine", "api.deepseek.com"),
        ('[providers.mine]\napi = "openai-chat"\nbase_url = "https://x.example"\nno = 1\n', "mine", "x.example"),
        (
            (
                '[providers.r]\napi = "openai-chat"\nbase_url = "https://x.example"\n'
                f'headers = {{ X-Gate = "{CANARY}" }}\n'
            ),
            "r-x-gate",
            "x.example",
        ),
        ("[providers.openai\n", "openai", "api.openai.com"),
    ],
)
def test_a_broken_config_does_not_stop_the_key_that_may_mend_it(
    cli: Cli, config: Write, place: Path, text: str, name: str, host: str
) -> None:
    config(text)
    ran = cli("keys", "set", name, "--store", "file", stdin=OTHER)
    assert ran.returncode == 0, ran.stderr
    assert json.loads((place / "keys.json").read_text())[name]["hosts"] == [host]
    assert CANARY not in ran.stdout + ran.stderr


@pytest.mark.parametrize("text", ["", "  \n", "two\nlines", "a b", '"sk-quoted"', "käse-1234567890"])
def test_what_no_header_can_carry_is_refused_unrepeated(cli: Cli, place: Path, text: str) -> None:
    ran = cli("keys", "set", "openai", "--store", "file", stdin=text)
    assert ran.returncode == 77
    assert "try: routekit keys set openai" in ran.stderr
    assert not text.strip() or text not in ran.stderr
    assert not (place / "keys.json").exists()


def _standing(cause: str) -> bytes:
    window = Window(start=0.0, end=9e12, cause=cause)
    return msgspec.json.encode(Standing(window=window, key_tag="old", last_failure=1.0))


@pytest.mark.parametrize(("cause", "ended"), [("auth", True), ("quota", False)])
def test_a_new_key_ends_the_window_the_old_one_earned_by_being_refused(
    context: Contexts, cause: str, ended: bool
) -> None:
    here = context(CANARY, OPENAI_API_KEY="")
    router = here.router
    writes = {
        "seen:keyring:openai": msgspec.json.encode(Seen(state="locked", when=1.0)),
        "seen:auto:openai": msgspec.json.encode(Seen(state="absent", when=1.0)),
        "credential:auto:openai": _standing(cause),
        "credential:auto:other": _standing("auth"),
    }
    router.store.transact(list(writes), lambda _: (None, writes))
    keys.store(here, id="openai", store="file")
    seen = router.seen("auto:openai")
    assert seen is not None
    assert (seen.state, seen.last4) == ("present", "mnop")
    asleep = {row.key: row.state for row in router.health()}
    assert asleep["auto:openai"] == ("well" if ended else "asleep")
    assert asleep["auto:other"] == "asleep"


def test_a_removed_key_is_forgotten_everywhere(cli: Cli, place: Path) -> None:
    cli("keys", "set", "openai", "--store", "file", stdin=CANARY)
    ran = cli("keys", "rm", "openai")
    assert ran.returncode == 0
    assert "removed the key of openai" in ran.stdout
    assert not (place / "keys" / "openai").exists()
    assert cli("keys", "list").stdout.startswith("No keys")
    assert cli("keys", "rm", "openai").returncode == 77


# --- checking


def test_the_check_fails_when_one_needed_key_is_not_usable(cli: Cli, config: Write) -> None:
    config(
        """
        [providers.good]
        api = "openai-responses"
        key = "env:GOOD"
        [providers.bad]
        api = "openai-responses"
        key = "env:BAD"
        [providers.off]
        api = "openai-responses"
        key = "env:OFF"
        enabled = false
        [providers.local]
        preset = "ollama"
        """
    )
    env = {"GOOD": CANARY}
    ran = cli("keys", "check", env=env)
    assert ran.returncode == 77
    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["good", "bad", "try:", "local"]
    assert CANARY not in ran.stdout + ran.stderr
    assert cli("keys", "check", "good", env=env).returncode == 0
    assert cli("keys", "check", "off", env=env).returncode == 77
    assert cli("keys", "check", env={**env, "BAD": OTHER}).returncode == 0
    assert cli("keys", "check", "godo", env=env).returncode == 2


def test_a_shared_secret_goes_to_no_host_it_was_not_stored_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    router = Router.from_toml(
        """
        [providers.a]
        api = "openai-chat"
        base_url = "https://a.example/v1"
        key = "keyring:work"
        [providers.b]
        api = "openai-chat"
        base_url = "https://b.example/v1"
        key = "keyring:work"
        """
    )
    where = router.key_place
    where.files.mkdir()
    (where.files / "work").touch(mode=0o600)
    (where.files / "work").write_text(CANARY)
    change_ledger(where.ledger, "work", KeyRecord(where="file", hosts=("a.example",)))

    async def both() -> str:
        secret = await router.secret(router.config.providers["a"])
        assert secret is not None
        with pytest.raises(CredentialError) as caught:
            await router.secret(router.config.providers["b"])
        return caught.value.message

    assert "b would send it to b.example" in run(both())
    router.close()


# --- a real keyring, in all its states


def test_a_key_is_set_listed_checked_and_removed_in_a_real_keyring(unlocked_keyring: Session) -> None:
    ran = routekit(unlocked_keyring, "keys", "set", "openai", stdin=CANARY + "\n")
    assert (ran.code, ran.stderr) == (0, "")
    assert "keyring (Secret Service)" in ran.stdout
    listed = routekit(unlocked_keyring, "keys", "list").stdout
    assert listed.split() == ["openai", "keyring", "(Secret", "Service)", "…mnop"]
    ran = routekit(unlocked_keyring, "keys", "check")
    assert (ran.code, ran.stdout) == (0, "openai  ok: keyring (Secret Service) …mnop\n")
    assert routekit(unlocked_keyring, "keys", "rm", "openai").code == 0
    assert routekit(unlocked_keyring, "keys", "rm", "openai").code == 77


TWO = '[providers.a]\napi = "openai-responses"\n[providers.b]\napi = "openai-responses"\n'


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("locked", "the keyring is locked"),
        ("absent", "there is no keyring on this machine"),
        ("dead", "there is no keyring on this machine"),
        ("silent", "the keyring is not answering"),
        ("stopped", "the keyring is not answering"),
        ("fresh", "no default collection"),
    ],
)
def test_a_keyring_of_no_use_is_named_in_time_with_a_command_to_type(
    request: pytest.FixtureRequest, state: str, words: str
) -> None:
    session: Session = request.getfixturevalue(f"{state}_keyring")
    folder = session.home / ".config" / "routekit"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(TWO)
    stored = in_time(session, "keys", "set", "a", stdin=CANARY)
    looked = in_time(session, "keys", "check")
    for ran, text in ((stored, stored.stderr), (looked, looked.stdout)):
        assert (ran.code, ran.seconds < 3.0) == (77, True), ran
        assert words in text
        assert "  try: " in text
        assert CANARY not in ran.stdout + ran.stderr
    assert looked.stdout.count(words) == 2
    assert not session.prompted


def test_where_keys_are_kept_is_said_with_any_config(cli: Cli, config: Write, place: Path) -> None:
    config("broken = [")
    ran = cli("keys", "path")
    assert ran.returncode == 0
    assert str(place / "keys.json") in ran.stdout


def test_a_demo_provider_needs_no_key(context: Contexts) -> None:
    here = context(CANARY)
    here.profile = "demo"
    with pytest.raises(UsageError, match="needs no key"):
        keys.store(here, id="demo-primary", store="file")


def test_completion_offers_what_can_be_set(cli: Cli, config: Write, place: Path) -> None:
    env = {"_ROUTEKIT_COMPLETE": "bash_complete", "COMP_WORDS": "routekit keys set o", "COMP_CWORD": "3"}
    assert "plain,openai" in cli(env=env).stdout.split()
    config(
        '[providers.one]\napi = "openai-responses"\nkey = "keyring:other"\n'
        '[providers.out]\napi = "openai-responses"\nkey = "env:X"\n'
    )
    assert cli(env=env).stdout.split() == ["plain,one", "plain,other"]
