"""The heart: which leaf a request goes to next, and what its outcome means for the next one. Pure, both.

``decide`` and ``settle`` read the store's values for the plan's keys and return the values to write; a store may run
them twice. The loop around them lives in ``dispatch``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from . import budget, health
from .budget import Amount, Books, Reserve
from .chat import Usage
from .config import Health
from .faults import Fault
from .health import CLEAR, Standing
from .plan import LISTED_EARLIER, Branch, Group, Leaf, Plan, sticky_key
from .record import Candidate, GroupDecision, Reason, Skip
from .select import Algorithm, Child, GroupView, Pick
from .value import Value

#: how long a session keeps its pick after its last answer
STICKY_FOR = 3600.0
#: an estimate this far over a declared window certainly does not fit
CERTAIN = 0.7
#: a hold this short is waited for where nobody else is ready
SHORT_HOLD = 5.0

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
    present key tags; ``larger_than`` the window a leaf must exceed after a context fault (0: none was declared);
    ``extras`` is, by group, what its algorithm keeps for this request;
    ``tokens`` estimates the prompt, ``output`` is the most the caller lets a model answer; ``max_cost`` is in
    billionths of a US dollar."""

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
    extras: tuple[dict[str, Any], ...] = ()
    output: int | None = None
    max_cost: int | None = None
    #: a probe alongside, and the settings of its target: it goes to a target that sleeps in a guessed window
    probing: Health | None = None


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


class View:
    """The store's values for one plan, decoded as far as anybody asks."""

    __slots__ = ("_now", "_seen", "_values", "books", "mended")

    def __init__(self, values: Values, now: float) -> None:
        self._values, self._now = values, now
        self._seen: dict[str, Standing] = {}
        #: what a clock set back has moved: unless it is stored, it would begin anew at every look
        self.mended: Writes = {}
        self.books = Books(values, now)

    def standing(self, key: str) -> Standing:
        found = self._seen.get(key)
        if found is None:
            raw = self._values.get(key)
            stored = read_standing(raw) if raw else CLEAR
            found = self._seen[key] = health.rebased(stored, self._now)
            if found is not stored and health.ahead(stored, self._now):
                self.mended[key] = _encode(found)
        return found

    def state(self, key: str) -> Any:
        raw = self._values.get(key)
        return msgspec.json.decode(raw) if raw else None

    def usual(self, leaf: Leaf) -> float | None:
        return budget.read_usual(self._values.get(budget.usual_key(leaf.target)))

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
    a last resort may override; ``probe`` a leaf whose claim is out; ``hold`` one whose vendor said when; ``budget`` one
    that is well, but for which there is no room."""

    reason: str = ""
    until: float | None = None
    demoted: bool = False
    guessed: bool = False
    probe: bool = False
    budget: bool = False
    hold: bool = False

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
    if credential is CLEAR and target is CLEAR:
        return _budget_verdict(leaf, view, walk) or _fitness(leaf, walk) or READY
    return (
        _credential_verdict(leaf, credential, walk, now)
        or _target_verdict(target, walk, now)
        or _probe_verdict(credential, walk, now)
        or _probe_verdict(target, walk, now)
        or _hold_verdict(target, now)
        or _budget_verdict(leaf, view, walk)
        or _fitness(leaf, walk)
        or (READY_DEMOTED if not leaf.fixed and _demoted(credential, target, now) else READY)
    )


def _demoted(credential: Standing, target: Standing, now: float) -> bool:
    """Quota faults are the credential's, holds the target's: either demotes."""
    return health.demoted(target, now) or health.demoted(credential, now)


def _credential_verdict(leaf: Leaf, standing: Standing, walk: Walk, now: float) -> Verdict | None:
    window = health.sleeping(standing, now)
    changed = standing.key_tag is not None and walk.tags.get(leaf.credential, standing.key_tag) != standing.key_tag
    if window and not (window.cause == "auth" and changed):
        return Verdict(reason=f"credential window ({window.cause})", until=now + window.left(now))
    return None


def _target_verdict(standing: Standing, walk: Walk, now: float) -> Verdict | None:
    window = health.sleeping(standing, now)
    if window is None or (walk.probing is not None and health.due_for_probe(standing, walk.probing, now)):
        return None
    until = now + window.left(now)
    return Verdict(reason=f"target window ({window.cause})", until=until, guessed=not window.stated)


def _probe_verdict(standing: Standing, walk: Walk, now: float) -> Verdict | None:
    claim = health.claimed(standing, now, walk.id)
    return Verdict(reason="its probe is out", until=claim.until, probe=True) if claim else None


def _hold_verdict(standing: Standing, now: float) -> Verdict | None:
    hold = health.held(standing, now)
    return Verdict(reason="hold", until=now + hold.left(now), hold=True) if hold else None


def _budget_verdict(leaf: Leaf, view: View, walk: Walk) -> Verdict | None:
    if not leaf.budgets and walk.max_cost is None:
        return None
    need = expected(leaf, view, walk)
    dear = _too_dear(leaf, need, walk.max_cost)
    if dear:
        return Verdict(reason=dear, budget=True)
    lack = view.books.lack(leaf.budget_limits, need, holder=walk.id)
    return Verdict(reason=budget.said(lack), until=lack.until, budget=True) if lack else None


def _too_dear(leaf: Leaf, need: Amount, most: int | None) -> str:
    if most is None:
        return ""
    limit = f"budget --max-cost {budget.dollars(most)}"
    if leaf.info.price is None:
        return f"{limit}: no price is known"
    return f"{limit}: would cost about {budget.dollars(need.nanos)}" if need.nanos > most else ""


def expected(leaf: Leaf, view: View, walk: Walk) -> Amount:
    """What a call is reserved with: the prompt by its length, the answer by what the caller allows it or by what this
    model's answers usually take."""
    usual = walk.output or view.usual(leaf) or float(budget.UNHEARD)
    output = min(round(usual), leaf.info.output or round(usual))
    return budget.cost(leaf.info.price, Usage(input_tokens=walk.tokens, output_tokens=output))


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
            probed = self.walk.probing is not None and key == leaf.target_key
            if probed or health.half_open(standing, self.now):
                claim = health.Claim(holder=self.walk.id, since=self.now, until=self.now + lease)
                when = self.now if probed else standing.last_probe
                self.writes[key] = _encode(msgspec.structs.replace(standing, claim=claim, last_probe=when))
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
            _hold_verdict(self.view.standing(leaf.target_key), self.now)
            or _budget_verdict(leaf, self.view, self.walk)
            or _fitness(leaf, self.walk)
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


# --- settling ---------------------------------------------------------------------------------------------------------


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
        key: _encode(standing) if standing != CLEAR else None
        for key, standing in after.items()
        if standing != before[key]
    }
    if outcome == "finished" and done.session is not None:
        for group, child in zip(done.groups, done.children, strict=True):
            writes[sticky_key(group, done.session)] = _encode(Stuck(label=child, time=now))
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
            writes[group.turn_key] = _encode(moved)
    return writes


def charge(done: Try, view: View) -> Writes:
    """End the attempt's reserve with what it has spent."""
    leaf, writes = done.leaf, Writes()
    view.books.settle(leaf.budget_limits, done.holder, done.spent or budget.NOTHING)
    if done.output is not None and budget.counts_output(leaf.budget_limits):
        writes[budget.usual_key(leaf.target)] = _encode(budget.usual_after(view.usual(leaf), done.output))
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
