"""Windows, the ladder, claims and holds of one target or credential; durations as text. It picks nothing.

Times are absolute wall-clock seconds. Every function takes ``now`` and gives back a new value.
"""

from __future__ import annotations

import math

import msgspec

from .config import Health
from .faults import Fault
from .value import Value

#: a demotion needs this many quota faults within this many seconds
QUOTA_FAULTS, QUOTA_SPAN = 3, 4 * 3600.0
#: hints are clamped to this range (the upper end also by ``max_hint``)
HINT_MIN, HINT_MAX = 1.0, 24 * 3600.0
#: what a claim's lease adds to connect + first output
LEASE_SLACK = 5.0
#: a time this little ahead of another process's clock is no clock set back
SLACK = 2.0
#: so many characters of a vendor's words are kept with a window
SAID = 120


class Window(Value):
    """A time in which a target or credential is left out. ``stated`` by the vendor, else guessed by us."""

    start: float
    end: float
    stated: bool = False
    #: the fault class or other cause that began it, and the vendor's words for it, shortened
    cause: str = ""
    said: str = ""

    @property
    def length(self) -> float:
        return self.end - self.start

    def left(self, now: float) -> float:
        """Seconds left; usable again at exactly ``end``. A clock set back never shows more than the whole length."""
        return max(0.0, min(self.end - now, self.length))


class Claim(Value):
    """The right to be the one request let through after a guessed window. ``holder`` is a request id."""

    holder: str
    since: float
    until: float


class Hold(Value):
    """A vendor's announcement that a limit is used up. ``demotes``: nearly used up; it sorts, it does not exclude."""

    start: float
    end: float
    demotes: bool = False

    def left(self, now: float) -> float:
        return max(0.0, min(self.end - now, self.end - self.start))


class Standing(Value):
    """All that is remembered of one target or credential. ``rung`` is the number of incidents since its last clean
    finish; ``streak`` counts failures that have not yet begun a window (setting ``failures``)."""

    rung: int = 0
    streak: int = 0
    window: Window | None = None
    claim: Claim | None = None
    hold: Hold | None = None
    quota_faults: tuple[float, ...] = ()
    last_failure: float = 0.0
    last_success: float = 0.0
    last_probe: float = 0.0
    #: the tag of the key that was refused: a changed key ends the window at once
    key_tag: str | None = None


CLEAR = Standing()


def ladder(rung: int, settings: Health) -> float:
    """The window of the n-th incident, in seconds: ``first`` × ``factor`` ^ (n − 1), at most ``cap``."""
    if settings.first <= 0 or rung < 1:
        return 0.0
    # The exponent is clamped before the power: 2.0 ** 1024 overflows, and nothing past the cap matters.
    reach = settings.cap / settings.first
    most = math.ceil(math.log(reach, settings.factor)) if settings.factor > 1 and reach > 1 else 0
    return min(settings.cap, settings.first * settings.factor ** min(rung - 1, most))


def clamp_hint(hint: float | None, settings: Health) -> float | None:
    """What a stated wait is worth: nothing for 0 or garbage, else 1 s … 24 h and at most ``max_hint``."""
    if hint is None or not hint > 0:
        return None
    return max(HINT_MIN, min(hint, settings.max_hint, HINT_MAX))


def rebased(standing: Standing, now: float) -> Standing:
    """The same standing under a clock that was set back: a window or hold that begins in the future begins now."""
    window, hold = standing.window, standing.hold
    if window and window.start > now:
        standing = msgspec.structs.replace(
            standing, window=msgspec.structs.replace(window, start=now, end=now + window.length)
        )
    if hold and hold.start > now:
        length = hold.end - hold.start
        standing = msgspec.structs.replace(standing, hold=msgspec.structs.replace(hold, start=now, end=now + length))
    return standing


def ahead(standing: Standing, now: float) -> bool:
    """Whether something in it begins so far in the future that the clock must have been set back. A little is none:
    processes read the clock before they wait for the store."""
    return any(span.start > now + SLACK for span in (standing.window, standing.hold) if span)


