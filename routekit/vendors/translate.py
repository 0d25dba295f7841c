"""A request in each wire API's own form, and what that form could not carry. It reads no file and sends nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ..core.chat import Message
from ..core.faults import Fault, VendorFault
from ..core.value import Value
from . import VendorCall

Json = dict[str, Any]

#: what Anthropic's API demands and the caller did not say; what llama.cpp assumes, too
MAX_TOKENS = 4096
#: the first version of Anthropic's API without sampling parameters (wire.md §0.2)
NO_SAMPLING = "2026-10-21"
#: hosts that know ``max_completion_tokens``, the ``developer`` role and ``include_obfuscation``; others mostly do not
FIRST_PARTY = ("api.openai.com", ".api.openai.com", ".openai.azure.com")


class Translated(Value):
    """A request body, and the names of everything in the request that is not in it."""

    body: Json
    dropped: tuple[str, ...] = ()


class _Notes:
    """Names of what was lost, each once, in the order met."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def lost(self, *names: str) -> None:
        self._names.update(dict.fromkeys(names))

    def names(self) -> tuple[str, ...]:
        return tuple(self._names)


# -- chat completions --------------------------------------------------------------------------------------------------


def chat(call: VendorCall) -> Translated:
    notes, first = _Notes(), first_party(call.provider.base_url) and "max-tokens" not in call.provider.quirks
    developer = first and "developer" not in call.without
    body: Json = {"model": call.model, "messages": _chat_messages(call, notes, developer=developer)}
    if call.request.tools:
        body["tools"] = list(call.request.tools)
    _set(body, "tool_choice", call.request.tool_choice)
    if call.request.schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": _named_schema(call.request.schema)}
    names = {**_CHAT, "max_tokens": _limit_name(call, first)}
    names["max_completion_tokens"] = names["max_tokens"]
    _options(call, body, names, notes)
    extra = {"include_obfuscation": False} if first else {}
    return _sealed(call, body, notes, {"stream_options": {"include_usage": True, **extra}})


def _limit_name(call: VendorCall, first: bool) -> str:
    """The output limit's name here; the other one where this one was refused."""
    names = ["max_completion_tokens", "max_tokens"] if first else ["max_tokens", "max_completion_tokens"]
    return next((name for name in names if name not in call.without), names[0])


def _chat_messages(call: VendorCall, notes: _Notes, *, developer: bool) -> list[Json]:
    head: list[Json] = [{"role": "system", "content": call.request.system}] if call.request.system else []
    return head + [_chat_message(call, message, notes, developer=developer) for message in call.request.messages]


def _chat_message(call: VendorCall, message: Message, notes: _Notes, *, developer: bool) -> Json:
    role = "system" if message.role == "developer" and not developer else message.role
    content = list(message.content) if isinstance(message.content, tuple) else message.content
    body: Json = {"role": role, "content": _without_cache(content, notes)}
    if message.tool_calls:
        body["tool_calls"] = list(message.tool_calls)
    _set(body, "tool_call_id", message.tool_call_id)
    _set(body, "name", message.name)
    for item in _own_reasoning(call, message, notes):
        if "reasoning_content" in item:
            body["reasoning_content"] = item["reasoning_content"]
        else:
            notes.lost("reasoning")
    return body


def _without_cache(content: Any, notes: _Notes) -> Any:
    if not isinstance(content, list):
        return content
    if any("cache_control" in part for part in content):
        notes.lost("cache_control")
    return [{name: value for name, value in part.items() if name != "cache_control"} for part in content]


#: the caller's names → where they go; None: this API has no place for it
_CHAT: Mapping[str, str | None] = {"effort": "reasoning_effort", "top_k": "top_k"}


# -- responses ---------------------------------------------------------------------------------------------------------


def responses(call: VendorCall) -> Translated:
    notes = _Notes()
    body: Json = {"model": call.model, "input": []}
    for message in call.request.messages:
        body["input"] += _response_items(call, message, notes)
    _set(body, "instructions", call.request.system)
    if call.request.tools:
        body["tools"] = [_flat_tool(tool) for tool in call.request.tools]
    _set(body, "tool_choice", _flat_choice(call.request.tool_choice))
    if call.request.schema is not None:
        body["text"] = {"format": {"type": "json_schema", **_named_schema(call.request.schema)}}
    _options(call, body, _RESPONSES, notes)
    extra = {"stream_options": {"include_obfuscation": False}} if first_party(call.provider.base_url) else {}
    return _sealed(call, body, notes, extra)


