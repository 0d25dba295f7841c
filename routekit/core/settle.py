"""What the outcome of an attempt means for the next request: windows, claims, holds, budgets, stickiness. Pure, like
``decide``: it returns the values to write.
"""

from __future__ import annotations

from typing import Any

from . import budget, health
from .budget import Amount, Books, Reserve
from .config import Health
from .faults import Fault
from .health import CLEAR, Standing
from .judge import Stuck, Values, View, Walk, Writes, encode, expected, read_standing
from .plan import Group, Leaf, sticky_key
from .select import Algorithm, Child, GroupView, Pick
from .value import Value


class Try(Value):
    """An attempt, as far as health and budgets are concerned. ``heard`` is when the vendor stated its limits, ``None``
    where it did not; ``hold`` what they mean, ``None`` where nothing is short. ``spent`` ends the reserve with what the
    attempt took of its budgets; ``None`` keeps it."""

    holder: str
    started: float
    leaf: Leaf
    groups: tuple[Group, ...] = ()
    children: tuple[str, ...] = ()
    session: str | None = None
    key_tag: str | None = None
    probe: bool = False
    heard: float | None = None
    hold: health.Hold | None = None
    spent: Amount | None = None
    #: the length of a whole answer, in tokens: what is usual of this model follows it
    output: int | None = None
    #: the algorithms of ``groups``, and what each keeps for this request
    selectors: tuple[Any, ...] = ()
    extras: tuple[dict[str, Any], ...] = ()

    def keys(self) -> tuple[str, ...]:
        stuck = [sticky_key(group, self.session) for group in self.groups] if self.session is not None else []
        told = [group.turn_key for group, selector in zip(self.groups, self.selectors, strict=False) if hears(selector)]
        return (self.leaf.target_key, self.leaf.credential_key, *self.leaf.budget_keys, *stuck, *told)


def settle(done: Try, outcome: str | Fault, values: Values, *, settings: Health, now: float) -> Writes:
    """What the outcome of an attempt changes. ``opened``: headers came. ``answered``: first output came.
    ``finished``: a clean end. ``released``: nothing was learned (cancelled, the caller's own fault). A ``Fault``: the
    target was given up."""
    view = View(values, now)
    before = {key: view.standing(key) for key in (done.leaf.target_key, done.leaf.credential_key)}
    after = {key: _settled(key, standing, done, outcome, settings, now) for key, standing in before.items()}
    if done.heard is not None:
        after[done.leaf.target_key] = health.announced(after[done.leaf.target_key], done.hold, done.heard)
    writes: Writes = {
        key: encode(standing) if standing != CLEAR else None
        for key, standing in after.items()
        if standing != before[key]
    }
    if outcome == "finished" and done.session is not None:
        for group, child in zip(done.groups, done.children, strict=True):
            writes[sticky_key(group, done.session)] = encode(Stuck(label=child, time=now))
    if done.leaf.budgets and done.spent is not None:
        writes |= charge(done, view)
    return writes | _told(done, outcome, view)


#: what an algorithm may want to hear of an attempt's end
HOOKS = ("on_failure", "on_success")


def hears(selector: Algorithm) -> bool:
    return any(hasattr(selector, name) for name in HOOKS)


def _told(done: Try, outcome: str | Fault, view: View) -> Writes:
    """Tell the algorithms on the path how it went, where they ask to be told."""
    name = "on_failure" if isinstance(outcome, Fault) else "on_success" if outcome == "finished" else ""
    writes: Writes = {}
    for at, selector in enumerate(done.selectors):
        hook = getattr(selector, name, None) if name else None
        if hook is None:
            continue
        group = done.groups[at]
        labels = [branch.label for branch in group.children]
        children = tuple(Child(label=branch.label, weight=branch.weight) for branch in group.children)
        pick = Pick(session=done.session, extras=done.extras[at] if done.extras else {})
        state = view.state(group.turn_key)
        moved = hook(GroupView(id=group.id, children=children), state, pick, labels.index(done.children[at]))
        if moved != state:
            writes[group.turn_key] = encode(moved)
    return writes


def charge(done: Try, view: View) -> Writes:
    """End the attempt's reserve with what it has spent."""
    leaf, writes = done.leaf, Writes()
    view.books.settle(leaf.budget_limits, done.holder, done.spent or budget.NOTHING)
    if done.output is not None and budget.counts_output(leaf.budget_limits):
        writes[budget.usual_key(leaf.target)] = encode(budget.usual_after(view.usual(leaf), done.output))
    return writes | view.books.writes()


def once_more(done: Try, values: Values, *, walk: Walk, now: float) -> tuple[bool, Writes]:
    """The same leaf again: the failed attempt is charged and room for another one taken. (False, nothing) where there
    is no room."""
    view = View(values, now)
    charge(done, view)
    need = expected(done.leaf, view, walk)
    if view.books.lack(done.leaf.budget_limits, need, holder=walk.id):
        return False, {}
    taken = Reserve(holder=walk.id, since=now, until=max(walk.deadline, now), amount=need)
    view.books.reserve(done.leaf.budget_limits, taken)
    return True, view.books.writes()


def renew(done: Try, values: Values, *, until: float, now: float) -> Writes:
    """Output has come: the reserve's lease goes on."""
    books = Books(values, now)
    books.renew(done.leaf.budget_limits, done.holder, until)
    return dict(books.writes())


def _settled(key: str, standing: Standing, done: Try, outcome: str | Fault, settings: Health, now: float) -> Standing:
    if isinstance(outcome, Fault):
        return _failed(key, standing, done, outcome, settings, now)
    if outcome == "opened":
        return standing
    if outcome == "released":
        return health.released(standing, done.holder)
    if standing == CLEAR and key == done.leaf.credential_key:
        # A credential nothing is remembered of needs no row for being well.
        return standing
    if outcome == "answered":
        return health.answered(standing, started=done.started, holder=done.holder, now=now)
    return health.finished(standing, started=done.started, holder=done.holder, now=now)


def _failed(key: str, standing: Standing, done: Try, fault: Fault, settings: Health, now: float) -> Standing:
    failure = health.Failure(
        fault=fault, started=done.started, holder=done.holder, key_tag=done.key_tag, probe=done.probe
    )
    if fault.hits == "target" and key == done.leaf.target_key:
        return health.fail_target(standing, failure, settings, now)
    if fault.hits == "credential" and key == done.leaf.credential_key:
        return health.fail_credential(standing, failure, settings, now)
    # The other one of target and credential learned nothing; its claim goes back.
    return health.released(standing, done.holder)


def earned(done: Try, fault: Fault, writes: Writes, *, now: float) -> float | None:
    """The window (seconds from now) a settled failure left its target or credential in; ``None`` for none."""
    keys = {"target": done.leaf.target_key, "credential": done.leaf.credential_key}
    raw = writes.get(keys.get(fault.hits, ""))
    window = read_standing(raw).window if raw else None
    return window.left(now) if window and window.end > now else None
