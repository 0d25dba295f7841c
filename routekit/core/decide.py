"""The heart: which leaf a request goes to next, and what its outcome means for the next one. Pure, both.

``decide`` and ``settle`` read the store's values for the plan's keys and return the values to write; a store may run
them twice. The loop around them lives in ``dispatch``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from . import health
from .config import Health
from .faults import Fault
from .health import CLEAR, Standing
from .plan import Branch, Group, Leaf, Plan, sticky_key
from .record import Candidate, GroupDecision, Reason, Skip
from .select import Algorithm, Child, GroupView, Pick
from .value import Value

#: how long a session keeps its pick after its last answer
STICKY_FOR = 3600.0
#: an estimate this far over a declared window certainly does not fit
CERTAIN = 0.7

Values = Mapping[str, bytes]
Writes = dict[str, bytes | None]

_standing = msgspec.json.Decoder(Standing)
_encode = msgspec.json.Encoder().encode


class Stuck(Value):
    """A session's last pick in one group."""

    label: str
    time: float


_stuck = msgspec.json.Decoder(Stuck)


class Walk(Value):
    """One request on its way through a plan. ``draws`` holds one random number in [0, 1) per group, drawn before any
    transaction; ``given_up`` the leaves (by index) this request will not try again, and why; ``entered`` the groups
    whose turn it has spent; ``blocked`` what this process knows of credentials (credential → reason); ``tags`` the
    present key tags; ``larger_than`` the window a leaf must exceed after a context fault (0: none was declared)."""

    id: str
    draws: tuple[float, ...]
    session: str | None = None
    first: bool = True
    waited: bool = False
    given_up: Mapping[int, str] = {}
    entered: frozenset[int] = frozenset()
    blocked: Mapping[str, str] = {}
    tags: Mapping[str, str] = {}
    tokens: int = 0
    needs: frozenset[str] = frozenset()
    larger_than: int | None = None
    deadline: float = float("inf")


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
    request is finding out right now: look often) or ``window``."""

    until: float
    cause: str
    target: str


class Exhausted(Value):
    """Nobody is left. ``wakes`` is when the first sleeper may be tried again."""

    skipped: tuple[Skip, ...]
    sleepers: tuple[tuple[str, float], ...] = ()
    wakes: float | None = None


Outcome = Choice | Waiting | Exhausted


class View:
    """The store's values for one plan, decoded as far as anybody asks."""

    __slots__ = ("_now", "_seen", "_values")

    def __init__(self, values: Values, now: float) -> None:
        self._values, self._now = values, now
        self._seen: dict[str, Standing] = {}

    def standing(self, key: str) -> Standing:
        found = self._seen.get(key)
        if found is None:
            raw = self._values.get(key)
            found = health.rebased(read_standing(raw), self._now) if raw else CLEAR
            self._seen[key] = found
        return found

    def state(self, key: str) -> Any:
        raw = self._values.get(key)
        return msgspec.json.decode(raw) if raw else None

    def stuck(self, key: str) -> Stuck | None:
        raw = self._values.get(key)
        return _stuck.decode(raw) if raw else None


def read_standing(raw: bytes) -> Standing:
    """A stored standing; what a newer or damaged row says is worth nothing, not an error."""
    try:
        return _standing.decode(raw)
    except msgspec.MsgspecError:
        return CLEAR


class Verdict(Value):
    """Whether one leaf can be tried now. ``reason`` is empty when it can; ``guessed`` marks the only kind of exclusion
    a last resort may override; ``probe`` a leaf whose claim is out."""

    reason: str = ""
    until: float | None = None
    demoted: bool = False
    guessed: bool = False
    probe: bool = False

    @property
    def ready(self) -> bool:
        return not self.reason


EXPIRED = "expired"
READY = Verdict()
READY_DEMOTED = Verdict(demoted=True)


