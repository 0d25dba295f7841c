"""OpenAI's chat completions and everything compatible with them, over the official SDK. It judges no fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ..core.chat import Delta, Finish, Usage
from . import VendorCall, translate
from .reading import Calls, InStream, arguments, is_error, items, mapping, number, proven, text
from .sdk import SdkVendor, ambient_headers

if TYPE_CHECKING:
    import httpx2

Reason = Literal["stop", "length", "tool_calls", "content_filter", "refusal", "other"]

_REASONS: Mapping[str, Reason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


def openai_client(call: VendorCall, pool: httpx2.AsyncClient) -> Any:
    """OpenAI's client, told everything the environment could otherwise say."""
    import openai

    return openai.AsyncOpenAI(
        api_key="unused: the header is set by name",
        admin_api_key="",
        webhook_secret="",
        base_url=call.provider.base_url,
        max_retries=0,
        http_client=pool,
        timeout=None,
        default_headers=ambient_headers("OPENAI_CUSTOM_HEADERS", openai.omit),
    )


class OpenAIVendor(SdkVendor):
    """What both of OpenAI's APIs share."""

    sdk = "openai"

    def own_headers(self, call: VendorCall, omit: Any) -> Mapping[str, Any]:
        # the environment's organisation would be sent to anybody; an own one is said in the provider's ``headers``
        said = {name.lower() for name in call.headers}
        return {name: omit for name in ("OpenAI-Organization", "OpenAI-Project") if name.lower() not in said}

    def sdk_client(self, call: VendorCall, pool: httpx2.AsyncClient) -> Any:
        return openai_client(call, pool)


class Vendor(OpenAIVendor):
    api = "openai-chat"
    path = "/chat/completions"

    def translate(self, call: VendorCall) -> translate.Translated:
        return translate.chat(call)

    def reader(self, call: VendorCall, dropped: tuple[str, ...]) -> ChatReader:
        return ChatReader(dropped, keeps_reasoning="reasoning-content" in call.provider.quirks)


class ChatReader:
    """Complete once a choice has a finish reason; usage may follow, ``[DONE]`` may be missing (wire.md §2.3).
    ``keeps_reasoning``: a vendor that wants its own thinking back beside the results of the tools it asked for."""

    def __init__(self, dropped: tuple[str, ...] = (), *, keeps_reasoning: bool = False) -> None:
        self._keeps = keeps_reasoning
        self._thought = ""
        self.complete = False
        self.closed = False
        self.skipped = 0
        self._dropped = dropped
        self._calls = Calls()
        self._pieces = 0
        self._reason = ""
        self._refused = False
        self._model: str | None = None
        self._id: str | None = None
        self._usage: Usage | None = None

    def read(self, name: str, data: Any) -> Iterator[Delta]:
        if data == "[DONE]":
            self.closed = True
            return
        if name == "error" or is_error(data):
            if self.complete:
                return
            raise InStream(data)
        chunk = mapping(data)
        self._model = text(chunk.get("model")) or self._model
        self._id = text(chunk.get("id")) or self._id
        self._usage = chat_usage(chunk.get("usage") or mapping(chunk.get("x_groq")).get("usage")) or self._usage
        for choice in items(chunk.get("choices")):
            if number(choice.get("index")) == 0 and not self.complete:
                yield from self._choice(choice, chunk)

    def _choice(self, choice: Mapping[str, Any], chunk: Mapping[str, Any]) -> Iterator[Delta]:
        for delta in self._delta(mapping(choice.get("delta"))):
            self._pieces += 1
            yield delta
        # Moonshot counts inside the choice
        self._usage = chat_usage(choice.get("usage")) or self._usage
        reason = text(choice.get("finish_reason"))
        if reason == "error":
            raise InStream(choice.get("error") or chunk)
        if reason:
            self._reason, self.complete = reason, True

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[Delta]:
        reasoning = text(delta.get("reasoning_content")) or text(delta.get("reasoning"))
        if reasoning:
            self._thought += reasoning if self._keeps else ""
            yield Delta(kind="reasoning", text=reasoning)
        yield from _content(delta.get("content"))
        if refusal := text(delta.get("refusal")):
            self._refused = True
            yield Delta(kind="refusal", text=refusal)
        for fragment in items(delta.get("tool_calls")):
            function = mapping(fragment.get("function"))
            index = fragment.get("index")
            yield self._calls.piece(
                arguments(function.get("arguments")),
                index=index if isinstance(index, int) else None,
                id=text(fragment.get("id")) or None,
                name=text(function.get("name")) or None,
            )
        if old := mapping(delta.get("function_call")):
            yield self._calls.piece(arguments(old.get("arguments")), index="old", name=text(old.get("name")) or None)

    def finish(self) -> Finish | None:
        if not self.complete or (self.skipped and not proven(self._usage, pieces=self._pieces)):
            return None
        reason: Reason = _REASONS.get(self._reason, "other")
        if reason == "stop" and (self._refused or self._calls.count):
            # some vendors say 'stop' whatever happened
            reason = "refusal" if self._refused else "tool_calls"
        skipped = ("an event that could not be read",) if self.skipped else ()
        thought = ({"reasoning_content": self._thought},) if self._thought and self._calls.count else ()
        return Finish(
            reason=reason,
            detail=self._reason if reason == "other" else None,
            usage=self._usage,
            model=self._model,
            request_id=self._id,
            dropped=self._dropped + skipped,
            reasoning=thought,
        )


def _content(content: object) -> Iterator[Delta]:
    if isinstance(content, str) and content:
        yield Delta(text=content)
    # Mistral's reasoning models send parts
    for part in items(content):
        if part.get("type") == "thinking":
            for thought in items(part.get("thinking")):
                yield Delta(kind="reasoning", text=text(thought.get("text")))
        elif text(part.get("text")):
            yield Delta(text=text(part.get("text")))


def chat_usage(usage: object) -> Usage | None:
    counts = mapping(usage)
    if not counts:
        return None
    prompt = mapping(counts.get("prompt_tokens_details"))
    return Usage(
        input_tokens=number(counts.get("prompt_tokens")),
        output_tokens=number(counts.get("completion_tokens")),
        cached_tokens=number(prompt.get("cached_tokens")) or number(counts.get("prompt_cache_hit_tokens")),
        reasoning_tokens=number(mapping(counts.get("completion_tokens_details")).get("reasoning_tokens")),
    )
