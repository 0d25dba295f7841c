"""Smoke in tests: a vendor on this machine, a folder with profiles, and what the verb shows, line by line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from routekit.commands.report import Context, Report
from routekit.commands.smoke import deployed
from tests.commands.person import Person
from tests.loopback import Loopback


@pytest.fixture
def vendor() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


@pytest.fixture
def place(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = home / "rk"
    (folder / "profiles").mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    monkeypatch.setenv("ROUTEKIT_HOME", str(folder))
    return folder


@pytest.fixture
def write(place: Path) -> Callable[..., Path]:
    """``write("…TOML…")`` writes the config file; ``write("…", "profiles/work.toml")`` another one beside it."""

    def put(text: str, name: str = "config.toml") -> Path:
        file = place / name
        file.write_text("version = 1\n" + text, encoding="utf-8")
        file.chmod(0o600)
        return file

    return put


class Run:
    """What one run of the verb gave back and showed."""

    def __init__(self, report: Report, person: Person) -> None:
        self.report, self.person = report, person

    @property
    def code(self) -> int:
        return self.report.exit_code

    @property
    def verdicts(self) -> list[str]:
        return [line for line in self.person.shown if line.startswith(("PASS", "FAIL"))]

    @property
    def text(self) -> str:
        return "\n".join([*self.person.shown, *self.person.said])


@pytest.fixture
def smoke(place: Path) -> Callable[..., Run]:
    """``smoke("work", "plan", each_target=True, env={…})`` is ``routekit smoke deployed work plan --each-target``."""

    def run(profile: str, *routes: str, env: dict[str, str] | None = None, patches: tuple[str, ...] = (), **how) -> Run:  # type: ignore[no-untyped-def]
        person = Person([])
        context = Context(person, environ={**os.environ, **(env or {})}, patches=patches)
        return Run(deployed(context, profile_name=profile, route=routes, **how), person)

    return run
