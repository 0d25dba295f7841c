"""The package as others get it: one wheel, alone in an empty environment, with the newest and the oldest it allows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from routekit.version import __version__
from tests.bench.startup import CONFIG, vendor

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# a cold package cache takes minutes
pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

#: imports every module of the installed package, and says which one failed
IMPORT_ALL = """
import importlib, pkgutil, routekit
for module in pkgutil.walk_packages(routekit.__path__, "routekit."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        print(module.name)
"""


def _run(*command: str | Path, env: Mapping[str, str], cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], env=dict(env), cwd=cwd, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture
def install_environment(original_environment: dict[str, str]) -> dict[str, str]:
    """Installing needs the machine's own settings and cache, and must not see the working tree."""
    return {name: value for name, value in original_environment.items() if not name.startswith("PYTHON")}


@pytest.fixture
def run_environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


@pytest.fixture
def wheel(tmp_path: Path, install_environment: dict[str, str]) -> Path:
    target = tmp_path / "dist"
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", target, ROOT, env=install_environment, cwd=tmp_path)
    return next(target.glob("*.whl"))


def _oldest() -> str:
    """Every lower bound as an exact version."""
    pairs = [re.match(r"([\w.-]+)>=([\w.]+)", line) for line in PROJECT["dependencies"]]
    assert all(pairs), "a dependency has no lower bound"
    return "\n".join(f"{pair[1]}=={pair[2]}" for pair in pairs if pair)


def _ask_each_api(routekit: Path, env: Mapping[str, str], cwd: Path) -> dict[str, str]:
    """What the installed SDKs make of a loopback vendor's answer, by wire API."""
    home = cwd / "routekit-home"
    home.mkdir(mode=0o700)
    with vendor() as url:
        (home / "config.toml").write_text(CONFIG.format(url=url), "utf-8")
        there = {**env, "ROUTEKIT_HOME": str(home)}
        return {
            provider: _run(routekit, "ask", "-m", f"{provider}/m", "hello", env=there, cwd=cwd)
            for provider in ("chat", "responses", "messages")
        }


def _smoke(routekit: Path, env: Mapping[str, str], cwd: Path) -> None:
    """The drills pass, and take no more of the machine than a person waits for: three seconds, SDKs and all."""
    before = os.times()
    passed, total = _run(routekit, "smoke", env=env, cwd=cwd).split()[-1].split("/")
    after = os.times()
    assert passed == total
    assert after.children_user + after.children_system - before.children_user - before.children_system <= 3.0


@pytest.mark.parametrize("age", ["newest", "oldest"])
def test_the_wheel_runs_alone_in_an_empty_environment(
    age: str, wheel: Path, tmp_path: Path, install_environment: dict[str, str], run_environment: dict[str, str]
) -> None:
    place = tmp_path / "env"
    venv.create(place, with_pip=True, symlinks=True)
    bounds = tmp_path / "bounds.txt"
    bounds.write_text(_oldest() if age == "oldest" else "")
    python = place / "bin" / "python"
    _run(python, "-m", "pip", "install", "-q", "-c", bounds, wheel, env=install_environment, cwd=tmp_path)

    routekit = place / "bin" / "routekit"
    assert __version__ in _run(routekit, "--version", env=run_environment, cwd=tmp_path)
    assert "ask" in _run(routekit, "--help", env=run_environment, cwd=tmp_path)
    assert _run(routekit, "--profile", "demo", "ask", "hello", env=run_environment, cwd=tmp_path).strip()
    for provider, answer in _ask_each_api(routekit, run_environment, tmp_path).items():
        assert answer == "hi\n", provider
    _smoke(routekit, run_environment, tmp_path)
    imported = _run(python, "-c", IMPORT_ALL, env=run_environment, cwd=tmp_path).split()
    assert "routekit.errors" in imported
    _run(python, "-m", "pip", "check", env=install_environment, cwd=tmp_path)


def test_the_wheel_holds_the_package_and_nothing_beside_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not re.fullmatch(r"routekit-[\w.]+\.(dist-info|data)", top)} == {"routekit"}
    assert "routekit/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    places = {name.partition(".data/data/")[2] for name in names}
    assert {
        "share/bash-completion/completions/routekit",
        "share/zsh/site-functions/_routekit",
        "share/fish/vendor_completions.d/routekit.fish",
    } <= places
    shipped = {path.relative_to(ROOT).as_posix() for path in (ROOT / "routekit").rglob("*.py")}
    assert {name for name in names if name.startswith("routekit/") and name.endswith(".py")} == shipped
