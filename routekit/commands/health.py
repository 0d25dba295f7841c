"""``health``: what is remembered of targets and credentials. Listing is a read; only ``reset`` changes anything."""

from __future__ import annotations

from ..config.watch import Live
from ..core import words
from ..core.health import duration
from ..errors import UsageError
from ..views import Sleeper
from .report import Context, Lines, Report, Table, lines
from .shapes import iso

#: states that say more than their word; the data keeps the word
STATES = {"on hold": "on hold by its vendor", "half-open": "to be tried", "demoted": "well, but last in line"}
LIVE_WITHOUT_FILES = {"environment": "from the environment alone", "given": "given by the program"}


def listing(context: Context, *, json: bool = False) -> Report:
    router = context.router
    live = router.live()
    rows, now = router.health(), router.now()
    table = Table(
        columns=("", "state", "left", "cause", "last failure"),
        rows=tuple(_row(row, now) for row in rows),
        empty="Nothing is remembered: everybody is well, or nobody was asked yet.",
    )
    told = Lines(text=tuple(live_words(live, now, brief=context.surface == "shell")))
    broken = ["routekit config check"] if live.rejected else []
    asleep = [row.key for row in rows if row.kind == "credential" and row.state == "asleep" and row.cause == "auth"]
    hints = [*broken, *(hint for hint in map(router.new_key, asleep) if hint)]
    notes = tuple(router.store.warnings)
    return Report(blocks=(table, told), data=[_data(row, now) for row in rows], hints=tuple(hints), notes=notes)


def live_words(live: Live, now: float, *, brief: bool = False) -> list[str]:
    """Which configuration is in force; where a process lives longer than a command, also since when. A newer version
    that is broken is never taken for it."""
    source = ", ".join(live.files) or LIVE_WITHOUT_FILES.get(live.mode, "")
    since = "" if brief else f", in use for {duration(max(0.0, now - live.loaded_at))}"
    lines = [f"config {live.digest[:8]}: {source}{since}"]
    if live.rejected:
        age = duration(max(0.0, now - (live.rejected_at or now)))
        lines.append(f"  a version of {age} ago is not in use: {live.rejected}")
    return lines


def _row(row: Sleeper, now: float) -> tuple[str, ...]:
    left = duration(row.until - now) if row.until is not None and row.until > now else ""
    ago = words.ago(row.last_failure, now) if row.last_failure else ""
    state = STATES.get(row.state, row.state)
    return (row.key, state, left, row.said or words.KINDS.get(row.cause, "" if row.cause == "hold" else row.cause), ago)


def _data(row: Sleeper, now: float) -> dict[str, object]:
    left = round(row.until - now, 3) if row.until is not None else None
    return {
        row.kind: row.key,
        "state": row.state,
        "until": iso(row.until),
        "left_s": left,
        "cause": row.cause or None,
        "said": row.said or None,
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
