"""A question and its answer, as values. Messages keep the OpenAI chat shape; each vendor module translates from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .value import Value

Role = Literal["system", "developer", "user", "assistant", "tool"]


class Message(Value):
    """``content`` is text, or parts in the OpenAI chat shape (``text``, ``image_url``, ``file``). ``reasoning`` is
    vendor material (a signed thinking block, encrypted reasoning) that only ``reasoning_from`` can read again."""

    role: Role
    content: str | tuple[Mapping[str, Any], ...] | None = None
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: tuple[Mapping[str, Any], ...] = ()
    reasoning_from: str | None = None


class Request(Value):
    """One request as the caller made it. It is never changed: each attempt derives its own body from it.
    ``options`` are model options under the caller's names (``max_tokens``, ``temperature`` …)."""

    messages: tuple[Message, ...]
    system: str | None = None
    options: Mapping[str, Any] = {}
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: Any = None
    schema: Mapping[str, Any] | None = None

    def characters(self) -> int:
        """The length of everything textual: what a token estimate is made from."""
        count = len(self.system or "") + sum(_length(message.content) for message in self.messages)
        return count + sum(len(str(tool)) for tool in self.tools)

    def needs(self) -> frozenset[str]:
        """The capabilities a model must have: ``images``, ``pdf``, ``tools``."""
        found = {"tools"} if self.tools else set()
        for message in self.messages:
            for part in message.content if isinstance(message.content, tuple) else ():
                found |= {name for kind, name in _NEEDS if part.get("type") == kind}
        return frozenset(found)


_NEEDS = (("image_url", "images"), ("file", "pdf"))


def _length(content: str | Sequence[Mapping[str, Any]] | None) -> int:
    if content is None:
        return 0
    if isinstance(content, str):
        return len(content)
    return sum(len(part.get("text", "")) for part in content)


class Usage(Value):
    """Token counts. ``input_tokens`` includes the cached ones, ``output_tokens`` the reasoning ones. ``estimated``
    marks counts no vendor has confirmed (a cut stream)."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False


class Opened(Value):
    """The vendor has answered with headers: proof of life, not of an answer. Only limit and id headers are kept."""

    headers: Mapping[str, str] = {}
    request_id: str | None = None


class Delta(Value):
    """A piece of output. For ``tool`` pieces ``index`` numbers the call; ``text`` is a fragment of its arguments."""

    text: str = ""
    kind: Literal["text", "reasoning", "refusal", "tool"] = "text"
    index: int = 0
    id: str | None = None
    name: str | None = None


class Finish(Value):
    """The proven end of an answer: sent only after the API's own terminal event. ``model`` is what the vendor says it
    served with; ``dropped`` names what the translation could not carry; ``reasoning`` is material to hand back."""

    reason: Literal["stop", "length", "tool_calls", "content_filter", "refusal", "other"] = "stop"
    detail: str | None = None
    usage: Usage | None = None
    model: str | None = None
    request_id: str | None = None
    dropped: tuple[str, ...] = ()
    reasoning: tuple[Mapping[str, Any], ...] = ()


Event = Opened | Delta | Finish