def sleeping(standing: Standing, now: float) -> Window | None:
    window = standing.window
    return window if window and now < window.end and window.left(now) > 0 else None


def half_open(standing: Standing, now: float) -> bool:
    """A guessed window has ended and nothing has proved the target well since: one request at a time may try."""
    window = standing.window
    return window is not None and not window.stated and now >= window.end


def claimed(standing: Standing, now: float, holder: str) -> Claim | None:
    """The live claim of somebody else, if there is one."""
    claim = standing.claim
    # A claim from the future (the clock was set back) has lost its meaning; one of this moment, taken between another's
    # look at the clock and its look at the store, has not.
    if claim is None or claim.holder == holder or claim.since > now + LEASE_SLACK:
        return None
    return claim if now < claim.until else None


def demoted(standing: Standing, now: float) -> bool:
    recent = [when for when in standing.quota_faults if now - QUOTA_SPAN < when <= now]
    nearly = standing.hold is not None and standing.hold.demotes and standing.hold.left(now) > 0
    return len(recent) >= QUOTA_FAULTS or nearly


def held(standing: Standing, now: float) -> Hold | None:
    hold = standing.hold
    return hold if hold and not hold.demotes and hold.left(now) > 0 else None


def forgotten(standing: Standing, settings: Health, now: float) -> Standing:
    """The ladder starts afresh after ``forget_after`` without a failure."""
    if standing.rung and now - standing.last_failure >= settings.forget_after:
        return msgspec.structs.replace(standing, rung=0, streak=0)
    return standing


class Failure(Value):
    """One target given up: the fault, when its attempt began, and who would hold its claim. ``probe``: it was asked
    alongside, inside its window."""

    fault: Fault
    started: float
    holder: str
    key_tag: str | None = None
    probe: bool = False


def due_for_probe(standing: Standing, settings: Health, now: float) -> bool:
    """Whether a target may be probed alongside: it sleeps in a guessed window, and neither a failure nor a probe nor a
    live claim is younger than ``probe_every``."""
    window = sleeping(standing, now)
    if not settings.probe or window is None or window.stated or claimed(standing, now, ""):
        return False
    return now - max(standing.last_failure, standing.last_probe) >= settings.probe_every


def fail_target(standing: Standing, failure: Failure, settings: Health, now: float) -> Standing:
    """What a failure that scopes to the target does to it. One incident costs one rung, however many requests meet it:
    only an attempt that began after the last window had ended, or the claim's holder, climbs."""
    standing = forgotten(standing, settings, now)
    mine = standing.claim is not None and standing.claim.holder == failure.holder
    same_incident = _known(standing, failure) and (failure.probe or not mine)
    standing = _note(standing, failure, now)
    if settings.first <= 0:
        return standing
    hint = clamp_hint(failure.fault.hint, settings)
    fixed = settings.quota if failure.fault.kind == "quota" else failure.fault.row.window
    if fixed is not None or hint is not None:
        return _begin(standing, now, length=hint or fixed or 0.0, stated=hint is not None, fault=failure.fault)
    if not same_incident:
        standing = msgspec.structs.replace(standing, streak=standing.streak + 1)
        # A half-open target has already earned its window once: its next failure needs no streak.
        if standing.streak < settings.failures and not mine:
            return standing
        standing = msgspec.structs.replace(standing, rung=standing.rung + 1, streak=0)
    return _begin(standing, now, length=ladder(max(standing.rung, 1), settings), fault=failure.fault)


def fail_credential(standing: Standing, failure: Failure, settings: Health, now: float) -> Standing:
    """What a failure that scopes to the credential does to it: the stated reset, else the setting of its class; the
    ladder where the class has none (an account's rate limit)."""
    guess = {"auth": settings.auth, "quota": settings.quota}.get(failure.fault.kind)
    if guess is None:
        return fail_target(standing, failure, settings, now)
    standing = msgspec.structs.replace(_note(standing, failure, now), key_tag=failure.key_tag)
    hint = clamp_hint(failure.fault.hint, settings)
    return _begin(standing, now, length=hint or guess, stated=hint is not None, fault=failure.fault)


