"""``routes``: the virtual model ids — listed, shown as trees, previewed, edited. It asks nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ..core.plan import Branch, Plan
from ..core.words import back_in, why_skipped
from ..views import GroupNode, LeafView
from .edits import edit, need_id, need_reference, once
from .report import Context, Lines, Report, Table
from .shapes import iso


def listing(context: Context, *, json: bool = False) -> Report:
    config = context.router.config
    rows, data = [], []
    for route in config.routes.values():
        targets = [entry.target for entry in route.targets]
        mark = "default" if config.defaults.route == route.id else ("off" if not route.enabled else "")
        rows.append((route.id, route.selection, ", ".join(targets), mark))
        data.append({"id": route.id, "name": route.name, "selection": route.selection, "targets": targets})
    table = Table(
        columns=("route", "selection", "targets", ""),
        rows=tuple(rows),
        empty="No routes yet. A provider/model can be asked as it is.",
    )
    return Report(blocks=(table,), data=data)


def show(context: Context, *, id: str, json: bool = False) -> Report:
    plan = context.router.plan(id)
    lines = list(_tree(plan, Branch(kind="group", index=0, label=plan.root.label), depth=0))
    lines += [f"{drop.label} gives nothing: {drop.reason}" for drop in plan.dropped]
    return Report(blocks=(Lines(text=tuple(lines)),), data=_tree_json(plan, 0))


def _tree(plan: Plan, branch: Branch, *, depth: int) -> Iterator[str]:
    pad = "  " * depth
    weight = f"  weight {branch.weight}" if branch.weight != 1 else ""
    if branch.kind == "leaf":
        leaf = plan.leaves[branch.index]
        asked = f"  (asked as {leaf.model})" if leaf.model != leaf.wire_id else ""
        yield f"{pad}{leaf.label}{weight}{asked}"
        return
    group = plan.groups[branch.index]
    yield f"{pad}{group.label} ({group.algorithm}{', fixed' if group.fixed else ''}){weight}"
    for child in group.children:
        yield from _tree(plan, child, depth=depth + 1)


def _tree_json(plan: Plan, index: int) -> dict[str, Any]:
    group = plan.groups[index]
    children = [
        _tree_json(plan, child.index) | {"weight": child.weight}
        if child.kind == "group"
        else {"target": child.label, "weight": child.weight}
        for child in group.children
    ]
    return {"group": group.label, "algorithm": group.algorithm, "children": children}


def preview(context: Context, *, id: str | None = None, only: str | None = None, json: bool = False) -> Report:
    """The tree with everybody's readiness; the one that would serve is marked."""
    top = context.router.preview(id, only=only)
    now = context.router.now()
    return Report(blocks=(Lines(text=tuple(preview_lines(top, now))),), data=node_json(top))


def preview_lines(top: GroupNode, now: float) -> list[str]:
    """``1  openai-plan → a/m   asleep, back in 1m12s``: leaves numbered in configured order, with the groups they are
    in."""
    rows = list(_leaves(top, ()))
    width = max((len(path) for path, _ in rows), default=0)
    lines = [f"{top.group} ({top.algorithm})"]
    for number, (path, leaf) in enumerate(rows, start=1):
        lines.append(f"  {number:>{len(str(len(rows)))}}  {path:<{width}}   {leaf_words(leaf, now)}".rstrip())
    return lines


def leaf_words(leaf: LeafView, now: float) -> str:
    said = "ready" if leaf.ready else why_skipped(leaf.reason, leaf.said) + back_in(leaf.until, now)
    notes = [said, *(["demoted"] if leaf.demoted else [])]
    # A key is worth a word where it may stand in the way; a local server needs none.
    if leaf.credential and leaf.credential != "no key needed" and leaf.ready:
        notes.append(leaf.credential)
    # Nobody is ready: it would be asked though it sleeps.
    serves = "   ← would serve" + ("" if leaf.ready else " as a last resort")
    return ", ".join(notes) + (serves if leaf.serves else "")


def _leaves(node: GroupNode, above: tuple[str, ...]) -> Iterator[tuple[str, LeafView]]:
    for child in node.children:
        if isinstance(child, GroupNode):
            yield from _leaves(child, (*above, child.group))
        else:
            yield " → ".join((*above, child.target)), child


def node_json(node: GroupNode | LeafView) -> dict[str, Any]:
    if isinstance(node, LeafView):
        return {
            "target": node.target,
            "ready": node.ready,
            "reason": node.reason or None,
            "until": iso(node.until),
            "demoted": node.demoted,
            "would_serve": node.serves,
            "credential": node.credential,
        }
    return {"group": node.group, "algorithm": node.algorithm, "children": [node_json(row) for row in node.children]}


# --- edits ------------------------------------------------------------------------------------------------------------


def add(
    context: Context, *, id: str, targets: Sequence[str], selection: str | None = None, json: bool = False
) -> Report:
    """A new route, or more targets at the end of one."""
    from ..config.changes import add_route

    need_id(id, what="a route")
    once(targets, what="target")
    for target in targets:
        need_reference(context.router, target)
    report = edit(context, add_route(id, targets, selection=selection))
    return msgspec.structs.replace(report, hints=(f"routekit routes preview {id}",))


def remove(context: Context, *, id: str, target: str | None = None, json: bool = False) -> Report:
    from ..config.changes import remove_route

    return edit(context, remove_route(id, target), entry=("routes", id))


def move(context: Context, *, id: str, target: str, position: int, json: bool = False) -> Report:
    from ..config.changes import move_target

    return edit(context, move_target(id, target, position), entry=("routes", id))


def change(context: Context, *, id: str, key: str, value: str, json: bool = False) -> Report:
    from ..config.changes import set_route

    return edit(context, set_route(id, key, value), entry=("routes", id))
