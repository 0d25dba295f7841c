"""Keys in a real Secret Service, in every state it can be in; each look-up is a process, timed to its end."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.keyring.rig import PASSWORD, ROOT, Ran, Session

CANARY = "sk-canary-0123456789abcdefghijklmnop"

#: one use of the module, its outcome as JSON: arguments are the verb, the entry, and the reference
PROGRAM = """
import json, os, sys
from pathlib import Path
from routekit import credentials as c
from routekit.errors import CredentialError
verb, entry, text = sys.argv[1:4]
home = Path(os.environ["HOME"])
place = c.KeyPlace(files=home / "keys", ledger=home / "keys.json")
try:
    if verb == "set":
        done = c.store(entry, c.Secret(sys.stdin.read()), place=place, now=1.0, hosts=["api.example.com"])
        out = {"source": done.source, "last4": done.last4, "note": done.note}
    elif verb == "file":
        done = c.store(entry, c.Secret(sys.stdin.read()), place=place, now=1.0, where="file")
        out = {"source": done.source}
    elif verb == "rm":
        out = {"removed": c.remove(entry, place=place)}
    elif verb == "status":
        ref = c.parse_ref(text, entry=entry)
        seen = c.status(ref, variable="VENDOR_KEY", environ=os.environ, place=place, look=True)
        out = {"state": seen.state, "source": seen.source, "last4": seen.last4, "hint": seen.hint}
    else:
        ref = c.parse_ref(text, entry=entry)
        secret = c.resolve(
            ref, variable="VENDOR_KEY", environ=os.environ, place=place, interactive=verb == "ask"
        )
        out = {"source": secret.source, "key": secret.reveal()}
except CredentialError as error:
    out = {"state": error.state, "message": error.message, "hints": error.hints}
