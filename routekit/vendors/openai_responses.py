"""OpenAI's Responses API, over the official SDK. It judges no fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from ..core.chat import Delta, Finish, Usage
from . import VendorCall, translate
from .openai_chat import OpenAIVendor
from .reading import Calls, InStream, arguments, is_error, items, mapping, number, text


class Vendor(OpenAIVendor):
    api = "openai-responses"
    path = "/responses"

    def translate(self, call: VendorCall) -> translate.Translated:
        return translate.responses(call)

    def reader(self, call: VendorCall, dropped: tuple[str, ...]) -> ResponsesReader:
        return ResponsesReader(dropped)


Kind = Literal["text", "reasoning", "refusal"]
Handler = Callable[["ResponsesReader", Mapping[str, Any]], Iterator[Delta]]


class ResponsesReader:
    """Complete at ``response.completed`` or ``response.incomplete``. The ``.done`` events and the end repeat what the
    deltas said and give it where deltas are missing: after an event that could not be read, only they are believed."""

    def __init__(self, dropped: tuple[str, ...] = ()) -> None:
        self.complete = False
        self.closed = False
        self.skipped = 0
        self._dropped = dropped
        self._calls = Calls()
        self._said: dict[object, str] = {}
        self._torn = False
        self._refused = False
        self._reasoning: list[Mapping[str, Any]] = []
        self._response: Mapping[str, Any] = {}

    def read(self, name: str, data: Any) -> Iterator[Delta]:
        event = mapping(data)
        kind = text(event.get("type")) or name
        if kind in ("error", "response.failed", "response.cancelled") or (not kind and is_error(data)):
            raise InStream(_failure(event, data))
        if is_error(data):
            raise InStream(data)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            yield from handler(self, event)

    def delta(self, event: Mapping[str, Any], kind: Kind) -> Iterator[Delta]:
        piece = text(event.get("delta"))
        if piece and not self.skipped:
            key = _part(event, kind)
            self._said[key] = self._said.get(key, "") + piece
            self._refused = self._refused or kind == "refusal"
            yield Delta(kind=kind, text=piece)

    def done(self, event: Mapping[str, Any], kind: Kind) -> Iterator[Delta]:
        whole = text(event.get("refusal" if kind == "refusal" else "text"))
        yield from self._rest(_part(event, kind), whole, kind)

    def _rest(self, key: object, whole: str, kind: Kind) -> Iterator[Delta]:
        """What the deltas have not said of ``whole``. Where it does not begin with that, a delta was lost."""
        said = self._said.get(key, "")
        if not whole.startswith(said):
            self._torn = bool(whole)
        elif len(whole) > len(said):
            self._said[key] = whole
            self._refused = self._refused or kind == "refusal"
            yield Delta(kind=kind, text=whole[len(said) :])

    def item_added(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        item = mapping(event.get("item"))
        if item.get("type") == "function_call":
            self._said.setdefault(_call(event), "")
            yield self._calls.piece(
                "", index=_call(event), id=text(item.get("call_id")) or None, name=text(item.get("name")) or None
            )

    def arguments_delta(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        if self.skipped:
            return
        key, piece = _call(event), arguments(event.get("delta"))
        self._said[key] = self._said.get(key, "") + piece
        yield self._calls.piece(piece, index=key)

    def arguments_done(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        if _call(event) in self._said or not self.skipped:
            yield from self._rest_of_call(_call(event), arguments(event.get("arguments")))

    def _rest_of_call(self, key: object, whole: str) -> Iterator[Delta]:
        said = self._said.get(key, "")
        if not whole.startswith(said):
            self._torn = bool(whole)
        elif len(whole) > len(said):
            self._said[key] = whole
            yield self._calls.piece(whole[len(said) :], index=key)

    def item_done(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        item = mapping(event.get("item"))
        if item.get("type") == "reasoning":
            self._reasoning.append(item)
        elif item.get("type") == "function_call":
            if _call(event) not in self._said:
                yield from self.item_added(event)
            yield from self._rest_of_call(_call(event), arguments(item.get("arguments")))

    def end(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        self._response = mapping(event.get("response"))
        for number_, item in enumerate(items(self._response.get("output"))):
            # Third parties send nothing but the end, or other numbers in it than before: only what nobody said counts.
            if not self._said:
                yield from self._whole_item(number_, item)
        self.complete = self.closed = True

    def _whole_item(self, position: int, item: Mapping[str, Any]) -> Iterator[Delta]:
        for index, part in enumerate(items(item.get("content"))):
            if part.get("type") == "output_text" and text(part.get("text")):
                yield Delta(text=text(part.get("text")))
            elif part.get("type") == "refusal" and text(part.get("refusal")):
                self._refused = True
                yield Delta(kind="refusal", text=text(part.get("refusal")), index=index)
        if item.get("type") == "function_call":
            yield self._calls.piece(
                arguments(item.get("arguments")),
                index=("whole", position),
                id=text(item.get("call_id")) or None,
                name=text(item.get("name")) or None,
            )

    def finish(self) -> Finish | None:
        if not self.complete or self._torn or (self.skipped and not self._matches_the_end()):
            return None
        status = text(mapping(self._response.get("incomplete_details")).get("reason"))
        skipped = ("an event that could not be read",) if self.skipped else ()
        return Finish(
            reason=self._reason(status),
            detail=status or None,
            usage=responses_usage(self._response.get("usage")),
            model=text(self._response.get("model")) or None,
            request_id=text(self._response.get("id")) or None,
            dropped=self._dropped + skipped,
            reasoning=tuple(self._reasoning),
        )

    def _reason(self, status: str) -> Literal["stop", "length", "tool_calls", "content_filter", "refusal", "other"]:
        if status:
            return "content_filter" if status == "content_filter" else "length" if "token" in status else "other"
        if self._refused:
            return "refusal"
        return "tool_calls" if self._calls.count else "stop"

    def _matches_the_end(self) -> bool:
        """Whether the answer as told at its end is the answer as read: nothing else was in the event that was lost."""
        output = items(self._response.get("output"))
        calls = sum(item.get("type") == "function_call" for item in output)
        told = [
            text(part.get("text"))
            for item in output
            for part in items(item.get("content"))
            if part.get("type") == "output_text"
        ]
        said = [piece for key, piece in self._said.items() if isinstance(key, tuple) and key[0] == "text"]
        return bool(told or calls) and "".join(told) == "".join(said) and calls == self._calls.count


def _part(event: Mapping[str, Any], kind: str) -> object:
    return (kind, text(event.get("item_id")), number(event.get("output_index")), number(event.get("content_index")))


def _call(event: Mapping[str, Any]) -> object:
    """What numbers a call: its place in the output; the item's id, where a vendor leaves that out."""
    index = event.get("output_index")
    return ("call", index if isinstance(index, int) else text(event.get("item_id")))