def _response_items(call: VendorCall, message: Message, notes: _Notes) -> list[Json]:
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": _output(message)}]
    items = [dict(item) for item in _own_reasoning(call, message, notes)]
    if message.name:
        notes.lost("message name")
    if message.content:
        items.append({"role": message.role, "content": _response_content(message)})
    for tool in message.tool_calls:
        function = tool.get("function", {})
        items.append(
            {
                "type": "function_call",
                "call_id": tool.get("id"),
                "name": function.get("name"),
                "arguments": function.get("arguments") or "{}",
            }
        )
    return items


def _response_content(message: Message) -> Any:
    if not isinstance(message.content, tuple):
        return message.content
    kind = "output_text" if message.role == "assistant" else "input_text"
    return [_response_part(part, kind) for part in message.content]


def _output(message: Message) -> Any:
    if not isinstance(message.content, tuple):
        return message.content or ""
    return [_response_part(part, "input_text") for part in message.content]


def _response_part(part: Mapping[str, Any], text_kind: str) -> Json:
    kind = part.get("type")
    if kind == "text":
        return {"type": text_kind, "text": part.get("text", "")}
    if kind == "image_url":
        image = part.get("image_url", {})
        body: Json = {"type": "input_image", "image_url": image.get("url")}
        _set(body, "detail", image.get("detail"))
        return body
    if kind == "file":
        file = part.get("file", {})
        return {
            "type": "input_file",
            **{name: file[name] for name in ("file_data", "file_id", "filename") if name in file},
        }
    if kind in ("input_text", "output_text", "input_image", "input_file", "refusal"):
        return dict(part)
    raise _cannot(f"a part of type '{kind}'")


def _flat_tool(tool: Mapping[str, Any]) -> Json:
    if tool.get("type") != "function" or "function" not in tool:
        return dict(tool)
    return {"type": "function", **tool["function"]}


def _flat_choice(choice: Any) -> Any:
    if isinstance(choice, Mapping) and "function" in choice:
        return {"type": "function", "name": choice["function"].get("name")}
    return choice


_RESPONSES: Mapping[str, str | None] = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "effort": "reasoning.effort",
    "verbosity": "text.verbosity",
    "response_format": "text.format",
    "user": "safety_identifier",
    **dict.fromkeys(
        ("stop", "seed", "n", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_k", "min_p")
    ),
}


# -- messages ----------------------------------------------------------------------------------------------------------


def messages(call: VendorCall) -> Translated:
    notes = _Notes()
    system, rest = _leading_system(call)
    body: Json = {"model": call.model, "max_tokens": call.info.output or MAX_TOKENS}
    body["messages"] = _turns(call, rest, notes)
    _set(body, "system", system or None)
    if call.request.tools:
        body["tools"] = [_anthropic_tool(tool) for tool in call.request.tools]
    _set(body, "tool_choice", _anthropic_choice(call.request.tool_choice))
    if call.request.schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": dict(call.request.schema)}}
    sampling = (call.provider.anthropic_version or NO_SAMPLING) < NO_SAMPLING
    names = {**_MESSAGES, **({name: name for name in _SAMPLING} if sampling else {})}
    _options(call, body, names, notes)
    _parallel(body)
    return _sealed(call, body, notes, {})


_SAMPLING = ("temperature", "top_p", "top_k")
_MESSAGES: Mapping[str, str | None] = {
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "stop": "stop_sequences",
    "reasoning_effort": "output_config.effort",
    "effort": "output_config.effort",
    "user": "metadata.user_id",
    "response_format": "output_config.format",
    **dict.fromkeys(
        (
            *_SAMPLING,
            *("seed", "n", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "min_p"),
            *("prompt_cache_key", "store", "verbosity"),
        )
    ),
}


def _leading_system(call: VendorCall) -> tuple[str | list[Json], list[Message]]:
    """The system prompt: the request's own and the messages that lead the conversation. Text parts stay parts, since
    they may carry ``cache_control``."""
    rest = list(call.request.messages)
    blocks: list[Json] = [{"type": "text", "text": call.request.system}] if call.request.system else []
    while rest and rest[0].role in ("system", "developer"):
        blocks += _text_blocks(rest.pop(0).content)
    if all(set(block) == {"type", "text"} for block in blocks):
        return "\n\n".join(block["text"] for block in blocks), rest
    return blocks, rest


def _turns(call: VendorCall, source: Iterable[Message], notes: _Notes) -> list[Json]:
    """Messages as alternating turns. Consecutive ones of a role are joined, so that all results of a turn of tool
    calls stand in one user message, as the API demands."""
    turns: list[Json] = []
    for message in source:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(call, message, notes)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        # results first: the API refuses text before them
        turn["content"].sort(key=lambda block: block["type"] != "tool_result")
        only = turn["content"][0]
        if len(turn["content"]) == 1 and set(only) == {"type", "text"}:
            turn["content"] = only["text"]
    return turns


