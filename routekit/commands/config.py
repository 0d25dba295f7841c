"""``config``: where the file is, what it says in the end, and what is wrong with it. It edits nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..config import check as rules
from ..config.kinds import Fault
from ..config.show import duration_text
from ..config.show import show as config_as_toml
from ..core.config import DEFAULT_LIMITS, PATIENT_FIRST_OUTPUT, Config, Limits, Problem
from ..core.plan import Branch, Dropped, Group, Plan, Unpriced, expand
from ..core.words import KEY_STATES, plural
from ..credentials import barred, own_entry
from ..errors import ConfigError
from ..router import Router
from .keys import KEPT, holders, keyring_words, known
from .report import Context, Lines, Report, Table, lines

#: how each selection goes about it, in words
MANNERS: Mapping[str, str] = {
    "ordered": "in order, the first that is ready",
    "priority": "in order, the first that is ready",
    "round-robin": "in turn",
    "weighted": "at random, by weight",
    "smooth": "in turn, by weight",
}
IN_ORDER = ("ordered", "priority")
#: reasons for giving nothing that somebody has asked for
MEANT = ("switched off", "weight 0")
#: said of a member that does not offer a model, which is what synthetic providers are for
ORDINARY = ("model not offered", "listed earlier")


def path(context: Context, *, json: bool = False) -> Report:
    """Every file routekit uses; works whatever state they are in."""
    paths = context.router.paths
    found = paths.listing()
    rows = [(what, file, "" if os.path.lexists(file) else "not there yet") for what, file in found.items()]
    rows.append(("keyring", *keyring_words(context.router)))
    return Report(blocks=(Table(columns=("", "", ""), rows=tuple(rows)),), data=found)


def show(context: Context) -> Report:
    config = context.router.config
    notes = {
        "environment": ("no config file: this is what the environment gives (routekit init makes a file)",),
        "demo": ("this is the built-in demo",),
    }.get(config.mode, ())
    text = config_as_toml(config)
    return Report(blocks=(Lines(text=tuple(text.rstrip("\n").split("\n"))),), data=text, notes=notes)


# --- check ------------------------------------------------------------------------------------------------------------


def check(context: Context, *, json: bool = False) -> Report:
    """Load, expand everything, and say all that is wrong or risky. Neither network nor keyring is touched."""
    router = context.router
    reading = router.inspect()
    merged = router.overlaid()
    files = router.files()
    if reading.config is None:
        return _verdict(rules.check(reading.problems, files=files), [], {})
    config = reading.config
    faults: list[Fault] = [*_absent(router), *_astray(router), *_unsticky(config)]
    trees = _trees(router, faults, document=merged.document)
    more = merged.problems(faults)
    told = _told(trees) or [f"no routes; ask {' or '.join(f'{id}/MODEL' for id in config.providers)} as it is"]
    report = _verdict(rules.check(reading.problems, files=files, more=more), told, trees)
    if config.mode == "environment":
        return msgspec.structs.replace(report, notes=("no config file: this is what the environment gives",))
    return report


def _verdict(problems: list[Problem], told: list[str], trees: Mapping[str, Any]) -> Report:
    errors = [row for row in problems if row.severity == "error"]
    warnings = [row for row in problems if row.severity != "error"]
    counts = [plural(len(rows), word) for rows, word in ((errors, "error"), (warnings, "warning")) if rows]
    gap = [""] if told and problems else []
    said = [f"{row.severity}: {row}" for row in problems]
    data = {
        "problems": [msgspec.to_builtins(row) | {"severity": row.severity} for row in problems],
        "trees": {name: _tree_json(plan, 0) for name, plan in trees.items() if isinstance(plan, Plan)},
    }
    end = ", ".join(counts) if counts else "no errors, no warnings"
    return lines(*told, *gap, *said, end, data=data, exit_code=rules.exit_code(problems))


def _absent(router: Router) -> Iterator[Fault]:
    """Keys that are not there, as far as can be told without asking a keyring or running a command."""
    for holder in holders(router.config):
        found = known(router, holder)
        unknown = found.state == "unknown"
        if not holder.needed or found.state == "present" or (unknown and holder.ref.kind not in KEPT):
            continue
        what = KEY_STATES[found.state]
        key = ("headers", holder.header) if holder.header else ("key",)
        yield _warning(
            ("providers", holder.provider, *key), f"no key to use ({found.source}: {what}); try: {found.hint}"
        )


def _astray(router: Router) -> Iterator[Fault]:
    """Stored keys that the configuration would send to a host they were not stored for; they are not sent."""
    for holder in holders(router.config):
        why = barred(holder.ref, holder.host, place=router.key_place, environ=router.environ) if holder.host else ""
        if why and holder.needed:
            key = ("headers", holder.header) if holder.header else ("key",)
            entry = own_entry(holder.ref, router.key_place, router.environ)
            hint = router.new_key(f"keyring:{entry}")
            place = ("providers", holder.provider, *key)
            yield _warning(place, f"{why}, so it is not sent to {holder.host}; try: {hint}")


def _unsticky(config: Config) -> Iterator[Fault]:
    for route in config.routes.values():
        if route.sticky is False and route.selection not in IN_ORDER and len(route.targets) > 1:
            yield _warning(
                ("routes", route.id, "sticky"),
                "a session changes its target with every question, and loses the vendor's prompt cache each time",
            )


def _warning(path: tuple[str | int, ...], message: str) -> Fault:
    return Fault(path=path, message=message, severity="warning")


def _trees(router: Router, faults: list[Fault], *, document: Mapping[str, Any]) -> dict[str, Plan | str]:
    """Every route and synthetic provider expanded: its plan, or why there is none. What is dead goes to ``faults``."""
    config = router.config
    found: dict[str, Plan | str] = {}
    for route in config.routes.values():
        found[route.id] = _expanded(router, route.id, faults, document) if route.enabled else "switched off"
    for row in config.synthetic_providers.values():
        if not row.enabled:
            found[f"{row.id}/…"] = "switched off"
            continue
        for model in _models(router, row.id):
            found[f"{row.id}/{model}"] = _expanded(router, f"{row.id}/{model}", faults, document)
    return found


def _models(router: Router, id: str) -> list[str]:
    """The models a synthetic provider's members list; one that stands for any where a member takes any."""
    members = router.config.synthetic_providers[id].members
    found = [name.partition("/")[2] for name in router.models() if name.startswith(f"{id}/")]
    takes_any = any(router.catalog(router.config.providers[row.provider]).kind == "open" for row in members)
    return [*found, *(["MODEL"] if takes_any else [])]


