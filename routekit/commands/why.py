"""``why``: the record of a request, in words and as data."""

from __future__ import annotations

from ..core import words
from ..core.health import duration
from ..core.record import RequestRecord
from .report import Context, Lines, Report
from .shapes import moment, record_json


def why(context: Context, *, id: str | None = None, json: bool = False) -> Report:
    record = context.router.why(id)
    return Report(blocks=(Lines(text=tuple(story(record))),), data=record_json(record))


def story(record: RequestRecord) -> list[str]:
    """The request from its question to its end: who was chosen and why, who was passed over, how each attempt went."""
    lines = [f"request {record.id} · asked for {record.reference} · {moment(record.time)}"]
    lines += _steps(record)
    lines += [f"  note: {note}" for note in record.notes]
    lines.append(_end(record))
    return lines


def _steps(record: RequestRecord) -> list[str]:
    """Attempt by attempt: the decisions on its path, then what came of it. Times left are those at the end."""
    lines: list[str] = []
    ended, number = record.time + record.duration_s, 0
    for run in words.runs(record.attempts):
        numbers = range(number + 1, number + len(run) + 1)
        rows = [row for row in record.decisions if row.attempt in numbers]
        lines += [f"  {words.decision_line(row, ended)}" for row in rows]
        lines.append(f"    {words.run_line(run)}")
        number += len(run)
    late = [row for row in record.decisions if row.attempt > len(record.attempts)]
    lines += [f"  {words.decision_line(row, ended)}" for row in late]
    if late:
        lines.append(f"    {late[-1].chosen}: nothing was sent")
    named = {attempt.target for attempt in record.attempts}
    named |= {skip.target for row in record.decisions for skip in row.excluded}
    lines += [f"  {words.skip_line(skip, ended)}" for skip in record.skipped if skip.target not in named]
    return lines


def _end(record: RequestRecord) -> str:
    took = duration(record.duration_s)
    if record.error is not None:
        return f"failed after {took} with exit code {record.exit_code}: {record.error.message}"
    instead = f"; not {record.first_choice}: {_why_not(record)}" if record.why_not else ""
    return f"served by {record.served_by} in {took}{instead}"


def _why_not(record: RequestRecord) -> str:
    """Why the first choice did not serve, at the same instant as everything above."""
    tried = any(attempt.target == record.first_choice for attempt in record.attempts)
    skip = next((skip for skip in record.skipped if skip.target == record.first_choice), None)
    if tried or skip is None:
        return record.why_not or ""
    return words.why_skipped(skip.reason, skip.said) + words.back_in(skip.until, record.time + record.duration_s)
