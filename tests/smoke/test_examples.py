"""The CI examples: every routekit command in them runs, in a repository of the shape they are written for."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loopback import Loopback

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = re.compile(r"^\s*(?:- run|entry): (routekit .*)$", re.MULTILINE)
COMMANDS = [
    (name, command)
    for name in ("github-smoke.yml", "pre-commit-smoke.yaml")
    for command in COMMAND.findall((ROOT / "examples" / name).read_text("utf-8"))
]


def test_the_examples_have_commands() -> None:
    assert [name for name, _ in COMMANDS] == ["github-smoke.yml"] * 3 + ["pre-commit-smoke.yaml"] * 2


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=lambda text: text.replace("routekit ", "")[:60])
def test_a_command_of_an_example_runs(name: str, command: str, vendor: Loopback, tmp_path: Path) -> None:
    place = tmp_path / "repository" / "routekit"
    (place / "profiles").mkdir(parents=True)
    account = f'[providers.a]\napi = "openai-chat"\nbase_url = "{vendor.url()}"\nkey = "env:OPENAI_API_KEY"\n'
    (place / "config.toml").write_text(f'version = 1\n{account}[routes.plan]\ntargets = ["a/m", "a/n"]\n')
    (place / "profiles" / "work.toml").write_text('version = 1\n[defaults]\nroute = "plan"\n')
    env = {**os.environ, "ROUTEKIT_HOME": str(place), "OPENAI_API_KEY": "placeholder"}
    program, *words = shlex.split(command)
    assert program == "routekit"
    done = subprocess.run(
        [sys.executable, "-m", "routekit", *words],
        cwd=place.parent,
        env=env,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = [word for word in words if word.endswith(".xml")]
    assert all((place.parent / file).stat().st_size for file in written)
