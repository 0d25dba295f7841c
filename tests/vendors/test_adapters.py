"""The vendor modules with the real SDKs, against a vendor on this machine: what arrives on the wire, and what each way
of answering — or not answering — becomes. Outcomes are asserted, never exceptions."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from routekit.core.chat import Delta, Finish, Message, Opened
from routekit.core.faults import VendorFault
from routekit.vendors import MODULES, vendor_for
from tests.loopback import Loopback, answer
from tests.vendors.asking import APIS, KEY, Got, ask, collect, make_call, new_vendor, request

every_api = pytest.mark.parametrize("api", APIS)


@pytest.fixture(scope="module")
def rig() -> Iterator[Loopback]:
    for api in APIS:
        # here, so that no test's limit pays for it
        vendor_for(api).load()
    with Loopback() as server:
        yield server


@pytest.fixture
def server(rig: Loopback) -> Loopback:
    rig.reset()
    return rig


# -- answers that are answers ------------------------------------------------------------------------------------------


@every_api
def test_a_healthy_answer_arrives_whole_with_usage_and_the_vendors_request_id(api: str, server: Loopback) -> None:
    server.script("m", {"headers": {"x-ratelimit-remaining-tokens": "9", "set-cookie": "a=b", "server": "x"}})
    got = ask(api, server.url(api))
    assert got.text == answer()
    assert got.finish.reason == "stop"
    assert got.finish.usage is not None
    assert (got.finish.usage.input_tokens, got.finish.usage.output_tokens) == (7, 60)
    assert (got.finish.model, got.finish.request_id) == ("m", "req-1")
    assert got.opened.request_id == "req-1"
    assert got.opened.headers["x-ratelimit-remaining-tokens"] == "9"
    assert not {"set-cookie", "server", "content-type"} & set(got.opened.headers)
    assert [type(event) for event in got.events[:2]] == [Opened, Delta]
    assert sum(isinstance(event, Opened | Finish) for event in got.events) == 2


@every_api
def test_it_always_streams_and_asks_once(api: str, server: Loopback) -> None:
    server.script("m", {"status": 503})
    ask(api, server.url(api), ask=request(options={"stream": False}))
    assert [seen.body["stream"] for seen in server.requests] == [True]


@every_api
def test_reasoning_and_tool_calls_arrive_as_such(api: str, server: Loopback) -> None:
    tools = [{"id": "a", "name": "f", "arguments": '{"x": 1}'}, {"id": "b", "name": "g", "arguments": '{"y": "ü"}'}]
    server.script("m", {"tokens": 2, "reasoning": "hmm", "tools": tools})
    got = ask(api, server.url(api))
    assert "".join(e.text for e in got.events if isinstance(e, Delta) and e.kind == "reasoning") == "hmm"
    assert got.tools() == {0: ("a", "f", '{"x": 1}'), 1: ("b", "g", '{"y": "ü"}')}
    assert got.finish.reason == "tool_calls"


@every_api
def test_one_connection_serves_call_after_call(api: str, server: Loopback) -> None:
    async def run() -> None:
        vendor = new_vendor(api)
        for _ in range(3):
            got = await collect(vendor, make_call(api, server.url(api)), Got())
            assert got.outcome == "ok"
        await vendor.close()

    asyncio.run(run())
    assert (len(server.requests), server.connections) == (3, 1)


@every_api
def test_a_vendor_works_on_a_second_loop(api: str, server: Loopback) -> None:
    vendor = new_vendor(api)
    for _ in range(2):
        assert asyncio.run(collect(vendor, make_call(api, server.url(api)), Got())).outcome == "ok"
    asyncio.run(vendor.close())


# -- answers that are none (wire.md §2.2) ------------------------------------------------------------------------------

_LONG = "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: 500\r\n\r\n{body}"
_BAD_GZIP = (
    "HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nnope!"
)
_HTML = "<html><body>Please log in</body></html>"

SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "502 with a page": ({"status": 502, "body": "<html>Bad Gateway</html>"}, "transient"),
    "500 without a body": ({"status": 500}, "transient"),
    "500 with broken JSON": ({"status": 500, "body": '{"error": ', "type": "application/json"}, "transient"),
    "500 with squeezed JSON": ({"status": 500, "body": {"error": {"message": "x"}}, "gzip": True}, "transient"),
    "500 whose body is cut": ({"raw": _LONG.format(status=500, kind="application/json", body='{"er')}, "transient"),
    "500 whose body hangs": ({"status": 500, "headers": {"Content-Length": "99"}, "end": "hang"}, "transient"),
    "429 whose body is cut": ({"raw": _LONG.format(status=429, kind="text/plain", body="slow")}, "rate_limit"),
    "500 of bad gzip": ({"status": 500, "body": "x", "headers": {"Content-Encoding": "gzip"}}, "transient"),
    "200 of bad gzip": ({"raw": _BAD_GZIP}, "transient"),
    "200 with a login page": ({"body": _HTML}, "transient"),
    "200 with a page that hangs": ({"body": _HTML, "headers": {"Content-Length": "999"}, "end": "hang"}, "transient"),
    "204": ({"status": 204}, "transient"),
    "200 with empty JSON": ({"body": "", "type": "application/json"}, "transient"),
    "200 with broken JSON": ({"body": "{", "type": "application/json"}, "transient"),
    "200 null": ({"body": None, "type": "application/json"}, "transient"),
    "200 with a list": ({"body": [1]}, "transient"),
    "200 without choices": ({"body": {"choices": []}}, "transient"),
    "200 with an overloaded error": ({"body": {"error": {"code": 503, "message": "no provider"}}}, "transient"),
    "200 with a rate error": ({"body": {"error": {"code": 429, "message": "Rate limit exceeded"}}}, "rate_limit"),
    "200 with a money error": ({"body": {"error": {"code": "insufficient_quota", "message": "pay"}}}, "quota"),
    "200 empty stream": ({"sse": []}, "transient"),
    "200 stream of no type, no event": ({"raw": "HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\nhi"}, "transient"),
    "reset before headers": ({"close": "rst"}, "transient"),
    "closed before headers": ({"close": "fin"}, "transient"),
    "cut within headers": ({"raw": "HTTP/1.1 200 OK\r\nContent-"}, "transient"),
    "not HTTP": ({"raw": "SSH-2.0-OpenSSH_9.2\r\n"}, "transient"),
    "a list of errors": ({"status": 429, "body": [{"error": {"code": 429, "status": "X"}}]}, "rate_limit"),
    "an error that is text": ({"status": 429, "body": {"error": "slow down"}}, "rate_limit"),
    "a FastAPI detail": ({"status": 422, "body": {"detail": [{"loc": ["body"], "msg": "bad"}]}}, "request"),
    "307": ({"redirect": "http://127.0.0.1:9/v1"}, "setup"),
    "400": ({"status": 400, "body": {"error": {"message": "bad"}}}, "request"),
    "401": ({"status": 401, "body": {"error": {"message": "no"}}}, "auth"),
    "402": ({"status": 402, "body": {"error": {"message": "pay"}}}, "quota"),
    "404 model": (
        {"status": 404, "body": {"error": {"message": "model m not found", "code": "model_not_found"}}},
        "model_gone",
    ),
    "408": ({"status": 408}, "transient"),
    "409": ({"status": 409}, "transient"),
    "413": ({"status": 413}, "request"),
    "415": ({"status": 415}, "request"),
    "424": ({"status": 424}, "client_error"),
    "429": ({"status": 429}, "rate_limit"),
    "498": ({"status": 498}, "client_error"),
    "499": ({"status": 499}, "client_error"),
    "500": ({"status": 500, "body": {"error": {"message": "x"}}}, "transient"),
    "501": ({"status": 501}, "request"),
    "503": ({"status": 503}, "transient"),
    "504": ({"status": 504}, "transient"),
    "529": (
        {"status": 529, "body": {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}},
        "transient",
    ),
}


@every_api
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_no_answer_becomes_its_fault(api: str, shape: str, server: Loopback) -> None:
    step, kind = SHAPES[shape]
    server.script("m", step)
    got = ask(api, server.url(api))
    assert got.outcome == kind, got
    assert got.text == ""
    assert len(server.requests) == 1


@every_api
def test_a_refusal_to_serve_tells_its_limits_and_its_wait(api: str, server: Loopback) -> None:
    headers = {"Retry-After": "7", "x-ratelimit-remaining-requests": "0", "X-Request-Id": "r1", "request-id": "r1"}
    server.script("m", {"status": 429, "body": {"error": {"message": "slow down"}}, "headers": headers})
    got = ask(api, server.url(api))
    assert got.fault is not None
    assert (got.fault.hint, got.fault.status, got.fault.answered, got.fault.delivered) == (7.0, 429, True, True)
    assert got.events == [got.opened]
    assert got.opened.headers["x-ratelimit-remaining-requests"] == "0"
    assert got.opened.request_id == "r1"


@every_api
def test_a_body_without_end_is_read_only_as_far_as_it_matters(api: str, server: Loopback) -> None:
    server.script("m", {"status": 400, "body": "x" * 30_000_000})
    got = ask(api, server.url(api))
    assert got.outcome == "request"
    assert got.fault is not None
    assert len(got.fault.message) < 10_000


@every_api
def test_a_refused_connection_was_not_delivered(api: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    got = ask(api, f"http://127.0.0.1:{port}/v1")
    assert got.fault is not None
    assert (got.fault.kind, got.fault.delivered, got.fault.answered) == ("transient", False, False)


@every_api
def test_a_silent_tls_port_ends_at_the_connect_limit(api: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        got = ask(api, f"https://127.0.0.1:{listener.getsockname()[1]}/v1", connect=0.2)
    assert got.fault is not None
    assert (got.fault.kind, got.fault.delivered) == ("timeout", False)


@every_api
def test_a_port_without_tls_is_a_fault_of_the_target(api: str, server: Loopback) -> None:
    got = ask(api, server.url(api).replace("http:", "https:"), connect=0.2)
    assert got.outcome in ("transient", "timeout", "setup")
    assert server.requests == []


@every_api
@pytest.mark.parametrize("url", ["ftp://127.0.0.1/v1", "http://[::1/v1", "http://127.0.0.1:99999/v1", "nothing"])
def test_an_address_nobody_can_call_is_our_configuration(api: str, url: str) -> None:
    assert ask(api, url).outcome == "setup"


@every_api
def test_a_proxy_nobody_can_use_is_our_configuration(api: str, server: Loopback) -> None:
    assert ask(api, server.url(api), provider={"proxy": "nonsense://x"}).outcome == "setup"
    assert server.requests == []


@every_api
@pytest.mark.parametrize(
    "key", ["sk-canary\n12345678", "sk-canary-ключ-1234", " sk-canary-12345678", "sk\x00canary1234"]
)
def test_a_key_no_header_can_hold_is_our_configuration_and_stays_unseen(api: str, key: str, server: Loopback) -> None:
    got = ask(api, server.url(api), secret=key)
    assert got.outcome == "setup"
    assert "canary" not in repr(got)
    assert server.requests == []


@every_api
def test_half_a_character_in_the_text_is_the_callers_fault(api: str, server: Loopback) -> None:
    got = ask(api, server.url(api), ask=request(Message(role="user", content="\ud83d")))
    assert got.outcome == "request"


@every_api
def test_a_host_nobody_knows_is_a_fault_of_the_target(api: str) -> None:
    got = ask(api, "http://host.invalid/v1")
    assert got.fault is not None
    assert (got.fault.kind, got.fault.delivered, got.fault.answered) == ("transient", False, False)


@every_api
def test_a_vendor_that_repeats_the_key_does_not_spread_it(api: str, server: Loopback) -> None:
    error = {"message": f"Incorrect API key provided: {KEY}", "code": KEY, "param": KEY}
    for status, step in ((401, {"status": 401, "body": {"error": error}}), (200, {"error_after": 0, "error": error})):
        server.script("m", step)
        got = ask(api, server.url(api))
        assert got.fault is not None, status
        assert KEY not in repr(got.fault)


@every_api
def test_messages_of_no_known_shape_are_the_callers_fault(api: str, server: Loopback) -> None:
    ask_ = request(tools=({"type": "function", "function": "no table"},), options={"stream_options": 3})
    got = ask(api, server.url(api), ask=ask_)
    assert got.outcome in ("request", "ok")
    broken = make_call(api, server.url(api), params={"reasoning_effort": {"a": object()}})
    assert asyncio.run(collect(new_vendor(api), broken, Got())).fault is not None


# -- what can happen inside a stream (wire.md §2.3) --------------------------------------------------------------------


def frame(value: Any, name: str = "") -> str:
    data = value if isinstance(value, str) else json.dumps(value)
    return (f"event: {name}\n" if name else "") + f"data: {data}\n\n"


def chunk(content: str | None = None, finish: str | None = None, **more: Any) -> str:
    delta = {} if content is None else {"content": content}
    return frame({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


def named(kind: str, **more: Any) -> str:
    return frame({"type": kind, **more}, kind)


def piece(text: str) -> str:
    return named("response.output_text.delta", item_id="i", output_index=0, content_index=0, delta=text)


def said(text: str) -> str:
    return named("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


DONE = "data: [DONE]\n\n"
COMPLETED = named("response.completed", response={"id": "r", "model": "m", "output": []})
STARTED = named("message_start", message={"id": "x", "model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}})
BLOCK = named("content_block_start", index=0, content_block={"type": "text", "text": ""})
STOP = named("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2})
STOPPED = named("message_stop")
OVERLOADED = {"type": "overloaded_error", "message": "Overloaded"}
CHAT, RESPONSES, MESSAGES = APIS

#: name → (api, frames, how it ends, outcome, text)
STREAMS: dict[str, tuple[str, list[str], str, str, str]] = {
    "chat: error frame first": (CHAT, [frame({"error": OVERLOADED})], "clean", "transient", ""),
    "chat: error frame after output": (CHAT, [chunk("a"), frame({"error": OVERLOADED})], "clean", "truncated", "a"),
    "chat: named error frame": (CHAT, [frame({"error": OVERLOADED}, "error")], "clean", "transient", ""),
    "chat: named error, plain text": (CHAT, [frame("upstream died", "error")], "clean", "transient", ""),
    "chat: error null is none": (CHAT, [chunk("a", error=None), chunk(None, "stop"), DONE], "clean", "ok", "a"),
    "chat: error beside choices": (
        CHAT,
        [chunk("", "error", error={"code": 429, "message": "Rate limit exceeded"})],
        "clean",
        "rate_limit",
        "",
    ),
    "chat: finish reason error": (CHAT, [chunk("a"), chunk(None, "error")], "clean", "truncated", "a"),
    "chat: a list of errors": (CHAT, [frame([{"error": {"code": 503, "message": "x"}}])], "clean", "transient", ""),
    "chat: ends with no finish": (CHAT, [chunk("a"), chunk("b")], "clean", "truncated", "ab"),
    "chat: [DONE] with no finish": (CHAT, [chunk("a"), DONE], "clean", "truncated", "a"),
    "chat: role only": (CHAT, [chunk("")], "clean", "transient", ""),
    "chat: empty choices only": (CHAT, [frame({"choices": []}), DONE], "clean", "transient", ""),
    "chat: closed inside": (CHAT, [chunk("a")], "fin", "truncated", "a"),
    "chat: reset inside": (CHAT, [chunk("a")], "rst", "truncated", "a"),
    "chat: reset before output": (CHAT, [chunk("")], "rst", "transient", ""),
    "chat: no [DONE]": (CHAT, [chunk("a"), chunk(None, "stop")], "clean", "ok", "a"),
    "chat: closed after the finish": (CHAT, [chunk("a"), chunk(None, "stop")], "fin", "ok", "a"),
    "chat: reset after the finish": (CHAT, [chunk("a"), chunk(None, "stop")], "rst", "ok", "a"),
    "chat: open after the finish": (CHAT, [chunk("a"), chunk(None, "stop")], "hang", "ok", "a"),
    "chat: broken after the finish": (CHAT, [chunk("a"), chunk(None, "stop"), frame("{x"), DONE], "clean", "ok", "a"),
    "chat: error after the finish": (
        CHAT,
        [chunk("a"), chunk(None, "stop"), frame({"error": OVERLOADED})],
        "clean",
        "ok",
        "a",
    ),
    "chat: last event unfinished": (CHAT, [chunk("a"), chunk(None, "stop").rstrip("\n")], "clean", "ok", "a"),
    "chat: bytes after [DONE]": (CHAT, [chunk("a"), chunk(None, "stop"), DONE, chunk("zzz")], "clean", "ok", "a"),
    "chat: broken event, loss certain": (
        CHAT,
        [chunk("a"), frame('{"choices":[{"delta":{"content":"b'), chunk("c", "stop"), DONE],
        "clean",
        "truncated",
        "a",
    ),
    "chat: broken event, nothing proves": (
        CHAT,
        [chunk("a"), frame("{oops"), chunk("c", "stop"), DONE],
        "clean",
        "truncated",
        "a",
    ),
    "chat: broken event, the count proves": (
        CHAT,
        [chunk("a"), frame("{oops"), chunk("c", "stop", usage={"prompt_tokens": 1, "completion_tokens": 2}), DONE],
        "clean",
        "ok",
        "ac",
    ),
    "chat: broken event before output": (CHAT, [frame("{oops"), chunk(None, "stop"), DONE], "clean", "transient", ""),
    "chat: not even UTF-8": (CHAT, ["data: \udcff\udcfe\n\n", chunk("a")], "clean", "transient", ""),
    "chat: U+2028 is no line end": (
        CHAT,
        ['data: {"choices":[{"delta":{"content":"a\u2028b"},"finish_reason":"stop"}]}\n\n'],
        "clean",
        "ok",
        "a\u2028b",
    ),
    "chat: comments only": (CHAT, [": OPENROUTER PROCESSING\n\n"] * 3, "clean", "transient", ""),
    "chat: finish, no text": (CHAT, [chunk(None, "stop"), DONE], "clean", "ok", ""),
    "responses: flat error": (RESPONSES, [named("error", code="server_error", message="x")], "clean", "transient", ""),
    "responses: nested error": (RESPONSES, [named("error", error={"code": "server_error"})], "clean", "transient", ""),
    "responses: failed, server": (
        RESPONSES,
        [named("response.failed", response={"error": {"code": "server_error", "message": "x"}})],
        "clean",
        "transient",
        "",
    ),
    "responses: failed, rate": (
        RESPONSES,
        [named("response.failed", response={"error": {"code": "rate_limit_exceeded", "message": "x"}})],
        "clean",
        "rate_limit",
        "",
    ),
    "responses: failed after output": (
        RESPONSES,
        [piece("a"), named("response.failed", response={"error": {"code": "server_error", "message": "x"}})],
        "clean",
        "truncated",
        "a",
    ),
    "responses: no end": (
        RESPONSES,
        [piece("a"), named("response.output_text.done", item_id="i", text="a")],
        "clean",
        "truncated",
        "a",
    ),
    "responses: reset": (RESPONSES, [piece("a")], "rst", "truncated", "a"),
    "responses: unknown events": (RESPONSES, [named("response.new_thing"), piece("a"), COMPLETED], "clean", "ok", "a"),
    "responses: open after the end": (RESPONSES, [piece("a"), COMPLETED], "hang", "ok", "a"),
    "responses: a lost delta": (
        RESPONSES,
        [piece("a"), frame("{"), piece("c"), named("response.output_text.done", item_id="i", text="abc"), COMPLETED],
        "clean",
        "truncated",
        "a",
    ),
    "messages: error event": (MESSAGES, [STARTED, named("error", error=OVERLOADED)], "clean", "transient", ""),
    "messages: error without a name": (
        MESSAGES,
        [frame({"type": "error", "error": OVERLOADED})],
        "clean",
        "transient",
        "",
    ),
    "messages: error, plain text": (MESSAGES, [frame("upstream died", "error")], "clean", "transient", ""),
    "messages: rate error event": (
        MESSAGES,
        [named("error", error={"type": "rate_limit_error", "message": "slow"})],
        "clean",
        "rate_limit",
        "",
    ),
    "messages: error after output": (
        MESSAGES,
        [STARTED, BLOCK, said("a"), named("error", error=OVERLOADED)],
        "clean",
        "truncated",
        "a",
    ),
    "messages: no end": (MESSAGES, [STARTED, BLOCK, said("a"), STOP], "clean", "truncated", "a"),
    "messages: end without a reason": (MESSAGES, [STARTED, BLOCK, said("a"), STOPPED], "clean", "truncated", "a"),
    "messages: pings only": (MESSAGES, [STARTED, named("ping"), named("ping")], "clean", "transient", ""),
    "messages: closed inside": (MESSAGES, [STARTED, BLOCK, said("a")], "fin", "truncated", "a"),
    "messages: reset inside": (MESSAGES, [STARTED, BLOCK, said("a")], "rst", "truncated", "a"),
    "messages: open after the end": (MESSAGES, [STARTED, BLOCK, said("a"), STOP, STOPPED], "hang", "ok", "a"),
    "messages: unknown events": (
        MESSAGES,
        [STARTED, named("new"), BLOCK, said("a"), STOP, STOPPED],
        "clean",
        "ok",
        "a",
    ),
}


@pytest.mark.parametrize("shape", STREAMS)
def test_a_stream_is_an_answer_only_if_its_end_is_proven(shape: str, server: Loopback) -> None:
    api, frames, end, outcome, text = STREAMS[shape]
    server.script("m", {"sse": frames, "end": end})
    got = ask(api, server.url(api))
    assert (got.outcome, got.text) == (outcome, text), got


@every_api
@pytest.mark.parametrize(
    "dress", [{"crlf": True}, {"bytewise": True}, {"gzip": True}, {"no_names": True}, {"no_done": True}]
)
def test_how_a_stream_is_cut_and_dressed_does_not_matter(api: str, dress: dict[str, Any], server: Loopback) -> None:
    server.script("m", {"tokens": 5, **dress})
    got = ask(api, server.url(api))
    assert (got.text, got.outcome) == (answer(5), "ok")


@every_api
def test_an_extra_broken_event_costs_nothing_and_is_noted(api: str, server: Loopback) -> None:
    server.script("m", {"bad_after": 10, "bad": "data: {broken\n\n"})
    got = ask(api, server.url(api))
    assert got.text == answer()
    assert got.finish.dropped == ("an event that could not be read",)


@pytest.mark.parametrize(
    "bad", ["data: {broken\n\n", 'data: {"id":"c","object":"chat.compl\n\n', 'data: {"delta":\n\n']
)
@pytest.mark.parametrize("api", [CHAT, MESSAGES])
def test_a_token_lost_in_a_broken_event_is_never_a_success_and_nothing_garbled_is_shown(
    api: str, bad: str, server: Loopback
) -> None:
    server.script("m", {"bad_after": 10, "bad": bad, "bad_replaces": True})
    got = ask(api, server.url(api))
    assert (got.outcome, got.text) == ("truncated", answer(10))


@pytest.mark.parametrize("after", [0, 10, 59, 60])
def test_responses_recover_a_lost_token_in_place(after: int, server: Loopback) -> None:
    tools = [{"id": "a", "name": "f", "arguments": "{}"}]
    server.script(
        "m", {"bad_after": after, "bad": "data: {broken\n\n", "bad_replaces": True, "tools": tools[: after // 60]}
    )
    got = ask(RESPONSES, server.url(RESPONSES))
    assert got.text == answer()
    # the start of a call cannot be told from anything but its own event or its item
    assert got.outcome == ("truncated" if after == 60 else "ok")


@every_api
def test_pings_are_signs_of_life_and_no_output(api: str, server: Loopback) -> None:
    server.script("m", {"hold": 0.6, "pings": 0.1, "tokens": 1})
    got = ask(api, server.url(api))
    quiet = ask(api, server.url(api), "quiet?tokens=1")
    assert got.outcome == "ok"
    assert [e.kind for e in got.events if isinstance(e, Delta)] == ["text"]
    assert got.alive >= quiet.alive + 2


@every_api
def test_an_event_that_never_ends_is_a_fault(api: str, server: Loopback) -> None:
    server.script("m", {"sse": ["data: " + "x" * 1_000_000] * 40})
    assert ask(api, server.url(api)).outcome in ("transient", "unknown")


# -- cancelling --------------------------------------------------------------------------------------------------------


@every_api
@pytest.mark.parametrize("step", [{"hang": "accept"}, {"hang": "headers"}, {"delay": 0.05, "tokens": 999}])
def test_cancelling_closes_the_vendors_socket_at_once(api: str, step: dict[str, Any], server: Loopback) -> None:
    server.script("m", step)

    async def run() -> None:
        vendor = new_vendor(api)
        task = asyncio.create_task(collect(vendor, make_call(api, server.url(api)), Got()))
        await _until(lambda: bool(server.requests))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # before anything else is closed: the cancellation alone must do it
        await _until(lambda: server.requests[0].closed_by == "client")
        await vendor.close()

    asyncio.run(run())
    assert server.requests[0].closed_by == "client"


@every_api
def test_leaving_an_answer_closes_the_vendors_socket(api: str, server: Loopback) -> None:
    server.script("m", {"delay": 0.05, "tokens": 999})

    async def run() -> None:
        vendor = new_vendor(api)
        async with aclosing(vendor.stream(make_call(api, server.url(api)))) as events:
            async for event in events:
                if isinstance(event, Delta):
                    break
        await _until(lambda: server.requests[0].closed_by == "client")
        await vendor.close()

    asyncio.run(run())
    assert server.requests[0].closed_by == "client"


async def _until(condition: Any) -> None:
    end = time.monotonic() + 5
    while not condition() and time.monotonic() < end:
        await asyncio.sleep(0.01)


# -- what is on the wire -----------------------------------------------------------------------------------------------

HOSTILE = {
    "OPENAI_API_KEY": "sk-evil",
    "OPENAI_ADMIN_KEY": "sk-evil",
    "OPENAI_BASE_URL": "http://127.0.0.1:1/evil",
    "OPENAI_ORG_ID": "evil-org",
    "OPENAI_PROJECT_ID": "evil-project",
    "OPENAI_WEBHOOK_SECRET": "evil",
    "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer evil\nauthorization: Bearer evil\nX-Evil: evil\n"
    "content-type: text/evil\nX-Team: evil\nx-api-key: evil\nCookie: evil",
    "ANTHROPIC_API_KEY": "sk-evil",
    "ANTHROPIC_AUTH_TOKEN": "evil",
    "ANTHROPIC_PROFILE": "evil",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:1/evil",
    "ANTHROPIC_WEBHOOK_SIGNING_KEY": "evil",
    "ANTHROPIC_IDENTITY_TOKEN": "evil",
    "ANTHROPIC_FEDERATION_RULE_ID": "evil",
    "ANTHROPIC_ORGANIZATION_ID": "evil",
    "ANTHROPIC_CUSTOM_HEADERS": "Authorization: Bearer evil\nAUTHORIZATION: Bearer evil\nanthropic-version: evil\n"
    "anthropic-beta: evil\nX-Api-Key: evil\nx-team: evil\nContent-Type: text/evil",
    "ANTHROPIC_OPEN_TELEMETRY": "true",
    "HTTP_PROXY": "http://evil:evil@127.0.0.1:1",
    "ALL_PROXY": "http://evil:evil@127.0.0.1:1",
    "NO_PROXY": "",
}

AUTHS = {
    "bearer": ("authorization", f"Bearer {KEY}"),
    "x-api-key": ("x-api-key", KEY),
    "header:api-key": ("api-key", KEY),
    "none": (None, None),
}


@every_api
@pytest.mark.parametrize("auth", AUTHS)
def test_in_a_hostile_environment_a_vendor_gets_its_own_key_and_nothing_else(
    api: str, auth: str, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    got = ask(api, server.url(api), provider={"auth": auth}, headers={"X-Team": "lab"})
    assert got.outcome == "ok"
    (seen,) = server.requests
    assert "evil" not in repr(seen.headers)
    assert "evil" not in repr(seen.body)
    own, text = AUTHS[auth]
    for header in ("authorization", "x-api-key", "api-key"):
        assert seen.header(header) == ([text] if header == own else [])
    assert seen.header("x-team") == ["lab"]
    assert seen.header("content-type") == ["application/json"]
    assert seen.header("openai-organization") == seen.header("openai-project") == seen.header("traceparent") == []
    assert seen.header("anthropic-version") == (["2026-10-21"] if api == MESSAGES else [])


def test_an_older_anthropic_server_gets_the_version_it_knows(server: Loopback) -> None:
    ask(MESSAGES, server.url(MESSAGES), provider={"anthropic_version": "2023-06-01", "auth": "x-api-key"})
    (seen,) = server.requests
    assert seen.header("anthropic-version") == ["2023-06-01"]
    assert (seen.header("x-api-key"), seen.header("authorization")) == ([KEY], [])


@every_api
def test_a_provider_without_a_key_sends_none(api: str, server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-evil")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-evil")
    assert ask(api, server.url(api), secret=None).outcome == "ok"
    assert server.requests[0].header("authorization") == []
    assert "evil" not in repr(server.requests[0].headers)


@every_api
def test_an_extra_header_cannot_replace_the_key(api: str, server: Loopback) -> None:
    ask(api, server.url(api), headers={"Authorization": "Bearer other", "X-Gate": "open"})
    assert server.requests[0].header("authorization") == [f"Bearer {KEY}"]
    assert server.requests[0].header("x-gate") == ["open"]


@every_api
def test_cookies_of_one_account_never_reach_another(api: str, server: Loopback) -> None:
    server.script("m", {"headers": {"Set-Cookie": "session=one; Path=/"}})

    async def run() -> None:
        vendor = new_vendor(api)
        for _ in range(2):
            assert (await collect(vendor, make_call(api, server.url(api)), Got())).outcome == "ok"
        await vendor.close()

    asyncio.run(run())
    assert [seen.header("cookie") for seen in server.requests] == [[], []]


@every_api
def test_a_redirect_is_not_followed(api: str, server: Loopback) -> None:
    with Loopback() as other:
        server.script("m", {"redirect": other.url(api)})
        got = ask(api, server.url(api))
        assert got.outcome == "setup"
        assert (other.connections, other.requests) == (0, [])


@every_api
def test_a_configured_proxy_is_used(api: str, server: Loopback) -> None:
    proxy = server.url(api).removesuffix("/v1")
    ask(api, "http://vendor.invalid/v1", provider={"proxy": proxy})
    assert server.requests[0].path.startswith("http://vendor.invalid/v1/")


@every_api
def test_provider_params_are_in_every_body(api: str, server: Loopback) -> None:
    ask(api, server.url(api), params={"store": True, "brand_new": {"a": 1}})
    body = server.requests[0].body
    assert body["brand_new"] == {"a": 1}
    assert body.get("store") == (None if api == MESSAGES else True)


# -- the SDKs ----------------------------------------------------------------------------------------------------------


def test_the_sdks_are_as_the_vendor_modules_believe() -> None:
    """Canaries (wire.md §8.9): an SDK that changes one of these must fail here, not at a user's."""
    import inspect

    import anthropic
    import httpx2
    import openai

    assert "temperature" not in inspect.signature(anthropic.AsyncAnthropic(api_key="x").messages.create).parameters
    assert anthropic.AsyncAnthropic(api_key="x").auth_headers == {"Authorization": "Bearer x"}
    assert anthropic.AsyncAnthropic(api_key="x").default_headers["anthropic-version"] == "2026-10-21"
    for client in (openai.AsyncOpenAI(api_key="x"), anthropic.AsyncAnthropic(api_key="x")):
        assert isinstance(client._client, httpx2.AsyncClient)
        assert client.max_retries == 2
    assert issubclass(openai.APIStatusError, openai.APIError)
    assert issubclass(anthropic.APIStatusError, anthropic.APIError)


