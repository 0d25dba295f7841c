"""What a vendor refuses in a request: left out once where the request can do without, else taken elsewhere or returned.
The refusals are the vendors' own words, the adapters and the wire are real."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from routekit import Router
from routekit.core.chat import Message
from tests.honest.conftest import Make, fails, live, troubled, two
from tests.loopback import Loopback, answer

TEXT = {"tokens": 3}


def openai(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return {"status": 400, "body": {"error": error}}


def claude(message: str) -> dict[str, Any]:
    return {"status": 400, "body": {"type": "error", "error": {"type": "invalid_request_error", "message": message}}}


def detail(message: str) -> dict[str, Any]:
    return {"status": 422, "body": {"detail": message}}


class Refused(NamedTuple):
    api: str
    step: dict[str, Any]
    options: dict[str, Any]
    #: path in the first body → gone from the second
    path: str
    #: path in the second body → its value
    instead: tuple[str, Any] | None = None
    note: str = ""


CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic-messages"
REASONING = openai("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning.effort")

REFUSALS: dict[str, Refused] = {
    "max_tokens, to be called max_completion_tokens": Refused(
        CHAT,
        openai(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
            " instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        {"max_tokens": 50},
        "max_tokens",
        ("max_completion_tokens", 50),
        "a/m knows no max_tokens: asked again with max_completion_tokens",
    ),
    "temperature": Refused(
        CHAT,
        openai(
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is"
            " supported.",
            "temperature",
            "unsupported_value",
        ),
        {"temperature": 0.2, "max_tokens": 50},
        "temperature",
        ("max_tokens", 50),
        "a/m refused temperature: asked again without",
    ),
    "temperature, responses": Refused(
        RESPONSES,
        openai("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        {"temperature": 0.2},
        "temperature",
    ),
    "temperature, an older messages server": Refused(
        MESSAGES,
        claude("`temperature` is deprecated for this model."),
        {"temperature": 0.2},
        "temperature",
    ),
    "stream_options": Refused(CHAT, detail("Unknown parameter: 'stream_options'."), {}, "stream_options"),
    "stream_options, as pydantic says it": Refused(
        CHAT,
        {
            "status": 422,
            "body": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "stream_options"],
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
        },
        {},
        "stream_options",
    ),
    "reasoning_effort": Refused(
        CHAT,
        openai("Unrecognized request argument supplied: reasoning_effort"),
        {"reasoning_effort": "low"},
        "reasoning_effort",
        note="a/m refused reasoning_effort: asked again without",
    ),
    "effort, by its other name": Refused(
        CHAT, openai("Unrecognized request argument supplied: reasoning_effort"), {"effort": "low"}, "reasoning_effort"
    ),
    "effort, responses": Refused(RESPONSES, REASONING, {"effort": "low"}, "reasoning"),
    "effort, responses, by the name of chat": Refused(
        RESPONSES, openai("reasoning_effort is not supported for this model"), {"effort": "low"}, "reasoning"
    ),
    "effort, messages": Refused(
        MESSAGES, claude("This model does not support the effort parameter."), {"effort": "low"}, "output_config"
    ),
    "effort, messages, by its place": Refused(
        MESSAGES,
        claude("output_config.effort: Extra inputs are not permitted"),
        {"effort": "low"},
        "output_config",
    ),
}


def at(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return body


def router_of(make: Make, loopback: Loopback, api: str) -> Router:
    # sampling exists only in Anthropic's older version
    older = 'anthropic_version = "2023-06-01"\n' if api == MESSAGES else ""
    text = two(loopback, api).replace('key = "none"\n', f'key = "none"\n{older}')
    return make(text)


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_parameter_is_left_out_or_renamed_once_and_said(name: str, make: Make, loopback: Loopback) -> None:
    case = REFUSALS[name]
    loopback.script("m", case.step, TEXT)
    router = router_of(make, loopback, case.api)
    answered = router.ask("hi", model="r", options=case.options)
    assert (answered.text, answered.served_by) == (answer(3), "a/m")
    first, second = (request.body for request in loopback.requests)
    assert at(first, case.path) is not None
    assert at(second, case.path) is None
    if case.instead:
        assert at(second, case.instead[0]) == case.instead[1]
    kinds = [(row.kind, row.scope, row.window_s) for row in answered.attempts]
    assert kinds == [("unsupported", "nobody", None), (None, None, None)]
    assert answered.record.notes[0] == (case.note or answered.record.notes[0])
    assert answered.record.notes[0].startswith("a/m ")
    assert answered.attempts[1].dropped == (() if case.instead and case.path == "max_tokens" else _lost(case))
    assert troubled(router) == {}


def _lost(case: Refused) -> tuple[str, ...]:
    """What the record names as lost: the caller's own name of it; what only we asked for is nobody's loss."""
    return tuple(name for name in case.options if name in ("temperature", "effort", "reasoning_effort"))


@pytest.mark.parametrize("name", REFUSALS)
def test_a_parameter_that_goes_on_being_refused_is_tried_no_third_time(
    name: str, make: Make, loopback: Loopback
) -> None:
    case = REFUSALS[name]
    loopback.script("m", case.step)
    router = router_of(make, loopback, case.api)
    assert router.ask("hi", model="r", options=case.options).served_by == "b/n"
    assert [request.model for request in loopback.requests] == ["m", "m", "n"]
    # nobody's fault: it is asked first the next time
    assert troubled(router) == {}


@pytest.mark.parametrize(
    ("api", "step"),
    [
        (CHAT, openai("This model does not support tools.", "tools")),
        (RESPONSES, openai("Tool 'function' is not supported with this model.", "tools")),
        (MESSAGES, claude("This model does not support tool use.")),
    ],
)
def test_what_a_request_cannot_do_without_is_taken_to_another_at_once(
    api: str, step: dict[str, Any], make: Make, loopback: Loopback
) -> None:
    loopback.script("m", step)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    answered = router_of(make, loopback, api).ask("hi", model="r", tools=[tool])
    assert answered.served_by == "b/n"
    assert [request.model for request in loopback.requests] == ["m", "n"]


def test_an_output_limit_is_never_left_out(make: Make, loopback: Loopback) -> None:
    # Left out, the answer could cost any amount.
    loopback.script("m", openai("Unsupported parameter: 'max_output_tokens'", "max_output_tokens"))
    answered = router_of(make, loopback, RESPONSES).ask("hi", model="r", options={"max_tokens": 20})
    assert answered.served_by == "b/n"
    assert [request.body.get("max_output_tokens") for request in loopback.requests] == [20, 20]


# -- thinking ----------------------------------------------------------------------------------------------------------

SIGNED = ({"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"},)
SEALED = ({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"},)


def history(material: tuple[dict[str, Any], ...], maker: str) -> list[Message]:
    return [
        Message(role="user", content="one"),
        Message(role="assistant", content="uno", reasoning=material, reasoning_from=maker),
        Message(role="user", content="two"),
    ]


def thoughts(body: Any) -> int:
    turns = body.get("messages") or body.get("input")
    parts = [part for turn in turns for part in (turn["content"] if isinstance(turn.get("content"), list) else [turn])]
    return sum(part.get("type") in ("thinking", "reasoning") for part in parts)


@pytest.mark.parametrize(("api", "material"), [(MESSAGES, SIGNED), (RESPONSES, SEALED)], ids=["messages", "responses"])
def test_thinking_goes_to_its_maker_only_and_what_was_left_out_is_named(
    api: str, material: Any, make: Make, loopback: Loopback
) -> None:
    loopback.script("m", {"status": 503})
    answered = router_of(make, loopback, api).ask(history(material, "a"), model="r")
    assert answered.served_by == "b/n"
    assert [thoughts(request.body) for request in loopback.requests] == [1, 1, 0]
    assert answered.attempts[-1].dropped == ("reasoning",)


@pytest.mark.parametrize(
    ("api", "material", "step"),
    [
        (MESSAGES, SIGNED, claude("messages.1.content.0: Invalid `signature` in `thinking` block")),
        (
            RESPONSES,
            SEALED,
            openai("The encrypted content for item rs_1 could not be verified.", None, "invalid_encrypted_content"),
        ),
    ],
    ids=["messages", "responses"],
)
def test_thinking_whose_signature_is_refused_is_stripped_once_and_said(
    api: str, material: Any, step: Any, make: Make, loopback: Loopback
) -> None:
    loopback.script("m", step, TEXT)
    router = router_of(make, loopback, api)
    answered = router.ask(history(material, "a"), model="r")
    assert (answered.text, answered.served_by) == (answer(3), "a/m")
    assert [thoughts(request.body) for request in loopback.requests] == [1, 0]
    assert answered.record.notes == ("a/m refused the thinking of another model or account: asked again without",)
    assert answered.attempts[-1].dropped == ("reasoning",)
    assert answered.attempts[0].kind == "unsupported"
    assert troubled(router) == {}


def test_thinking_put_in_by_hand_is_stripped_once_too(make: Make, loopback: Loopback) -> None:
    loopback.script("m", claude("messages.1.content.0: Invalid `signature` in `thinking` block"), TEXT)
    said = {"role": "assistant", "content": [*SIGNED, {"type": "text", "text": "uno"}]}
    turns = [{"role": "user", "content": "one"}, said, {"role": "user", "content": "two"}]
    answered = router_of(make, loopback, MESSAGES).ask(turns, model="r")
    assert answered.served_by == "a/m"
    assert [thoughts(request.body) for request in loopback.requests] == [1, 0]
    assert loopback.requests[1].body["messages"][1]["content"] == "uno"


# -- too long, refused by policy, malformed ----------------------------------------------------------------------------

TOO_LONG: dict[str, dict[str, Any]] = {
    CHAT: openai(
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "messages",
        "context_length_exceeded",
    ),
    RESPONSES: openai("Your input exceeds the context window of this model.", "input", "context_length_exceeded"),
    MESSAGES: claude("prompt is too long: 9000 tokens > 8192 maximum"),
}


def sized(loopback: Loopback, api: str, *sizes: tuple[str, str, int | None]) -> str:
    rows = ""
    for name, model, size in sizes:
        rows += f'[providers.{name}]\napi = "{api}"\nbase_url = "{loopback.url(api)}"\nkey = "none"\n'
        rows += f"[providers.{name}.model_info.{model}]\ncontext = {size}\n" if size else ""
    listed = ", ".join(f'"{name}/{model}"' for name, model, _ in sizes)
    return f"{rows}[routes.r]\ntargets = [{listed}]\n"


def test_a_prompt_too_long_goes_once_to_a_larger_window_only(api: str, make: Make, loopback: Loopback) -> None:
    loopback.script("m", TOO_LONG[api])
    sizes = [("a", "m", 8192), ("b", "n", 8192), ("c", "k", 4000), ("d", "x", 32000)]
    router = make(sized(loopback, api, *sizes))
    answered = router.ask("hi", model="r")
    assert answered.served_by == "d/x"
    assert [request.model for request in loopback.requests] == ["m", "x"]
    assert [(skip.target, skip.reason) for skip in answered.record.skipped] == [
        ("b/n", "window too small"),
        ("c/k", "window too small"),
    ]
    assert troubled(router) == {}


def test_a_prompt_too_long_for_everybody_is_the_requests_own_fault(api: str, make: Make, loopback: Loopback) -> None:
    loopback.script("*", TOO_LONG[api])
    router = make(sized(loopback, api, ("a", "m", 8192), ("b", "n", 4000)))
    error = fails(router, model="r")
    assert (error.exit_code, error.kind) == (65, "context")
    assert [request.model for request in loopback.requests] == ["m"]
    assert troubled(router) == {}


def test_a_prompt_too_long_goes_on_where_no_window_is_known(api: str, make: Make, loopback: Loopback) -> None:
    loopback.script("m", TOO_LONG[api])
    assert make(sized(loopback, api, ("a", "m", None), ("b", "n", None))).ask("hi", model="r").served_by == "b/n"


RETURNED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "policy, chat": (
        CHAT,
        "content_filter",
        openai("Your request was rejected as a result of our safety system.", None, "content_policy_violation"),
    ),
    "policy, responses": (RESPONSES, "content_filter", openai("Invalid prompt: flagged as", None, "invalid_prompt")),
    "policy, azure": (
        CHAT,
        "content_filter",
        {
            "status": 400,
            "body": {
                "error": {
                    "message": "The response was filtered due to the prompt triggering Azure OpenAI's content"
                    " management policy.",
                    "code": "content_filter",
                    "status": 400,
                    "innererror": {"code": "ResponsibleAIPolicyViolation"},
                }
            },
        },
    ),
    "policy, messages": (MESSAGES, "content_filter", claude("Output blocked by content filtering policy")),
    "malformed, chat": (CHAT, "request", openai("'messages' is a required property")),
    "malformed, responses": (RESPONSES, "request", openai("Invalid type for 'input[0].content'.", "input[0].content")),
    "malformed, messages": (MESSAGES, "request", claude("messages: at least one message is required")),
    "too large a body": (CHAT, "request", {"status": 413, "body": "<html><title>413 Too Large</title></html>"}),
}


@pytest.mark.parametrize("name", RETURNED)
@pytest.mark.parametrize("way", ["held", "live"])
def test_what_is_the_requests_own_fault_is_returned_at_once_with_its_reason(
    name: str, way: str, make: Make, loopback: Loopback
) -> None:
    api, kind, step = RETURNED[name]
    loopback.script("m", step)
    router = router_of(make, loopback, api)
    error = fails(router, model="r") if way == "held" else live(router, model="r")[1]
    assert error is not None
    assert (error.exit_code, error.kind) == (65, kind)
    assert len(loopback.requests) == 1
    assert error.attempts[0].message in str(error)
    assert troubled(router) == {}