print(json.dumps(out))
"""


def use(session: Session, verb: str, entry: str = "openai", ref: str = "keyring", *, key: str = "", **env: str) -> Ran:
    return session.run(PROGRAM, verb, entry, ref, stdin=key, env=env)


def assert_refused(ran: Ran, state: str, *words: str) -> None:
    """The contract of a keyring that is of no use: its state, in time, one command to type, nothing on the terminal."""
    assert ran.value.get("state") == state, ran
    assert ran.seconds < 3.0
    assert ran.value["hints"]
    assert all(word in ran.value["message"] for word in words), ran.value
    assert ran.stderr == ""


def test_a_key_set_in_the_keyring_is_found_again_and_removed(unlocked_keyring: Session) -> None:
    assert use(unlocked_keyring, "set", "openai", key=CANARY + "\n").value == {
        "source": "keyring (Secret Service)",
        "last4": "mnop",
        "note": "",
    }
    found = use(unlocked_keyring, "get", "openai").value
    assert found == {"source": "keyring (Secret Service)", "key": CANARY}
    assert use(unlocked_keyring, "rm", "openai").value == {"removed": "keyring (Secret Service)"}
    assert_refused(use(unlocked_keyring, "get", "openai"), "absent", "openai")


def test_another_program_finds_the_key_under_the_service_name(unlocked_keyring: Session) -> None:
    use(unlocked_keyring, "set", "seen", key=CANARY)
    found = unlocked_keyring.command(["secret-tool", "lookup", "service", "routekit", "username", "seen"])
    assert found.stdout.strip() == CANARY


def test_the_ledger_holds_the_hosts_and_never_the_key(unlocked_keyring: Session) -> None:
    use(unlocked_keyring, "set", "ledgered", key=CANARY)
    ledger = unlocked_keyring.home / "keys.json"
    assert "api.example.com" in ledger.read_text()
    assert CANARY[:-4] not in ledger.read_text()
    assert ledger.stat().st_mode & 0o777 == 0o600


def test_the_status_of_a_stored_key_shows_four_characters(unlocked_keyring: Session) -> None:
    use(unlocked_keyring, "set", "listed", key=CANARY)
    assert use(unlocked_keyring, "status", "listed").value == {
        "state": "present",
        "source": "keyring (Secret Service)",
        "last4": "mnop",
        "hint": "",
    }


def test_a_key_in_the_keyring_is_not_replaced_by_the_vendors_variable(unlocked_keyring: Session) -> None:
    use(unlocked_keyring, "set", "both", key=CANARY)
    for ref in ("keyring", "auto"):
        assert use(unlocked_keyring, "get", "both", ref, VENDOR_KEY="sk-wrong-0123456789").value["key"] == CANARY


def test_auto_falls_back_to_the_variable_when_the_keyring_has_no_entry(unlocked_keyring: Session) -> None:
    found = use(unlocked_keyring, "get", "nobody", "auto", VENDOR_KEY=CANARY).value
    assert found == {"source": "env VENDOR_KEY", "key": CANARY}


def test_a_key_moved_into_the_keyring_leaves_no_plaintext_behind(unlocked_keyring: Session) -> None:
    use(unlocked_keyring, "file", "moved", key="sk-old-0123456789")
    plain = unlocked_keyring.home / "keys" / "moved"
    assert plain.exists()
    stored = use(unlocked_keyring, "set", "moved", key=CANARY).value
    assert str(plain) in stored["note"]
    assert not plain.exists()
    assert use(unlocked_keyring, "get", "moved").value["key"] == CANARY


def test_removing_what_is_not_there_says_so(unlocked_keyring: Session) -> None:
    assert_refused(use(unlocked_keyring, "rm", "never-set"), "absent", "never-set")


def test_a_locked_keyring_is_told_apart(locked_keyring: Session) -> None:
    assert_refused(use(locked_keyring, "get"), "locked", "locked", "openai")


def test_a_key_is_not_stored_in_a_locked_keyring(locked_keyring: Session) -> None:
    ran = use(locked_keyring, "set", key=CANARY)
    assert_refused(ran, "locked", "locked")
    assert CANARY not in ran.stdout


@pytest.mark.parametrize("verb", ["get", "set", "rm", "status"])
@pytest.mark.parametrize("keyring", ["locked_keyring", "fresh_keyring"])
def test_no_window_is_opened_unless_asked_for(keyring: str, verb: str, request: pytest.FixtureRequest) -> None:
    session: Session = request.getfixturevalue(keyring)
    # Where there is no collection at all, there is nothing to remove either.
    states = {"locked", "none", "absent"} if (keyring, verb) == ("fresh_keyring", "rm") else {"locked", "none"}
    assert use(session, verb, key=CANARY if verb == "set" else "").value["state"] in states
    assert not session.prompted


def test_a_window_nobody_answers_ends_with_the_deadline(locked_keyring: Session) -> None:
    assert_refused(use(locked_keyring, "ask"), "silent", "not answering")
    assert locked_keyring.prompted


def test_the_command_named_for_a_locked_keyring_unlocks_it(locked_keyring: Session) -> None:
    command = use(locked_keyring, "get").value["hints"][0]
    unlocked = locked_keyring.command(["sh", "-c", command], stdin=PASSWORD + "\n")
    assert unlocked.code == 0
    assert use(locked_keyring, "set", key=CANARY).value["source"] == "keyring (Secret Service)"
    assert use(locked_keyring, "get").value["key"] == CANARY


def test_a_key_known_to_be_in_a_locked_keyring_is_not_replaced_by_the_variable(locked_keyring: Session) -> None:
    (locked_keyring.home / "keys.json").write_text('{"openai": {"where": "keyring"}}')
    assert_refused(use(locked_keyring, "get", "openai", "auto", VENDOR_KEY="sk-wrong-0123456789"), "locked")


def test_auto_uses_the_variable_when_nothing_is_known_of_a_locked_keyring(locked_keyring: Session) -> None:
    assert use(locked_keyring, "get", "openai", "auto", VENDOR_KEY=CANARY).value["source"] == "env VENDOR_KEY"


def test_a_keyring_without_a_default_collection_is_told_apart(fresh_keyring: Session) -> None:
    assert_refused(use(fresh_keyring, "get"), "none", "default collection")


def test_the_command_named_for_a_keyring_never_used_makes_it_usable(fresh_keyring: Session) -> None:
    command = use(fresh_keyring, "get").value["hints"][0]
    assert fresh_keyring.command(["sh", "-c", command], stdin="chosen now\n").code == 0
    assert use(fresh_keyring, "set", key=CANARY).value["source"] == "keyring (Secret Service)"


@pytest.mark.parametrize("machine", ["absent_keyring", "dead_keyring"])
def test_a_machine_without_a_keyring_is_told_apart(machine: str, request: pytest.FixtureRequest) -> None:
    assert_refused(use(request.getfixturevalue(machine), "get"), "none", "no keyring on this machine", "env:NAME")


def test_without_a_keyring_the_command_named_stores_a_file_that_is_then_read(absent_keyring: Session) -> None:
    refused = use(absent_keyring, "set", key=CANARY)
    assert_refused(refused, "none")
    assert refused.value["hints"][0] == "routekit keys set openai --store file"
    use(absent_keyring, "file", key=CANARY)
    assert use(absent_keyring, "get").value["key"] == CANARY


def test_without_a_keyring_auto_names_both_places(absent_keyring: Session) -> None:
    ran = use(absent_keyring, "get", "openai", "auto")
    assert_refused(ran, "none", "no keyring", "VENDOR_KEY")
    assert "export VENDOR_KEY=…" in ran.value["hints"]


def test_a_bus_that_never_answers_is_told_apart(silent_keyring: Session) -> None:
    assert_refused(use(silent_keyring, "get"), "silent", "not answering")


def test_a_key_is_not_stored_over_a_bus_that_never_answers(silent_keyring: Session) -> None:
    assert_refused(use(silent_keyring, "set", key=CANARY), "silent", "not answering")


def test_a_daemon_that_stopped_answering_holds_up_neither_the_look_up_nor_the_exit(stopped_keyring: Session) -> None:
    assert_refused(use(stopped_keyring, "get"), "silent", "not answering")


ASYNC = """
import asyncio, os, time
from routekit import credentials as c
ref = c.parse_ref("keyring", entry="openai")

