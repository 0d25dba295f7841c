"""Small drawings: the tree of a route with who was ready, who slept and who served; lines over time. Pure SVG text.

Every drawing has a twin in words: nothing is said by colour alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..commands.routes import leaf_words
from ..core.record import Attempt, GroupDecision, RequestRecord
from ..core.value import Value
from ..core.words import attempt_line, skip_line
from ..views import GroupNode, LeafView
from .markup import escape

#: state → (mark in text, colour)
STATES = {
    "served": ("●", "#1a7f37"),
    "ready": ("○", "#57a773"),
    "asleep": ("◌", "#9a6700"),
    "failed": ("✕", "#cf222e"),
    "idle": ("·", "#8c959f"),
    "group": ("▸", "#57606a"),
}
ROW, STEP, TOP = 24, 22, 8
#: how wide a letter is drawn, about
LETTER = 7.3


class Node(Value):
    label: str
    state: str
    note: str = ""
    children: tuple[Node, ...] = ()


def of_preview(node: GroupNode | LeafView, now: float) -> Node:
    """Who would be tried now."""
    if isinstance(node, LeafView):
        state = "served" if node.serves else "ready" if node.ready else "asleep"
        return Node(label=node.target, state=state, note=leaf_words(node, now).replace("   ← ", ", "))
    children = tuple(of_preview(child, now) for child in node.children)
    return Node(label=node.group, state="group", note=node.algorithm, children=children)


def of_record(record: RequestRecord) -> Node:
    """Who was tried, who was passed over, who served: from the decisions of the request."""
    groups: dict[str, GroupDecision] = {}
    for row in record.decisions:
        groups.setdefault(row.label, row)
    if not record.decisions:
        leaves = [*(row.target for row in record.attempts), *(row.target for row in record.skipped)]
        children = tuple(_leaf(record, label) for label in dict.fromkeys(leaves))
        return Node(label=record.reference, state="group", children=children)
    return _group(record, record.decisions[0], groups, above=())


def _group(
    record: RequestRecord, row: GroupDecision, groups: dict[str, GroupDecision], *, above: tuple[str, ...]
) -> Node:
    inner = (*above, row.label)
    children = tuple(
        _group(record, groups[one], groups, above=inner) if one in groups and one not in inner else _leaf(record, one)
        for one in dict.fromkeys((*(skip.target for skip in row.excluded), *(one.label for one in row.candidates)))
    )
    note = row.algorithm if row.reason == row.algorithm else f"{row.algorithm}: {row.reason}"
    return Node(label=row.label, state="group", note=note, children=children)


def _leaf(record: RequestRecord, label: str) -> Node:
    tried = [row for row in record.attempts if row.target == label]
    if tried:
        return Node(label=label, state=_state(tried[-1]), note=_told(tried))
    for skip in (*record.skipped, *(skip for row in record.decisions for skip in row.excluded)):
        if skip.target == label:
            return Node(label=label, state="asleep", note=_without(label, skip_line(skip, record.time)))
    return Node(label=label, state="idle", note="not needed")


def _state(attempt: Attempt) -> str:
    return "served" if attempt.outcome == "success" else "idle" if attempt.outcome == "cancelled" else "failed"


def _told(tried: Sequence[Attempt]) -> str:
    return "; ".join(_without(attempt.target, attempt_line(attempt)) for attempt in tried)


def _without(label: str, line: str) -> str:
    return line.removeprefix(f"{label}: ")


def tree_lines(top: Node) -> list[str]:
    """The drawing in words."""
    rows = list(_rows(top, 0))
    width = max(len(node.label) + 2 * depth for node, depth in rows)
    return [
        f"{'  ' * depth}{STATES[node.state][0]} {node.label:<{width - 2 * depth}}  {node.note}".rstrip()
        for node, depth in rows
    ]


def _rows(node: Node, depth: int) -> Iterator[tuple[Node, int]]:
    yield node, depth
    for child in node.children:
        yield from _rows(child, depth + 1)


def tree_svg(top: Node) -> str:
    rows = list(_rows(top, 0))
    notes = 40 + max(STEP * depth + LETTER * len(node.label) for node, depth in rows)
    width = notes + 16 + max(LETTER * len(node.note) for node, _ in rows)
    parts = list(_branches(rows))
    for number, (node, depth) in enumerate(rows):
        x, y = 16 + STEP * depth, TOP + ROW * number + ROW / 2
        mark, colour = STATES[node.state]
        weight = ' font-weight="600"' if node.state in ("group", "served") else ""
        parts.append(f'<text x="{x}" y="{y + 4}" fill="{colour}" text-anchor="middle">{mark}</text>')
        parts.append(f'<text x="{x + 12}" y="{y + 4}" fill="#1f2328"{weight}>{escape(node.label)}</text>')
        parts.append(f'<text x="{notes:.0f}" y="{y + 4}" fill="{colour}">{escape(node.note)}</text>')
    return _svg(parts, width, 2 * TOP + ROW * len(rows), "; ".join(line.strip() for line in tree_lines(top)))


def _branches(rows: Sequence[tuple[Node, int]]) -> Iterator[str]:
    """From every row an elbow up to its parent's."""
    for number, (_, depth) in enumerate(rows):
        if not depth:
            continue
        parent = next(place for place in range(number - 1, -1, -1) if rows[place][1] == depth - 1)
        x, y = 16 + STEP * (depth - 1), TOP + ROW * number + ROW / 2
        top = TOP + ROW * parent + ROW / 2 + 8
        yield f'<path d="M{x} {top} V{y} H{x + STEP - 9}" fill="none" stroke="#d0d7de"/>'


