"""Whether a leaf can be tried now, and why not: the store's values for a plan, decoded, and the verdict on each leaf.
It picks nothing and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from . import budget, health
from .budget import Amount, Books
from .chat import Usage
from .config import Health
from .health import CLEAR, Standing
from .plan import Leaf
from .value import DAMAGED, Value

#: an estimate this far over a declared window certainly does not fit
CERTAIN = 0.7

#: how the reason ends where a model's price stands in the way of ``--max-cost``
UNPRICED = "no price is known"

Values = Mapping[str, bytes]
Writes = dict[str, bytes | None]

_standing = msgspec.json.Decoder(Standing)
encode = msgspec.json.Encoder().encode


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
    #: a person tries it out: it is asked though it sleeps in a window we guessed, also with a key that was refused
    testing: bool = False


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
                self.mended[key] = encode(found)
        return found

    def state(self, key: str) -> Any:
        try:
            return msgspec.json.decode(self._values.get(key, b""))
        except DAMAGED:
            return None

    def usual(self, leaf: Leaf) -> float | None:
        return budget.read_usual(self._values.get(budget.usual_key(leaf.target)))

    def stuck(self, key: str) -> Stuck | None:
        try:
            return _stuck.decode(self._values.get(key, b""))
        except DAMAGED:
            return None


def read_standing(raw: bytes) -> Standing:
    """A stored standing; what a newer or damaged row says is worth nothing, not an error."""
    try:
        return _standing.decode(raw)
    except DAMAGED:
        return CLEAR


class Verdict(Value):
    """Whether one leaf can be tried now. ``reason`` is empty when it can; ``guessed`` marks the only kind of exclusion
    a last resort may override; ``probe`` a leaf whose claim is out; ``hold`` one whose vendor said when; ``budget`` one
    that is well, but for which there is no room."""

    reason: str = ""
    until: float | None = None
    #: since when, and what its vendor said, where it sleeps
    since: float | None = None
    said: str = ""
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
        return budget_verdict(leaf, view, walk) or fitness(leaf, walk) or READY
    return (
        _credential_verdict(leaf, credential, walk, now)
        or _target_verdict(target, walk, now)
        or _probe_verdict(credential, walk, now)
        or _probe_verdict(target, walk, now)
        or hold_verdict(target, now)
        or budget_verdict(leaf, view, walk)
        or fitness(leaf, walk)
        or (READY_DEMOTED if not leaf.fixed and _demoted(credential, target, now) else READY)
    )


def _demoted(credential: Standing, target: Standing, now: float) -> bool:
    """Quota faults are the credential's, holds the target's: either demotes."""
    return health.demoted(target, now) or health.demoted(credential, now)


def _credential_verdict(leaf: Leaf, standing: Standing, walk: Walk, now: float) -> Verdict | None:
    window = health.sleeping(standing, now)
    changed = standing.key_tag is not None and walk.tags.get(leaf.credential, standing.key_tag) != standing.key_tag
    if window and not (window.cause == "auth" and changed) and not (walk.testing and not window.stated):
        until = now + window.left(now)
        reason = f"credential window ({window.cause})"
        return Verdict(reason=reason, until=until, since=window.start, said=window.said)
    return None


def _target_verdict(standing: Standing, walk: Walk, now: float) -> Verdict | None:
    window = health.sleeping(standing, now)
    if window is None or (walk.probing is not None and health.due_for_probe(standing, walk.probing, now)):
        return None
    if walk.testing and not window.stated:
        return None
    until = now + window.left(now)
    reason = f"target window ({window.cause})"
    return Verdict(reason=reason, until=until, since=window.start, said=window.said, guessed=not window.stated)


def _probe_verdict(standing: Standing, walk: Walk, now: float) -> Verdict | None:
    claim = health.claimed(standing, now, walk.id)
    return Verdict(reason="its probe is out", until=claim.until, probe=True) if claim else None


def hold_verdict(standing: Standing, now: float) -> Verdict | None:
    hold = health.held(standing, now)
    return Verdict(reason="hold", until=now + hold.left(now), hold=True) if hold else None


def budget_verdict(leaf: Leaf, view: View, walk: Walk) -> Verdict | None:
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
        return f"{limit}: {UNPRICED}"
    return f"{limit}: would cost about {budget.dollars(need.nanos)}" if need.nanos > most else ""


def expected(leaf: Leaf, view: View, walk: Walk) -> Amount:
    """What a call is reserved with: the prompt by its length, the answer by what the caller allows it or by what this
    model's answers usually take."""
    usual = walk.output or view.usual(leaf) or float(budget.UNHEARD)
    output = min(round(usual), leaf.info.output or round(usual))
    return budget.cost(leaf.info.price, Usage(input_tokens=walk.tokens, output_tokens=output))


def fitness(leaf: Leaf, walk: Walk) -> Verdict | None:
    context = leaf.info.context
    if walk.larger_than is not None and not (context or 0) > walk.larger_than and (context or walk.larger_than):
        return Verdict(reason="window too small")
    if context is not None and walk.tokens * CERTAIN > context:
        return Verdict(reason="window too small")
    lacking = [need for need in sorted(walk.needs) if getattr(leaf.info, need) is False]
    return Verdict(reason=f"cannot take {lacking[0]}") if lacking else None
