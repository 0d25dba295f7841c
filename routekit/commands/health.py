"""``health``: what is remembered of targets and credentials. Listing is a read; only ``reset`` changes anything."""

from __future__ import annotations

from ..core.health import duration
from ..errors import UsageError
from ..router import Sleeper
from .report import Context, Report, Table, lines
from .shapes import iso


def listing(context: Context, *, json: bool = False) -> Report:
    router = context.router
    rows, now = router.health(), router.now()
    table = Table(
        columns=("", "state", "left", "cause", "last failure"),
        rows=tuple(_row(row, now) for row in rows),
        empty="Nothing is remembered: everybody is well, or nobody was asked yet.",
    )
    return Report(blocks=(table,), data=[_data(row, now) for row in rows])


def _row(row: Sleeper, now: float) -> tuple[str, ...]:
    left = duration(row.until - now) if row.until is not None and row.until > now else ""
    ago = f"{duration(max(0.0, now - row.last_failure))} ago" if row.last_failure else ""
    return (row.key, row.state, left, row.cause, ago)


def _data(row: Sleeper, now: float) -> dict[str, object]:
    left = round(row.until - now, 3) if row.until is not None else None
    return {
        row.kind: row.key,
        "state": row.state,
        "until": iso(row.until),
        "left_s": left,
        "cause": row.cause or None,
        "rung": row.rung,
        "last_failure": iso(row.last_failure or None),
        "last_success": iso(row.last_success or None),
    }


def reset(context: Context, *, id: str | None = None, all: bool = False) -> Report:
    if (id is None) == (not all):
        raise UsageError(
            "name what to reset, or say --all", hints=["routekit health list", "routekit health reset --all"]
        )
    names = context.router.reset_health(id)
    return lines(*[f"reset {name}" for name in names] or ["nothing to reset"], data=names)
