"""Anthropic's messages and everything compatible with them, over the official SDK. It judges no fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..core.chat import Delta, Finish, Usage
from . import VendorCall, translate
from .reading import Calls, InStream, is_error, mapping, number, proven, text
from .sdk import SdkVendor, ambient_headers

if TYPE_CHECKING:
    import httpx2

Reason = Literal["stop", "length", "tool_calls", "content_filter", "refusal", "other"]

_REASONS: Mapping[str, Reason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}
#: reasons whose name alone says all there is to say
_PLAIN = frozenset({"end_turn", "max_tokens", "tool_use"})


class Vendor(SdkVendor):
    api = "anthropic-messages"
    sdk = "anthropic"
    path = "/v1/messages"

    def translate(self, call: VendorCall) -> translate.Translated:
        return translate.messages(call)

    def reader(self, call: VendorCall, dropped: tuple[str, ...]) -> MessagesReader:
        return MessagesReader(dropped)

    def own_headers(self, call: VendorCall, omit: Any) -> Mapping[str, Any]:
        return {"anthropic-version": call.provider.anthropic_version or translate.NO_SAMPLING}

    def sdk_client(self, call: VendorCall, pool: httpx2.AsyncClient) -> Any:
        import anthropic

        return anthropic.AsyncAnthropic(
            api_key="unused: the header is set by name",
            webhook_key="",
            base_url=call.provider.base_url,
            max_retries=0,
            http_client=pool,
            timeout=None,
            open_telemetry=False,
            default_headers=ambient_headers("ANTHROPIC_CUSTOM_HEADERS", anthropic.omit),
        )


class MessagesReader:
    """Complete at ``message_stop``, if a stop reason came before it."""

    def __init__(self, dropped: tuple[str, ...] = ()) -> None:
        self.complete = False
        self.closed = False
        self.skipped = 0
        self._dropped = dropped
        self._calls = Calls()
        self._pieces = 0
        self._blocks: dict[int, dict[str, Any]] = {}
        self._told: dict[int, str] = {}
        self._reasoning: list[Mapping[str, Any]] = []
        self._delta: Mapping[str, Any] = {}
        self._counts: dict[str, Any] = {}
        self._message: Mapping[str, Any] = {}

    def read(self, name: str, data: Any) -> Iterator[Delta]:
        event = mapping(data)
        # The SDK loses every event of a server that sends no 'event:' lines; the data says its type, too.
        kind = text(event.get("type")) or name
        if kind == "error" or name == "error" or is_error(data):
            raise InStream(data)
        for delta in self._event(kind, event):
            self._pieces += 1
            yield delta

    def _event(self, kind: str, event: Mapping[str, Any]) -> Iterator[Delta]:
        if kind == "content_block_start":
            yield from self._start(number(event.get("index")), dict(mapping(event.get("content_block"))))
        elif kind == "content_block_delta":
            yield from self._piece(number(event.get("index")), mapping(event.get("delta")))
        elif kind == "content_block_stop":
            yield from self._stop(number(event.get("index")))
        elif kind == "message_start":
            self._message = mapping(event.get("message"))
            self._counts.update(mapping(self._message.get("usage")))
        elif kind == "message_delta":
            self._delta = {**self._delta, **_said(mapping(event.get("delta")))}
            self._counts.update(_said(mapping(event.get("usage"))))
        elif kind == "message_stop":
            self.closed = True
            self.complete = bool(text(self._delta.get("stop_reason")))

    def _start(self, index: int, block: dict[str, Any]) -> Iterator[Delta]:
        self._blocks[index], self._told[index] = block, ""
        if block.get("type") == "tool_use":
            yield self._calls.piece(
                "", index=index, id=text(block.get("id")) or None, name=text(block.get("name")) or None
            )
        elif text(block.get("text")):
            yield Delta(text=text(block.get("text")))
        elif text(block.get("thinking")):
            yield Delta(kind="reasoning", text=text(block.get("thinking")))

    def _piece(self, index: int, delta: Mapping[str, Any]) -> Iterator[Delta]:
        kind, block = delta.get("type"), self._blocks.setdefault(index, {})
        if kind == "text_delta" and text(delta.get("text")):
            yield Delta(text=text(delta.get("text")))
        elif kind == "thinking_delta" and text(delta.get("thinking")):
            block["thinking"] = text(block.get("thinking")) + text(delta.get("thinking"))
            yield Delta(kind="reasoning", text=text(delta.get("thinking")))
        elif kind == "signature_delta":
            block["signature"] = text(block.get("signature")) + text(delta.get("signature"))
        elif kind == "input_json_delta" and block.get("type") == "tool_use" and text(delta.get("partial_json")):
            self._told[index] = self._told.get(index, "") + text(delta.get("partial_json"))
            yield self._calls.piece(text(delta.get("partial_json")), index=index)

    def _stop(self, index: int) -> Iterator[Delta]:
        block = self._blocks.pop(index, {})
        if block.get("type") == "tool_use" and not self._told.get(index):
            # no pieces: the input is what the start said, usually the empty object
            yield self._calls.piece(msgspec.json.encode(mapping(block.get("input"))).decode(), index=index)
        elif block.get("type") in ("thinking", "redacted_thinking"):
            self._reasoning.append(block)

    def finish(self) -> Finish | None:
        usage = self._usage()
        if not self.complete or (self.skipped and not proven(usage, pieces=self._pieces)):
            return None
        reason = text(self._delta.get("stop_reason"))
        details = mapping(self._delta.get("stop_details"))
        detail = text(details.get("explanation")) or text(details.get("category")) or reason
        skipped = ("an event that could not be read",) if self.skipped else ()
        return Finish(
            reason=_REASONS.get(reason, "other"),
            detail=None if reason in _PLAIN else detail,
            usage=usage,
            model=text(self._message.get("model")) or None,
            request_id=text(self._message.get("id")) or None,
            dropped=self._dropped + skipped,
            reasoning=tuple(self._reasoning),
        )

    def _usage(self) -> Usage | None:
        counts = self._counts
        if not counts:
            return None
        cached = number(counts.get("cache_read_input_tokens"))
        written = number(counts.get("cache_creation_input_tokens"))
        thinking = mapping(counts.get("output_tokens_details")).get("thinking_tokens")
        return Usage(
            input_tokens=number(counts.get("input_tokens")) + cached + written,
            output_tokens=number(counts.get("output_tokens")),
            cached_tokens=cached,
            reasoning_tokens=number(thinking),
        )


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without nulls: a count that is not repeated still holds."""
    return {name: value for name, value in values.items() if value is not None}
