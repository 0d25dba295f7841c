"""``stats``: attempts, time, tokens and money per target, summed and over time. A read of the request records."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from ..core.health import duration
from ..core.record import Attempt, RequestRecord, from_document, is_record
from ..core.words import passed_over
from .report import Context, Report, Table

#: how many requests are looked at, at most
MOST = 5_000
#: into how many spans the time is cut
SPANS = 24
DAY = 86_400.0


def stats(context: Context, *, since: float | None = None, json: bool = False) -> Report:
    router = context.router
    now, length = router.now(), since or DAY
    rows = router.store.records(limit=MOST)
    found = [from_document(row) for row in rows if is_record(row)]
    bad = len(rows) - len(found)
    recent = [record for record in found if 0 <= now - record.time < length]
    targets: dict[str, list[tuple[RequestRecord, Attempt]]] = {}
    for record in reversed(recent):
        for attempt in record.attempts:
            targets.setdefault(attempt.target, []).append((record, attempt))
    sums = [_sum(target, [attempt for _, attempt in made], now, length) for target, made in targets.items()]
    table = Table(
        columns=("target", "attempts", "ok", "failed", "cancelled", "median", "tokens", "money"),
        rows=tuple(_row(row) for row in sums),
        empty=f"Nothing was asked in the last {duration(length)}.",
    )
    notes = (*router.store.warnings, *([passed_over(bad, "record")] if bad else []))
    return Report(blocks=(table,), data={"since_s": length, "requests": len(recent), "targets": sums}, notes=notes)


def _sum(target: str, made: Sequence[Attempt], now: float, length: float) -> dict[str, Any]:
    spans: list[list[Attempt]] = [[] for _ in range(SPANS)]
    for attempt in made:
        place = (attempt.start - (now - length)) / length * SPANS
        spans[int(min(max(place, 0), SPANS - 1))].append(attempt)
    return {"target": target, **_numbers(made), "over_time": [_numbers(span) for span in spans]}


def _numbers(made: Sequence[Attempt]) -> dict[str, Any]:
    good = [attempt for attempt in made if attempt.outcome in ("success", "probe") and attempt.kind is None]
    lengths = sorted(attempt.duration for attempt in good)
    costs = [Decimal(attempt.cost) for attempt in made if attempt.cost is not None]
    usages = [attempt.usage for attempt in made if attempt.usage is not None]
    return {
        "attempts": len(made),
        "ok": len(good),
        "failed": len([attempt for attempt in made if attempt.kind not in (None, "cancelled")]),
        "cancelled": len([attempt for attempt in made if attempt.kind == "cancelled"]),
        "median_ms": round(lengths[len(lengths) // 2] * 1000) if lengths else None,
        "input_tokens": sum(usage.input_tokens for usage in usages),
        "output_tokens": sum(usage.output_tokens for usage in usages),
        "cost": str(sum(costs, Decimal(0))) if costs else None,
    }


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["target"],
        str(row["attempts"]),
        str(row["ok"]),
        str(row["failed"]),
        str(row["cancelled"]),
        duration(row["median_ms"] / 1000) if row["median_ms"] is not None else "",
        f"{row['input_tokens']}→{row['output_tokens']}",
        f"${row['cost']}" if row["cost"] is not None else "",
    )
