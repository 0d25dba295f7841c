"""The answer object: what a question brought back, in the forms people use it. It asks nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .core.chat import Delta, Usage
from .core.record import Attempt, RequestRecord

if TYPE_CHECKING:
    from decimal import Decimal

FENCE = "```"


class Answer:
    """A whole answer. ``text`` is the visible text, ``reasoning`` what the model thought aloud; ``record`` explains who
    served it and why. ``cost`` is US dollars, ``None`` where no price is known."""

    def __init__(self, record: RequestRecord, deltas: Iterable[Delta] = ()) -> None:
        self.record = record
        self._deltas = tuple(deltas)
        self.text = self._said("text") or self._said("refusal")
        self.reasoning = self._said("reasoning")
        self.data: Any = None

    def _said(self, kind: str) -> str:
        return "".join(delta.text for delta in self._deltas if delta.kind == kind)

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
        calls: dict[int, dict[str, Any]] = {}
        for delta in self._deltas:
            if delta.kind != "tool":
                continue
            call = calls.setdefault(
                delta.index, {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
            )
            call["id"] = delta.id or call["id"]
            call["function"]["name"] = delta.name or call["function"]["name"]
            call["function"]["arguments"] += delta.text
        return [calls[index] for index in sorted(calls)]

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
