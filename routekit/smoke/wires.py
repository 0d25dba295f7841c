"""What vendors send, as far as the drills need it: whole answers, cut ones, refusals. It judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import httpx2

TEXT = "Here I am."
#: where each API's drills believe its vendor to be; nothing is ever sent there
ADDRESSES = {
    "openai-chat": "https://chat.invalid/v1",
    "openai-responses": "https://responses.invalid/v1",
    "anthropic-messages": "https://messages.invalid",
}


def _frame(data: Mapping[str, Any]) -> str:
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {msgspec.json.encode(data).decode()}\n\n"


def _chunk(model: str, **choice: Any) -> dict[str, Any]:
    return {"id": "c-1", "object": "chat.completion.chunk", "model": model, "choices": [{"index": 0, **choice}]}


#: the frames of an answer, and those that end it
Frames = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def _chat(model: str) -> Frames:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    body = [_chunk(model, delta={"role": "assistant", "content": TEXT})]
    return body, [_chunk(model, delta={}, finish_reason="stop"), {"model": model, "choices": [], "usage": usage}]


def _responses(model: str) -> Frames:
    base = {"id": "r-1", "object": "response", "model": model, "output": []}
    where = {"item_id": "m-1", "output_index": 0, "content_index": 0}
    body: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**base, "status": "in_progress"}},
        {"type": "response.output_text.delta", **where, "delta": TEXT},
    ]
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    return body, [{"type": "response.completed", "response": {**base, "status": "completed", "usage": usage}}]


def _messages(model: str) -> Frames:
    start = {"id": "m-1", "type": "message", "role": "assistant", "model": model, "content": []}
    body: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "usage": {"input_tokens": 7, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
    ]
    return body, [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]


APIS = {"openai-chat": _chat, "openai-responses": _responses, "anthropic-messages": _messages}


def answer(api: str, model: str, *, cut: bool = False) -> httpx2.Response:
    """A whole answer; ``cut``: the connection ends well after the text, without the API's own end of an answer."""
    import httpx2

    body, end = APIS[api](model)
    text = "".join(_frame(row) for row in (body if cut else [*body, *end]))
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=text.encode())


def refusal(status: int, error: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> httpx2.Response:
    import httpx2

    return httpx2.Response(status, json={"type": "error", "error": dict(error)}, headers=dict(headers or {}))


def account(id: str, api: str = "openai-chat", *, key: str = "none") -> str:
    """A provider of a real API, as configuration."""
    return f'[providers.{id}]\napi = "{api}"\nbase_url = "{ADDRESSES[api]}"\nkey = "{key}"\nmodels = ["m", "n"]\n'