async def main():
    task = asyncio.ensure_future(c.resolve_async(ref, variable=None, environ=os.environ, deadline=600.0))
    ticks = 0
    for _ in range(20):
        await asyncio.sleep(0.02)
        ticks += 1
    print("waiting", ticks, flush=True)
    await task

asyncio.run(main())
"""


def test_an_interrupt_ends_the_wait_for_a_stopped_keyring_at_once(stopped_keyring: Session) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ASYNC], env=stopped_keyring.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    # the loop went on while the keyring was silent
    assert process.stdout.readline() == b"waiting 20\n"
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=3.0)
    assert b"KeyboardInterrupt" in complaint
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize("value", ["no.such.module.Keyring", "", "routekit", "keyring.backends.SecretService.Nothing"])
def test_a_backend_variable_set_to_nonsense_is_named(value: str, absent_keyring: Session) -> None:
    ran = use(absent_keyring, "get", PYTHON_KEYRING_BACKEND=value)
    assert_refused(ran, "none", "PYTHON_KEYRING_BACKEND")
    assert ran.value["hints"][0] == "unset PYTHON_KEYRING_BACKEND"


def test_a_backend_that_cannot_work_here_is_named_with_its_variable(absent_keyring: Session) -> None:
    ran = use(absent_keyring, "get", PYTHON_KEYRING_BACKEND="keyring.backends.SecretService.Keyring")
    assert_refused(ran, "none", "PYTHON_KEYRING_BACKEND")


def test_a_settings_file_that_names_a_missing_backend_is_named(absent_keyring: Session) -> None:
    settings = absent_keyring.home / ".config" / "python_keyring" / "keyringrc.cfg"
    settings.parent.mkdir(parents=True)
    settings.write_text("[backend]\ndefault-keyring = no.such.module.Keyring\n")
    assert_refused(use(absent_keyring, "get"), "none", str(settings))


#: backends as third parties write them, each with one vice
BACKENDS = """
import getpass, time
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

class Fine(KeyringBackend):
    priority = 5
    kept = {}
    def get_password(self, service, username): return self.kept.get(username)
    def set_password(self, service, username, password): self.kept[username] = password
    def delete_password(self, service, username): del self.kept[username]

class Forgetful(Fine):
    def set_password(self, service, username, password): pass

class Plain(Fine):
    priority = 0.5

class EncryptedKeyring(Fine):
    def get_password(self, service, username): return getpass.getpass()
    set_password = get_password

class Prompting(Fine):
    def get_password(self, service, username): raise EOFError
    def set_password(self, service, username, password): raise EOFError

class Broken(Fine):
    def get_password(self, service, username): raise SystemExit("sk-leak-0123456789abcdef")

class Slow(Fine):
    def get_password(self, service, username): time.sleep(600)

class Chain(Fine):
    priority = 10
    @property
    def backends(self): return [EncryptedKeyring(), Forgetful()] if self.kept else [Fine(), Forgetful()]
"""


def third_party(session: Session, name: str) -> dict[str, str]:
    (session.home / "thirdparty.py").write_text(BACKENDS)
    return {"PYTHON_KEYRING_BACKEND": f"thirdparty.{name}", "PYTHONPATH": f"{ROOT}{os.pathsep}{session.home}"}


@pytest.mark.parametrize(
    ("backend", "verb", "state", "words"),
    [
        ("Forgetful", "set", "none", "did not give it back"),
        ("Plain", "set", "none", "readable"),
        ("EncryptedKeyring", "set", "locked", "on the terminal"),
        ("EncryptedKeyring", "get", "locked", "on the terminal"),
        ("Prompting", "set", "locked", "on the terminal"),
        ("Prompting", "get", "locked", "on the terminal"),
        ("Broken", "get", "none", "failed with SystemExit"),
        ("Slow", "get", "silent", "not answering"),
    ],
)
def test_a_backend_with_a_vice_is_a_state_and_never_another_error(
    backend: str, verb: str, state: str, words: str, absent_keyring: Session
) -> None:
    ran = use(absent_keyring, verb, key=CANARY if verb == "set" else "", **third_party(absent_keyring, backend))
    assert_refused(ran, state, words)
    assert "sk-" not in ran.stdout + ran.stderr


def test_the_null_keyring_is_refused_for_writing(absent_keyring: Session) -> None:
    ran = use(absent_keyring, "set", key=CANARY, PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring")
    assert_refused(ran, "none", "null")


def test_a_chain_of_keyrings_is_written_to_by_its_first_member_which_is_named(absent_keyring: Session) -> None:
    ran = use(absent_keyring, "set", key=CANARY, **third_party(absent_keyring, "Chain"))
    assert ran.value["source"] == "keyring (thirdparty.Fine)"


def test_no_backend_gets_to_ask_on_the_terminal(absent_keyring: Session) -> None:
    """With a terminal at hand ``getpass`` would ask there and wait."""
    environ = {**absent_keyring.environ, **third_party(absent_keyring, "EncryptedKeyring")}
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", PROGRAM, "get", "openai", "keyring"], environ)
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux's way to say that the other side is closed
            break
        if not piece:
            break
        shown += piece
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b'"locked"' in shown
    assert b"Password:" not in shown
