"""A verb's report as a notebook shows it: HTML tables with a plain twin, and drawings where a picture says more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..commands.report import Context, Lines, Report, Table
from . import pictures
from .display import Output, as_magic
from .markup import escape


def show(output: Output, report: Report, *, path: tuple[str, ...], context: Context, given: Mapping[str, Any]) -> None:
    """Notes, the picture if there is one, blocks, hints: as one output."""
    text = plain(report)
    if given.get("json"):
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(report.data), indent=2).decode()
        report = Report(data=report.data)
    if not output.rich:
        output.write(text + "\n" if text else "")
        return
    drawn = DRAWN.get(path) if not given.get("json") else None
    picture = drawn(context, report, given) if drawn else ""
    html = picture + _html(report) if report.blocks else f"<pre>{escape(text)}</pre>"
    if picture and path in ALL_IN_PICTURE:
        html = picture
    output.show({"text/plain": text, "text/html": html})


def plain(report: Report) -> str:
    lines = [*report.notes]
    for block in report.blocks:
        lines += block.text if isinstance(block, Lines) else _columns(block)
    return "\n".join([*lines, *(f"  try: {as_magic(hint)}" for hint in report.hints)])


def _columns(table: Table) -> list[str]:
    if not table.rows:
        return [table.empty] if table.empty else []
    rows: list[Sequence[str]] = [table.columns, *table.rows] if any(table.columns) else [*table.rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(table.columns))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _html(report: Report) -> str:
    parts = [f"<div>{escape(note)}</div>" for note in report.notes]
    parts += [_block(block) for block in report.blocks]
    parts += [f"<div>try: <code>{escape(as_magic(hint))}</code></div>" for hint in report.hints]
    return "".join(parts)


def _block(block: Table | Lines) -> str:
    if isinstance(block, Lines):
        return f'<pre style="line-height:1.35">{escape(chr(10).join(block.text))}</pre>'
    if not block.rows:
        return f"<div>{escape(block.empty)}</div>"
    left = ' style="text-align:left"'
    head = "".join(f"<th{left}>{escape(name)}</th>" for name in block.columns)
    head = f"<thead><tr>{head}</tr></thead>" if any(block.columns) else ""
    rows = "".join(f"<tr>{''.join(f'<td{left}>{escape(cell)}</td>' for cell in row)}</tr>" for row in block.rows)
    return f"<table>{head}<tbody>{rows}</tbody></table>"


def _preview(context: Context, report: Report, given: Mapping[str, Any]) -> str:
    top = context.router.preview(given.get("id"), only=given.get("only"))
    return pictures.tree_svg(pictures.of_preview(top, context.router.now()))


def _why(context: Context, report: Report, given: Mapping[str, Any]) -> str:
    return pictures.tree_svg(pictures.of_record(context.router.why(given.get("id"))))


def _stats(context: Context, report: Report, given: Mapping[str, Any]) -> str:
    targets = report.data["targets"]
    return pictures.chart_svg(targets) if targets else ""


def _health(context: Context, report: Report, given: Mapping[str, Any]) -> str:
    """Who is remembered, with what was asked of them in the last day."""
    from ..commands.stats import stats

    targets = stats(context).data["targets"]
    return pictures.chart_svg(targets) if targets else ""


#: verbs whose lines say what their picture shows, and no more
ALL_IN_PICTURE = frozenset({("routes", "preview")})
#: verbs whose report has a picture
DRAWN: Mapping[tuple[str, ...], Callable[[Context, Report, Mapping[str, Any]], str]] = {
    ("routes", "preview"): _preview,
    ("why",): _why,
    ("stats",): _stats,
    ("health", "list"): _health,
}


# --- objects as a cell's value ----------------------------------------------------------------------------------------


def formatters(known: Mapping[str, Any]) -> list[Callable[[], None]]:
    """Show records as trees, and errors that were returned as their lines. Returns what undoes it."""
    rows = (
        ("text/plain", "routekit.core.record", "RequestRecord", _record_text),
        ("image/svg+xml", "routekit.core.record", "RequestRecord", _record_svg),
        ("text/plain", "routekit.errors", "RoutekitError", _error_text),
    )
    undo: list[Callable[[], None]] = []
    for kind, module, name, show_it in rows:
        if kind in known:
            known[kind].for_type_by_name(module, name, show_it)
            undo.append(partial(_forget, known[kind], module, name))
    return undo


def _forget(formatter: Any, module: str, name: str) -> None:
    """A printer is kept under its names until a value of its type was met, then under the type."""
    formatter.deferred_printers.pop((module, name), None)
    for one in [one for one in formatter.type_printers if (one.__module__, one.__name__) == (module, name)]:
        formatter.type_printers.pop(one)


def _record_text(record: Any, printer: Any, cycle: bool) -> None:
    printer.text("\n".join(pictures.tree_lines(pictures.of_record(record))))


def _record_svg(record: Any) -> str:
    return pictures.tree_svg(pictures.of_record(record))


def _error_text(error: Any, printer: Any, cycle: bool) -> None:
    printer.text("\n".join(error._render_traceback_()))
