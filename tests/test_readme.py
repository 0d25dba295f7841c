"""README.md does what it says: every fenced block is run.

`console` is a session: after each `$ ` a command (continued by `> `), then what it prints. In the expected text `…`
stands for anything within a line, and alone on a line for any lines. `sh` are commands, `toml` is a configuration,
`python` a program; `ipython` cells of a notebook, with blank lines between them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")


class Block(NamedTuple):
    language: str
    text: str
    line: int


def _blocks(markdown: str) -> list[Block]:
    found = re.finditer(r"^```(\S*)\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL)
    return [Block(one[1], one[2], markdown[: one.start()].count("\n") + 1) for one in found]


def _of(language: str) -> list[Block]:
    return [block for block in _blocks(README) if block.language == language]


def _id(block: Block) -> str:
    return f"line-{block.line}"


def _steps(session: str) -> Iterator[tuple[str, str]]:
    """Each command of a session with the text expected after it."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, *rest = part.splitlines()
        while rest and rest[0].startswith("> "):
            command += "\n" + rest.pop(0)[2:]
        yield command, "\n".join(rest)


def _pattern(expected: str) -> str:
    """The expected text as a regular expression over whole lines."""
    lines = [
        r"(?:.*\n)*?" if line.strip() == "…" else ".*".join(map(re.escape, line.rstrip().split("…"))) + r"[ ]*\n"
        for line in expected.splitlines()
    ]
    return "".join(lines)


def _agrees(expected: str, printed: str) -> bool:
    text = printed if printed.endswith("\n") or not printed else printed + "\n"
    return re.fullmatch(_pattern(expected), text) is not None


def _script(path: Path, *command: str) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)


@pytest.fixture
def shell_environment(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a reader has after installing: `routekit` on the path, and an empty home."""
    tools = tmp_path / "bin"
    tools.mkdir()
    _script(tools / "routekit", sys.executable, "-m", "routekit")
    _script(tools / "python", sys.executable)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "ROUTEKIT_HOME": str(home / "routekit")}


def _bash(command: str, env: Mapping[str, str], cwd: Path, timeout: float = 50) -> subprocess.CompletedProcess[str]:
    """Both streams as one, as a reader sees them."""
    return subprocess.run(
        ["bash", "-c", command],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )


@pytest.mark.parametrize("block", _of("console"), ids=_id)
def test_a_session_prints_what_readme_shows(block: Block, shell_environment: dict[str, str], tmp_path: Path) -> None:
    for command, expected in _steps(block.text):
        printed = _bash(command, shell_environment, tmp_path).stdout
        assert "Traceback" not in printed, printed
        assert "No module named routekit" not in printed, printed
        assert _agrees(expected, printed), f"$ {command}\n--- README\n{expected}\n--- printed\n{printed}"


@pytest.mark.parametrize("block", _of("toml"), ids=_id)
def test_a_configuration_in_readme_is_valid(block: Block, shell_environment: dict[str, str], tmp_path: Path) -> None:
    place = Path(shell_environment["ROUTEKIT_HOME"])
    place.mkdir(mode=0o700)
    (place / "config.toml").write_text(block.text, "utf-8")
    done = _bash("routekit config check", shell_environment, tmp_path)
    # 1: only warnings, such as a key that a fresh machine does not have
    assert done.returncode in {0, 1}, done.stdout
    assert "Traceback" not in done.stdout
    assert "No module named routekit" not in done.stdout


def test_the_programs_in_readme_run(shell_environment: dict[str, str], tmp_path: Path) -> None:
    for block in _of("python"):
        (tmp_path / "program.py").write_text(block.text, "utf-8")
        done = _bash("python program.py", {**shell_environment, "ROUTEKIT_PROFILE": "demo"}, tmp_path)
        assert done.returncode == 0, done.stdout


def test_the_cells_in_readme_run(shell_environment: dict[str, str], tmp_path: Path) -> None:
    for block in _of("ipython"):
        cells = tmp_path / "cells.py"
        code = "from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
        code += "".join(f"shell.run_cell({cell!r}).raise_error()\n" for cell in block.text.split("\n\n"))
        cells.write_text(code, "utf-8")
        place = {"ROUTEKIT_PROFILE": "demo", "IPYTHONDIR": str(tmp_path / "ipython")}
        done = _bash("python cells.py", {**shell_environment, **place}, tmp_path)
        assert done.returncode == 0, done.stdout
        assert done.stdout.count("Hello from the demo. You asked: ") >= 2, done.stdout


def _copy_of_the_tree(target: Path) -> Path:
    """What a clone holds, with the working tree's changes."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, copy = ROOT / name, target / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    return target


def _runs_the_tests(block: Block) -> bool:
    return "pytest" in block.text


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.parametrize("block", [block for block in _of("sh") if not _runs_the_tests(block)], ids=_id)
def test_the_installing_commands_install_and_answer(
    block: Block, original_environment: dict[str, str], tmp_path: Path
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    _script(tools / "python3", os.path.realpath(sys.executable))
    kept = {name: value for name, value in original_environment.items() if not name.startswith(("PYTHON", "ROUTEKIT"))}
    place = {"PATH": f"{tools}:{os.environ['PATH']}", "ROUTEKIT_HOME": str(tmp_path / "routekit")}
    done = _bash(block.text, {**kept, **place}, _copy_of_the_tree(tmp_path / "clone"), timeout=400)
    assert done.returncode == 0, done.stdout
    assert done.stdout.strip()


def test_the_testing_command_is_the_one_that_ci_runs() -> None:
    # It cannot be run from inside the run that it starts.
    (block,) = [block for block in _of("sh") if _runs_the_tests(block)]
    (command,) = block.text.strip().splitlines()
    assert command in [line.strip() for line in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()]


def test_readme_gives_two_commands_and_a_session() -> None:
    assert len(_of("sh")) == 2
    assert len(_of("console")) >= 1
    known = {"console", "sh", "toml", "python", "ipython"}
    assert [f"line {block.line}: {block.language}" for block in _blocks(README) if block.language not in known] == []


def test_every_picture_is_there_and_shown() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert [path for path in shown if not (ROOT / path).is_file()] == []
    drawn = {f"examples/pictures/{file.name}" for file in (ROOT / "examples" / "pictures").iterdir()}
    assert drawn <= set(shown)


@pytest.mark.parametrize(
    ("expected", "printed", "agrees"),
    [
        ("", "", True),
        ("", "text\n", False),
        ("one\ntwo", "one\ntwo\n", True),
        ("one\ntwo", "one\n", False),
        ("back in …s", "back in 29.9s\n", True),
        ("back in …s", "back in\n29.9s\n", False),
        ("a.b", "axb\n", False),
        ("first\n…\nlast", "first\nlast\n", True),
        ("first\n…\nlast", "first\nx\ny\nlast\n", True),
        ("first\n…\nlast", "first\nx\n", False),
    ],
)
def test_the_wildcard_stands_for_what_it_says(expected: str, printed: str, agrees: bool) -> None:
    assert _agrees(expected, printed) is agrees


def test_a_session_is_cut_into_commands_and_their_output() -> None:
    session = "$ one\nsays\n$ two <<E\n> text\n> E\n$ three\n"
    assert list(_steps(session)) == [("one", "says"), ("two <<E\ntext\nE", ""), ("three", "")]
