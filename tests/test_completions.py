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


@pytest.fixture
def configured(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A machine with routes, and no vendor that could be asked."""
    home = tmp_path / "rk"
    home.mkdir()
    (home / "config.toml").write_text(
        """version = 1
[providers.relay]
api = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
key = "none"
models = ["opus", "sol"]
[routes.terra-plan]
targets = ["relay/opus"]
[routes.terra-mini]
targets = ["relay/sol"]
[aliases]
terse = "relay/sol"
"""
    )
    monkeypatch.setenv("ROUTEKIT_HOME", str(home))
    return path


#: what stands on the line, and what TAB offers
OFFERED = {
    "routekit ask -m te": ["terra-plan", "terra-mini", "terse"],
    "routekit ask -m relay/": ["relay/opus", "relay/sol"],
    "routekit ask --only ": ["relay"],
    "routekit ask -o temp": ["temperature"],
    "routekit ask -o temperature 0": ["0", "0.2", "0.7"],
    "routekit ask --render a": ["auto", "always"],
    "routekit ask --schem": ["--schema", "--schema-multi"],
    "routekit --prof": ["--profile"],
    "routekit routes show terra-": ["terra-plan", "terra-mini"],
    "routekit completion z": ["zsh"],
}


@pytest.mark.parametrize("line", OFFERED)
def test_bash_offers_routes_models_options_and_values(need: Callable[..., str], configured: str, line: str) -> None:
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    array = " ".join(map(shlex.quote, words))
    code = f'COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _routekit_completion routekit; echo "${{COMPREPLY[@]}}"'
    assert _lines(need("bash"), "--norc", "-c", f". {SCRIPTS}/routekit.bash; {code}") == OFFERED[line]


@pytest.mark.parametrize("line", ["routekit ask -m te", "routekit ask -o temperature 0", "routekit ask --only "])
def test_fish_offers_them_too(need: Callable[..., str], configured: str, line: str) -> None:
    code = f"source {SCRIPTS}/routekit.fish; complete -C '{line}'"
    assert sorted(_lines(need("fish"), "--no-config", "-c", code)) == sorted(OFFERED[line])


@pytest.mark.parametrize(
    ("script", "shell"), [("routekit.bash", "bash"), ("_routekit", "zsh"), ("routekit.fish", "fish")]
)
def test_the_shipped_scripts_are_those_the_command_prints(script: str, shell: str, path: str) -> None:
    printed = subprocess.run(["routekit", "completion", shell], capture_output=True, check=True)
    assert printed.stdout == (SCRIPTS / script).read_bytes()


def test_a_broken_config_completes_to_nothing_and_says_nothing(configured: str, tmp_path: Path) -> None:
    (tmp_path / "rk" / "config.toml").write_text("version = [")
    env = {**os.environ, "_ROUTEKIT_COMPLETE": "bash_complete", "COMP_WORDS": "routekit ask -m te", "COMP_CWORD": "3"}
    done = subprocess.run(["routekit"], env=env, capture_output=True, encoding="utf-8", check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def _installed(shell: str, **env: str) -> str:
    command = ["routekit", "completion", shell, "--install"]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def _session(command: str, *arguments: str, prompt: str, cwd: Path) -> pexpect.spawn:
    environment = {**os.environ, "TERM": "dumb"}
    shell = pexpect.spawn(command, [*arguments], env=environment, cwd=str(cwd), encoding="utf-8", timeout=30)
    shell.expect_exact(prompt)
    return shell


def test_zsh_completes_once_installed(need: Callable[..., str], configured: str, home: Path, tmp_path: Path) -> None:
    (home / ".zshrc").write_text("PS1='ready> '\n")
    _installed("zsh")
    assert "added" not in _installed("zsh")
    assert (home / ".zshrc").read_text().count("# routekit completion") == 1
    shell = _session(need("zsh"), "-i", prompt="ready> ", cwd=tmp_path)
    try:
        shell.send("routekit ask -m relay/o\t")
        shell.expect("routekit ask -m relay/opus")
    finally:
        shell.close(force=True)


def test_bash_completes_once_installed(need: Callable[..., str], configured: str, home: Path, tmp_path: Path) -> None:
    (home / ".bashrc").write_text("PS1='ready> '\nbind 'set enable-bracketed-paste off'\n")
    _installed("bash")
    if "routekit completion" not in (home / ".bashrc").read_text():
        with (home / ".bashrc").open("a") as file:
            file.write(". /usr/share/bash-completion/bash_completion\n")
    shell = _session(need("bash"), "-i", prompt="ready> ", cwd=tmp_path)
    try:
        shell.send("routekit ask -m relay/o\t")
        shell.expect("routekit ask -m relay/opus")
    finally:
        shell.close(force=True)


def test_fish_completes_once_installed(need: Callable[..., str], configured: str, home: Path) -> None:
    _installed("fish")
    assert (home / ".config/fish/completions/routekit.fish").is_file()
    offered = _lines(need("fish"), "-c", "complete -C 'routekit ask -m relay/o'")
    assert offered == ["relay/opus"]


def test_an_unknown_shell_is_a_usage_error(path: str) -> None:
    done = subprocess.run(["routekit", "completion", "tcsh"], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "known: bash, fish, zsh" in done.stderr


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
