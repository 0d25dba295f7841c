"""What one request leaves behind: decisions, attempts, skips. Values only; text is made from them elsewhere.

Times are wall-clock seconds, lengths seconds (``_s``). Prompts, answers, headers and bodies have no place here.
"""

from __future__ import annotations

from typing import Any, Literal

from .chat import Usage
from .value import DAMAGED, Value

Reason = Literal["ordered", "turn", "sticky", "drawn", "last-resort", "probe", "only"]
Outcome = Literal["success", "failed", "truncated", "cancelled", "probe"]


class Skip(Value):
    """A candidate passed over. ``reason`` is for machines (``words.why_skipped`` for people); ``until`` is when the
    cause ends, where that is known; ``since`` when a sleeper's sleep began, ``said`` its vendor's words then."""

    target: str
    reason: str
    until: float | None = None
    since: float | None = None
    said: str = ""


class Candidate(Value):
    label: str
    weight: int = 1
    demoted: bool = False


class GroupDecision(Value):
    """What one group chose for one attempt. ``group`` is its id, ``label`` how its parent names it."""

    group: str
    label: str
    algorithm: str
    candidates: tuple[Candidate, ...]
    chosen: str
    reason: Reason
    excluded: tuple[Skip, ...] = ()
    attempt: int = 1


class Attempt(Value):
    """One real call to one target. ``retry_after`` is the wait as stated by the vendor, ``hint_used`` after clamping,
    ``window_s`` the window the target or credential earned."""

    target: str
    wire_id: str
    provider: str
    credential: str
    variant: str | None = None
    start: float
    first_output: float | None = None
    end: float
    outcome: Outcome
    kind: str | None = None
    scope: str | None = None
    status: int | None = None
    message: str | None = None
    retry_after: float | None = None
    hint_used: float | None = None
    window_s: float | None = None
    usage: Usage | None = None
    cost: str | None = None
    request_id: str | None = None
    vendor_model: str | None = None
    dropped: tuple[str, ...] = ()
    last_resort: bool = False

    @property
    def duration(self) -> float:
        return max(0.0, self.end - self.start)

    @property
    def stranger(self) -> str:
        """The model its vendor says has answered, where that is another than the asked one: a dated form of the same
        name is the same. Else empty."""
        said = (self.vendor_model or "").rpartition("/")[2].lower()
        asked = self.wire_id.rpartition("/")[2].lower()
        return (self.vendor_model or "") if said and not (said.startswith(asked) or asked.startswith(said)) else ""


class Failed(Value):
    """Why a request failed, in the words of the error it raised."""

    kind: str
    message: str
    exit_code: int


class RequestRecord(Value):
    """One whole request. ``first_choice`` is what the route would have liked to serve; ``why_not`` the reason it did
    not, where something else served."""

    id: str
    time: float
    surface: str
    reference: str
    session: str | None = None
    served_by: str | None = None
    first_choice: str | None = None
    why_not: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    cost: str | None = None
    duration_s: float = 0.0
    exit_code: int = 0
    error: Failed | None = None
    decisions: tuple[GroupDecision, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    skipped: tuple[Skip, ...] = ()
    notes: tuple[str, ...] = ()
    conversation: str | None = None


def document(record: RequestRecord) -> dict[str, Any]:
    """The record as plain JSON data, as the store keeps it."""
    import msgspec

    built: dict[str, Any] = msgspec.to_builtins(record)
    return built


def from_document(data: Any) -> RequestRecord:
    """Raises ``msgspec.ValidationError`` for what is none (see ``is_record``)."""
    import msgspec

    return msgspec.convert(data, RequestRecord, strict=False)


def is_record(data: Any) -> bool:
    """Whether a stored document is a whole record: a row may be damaged, or of another making."""
    try:
        record = from_document(data)
    except DAMAGED:
        return False
    return all(_is_amount(cost) for cost in (record.cost, *(attempt.cost for attempt in record.attempts)))


def _is_amount(text: str | None) -> bool:
    from decimal import Decimal, InvalidOperation

    try:
        return text is None or Decimal(text).is_finite()
    except InvalidOperation:
        return False
