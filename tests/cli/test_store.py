"""Many processes on one memory, and memories out of order: the answer comes all the same."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import answer

#: from linux/prctl.h and linux/capability.h
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2


#: two vendors that cost no import, so that the processes meet at the store and not at the CPU
PATCH = """
[providers.one]
api = "scripted"
params.script = ["one"]
[providers.two]
api = "scripted"
params.script = ["two"]
[routes.turns]
targets = ["one/m", "two/m"]
selection = "round-robin"
"""


def test_48_parallel_asks_share_one_store(machine: Any) -> None:
    patch = machine.place / "patch.toml"
    patch.write_text(PATCH)
    words = ["--profile", "demo", "--patch", str(patch), "ask", "-m", "turns", "hi"]
    ended = [machine.finish(child, timeout=50) for child in [machine.start(*words) for _ in range(48)]]
    assert [(done.code, done.err) for done in ended] == [(0, "")] * 48
    assert sorted(done.out for done in ended) == ["one\n"] * 24 + ["two\n"] * 24
    records = machine.records()
    assert len({record["id"] for record in records}) == 48
    assert sorted(record["served_by"] for record in records) == ["one/m"] * 24 + ["two/m"] * 24


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_is_the_owners_alone_whatever_the_umask(machine: Any) -> None:
    file = machine.config("a/m")
    state = machine.place / "xdg"
    env = {"ROUTEKIT_HOME": None, "ROUTEKIT_CONFIG": str(file), "XDG_STATE_HOME": str(state)}
    done = machine.run("ask", "hi", env=env, preexec_fn=lambda: os.umask(0))
    assert done.code == 0, done.err
    home = state / "routekit"
    assert mode(home) == 0o700
    files = [path for path in home.rglob("*") if path.is_file()]
    assert home / "state.db" in files
    assert {mode(path) for path in files} == {0o600}


def _directory(home: Path) -> None:
    (home / "state.db").mkdir()


def _garbage(home: Path) -> None:
    (home / "state.db").write_bytes(b"no database at all\n" * 100)


def _read_only(home: Path) -> None:
    (home / "state.db").touch(mode=0o400)
    home.chmod(0o500)


def _missing(home: Path) -> None:
    home.chmod(0o500)


def _bound() -> None:
    """Root may write anywhere; a root without these two capabilities may not."""
    if os.geteuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            assert ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


@pytest.mark.parametrize("spoil", [_directory, _garbage, _read_only, _missing], ids=lambda spoil: spoil.__name__)
def test_a_store_out_of_order_costs_one_warning_and_no_answer(machine: Any, spoil: Callable[[Path], None]) -> None:
    machine.config("a/m")
    spoil(machine.home)
    done = machine.run("ask", "hi", preexec_fn=_bound)
    machine.home.chmod(0o700)
    assert (done.code, done.out) == (0, answer() + "\n"), done.err
    assert len(done.err.splitlines()) == 1
    assert "state" in done.err


def test_a_store_that_breaks_during_the_call_costs_no_answer(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"tokens": 5, "hold": 1.0})
    machine.config("a/m", limits='first_output = "30s"')
    child = machine.start("ask", "hi")
    machine.until(lambda: machine.loopback.requests)
    for path in machine.home.glob("state.db*"):
        path.unlink()
    (machine.home / "state.db").mkdir()
    done = machine.finish(child)
    assert (done.code, done.out) == (0, answer(5) + "\n")
    assert len(done.err.splitlines()) <= 1


def test_a_process_that_is_killed_leaves_nothing_locked(machine: Any) -> None:
    machine.config("a/m", "b/n", limits='first_output = "30s"')
    machine.loopback.script("m", {"hang": "headers"}, {})
    child = machine.start("ask", "hi", stdout=subprocess.DEVNULL)
    machine.until(lambda: machine.loopback.requests)
    child.kill()
    child.wait(timeout=5)
    done = machine.ask("hi")
    assert (done.code, done.err) == (0, "")
    assert machine.models() == ["m", "m"]


def test_a_home_that_does_not_exist_is_made(machine: Any) -> None:
    file = machine.config("a/m")
    text = file.read_text()
    shutil.rmtree(machine.home)
    elsewhere = machine.place / "config.toml"
    elsewhere.write_text(text)
    elsewhere.chmod(0o600)
    done = machine.run("--config", str(elsewhere), "ask", "hi")
    assert (done.code, done.err) == (0, "")
    assert mode(machine.home) == 0o700
