"""The heart: which leaf a request goes to next. Pure; what an outcome means for the next request is in ``settle``.

``decide`` reads the store's values for the plan's keys and returns the values to write; a store may run it twice. The
loop around it lives in ``dispatch``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import msgspec

from . import health
from .budget import Reserve
from .judge import (
    EXPIRED,
    READY,
    Values,
    Verdict,
    View,
    Walk,
    Writes,
    budget_verdict,
    encode,
    expected,
    fitness,
    hold_verdict,
    judge,
)
from .plan import LISTED_EARLIER, Branch, Group, Leaf, Plan, sticky_key
from .record import Candidate, GroupDecision, Reason, Skip
from .select import Algorithm, Child, GroupView, Pick
from .value import Value

#: how long a session keeps its pick after its last answer
STICKY_FOR = 3600.0
#: a hold this short is waited for where nobody else is ready
SHORT_HOLD = 5.0


class Choice(Value):
    """Go to this leaf. ``claims`` are the store keys on which this request holds the half-open claim; ``spare`` says
    that another ready leaf remains, so that silence need not be waited out; ``entered`` replaces the walk's."""

    leaf: int
    path: tuple[GroupDecision, ...]
    groups: tuple[int, ...]
    claims: tuple[str, ...] = ()
    last_resort: bool = False
    spare: bool = False
    #: the leaf that would have been picked with everybody ready, where that is another one
    preferred: int | None = None
    entered: frozenset[int] = frozenset()
    skipped: tuple[Skip, ...] = ()


class Waiting(Value):
    """Nobody is ready, but somebody will be: look again at ``until`` at the latest. ``cause`` is ``probe`` (another
    request is finding out right now: look often), ``window``, or ``hold`` (a short one, waited for once)."""

    until: float
    cause: str
    target: str


class Exhausted(Value):
    """Nobody is left. ``wakes`` is when the first sleeper may be tried again, ``frees`` when the first budget has room
    again."""

    skipped: tuple[Skip, ...]
    sleepers: tuple[tuple[str, float], ...] = ()
    wakes: float | None = None
    frees: float | None = None


Outcome = Choice | Waiting | Exhausted