def _blocks(call: VendorCall, message: Message, notes: _Notes) -> list[Json]:
    if message.name:
        notes.lost("message name")
    if message.role in ("system", "developer"):
        notes.lost("system role inside the conversation")
    if message.role == "tool":
        blocks = _text_blocks(message.content) if isinstance(message.content, tuple) else message.content or ""
        return [{"type": "tool_result", "tool_use_id": tool_id(message.tool_call_id), "content": blocks}]
    blocks = [dict(block) for block in _own_reasoning(call, message, notes)]
    blocks += _unless_refused(call, _text_blocks(message.content), notes)
    return blocks + [_tool_use(tool, notes) for tool in message.tool_calls]


def _unless_refused(call: VendorCall, blocks: list[Json], notes: _Notes) -> list[Json]:
    """Thinking that the caller put in by hand is tried, and left out where its signature was refused."""
    if "thinking" not in call.without or not any(block["type"] in _THINKING for block in blocks):
        return blocks
    notes.lost("reasoning")
    return [block for block in blocks if block["type"] not in _THINKING]


_THINKING = ("thinking", "redacted_thinking")


def _text_blocks(content: Any) -> list[Json]:
    parts = ({"type": "text", "text": content},) if isinstance(content, str) else content or ()
    # an empty text block is a 400
    return [_anthropic_part(part) for part in parts if part.get("type") != "text" or part.get("text")]


_DATA_URL = re.compile(r"data:([^;,]+)(?:;[^,]*)?;base64,(.*)", re.DOTALL)


def _anthropic_part(part: Mapping[str, Any]) -> Json:
    kind = part.get("type")
    cache = {"cache_control": part["cache_control"]} if "cache_control" in part else {}
    if kind == "text":
        return {"type": "text", "text": part["text"], **cache}
    if kind == "image_url":
        return {"type": "image", "source": _source(part.get("image_url", {}).get("url", "")), **cache}
    if kind == "file" and part.get("file", {}).get("file_data"):
        file = part["file"]
        title = {"title": file["filename"]} if file.get("filename") else {}
        return {"type": "document", "source": _source(file["file_data"]), **title, **cache}
    if kind in ("image", "document", "tool_result", "tool_use", "thinking", "redacted_thinking"):
        return dict(part)
    raise _cannot(f"a part of type '{kind}'" if kind != "file" else "a file named by another vendor's id")


def _source(url: str) -> Json:
    found = _DATA_URL.fullmatch(url)
    if found is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": found[1], "data": found[2]}


def _tool_use(tool: Mapping[str, Any], notes: _Notes) -> Json:
    function = tool.get("function", {})
    return {
        "type": "tool_use",
        "id": tool_id(tool.get("id")),
        "name": function.get("name"),
        "input": _tool_input(function.get("arguments") or "{}", notes),
    }


def _tool_input(arguments: str, notes: _Notes) -> Any:
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    # The API takes an object only; the text is kept where the model can read it.
    notes.lost("tool arguments that are no JSON object")
    return {"arguments": arguments}


def tool_id(id: str | None) -> str:
    """A tool call's id as Anthropic accepts it. The same id always gives the same result, so that calls and their
    results still match."""
    clean = re.sub(r"[^a-zA-Z0-9_-]", "_", id or "call")
    return clean if clean == id else f"{clean}_{hashlib.sha256((id or '').encode()).hexdigest()[:8]}"


def _anthropic_tool(tool: Mapping[str, Any]) -> Json:
    if tool.get("type") != "function" or "function" not in tool:
        return dict(tool)
    function = tool["function"]
    body: Json = {"name": function.get("name")}
    _set(body, "description", function.get("description"))
    body["input_schema"] = function.get("parameters") or {"type": "object", "properties": {}}
    _set(body, "strict", function.get("strict"))
    return body


_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def _anthropic_choice(choice: Any) -> Any:
    if isinstance(choice, str):
        return {"type": _CHOICES.get(choice, choice)}
    if isinstance(choice, Mapping) and "function" in choice:
        return {"type": "tool", "name": choice["function"].get("name")}
    return choice


def _parallel(body: Json) -> None:
    """``parallel_tool_calls`` is said the other way round here, and inside the choice."""
    parallel = body.pop("parallel_tool_calls", None)
    if parallel is False and body.get("tools"):
        body["tool_choice"] = {**(body.get("tool_choice") or {"type": "auto"}), "disable_parallel_tool_use": True}


# -- shared ------------------------------------------------------------------------------------------------------------


def first_party(base_url: str) -> bool:
    host = base_url.partition("//")[2].partition("/")[0].rpartition("@")[2].partition(":")[0].lower()
    return any(host == name or (name.startswith(".") and host.endswith(name)) for name in FIRST_PARTY)


