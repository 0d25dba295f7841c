"""What was said in one request, gathered while it happens: an entry of the conversation log. It writes no file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from .answer import gather_calls, said
from .core.chat import Delta, Finish, Message
from .core.decide import Choice
from .core.record import RequestRecord
from .state.conversations import Entry

if TYPE_CHECKING:
    from .dispatch import Happening, Order

Keep = Callable[[Entry], None]


class Transcript:
    """``id`` is the request's, set once it is known. ``new`` are the messages that were not said before."""

    def __init__(self, order: Order, new: Sequence[Message], *, time: float) -> None:
        self.id = ""
        self._order, self._new, self._time = order, tuple(new), time
        self._deltas: list[Delta] = []
        self._choice: Choice | None = None
        self._finish: Finish | None = None
        self._record: RequestRecord | None = None

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Delta):
            self._deltas.append(happening)
        elif isinstance(happening, Choice):
            self._choice = happening
        elif isinstance(happening, Finish):
            self._finish = happening
        elif isinstance(happening, RequestRecord):
            self._record = happening

    def entry(self) -> Entry | None:
        """What was said, whole or in part; ``None`` where nobody has seen anything of it."""
        record, order, request = self._record, self._order, self._order.request
        if record is None and not self._deltas:
            return None
        leaf = order.plan.leaves[self._choice.leaf] if self._choice is not None else None
        reasoning = self._finish.reasoning if self._finish is not None and record is not None else ()
        return Entry(
            id=self.id,
            conversation=order.conversation or self.id,
            time=self._time,
            reference=order.plan.reference,
            served_by=leaf.label if leaf is not None else None,
            prompt=self._new,
            system=request.system,
            answer=said(self._deltas, "text") or said(self._deltas, "refusal"),
            thoughts=said(self._deltas, "reasoning"),
            tool_calls=tuple(gather_calls(self._deltas)) if record is not None else (),
            reasoning=reasoning,
            # only the account that made it can read it again
            reasoning_from=leaf.provider if reasoning and leaf is not None else None,
            usage=record.usage if record is not None else None,
            cost=record.cost if record is not None else None,
            finish_reason=record.finish_reason if record is not None else None,
            partial=record is None,
            options=request.options,
            schema=request.schema,
        )


async def transcribed(
    happenings: AsyncGenerator[Happening, None], transcript: Transcript, keepers: Sequence[Keep]
) -> AsyncGenerator[Happening, None]:
    """The same happenings; when they end, in whatever way, what was said of the answer goes to the keepers."""
    try:
        async with aclosing(happenings) as steps:
            async for step in steps:
                transcript.take(step)
                yield step
    finally:
        entry = transcript.entry() if keepers else None
        for keep in keepers if entry is not None else ():
            assert entry is not None, "there is something to keep"
            keep(entry)