def judge(leaf: Leaf, view: View, walk: Walk, now: float) -> Verdict:
    """The leaf's verdict; the first exclusion in the order of the rules is the recorded reason."""
    if leaf.index in walk.given_up:
        return Verdict(reason=walk.given_up[leaf.index])
    if leaf.until is not None and now >= leaf.until:
        return Verdict(reason=EXPIRED)
    if leaf.credential in walk.blocked:
        return Verdict(reason=walk.blocked[leaf.credential])
    credential, target = view.standing(leaf.credential_key), view.standing(leaf.target_key)
    if credential is CLEAR and target is CLEAR and not walk.needs and walk.larger_than is None and not walk.tokens:
        return READY
    return (
        _credential_verdict(leaf, credential, walk, now)
        or _target_verdict(target, walk, now)
        or _fitness(leaf, walk)
        or (READY_DEMOTED if not leaf.fixed and health.demoted(target, now) else READY)
    )


def _credential_verdict(leaf: Leaf, standing: Standing, walk: Walk, now: float) -> Verdict | None:
    window = health.sleeping(standing, now)
    changed = standing.key_tag is not None and walk.tags.get(leaf.credential, standing.key_tag) != standing.key_tag
    if window and not (window.cause == "auth" and changed):
        return Verdict(reason=f"credential window ({window.cause})", until=now + window.left(now))
    claim = health.claimed(standing, now, walk.id)
    return Verdict(reason="its probe is out", until=claim.until, probe=True) if claim else None


def _target_verdict(standing: Standing, walk: Walk, now: float) -> Verdict | None:
    window = health.sleeping(standing, now)
    if window:
        until = now + window.left(now)
        return Verdict(reason=f"target window ({window.cause})", until=until, guessed=not window.stated)
    claim = health.claimed(standing, now, walk.id)
    if claim:
        return Verdict(reason="its probe is out", until=claim.until, probe=True)
    hold = health.held(standing, now)
    return Verdict(reason="hold", until=now + hold.left(now)) if hold else None


def _fitness(leaf: Leaf, walk: Walk) -> Verdict | None:
    context = leaf.info.context
    if walk.larger_than is not None and not (context or 0) > walk.larger_than and (context or walk.larger_than):
        return Verdict(reason="window too small")
    if context is not None and walk.tokens * CERTAIN > context:
        return Verdict(reason="window too small")
    lacking = [need for need in sorted(walk.needs) if getattr(leaf.info, need) is False]
    return Verdict(reason=f"cannot take {lacking[0]}") if lacking else None


