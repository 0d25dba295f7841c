"""Budgets: what was spent and reserved in rolling windows, and whether one more call has room. It opens no store: a
ledger is a value, one per budget scope and window, and every function gives back a new one.

Room is taken before a call (``reserve``) and given back or turned into spending after it (``settle``), so that calls
side by side cannot pass a limit together. A spend counts for exactly its window or up to a sixtieth longer, never
shorter. Money is whole billionths of a US dollar: sums of it stay exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from .chat import Usage
from .config import Budget, Price
from .value import DAMAGED, Value

#: the rolling windows, in seconds; a month is 30 days
WINDOWS: Mapping[str, float] = {"minute": 60.0, "day": 86400.0, "month": 30 * 86400.0}
#: a budget's setting → (its window, what it counts, how many of those make one of the setting)
LIMITS: Mapping[str, tuple[str, str, int]] = {
    "requests_per_minute": ("minute", "requests", 1),
    "requests_per_day": ("day", "requests", 1),
    "tokens_per_minute": ("minute", "tokens", 1),
    "tokens_per_day": ("day", "tokens", 1),
    "usd_per_day": ("day", "nanos", 1_000_000_000),
    "usd_per_month": ("month", "nanos", 1_000_000_000),
}
PREFIX = "budget:"
#: a ledger keeps at most about so many sums per window, and so many reserves
BUCKETS, RESERVES = 60, 512
#: processes read the clock before they wait for the store: a time this little ahead is no clock set back
SLACK = 2.0
#: the output expected of a model nobody has heard yet, and how fast what is usual follows what comes
UNHEARD, FOLLOWS = 1000, 0.25


class Amount(Value, array_like=True):
    """What a call takes of a budget. ``nanos`` are billionths of a US dollar; ``estimated`` counts those of the tokens
    that no vendor has confirmed."""

    requests: int = 0
    tokens: int = 0
    nanos: int = 0
    estimated: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(
            requests=self.requests + other.requests,
            tokens=self.tokens + other.tokens,
            nanos=self.nanos + other.nanos,
            estimated=self.estimated + other.estimated,
        )


NOTHING = Amount()
ONE_REQUEST = Amount(requests=1)


class Bucket(Value, array_like=True):
    """Spending of one stretch of time. ``last`` is its latest: all of it counts until that has left the window."""

    last: float
    amount: Amount


class Reserve(Value, array_like=True):
    """Room taken by a request under way. ``until`` ends its lease: a process that was killed settles nothing."""

    holder: str
    since: float
    until: float
    amount: Amount


class Ledger(Value):
    spent: tuple[Bucket, ...] = ()
    reserved: tuple[Reserve, ...] = ()


EMPTY = Ledger()


class Lack(Value):
    """A budget without room for one call: the numbers a refusal names. ``until`` is when its window has freed enough;
    ``None`` where it never will."""

    scope: str
    window: str
    unit: str
    spent: int
    reserved: int
    limit: int
    need: int
    until: float | None = None


# --- one ledger -------------------------------------------------------------------------------------------------------


def current(ledger: Ledger, length: float, now: float) -> Ledger:
    """The ledger without what has left its window and without leases that have ended. What lies in the future (the
    clock was set back) begins now; the result must then be stored, or it would begin anew at every look."""
    spent = [_rebased(bucket, now) for bucket in ledger.spent if bucket.last + length > now]
    reserved = tuple(_begun(reserve, now) for reserve in ledger.reserved if reserve.until > now)
    width = length / BUCKETS
    folded: list[Bucket] = []
    for bucket in spent:
        _fold(folded, bucket, width)
    fresh = Ledger(spent=tuple(folded), reserved=reserved)
    return ledger if fresh == ledger else fresh


def _rebased(bucket: Bucket, now: float) -> Bucket:
    return bucket if bucket.last <= now + SLACK else Bucket(last=now, amount=bucket.amount)


def _begun(reserve: Reserve, now: float) -> Reserve:
    if reserve.since <= now + SLACK:
        return reserve
    return msgspec.structs.replace(reserve, since=now, until=now + (reserve.until - reserve.since))


def _fold(buckets: list[Bucket], new: Bucket, width: float) -> None:
    """Add to the last bucket, or begin another one where a new stretch of time has begun."""
    if buckets and new.last // width <= buckets[-1].last // width:
        old = buckets[-1]
        buckets[-1] = Bucket(last=max(old.last, new.last), amount=old.amount.plus(new.amount))
    else:
        buckets.append(new)


def reserve(ledger: Ledger, taken: Reserve, length: float) -> Ledger:
    """Take room. A request has one call under way at a time: a reserve of the same holder is replaced."""
    others = tuple(row for row in ledger.reserved if row.holder != taken.holder)
    if len(others) >= RESERVES:
        # The store's values stay small whatever happens: the lease that ends first is counted as spent.
        oldest = min(others, key=lambda row: row.until)
        others = tuple(row for row in others if row is not oldest)
        ledger = spend(ledger, oldest.amount, length=length, now=taken.since)
    return Ledger(spent=ledger.spent, reserved=(*others, taken))


def renew(ledger: Ledger, holder: str, until: float) -> Ledger:
    rows = tuple(
        msgspec.structs.replace(row, until=max(row.until, until)) if row.holder == holder else row
        for row in ledger.reserved
    )
    return Ledger(spent=ledger.spent, reserved=rows)


def release(ledger: Ledger, holder: str) -> Ledger:
    return Ledger(spent=ledger.spent, reserved=tuple(row for row in ledger.reserved if row.holder != holder))


def spend(ledger: Ledger, amount: Amount, *, length: float, now: float) -> Ledger:
    if amount == NOTHING:
        return ledger
    buckets = list(ledger.spent)
    _fold(buckets, Bucket(last=now, amount=amount), length / BUCKETS)
    return Ledger(spent=tuple(buckets), reserved=ledger.reserved)


def settle(ledger: Ledger, holder: str, amount: Amount, *, length: float, now: float) -> Ledger:
    """End a reserve with what the call has really cost; it counts even where the lease had ended before."""
    return spend(release(ledger, holder), amount, length=length, now=now)


def spent(ledger: Ledger, unit: str) -> int:
    return sum(getattr(bucket.amount, unit) for bucket in ledger.spent)


def reserved(ledger: Ledger, unit: str, *, holder: str = "") -> int:
    """What others than ``holder`` have reserved."""
    return sum(getattr(row.amount, unit) for row in ledger.reserved if row.holder != holder)


def frees(ledger: Ledger, length: float, *, unit: str, wanted: int, holder: str = "") -> float | None:
    """When so much has left the window at the latest, if nothing is added; ``None``: there is not so much in it."""
    ends = [(bucket.last + length, getattr(bucket.amount, unit)) for bucket in ledger.spent]
    ends += [(row.until, getattr(row.amount, unit)) for row in ledger.reserved if row.holder != holder]
    freed = 0
    for end, amount in sorted(ends):
        freed += amount
        if amount and freed >= wanted:
            return end
    return None


# --- budgets ----------------------------------------------------------------------------------------------------------


class Limit(Value):
    """One limit of a budget: so many of a unit in a window. ``key`` is where its ledger is stored; the limits of one
    scope and window share one."""

    scope: str
    window: str
    unit: str
    limit: int
    key: str
    length: float


Limits = tuple[Limit, ...]


def limits(budgets: Iterable[tuple[str, Budget]]) -> Limits:
    """Every limit of these (scope, budget) pairs."""
    return tuple(
        Limit(
            scope=scope,
            window=window,
            unit=unit,
            limit=round(getattr(budget, name) * scale),
            key=f"{PREFIX}{scope}|{window}",
            length=WINDOWS[window],
        )
        for scope, budget in budgets
        for name, (window, unit, scale) in LIMITS.items()
        if getattr(budget, name) is not None
    )


def keys(limits: Limits, target: str) -> tuple[str, ...]:
    """All that a call to this target reads and writes for these limits."""
    usual = (usual_key(target),) if counts_output(limits) else ()
    return (*dict.fromkeys(limit.key for limit in limits), *usual)


def counts_output(limits: Limits) -> bool:
    """Whether the length of an answer matters to any of these."""
    return any(limit.unit != "requests" for limit in limits)


def nanos(price: Price | None, usage: Usage) -> int:
    """What a call costs. US dollars per million tokens are thousands of nanos per token."""
    if price is None:
        return 0
    cached = min(usage.cached_tokens, usage.input_tokens)
    rate = price.input if price.cached is None else price.cached
    total = (usage.input_tokens - cached) * price.input + cached * rate + usage.output_tokens * price.output
    return round(total * 1000)


def cost(price: Price | None, usage: Usage) -> Amount:
    """What one call takes of its budgets."""
    tokens = usage.input_tokens + usage.output_tokens
    return Amount(requests=1, tokens=tokens, nanos=nanos(price, usage), estimated=tokens if usage.estimated else 0)


class Books:
    """The ledgers in one transaction's values, read as far as anybody asks. It lives for one step."""

    def __init__(self, values: Mapping[str, bytes], now: float) -> None:
        self._values, self._now = values, now
        self._seen: dict[str, Ledger] = {}
        self._stored: dict[str, Ledger] = {}

    def ledger(self, limit: Limit) -> Ledger:
        if limit.key not in self._seen:
            self._stored[limit.key] = read_ledger(self._values.get(limit.key))
            self._seen[limit.key] = current(self._stored[limit.key], limit.length, self._now)
        return self._seen[limit.key]

    def lack(self, limits: Limits, need: Amount, *, holder: str) -> Lack | None:
        """The limit without room that frees last; ``None``: all have room."""
        found = [lack for limit in limits if (lack := self._lack(limit, need, holder))]
        return max(found, key=lambda lack: float("inf") if lack.until is None else lack.until, default=None)

    def _lack(self, limit: Limit, need: Amount, holder: str) -> Lack | None:
        wanted = getattr(need, limit.unit)
        ledger = self.ledger(limit)
        gone, taken = spent(ledger, limit.unit), reserved(ledger, limit.unit, holder=holder)
        over = gone + taken + wanted - limit.limit
        if over <= 0:
            return None
        return Lack(
            scope=limit.scope,
            window=limit.window,
            unit=limit.unit,
            spent=gone,
            reserved=taken,
            limit=limit.limit,
            need=wanted,
            until=frees(ledger, limit.length, unit=limit.unit, wanted=over, holder=holder),
        )

    def reserve(self, limits: Limits, taken: Reserve) -> None:
        for limit in _rows(limits):
            self._seen[limit.key] = reserve(self.ledger(limit), taken, limit.length)

    def renew(self, limits: Limits, holder: str, until: float) -> None:
        for limit in _rows(limits):
            self._seen[limit.key] = renew(self.ledger(limit), holder, until)

    def settle(self, limits: Limits, holder: str, amount: Amount) -> None:
        for limit in _rows(limits):
            self._seen[limit.key] = settle(self.ledger(limit), holder, amount, length=limit.length, now=self._now)

    def writes(self) -> dict[str, bytes | None]:
        """The ledgers that have changed, those that a clock set back has changed among them."""
        return {
            key: msgspec.json.encode(ledger) if ledger != EMPTY else None
            for key, ledger in self._seen.items()
            if ledger != self._stored[key]
        }


