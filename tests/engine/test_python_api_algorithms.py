"""Selection algorithms of other people: registered by hand or found among the installed packages, in use for real."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from routekit import ConfigError, Router, UsageError, testing
from routekit.simple import Shared
from tests.loopback import Loopback, loopback

__all__ = ["loopback"]

TOML = """
[providers.a]
api = "scripted"
[providers.b]
api = "scripted"
[routes.chat]
selection = "least-dispatched"
targets = ["a/m", { target = "b/m", weight = 2 }]
[defaults]
route = "chat"
"""


@pytest.fixture
def example(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("least_dispatched", root / "examples" / "least_dispatched.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def staged(example: ModuleType, **scripts: Any) -> testing.TestRouter:
    algorithms = {"least-dispatched": example.LeastDispatched}
    return testing.router_from(TOML, scripts={"a": ["a"], "b": ["b"], **scripts}, algorithms=algorithms)


def test_the_example_gives_everybody_a_share_by_weight(example: ModuleType) -> None:
    router = staged(example)
    served = [router.ask("hi").served_by for _ in range(9)]
    assert served[:3] == ["a/m", "b/m", "b/m"]
    assert (served.count("a/m"), served.count("b/m")) == (3, 6)


def test_the_example_fails_over_and_the_failed_turn_counts(example: ModuleType) -> None:
    router = staged(example, a=[testing.fails("model_gone")])
    answer = router.ask("hi")
    assert answer.served_by == "b/m"
    assert testing.attempts(router) == [("a/m", "failed"), ("b/m", "success")]
    assert answer.record.decisions[0].algorithm == "least-dispatched"
    assert router.preview().algorithm == "least-dispatched"


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_registering_needs_no_configuration_and_counts_for_the_router_opened_later(
    example: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUTEKIT_HOME", str(home))
    shared = Shared()
    shared.register("least-dispatched", example.LeastDispatched)
    with pytest.raises(UsageError, match="already registered"):
        shared.register("least-dispatched", example.LeastDispatched)
    with pytest.raises(UsageError, match="already registered"):
        shared.register("ordered", example.LeastDispatched)
    (home / "config.toml").write_text(TOML.replace('api = "scripted"', 'api = "openai-chat"\nbase_url = "http://x"'))
    assert shared.router().preview().algorithm == "least-dispatched"
    shared.register("later", example.LeastDispatched)
    assert shared.router().registry.has("later")


def test_a_name_nobody_knows_is_an_error_that_lists_those_known() -> None:
    with pytest.raises(ConfigError) as wrong:
        Router.from_toml(TOML.replace('api = "scripted"', 'api = "openai-chat"\nbase_url = "http://x"'))
    (problem,) = wrong.value.problems
    assert "least-dispatched" in str(problem)
    assert "smooth" in str(problem)


# -- installed ---------------------------------------------------------------------------------------------------------

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, root: Path) -> Install:
    """Put the example where Python finds it, as an installed package would: the module and its metadata."""

    def put(target: str = "least_dispatched:LeastDispatched") -> Path:
        place = tmp_path / "site"
        info = place / "least_dispatched-1.0.dist-info"
        info.mkdir(parents=True)
        shutil.copy(root / "examples" / "least_dispatched.py", place)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: least-dispatched\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[routekit.algorithms]\nleast-dispatched = {target}\n")
        return place

    return put


def in_the_shell(place: Path, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "routekit", *arguments],
        env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{place}"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=40,
        check=False,
    )


@pytest.fixture
def real(loopback: Loopback, home: Path, monkeypatch: pytest.MonkeyPatch) -> Loopback:
    """Two real accounts on the loopback vendor, under a configuration that names the example."""
    monkeypatch.setenv("ROUTEKIT_HOME", str(home))
    account = f'api = "openai-chat"\nbase_url = "{loopback.url()}"\nkey = "none"'
    text = TOML.replace('api = "scripted"', account).replace("a/m", "a/first").replace("b/m", "b/second")
    (home / "config.toml").write_text(text)
    return loopback


def test_an_installed_algorithm_chooses_and_fails_over_in_the_shell(
    real: Loopback, install: Install, root: Path
) -> None:
    real.script("first", {"status": 404, "body": json.dumps({"error": {"code": "model_not_found", "message": "gone"}})})
    real.script("second", {"tokens": 1})
    done = in_the_shell(install(), root, "ask", "--json", "hi")
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert [row["target"] for row in body["attempts"]] == ["a/first", "b/second"]
    assert {row["algorithm"] for row in body["decisions"]} == {"least-dispatched"}


def test_without_the_package_the_configuration_says_which_selection_is_unknown(
    real: Loopback, tmp_path: Path, root: Path
) -> None:
    done = in_the_shell(tmp_path, root, "routes", "preview", "chat")
    assert done.returncode == 78
    assert "least-dispatched" in done.stderr
    assert real.requests == []


def test_a_package_that_cannot_be_loaded_is_named(real: Loopback, install: Install, root: Path) -> None:
    done = in_the_shell(install("least_dispatched:Gone"), root, "routes", "preview", "chat")
    assert done.returncode == 78
    assert "'least-dispatched' of least-dispatched cannot be loaded: AttributeError" in done.stderr
    assert "Traceback" not in done.stderr


def test_installed_packages_are_looked_through_only_for_a_name_that_is_not_known(root: Path) -> None:
    code = (
        "import sys; from routekit import testing\n"
        'toml = \'[providers.a]\\napi = "scripted"\\n[routes.r]\\nselection = "smooth"\\ntargets = ["a/m"]\\n\'\n'
        "router = testing.router_from(toml, scripts={'a': ['hi']}); router.preview('r')\n"
        "print('importlib.metadata' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
