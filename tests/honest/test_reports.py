"""What users of such tools met and reported, where no other test here holds it (README.md has the whole table)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from routekit import Router
from tests.honest.conftest import Make, fails, live, troubled, two
from tests.loopback import Loopback, answer

CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic-messages"


def ask(router: Router, way: str) -> tuple[str, Any]:
    """(the text, the error) of one question."""
    if way == "live":
        return live(router, model="r")
    return router.ask("hi", model="r").text, None


@pytest.mark.parametrize("way", ["held", "live"])
def test_an_error_after_the_opening_events_is_a_failed_attempt(
    api: str, way: str, make: Make, loopback: Loopback
) -> None:
    # The opening event (a role, response.created, message_start) is no output.
    loopback.script("m", {"error_after": 0})
    assert ask(make(two(loopback, api)), way) == (answer(), None)
    assert [request.model for request in loopback.requests] == ["m", "m", "n"]


#: in-stream errors of a 200: (kind, who is asked, in what order)
IN_STREAM: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "malformed": ({"type": "invalid_request_error", "message": "bad field", "code": None}, "request", ["m"]),
    "policy": (
        {"type": "invalid_request_error", "message": "flagged", "code": "content_policy_violation"},
        "content_filter",
        ["m"],
    ),
    "too long": (
        {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"},
        "context",
        ["m", "n"],
    ),
    "too fast": (
        {"type": "rate_limit_error", "message": "Rate limit exceeded", "code": "rate_limit_exceeded"},
        "rate_limit",
        ["m", "n"],
    ),
    "no money": ({"type": "billing_error", "message": "Your credit balance is too low"}, "quota", ["m", "n"]),
    "key": ({"type": "authentication_error", "message": "invalid x-api-key"}, "auth", ["m", "n"]),
    "overloaded": ({"type": "overloaded_error", "message": "Overloaded"}, "transient", ["m", "m", "n"]),
}


@pytest.mark.parametrize("name", IN_STREAM)
def test_an_error_in_the_stream_of_a_200_is_judged_as_if_it_had_its_own_status(
    name: str, api: str, make: Make, loopback: Loopback
) -> None:
    error, kind, asked = IN_STREAM[name]
    loopback.script("m", {"error_after": 0, "error": error})
    router = make(two(loopback, api))
    if len(asked) == 1:
        failed = fails(router, model="r")
        assert (failed.kind, failed.exit_code) == (kind, 65)
        assert troubled(router) == {}
    else:
        assert router.ask("hi", model="r").served_by == "b/n"
    record = router.last_record()
    assert record is not None
    assert record.attempts[0].kind == kind
    assert [request.model for request in loopback.requests] == asked


@pytest.mark.parametrize("status", [201, 202, 206])
def test_every_2xx_with_a_whole_answer_is_a_success_and_is_counted(
    status: int, api: str, make: Make, loopback: Loopback
) -> None:
    with Loopback() as probe:
        loopback.script("m", {"raw": raw_answer(probe, api, status)})
        answered = make(two(loopback, api)).ask("hi", model="r")
    assert (answered.text, answered.served_by) == (answer(3), "a/m")
    assert (answered.usage.input_tokens, answered.usage.output_tokens) == (7, 3)


def raw_answer(probe: Loopback, api: str, status: int) -> str:
    """A whole answer of three words as bytes, under another status."""
    import httpx2

    probe.script("m", {"tokens": 3})
    path = {CHAT: "/chat/completions", RESPONSES: "/responses", MESSAGES: "/v1/messages"}[api]
    body = httpx2.post(probe.url(api) + path, json={"model": "m"}).text
    head = f"HTTP/1.1 {status} Fine\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    return head + body


def test_pings_do_not_hold_off_the_limit_on_the_first_output(api: str, make: Make, loopback: Loopback) -> None:
    loopback.script("m", {"hold": 20, "pings": 0.05})
    router = make(two(loopback, api, limits='first_output = "600ms"\nstall = "300ms"'))
    answered = router.ask("hi", model="r")
    assert answered.served_by == "b/n"
    assert [row.kind for row in answered.attempts] == ["timeout", None]


def test_pings_alone_are_no_life_to_a_reader_for_ever(make: Make, loopback: Loopback) -> None:
    # With nobody else to ask only the deadline ends it.
    loopback.script("m", {"hold": 30, "pings": 0.05})
    router = make(two(loopback, CHAT, limits='first_output = "10s"\nstall = "10s"\ndeadline = "800ms"'))
    error = fails(router, model="a/m")
    assert (error.exit_code, error.kind) == (69, "timeout")


def test_cache_marks_reach_the_vendor_with_their_lifetime(make: Make, loopback: Loopback) -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    parts = [{"type": "text", "text": "long", "cache_control": mark}, {"type": "text", "text": "short"}]
    router = make(two(loopback, MESSAGES))
    router.ask([{"role": "system", "content": parts[:1]}, {"role": "user", "content": parts}], model="r")
    body = loopback.requests[0].body
    assert body["system"] == parts[:1]
    assert body["messages"] == [{"role": "user", "content": parts}]


def test_cache_marks_are_named_where_an_api_has_no_place_for_them(make: Make, loopback: Loopback) -> None:
    parts = [{"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}]
    answered = make(two(loopback, CHAT)).ask([{"role": "user", "content": parts}], model="r")
    assert answered.attempts[0].dropped == ("cache_control",)
    assert "cache_control" not in json.dumps(loopback.requests[0].body)


# -- a vendor that wants its own thinking back beside the results of its tools (hermes-agent#14973) --------------------


def thinker(loopback: Loopback, preset: str) -> str:
    rows = f'[providers.t]\npreset = "{preset}"\nbase_url = "{loopback.url()}"\nkey = "env:T"\n'
    rows += f'[providers.b]\napi = "openai-chat"\nbase_url = "{loopback.url()}"\nkey = "none"\n'
    return f'{rows}[routes.r]\ntargets = ["t/m", "b/n"]\n'


CALL = {"id": "c1", "name": "f", "arguments": "{}"}


@pytest.mark.parametrize("preset", ["deepseek", "moonshot"])
def test_thinking_beside_a_tool_call_goes_back_to_its_vendor_and_to_nobody_else(
    preset: str, make: Make, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("T", "sk-canary-0123456789")
    loopback.script("m", {"text": "", "reasoning": "let me look", "tools": [CALL]}, {}, {"status": 401})
    router = make(thinker(loopback, preset))
    first = router.ask("hi", model="r")
    turns = [{"role": "user", "content": "hi"}, first.message, {"role": "tool", "tool_call_id": "c1", "content": "1"}]
    assert router.ask(turns, model="r").served_by == "t/m"
    assert router.ask(turns, model="r").served_by == "b/n"
    told = [request.body["messages"][1].get("reasoning_content") for request in loopback.requests[1:]]
    assert told == ["let me look", "let me look", None]
    record = router.last_record()
    assert record is not None
    assert record.attempts[-1].dropped == ("reasoning",)


def test_thinking_without_a_tool_call_stays_with_the_reader(
    make: Make, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("T", "sk-canary-0123456789")
    loopback.script("m", {"reasoning": "let me look"})
    answered = make(thinker(loopback, "deepseek")).ask("hi", model="r")
    assert answered.reasoning == "let me look"
    assert answered.message.reasoning == ()


# -- one error ---------------------------------------------------------------------------------------------------------


def test_one_error_tells_three_apis_failures_in_order_and_names_the_first_cause(
    make: Make, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K", "sk-canary-0123456789")
    rows = "".join(
        f'[providers.{name}]\napi = "{api}"\nbase_url = "{loopback.url(api)}"\nkey = "env:K{name}"\n'
        for name, api in (("a", MESSAGES), ("b", RESPONSES), ("c", CHAT))
    )
    for name in "abc":
        monkeypatch.setenv(f"K{name}", f"sk-canary-{name}-0123456789")
    wrong = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
    loopback.script("m", {"status": 401, "body": wrong})
    loopback.script("n", {"status": 429, "headers": {"retry-after": "90"}})
    loopback.script("o", {"sse": ['data: {"choices": []}\n\n']})
    router = make(f'{rows}[routes.r]\ntargets = ["a/m", "b/n", "c/o"]\n')
    error = fails(router, model="r")
    assert (error.exit_code, error.kind) == (69, "exhausted")
    assert [(row.target, row.kind, row.scope) for row in error.attempts] == [
        ("a/m", "auth", "credential"),
        ("b/n", "rate_limit", "target"),
        ("c/o", "transient", "target"),
        ("c/o", "transient", "target"),
    ]
    assert error.details[0].startswith("first cause: a/m: 401 key refused: invalid x-api-key")
    # a target and its retry are one line
    assert [line.partition(":")[0] for line in error.details[1:]] == ["b/n", "c/o"]
    assert "(sleep 1m30s)" in error.details[1]
    assert "(sleep 30s)" in error.details[2]
    assert "sk-canary" not in "".join([str(error), *error.details])
    record = router.last_record()
    assert record is not None
    assert record.attempts == tuple(error.attempts)
