"""The shipped completion scripts, each in its own shell: TAB offers what fits, and nothing is asked of a network."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "completions"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A search path on which `routekit` is this one."""
    tools = tmp_path / "bin"
    tools.mkdir()
    command = tools / "routekit"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m routekit "$@"\n')
    command.chmod(0o755)
    joined = f"{tools}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", joined)
    return joined


def _lines(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL, check=False)
    assert not done.stderr, done.stderr
    return done.stdout.split()


def test_bash_completes_a_command(need: Callable[..., str], path: str) -> None:
    words = 'COMP_WORDS=(routekit rou); COMP_CWORD=1; _routekit_completion routekit; echo "${COMPREPLY[@]}"'
    assert _lines(need("bash"), "--norc", "-c", f". {SCRIPTS}/routekit.bash; {words}") == ["routes"]


def test_fish_completes_a_command(need: Callable[..., str], path: str) -> None:
    offered = _lines(need("fish"), "--no-config", "-c", f"source {SCRIPTS}/routekit.fish; complete -C 'routekit rou'")
    assert offered[:1] == ["routes"]


def test_zsh_completes_a_command(need: Callable[..., str], path: str, tmp_path: Path) -> None:
    start = f"fpath=({SCRIPTS} $fpath)\nautoload -Uz compinit && compinit -D -u\nPS1='ready> '\n"
    (tmp_path / ".zshrc").write_text(start)
    environment = {**os.environ, "ZDOTDIR": str(tmp_path), "TERM": "dumb"}
    shell = pexpect.spawn(need("zsh"), ["-i"], env=environment, cwd=str(tmp_path), encoding="utf-8", timeout=20)
    try:
        shell.expect_exact("ready> ")
        shell.send("echo routekit; routekit rou\t")
        shell.expect("routekit; routekit routes")
    finally:
        shell.close(force=True)


@pytest.mark.parametrize("script", ["routekit.bash", "_routekit", "routekit.fish"])
def test_a_script_asks_through_the_variable_that_the_command_reads(script: str) -> None:
    assert "_ROUTEKIT_COMPLETE=" in (SCRIPTS / script).read_text("utf-8")