def _options(call: VendorCall, body: Json, names: Mapping[str, str | None], notes: _Notes) -> None:
    """Provider and variant parameters, then the caller's options over them. Names without a row go as they are: a
    parameter nobody here has heard of may be new."""
    for name, value in {**call.params, **call.request.options}.items():
        target = names.get(name, name)
        if name in _OURS:
            continue
        if name == "n" and value not in (None, 1):
            raise _cannot("more than one choice (n)", kind="request")
        if target is None or _refused(call, target) or (name in call.without and name not in _LIMITS):
            notes.lost(name)
        elif (adapted := _adapted(target, value)) is _LOST:
            notes.lost(f"{name}={value if isinstance(value, str) else value.get('type')}")
        elif value is not None:
            _put(body, target, adapted)


def _refused(call: VendorCall, target: str) -> bool:
    return target in call.without or (target in _EFFORT and not _EFFORT.isdisjoint(call.without))


#: one setting, however an error names it
_EFFORT = frozenset({"reasoning_effort", "effort", "reasoning", "reasoning.effort", "output_config.effort"})
#: what the engine decides itself
_OURS = frozenset({"model", "stream", "script", "messages", "input"})
#: one setting under two names: where one is refused, the other is tried
_LIMITS = frozenset({"max_tokens", "max_completion_tokens"})
_LOST: Any = object()


def _adapted(target: str, value: Any) -> Any:
    adapt = _ADAPT.get(target)
    return value if adapt is None else adapt(value)


def _anthropic_effort(value: Any) -> Any:
    # 'none' has no safe form: which thinking setting a model refuses differs from model to model (wire.md §4)
    return {"minimal": "low", "none": _LOST}.get(value, value) if isinstance(value, str) else value


def _anthropic_format(value: Any) -> Any:
    if not isinstance(value, Mapping) or value.get("type") != "json_schema":
        return _LOST
    return {"type": "json_schema", "schema": value.get("json_schema", value).get("schema")}


def _response_format(value: Any) -> Any:
    if isinstance(value, Mapping) and "json_schema" in value:
        return {"type": "json_schema", **value["json_schema"]}
    return value


def _strings(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_ADAPT: Mapping[str, Callable[[Any], Any]] = {
    "output_config.effort": _anthropic_effort,
    "output_config.format": _anthropic_format,
    "text.format": _response_format,
    "stop_sequences": _strings,
}


def _put(body: Json, path: str, value: Any) -> None:
    head, dot, rest = path.partition(".")
    if dot:
        inner = dict(body.get(head) or {})
        _put(inner, rest, value)
        value = inner
    elif isinstance(value, Mapping) and isinstance(body.get(head), Mapping):
        value = {**body[head], **value}
    body[head] = value


def _remove(body: Json, path: str) -> bool:
    head, dot, rest = path.partition(".")
    if not dot:
        return body.pop(head, None) is not None
    inner = body.get(head)
    removed = isinstance(inner, dict) and _remove(inner, rest)
    if removed and not inner:
        del body[head]
    return removed


def _sealed(call: VendorCall, body: Json, notes: _Notes, ours: Json) -> Translated:
    """The finished body: always streamed, without what this target has refused."""
    for name in sorted(call.without - _OURS):
        if _remove(body, name):
            notes.lost(name)
    for name, value in ours.items():
        if name not in call.without:
            body[name] = {**value, **(body.get(name) or {})}
    body["stream"] = True
    return Translated(body=body, dropped=notes.names())


def _own_reasoning(call: VendorCall, message: Message, notes: _Notes) -> tuple[Mapping[str, Any], ...]:
    """Reasoning goes back only to the account that made it: anyone else answers a foreign signature with a 400. One
    that its own account refuses after all (another model, a changed organisation) is left out, too."""
    own = message.reasoning_from in (call.provider.id, call.provider.credential)
    if message.reasoning and (not own or "thinking" in call.without):
        notes.lost("reasoning")
        return ()
    return message.reasoning


def _named_schema(schema: Mapping[str, Any]) -> Json:
    strict = {"strict": True} if _is_strict(schema) else {}
    return {"name": "answer", "schema": dict(schema), **strict}


def _is_strict(schema: Any) -> bool:
    """Whether a schema obeys the rules of strict mode: every object closed, every property required. Others are sent
    without it, since strict mode refuses them."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object" or "properties" in schema:
            names = set(schema.get("properties") or {})
            if schema.get("additionalProperties") is not False or set(schema.get("required") or ()) != names:
                return False
        return all(_is_strict(value) for value in schema.values())
    return all(_is_strict(value) for value in schema) if isinstance(schema, (list, tuple)) else True


def _set(body: Json, name: str, value: Any) -> None:
    if value is not None:
        body[name] = value


def _cannot(what: str, *, kind: str = "unsupported") -> VendorFault:
    message = f"{what} cannot be sent through this API"
    return VendorFault(Fault(kind=kind, message=message, delivered=False))