def _failure(event: Mapping[str, Any], data: object) -> object:
    error = mapping(event.get("response")).get("error") or event.get("error")
    return {"error": error} if error else data


def _texts(method: Callable[[ResponsesReader, Mapping[str, Any], Kind], Iterator[Delta]], kind: Kind) -> Handler:
    return lambda reader, event: method(reader, event, kind)


_HANDLERS: Mapping[str, Handler] = {
    "response.output_text.delta": _texts(ResponsesReader.delta, "text"),
    "response.output_text.done": _texts(ResponsesReader.done, "text"),
    "response.refusal.delta": _texts(ResponsesReader.delta, "refusal"),
    "response.refusal.done": _texts(ResponsesReader.done, "refusal"),
    "response.reasoning_text.delta": _texts(ResponsesReader.delta, "reasoning"),
    "response.reasoning_summary_text.delta": _texts(ResponsesReader.delta, "reasoning"),
    "response.output_item.added": ResponsesReader.item_added,
    "response.output_item.done": ResponsesReader.item_done,
    "response.function_call_arguments.delta": ResponsesReader.arguments_delta,
    "response.function_call_arguments.done": ResponsesReader.arguments_done,
    "response.completed": ResponsesReader.end,
    "response.incomplete": ResponsesReader.end,
}


def responses_usage(usage: object) -> Usage | None:
    counts = mapping(usage)
    if not counts:
        return None
    return Usage(
        input_tokens=number(counts.get("input_tokens")),
        output_tokens=number(counts.get("output_tokens")),
        cached_tokens=number(mapping(counts.get("input_tokens_details")).get("cached_tokens")),
        reasoning_tokens=number(mapping(counts.get("output_tokens_details")).get("reasoning_tokens")),
    )
