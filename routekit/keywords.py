"""The keywords that every way of asking takes, with their types. For type checkers and readers: nothing imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from .core.chat import Message
from .state.conversations import Entry, Place


class How(TypedDict, total=False):
    #: a route, an alias, ``synthetic/model`` or ``provider/model``; unsaid, the default
    model: str | None
    #: the system prompt; unsaid, the configuration's
    system: str | None
    #: model options under the OpenAI names (``max_tokens``, ``temperature``, ``reasoning_effort`` …)
    options: Mapping[str, Any] | None
    #: tools and the choice among them, in the OpenAI chat shape
    tools: Sequence[Mapping[str, Any]]
    tool_choice: Any
    #: a JSON Schema, a pydantic model, a dataclass, an ``msgspec.Struct``, or a line like ``name, age int``
    schema: Any
    #: paths, addresses, bytes or parts (``routekit.attachment``) that go with the last message
    attachments: Sequence[Any]
    #: messages before the prompt
    history: Sequence[Message]
    #: the caller's own limit, in seconds
    timeout: float | None
    #: ``False``: the first target answers, or nobody
    failover: bool
    #: the one provider, concrete or synthetic, whose targets may serve
    only: str | None
    #: the most that one call may be expected to cost, in US dollars
    max_cost: float | None
    #: the name of a credential (a provider's id, or an entry of the keyring) to use in place of the configured ones
    key: str | None
    #: calls with the same one stay with the target that served the last, where its group is sticky
    session: str | None
    #: the conversation it belongs to, for records and the log
    conversation: str | None
    #: whether question and answer are kept in the conversation log; unsaid, programs' are not
    log: bool | None
    #: where it is asked, for the log
    place: Place | None
    #: given the entry for the log when all is over, logged or not
    keep: Callable[[Entry], None] | None
    #: who asks, for records: ``python`` if unsaid
    surface: str
