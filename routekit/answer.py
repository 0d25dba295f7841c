"""The answer object: what a question brought back, in the forms people use it. It asks nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from .core.chat import Delta, Finish, Message, Usage
from .core.record import Attempt, RequestRecord

if TYPE_CHECKING:
    from decimal import Decimal

FENCE = "```"


class Answer:
    """A whole answer. ``text`` is the visible text, ``reasoning`` what the model thought aloud; ``record`` explains who
    served it and why. ``cost`` is US dollars, ``None`` where no price is known. ``data`` is what ``schema=`` asked for,
    checked; ``None`` without one, and where the model called a tool or refused instead."""

    def __init__(
        self, record: RequestRecord, deltas: Iterable[Delta] = (), *, finish: Finish | None = None, data: Any = None
    ) -> None:
        self.record = record
        self._deltas = tuple(deltas)
        self._finish = finish or Finish()
        self.text = said(self._deltas, "text") or said(self._deltas, "refusal")
        self.reasoning = said(self._deltas, "reasoning")
        self.data = data

    @property
    def route(self) -> str:
        return self.record.reference

    @property
    def served_by(self) -> str | None:
        return self.record.served_by

    @property
    def finish_reason(self) -> str | None:
        return self.record.finish_reason

    @property
    def usage(self) -> Usage:
        return self.record.usage or Usage()

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return self.record.attempts

    @property
    def conversation(self) -> str | None:
        return self.record.conversation

    @property
    def cost(self) -> Decimal | None:
        from decimal import Decimal

        return Decimal(self.record.cost) if self.record.cost is not None else None

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The calls the model asks for, in the OpenAI chat shape; ``arguments`` is the JSON text as it came."""
        return gather_calls(self._deltas)

    @property
    def message(self) -> Message:
        """The answer as a message, to go before the next question or a tool's result in a list of messages. It carries
        what only the vendor that answered can read of its own thinking; no other is given that."""
        served = [attempt.provider for attempt in self.attempts if attempt.outcome == "success"]
        return Message(
            role="assistant",
            content=self.text or None,
            tool_calls=tuple(self.tool_calls),
            reasoning=self._finish.reasoning,
            reasoning_from=served[-1] if served and self._finish.reasoning else None,
        )

    @property
    def code(self) -> str | None:
        """The first fenced block's content; ``None`` where there is none."""
        blocks = fenced(self.text)
        return blocks[0] if blocks else None

    @property
    def json(self) -> Any:
        """The answer read as JSON, a fenced block around it taken off. Raises ``ValueError`` where it is none."""
        import msgspec

        text = self.text.strip()
        return msgspec.json.decode(self.code if text.startswith(FENCE) and self.code is not None else text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Answer({self.text!r}, served_by={self.served_by!r})"


class Reader(Protocol):
    """How data is read from an answer (``schema.Shape``)."""

    def read(self, text: str) -> Any: ...


async def gathered(happenings: AsyncGenerator[Any, None], *, wanted: Reader | None = None) -> Answer:
    """A whole answer of what happened (``Router.run``)."""
    deltas: list[Delta] = []
    finish: Finish | None = None
    record: RequestRecord | None = None
    async with aclosing(happenings) as steps:
        async for step in steps:
            if isinstance(step, Delta):
                deltas.append(step)
            elif isinstance(step, Finish):
                finish = step
            elif isinstance(step, RequestRecord):
                record = step
    assert record is not None, "a request ends with its record or an error"
    answer = Answer(record, deltas, finish=finish)
    if wanted is not None and not any(delta.kind in ("tool", "refusal") for delta in deltas):
        answer.data = wanted.read(answer.text)
    return answer


def said(deltas: Iterable[Delta], kind: str) -> str:
    return "".join(delta.text for delta in deltas if delta.kind == kind)


def gather_calls(deltas: Iterable[Delta]) -> list[dict[str, Any]]:
    """Calls of tools put together from their pieces."""
    calls: dict[int, dict[str, Any]] = {}
    for delta in deltas:
        if delta.kind != "tool":
            continue
        new = {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        call = calls.setdefault(delta.index, new)
        call["id"] = delta.id or call["id"]
        call["function"]["name"] = delta.name or call["function"]["name"]
        call["function"]["arguments"] += delta.text
    return [calls[index] for index in sorted(calls)]


def fenced(text: str) -> list[str]:
    """The contents of all closed fenced blocks, in order. A fence closes with at least as many of its own marks."""
    found: list[str] = []
    fence = ""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        mark = bare[: len(bare) - len(bare.lstrip("`"))] or bare[: len(bare) - len(bare.lstrip("~"))]
        if not fence and len(mark) >= 3:
            fence, lines = mark, []
        elif fence and bare == mark and mark.startswith(fence):
            found.append("".join(lines))
            fence = ""
        elif fence:
            lines.append(line)
    return found
