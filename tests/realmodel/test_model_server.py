"""The rig itself: the model's server speaks all three wire APIs, streamed, to the end marker of each."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.realmodel]

TALK = [{"role": "user", "content": "Say hello."}]


def _stream(url: str, body: dict[str, Any]) -> list[str]:
    """The lines of a streamed answer."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
        return [line for line in answer.read().decode().splitlines() if line]


def test_the_model_speaks_chat_completions(model: Any) -> None:
    body = {"model": model.name, "messages": TALK, "max_tokens": 16, "stream": True}
    lines = _stream(f"{model.url}/v1/chat/completions", body)
    assert lines[-1] == "data: [DONE]"
    pieces = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert "".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces if piece["choices"])


def test_the_model_speaks_responses(model: Any) -> None:
    body = {"model": model.name, "input": TALK, "max_output_tokens": 16, "stream": True}
    lines = _stream(f"{model.url}/v1/responses", body)
    final = json.loads(lines[-1].removeprefix("data: "))
    assert final["type"] in {"response.completed", "response.incomplete"}
    assert final["response"]["output"][0]["content"][0]["text"]


def test_the_model_speaks_anthropic_messages(model: Any) -> None:
    body = {"model": model.name, "messages": TALK, "max_tokens": 16, "stream": True}
    lines = _stream(f"{model.url}/v1/messages", body)
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert events[-1]["type"] == "message_stop"
    assert "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
