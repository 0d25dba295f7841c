"""``why``: the record of a request, in words and as data."""

from __future__ import annotations

from ..core import words
from ..core.health import duration
from ..core.record import RequestRecord
from .report import Context, Lines, Report
from .shapes import record_json


def why(context: Context, *, id: str | None = None, json: bool = False) -> Report:
    record = context.router.why(id)
    return Report(blocks=(Lines(text=tuple(story(record))),), data=record_json(record))


def story(record: RequestRecord) -> list[str]:
    """The request from its question to its end: who was chosen and why, who was passed over, how each attempt went."""
    lines = [f"request {record.id} · asked for {record.reference} · {_when(record.time)}"]
    lines += _steps(record)
    lines += [f"  note: {note}" for note in record.notes]
    lines.append(_end(record))
    return lines


def _steps(record: RequestRecord) -> list[str]:
    """Attempt by attempt: the decisions on its path, then what came of it."""
    lines: list[str] = []
    number = 0
    for run in words.runs(record.attempts):
        numbers = range(number + 1, number + len(run) + 1)
        lines += [f"  {words.decision_line(row)}" for row in record.decisions if row.attempt in numbers]
        lines.append(f"    {words.run_line(run)}")
        number += len(run)
    late = [row for row in record.decisions if row.attempt > len(record.attempts)]
    lines += [f"  {words.decision_line(row)}" for row in late]
    if late:
        lines.append(f"    {late[-1].chosen}: nothing was sent")
    named = {attempt.target for attempt in record.attempts}
    ended = record.time + record.duration_s
    lines += [f"  {words.skip_line(skip, ended)}" for skip in record.skipped if skip.target not in named]
    return lines


def _end(record: RequestRecord) -> str:
    took = duration(record.duration_s)
    if record.error is not None:
        return f"failed after {took} with exit code {record.exit_code}: {record.error.message}"
    instead = f"; not {record.first_choice}: {record.why_not}" if record.why_not else ""
    return f"served by {record.served_by} in {took}{instead}"


def _when(time: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
