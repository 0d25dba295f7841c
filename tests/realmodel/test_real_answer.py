"""A real model behind a dead primary: the shell's answer comes from it, through each wire API."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.realmodel]

APIS = ("openai-chat", "openai-responses", "anthropic-messages")
CONFIG = """\
version = 1

[defaults]
route = "both"

[providers.dead]
api = "{api}"
base_url = "http://127.0.0.1:{closed}/v1"
key = "none"
models = ["gone"]

[providers.local]
api = "{api}"
base_url = "{base_url}"
key = "none"
models = ["{name}"]

[routes.both]
targets = ["dead/gone", "local/{name}"]
"""


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A loopback port that refuses every connection: bound, so that nobody else gets it, and never listened on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture(params=APIS)
def configured(
    request: pytest.FixtureRequest, model: Any, closed_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    place = tmp_path / "routekit"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("ROUTEKIT_HOME", str(place))
    text = CONFIG.format(api=request.param, closed=closed_port, base_url=model.base_url(request.param), name=model.name)
    (place / "config.toml").write_text(text, "utf-8")
    return place


def _ask(cli: Any, *more: str) -> dict[str, Any]:
    done = cli("ask", "-m", "both", "--json", "-o", "max_tokens", "16", *more, "Say hello.", timeout=50)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_real_model_answers_when_the_primary_is_down(configured: Path, cli: Any, model: Any) -> None:
    answer = _ask(cli)
    assert answer["response"].strip()
    assert answer["served_by"] == f"local/{model.name}"
    assert answer["output_tokens"] > 0
    assert answer["finish_reason"] in {"stop", "length"}
    tried = [(attempt["target"], attempt["outcome"]) for attempt in answer["attempts"]]
    assert tried[-1] == (f"local/{model.name}", "success")
    assert {outcome for target, outcome in tried if target == "dead/gone"} == {"failed"}


def test_the_next_process_leaves_the_dead_primary_alone(configured: Path, cli: Any, model: Any) -> None:
    _ask(cli)
    answer = _ask(cli)
    assert [attempt["target"] for attempt in answer["attempts"] if attempt["outcome"] != "probe"] == [
        f"local/{model.name}"
    ]
    assert [skip["target"] for skip in answer["skipped"]] == ["dead/gone"]


def test_the_plain_answer_is_the_model_s_text_and_nothing_else(configured: Path, cli: Any) -> None:
    done = cli("ask", "-m", "both", "-o", "max_tokens", "16", "Say hello.", timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert done.stdout.endswith("\n")
    assert "dead/gone" in done.stderr
    assert "dead" not in done.stdout