@every_api
def test_a_call_starts_no_thread(api: str, server: Loopback) -> None:
    """A worker thread is waited for at exit, and may outlive an interrupt."""
    before = set(threading.enumerate())
    threads: set[threading.Thread] = set()
    ask(api, server.url(api), ask=request(), headers={})

    async def run() -> None:
        vendor = new_vendor(api)
        async with aclosing(vendor.stream(make_call(api, server.url(api)))) as events:
            async for _ in events:
                threads.update(threading.enumerate())
        await vendor.close()

    asyncio.run(run())
    assert threads <= before


@every_api
def test_loading_pauses_collection_only_where_it_was_on(api: str) -> None:
    import gc

    vendor_for(api).load()
    assert gc.isenabled()
    gc.disable()
    try:
        vendor_for(api).load()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_every_api_has_a_module() -> None:
    for api in MODULES:
        assert vendor_for(api).api == api  # type: ignore[attr-defined]
    with pytest.raises(KeyError):
        vendor_for("telepathy")


# -- anything ----------------------------------------------------------------------------------------------------------

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["stop", "error", "a", "text", "tool_use", "[DONE]"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "type error choices delta content index finish_reason usage tool_calls function arguments id name "
                "message response output item text stop_reason content_block partial_json output_index item_id".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_KINDS = st.sampled_from(
    "response.output_text.delta response.output_text.done response.output_item.added response.output_item.done "
    "response.function_call_arguments.delta response.function_call_arguments.done response.completed response.failed "
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop ping".split()
)


def _typed(value: Any, kind: str) -> Any:
    return {"type": kind, **value} if isinstance(value, dict) else value


_FRAMES = st.lists(st.builds(_typed, _JSON, _KINDS) | _JSON, max_size=6).map(
    lambda values: "".join(
        frame(value, str(value.get("type", "")) if isinstance(value, dict) else "") for value in values
    )
)
_HEADS = st.sampled_from(
    [
        "",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 429 X\r\nRetry-After: ",
        "HTTP/1.1 500 X\r\n\r\n",
    ]
)


@every_api
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(head=_HEADS, body=st.binary(max_size=200).map(lambda data: data.decode("latin-1")) | _FRAMES)
def test_whatever_a_vendor_sends_is_events_or_one_fault(api: str, head: str, body: str, rig: Loopback) -> None:
    """For any bytes: an Opened, deltas and one Finish, or a fault; nothing else is raised, and it ends."""
    rig.script("m", {"raw": head + body.encode("utf-8", "surrogateescape").decode("latin-1")})
    got = ask(api, rig.url(api), within=10)
    assert got.fault is not None or isinstance(got.events[-1], Finish)
    assert sum(isinstance(event, Finish) for event in got.events) <= 1


def test_a_fault_carries_no_exception_that_could_carry_a_key(server: Loopback) -> None:
    server.script("m", {"status": 401, "body": {"error": {"message": KEY}}})

    async def run() -> None:
        vendor = new_vendor(CHAT)
        with pytest.raises(VendorFault) as caught:
            async for _ in vendor.stream(make_call(CHAT, server.url(CHAT))):
                pass
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert KEY not in str(caught.value)
        await vendor.close()

    asyncio.run(run())


def test_calls_at_once_do_not_wait_for_each_other(server: Loopback) -> None:
    """A pool with a limit would hide the wait for a connection from the caller's own limits."""
    server.script("slow", {"wait": 0.3, "tokens": 1})

    async def run() -> None:
        vendor = new_vendor(CHAT)
        gots = [collect(vendor, make_call(CHAT, server.url(CHAT), model="slow"), Got()) for _ in range(120)]
        assert {got.outcome for got in await asyncio.gather(*gots)} == {"ok"}
        await vendor.close()

    asyncio.run(run())
    assert server.connections == 120
