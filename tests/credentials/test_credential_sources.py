"""Where keys come from besides a keyring: variables, files, commands. The keyring has real daemons in tests/keyring."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from routekit.credentials import CredentialRef, KeyPlace, Secret, parse_ref, resolve, resolve_async, status, store
from routekit.errors import CredentialError

CANARY = "sk-canary-0123456789abcdefghijklmnop"
PATH = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}


def ref(text: str) -> CredentialRef:
    return parse_ref(text, entry="openai")


def got(text: str, **environ: str) -> Secret | None:
    return resolve(ref(text), variable="VENDOR_KEY", environ={**PATH, **environ}, command_deadline=20.0)


def refused(text: str, deadline: float = 20.0, /, **environ: str) -> CredentialError:
    with pytest.raises(CredentialError) as caught:
        resolve(ref(text), variable="VENDOR_KEY", environ={**PATH, **environ}, command_deadline=deadline)
    assert caught.value.hints
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "canary" not in "\n".join(caught.value.lines())
    return caught.value


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "openai key"
    path.write_text(CANARY + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def place(tmp_path: Path) -> KeyPlace:
    return KeyPlace(files=tmp_path / "own" / "keys", ledger=tmp_path / "own" / "keys.json")


def test_none_is_no_secret() -> None:
    assert got("none") is None


def test_a_variable_is_read_and_named_as_the_source() -> None:
    secret = got("env:MY_KEY", MY_KEY=f" {CANARY}\n")
    assert secret is not None
    assert (secret.reveal(), secret.source) == (CANARY, "env MY_KEY")


@pytest.mark.parametrize("environ", [{}, {"MY_KEY": ""}, {"MY_KEY": " \n"}])
def test_a_variable_that_is_unset_or_empty_is_an_absent_key(environ: dict[str, str]) -> None:
    error = refused("env:MY_KEY", 20.0, **environ)
    assert error.state == "absent"
    assert "MY_KEY" in error.message
    assert error.hints == ("export MY_KEY=…",)


def test_a_variable_with_a_broken_key_is_an_invalid_key() -> None:
    error = refused("env:MY_KEY", MY_KEY=f"{CANARY}\nX")
    assert error.state == "invalid"
    assert "env MY_KEY" in error.message


def test_only_auto_reads_the_vendors_variable() -> None:
    assert refused("env:OTHER", VENDOR_KEY=CANARY).state == "absent"


def test_reading_a_variable_imports_neither_keyring_nor_subprocess_nor_asyncio() -> None:
    code = (
        "import sys; from routekit.credentials import *; "
        "assert resolve(parse_ref('env:K', entry='x'), variable=None, environ={'K': 'abcdefghijkl'}).last4 == 'ijkl'; "
        "print([m for m in ('keyring', 'subprocess', 'asyncio', 'logging', 'email', 'http') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_private_file_is_read(key_file: Path) -> None:
    secret = got(f"file:{key_file}")
    assert secret is not None
    assert (secret.reveal(), secret.source) == (CANARY, f"file {key_file}")


def test_a_tilde_is_the_home_of_the_environment_given(key_file: Path) -> None:
    secret = got(f"file:~/{key_file.name}", HOME=str(key_file.parent))
    assert secret is not None
    assert secret.reveal() == CANARY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o602])
def test_a_file_open_to_others_is_refused_with_the_command_that_closes_it(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    error = refused(f"file:{key_file}")
    assert error.state == "exposed"
    assert "can be read by others" in error.message
    subprocess.run(["sh", "-c", error.hints[0]], check=True)
    assert got(f"file:{key_file}") is not None


def test_a_missing_file_is_an_absent_key(tmp_path: Path) -> None:
    assert refused(f"file:{tmp_path / 'nothing'}").state == "absent"
    assert refused(f"file:{tmp_path / 'nothing' / 'below'}").state == "absent"


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert refused(f"file:{tmp_path / 'pipe'}").state == "unreadable"
    assert refused(f"file:{tmp_path}").state == "unreadable"


def test_a_file_that_is_no_key_is_invalid(key_file: Path) -> None:
    key_file.write_bytes(b"\xff\xfe\x00binary")
    assert refused(f"file:{key_file}").state == "invalid"
    key_file.write_bytes(b"a" * 100_000)
    assert refused(f"file:{key_file}").state == "invalid"


def test_a_commands_output_is_the_key_and_pipes_work() -> None:
    secret = got('cmd:printf "%s\\nuser: me\\n" "$STORED" | head -n 1', STORED=CANARY)
    assert secret is not None
    assert secret.reveal() == CANARY
    assert secret.source.startswith("cmd printf")


def test_a_command_sees_the_environment_given_and_no_terminal_input() -> None:
    secret = got("cmd:cat; echo $ONLY_HERE", ONLY_HERE="abcdefghijkl")
    assert secret is not None
    assert secret.reveal() == "abcdefghijkl"


def test_a_failing_command_shows_its_complaint_without_secrets() -> None:
    error = refused(
        'cmd:echo "$STORED"; echo "gpg: no secret key for $STORED" >&2; exit 2', STORED="hunter2-canary-xyz"
    )
    assert error.state == "absent"
    assert "exit code 2" in error.message
    assert "gpg: no secret key for •••" in error.message


def test_a_command_that_prints_nothing_is_an_absent_key() -> None:
    assert refused("cmd:true").state == "absent"


def test_a_command_that_prints_several_lines_is_invalid_and_the_first_is_offered() -> None:
    error = refused("cmd:printf 'a\\nb\\n'")
    assert error.state == "invalid"
    assert error.hints[0].endswith("| head -n 1")


def test_a_command_that_does_not_exist_is_an_absent_key() -> None:
    error = refused("cmd:no-such-program-anywhere show openai")
    assert error.state == "absent"
    assert "127" in error.message


def _alive(pid: int) -> bool:
    # a killed grandchild stays a zombie where nobody adopts it
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _ended(pid: int) -> bool:
    """Whether it ends: a killed process is gone a moment after the signal."""
    end = time.monotonic() + 20
    while _alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not _alive(pid)


def _await(path: Path) -> str:
    end = time.monotonic() + 20
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return path.read_text()


def test_a_command_past_its_deadline_is_ended_with_all_it_started(tmp_path: Path) -> None:
    error = refused(f"cmd:sh -c 'echo $$ > {tmp_path}/pid; sleep 600' | cat", 0.3)
    assert error.state == "silent"
    assert _ended(int(_await(tmp_path / "pid")))


def test_what_a_command_leaves_running_holds_nothing_up() -> None:
    began = time.monotonic()
    secret = got("cmd:sleep 5 & echo abcdefghijkl")
    assert secret is not None
    assert secret.reveal() == "abcdefghijkl"
    assert time.monotonic() - began < 4.0


def test_a_command_that_prints_without_end_is_ended_at_its_deadline() -> None:
    assert refused("cmd:yes", 0.2).state == "silent"


def test_awaiting_a_secret_gives_what_resolving_gives(key_file: Path) -> None:
    async def main() -> list[str]:
        texts = ["env:K", f"file:{key_file}", "cmd:echo $K"]
        each = [resolve_async(ref(text), variable=None, environ={**PATH, "K": CANARY}) for text in texts]
        return [secret.reveal() for secret in await asyncio.gather(*each) if secret]

    assert asyncio.run(main()) == [CANARY] * 3


def test_awaiting_raises_the_same_error() -> None:
    with pytest.raises(CredentialError) as caught:
        asyncio.run(resolve_async(ref("cmd:exit 3"), variable=None, environ=PATH))
    assert "exit code 3" in caught.value.message


def test_cancelling_the_wait_ends_the_command(tmp_path: Path) -> None:
    async def main() -> None:
        command = ref(f"cmd:echo $$ > {tmp_path}/pid; sleep 600")
        task = asyncio.ensure_future(resolve_async(command, variable=None, environ=PATH, command_deadline=600.0))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert _ended(int(_await(tmp_path / "pid")))


def test_a_key_of_our_own_file_store_is_found_without_a_keyring(place: KeyPlace) -> None:
    store("openai", Secret(CANARY), place=place, now=1.0, where="file")
    for text in ("keyring", "auto"):
        secret = resolve(ref(text), variable="VENDOR_KEY", environ={"VENDOR_KEY": "sk-wrong-0123456789"}, place=place)
        assert secret is not None
        assert secret.reveal() == CANARY
        assert secret.source == f"file {place.files / 'openai'}"


def test_a_known_key_that_others_can_read_is_not_silently_replaced_by_the_variable(place: KeyPlace) -> None:
    store("openai", Secret(CANARY), place=place, now=1.0, where="file")
    (place.files / "openai").chmod(0o644)
    with pytest.raises(CredentialError) as caught:
        resolve(ref("auto"), variable="VENDOR_KEY", environ={"VENDOR_KEY": "sk-wrong-0123456789"}, place=place)
    assert caught.value.state == "exposed"


def test_a_list_runs_no_command_and_asks_no_keyring(place: KeyPlace, tmp_path: Path) -> None:
    seen = status(ref(f"cmd:touch {tmp_path}/ran"), variable=None, environ=PATH, place=place)
    assert seen.state == "unknown"
    assert not (tmp_path / "ran").exists()
    assert status(ref("keyring"), variable=None, environ=PATH, place=place).state == "unknown"


def test_a_list_shows_source_and_four_characters(place: KeyPlace) -> None:
    store("openai", Secret(CANARY), place=place, now=1.0, where="file")
    environ = {"MY_KEY": "hunter2-0123456789"}

    def seen(text: str, variable: str | None = None) -> tuple[str, str, str]:
        found = status(ref(text), variable=variable, environ=environ, place=place)
        return found.state, found.source, found.last4

    assert seen("keyring") == ("present", f"file {place.files / 'openai'}", "mnop")
    assert seen("env:MY_KEY") == ("present", "env MY_KEY", "6789")
    assert seen("env:OTHER") == ("absent", "env OTHER", "")
    assert seen("auto:nobody", "MY_KEY") == ("present", "env MY_KEY", "6789")
    assert seen("none") == ("present", "none", "")
    assert status(ref("env:OTHER"), variable=None, environ=environ, place=place).hint == "export OTHER=…"


def test_a_check_runs_the_command(place: KeyPlace) -> None:
    seen = status(ref("cmd:echo abcdefghijkl"), variable=None, environ=PATH, place=place, look=True)
    assert (seen.state, seen.last4) == ("present", "ijkl")


def test_nobody_is_told_to_close_a_file_of_the_system_or_one_too_large_for_a_key(tmp_path: Path) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_text("x" * 20_000)
    small.write_text("abcdefghijkl")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for path in (large, small):
        path.chmod(0o644)
    for path, hint in (
        ("/etc/passwd", "ls -l"),
        (str(tmp_path / "link"), "ls -l"),
        (str(large), "ls -l"),
        (str(small), "chmod 600"),
    ):
        with pytest.raises(CredentialError) as caught:
            resolve(parse_ref(f"file:{path}", entry="p"), variable=None, environ={})
        assert caught.value.state == "exposed"
        assert caught.value.hints == (f"{hint} {path}",)