def _known(standing: Standing, failure: Failure) -> bool:
    """Whether the attempt began before the last window had ended: it met an incident that has been counted."""
    return standing.window is not None and failure.started < standing.window.end


def _note(standing: Standing, failure: Failure, now: float) -> Standing:
    """Remember that it failed, and give the claim back if the failure was its holder's."""
    faults = standing.quota_faults
    if failure.fault.kind == "quota" and not _known(standing, failure):
        faults = (*faults, now)[-QUOTA_FAULTS:]
    return msgspec.structs.replace(released(standing, failure.holder), last_failure=now, quota_faults=faults)


def _begin(standing: Standing, now: float, *, length: float, fault: Fault, stated: bool = False) -> Standing:
    """Begin a window, or lengthen the one that runs: a failure never shortens one."""
    old = standing.window
    if length <= 0:
        return standing
    if old is None or old.end <= now:
        window = Window(start=now, end=now + length, stated=stated, cause=fault.kind, said=shortened(fault))
        return msgspec.structs.replace(standing, window=window)
    if now + length <= old.end:
        return standing
    # The start stays: a success of an attempt older than the first failure must not end the lengthened window. What a
    # vendor has stated stays stated: nothing of ours may be let through before its time.
    stated = stated or old.stated
    window = Window(start=old.start, end=now + length, stated=stated, cause=fault.kind, said=shortened(fault))
    return msgspec.structs.replace(standing, window=window)


def shortened(fault: Fault) -> str:
    """What a vendor said of a failure, short enough to be kept: ``503 overloaded``; empty where it said nothing."""
    status = str(fault.status) if fault.status and fault.status >= 300 else ""
    words = " ".join(fault.message.split())
    words = words.removeprefix(f"HTTP {status}").strip() if status else words
    told = f"{status} {words}".strip() if words else ""
    return told if len(told) <= SAID else told[: SAID - 1] + "…"


def announced(standing: Standing, hold: Hold | None, now: float) -> Standing:
    """What an answer said of its limits, at its beginning ``now``, replaces what earlier ones said; ``None``, a healthy
    answer, lifts a hold. An answer that began earlier but ends later knows less than what is remembered."""
    if hold is None and (standing.hold is None or standing.hold.end <= now):
        return standing
    if standing.hold is not None and standing.hold.start > now:
        return standing
    return msgspec.structs.replace(standing, hold=hold)


def answered(standing: Standing, *, started: float, holder: str, now: float) -> Standing:
    """First output has come: it frees the holder's claim and ends a guessed window that began before the attempt."""
    if standing.claim and standing.claim.holder == holder:
        standing = msgspec.structs.replace(standing, claim=None)
    window = standing.window
    if window and started >= window.start and not (window.stated and now < window.end):
        standing = msgspec.structs.replace(standing, window=None)
    return standing


def finished(standing: Standing, *, started: float, holder: str, now: float) -> Standing:
    """A clean finish: the ladder begins anew, unless a window began while this attempt was under way."""
    standing = answered(standing, started=started, holder=holder, now=now)
    if standing.window and started < standing.window.start:
        return msgspec.structs.replace(standing, last_success=now)
    return msgspec.structs.replace(standing, rung=0, streak=0, last_success=now)


def released(standing: Standing, holder: str) -> Standing:
    """Give the claim back, if it is still this holder's: a late release frees nobody else's."""
    if standing.claim and standing.claim.holder == holder:
        return msgspec.structs.replace(standing, claim=None)
    return standing


def duration(seconds: float) -> str:
    """A length of time as people read it: ``20ms``, ``45.2s``, ``30s``, ``1m0s``, ``1h5m``. Rounds half up."""
    if not math.isfinite(seconds):
        return "endless"
    if 0 < seconds < 0.05:
        # As tenths of a second it would be none at all.
        return f"{max(1, math.floor(seconds * 1000 + 0.5))}ms"
    if seconds < 60:
        tenths = math.floor(seconds * 10 + 0.5)
        return f"{tenths // 10}s" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}s"
    whole = math.floor(seconds + 0.5)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest}s"
    return f"{minutes // 60}h{minutes % 60}m"
