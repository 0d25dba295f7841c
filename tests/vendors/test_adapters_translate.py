"""One request in the three APIs' own forms: what goes where, and that whatever is lost is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core.chat import Message
from routekit.core.config import ModelInfo
from routekit.core.faults import VendorFault
from routekit.vendors import translate
from routekit.vendors.translate import Translated
from tests.vendors.asking import make_call, request

FORMS = {
    "openai-chat": translate.chat,
    "openai-responses": translate.responses,
    "anthropic-messages": translate.messages,
}
OPENAI = "https://api.openai.com/v1"
every_api = pytest.mark.parametrize("api", FORMS)

PNG = "data:image/png;base64,iVBORw0="
PDF = "data:application/pdf;base64,JVBERi0="
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}


def form(api: str, *messages: Message, url: str = "http://127.0.0.1/v1", **more: Any) -> Translated:
    names = ("system", "options", "tools", "tool_choice", "schema")
    ask = request(*messages, **{name: more.pop(name) for name in names if name in more})
    return FORMS[api](make_call(api, url, ask=ask, **more))


def user(content: Any) -> Message:
    return Message(role="user", content=content)


def chat_calls(*calls: tuple[str, str, str]) -> tuple[dict[str, Any], ...]:
    return tuple({"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls)


# -- the prompt --------------------------------------------------------------------------------------------------------


def test_the_system_prompt_stands_where_each_api_wants_it() -> None:
    messages = (Message(role="system", content="also"), user("hi"))
    chat = form("openai-chat", *messages, system="Brief.").body
    assert [m["content"] for m in chat["messages"]] == ["Brief.", "also", "hi"]
    responses = form("openai-responses", *messages, system="Brief.").body
    assert responses["instructions"] == "Brief."
    assert responses["input"] == [{"role": "system", "content": "also"}, {"role": "user", "content": "hi"}]
    anthropic = form("anthropic-messages", *messages, system="Brief.").body
    assert anthropic["system"] == "Brief.\n\nalso"
    assert anthropic["messages"] == [{"role": "user", "content": "hi"}]


def test_a_cached_system_block_stays_a_block() -> None:
    block = {"type": "text", "text": "long", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = form("anthropic-messages", Message(role="system", content=(block,)), user("hi")).body
    assert body["system"] == [block]


def test_cache_marks_are_named_where_they_are_lost() -> None:
    part = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    done = form("openai-chat", user((part,)))
    assert done.body["messages"][0]["content"] == [{"type": "text", "text": "x"}]
    assert done.dropped == ("cache_control",)


def test_a_system_message_inside_the_conversation_becomes_user_text_and_is_named() -> None:
    done = form("anthropic-messages", user("a"), Message(role="system", content="b"), user("c"))
    assert done.body["messages"][0]["content"] == [{"type": "text", "text": t} for t in "abc"]
    assert done.dropped == ("system role inside the conversation",)


def test_the_developer_role_goes_to_openai_only() -> None:
    message = Message(role="developer", content="x")
    assert form("openai-chat", message, url=OPENAI).body["messages"][0]["role"] == "developer"
    assert form("openai-chat", message).body["messages"][0]["role"] == "system"


def test_anthropic_turns_alternate_and_hold_no_empty_text() -> None:
    done = form("anthropic-messages", user("a"), user(""), Message(role="assistant", content=""), user("b"))
    assert done.body["messages"] == [{"role": "user", "content": [{"type": "text", "text": t} for t in "ab"]}]


# -- limits and options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "url", "name"),
    [
        ("openai-chat", OPENAI, "max_completion_tokens"),
        ("openai-chat", "https://x.openai.azure.com/openai/v1/", "max_completion_tokens"),
        ("openai-chat", "https://api.groq.com/openai/v1", "max_tokens"),
        ("openai-chat", "https://api.openai.com.evil.example/v1", "max_tokens"),
        ("openai-responses", OPENAI, "max_output_tokens"),
        ("anthropic-messages", "https://api.anthropic.com", "max_tokens"),
    ],
)
@pytest.mark.parametrize("said", ["max_tokens", "max_completion_tokens"])
def test_the_output_limit_has_the_name_the_api_knows(api: str, url: str, name: str, said: str) -> None:
    body = form(api, url=url, options={said: 50}).body
    assert {k: v for k, v in body.items() if "max" in k} == {name: 50}


def test_a_refused_name_of_the_output_limit_is_replaced_by_the_other() -> None:
    body = form("openai-chat", options={"max_tokens": 5}, without=frozenset({"max_tokens"})).body
    assert {k: v for k, v in body.items() if "max" in k} == {"max_completion_tokens": 5}
    both = frozenset({"max_tokens", "max_completion_tokens"})
    done = form("openai-chat", options={"max_tokens": 5}, without=both)
    assert not [k for k in done.body if "max" in k]
    assert done.dropped == ("max_tokens",)


def test_anthropic_is_told_a_limit_even_if_nobody_said_one() -> None:
    assert form("anthropic-messages").body["max_tokens"] == 4096
    assert form("anthropic-messages", info=ModelInfo(output=64000)).body["max_tokens"] == 64000


def test_sampling_reaches_only_anthropic_servers_of_an_older_version() -> None:
    options = {"temperature": 0.2, "top_k": 3}
    done = form("anthropic-messages", options=options)
    assert "temperature" not in done.body
    assert set(done.dropped) == {"temperature", "top_k"}
    old = form("anthropic-messages", options=options, provider={"anthropic_version": "2023-06-01"})
    assert (old.body["temperature"], old.body["top_k"], old.dropped) == (0.2, 3, ())


def test_stop_goes_where_there_is_a_place_for_it() -> None:
    assert form("openai-chat", options={"stop": "x"}).body["stop"] == "x"
    assert form("anthropic-messages", options={"stop": "x"}).body["stop_sequences"] == ["x"]
    done = form("openai-responses", options={"stop": "x"})
    assert "stop" not in done.body
    assert done.dropped == ("stop",)


def test_effort_takes_each_apis_form() -> None:
    params = {"reasoning_effort": "high"}
    assert form("openai-chat", params=params).body["reasoning_effort"] == "high"
    assert form("openai-responses", params=params).body["reasoning"] == {"effort": "high"}
    assert form("anthropic-messages", params=params).body["output_config"] == {"effort": "high"}
    assert form("anthropic-messages", params={"reasoning_effort": "minimal"}).body["output_config"]["effort"] == "low"
    none = form("anthropic-messages", params={"reasoning_effort": "none"})
    assert "output_config" not in none.body
    assert none.dropped == ("reasoning_effort=none",)


def test_effort_and_own_parameters_of_one_table_meet() -> None:
    params = {"reasoning": {"summary": "auto"}, "reasoning_effort": "low"}
    assert form("openai-responses", params=params).body["reasoning"] == {"summary": "auto", "effort": "low"}
    turned = {"reasoning_effort": "low", "reasoning": {"summary": "auto"}}
    assert form("openai-responses", params=turned).body["reasoning"] == {"summary": "auto", "effort": "low"}


@every_api
def test_the_callers_option_beats_the_providers_parameter(api: str) -> None:
    body = form(api, params={"max_tokens": 1, "new": "p"}, options={"max_tokens": 2, "new": "o"}).body
    assert body["new"] == "o"
    assert [v for k, v in body.items() if "max" in k] == [2]


@every_api
def test_model_and_stream_are_nobodys_to_change(api: str) -> None:
    body = form(api, params={"model": "x", "stream": False}, options={"model": "y", "stream": False}).body
    assert (body["model"], body["stream"]) == ("m", True)


@every_api
def test_more_than_one_choice_is_refused_before_sending(api: str) -> None:
    with pytest.raises(VendorFault) as caught:
        form(api, options={"n": 2})
    assert (caught.value.fault.kind, caught.value.fault.delivered) == ("request", False)
    form(api, options={"n": 1})


def test_usage_is_asked_for_unless_that_was_refused() -> None:
    assert form("openai-chat").body["stream_options"] == {"include_usage": True}
    assert form("openai-chat", url=OPENAI).body["stream_options"] == {
        "include_usage": True,
        "include_obfuscation": False,
    }
    assert "stream_options" not in form("openai-chat", without=frozenset({"stream_options"})).body


def test_what_a_target_refused_is_left_out_and_named() -> None:
    done = form("openai-responses", params={"reasoning_effort": "low"}, without=frozenset({"reasoning.effort"}))
    assert "reasoning" not in done.body
    done = form("openai-chat", tools=(TOOL,), options={"temperature": 1}, without=frozenset({"temperature", "tools"}))
    assert not {"temperature", "tools"} & set(done.body)
    assert set(done.dropped) == {"temperature", "tools"}


@every_api
def test_what_cannot_be_left_out_stays(api: str) -> None:
    body = form(api, without=frozenset({"model", "messages", "input", "stream"})).body
    assert body["stream"] is True
    assert body["model"] == "m"
    assert body.get("messages") or body.get("input")


# -- tools -------------------------------------------------------------------------------------------------------------


def test_tools_take_each_apis_form() -> None:
    function = TOOL["function"]
    assert form("openai-chat", tools=(TOOL,)).body["tools"] == [TOOL]
    assert form("openai-responses", tools=(TOOL,)).body["tools"] == [{"type": "function", **function}]  # type: ignore[dict-item]
    expected = {"name": "f", "description": "d", "input_schema": {"type": "object"}}
    assert form("anthropic-messages", tools=(TOOL,)).body["tools"] == [expected]


@pytest.mark.parametrize(
    ("choice", "responses", "anthropic"),
    [
        ("auto", "auto", {"type": "auto"}),
        ("none", "none", {"type": "none"}),
        ("required", "required", {"type": "any"}),
        (
            {"type": "function", "function": {"name": "f"}},
            {"type": "function", "name": "f"},
            {"type": "tool", "name": "f"},
        ),
    ],
)
def test_the_tool_choice_takes_each_apis_form(choice: Any, responses: Any, anthropic: Any) -> None:
    assert form("openai-chat", tools=(TOOL,), tool_choice=choice).body["tool_choice"] == choice
    assert form("openai-responses", tools=(TOOL,), tool_choice=choice).body["tool_choice"] == responses
    assert form("anthropic-messages", tools=(TOOL,), tool_choice=choice).body["tool_choice"] == anthropic


def test_serial_tool_calls_are_said_the_other_way_round_to_anthropic() -> None:
    body = form("anthropic-messages", tools=(TOOL,), options={"parallel_tool_calls": False}).body
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "parallel_tool_calls" not in body
    assert form("openai-responses", options={"parallel_tool_calls": False}).body["parallel_tool_calls"] is False


CONVERSATION = (
    user("add"),
    Message(role="assistant", content="ok", tool_calls=chat_calls(("c.1", "f", '{"x":1}'), ("c2", "g", ""))),
    Message(role="tool", tool_call_id="c.1", content="2"),
    Message(role="tool", tool_call_id="c2", content="3"),
    user("and?"),
)


def test_tool_results_go_to_chat_as_they_are() -> None:
    body = form("openai-chat", *CONVERSATION).body
    assert body["messages"][1]["tool_calls"] == list(CONVERSATION[1].tool_calls)
    assert body["messages"][2] == {"role": "tool", "content": "2", "tool_call_id": "c.1"}


def test_tool_results_become_items_of_responses() -> None:
    items = form("openai-responses", *CONVERSATION).body["input"]
    assert items[1:6] == [
        {"role": "assistant", "content": "ok"},
        {"type": "function_call", "call_id": "c.1", "name": "f", "arguments": '{"x":1}'},
        {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c.1", "output": "2"},
        {"type": "function_call_output", "call_id": "c2", "output": "3"},
    ]


def test_all_tool_results_of_a_turn_stand_first_in_one_anthropic_message() -> None:
    turns = form("anthropic-messages", *CONVERSATION).body["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    uses = [block for block in turns[1]["content"] if block["type"] == "tool_use"]
    assert [(use["name"], use["input"]) for use in uses] == [("f", {"x": 1}), ("g", {})]
    assert [block["type"] for block in turns[2]["content"]] == ["tool_result", "tool_result", "text"]
    assert [block["tool_use_id"] for block in turns[2]["content"][:2]] == [use["id"] for use in uses]


def test_arguments_that_are_no_object_cross_as_text_and_are_named() -> None:
    broken = Message(role="assistant", tool_calls=chat_calls(("c", "f", '{"x": ')))
    done = form("anthropic-messages", user("a"), broken)
    assert done.body["messages"][1]["content"][0]["input"] == {"arguments": '{"x": '}
    assert done.dropped == ("tool arguments that are no JSON object",)


@given(st.lists(st.text(min_size=1, max_size=30), unique=True, max_size=8))
def test_tool_ids_stay_apart_and_match_their_results(ids: list[str]) -> None:
    """Different ids stay different, the same stays the same, and all are of the form Anthropic takes."""
    made = [translate.tool_id(id) for id in ids]
    assert len(set(made)) == len(ids)
    assert made == [translate.tool_id(id) for id in ids]
    assert all(id.isascii() and all(c.isalnum() or c in "_-" for c in id) for id in made)


# -- images, files, schemas, reasoning ---------------------------------------------------------------------------------

SEEN = user(
    (
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
    )
)


def test_images_and_pdfs_go_to_chat_as_they_are() -> None:
    assert form("openai-chat", SEEN).body["messages"][0]["content"] == list(SEEN.content or ())


def test_images_and_pdfs_take_the_form_of_responses() -> None:
    assert form("openai-responses", SEEN).body["input"][0]["content"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": PNG, "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
    ]


def test_images_and_pdfs_take_the_form_of_messages() -> None:
    url = {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}
    content = form("anthropic-messages", SEEN, user((url,))).body["messages"][0]["content"]
    assert content[1] == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0="},
    }
    assert content[2] == {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
        "title": "a.pdf",
    }
    assert content[3]["source"] == {"type": "url", "url": "https://x.example/a.png"}


@pytest.mark.parametrize("api", ["openai-responses", "anthropic-messages"])
def test_a_part_that_cannot_cross_is_refused_rather_than_lost(api: str) -> None:
    with pytest.raises(VendorFault) as caught:
        form(api, user(({"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}},)))
    assert (caught.value.fault.kind, caught.value.fault.hits) == ("unsupported", "nobody")


def test_another_vendors_file_id_never_reaches_anthropic() -> None:
    with pytest.raises(VendorFault):
        form("anthropic-messages", user(({"type": "file", "file": {"file_id": "file-1"}},)))


CLOSED = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_a_schema_takes_each_apis_form() -> None:
    inner = {"name": "answer", "schema": CLOSED, "strict": True}
    chat = form("openai-chat", schema=CLOSED).body["response_format"]
    assert chat == {"type": "json_schema", "json_schema": inner}
    assert form("openai-responses", schema=CLOSED).body["text"] == {"format": {"type": "json_schema", **inner}}
    config = form("anthropic-messages", schema=CLOSED, params={"reasoning_effort": "low"}).body["output_config"]
    assert config == {"format": {"type": "json_schema", "schema": CLOSED}, "effort": "low"}


@pytest.mark.parametrize("schema", [OPEN, {**CLOSED, "required": []}, {**CLOSED, "properties": {"a": OPEN}}])
def test_a_schema_that_strict_mode_would_refuse_is_sent_without_it(schema: dict[str, Any]) -> None:
    assert "strict" not in form("openai-chat", schema=schema).body["response_format"]["json_schema"]


def test_a_response_format_crosses_where_it_can() -> None:
    given_ = {"type": "json_schema", "json_schema": {"name": "n", "schema": CLOSED}}
    options = {"response_format": given_}
    expected = {"type": "json_schema", "name": "n", "schema": CLOSED}
    assert form("openai-responses", options=options).body["text"] == {"format": expected}
    anthropic = form("anthropic-messages", options=options).body["output_config"]
    assert anthropic == {"format": {"type": "json_schema", "schema": CLOSED}}
    done = form("anthropic-messages", options={"response_format": {"type": "json_object"}})
    assert "output_config" not in done.body
    assert done.dropped == ("response_format=json_object",)


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}


@pytest.mark.parametrize("api", ["openai-responses", "anthropic-messages"])
def test_reasoning_goes_back_to_the_account_it_came_from(api: str) -> None:
    message = Message(role="assistant", content="a", reasoning=(THOUGHT,), reasoning_from="p")
    done = form(api, user("q"), message)
    turn = done.body["input"][1] if api == "openai-responses" else done.body["messages"][1]["content"][0]
    assert turn == THOUGHT
    assert done.dropped == ()


@every_api
def test_foreign_reasoning_is_left_out_and_named(api: str) -> None:
    done = form(api, user("q"), Message(role="assistant", content="a", reasoning=(THOUGHT,), reasoning_from="other"))
    assert "sig" not in repr(done.body)
    assert done.dropped == ("reasoning",)


@every_api
def test_translating_changes_nothing_of_the_callers(api: str) -> None:
    call = make_call(api, ask=request(SEEN, *CONVERSATION, tools=(TOOL,), schema=CLOSED, options={"stop": "x"}))
    before = repr(call)
    first = FORMS[api](call)
    assert FORMS[api](call) == first
    assert repr(call) == before
