"""A laptop without network: whole processes in a network namespace that has none. Nobody is cooled for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CONFIG = """\
version = 1
[defaults]
route = "chat"
[limits]
connect = "2s"
[providers.a]
api = "openai-chat"
base_url = "https://vendor-one.example/v1"
key = "none"
[providers.b]
api = "{api}"
base_url = "{b}"
key = "none"
[routes.chat]
targets = ["a/m", "b/n"]
"""
SAID = "this machine seems to be offline: no vendor could be reached, so none was cooled"

Island = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def island(tmp_path: Path, need: Callable[..., str], root: Path) -> Island:
    """``island(*commands)`` runs routekit with these arguments, one process after another, without a network;
    ``answers`` puts one vendor where it can be reached."""
    home = tmp_path / "rk"
    home.mkdir(mode=0o700)

    def land(*commands: list[str], b: str = "https://203.0.113.7/v1", answers: Any = None) -> list[dict[str, Any]]:
        asked: dict[str, Any] = {"commands": commands, "config": CONFIG.format(b=b, api="openai-chat")}
        asked |= {} if answers is None else {"answers": answers}
        own = [] if os.geteuid() == 0 else ["--map-root-user"]
        done = subprocess.run(
            [
                need("unshare", "util-linux"),
                "--net",
                *own,
                sys.executable,
                "-m",
                "tests.honest.island",
                json.dumps(asked),
            ],
            env={**os.environ, "ROUTEKIT_HOME": str(home), "PYTHONPATH": str(root)},
            cwd=root,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    return land


def test_three_asks_in_a_row_without_a_network_cool_nobody_and_say_so(island: Island) -> None:
    *asks, health = island(["ask", "hi"], ["ask", "hi"], ["ask", "hi"], ["health", "--json"])
    for done in asks:
        assert (done["code"], done["out"]) == (69, "")
        assert SAID in done["err"]
        assert "sleep" not in done["err"]
        # and each of them asked both again
        assert ("a/m: no connection to " in done["err"], "b/n: no connection to " in done["err"]) == (True, True)
    assert [row for row in json.loads(health["out"]) if row.get("state") != "well"] == []


def test_offline_is_in_the_json_too(island: Island) -> None:
    (done,) = island(["ask", "hi", "--json"])
    data = json.loads(done["out"])
    assert SAID in data["notes"]
    assert {row["target"]: row["window_s"] for row in data["attempts"]} == {"a/m": None, "b/n": None}


@pytest.mark.parametrize("step", [{}, {"status": 401}], ids=["answers", "refuses"])
def test_with_one_vendor_that_answers_the_other_is_cooled(step: dict[str, Any], island: Island) -> None:
    ask, health = island(["ask", "hi"], ["health", "--json"], b="{url}", answers={"n": [step]})
    assert ask["code"] == (69 if step else 0)
    assert SAID not in ask["err"]
    states = {row.get("target"): row["state"] for row in json.loads(health["out"])}
    assert states["a/m"] == "asleep"