class _Chooser:
    """One run of ``decide``: the verdicts of every leaf, and the path being built."""

    def __init__(self, plan: Plan, selectors: Sequence[Algorithm], values: Values, *, walk: Walk, now: float) -> None:
        self.plan, self.selectors, self.walk, self.now = plan, selectors, walk, now
        self.view = View(values, now)
        self.verdicts = [judge(leaf, self.view, walk, now) for leaf in plan.leaves]
        self.children: dict[int, tuple[bool, bool]] = {}
        self.writes: Writes = {}

    def preferred(self) -> int | None:
        """The leaf that would serve if everybody were ready and no turn were spent."""
        ideal = copy.copy(self)
        ideal.verdicts = [verdict if verdict.reason == EXPIRED else READY for verdict in self.verdicts]
        ideal.children, ideal.writes = {}, {}
        found = ideal.descend(spent=frozenset(range(len(self.plan.groups))))
        return found[0] if found else None

    def standing_of(self, branch: Branch) -> tuple[bool, bool]:
        """(ready, demoted) of a child; a group is ready with any ready leaf below, demoted with only demoted ones."""
        if branch.kind == "leaf":
            verdict = self.verdicts[branch.index]
            return not verdict.reason, verdict.demoted
        found = self.children.get(branch.index)
        if found is None:
            below = [self.standing_of(child) for child in self.plan.groups[branch.index].children]
            live = [demoted for ready, demoted in below if ready]
            found = self.children[branch.index] = (bool(live), bool(live) and all(live))
        return found

    def group_view(self, group: Group) -> GroupView:
        children = []
        for branch in group.children:
            ready, demoted = self.standing_of(branch)
            children.append(Child(label=branch.label, weight=branch.weight, ready=ready, demoted=demoted))
        return GroupView(id=group.id, children=tuple(children))

    def descend(
        self, spent: frozenset[int] | None = None
    ) -> tuple[int, list[GroupDecision], list[int], set[int]] | None:
        """Pick from the root down; ``None`` when nobody is ready. Only groups on the path spend a turn. ``spent`` says
        instead which groups have: then nothing is recorded either."""
        group, path, passed = self.plan.root, [], []
        entered = set(self.walk.entered if spent is None else spent)
        while True:
            view = self.group_view(group)
            index, reason = self._pick(group, view, spent=group.index in entered)
            if index is None:
                return None
            entered.add(group.index)
            passed.append(group.index)
            if spent is None:
                path.append(self.decision(group, view, index, reason=reason))
            branch = group.children[index]
            if branch.kind == "leaf":
                return branch.index, path, passed, entered
            group = self.plan.groups[branch.index]

    def _pick(self, group: Group, view: GroupView, *, spent: bool) -> tuple[int | None, Reason]:
        selector = self.selectors[group.index]
        kept = self._kept(group, view, selector)
        if kept is not None:
            return kept, "sticky"
        pick = Pick(
            r=self.walk.draws[group.index],
            session=self.walk.session,
            tried=frozenset(self.plan.leaves[index].label for index in self.walk.given_up),
            extras=self.walk.extras[group.index] if self.walk.extras else {},
        )
        state = self.view.state(group.turn_key)
        index = selector.select(view, state, pick)
        if index is None or not view.children[index].ready:
            return None, "only"
        if not spent:
            moved = selector.on_dispatch(view, state, pick, index)
            if moved != state:
                self.writes[group.turn_key] = encode(moved)
        return index, "only" if len(view.children) == 1 else REASONS.get(group.algorithm, "turn")

    def _kept(self, group: Group, view: GroupView, selector: Algorithm) -> int | None:
        """The child this session was last answered by, if it may keep it."""
        if self.walk.session is None or not group.sticky or len(view.children) < 2:
            return None
        keeps = getattr(selector, "keeps", None)
        if keeps is None and group.sticky != "cache":
            return None
        stuck = self.view.stuck(sticky_key(group, self.walk.session))
        if stuck is None or not 0 <= self.now - stuck.time < STICKY_FOR:
            return None
        index = next((at for at, child in enumerate(view.children) if child.label == stuck.label), None)
        if index is None or not view.children[index].ready:
            return None
        return index if keeps is None or keeps(view, index) else None

    def decision(self, group: Group, view: GroupView, index: int, *, reason: Reason) -> GroupDecision:
        # A last resort is no reason to call the chosen one passed over.
        others = [branch for at, branch in enumerate(group.children) if at != index]
        excluded = [skip for branch in others for skip in self._excluded(branch)]
        excluded += [
            Skip(target=drop.label, reason=drop.reason)
            for drop in self.plan.dropped
            if drop.group == group.label and drop.reason == LISTED_EARLIER
        ]
        return GroupDecision(
            group=group.id,
            label=group.label,
            algorithm=group.algorithm,
            candidates=tuple(
                Candidate(label=child.label, weight=child.weight, demoted=child.demoted)
                for at, child in enumerate(view.children)
                if child.ready or at == index
            ),
            chosen=group.children[index].label,
            reason=reason,
            excluded=tuple(excluded),
        )

    def _excluded(self, branch: Branch) -> list[Skip]:
        if branch.kind == "group":
            ready, _ = self.standing_of(branch)
            return [] if ready else [Skip(target=branch.label, reason="nobody ready")]
        verdict = self.verdicts[branch.index]
        return [] if verdict.ready else [_skip(branch.label, verdict)]

    def skipped(self) -> tuple[Skip, ...]:
        return tuple(
            _skip(leaf.label, verdict)
            for leaf, verdict in zip(self.plan.leaves, self.verdicts, strict=True)
            if verdict.reason and leaf.index not in self.walk.given_up
        )

    def claim(self, leaf: Leaf) -> tuple[str, ...]:
        """Take the half-open claims this leaf needs, with a lease of connect + first output and some slack."""
        taken = []
        lease = (leaf.limits.connect or 0.0) + (leaf.limits.first_output or 0.0) + health.LEASE_SLACK
        for key in (leaf.target_key, leaf.credential_key):
            standing = self.view.standing(key)
            probed = self.walk.probing is not None and key == leaf.target_key
            if probed or health.half_open(standing, self.now):
                claim = health.Claim(holder=self.walk.id, since=self.now, until=self.now + lease)
                when = self.now if probed else standing.last_probe
                self.writes[key] = encode(msgspec.structs.replace(standing, claim=claim, last_probe=when))
                taken.append(key)
        return tuple(taken)

    def reserve(self, leaf: Leaf) -> None:
        """Take the room the call may need, until the request's deadline."""
        if not leaf.budgets:
            return
        amount = expected(leaf, self.view, self.walk)
        taken = Reserve(holder=self.walk.id, since=self.now, until=self.walk.deadline, amount=amount)
        self.view.books.reserve(leaf.budget_limits, taken)

    def fallback(self) -> Outcome:
        """Nobody is ready: wait for a verdict, use a guessed window as a last resort, or give up."""
        if self.walk.first:
            waiting = self._awaited_probe() or self._awaited_window() or self._awaited_hold()
            if waiting is not None:
                return waiting
            asleep = [(verdict.until or 0.0, at) for at, verdict in enumerate(self.verdicts) if self._may_wake(at)]
            if asleep:
                return self._last_resort(min(asleep)[1])
        return self.exhausted()

    def _may_wake(self, at: int) -> bool:
        """A guess of ours may be overridden; what the vendor said, a budget or a lacking ability never."""
        if self.plan.last_resort != "guessed" or not self.verdicts[at].guessed:
            return False
        leaf = self.plan.leaves[at]
        other = (
            hold_verdict(self.view.standing(leaf.target_key), self.now)
            or budget_verdict(leaf, self.view, self.walk)
            or fitness(leaf, self.walk)
        )
        return other is None

    def _awaited_probe(self) -> Waiting | None:
        out = [(verdict.until or self.now, at) for at, verdict in enumerate(self.verdicts) if verdict.probe]
        if not out or self.walk.waited:
            return None
        until, at = min(out)
        patience = self.plan.leaves[at].limits.first_output or 0.0
        return Waiting(until=min(until, self.now + patience), cause="probe", target=self.plan.leaves[at].label)

    def _awaited_window(self) -> Waiting | None:
        if self.plan.last_resort != "wait":
            return None
        ends = [(verdict.until, at) for at, verdict in enumerate(self.verdicts) if verdict.until is not None]
        if not ends or min(ends)[0] > self.walk.deadline:
            return None
        until, at = min(ends)
        return Waiting(until=until, cause="window", target=self.plan.leaves[at].label)

    def _awaited_hold(self) -> Waiting | None:
        """A vendor that asked for a moment gets it from every process, not only from the one it told."""
        latest = min(self.now + SHORT_HOLD, self.walk.deadline)
        ends = [(verdict.until or self.now, at) for at, verdict in enumerate(self.verdicts) if verdict.hold]
        if self.walk.waited or self.plan.last_resort == "never" or not ends or min(ends)[0] > latest:
            return None
        until, at = min(ends)
        return Waiting(until=until, cause="hold", target=self.plan.leaves[at].label)

    def _last_resort(self, leaf: int) -> Choice:
        self.reserve(self.plan.leaves[leaf])
        chain = chain_to(self.plan, leaf)
        path = [self.decision(group, self.group_view(group), index, reason="last-resort") for group, index in chain]
        return Choice(
            leaf=leaf,
            path=tuple(path),
            groups=tuple(group.index for group, _ in chain),
            last_resort=True,
            entered=self.walk.entered,
            skipped=tuple(skip for skip in self.skipped() if skip.target != self.plan.leaves[leaf].label),
        )

    def exhausted(self) -> Exhausted:
        skipped = self.skipped()
        timed = [
            (leaf.label, verdict.until, verdict.budget)
            for leaf, verdict in zip(self.plan.leaves, self.verdicts, strict=True)
            if verdict.until is not None
        ]
        return Exhausted(
            skipped=skipped,
            sleepers=tuple((label, until - self.now) for label, until, budget in timed if not budget),
            wakes=min((until for _, until, budget in timed if not budget), default=None),
            frees=min((until for _, until, budget in timed if budget), default=None),
        )