def _svg(parts: Sequence[str], width: float, height: float, title: str) -> str:
    font = 'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="12"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" {font}><title>{escape(title)}</title>'
        f'<rect width="100%" height="100%" rx="6" fill="#ffffff"/>{"".join(parts)}</svg>'
    )


# --- numbers over time ------------------------------------------------------------------------------------------------

#: what is drawn per target: heading, key of the numbers, its unit in the maximum beside it
SERIES: tuple[tuple[str, Callable[[dict[str, Any]], float], str], ...] = (
    ("attempts", lambda row: row["attempts"], "{:.0f}"),
    ("median", lambda row: (row["median_ms"] or 0) / 1000, "{:.1f}s"),
    ("tokens", lambda row: row["input_tokens"] + row["output_tokens"], "{:.0f}"),
    ("money", lambda row: float(row["cost"] or 0), "${:.4g}"),
)
BAR, CHART, GAP = 5, 120, 62


def chart_svg(targets: Sequence[dict[str, Any]]) -> str:
    """Per target one small row of bars for attempts (failed ones red), time, tokens and money over time."""
    named = max(LETTER * len(row["target"]) for row in targets) + 24
    parts = [
        f'<text x="{named + number * (CHART + GAP):.0f}" y="18" fill="#57606a">{name}</text>'
        for number, (name, _, _) in enumerate(SERIES)
    ]
    for line, row in enumerate(targets):
        base = 24 + 34 * (line + 1)
        parts.append(f'<text x="12" y="{base - 6}" fill="#1f2328">{escape(row["target"])}</text>')
        for number, (_, value, form) in enumerate(SERIES):
            left = named + number * (CHART + GAP)
            parts += _bars(row["over_time"], value, left, base)
            most = max((value(span) for span in row["over_time"]), default=0)
            parts.append(f'<text x="{left + CHART + 4:.0f}" y="{base - 6}" fill="#57606a">{form.format(most)}</text>')
    width = named + len(SERIES) * (CHART + GAP) + 8
    told = "; ".join(f"{row['target']}: {row['attempts']} attempts, {row['failed']} failed" for row in targets)
    return _svg(parts, width, 40 + 34 * len(targets), told)


def _bars(spans: Sequence[dict[str, Any]], value: Any, left: float, base: int) -> Iterator[str]:
    most = max((value(span) for span in spans), default=0) or 1
    yield f'<path d="M{left:.0f} {base} h{CHART}" stroke="#d0d7de"/>'
    for number, span in enumerate(spans):
        height = 24 * value(span) / most
        if height:
            colour = "#cf222e" if span["failed"] and not span["ok"] else "#0969da"
            yield (
                f'<rect x="{left + BAR * number:.0f}" y="{base - height:.1f}" width="{BAR - 1}" '
                f'height="{height:.1f}" fill="{colour}"/>'
            )
