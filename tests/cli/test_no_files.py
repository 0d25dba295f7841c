"""What stands where a file should and is none: pipes without an end, devices, folders. Nothing hangs, nothing is
replaced, and the path is named."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from routekit.config.edit import write_whole
from routekit.credentials.ledger import change_ledger, read_ledger, write_private
from routekit.errors import ConfigError, StateError
from routekit.files import read_bounded, replaceable

KEY = "sk-canary-dddd-3333333333"


def _pipe(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path, 0o600)
    return path


def _is_pipe(path: Path) -> bool:
    return stat.S_ISFIFO(os.lstat(path).st_mode)


def _node(path: Path) -> Path:
    """A private device that takes and gives nothing, where the system lets us make one; a pipe elsewhere."""
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        os.mkfifo(path, 0o600)
    return path


# --- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("linked", [False, True])
def test_writing_replaces_no_device(tmp_path: Path, linked: bool) -> None:
    node = _node(tmp_path / "node")
    before, target = os.lstat(node), node
    if linked:
        target = tmp_path / "link"
        target.symlink_to(node)
    with pytest.raises(ConfigError, match=str(target)):
        write_whole(str(target), "version = 1")
    with pytest.raises(StateError, match=str(target)) as caught:
        write_private(target, b"x")
    assert caught.value.exit_code == 78
    after = os.lstat(node)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert set(os.listdir(tmp_path)) == {"node", target.name, "home"}


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    write_whole(str(link), "a = 1")
    assert link.is_symlink()
    assert (tmp_path / "real").read_text() == "a = 1"
    assert replaceable(link) == str(tmp_path / "real")


def test_the_ledger_of_keys_is_kept_in_a_file_only(tmp_path: Path) -> None:
    ledger = _pipe(tmp_path / "keys.json")
    assert read_ledger(ledger) == {}
    with pytest.raises(StateError, match="it is a pipe"):
        change_ledger(ledger, "a", None) if not ledger.exists() else write_private(ledger, b"{}")
    lock = _pipe(tmp_path / "other.json.lock")
    with pytest.raises(StateError, match="it is a pipe"):
        change_ledger(tmp_path / "other.json", "a", None)
    assert _is_pipe(ledger)
    assert _is_pipe(lock)


def test_editing_a_config_that_is_a_device_changes_nothing(machine: Any) -> None:
    node = _node(machine.home / "config.toml")
    for arguments in (
        ("providers", "add", "openai"),
        ("default", "x/y"),
        ("init", "--vendor", "ollama", "--model", "m"),
        ("config", "edit"),
    ):
        done = machine.run(*arguments, env={"EDITOR": "true"}, timeout=20)
        assert done.code not in (0, 70) or arguments == ("config", "edit"), (arguments, done)
        assert "bug" not in done.err
        assert not stat.S_ISREG(os.lstat(node).st_mode)


@pytest.mark.parametrize("suffix", ["", ".lock", "-wal", "-journal"])
def test_a_store_that_is_a_pipe_costs_nobody_an_answer(machine: Any, suffix: str) -> None:
    machine.config("a/m")
    pipe = _pipe(machine.home / f"state.db{suffix}")
    done = machine.ask("hi", timeout=20)
    assert done.code == 0, done.err
    assert done.out.startswith("word1")
    assert "it is a pipe" in done.err
    assert _is_pipe(pipe)
    assert not [name for name in os.listdir(machine.home) if "damaged" in name]


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_config_that_is_a_pipe_is_not_waited_for(machine: Any) -> None:
    pipe = _pipe(machine.home / "config.toml")
    done = machine.ask("hi", timeout=20)
    assert done.code == 78
    assert str(pipe) in done.err
    assert "it is a pipe" in done.err


def test_patches_and_profiles_that_are_pipes_are_not_waited_for(machine: Any) -> None:
    machine.config("a/m")
    patch, profile = _pipe(machine.cwd / "patch.toml"), _pipe(machine.home / "profiles" / "work.toml")
    for options, path in ((("--patch", str(patch)), patch), (("--profile", "work"), profile)):
        done = machine.run(*options, "ask", "hi", timeout=20)
        assert done.code == 78, done
        assert path.name in done.err


@pytest.mark.parametrize("name", ["keys.json", "catalog.json"])
def test_what_routekit_keeps_is_not_waited_for(machine: Any, name: str) -> None:
    machine.config("a/m")
    _pipe(machine.home / name)
    assert machine.ask("hi", timeout=20).code == 0
    assert machine.run("models", "list", timeout=20).code == 0
    assert machine.run("keys", "list", timeout=20).code in (0, 77)


@pytest.mark.parametrize("option", ["-a", "-f", "--sf"])
def test_material_that_is_a_pipe_is_not_waited_for(machine: Any, option: str) -> None:
    machine.config("a/m")
    pipe = _pipe(machine.cwd / "pipe")
    done = machine.ask(option, "pipe", "hi", timeout=20)
    assert done.code == 65, done
    assert "it is a pipe" in done.err
    assert _is_pipe(pipe)


def test_a_schema_that_is_a_pipe_is_not_waited_for(machine: Any) -> None:
    machine.config("a/m")
    _pipe(machine.cwd / "pipe.json")
    done = machine.ask("--schema", "pipe.json", "hi", timeout=20)
    assert done.code == 65
    assert "it is a pipe" in done.err


def test_a_pipe_that_the_shell_has_opened_is_read(machine: Any) -> None:
    machine.config("a/m")
    out, into = os.pipe()
    os.write(into, b"from the pipe")
    os.close(into)
    try:
        done = machine.ask("-f", f"/dev/fd/{out}", "hi", pass_fds=(out,))
    finally:
        os.close(out)
    assert done.code == 0, done.err
    assert "from the pipe" in str(machine.loopback.requests[-1].body)


def test_a_file_without_an_end_meets_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "long"
    file.write_bytes(b"x" * 2048)
    assert len(read_bounded(file, most=2048)) == 2048
    with pytest.raises(OSError, match="larger than 1 kB"):
        read_bounded(file, most=1024)


def test_standard_input_has_a_bound(machine: Any) -> None:
    machine.config("a/m")
    for arguments in (("hi",), ("-f", "-", "hi")):
        done = machine.ask(*arguments, stdin=b"x" * (64 * 1024 * 1024 + 1))
        assert done.code == 65
        assert "standard input is larger than 64 MB" in done.err
    assert machine.loopback.requests == []


def test_a_key_on_standard_input_has_a_bound(machine: Any) -> None:
    machine.config(providers='[providers.other]\npreset = "openai"\nkey = "keyring"')
    done = machine.run("keys", "set", "other", "--store", "file", stdin=KEY.encode() * 4000)
    assert done.code == 77
    assert "larger than 64 kB" in done.err
    assert KEY not in done.err


# --- a system that can only be read -----------------------------------------------------------------------------------


def test_a_place_where_nothing_can_be_made_is_an_error_of_the_setup(machine: Any) -> None:
    place = "/proc/routekit-cannot-be-here"
    for arguments in (
        ("init", "--vendor", "ollama", "--model", "m"),
        ("providers", "add", "ollama"),
        ("config", "edit"),
        ("keys", "set", "openai", "--store", "file"),
    ):
        done = machine.run(*arguments, env={"ROUTEKIT_HOME": place, "EDITOR": "true"}, stdin=KEY)
        assert done.code == 78, (arguments, done)
        assert place in done.err
        assert "try:" in done.err
