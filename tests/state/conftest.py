"""The rig of the store's tests: real processes that share a file, and an unprivileged one where permissions matter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHILD = Path(__file__).with_name("child.py")
NOBODY = 65534

Start = Callable[..., "subprocess.Popen[str]"]
Report = dict[str, Any]


@pytest.fixture
def start(root: Path) -> Iterator[Start]:
    """``start("add", path, 100)`` starts ``child.py`` on a store; every child is gone after the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(CHILD), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def finish() -> Callable[[subprocess.Popen[str]], Report]:
    """Let a child go, wait for it, and read what it reports; it must have ended well."""

    def end(process: subprocess.Popen[str]) -> Report:
        out, err = process.communicate("go\n", timeout=50)
        assert process.returncode == 0, err
        report: Report = json.loads(out.splitlines()[-1])
        return report

    return end


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that an unprivileged user owns and can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="routekit-state-"))
    if os.getuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    yield folder
    for name, _, _ in os.walk(folder):
        os.chmod(name, 0o700)
    shutil.rmtree(folder)
