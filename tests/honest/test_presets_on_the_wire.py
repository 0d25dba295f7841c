"""Every preset with a recorded refusal and a recorded stream of its vendor, through the real SDK with that preset's key
header and quirks: what is refused is classified and served by another; what is streamed is read whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from routekit import Router
from routekit.vendors.presets import PRESETS
from tests.honest.conftest import Make, troubled
from tests.loopback import PREFIXES, Loopback

KEY = "sk-canary-preset-000111222"
SAID, THOUGHT = "Zwölf Boxkämpfer 🥊", "let me think"


def data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def named(value: Any) -> str:
    return f"event: {value['type']}\n{data(value)}"


class Recorded(NamedTuple):
    """``frames``: an answer of ``SAID``; ``usage``: (in, out, cached) read from it. ``refusal`` is judged ``kind``;
    where it states a wait, ``wait`` is it."""

    frames: list[str]
    usage: tuple[int, int, int]
    refusal: dict[str, Any]
    kind: str
    thought: str = ""
    scope: str = "target"
    wait: float | None = None
    #: the answer names another model
    as_model: str | None = None


def http(status: int, body: Any, **headers: str) -> dict[str, Any]:
    return {"status": status, "body": body, "headers": {name.replace("_", "-"): text for name, text in headers.items()}}


# -- chat --------------------------------------------------------------------------------------------------------------

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> str:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return data(
        {"id": "x-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}
    )


def words() -> list[str]:
    return [chunk({"content": SAID[:5]}), chunk({"content": SAID[5:]})]


def chat(*before: str, thoughts: Sequence[str] = (), end: Sequence[str] | None = None, done: bool = True) -> list[str]:
    last = [chunk({}, "stop"), chunk(usage=USAGE)] if end is None else list(end)
    return [*before, *thoughts, *words(), *last, *(["data: [DONE]\n\n"] if done else [])]


def thinking(name: str) -> list[str]:
    return [chunk({"role": "assistant", name: THOUGHT[:6]}), chunk({name: THOUGHT[6:], "content": None})]


def flat(message: str, kind: str, code: Any = None, **more: Any) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code, **more}


# -- messages ----------------------------------------------------------------------------------------------------------


def messages(*, thought: bool = False, signed: bool = False, model: str = "m", names: bool = True) -> list[str]:
    counts = {"input_tokens": 8, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 0, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "g", "type": "message", "model": model, "usage": counts}}
    ]
    blocks: list[tuple[Any, list[Any]]] = []
    if thought:
        signature = [{"type": "signature_delta", "signature": "c2ln"}] if signed else []
        pieces = [{"type": "thinking_delta", "thinking": THOUGHT}, *signature]
        blocks.append(({"type": "thinking", "thinking": ""}, pieces))
    pieces = [{"type": "text_delta", "text": SAID[:5]}, {"type": "text_delta", "text": SAID[5:]}]
    blocks.append(({"type": "text", "text": ""}, pieces))
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events += [{"type": "content_block_stop", "index": index}, {"type": "ping"}]
    events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}})
    return [(named if names else data)(event) for event in [*events, {"type": "message_stop"}]]


def claude(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


CACHED = (11, 7, 3)

# -- responses ---------------------------------------------------------------------------------------------------------


def responses() -> list[str]:
    where = {"item_id": "m1", "output_index": 1, "content_index": 0}
    text = {"type": "message", "id": "m1", "content": [{"type": "output_text", "text": SAID}]}
    usage = {"input_tokens": 11, "input_tokens_details": {"cached_tokens": 3}, "output_tokens": 7}
    summary = {"type": "response.reasoning_summary_text.delta", "item_id": "r1", "output_index": 0, "delta": THOUGHT}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "resp_1", "model": "m", "status": "in_progress"}},
        {"type": "response.in_progress", "response": {"id": "resp_1", "model": "m"}},
        summary,
        {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "id": "m1"}},
        {"type": "response.output_text.delta", **where, "delta": SAID[:5]},
        {"type": "response.output_text.delta", **where, "delta": SAID[5:]},
        {"type": "response.output_text.done", **where, "text": SAID},
        {
            "type": "response.completed",
            "response": {"id": "resp_1", "model": "m", "status": "completed", "output": [text], "usage": usage},
        },
    ]
    return [named({**event, "sequence_number": number}) for number, event in enumerate(events)]


RATE = {
    "error": {
        "message": "Rate limit reached for model `m` in organization `org_1` on tokens per minute (TPM): Limit 6000,"
        " Used 5900. Please try again in 7.66s.",
        "type": "tokens",
        "code": "rate_limit_exceeded",
    }
}

RECORDED: dict[str, Recorded] = {
    "openai": Recorded(
        responses(),
        CACHED,
        http(
            429,
            {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "credit"}},
        ),
        "quota",
        THOUGHT,
        "credential",
    ),
    "anthropic": Recorded(
        messages(thought=True, signed=True),
        CACHED,
        http(529, claude("overloaded_error", "Overloaded")),
        "transient",
        THOUGHT,
    ),
    # the first chunk is a report on the prompt; the filter's verdicts come along
    "azure": Recorded(
        chat(
            data({"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": [{}]}),
            chunk({"role": "assistant", "content": ""}, content_filter_results={}),
        ),
        (11, 7, 0),
        http(
            429,
            {"error": {"code": "429", "message": "Requests to the deployment exceeded the rate limit."}},
            retry_after_ms="9000",
        ),
        "rate_limit",
        wait=9.0,
    ),
    "azure-anthropic": Recorded(
        messages(),
        CACHED,
        http(404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}),
        "model_gone",
    ),
    "deepseek": Recorded(
        chat(
            ": keep-alive\n\n",
            "\n\n",
            ": keep-alive\n\n",
            thoughts=thinking("reasoning_content"),
            end=[
                chunk(
                    {"content": ""},
                    "stop",
                    usage={**USAGE, "prompt_cache_hit_tokens": 3, "prompt_cache_miss_tokens": 8},
                )
            ],
        ),
        CACHED,
        http(
            402,
            {"error": {"message": "Insufficient Balance", "type": "unknown_error", "code": "invalid_request_error"}},
        ),
        "quota",
        THOUGHT,
        "credential",
    ),
    "deepseek-anthropic": Recorded(
        messages(thought=True, model="deepseek-v4-flash"),
        CACHED,
        http(401, claude("authentication_error", "Authentication Fails (no such user)")),
        "auth",
        THOUGHT,
        "credential",
        as_model="deepseek-v4-flash",
    ),
    "openrouter": Recorded(
        chat(
            ": OPENROUTER PROCESSING\n\n",
            ": OPENROUTER PROCESSING\n\n",
            thoughts=[chunk({"role": "assistant", "content": "", "reasoning": THOUGHT, "reasoning_details": []})],
        ),
        (11, 7, 0),
        # a 200 whose stream holds nothing but the error, beside choices
        {
            "sse": [
                ": OPENROUTER PROCESSING\n\n",
                chunk(
                    {"content": ""},
                    "error",
                    provider="P",
                    error={"code": 502, "message": "Provider returned error", "metadata": {"raw": "upstream is gone"}},
                ),
            ]
        },
        "transient",
        THOUGHT,
    ),
    "openrouter-anthropic": Recorded(
        messages(),
        CACHED,
        http(402, {"error": {"code": 402, "message": "This request requires more credits, or fewer max_tokens."}}),
        "quota",
        scope="credential",
    ),
    "groq": Recorded(
        chat(
            chunk({"role": "assistant", "content": ""}, x_groq={"id": "req_1"}),
            thoughts=[chunk({"reasoning": THOUGHT})],
            end=[chunk({}, "stop", x_groq={"id": "req_1", "usage": {**USAGE, "queue_time": 0.1}})],
        ),
        (11, 7, 0),
        http(429, RATE),
        "rate_limit",
        THOUGHT,
        wait=7.66,
    ),
    "together": Recorded(
        chat(end=[chunk({"content": ""}, "stop", usage=USAGE)]),
        (11, 7, 0),
        http(503, {"error": {"message": "The server is overloaded", "type": "server_error", "code": None}}),
        "transient",
    ),
    "mistral": Recorded(
        chat(
            thoughts=[chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}]})],
            end=[chunk({"content": ""}, "stop", usage=USAGE)],
        ),
        (11, 7, 0),
        http(429, flat("Service tier capacity exceeded for this model.", "service_tier_capacity_exceeded", "3505")),
        "rate_limit",
        THOUGHT,
    ),
    # no [DONE], and one event may be the whole answer
    "gemini": Recorded(
        [chunk({"role": "assistant", "content": SAID}, "stop", usage=USAGE)],
        (11, 7, 0),
        http(
            429,
            [
                {
                    "error": {
                        "code": 429,
                        "message": "You exceeded your current quota. Please retry in 21.5s.",
                        "status": "RESOURCE_EXHAUSTED",
                        "details": [
                            {
                                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                                "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}],
                            },
                            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "21s"},
                        ],
                    }
                }
            ],
        ),
        "rate_limit",
        wait=21.0,
    ),
    "xai": Recorded(
        chat(thoughts=thinking("reasoning_content")),
        (11, 7, 0),
        http(400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: ab***cd."}),
        "auth",
        THOUGHT,
        "credential",
    ),
    # usage stands inside the choice
    "moonshot": Recorded(
        chat(
            thoughts=thinking("reasoning_content"),
            end=[
                data(
                    {
                        "id": "x",
                        "model": "m",
                        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}],
                    }
                )
            ],
        ),
        (11, 7, 0),
        http(429, {"error": {"message": "The engine is currently overloaded", "type": "engine_overloaded_error"}}),
        "transient",
        THOUGHT,
    ),
    "moonshot-anthropic": Recorded(
        messages(thought=True),
        CACHED,
        http(
            429,
            claude("rate_limit_error", "Your account org-1 request reached organization max RPM: 3"),
            retry_after="20",
        ),
        "rate_limit",
        THOUGHT,
        "credential",
        20.0,
    ),
    "zai": Recorded(
        chat(thoughts=thinking("reasoning_content"), end=[chunk({"content": ""}, "stop", usage=USAGE)]),
        (11, 7, 0),
        http(429, {"error": {"code": "1113", "message": "Insufficient balance or no resource package."}}),
        "quota",
        THOUGHT,
        "credential",
    ),
    "zai-anthropic": Recorded(
        messages(thought=True),
        CACHED,
        http(429, {"error": {"code": "1302", "message": "High concurrency usage of this API"}}),
        "rate_limit",
        THOUGHT,
    ),
    # every chunk ends with a report that all is well; the refusal is the same report in a 200
    "minimax": Recorded(
        chat(
            end=[
                chunk({}, "stop", usage=USAGE, base_resp={"status_code": 0, "status_msg": ""}),
            ]
        ),
        (11, 7, 0),
        http(
            200, {"id": "x", "choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}
        ),
        "quota",
        scope="credential",
    ),
    "minimax-anthropic": Recorded(
        messages(thought=True, signed=True),
        CACHED,
        http(429, claude("rate_limit_error", "rate limit exceeded(1002)")),
        "rate_limit",
        THOUGHT,
    ),
    "ollama": Recorded(
        chat(thoughts=thinking("reasoning")),
        (11, 7, 0),
        http(
            404, {"error": {"message": "model 'm' not found", "type": "not_found_error", "param": None, "code": None}}
        ),
        "model_gone",
        THOUGHT,
    ),
    "ollama-anthropic": Recorded(
        messages(thought=True),
        CACHED,
        http(404, claude("not_found_error", "model 'm' not found")),
        "model_gone",
        THOUGHT,
    ),
    "llamacpp": Recorded(
        chat(
            thoughts=thinking("reasoning_content"),
            end=[chunk({}, "stop"), chunk(usage=USAGE, timings={"predicted_per_second": 30.1})],
        ),
        (11, 7, 0),
        http(503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}),
        "transient",
        THOUGHT,
    ),
    "llamacpp-anthropic": Recorded(
        messages(thought=True, names=False),
        CACHED,
        http(503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}),
        "transient",
        THOUGHT,
    ),
    "vllm": Recorded(
        chat(thoughts=thinking("reasoning_content")),
        (11, 7, 0),
        http(404, flat("The model `m` does not exist.", "NotFoundError", 404)),
        "model_gone",
        THOUGHT,
    ),
    "vllm-anthropic": Recorded(
        messages(thought=True),
        CACHED,
        http(
            500, {"error": {"message": "EngineCore encountered an issue", "type": "InternalServerError", "code": 500}}
        ),
        "transient",
        THOUGHT,
    ),
}


def router_of(name: str, make: Make, loopback: Loopback) -> Router:
    """The preset at an address of this machine, with a plain backup behind it."""
    row = PRESETS[name]
    key = "" if row.keyless else 'key = "env:PRESET_KEY"\n'
    url = f"http://127.0.0.1:{loopback.port}{PREFIXES[row.api]}"
    backup = f'[providers.b]\napi = "openai-chat"\nbase_url = "{loopback.url()}"\nkey = "none"\n'
    rows = f'[providers.p]\npreset = "{name}"\nbase_url = "{url}"\n{key}{backup}'
    return make(f'{rows}[routes.r]\ntargets = ["p/m", "b/n"]\n')


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESET_KEY", KEY)


def test_every_preset_has_its_recordings() -> None:
    assert set(RECORDED) == set(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_its_stream_is_read_whole(name: str, make: Make, loopback: Loopback) -> None:
    row = RECORDED[name]
    loopback.script("m", {"sse": row.frames})
    answered = router_of(name, make, loopback).ask("hi", model="r")
    assert (answered.text, answered.reasoning or "", answered.served_by) == (SAID, row.thought, "p/m")
    usage = answered.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == row.usage
    assert not usage.estimated
    assert answered.finish_reason == "stop"
    assert answered.record.notes == ((f"p/m answered as {row.as_model}",) if row.as_model else ())


@pytest.mark.parametrize("name", PRESETS)
def test_its_key_goes_where_its_vendor_looks_for_it_and_nowhere_else(name: str, make: Make, loopback: Loopback) -> None:
    preset = PRESETS[name]
    loopback.script("m", {"sse": RECORDED[name].frames})
    router_of(name, make, loopback).ask("hi", model="r")
    (request,) = loopback.requests
    header = preset.auth.partition(":")[2] if preset.auth.startswith("header:") else ""
    expected = {"authorization": [f"Bearer {KEY}"] if preset.auth == "bearer" else [], "api-key": [], "x-api-key": []}
    expected |= {header: [KEY]} if header else {}
    assert {where: request.header(where) for where in expected} == expected
    assert request.header("anthropic-version") == (
        [preset.anthropic_version or "2026-10-21"] if preset.api == "anthropic-messages" else []
    )
    assert request.header("openai-organization") == []


@pytest.mark.parametrize("name", PRESETS)
def test_its_refusal_is_judged_by_its_own_words_and_another_serves(name: str, make: Make, loopback: Loopback) -> None:
    row = RECORDED[name]
    loopback.script("m", row.refusal)
    router = router_of(name, make, loopback)
    answered = router.ask("hi", model="r")
    assert answered.served_by == "b/n"
    first = answered.attempts[0]
    assert (first.kind, first.scope) == (row.kind, row.scope), first.message
    assert first.retry_after == (None if row.wait is None else pytest.approx(row.wait, abs=0.6))
    assert first.message
    assert KEY not in (first.message or "")
    asleep = [state for key, state in troubled(router).items() if not key.startswith("b/")]
    assert len(asleep) == 1
    retried = row.kind == "transient"
    assert [request.model for request in loopback.requests] == ["m", *(["m"] if retried else []), "n"]


@pytest.mark.parametrize("name", PRESETS)
def test_what_it_is_asked_is_what_its_vendor_knows(name: str, make: Make, loopback: Loopback) -> None:
    preset = PRESETS[name]
    loopback.script("m", {"sse": RECORDED[name].frames})
    turns = [{"role": "developer", "content": "brief"}, {"role": "user", "content": "hi"}]
    router_of(name, make, loopback).ask(turns, model="r", options={"max_tokens": 9})
    body = loopback.requests[0].body
    limit = {"openai-responses": "max_output_tokens"}.get(preset.api, "max_tokens")
    assert body[limit] == 9
    assert "max_completion_tokens" not in body
    if preset.api == "openai-chat":
        assert body["stream_options"] == {"include_usage": True}
        assert body["messages"][0]["role"] == "system"


def test_an_error_in_the_middle_of_an_openrouter_stream_is_a_cut_answer(make: Make, loopback: Loopback) -> None:
    error = {"code": 502, "message": "Provider disconnected unexpectedly"}
    broken = [*words(), chunk({"content": ""}, "error", error=error)]
    loopback.script("m", {"sse": broken})
    answered = router_of("openrouter", make, loopback).ask("hi", model="r")
    assert answered.served_by == "b/n"
    assert [row.outcome for row in answered.attempts] == ["truncated", "success"]


def test_azures_unknown_limits_hold_nobody(make: Make, loopback: Loopback) -> None:
    limits = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-limit-requests": "-1"}
    loopback.script("m", {"sse": RECORDED["azure"].frames, "limits": limits})
    router = router_of("azure", make, loopback)
    assert [router.ask("hi", model="r").served_by for _ in range(2)] == ["p/m", "p/m"]


def test_a_local_server_that_loads_its_model_is_waited_for(make: Make, loopback: Loopback) -> None:
    loopback.script("m", RECORDED["llamacpp"].refusal, {"sse": RECORDED["llamacpp"].frames})
    answered = router_of("llamacpp", make, loopback).ask("hi", model="r")
    assert (answered.text, answered.served_by) == (SAID, "p/m")
