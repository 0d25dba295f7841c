"""What surrounds a question: the prompt as messages, the request made of it, the transcript of what comes. It chooses
no target and calls no vendor.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from .core.chat import Delta, Message, Request
from .core.select import Algorithm
from .errors import UsageError

if TYPE_CHECKING:
    from .dispatch import Engine, Happening, Order
    from .schema import Shape
    from .state.conversations import ConversationLog, Entry, Place
    from .transcript import Keep


def messages(prompt: Any, attachments: Sequence[Any] = ()) -> tuple[Message, ...]:
    """A prompt as messages: text is one user message; a list holds messages in the OpenAI chat shape. ``attachments``
    (see ``attachments.attachment``; parts are taken as they are) go with the last of them. Raises ``UsageError`` for
    anything else, and for no message at all."""
    found = _messages(prompt)
    if not attachments:
        _need_words(found)
        return found
    from .attachments import attachment

    last, parts = found[-1], [one if isinstance(one, Mapping) else attachment(one) for one in attachments]
    text = ({"type": "text", "text": last.content},) if isinstance(last.content, str) else last.content or ()
    return (*found[:-1], msgspec.structs.replace(last, content=(*text, *parts)))


def _messages(prompt: Any) -> tuple[Message, ...]:
    if isinstance(prompt, str):
        return (Message(role="user", content=prompt),)
    if isinstance(prompt, Message):
        return (prompt,)
    try:
        found = tuple(row if isinstance(row, Message) else msgspec.convert(row, Message) for row in prompt)
    except (TypeError, msgspec.MsgspecError) as error:
        raise UsageError(f"a prompt is text or a list of chat messages: {error}") from None
    if not found:
        raise UsageError("there is nothing to ask: the prompt has no message")
    return found


def _need_words(found: Sequence[Message]) -> None:
    last = found[-1]
    if last.role == "user" and isinstance(last.content, str) and not last.content.strip():
        raise UsageError("there is nothing to ask: the prompt is empty")


def request(
    prompt: Any,
    *,
    system: str | None = None,
    options: Mapping[str, Any] | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: Any = None,
    schema: Mapping[str, Any] | None = None,
) -> Request:
    """A prompt with all that goes to the vendor beside it."""
    return Request(
        messages=messages(prompt),
        system=system,
        options=dict(options or {}),
        tools=tuple(tools),
        tool_choice=tool_choice,
        schema=schema,
    )


def need_amounts(how: Mapping[str, Any]) -> None:
    """Raises ``UsageError`` where an amount among a question's keywords is none."""
    for name in ("timeout", "max_cost"):
        value = how.get(name)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0):
            continue
        raise UsageError(f"{name} is a number above 0, not {value!r}"[:200])


def shape(said: Any) -> Shape | None:
    """What an answer must fit: nothing where no schema was given."""
    if said is None:
        return None
    from . import schema

    return schema.shape(said)


def told(
    engine: Engine,
    order: Order,
    selectors: Sequence[Algorithm],
    *,
    wanted: Shape | None,
    new: Sequence[Message],
    keepers: Sequence[Keep],
) -> AsyncGenerator[Happening, None]:
    """An order dispatched, held back until it fits what is ``wanted``, and told to the ``keepers``. ``new`` are the
    messages that were not said before."""
    from .transcript import Transcript, transcribed

    transcript = Transcript(order, new, time=engine.now())

    async def dispatched(order: Order) -> AsyncGenerator[Happening, None]:
        from .dispatch import Dispatch

        dispatch = Dispatch(engine, order, selectors)
        transcript.id = dispatch.id
        async with aclosing(dispatch.run()) as happenings:
            async for happening in happenings:
                yield happening

    if wanted is None:
        return transcribed(dispatched(order), transcript, keepers)
    from .schema import fitted

    return transcribed(fitted(wanted, order, run=dispatched, keep=engine.remember), transcript, keepers)


def logger(log: Callable[[], ConversationLog], place: Place | None, *, surface: str) -> Keep:
    """A keeper that appends to the log, which is opened for the first entry."""
    from .state.conversations import Place

    where = place or Place(surface=surface)

    def keep(entry: Entry) -> None:
        log().append(entry, where)

    return keep


async def pieces(happenings: AsyncGenerator[Happening, None]) -> AsyncGenerator[Delta, None]:
    """The answer alone, of everything that happens."""
    async with aclosing(happenings) as steps:
        async for step in steps:
            if isinstance(step, Delta):
                yield step