# --- choosing ---------------------------------------------------------------------------------------------------------


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
        found = ideal.descend()
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

    def descend(self) -> tuple[int, list[GroupDecision], list[int], set[int]] | None:
        """Pick from the root down; ``None`` when nobody is ready. Only groups on the path spend a turn."""
        group, path, passed = self.plan.root, [], []
        entered = set(self.walk.entered)
        while True:
            view = self.group_view(group)
            index, reason = self._pick(group, view, spent=group.index in entered)
            if index is None:
                return None
            entered.add(group.index)
            passed.append(group.index)
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
        )
        state = self.view.state(group.turn_key)
        index = selector.select(view, state, pick)
        if index is None or not view.children[index].ready:
            return None, "only"
        if not spent:
            moved = selector.on_dispatch(view, state, pick, index)
            if moved != state:
                self.writes[group.turn_key] = _encode(moved)
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
        excluded = [skip for branch in group.children for skip in self._excluded(branch)]
        return GroupDecision(
            group=group.id,
            label=group.label,
            algorithm=group.algorithm,
            candidates=tuple(
                Candidate(label=child.label, weight=child.weight, demoted=child.demoted) for child in view.children
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
        return [] if verdict.ready else [Skip(target=branch.label, reason=verdict.reason, until=verdict.until)]

    def skipped(self) -> tuple[Skip, ...]:
        return tuple(
            Skip(target=leaf.label, reason=verdict.reason, until=verdict.until)
            for leaf, verdict in zip(self.plan.leaves, self.verdicts, strict=True)
            if verdict.reason and leaf.index not in self.walk.given_up
        )

    def claim(self, leaf: Leaf) -> tuple[str, ...]:
        """Take the half-open claims this leaf needs, with a lease of connect + first output and some slack."""
        taken = []
        lease = (leaf.limits.connect or 0.0) + (leaf.limits.first_output or 0.0) + health.LEASE_SLACK
        for key in (leaf.target_key, leaf.credential_key):
            standing = self.view.standing(key)
            if health.half_open(standing, self.now):
                claim = health.Claim(holder=self.walk.id, since=self.now, until=self.now + lease)
                self.writes[key] = _encode(msgspec.structs.replace(standing, claim=claim))
                taken.append(key)
        return tuple(taken)

    def fallback(self) -> Outcome:
        """Nobody is ready: wait for a verdict, use a guessed window as a last resort, or give up."""
        if self.walk.first:
            waiting = self._awaited_probe() or self._awaited_window()
            if waiting is not None:
                return waiting
            if self.plan.last_resort == "guessed":
                asleep = [(verdict.until or 0.0, at) for at, verdict in enumerate(self.verdicts) if verdict.guessed]
                if asleep:
                    return self._last_resort(min(asleep)[1])
        return self.exhausted()

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

    def _last_resort(self, leaf: int) -> Choice:
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
        timed = [(leaf.label, verdict.until) for leaf, verdict in zip(self.plan.leaves, self.verdicts, strict=True)]
        sleepers = tuple((label, until - self.now) for label, until in timed if until is not None)
        wakes = min((self.now + left for _, left in sleepers), default=None)
        return Exhausted(skipped=skipped, sleepers=sleepers, wakes=wakes)


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


def decide(
    plan: Plan, selectors: Sequence[Algorithm], values: Values, *, walk: Walk, now: float
) -> tuple[Outcome, Writes]:
    """The next step of a walk, and what to write: turns spent, claims taken. ``selectors`` runs parallel to
    ``plan.groups``."""
    chooser = _Chooser(plan, selectors, values, walk=walk, now=now)
    found = chooser.descend()
    if found is None:
        return chooser.fallback(), {}
    index, path, passed, entered = found
    claims = chooser.claim(plan.leaves[index])
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
    return choice, chooser.writes


# --- settling ---------------------------------------------------------------------------------------------------------


class Try(Value):
    """An attempt, as far as health is concerned."""

    holder: str
    started: float
    leaf: Leaf
    groups: tuple[Group, ...] = ()
    children: tuple[str, ...] = ()
    session: str | None = None
    key_tag: str | None = None

    def keys(self) -> tuple[str, ...]:
        stuck = [sticky_key(group, self.session) for group in self.groups] if self.session is not None else []
        return (self.leaf.target_key, self.leaf.credential_key, *stuck)


def settle(done: Try, outcome: str | Fault, values: Values, *, settings: Health, now: float) -> Writes:
    """What the outcome of an attempt changes. ``answered``: first output came. ``finished``: a clean end. ``released``:
    nothing was learned (cancelled, the caller's own fault). A ``Fault``: the target was given up."""
    view = View(values, now)
    before = {key: view.standing(key) for key in (done.leaf.target_key, done.leaf.credential_key)}
    after = {key: _settled(key, standing, done, outcome, settings, now) for key, standing in before.items()}
    writes: Writes = {
        key: _encode(standing) if standing != CLEAR else None
        for key, standing in after.items()
        if standing != before[key]
    }
    if outcome == "finished" and done.session is not None:
        for group, child in zip(done.groups, done.children, strict=True):
            writes[sticky_key(group, done.session)] = _encode(Stuck(label=child, time=now))
    return writes


def _settled(key: str, standing: Standing, done: Try, outcome: str | Fault, settings: Health, now: float) -> Standing:
    if isinstance(outcome, Fault):
        return _failed(key, standing, done, outcome, settings, now)
    if outcome == "released":
        return health.released(standing, done.holder)
    if standing == CLEAR and key == done.leaf.credential_key:
        # A credential nothing is remembered of needs no row for being well.
        return standing
    if outcome == "answered":
        return health.answered(standing, started=done.started, holder=done.holder, now=now)
    return health.finished(standing, started=done.started, holder=done.holder, now=now)


def _failed(key: str, standing: Standing, done: Try, fault: Fault, settings: Health, now: float) -> Standing:
    failure = health.Failure(fault=fault, started=done.started, holder=done.holder, key_tag=done.key_tag)
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
