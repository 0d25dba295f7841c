"""The JSON shapes machines read: one place for field names, so that ``ask --json`` and ``why --json`` never differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.record import Attempt, RequestRecord, Skip
from ..errors import RoutekitError

SCHEMA_VERSION = 1


def record_json(record: RequestRecord) -> dict[str, Any]:
    """A request without its answer. Times are ISO 8601 in UTC, lengths milliseconds or seconds as their names say."""
    return {
        "schema_version": SCHEMA_VERSION,
        "id": record.id,
        "time": iso(record.time),
        "surface": record.surface,
        "session": record.session,
        "conversation_id": record.conversation,
        "model": record.reference,
        "served_by": record.served_by,
        "reason": record.why_not,
        "finish_reason": record.finish_reason,
        **usage_json(record),
        "duration_ms": round(record.duration_s * 1000),
        "attempts": [attempt_json(attempt) for attempt in record.attempts],
        "skipped": [skip_json(skip) for skip in record.skipped],
        "decisions": [decision_json(row) for row in record.decisions],
        "notes": list(record.notes),
        "error": _error(record),
    }


def usage_json(record: RequestRecord) -> dict[str, Any]:
    usage = record.usage
    return {
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cached_tokens": usage.cached_tokens if usage else None,
        "reasoning_tokens": usage.reasoning_tokens if usage else None,
        "usage_estimated": usage.estimated if usage else None,
        "cost": money(record.cost),
    }


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "target": attempt.target,
        "outcome": attempt.outcome,
        "class": attempt.kind,
        "scope": attempt.scope,
        "status": attempt.status,
        "message": attempt.message,
        "retry_after": attempt.retry_after,
        "window_s": attempt.window_s,
        "duration_ms": round(attempt.duration * 1000),
        "first_output_ms": round((attempt.first_output - attempt.start) * 1000) if attempt.first_output else None,
        "credential": attempt.credential,
        "vendor_model": attempt.vendor_model,
        "request_id": attempt.request_id,
        "last_resort": attempt.last_resort,
        "dropped": list(attempt.dropped),
    }


def skip_json(skip: Skip) -> dict[str, Any]:
    return {"target": skip.target, "reason": skip.reason, "until": iso(skip.until)}


def decision_json(row: Any) -> dict[str, Any]:
    return {
        "group": row.group,
        "label": row.label,
        "algorithm": row.algorithm,
        "attempt": row.attempt,
        "candidates": [{"label": one.label, "weight": one.weight, "demoted": one.demoted} for one in row.candidates],
        "chosen": row.chosen,
        "reason": row.reason,
        "excluded": [skip_json(skip) for skip in row.excluded],
    }


def _error(record: RequestRecord) -> dict[str, Any] | None:
    if record.error is None:
        return None
    return {"class": record.error.kind, "message": record.error.message, "exit_code": record.error.exit_code}


def error_json(error: RoutekitError) -> dict[str, Any]:
    """A failure that left no record: the same ``error`` object, alone."""
    retry_after = getattr(error, "retry_after", None)
    return {
        "schema_version": SCHEMA_VERSION,
        "response": getattr(error, "partial", None) or None,
        "attempts": [attempt_json(row) for row in _rows(error.attempts, Attempt)],
        "skipped": [skip_json(row) for row in _rows(error.skipped, Skip)],
        "error": {
            "class": error.kind,
            "message": error.message,
            "exit_code": error.exit_code,
            "details": list(error.details),
            "try": list(error.hints),
            "retry_after": retry_after,
        },
    }


def _rows(rows: Sequence[Any], kind: type) -> list[Any]:
    return [row for row in rows if isinstance(row, kind)]


def money(amount: str | None) -> dict[str, str] | None:
    return {"amount": amount, "currency": "USD"} if amount is not None else None


def moment(time: float) -> str:
    """A wall-clock time as people here read it. A clock may have been wrong, a file may be damaged: never an error."""
    from datetime import datetime

    try:
        return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "at no date a calendar has"


def iso(time: float | None) -> str | None:
    """``null`` also for a time that no calendar has: a clock may have been wrong."""
    if time is None:
        return None
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None