def _skip(label: str, verdict: Verdict) -> Skip:
    return Skip(target=label, reason=verdict.reason, until=verdict.until, since=verdict.since, said=verdict.said)


#: the recorded reason of a pick, by algorithm; any other algorithm takes turns
REASONS: Mapping[str, Reason] = {"ordered": "ordered", "priority": "ordered", "weighted": "drawn"}


def chain_to(plan: Plan, leaf: int) -> list[tuple[Group, int]]:
    """The groups from the root to a leaf, each with the index of the child to take."""
    above: dict[tuple[str, int], tuple[Group, int]] = {}
    for group in plan.groups:
        for at, branch in enumerate(group.children):
            above[(branch.kind, branch.index)] = (group, at)
    chain = [above[("leaf", leaf)]]
    while chain[0][0].index != plan.root.index:
        chain.insert(0, above[("group", chain[0][0].index)])
    return chain


def others_than(plan: Plan, only: str | None) -> dict[int, str]:
    """The leaves (by index) that are not of the one provider asked for, and why they are left out. A synthetic provider
    has the leaves below its groups."""
    if only is None:
        return {}
    groups = {leaf.index: {group.id for group, _ in chain_to(plan, leaf.index)} for leaf in plan.leaves}
    return {
        leaf.index: f"not {only}" for leaf in plan.leaves if leaf.provider != only and only not in groups[leaf.index]
    }


def decide(
    plan: Plan, selectors: Sequence[Algorithm], values: Values, *, walk: Walk, now: float
) -> tuple[Outcome, Writes]:
    """The next step of a walk, and what to write: turns spent, claims taken. ``selectors`` runs parallel to
    ``plan.groups``."""
    chooser = _Chooser(plan, selectors, values, walk=walk, now=now)
    found = chooser.descend()
    if found is None:
        outcome = chooser.fallback()
        return outcome, chooser.view.mended | chooser.view.books.writes()
    index, path, passed, entered = found
    claims = chooser.claim(plan.leaves[index])
    chooser.reserve(plan.leaves[index])
    ready = sum(1 for verdict in chooser.verdicts if not verdict.reason)
    preferred = chooser.preferred() if walk.first and ready < len(plan.leaves) else None
    choice = Choice(
        leaf=index,
        path=tuple(path),
        groups=tuple(passed),
        claims=claims,
        spare=ready > 1,
        preferred=preferred if preferred != index else None,
        entered=frozenset(entered),
        skipped=chooser.skipped(),
    )
    return choice, chooser.view.mended | chooser.writes | chooser.view.books.writes()
