"""Tools, images and PDFs through all three APIs, from the Python call to the wire and back: what a model asks for
arrives byte for byte however its vendor tells it, and what it is told is in the API's own form."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from routekit import Router
from tests.honest.conftest import Make, two
from tests.loopback import Loopback

CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic-messages"
#: bytes that any re-serialising would change: spacing, escapes, order, an emoji, a nested quote
A = '{ "city" : "Z\\u00fcrich",  "days":[1,2 , 3], "q":"\\"\\\\n\\"" }'
B = '{"where":"🌊 sea","n":1.0,"a":{}}'
CALLS = [("call_a", "weather", A), ("call_b", "swim", B)]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"the {name}",
            "parameters": {"type": "object", "properties": {"x": {"type": "string"}}},
        },
    }
    for name in ("weather", "swim")
]


def data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def named(value: Any) -> str:
    return f"event: {value['type']}\n{data(value)}"


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size or 1)]


def interleaved(size: int) -> list[tuple[int, str]]:
    """The pieces of both calls in turn, as (call, piece)."""
    first, second = cut(A, size), cut(B, size)
    pairs = []
    for at in range(max(len(first), len(second))):
        pairs += [(0, first[at])] if at < len(first) else []
        pairs += [(1, second[at])] if at < len(second) else []
    return pairs


# -- as chat vendors tell them -----------------------------------------------------------------------------------------


def chunk(delta: Any, finish: str | None = None, **more: Any) -> str:
    return data({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


def piece(text: str, **more: Any) -> dict[str, Any]:
    name = more.pop("name", None)
    return {**more, "function": {"arguments": text, **({"name": name} if name else {})}}


def chat(*batches: Sequence[dict[str, Any]], finish: str = "tool_calls") -> list[str]:
    end = [chunk({}, finish), data({"id": "c", "model": "m", "choices": [], "usage": {"prompt_tokens": 9}})]
    return [chunk({"role": "assistant"}), *(chunk({"tool_calls": list(b)}) for b in batches), *end, "data: [DONE]\n\n"]


def starts(**more: Any) -> list[dict[str, Any]]:
    return [
        piece("", id=id, name=name, **({"index": n} if more.get("index", True) else {}))
        for n, (id, name, _) in enumerate(CALLS)
    ]


IDS = [id for id, _, _ in CALLS]
CHAT_WAYS: dict[str, list[str]] = {
    "interleaved by index": chat(
        *([start] for start in starts()), *([piece(text, index=n)] for n, text in interleaved(7))
    ),
    "both in one event": chat(starts(), *([piece(text, index=n)] for n, text in interleaved(9))),
    "without an index, by id": chat(
        *([start] for start in starts(index=False)), *([piece(text, id=IDS[n])] for n, text in interleaved(5))
    ),
    "without an index or id, one after the other": chat(
        *([piece("", id=id, name=name)] + [piece(text) for text in cut(whole, 8)] for id, name, whole in CALLS)
    ),
    "whole in one event each, all of index 0": chat(
        *([piece(whole, index=0, id=id, name=name)] for id, name, whole in CALLS), finish="stop"
    ),
    "id, name and type repeated": chat(
        *([piece(text, index=n, id=CALLS[n][0], name=CALLS[n][1], type="function")] for n, text in interleaved(11))
    ),
    "id and name empty after the first": chat(
        *([start] for start in starts()), *([piece(text, index=n, id="")] for n, text in interleaved(6))
    ),
}


# -- as responses and messages tell them -------------------------------------------------------------------------------


def of_responses(*, size: int, interleave: bool, index: bool = True, done: bool = True) -> list[str]:
    def place(n: int) -> dict[str, Any]:
        return {"item_id": f"fc_{n}", **({"output_index": n} if index else {})}

    items = [
        {"type": "function_call", "id": f"fc_{n}", "call_id": id, "name": name, "arguments": ""}
        for n, (id, name, _) in enumerate(CALLS)
    ]
    added = [{"type": "response.output_item.added", **place(n), "item": item} for n, item in enumerate(items)]
    pieces = interleaved(size) if interleave else [(n, p) for n, c in enumerate(CALLS) for p in cut(c[2], size)]
    deltas = [{"type": "response.function_call_arguments.delta", **place(n), "delta": text} for n, text in pieces]
    ends = [{"type": "response.function_call_arguments.done", **place(n), "arguments": CALLS[n][2]} for n in range(2)]
    whole = [{**item, "arguments": CALLS[n][2]} for n, item in enumerate(items)]
    last = {"type": "response.completed", "response": {"id": "r", "model": "m", "output": whole, "usage": {}}}
    return [named(event) for event in [*added, *(deltas if size else []), *(ends if done else []), last]]


def of_messages(size: int, *, empty: bool = False) -> list[str]:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "x", "model": "m", "usage": {"input_tokens": 9}}}
    ]
    for n, (id, name, whole) in enumerate(CALLS):
        block = {"type": "tool_use", "id": id, "name": name, "input": {}}
        events.append({"type": "content_block_start", "index": n, "content_block": block})
        for text in [*([""] if empty else []), *cut(whole, size)]:
            delta = {"type": "input_json_delta", "partial_json": text}
            events.append({"type": "content_block_delta", "index": n, "delta": delta})
        events += [{"type": "content_block_stop", "index": n}, {"type": "ping"}]
    stop = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}
    return [named(event) for event in [*events, stop, {"type": "message_stop"}]]


WAYS: dict[str, tuple[str, list[str]]] = {
    **{f"chat: {name}": (CHAT, frames) for name, frames in CHAT_WAYS.items()},
    "responses: interleaved": (RESPONSES, of_responses(size=7, interleave=True)),
    "responses: without output_index": (RESPONSES, of_responses(size=5, interleave=True, index=False)),
    "responses: deltas without done": (RESPONSES, of_responses(size=9, interleave=False, done=False)),
    "responses: done without deltas": (RESPONSES, of_responses(size=0, interleave=False)),
    "responses: told at the end only": (RESPONSES, of_responses(size=0, interleave=False)[-1:]),
    "messages: in pieces": (MESSAGES, of_messages(6)),
    "messages: an empty piece first": (MESSAGES, of_messages(50, empty=True)),
}


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "bytewise"])
def test_parallel_tool_calls_arrive_byte_for_byte(name: str, bytewise: bool, make: Make, loopback: Loopback) -> None:
    api, frames = WAYS[name]
    loopback.script("m", {"sse": frames, "bytewise": bytewise})
    answered = make(two(loopback, api)).ask("go", model="r", tools=TOOLS)
    found = [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in answered.tool_calls]
    assert found == CALLS
    assert (answered.finish_reason, answered.served_by) == ("tool_calls", "a/m")
    assert len(loopback.requests) == 1


# -- the way back ------------------------------------------------------------------------------------------------------


def asked_for(make: Make, loopback: Loopback, api: str) -> tuple[Router, Any, Any]:
    """A model that asks for two tools, and the conversation up to their results."""
    ways = {
        CHAT: CHAT_WAYS["interleaved by index"],
        RESPONSES: of_responses(size=7, interleave=True),
        MESSAGES: of_messages(6),
    }
    loopback.script("m", {"sse": ways[api]}, {"tokens": 2})
    router = make(two(loopback, api))
    answered = router.ask("go", model="r", tools=TOOLS)
    history = [
        {"role": "user", "content": "go"},
        answered.message,
        {"role": "tool", "tool_call_id": "call_a", "content": "22 °C"},
        {"role": "tool", "tool_call_id": "call_b", "content": "no"},
    ]
    return router, history, answered


def test_the_tools_own_words_go_back_in_chats_form(make: Make, loopback: Loopback) -> None:
    router, history, _ = asked_for(make, loopback, CHAT)
    router.ask(history, model="r", tools=TOOLS, tool_choice="auto")
    body = loopback.requests[1].body
    assert body["messages"][1]["tool_calls"] == [
        {"id": id, "type": "function", "function": {"name": name, "arguments": text}} for id, name, text in CALLS
    ]
    assert body["messages"][2:] == history[2:]
    assert (body["tools"], body["tool_choice"]) == (TOOLS, "auto")


def test_the_tools_own_words_go_back_in_the_form_of_responses(make: Make, loopback: Loopback) -> None:
    router, history, _ = asked_for(make, loopback, RESPONSES)
    router.ask(history, model="r", tools=TOOLS, tool_choice={"type": "function", "function": {"name": "swim"}})
    body = loopback.requests[1].body
    assert body["input"] == [
        {"role": "user", "content": "go"},
        *({"type": "function_call", "call_id": id, "name": name, "arguments": text} for id, name, text in CALLS),
        {"type": "function_call_output", "call_id": "call_a", "output": "22 °C"},
        {"type": "function_call_output", "call_id": "call_b", "output": "no"},
    ]
    assert body["tools"] == [{"type": "function", **tool["function"]} for tool in TOOLS]
    assert body["tool_choice"] == {"type": "function", "name": "swim"}


def test_the_tools_own_words_go_back_in_the_form_of_messages(make: Make, loopback: Loopback) -> None:
    router, history, _ = asked_for(make, loopback, MESSAGES)
    router.ask(history, model="r", tools=TOOLS, tool_choice="required")
    body = loopback.requests[1].body
    assert body["messages"] == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": id, "name": name, "input": json.loads(text)} for id, name, text in CALLS
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_a", "content": "22 °C"},
                {"type": "tool_result", "tool_use_id": "call_b", "content": "no"},
            ],
        },
    ]
    assert [tool["name"] for tool in body["tools"]] == ["weather", "swim"]
    assert body["tools"][0]["input_schema"] == TOOLS[0]["function"]["parameters"]  # type: ignore[index]
    assert body["tool_choice"] == {"type": "any"}


@pytest.mark.parametrize("other", [CHAT, RESPONSES, MESSAGES])
def test_calls_made_through_one_api_are_carried_on_through_another(
    other: str, api: str, make: Make, loopback: Loopback
) -> None:
    router, history, _ = asked_for(make, loopback, api)
    rows = f'[providers.o]\napi = "{other}"\nbase_url = "{loopback.url(other)}"\nkey = "none"\n'
    loopback.script("x", {"tokens": 1})
    assert make(rows).ask(history, model="o/x", tools=TOOLS).served_by == "o/x"
    body = loopback.requests[1].body
    turns = body.get("messages") or body["input"]
    flat = json.dumps(turns, ensure_ascii=False)
    assert flat.index("call_a") < flat.index("call_b")
    assert flat.count("call_a") == flat.count("call_b") == 2
    if other != MESSAGES:
        told = [c["function"]["arguments"] for turn in turns for c in turn.get("tool_calls", ())]
        told += [turn["arguments"] for turn in turns if turn.get("type") == "function_call"]
        assert told == [A, B]
    router.close()


def test_a_call_is_taken_over_by_another_api_when_its_vendor_fails(make: Make, loopback: Loopback) -> None:
    # chat, then messages: the conversation with its tools moves as a whole
    router, history, _ = asked_for(make, loopback, CHAT)
    router.close()
    rows = "".join(
        f'[providers.{name}]\napi = "{api}"\nbase_url = "{loopback.url(api)}"\nkey = "none"\n'
        for name, api in (("c", CHAT), ("d", MESSAGES))
    )
    loopback.script("m", {"status": 503})
    answered = make(f'{rows}[routes.r]\ntargets = ["c/m", "d/n"]\n').ask(history, model="r", tools=TOOLS)
    assert answered.served_by == "d/n"
    results = loopback.requests[-1].body["messages"][-1]["content"]
    assert [block["tool_use_id"] for block in results] == ["call_a", "call_b"]


# -- images and PDFs ---------------------------------------------------------------------------------------------------

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4\n1 0 obj\n%%EOF\n"


def payloads(body: Any) -> list[bytes]:
    """Every base64 thing in a body, decoded, in order."""
    found: list[bytes] = []

    def walk(value: Any, name: str = "") -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, key)
        elif isinstance(value, list):
            for inner in value:
                walk(inner, name)
        elif isinstance(value, str) and (name == "data" or ";base64," in value[:60]):
            found.append(base64.b64decode(value.rpartition(",")[2]))

    walk(body.get("messages") or body.get("input"))
    return found


def test_images_and_pdfs_reach_the_vendor_byte_for_byte(api: str, make: Make, loopback: Loopback) -> None:
    router = make(two(loopback, api))
    router.ask("look", model="r", attachments=[PNG, PDF])
    assert payloads(loopback.requests[0].body) == [PNG, PDF]


def test_an_attachment_survives_the_failover_to_another_api(api: str, make: Make, loopback: Loopback) -> None:
    rows = "".join(
        f'[providers.{name}]\napi = "{of}"\nbase_url = "{loopback.url(of)}"\nkey = "none"\n'
        for name, of in (("x", api), ("c", CHAT), ("o", RESPONSES), ("m", MESSAGES))
    )
    for model in "123":
        loopback.script(model, {"status": 500})
    targets = '"x/1", "c/2", "o/3", "m/4"'
    answered = make(f"{rows}[routes.r]\ntargets = [{targets}]\n").ask("look", model="r", attachments=[PNG, PDF])
    assert answered.served_by == "m/4"
    assert len(loopback.requests) == 7
    for request in loopback.requests:
        assert payloads(request.body) == [PNG, PDF]


def test_a_pdf_moves_past_a_model_known_not_to_read_it(api: str, make: Make, loopback: Loopback) -> None:
    text = two(loopback, api, more="[providers.a.model_info.m]\npdf = false\n")
    answered = make(text).ask("read", model="r", attachments=[PDF])
    assert answered.served_by == "b/n"
    assert [request.model for request in loopback.requests] == ["n"]
    assert [(skip.target, skip.reason) for skip in answered.record.skipped] == [("a/m", "cannot take pdf")]


REFUSALS: dict[str, tuple[bytes, dict[str, Any]]] = {
    CHAT: (PNG, {"error": {"message": "This model does not support image input.", "type": "invalid_request_error"}}),
    RESPONSES: (PDF, {"error": {"message": "This model does not support file content types: pdf", "code": None}}),
    MESSAGES: (
        PDF,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "PDF input is not supported"}},
    ),
}


def test_a_model_that_turns_out_not_to_read_it_is_left_and_not_cooled(api: str, make: Make, loopback: Loopback) -> None:
    content, body = REFUSALS[api]
    loopback.script("m", {"status": 400, "body": body})
    router = make(two(loopback, api))
    assert router.ask("read", model="r", attachments=[content]).served_by == "b/n"
    assert [request.model for request in loopback.requests] == ["m", "n"]
    assert router.ask("read", model="r", attachments=[content]).served_by == "b/n"


def test_nobody_who_can_read_it_is_the_requests_own_fault(api: str, make: Make, loopback: Loopback) -> None:
    from tests.honest.conftest import fails

    more = "[providers.a.model_info.m]\npdf = false\n[providers.b.model_info.n]\npdf = false\n"
    error = fails(make(two(loopback, api, more=more)), "read", model="r", attachments=[PDF])
    assert error.exit_code == 65
    assert loopback.requests == []
    assert "pdf" in str(error).lower() or any("pdf" in line for line in error.details)