def _expanded(router: Router, asked: str, faults: list[Fault], document: Mapping[str, Any]) -> Plan | str:
    route = asked in router.config.routes
    table, id = ("routes", asked) if route else ("synthetic_providers", asked.partition("/")[0])
    try:
        plan = expand(router.config, router.catalogs(), asked)
    except ConfigError as error:
        severity = "error" if route and isinstance(error, Unpriced) else "warning"
        faults.append(Fault(path=(table, id), message=error.message, severity=severity))
        return "gives no target to call"
    for drop, message in _dead(plan, router.config):
        owner = drop.group if drop.group in router.config.routes else id
        # A member's fault stands where its group is listed, not where the member may be listed itself.
        listed = drop.label if drop.group in ("", owner) else drop.group
        fault = _warning(_place(document, owner, listed) if route else (table, id), message)
        faults += [] if fault in faults else [fault]
    return plan


def _dead(plan: Plan, config: Config) -> Iterator[tuple[Dropped, str]]:
    """Listed targets that give nothing without anybody having asked for that, each with what to say of it."""
    alive = {group.label: group for group in plan.groups}
    emptied: dict[str, list[str]] = {}
    for drop in plan.dropped:
        if any(word in drop.reason for word in MEANT):
            continue
        if drop.group not in alive and drop.group not in config.routes:
            emptied.setdefault(drop.group, []).append(f"{drop.label}: {drop.reason}")
        elif drop.reason not in ORDINARY:
            yield drop, f"{drop.label} gives nothing: {drop.reason}"
        elif drop.reason == "listed earlier" and drop.group in alive and alive[drop.group].algorithm not in IN_ORDER:
            yield drop, f"{drop.label} is listed earlier, so {drop.group} rotates without it"
    for label, reasons in emptied.items():
        yield Dropped(group="", label=label, reason=""), f"{label} gives nothing: {'; '.join(reasons)}"


def _place(document: Mapping[str, Any], route: str, label: str) -> tuple[str | int, ...]:
    """The listed target a drop comes from, as a key path of the file; the whole route where it cannot be told."""
    targets = document.get("routes", {}).get(route, {}).get("targets", [])
    said = [str(entry.get("target") if isinstance(entry, dict) else entry).partition("#")[0] for entry in targets]
    wanted = label.partition("#")[0]
    return ("routes", route, "targets", said.index(wanted)) if wanted in said else ("routes", route)


