"""Bytes to events, events to deltas: the parts of reading an answer that need no connection."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core.chat import Delta, Usage
from routekit.vendors import sse
from routekit.vendors.anthropic_messages import MessagesReader
from routekit.vendors.openai_chat import ChatReader
from routekit.vendors.openai_responses import ResponsesReader
from routekit.vendors.reading import InStream

# -- server-sent events ------------------------------------------------------------------------------------------------

STREAM = (
    ': comment\n\nevent: a\ndata: 1\ndata: 2\n\ndata:{"x":"\u2028ü"}\r\n\r\nid: 7\nretry: 3\ndata: last\r\revent: e\n\n'
).encode()
EVENTS = [("a", "1\n2"), ("", '{"x":"\u2028ü"}'), ("", "last")]


def decoded(pieces: Iterable[bytes]) -> list[tuple[str, str]]:
    decoder = sse.Decoder()
    events = [event for piece in pieces for event in decoder.feed(piece)] + decoder.end()
    return [(event.name, event.data.decode()) for event in events]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_where_a_stream_is_cut_into_pieces_does_not_matter(cuts: list[int]) -> None:
    """Any cutting of the same bytes gives the same events."""
    edges = [0, *sorted(cuts), len(STREAM)]
    assert decoded(STREAM[a:b] for a, b in pairwise(edges)) == EVENTS


def test_the_last_event_counts_even_without_its_blank_line() -> None:
    assert decoded([b"data: x"]) == [("", "x")]
    assert decoded([b"event: only a name"]) == []


def test_an_endless_event_is_given_up() -> None:
    decoder = sse.Decoder()
    for _ in range(sse.LONGEST // 1_000_000):
        decoder.feed(b"x" * 1_000_000)
    with pytest.raises(sse.TooLong):
        decoder.feed(b"x" * 1_000_000)


def test_a_long_stream_of_short_events_is_no_endless_one() -> None:
    decoder = sse.Decoder()
    piece = b"data: " + b"x" * 990 + b"\n\n"
    assert sum(len(decoder.feed(piece * 1000)) for _ in range(60)) == 60_000


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":"\xff"}', b"[" * 100_000, b"NaN", b'{"a":1}x'])
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        sse.parse(data)


# -- tool calls (T15) --------------------------------------------------------------------------------------------------


def tools(deltas: Iterable[Delta]) -> list[tuple[str | None, str | None, str]]:
    calls: dict[int, list[Any]] = {}
    for delta in deltas:
        assert delta.kind == "tool"
        call = calls.setdefault(delta.index, [None, None, ""])
        # an id and a name come once
        assert not (delta.id and call[0])
        assert not (delta.name and call[1])
        call[0], call[1], call[2] = delta.id or call[0], delta.name or call[1], call[2] + delta.text
    return [tuple(calls[index]) for index in sorted(calls)]


def fragment(
    index: int | None = None, id: str | None = None, name: str | None = None, text: Any = ""
) -> dict[str, Any]:
    function = {"arguments": text, **({"name": name} if name is not None else {})}
    return {k: v for k, v in {"index": index, "id": id, "function": function}.items() if v is not None}


A, B = ("a", "f", '{"x":1}'), ("b", "g", '{"y":"zü"}')
FRAGMENTS = {
    "interleaved by index": [
        fragment(0, "a", "f", ""),
        fragment(1, "b", "g", '{"y"'),
        fragment(0, text='{"x"'),
        fragment(1, text=':"zü"}'),
        fragment(0, text=":1}"),
    ],
    "interleaved by id, no index": [
        fragment(None, "a", "f", '{"x"'),
        fragment(None, "b", "g", '{"y":'),
        fragment(None, "a", None, ":1}"),
        fragment(None, "b", None, '"zü"}'),
    ],
    "one after the other, nothing but the first says who": [
        fragment(None, "a", "f", '{"x"'),
        fragment(None, text=":1}"),
        fragment(None, "b", "g", '{"y":'),
        fragment(None, text='"zü"}'),
    ],
    "whole, all with index 0": [fragment(0, "a", "f", A[2]), fragment(0, "b", "g", B[2])],
    "id and name repeated in every fragment": [
        fragment(0, "a", "f", '{"x"'),
        fragment(1, "b", "g", '{"y":'),
        fragment(0, "a", "f", ":1}"),
        fragment(1, "b", "g", '"zü"}'),
    ],
    "empty id and name after the first": [
        fragment(0, "a", "f", '{"x"'),
        fragment(0, "", "", ":1}"),
        fragment(1, "b", "g", B[2]),
    ],
    "arguments as an object": [fragment(0, "a", "f", {"x": 1}), fragment(1, "b", "g", {"y": "zü"})],
    "some without an index": [
        fragment(0, "a", "f", '{"x"'),
        fragment(None, text=":1}"),
        fragment(1, "b", "g", '{"y":'),
        fragment(None, text='"zü"}'),
    ],
}


@pytest.mark.parametrize("case", FRAGMENTS)
@pytest.mark.parametrize("together", [False, True])
def test_parallel_tool_calls_come_together_byte_for_byte(case: str, together: bool) -> None:
    fragments = FRAGMENTS[case]
    reader = ChatReader()
    batches = [fragments] if together else [[piece] for piece in fragments]
    found = [d for batch in batches for d in reader.read("", {"choices": [{"delta": {"tool_calls": batch}}]})]
    assert tools(found) == [A, B]
    list(reader.read("", {"choices": [{"delta": {}, "finish_reason": "stop"}]}))
    finish = reader.finish()
    assert finish is not None
    assert finish.reason == "tool_calls"


def test_the_old_function_call_is_a_tool_call() -> None:
    reader = ChatReader()
    pieces = [{"name": "f", "arguments": '{"x"'}, {"arguments": ":1}"}]
    found = [d for piece in pieces for d in reader.read("", {"choices": [{"delta": {"function_call": piece}}]})]
    assert tools(found) == [(None, "f", '{"x":1}')]


def response_call(index: int, id: str, name: str) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc{index}", "call_id": id, "name": name, "arguments": ""}
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def argument(kind: str, index: int, **more: Any) -> dict[str, Any]:
    return {"type": f"response.function_call_arguments.{kind}", "output_index": index, "item_id": f"fc{index}", **more}


RESPONSES_CALLS = {
    "deltas, interleaved": [
        response_call(1, "a", "f"),
        response_call(2, "b", "g"),
        argument("delta", 2, delta='{"y":'),
        argument("delta", 1, delta='{"x":1}'),
        argument("delta", 2, delta='"zü"}'),
        argument("done", 1, arguments=A[2]),
        argument("done", 2, arguments=B[2]),
    ],
    "done only": [
        response_call(1, "a", "f"),
        argument("done", 1, arguments=A[2]),
        response_call(2, "b", "g"),
        argument("done", 2, arguments=B[2]),
    ],
    "items only": [
        {
            "type": "response.output_item.done",
            "output_index": number,
            "item": {"type": "function_call", "call_id": call[0], "name": call[1], "arguments": call[2]},
        }
        for number, call in enumerate((A, B))
    ],
    "the end only": [
        {
            "type": "response.completed",
            "response": {
                "output": [
                    {"type": "function_call", "call_id": call[0], "name": call[1], "arguments": call[2]}
                    for call in (A, B)
                ]
            },
        }
    ],
}


@pytest.mark.parametrize("case", RESPONSES_CALLS)
def test_tool_calls_of_responses_come_together_however_they_are_told(case: str) -> None:
    reader = ResponsesReader()
    events = [*RESPONSES_CALLS[case]]
    if events[-1]["type"] != "response.completed":
        events.append({"type": "response.completed", "response": {}})
    assert tools(d for event in events for d in reader.read("", event)) == [A, B]
    finish = reader.finish()
    assert finish is not None
    assert finish.reason == "tool_calls"


def test_tool_calls_of_messages_come_together() -> None:
    reader = MessagesReader()

    def start(index: int, id: str, name: str, **more: Any) -> dict[str, Any]:
        block = {"type": "tool_use", "id": id, "name": name, "input": {}, **more}
        return {"type": "content_block_start", "index": index, "content_block": block}

    def piece(index: int, text: str) -> dict[str, Any]:
        delta = {"type": "input_json_delta", "partial_json": text}
        return {"type": "content_block_delta", "index": index, "delta": delta}

    events = [
        start(1, "a", "f"),
        piece(1, ""),
        start(2, "b", "g"),
        piece(2, '{"y":'),
        piece(1, '{"x":1}'),
        piece(2, '"zü"}'),
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_stop", "index": 2},
        start(3, "c", "h"),
        {"type": "content_block_stop", "index": 3},
        start(4, "d", "i", input={"whole": True}),
        {"type": "content_block_stop", "index": 4},
    ]
    found = tools(d for event in events for d in reader.read("", event))
    assert found == [A, B, ("c", "h", "{}"), ("d", "i", '{"whole":true}')]


# -- ends, usage, what vendors add -------------------------------------------------------------------------------------


def chat_end(reason: str, *, delta: dict[str, Any] | None = None, **more: Any) -> Any:
    reader = ChatReader()
    list(reader.read("", {"choices": [{"delta": delta or {}, "finish_reason": reason}], **more}))
    return reader


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("eos", "other"),
    ],
)
def test_finish_reasons_of_chat(said: str, reason: str) -> None:
    finish = chat_end(said).finish()
    assert (finish.reason, finish.detail) == (reason, said if reason == "other" else None)


@pytest.mark.parametrize(
    ("said", "reason", "detail"),
    [
        ("end_turn", "stop", None),
        ("stop_sequence", "stop", "stop_sequence"),
        ("max_tokens", "length", None),
        ("model_context_window_exceeded", "length", "model_context_window_exceeded"),
        ("tool_use", "tool_calls", None),
        ("pause_turn", "other", "pause_turn"),
    ],
)
def test_finish_reasons_of_messages(said: str, reason: str, detail: str | None) -> None:
    reader = MessagesReader()
    for event in ({"type": "message_delta", "delta": {"stop_reason": said}}, {"type": "message_stop"}):
        list(reader.read("", event))
    finish = reader.finish()
    assert finish is not None
    assert (finish.reason, finish.detail) == (reason, detail)


def test_a_refusal_of_messages_says_why() -> None:
    reader = MessagesReader()
    delta = {"stop_reason": "refusal", "stop_details": {"category": "bio", "explanation": "not this"}}
    for event in ({"type": "message_delta", "delta": delta}, {"type": "message_stop"}):
        list(reader.read("", event))
    finish = reader.finish()
    assert finish is not None
    assert (finish.reason, finish.detail) == ("refusal", "not this")


@pytest.mark.parametrize(
    ("said", "reason"), [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("new", "other")]
)
def test_an_incomplete_response_says_why(said: str, reason: str) -> None:
    reader = ResponsesReader()
    event = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": said}}}
    list(reader.read("", event))
    finish = reader.finish()
    assert finish is not None
    assert (finish.reason, finish.detail) == (reason, said)


def test_refusals_are_a_kind_of_their_own() -> None:
    chat = ChatReader()
    found = list(chat.read("", {"choices": [{"delta": {"refusal": "no"}, "finish_reason": "stop"}]}))
    assert found == [Delta(kind="refusal", text="no")]
    responses = ResponsesReader()
    assert list(responses.read("", {"type": "response.refusal.delta", "delta": "no"})) == found
    list(responses.read("", {"type": "response.completed", "response": {}}))
    for finish in (chat.finish(), responses.finish()):
        assert finish is not None
        assert finish.reason == "refusal"


def test_usage_of_chat_comes_after_the_finish_and_includes_what_was_cached() -> None:
    reader = chat_end("stop")
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    list(reader.read("", {"choices": [], "usage": usage}))
    list(reader.read("", {"choices": [], "usage": None}))
    assert reader.finish().usage == Usage(input_tokens=10, output_tokens=5, cached_tokens=4, reasoning_tokens=2)


def test_usage_stands_where_groq_and_deepseek_put_it() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "prompt_cache_hit_tokens": 1}
    expected = Usage(input_tokens=1, output_tokens=2, cached_tokens=1)
    assert chat_end("stop", x_groq={"usage": usage}).finish().usage == expected


def test_usage_of_messages_is_cumulative_and_adds_what_was_cached() -> None:
    reader = MessagesReader()
    first = {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 100, "output_tokens": 1}
    last = {"output_tokens": 9, "input_tokens": None, "output_tokens_details": {"thinking_tokens": 4}}
    for event in (
        {"type": "message_start", "message": {"usage": first}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_delta", "delta": {}, "usage": last},
        {"type": "message_stop"},
    ):
        list(reader.read("", event))
    finish = reader.finish()
    assert finish is not None
    assert finish.usage == Usage(input_tokens=123, output_tokens=9, cached_tokens=20, reasoning_tokens=4)


def test_usage_of_responses() -> None:
    reader = ResponsesReader()
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 3},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    list(reader.read("", {"type": "response.completed", "response": {"usage": usage, "model": "served"}}))
    finish = reader.finish()
    assert finish is not None
    assert finish.usage == Usage(input_tokens=10, output_tokens=5, cached_tokens=3, reasoning_tokens=2)
    assert finish.model == "served"


@pytest.mark.parametrize("counts", [{"prompt_tokens": "7"}, {"prompt_tokens": -7}, {"prompt_tokens": True}, {"x": 1}])
def test_counts_that_are_none_count_nothing(counts: dict[str, Any]) -> None:
    assert chat_end("stop", usage=counts).finish().usage == Usage()


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm"},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
def test_reasoning_is_read_under_every_name_vendors_give_it(delta: dict[str, Any]) -> None:
    found = list(ChatReader().read("", {"choices": [{"delta": delta}]}))
    assert found == [Delta(kind="reasoning", text="hm")]


def test_other_choices_than_the_first_are_not_mixed_in() -> None:
    choices = [{"index": 1, "delta": {"content": "b"}}, {"index": 0, "delta": {"content": "a"}}]
    assert list(ChatReader().read("", {"choices": choices})) == [Delta(text="a")]


def test_signed_thinking_is_kept_to_be_handed_back() -> None:
    reader = MessagesReader()
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    events: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": 0, "content_block": thinking},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "h"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "m"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": hidden},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    found = [delta for event in events for delta in reader.read("", event)]
    assert found == [Delta(kind="reasoning", text="h"), Delta(kind="reasoning", text="m")]
    finish = reader.finish()
    assert finish is not None
    assert finish.reasoning == ({"type": "thinking", "thinking": "hm", "signature": "sig"}, hidden)


def test_reasoning_items_of_responses_are_kept_to_be_handed_back() -> None:
    reader = ResponsesReader()
    item = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "xyz"}
    list(reader.read("", {"type": "response.output_item.done", "item": item}))
    list(reader.read("", {"type": "response.completed", "response": {}}))
    finish = reader.finish()
    assert finish is not None
    assert finish.reasoning == (item,)


def test_text_told_only_at_the_end_of_a_response_is_not_lost() -> None:
    part = {"type": "output_text", "text": "whole"}
    end = {"type": "response.completed", "response": {"output": [{"type": "message", "content": [part]}]}}
    assert list(ResponsesReader().read("", end)) == [Delta(text="whole")]
    done = {"type": "response.output_text.done", "item_id": "i", "text": "whole"}
    reader = ResponsesReader()
    assert [d for event in (done, end) for d in reader.read("", event)] == [Delta(text="whole")]


@pytest.mark.parametrize("reader", [ChatReader(), ResponsesReader(), MessagesReader()])
def test_an_error_in_any_shape_is_an_error(reader: Any) -> None:
    for name, data in (
        ("error", {"message": "x"}),
        ("", {"type": "error", "message": "x"}),
        ("", {"error": "x"}),
        ("", [{"error": {"code": 503}}]),
    ):
        with pytest.raises(InStream):
            list(reader.read(name, data))