def _rows(limits: Limits) -> Iterable[Limit]:
    """One limit per ledger: requests and tokens of a minute share theirs."""
    return {limit.key: limit for limit in limits}.values()


def read_ledger(raw: bytes | None) -> Ledger:
    """A stored ledger; what a damaged row says is worth nothing, not an error."""
    try:
        return msgspec.json.decode(raw, type=Ledger) if raw else EMPTY
    except DAMAGED:
        return EMPTY


# --- the usual output -------------------------------------------------------------------------------------------------


def usual_key(target: str) -> str:
    return f"usual:{target}"


def read_usual(raw: bytes | None) -> float | None:
    try:
        return msgspec.json.decode(raw, type=float) if raw else None
    except DAMAGED:
        return None


def usual_after(usual: float | None, output: int) -> float:
    """A mean in which the latest answers weigh most."""
    return float(output) if usual is None else round(usual + FOLLOWS * (output - usual), 1)


# --- words ------------------------------------------------------------------------------------------------------------


def quantity(amount: int, unit: str) -> str:
    """``10 requests``, ``1,200 tokens``, ``$0.012``."""
    if unit == "nanos":
        return dollars(amount)
    return f"{amount:,} {unit if amount != 1 else unit[:-1]}"


def dollars(amount: int) -> str:
    """At least cents, at most millionths."""
    whole, rest = divmod(round(amount / 1000), 1_000_000)
    digits = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"${whole:,}.{digits}"


def said(lack: Lack) -> str:
    """``budget provider:openai: 7 spent and 3 reserved of 10 requests per minute``."""
    gone, taken = (dollars(each) if lack.unit == "nanos" else f"{each:,}" for each in (lack.spent, lack.reserved))
    text = f"budget {lack.scope}: {gone} spent and {taken} reserved of {quantity(lack.limit, lack.unit)}"
    more = "" if lack.unit == "requests" else f", this one needs about {quantity(lack.need, lack.unit)}"
    return f"{text} per {lack.window}{more}"