# --- trees in words ---------------------------------------------------------------------------------------------------


def _told(trees: Mapping[str, Plan | str]) -> list[str]:
    """Each tree once: synthetic providers look alike for many models."""
    alike: dict[str, list[str]] = {}
    for name, plan in trees.items():
        alike.setdefault(_shape(name, plan), []).append(name)
    told: list[str] = []
    for names in alike.values():
        plan = trees[names[0]]
        head, *rest = _tree_lines(plan) if isinstance(plan, Plan) else [f"{names[0]}: {plan}"]
        more = f"  (and {len(names) - 1} more like it: {', '.join(names[1:4])}{' …' if names[4:] else ''})"
        told += [head + (more if names[1:] else ""), *rest]
    return told


def _shape(name: str, plan: Plan | str) -> str:
    """What two trees have in common that differ in the model's name alone."""
    owner, _, model = name.partition("/")
    if isinstance(plan, str) or not model:
        return name
    return f"{owner}/" + "\n".join(_tree_lines(plan)[1:]).replace(f"/{model}", "/")


def _tree_lines(plan: Plan) -> list[str]:
    rows = list(_rows(plan, plan.root, share=1.0, depth=0))
    width = max(len(left) for left, right in rows if right) if any(right for _, right in rows) else 0
    return [f"{left:<{width}}   {right}" if right else left for left, right in rows]


def _rows(plan: Plan, group: Group, *, share: float | None, depth: int, note: str = "") -> Iterator[tuple[str, str]]:
    """A group's line and its children's: the name, and which part of the requests comes here while all are ready."""
    pad = "  " * depth
    manner = MANNERS.get(group.algorithm, group.algorithm)
    tail = f", {note}" if note else ""
    yield f"{pad}{group.label}: {manner}{', fixed' if group.fixed else ''}{tail}", ""
    for child, part, word in _parts(group):
        below = None if part is None or share is None else share * part
        if child.kind == "group":
            yield from _rows(plan, plan.groups[child.index], share=below, depth=depth + 1, note=word)
        else:
            said = [_share_words(below, word), *_unusual(plan.leaves[child.index].limits)]
            yield f"{pad}  {child.label}", ", ".join(said)


def _unusual(limits: Limits) -> Iterator[str]:
    """The limits of a target that are not everybody's; what a reasoning model or a local server is given is usual."""
    for name in Limits.__struct_fields__:
        value, usual = getattr(limits, name), getattr(DEFAULT_LIMITS, name)
        if value not in ((usual, PATIENT_FIRST_OUTPUT) if name == "first_output" else (usual,)):
            yield f"{name} {duration_text(value)}"


def _share_words(share: float | None, word: str) -> str:
    if word or share is None:
        return word or "share unknown"
    return f"{share * 100:.3g}%" if share > 0 else "backup"


def _parts(group: Group) -> Iterator[tuple[Branch, float | None, str]]:
    """Each child with its part of the group's requests (``None``: the algorithm's own business), and a word."""
    children = group.children
    weights = [child.weight for child in children]
    if group.algorithm in IN_ORDER:
        yield from ((child, 1.0 if at == 0 else 0.0, "") for at, child in enumerate(children))
    elif group.algorithm in ("weighted", "smooth"):
        yield from ((child, child.weight / sum(weights), "") for child in children)
    elif group.algorithm == "round-robin":
        tiers = sorted(set(weights), reverse=True)
        for child in children:
            tier = tiers.index(child.weight)
            part = 1 / weights.count(tiers[0]) if tier == 0 else 0.0
            yield child, part, f"backup, tier {tier + 1} (weight {child.weight})" if tier else ""
    else:
        yield from ((child, None, "") for child in children)


def _tree_json(plan: Plan, index: int, share: float | None = 1.0) -> dict[str, Any]:
    group = plan.groups[index]
    children: list[dict[str, Any]] = []
    for child, part, _ in _parts(group):
        below = None if part is None or share is None else share * part
        if child.kind == "group":
            children.append(_tree_json(plan, child.index, below) | {"weight": child.weight})
        else:
            rounded = round(below, 6) if below is not None else None
            children.append({"target": child.label, "weight": child.weight, "share": rounded})
    return {"group": group.label, "algorithm": group.algorithm, "children": children}
