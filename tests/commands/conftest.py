"""Verbs in tests: keyring sessions, the loopback vendor, and a person who gives prepared answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from routekit.commands.report import Context
from tests.commands.person import Person
from tests.keyring.rig import (
    absent_keyring,
    dead_keyring,
    fresh_keyring,
    locked_keyring,
    silent_keyring,
    stopped_keyring,
    unlocked_keyring,
)
from tests.loopback import Loopback

__all__ = [
    "absent_keyring",
    "dead_keyring",
    "fresh_keyring",
    "locked_keyring",
    "silent_keyring",
    "stopped_keyring",
    "unlocked_keyring",
]


@pytest.fixture
def vendor() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


@pytest.fixture
def place(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that holds everything of routekit, for this test alone."""
    folder = home / "rk"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("ROUTEKIT_HOME", str(folder))
    return folder


@pytest.fixture
def config(place: Path) -> Callable[[str], Path]:
    """``config("…TOML…")`` writes the config file."""

    def write(text: str) -> Path:
        file = place / "config.toml"
        file.write_text("version = 1\n" + text, encoding="utf-8")
        file.chmod(0o600)
        return file

    return write


@pytest.fixture
def context(place: Path) -> Iterator[Callable[..., Context]]:
    """``context("answer", …)``: what a verb is given, with a person at a terminal who gives these answers; without any,
    nobody is there."""
    made: list[Context] = []

    def make(*answers: str | None, **environ: str) -> Context:
        made.append(Context(Person(answers), environ={**os.environ, **environ}))
        return made[-1]

    yield make
    for one in made:
        one.close()
