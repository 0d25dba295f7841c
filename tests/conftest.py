"""What every test stands on: an empty home, an environment without keys, and tools that must be there when it counts.

It knows nothing of any one part of routekit; a rig for one part lives beside that part's tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
#: the environment as it was before any test changed it: what installing a package needs (its cache, its settings)
ORIGINAL = dict(os.environ)

#: variables that could give a test a key, another place, another look or a way out of this machine
_FOREIGN = ("ROUTEKIT_", "_ROUTEKIT_", "OPENAI_", "ANTHROPIC_", "AZURE_", "XDG_", "CLICOLOR", "LC_")
_FOREIGN_NAMES = frozenset(
    "NO_COLOR FORCE_COLOR COLORTERM COLUMNS LINES DBUS_SESSION_BUS_ADDRESS DISPLAY WAYLAND_DISPLAY EDITOR VISUAL PAGER "
    "PYTHON_KEYRING_BACKEND PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED PYTHONWARNINGS HTTP_PROXY HTTPS_PROXY ALL_PROXY "
    "NO_PROXY http_proxy https_proxy all_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE".split()
)
_KEPT = frozenset({"ROUTEKIT_REQUIRE_ALL"})

# Timings never decide a test; in CI the same examples are drawn every time.
hypothesis.settings.register_profile("routekit", deadline=None, derandomize="CI" in os.environ, database=None)
hypothesis.settings.load_profile("routekit")


def _is_foreign(name: str) -> bool:
    if name in _KEPT:
        return False
    return name in _FOREIGN_NAMES or name.startswith(_FOREIGN) or name.endswith("_API_KEY")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory, and an environment in which nothing of the developer's shows through."""
    for name in list(os.environ):
        if _is_foreign(name):
            monkeypatch.delenv(name)
    place = tmp_path / "home"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    return place


@pytest.fixture
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture
def original_environment() -> dict[str, str]:
    """The environment before isolation, for steps that install packages. Never for running routekit."""
    return dict(ORIGINAL)


@pytest.fixture(scope="session")
def need() -> Callable[..., str]:
    """``need("zsh")`` is the tool's path. Without it the test is skipped on a person's machine, and fails where
    ``ROUTEKIT_REQUIRE_ALL`` says that nothing may be missing."""

    def find(tool: str, package: str | None = None) -> str:
        path = shutil.which(tool)
        if path is None:
            missing(f"{tool} is not installed; try: apt-get install {package or tool}")
        return str(path)

    return find


def missing(what: str) -> None:
    """End the test because a tool is absent: a failure where every tool is required, a skip elsewhere."""
    if ORIGINAL.get("ROUTEKIT_REQUIRE_ALL"):
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="session")
def absent() -> Callable[[str], None]:
    """``absent("…")`` says that something optional other than a program is not there (see ``need``)."""
    return missing


Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """``cli("ask", "hi", stdin="…", env={…})`` runs routekit as a process of its own, in an empty working directory,
    without a terminal. ``stdin`` unsaid is an empty one."""
    place = tmp_path / "cwd"
    place.mkdir(exist_ok=True)

    def run(
        *arguments: str,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        python: Sequence[str] = (),
        timeout: float = 30.0,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *python, "-m", "routekit", *arguments],
            input=stdin,
            env={**os.environ, **(env or {})},
            cwd=place,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )

    return run
