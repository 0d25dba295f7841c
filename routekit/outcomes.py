"""What the end of an attempt or request becomes: its record, or the one error it raises. It settles nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from .core import budget, words
from .core import judge as judging
from .core.chat import Delta, Event, Finish, Opened, Request, Usage
from .core.config import Provider
from .core.decide import Choice, Exhausted, Waiting
from .core.faults import FAULTS, Fault
from .core.health import clamp_hint, duration
from .core.plan import Leaf, Plan
from .core.record import Attempt, Failed, GroupDecision, Outcome, RequestRecord, Skip
from .core.value import Value
from .credentials import Secret
from .errors import (
    EX_BUDGET,
    EX_CONFIG,
    EX_CREDENTIAL,
    EX_DATA,
    EX_INTERRUPTED,
    EX_IO,
    EX_LATER,
    EX_PIPE,
    EX_UNAVAILABLE,
    BudgetExceeded,
    ConfigError,
    CredentialError,
    RequestRefused,
    RouteExhausted,
    RoutekitError,
    TruncatedAnswer,
)


class Clock(Protocol):
    def now(self) -> float: ...

    def new_key(self, credential: str) -> str: ...


class Ordered(Protocol):
    """What a record repeats of an order (``dispatch.Order``)."""

    @property
    def request(self) -> Request: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def surface(self) -> str: ...
    @property
    def session(self) -> str | None: ...
    @property
    def conversation(self) -> str | None: ...
    @property
    def probe(self) -> bool: ...


class Run(Protocol):
    """What is read of a request under way (``dispatch.Dispatch``)."""

    id: str
    began: float
    plan: Plan
    attempts: list[Attempt]
    decisions: list[GroupDecision]
    skipped: dict[str, Skip]
    notes: list[str]
    first: Choice | None
    refused: CredentialError | None
    shown: bool
    partial: str

    @property
    def engine(self) -> Clock: ...
    @property
    def order(self) -> Ordered: ...


class Live(Value):
    """An attempt under way: what is fixed from its start."""

    choice: Choice
    leaf: Leaf
    provider: Provider
    secret: Secret | None = None
    headers: Mapping[str, str] = {}


class Cut(Exception):
    """A limit of ours ended the attempt: ``first_output``, ``stall``, ``deadline``, or the ``caller``'s own."""

    def __init__(self, limit: str, seconds: float) -> None:
        super().__init__(limit)
        self.limit, self.seconds = limit, seconds


class Tally:
    """What one attempt has brought so far."""

    def __init__(self, *, started: float) -> None:
        self.started = started
        self.opened_at: float | None = None
        self.first_output: float | None = None
        self.deltas: list[Delta] = []
        self.finish: Finish | None = None
        self.opened: Opened | None = None

    @property
    def spoke(self) -> bool:
        return self.first_output is not None

    @property
    def finished(self) -> Finish:
        return self.finish or Finish()

    def take(self, event: Event) -> None:
        if isinstance(event, Delta):
            self.deltas.append(event)
        elif isinstance(event, Finish):
            self.finish = event
        else:
            self.opened = event

    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas if delta.kind in ("text", "refusal"))

    def usage(self, request: Request) -> Usage:
        """The vendor's counts, or an estimate marked as one."""
        if self.finish and self.finish.usage:
            return self.finish.usage
        said = sum(len(delta.text) for delta in self.deltas)
        return Usage(input_tokens=request.characters() // 4, output_tokens=(said + 3) // 4, estimated=True)


# --- what it took of its budgets --------------------------------------------------------------------------------------

#: the options by which callers bound an answer
MOST_OUTPUT = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def most_output(request: Request) -> int | None:
    """The most tokens of answer the caller allows, where that is said."""
    said = [request.options.get(name) for name in MOST_OUTPUT]
    return min((count for count in said if isinstance(count, int) and count > 0), default=None)


def spent(run: Run, live: Live, tally: Tally, fault: Fault | None = None) -> budget.Amount | None:
    """What an attempt took of the budgets on its path: the vendor's counts, else an estimate of what was sent and had
    come. ``None`` where there is no budget."""
    if not live.leaf.budgets:
        return None
    if fault is not None and not fault.delivered:
        return budget.NOTHING
    refused = fault is not None and fault.answered and not tally.spoke
    unheard = fault is None and tally.opened is None and not tally.spoke and tally.finish is None
    if refused or unheard:
        return budget.ONE_REQUEST
    return budget.cost(live.leaf.info.price, tally.usage(run.order.request))


def said(tally: Tally) -> int | None:
    """The length of a whole answer by the vendor's count."""
    usage = tally.finished.usage
    return usage.output_tokens if usage is not None else None


#: the error class of an exit code; any other is an exhausted route
CLASSES: dict[int, type[RoutekitError]] = {
    EX_DATA: RequestRefused,
    EX_IO: TruncatedAnswer,
    EX_CREDENTIAL: CredentialError,
    EX_CONFIG: ConfigError,
    EX_BUDGET: BudgetExceeded,
}


# --- attempts ---------------------------------------------------------------------------------------------------------


def _attempt(run: Run, live: Live, tally: Tally, *, outcome: Outcome) -> Attempt:
    leaf = live.leaf
    if run.order.probe and outcome != "cancelled":
        outcome = "probe"
    return Attempt(
        target=leaf.label,
        wire_id=leaf.wire_id,
        provider=leaf.provider,
        credential=leaf.credential,
        variant=leaf.variant,
        start=tally.started,
        first_output=tally.first_output,
        end=run.engine.now(),
        outcome=outcome,
        request_id=tally.opened.request_id if tally.opened else None,
        last_resort=live.choice.last_resort,
    )


def success(run: Run, live: Live, tally: Tally) -> Attempt:
    finish, usage = tally.finished, tally.usage(run.order.request)
    base = _attempt(run, live, tally, outcome="success")
    return msgspec.structs.replace(
        base,
        usage=usage,
        cost=cost(live.leaf, usage),
        vendor_model=finish.model,
        request_id=finish.request_id or base.request_id,
        dropped=finish.dropped,
    )


def failure(run: Run, live: Live, fault: Fault, *, tally: Tally, window: float | None) -> Attempt:
    outcome: Outcome = "truncated" if fault.kind == "truncated" else "failed"
    usage = tally.usage(run.order.request) if tally.spoke else None
    base = _attempt(run, live, tally, outcome=outcome)
    return msgspec.structs.replace(
        base,
        kind=fault.kind,
        scope=fault.hits,
        status=fault.status,
        message=fault.message or None,
        retry_after=fault.hint,
        hint_used=clamp_hint(fault.hint, live.provider.health),
        window_s=window,
        usage=usage,
        cost=cost(live.leaf, usage) if usage else None,
        request_id=fault.request_id or base.request_id,
    )


def cancelled(run: Run, live: Live, tally: Tally) -> Attempt:
    usage = tally.usage(run.order.request) if tally.spoke else None
    base = _attempt(run, live, tally, outcome="cancelled")
    return msgspec.structs.replace(base, kind="cancelled", scope="nobody", usage=usage)


def cost(leaf: Leaf, usage: Usage) -> str | None:
    """US dollars as exact decimal text; ``None`` where no price is known."""
    price = leaf.info.price
    if price is None:
        return None
    from decimal import Decimal

    def rate(value: float) -> Decimal:
        return Decimal(str(value)) / 1_000_000

    cached_rate = price.input if price.cached is None else price.cached
    fresh = max(0, usage.input_tokens - usage.cached_tokens)
    total = (
        fresh * rate(price.input) + usage.cached_tokens * rate(cached_rate) + usage.output_tokens * rate(price.output)
    )
    return format(total.quantize(Decimal("0.000001")).normalize(), "f")


def cut(limit: Cut, *, spoke: bool) -> Fault:
    """The fault of an attempt that one of our own limits ended."""
    seconds = duration(limit.seconds)
    said = {
        "first_output": f"no output within {seconds}",
        "stall": f"silent for {seconds}",
    }
    return Fault(kind="truncated" if spoke else "timeout", message=said[limit.limit])


def adapted(live: Live, parameter: str) -> str:
    """What is said of a target that refused a parameter and was asked once more."""
    other = OTHER_NAME.get(parameter) if live.provider.api == "openai-chat" else None
    if other:
        return f"{live.leaf.label} knows no {parameter}: asked again with {other}"
    what = REFUSED.get(parameter, parameter)
    return f"{live.leaf.label} refused {what}: asked again without"


#: the two names of one setting
OTHER_NAME: Mapping[str, str] = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
#: what is really left out, where the parameter's name does not say it
REFUSED: Mapping[str, str] = {
    "thinking": "the thinking of another model or account",
    "developer": "the developer role",
}


# --- records ----------------------------------------------------------------------------------------------------------


def _record(run: Run, *, exit_code: int, error: Failed | None = None) -> RequestRecord:
    return RequestRecord(
        id=run.id,
        time=run.began,
        surface=run.order.surface,
        reference=run.plan.reference,
        session=run.order.session,
        conversation=run.order.conversation,
        duration_s=max(0.0, run.engine.now() - run.began),
        exit_code=exit_code,
        error=error,
        decisions=tuple(run.decisions),
        attempts=tuple(run.attempts),
        skipped=tuple(run.skipped.values()),
        notes=(*run.plan.notes, *run.notes),
    )


def served(run: Run, leaf: Leaf, attempt: Attempt, tally: Tally) -> RequestRecord:
    """The record of a request that was answered. Anything but the route's first choice comes with the reason."""
    notes = [*_strangers(leaf, attempt), *_empty(tally)]
    run.notes += notes
    first, why_not = _first_choice(run, leaf)
    return msgspec.structs.replace(
        _record(run, exit_code=0),
        served_by=leaf.label,
        first_choice=first,
        why_not=why_not,
        finish_reason=tally.finished.reason,
        usage=attempt.usage,
        cost=attempt.cost,
    )


def _first_choice(run: Run, leaf: Leaf) -> tuple[str, str | None]:
    """(what the route would have liked to serve, why it did not)."""
    first = run.first
    if first is None:
        return leaf.label, None
    wanted = run.plan.leaves[first.leaf if first.preferred is None else first.preferred]
    if wanted.label == leaf.label:
        return leaf.label, None
    failures = [row for row in run.attempts if row.target == wanted.label and row.outcome != "success"]
    if failures:
        return wanted.label, words.cause(failures[-1])
    skip = run.skipped.get(wanted.label)
    return wanted.label, why_not(skip, run.engine.now()) if skip else "not ready"


def why_not(skip: Skip, now: float) -> str:
    return words.why_skipped(skip.reason, skip.said) + words.back_in(skip.until, now)


def _strangers(leaf: Leaf, attempt: Attempt) -> list[str]:
    """A vendor that answers with another model than asked is noted."""
    return [f"{leaf.label} answered as {attempt.stranger}"] if attempt.stranger else []


def _empty(tally: Tally) -> list[str]:
    spoken = any(delta.text or delta.kind == "tool" for delta in tally.deltas)
    return [] if spoken else [f"the answer is empty (finish reason: {tally.finished.reason})"]


def failed(run: Run, error: RoutekitError) -> RequestRecord:
    return _record(
        run,
        exit_code=error.exit_code,
        error=Failed(kind=error.kind, message=error.message, exit_code=error.exit_code),
    )


def interrupted(run: Run, *, reader_gone: bool) -> RequestRecord:
    message, code = ("reader closed", EX_PIPE) if reader_gone else ("interrupted", EX_INTERRUPTED)
    return _record(run, exit_code=code, error=Failed(kind="cancelled", message=message, exit_code=code))


# --- errors -----------------------------------------------------------------------------------------------------------


def waiting(outcome: Waiting, now: float) -> str:
    left = duration(max(0.0, outcome.until - now))
    if outcome.cause == "probe":
        return f"{outcome.target} is being tried by another request; waiting for its verdict, at most {left}"
    return f"everyone is asleep; waiting {left} for {outcome.target}"


def last_resort(plan: Plan, leaf: Leaf) -> str:
    """Said before one is asked that sleeps, since nobody else is awake either."""
    if len(plan.leaves) == 1:
        return f"{leaf.label} is asleep; trying it all the same"
    return f"everyone is asleep; trying {leaf.label} all the same"


def exhausted(run: Run, outcome: Exhausted) -> RoutekitError:
    """Nobody is left to ask."""
    for skip in outcome.skipped:
        run.skipped[skip.target] = skip
    if run.attempts:
        return _all_failed(run, outcome)
    refused = _refused_alone(outcome.skipped)
    code = _code_of_skips(outcome.skipped, wakes=None if refused else outcome.wakes)
    if code == EX_BUDGET:
        return _no_room(run, outcome)
    if refused and code == EX_CREDENTIAL:
        return _keys_refused(run, outcome.skipped, refused)
    if run.refused is not None and outcome.wakes is None:
        return no_credential(run, run.refused, alone=len(run.plan.leaves) == 1)
    left = outcome.wakes - run.engine.now() if outcome.wakes is not None else None
    tail = words.sleepers(outcome.sleepers)
    said = f"{run.plan.reference}: no candidate is ready" + (f"; {tail}" if tail else "")
    now = run.engine.now()
    return _build(
        run,
        code,
        said,
        details=[words.skip_line(skip, now) for skip in outcome.skipped],
        retry_after=left,
        hints=["routekit health list" if code == EX_LATER else f"routekit routes preview {run.plan.reference}"],
    )


def _unpriced(run: Run, first: Skip, others: Sequence[str]) -> RoutekitError:
    leaf = next(leaf for leaf in run.plan.leaves if leaf.label == first.target)
    return _build(
        run,
        EX_BUDGET,
        f"{run.plan.reference}: no price is known of {leaf.target}, so --max-cost cannot be kept; "
        f'set providers.{leaf.provider}.model_info."{leaf.wire_id}".price',
        details=others,
        hints=[f"routekit models refresh {leaf.provider}", "routekit config edit"],
    )


def _no_room(run: Run, outcome: Exhausted) -> RoutekitError:
    """Budgets alone stand in the way: the first one's numbers are the headline."""
    now = run.engine.now()
    first = next(skip for skip in outcome.skipped if skip.reason.startswith("budget"))
    back = f"; frees in {duration(first.until - now)}" if first.until is not None else ""
    others = [words.skip_line(skip, now) for skip in outcome.skipped] if len(outcome.skipped) > 1 else []
    if first.reason.endswith(judging.UNPRICED):
        return _unpriced(run, first, others)
    return _build(
        run,
        EX_BUDGET,
        f"{run.plan.reference}: no room in {first.reason}{back}",
        details=others,
        retry_after=outcome.frees - now if outcome.frees is not None else None,
        hints=["routekit budget list"],
    )


#: the recorded reason of those whose key its vendor has refused
REFUSED_KEY = "credential window (auth)"


def _refused_alone(skipped: Sequence[Skip]) -> list[Skip]:
    """Those that sleep because their key was refused; none where anybody sleeps for another reason. Waiting for them
    does not help."""
    asleep = [skip for skip in skipped if skip.until is not None and not skip.reason.startswith("budget")]
    return asleep if all(skip.reason == REFUSED_KEY for skip in asleep) else []


def _keys_refused(run: Run, skipped: Sequence[Skip], refused: Sequence[Skip]) -> RoutekitError:
    """Nobody was asked: the keys there are were refused before, and time does not mend them."""
    now = run.engine.now()
    leaves = {leaf.label: leaf for leaf in run.plan.leaves}
    owners = {leaves[skip.target].credential: skip for skip in reversed(refused)}
    told = [
        f"the key of {leaves[skip.target].provider} was refused {words.ago(skip.since or now, now)}"
        + (f" ({skip.said})" if skip.said else "")
        for skip in reversed(owners.values())
    ]
    others = [words.skip_line(skip, now) for skip in skipped if skip not in refused]
    return CredentialError(
        f"{run.plan.reference}: {'; '.join(told)}; waiting does not help, a new key does",
        state="refused",
        details=others,
        hints=[hint for hint in (run.engine.new_key(credential) for credential in reversed(owners)) if hint],
        skipped=tuple(run.skipped.values()),
    )


def no_credential(run: Run, refused: CredentialError, *, alone: bool) -> RoutekitError:
    """No key, no attempt. ``alone``: nobody else was to be asked anyway."""
    if alone:
        message = f"{run.plan.reference}: {refused.message}"
        details: list[str] = []
    else:
        message = f"{run.plan.reference}: no candidate has a usable credential; {refused.message}"
        details = [words.skip_line(skip, run.engine.now()) for skip in run.skipped.values()]
    several = not alone and len({leaf.credential for leaf in run.plan.leaves}) > 1
    return CredentialError(
        message,
        state=refused.state,
        hints=[CHECK_KEYS] if several else refused.hints,
        details=[*refused.details, *details],
        skipped=tuple(run.skipped.values()),
    )


def gave_up(run: Run, fault: Fault) -> RoutekitError:
    """The walk ends here, whoever is left: the fault's own class says so, or the caller does, or output was shown."""
    if run.shown and fault.row.exit_code != EX_DATA:
        # Whatever broke it: the reader holds a cut answer, and must be told so.
        last = run.attempts[-1]
        why = words.cause(last).removeprefix(words.KINDS["truncated"]).removeprefix(":").strip()
        of = f"the answer of {last.target}" if last.target != run.plan.reference else "its answer"
        tail = f" {why}" if why.startswith("(") else f": {why}" if why else ""
        return _build(run, EX_IO, f"{run.plan.reference}: {of} broke off{tail}", hints=[_why(run)])
    return _all_failed(run, None)


def _all_failed(run: Run, outcome: Exhausted | None) -> RoutekitError:
    rows = [row for row in run.attempts if row.outcome != "cancelled"]
    codes = {FAULTS[row.kind or "unknown"].exit_code for row in rows}
    code = codes.pop() if len(codes) == 1 else EX_UNAVAILABLE
    left = None
    skipped = [skip for skip in run.skipped.values() if skip.target not in {row.target for row in rows}]
    now = run.engine.now()
    ends = [row.window_s for row in rows if row.window_s] + [skip.until - now for skip in skipped if skip.until]
    if ends:
        left = min(ends)
    return _build(
        run,
        code,
        _headline(run.plan.reference, rows, skipped=skipped, now=now),
        details=_story(rows, skipped, now),
        retry_after=left,
        hints=_hints(run, rows, code),
    )


def _headline(reference: str, rows: Sequence[Attempt], *, skipped: Sequence[Skip], now: float) -> str:
    if len({row.target for row in rows}) == 1 and not skipped:
        target = rows[0].target
        # Asked for by its own name, a target need not be named twice.
        asked = "" if reference == target else f"{reference}: "
        return f"{asked}{target} {_verb(rows[-1])}{words.run_cause(words.runs(rows)[-1])}"
    parts = [f"{words.plural(len({row.target for row in rows}), 'candidate')} failed"]
    asleep = [skip.until - now for skip in skipped if skip.until is not None]
    if asleep:
        parts.append(f"{len(asleep)} cooling (back in {duration(min(asleep))})")
    others = len(skipped) - len(asleep)
    if others:
        parts.append(f"{others} passed over")
    return f"{reference}: {', '.join(parts)}"


def _verb(attempt: Attempt) -> str:
    return "refused: " if attempt.kind in ("content_filter", "request", "context", "unsupported") else "failed: "


def _story(rows: Sequence[Attempt], skipped: Sequence[Skip], now: float) -> list[str]:
    """All attempts in order, the first named as first cause, then who was passed over. What the headline has said
    alone needs none."""
    lines = words.attempt_lines(rows)
    if len(lines) == 1 and not skipped:
        return []
    if len(lines) > 1:
        lines[0] = f"first cause: {lines[0]}"
    return lines + [words.skip_line(skip, now) for skip in skipped]


#: what helps where most candidates have no key that can be used: all are looked at, each with its own way out
CHECK_KEYS = "routekit keys check"

#: the command that helps, by the first cause's class; ``{provider}`` and ``{target}`` are filled in
HELP: dict[str, str] = {
    "quota": "routekit health list",
    "rate_limit": "routekit health list",
    "setup": "routekit config check",
    "model_gone": "routekit models list",
}


def _hints(run: Run, rows: Sequence[Attempt], code: int) -> list[str]:
    first = rows[0]
    known = HELP.get(first.kind or "")
    keyless = [skip for skip in run.skipped.values() if skip.reason.startswith("credential ") and skip.until is None]
    if 2 * len(keyless) > len(run.plan.leaves):
        return [CHECK_KEYS]
    if first.kind == "auth":
        renewed = run.engine.new_key(first.credential)
        return [*([renewed] if renewed else []), f"routekit providers test {first.provider}"]
    if known:
        return [known.format(provider=first.provider, target=first.target)]
    return [] if code == EX_DATA else [_why(run)]


def _why(run: Run) -> str:
    return f"routekit why {run.id}"


def _code_of_skips(skipped: Sequence[Skip], *, wakes: float | None) -> int:
    """None was tried: something wakes, else a budget, else a credential, else what the request needs nobody has."""
    if wakes is not None:
        return EX_LATER
    reasons = [skip.reason for skip in skipped]
    if any(reason.startswith("budget") for reason in reasons):
        return EX_BUDGET
    if any(reason.startswith("credential") for reason in reasons):
        return EX_CREDENTIAL
    return EX_DATA if reasons else EX_UNAVAILABLE


def out_of_time(run: Run, cut: Cut) -> RoutekitError:
    """The caller's limit or the request's ended an attempt."""
    if cut.limit == "caller":
        return caller_timeout(run)
    rows = [row for row in run.attempts if row.outcome != "cancelled"]
    return RouteExhausted(
        f"{run.plan.reference}: no output within the request's deadline of {duration(cut.seconds)}",
        kind="timeout",
        details=[*words.attempt_lines(run.attempts), *run.notes],
        attempts=tuple(run.attempts),
        skipped=tuple(run.skipped.values()),
        retry_after=min((row.window_s for row in rows if row.window_s), default=None),
        hints=[f"routekit why {run.id}"],
    )


def caller_timeout(run: Run) -> RoutekitError:
    """The caller's own ``timeout`` has run out: nobody's fault but the wait's."""
    seconds = duration(run.order.timeout or 0.0)
    if run.shown:
        return TruncatedAnswer(
            f"{run.plan.reference}: cut off after --timeout {seconds}",
            partial=run.partial,
            attempts=run.attempts,
            skipped=tuple(run.skipped.values()),
        )
    return RouteExhausted(
        f"{run.plan.reference}: no answer within --timeout {seconds}",
        kind="timeout",
        attempts=run.attempts,
        skipped=tuple(run.skipped.values()),
        hints=[f"routekit why {run.id}"],
    )


def _build(
    run: Run,
    code: int,
    message: str,
    *,
    details: Sequence[str] = (),
    hints: Sequence[str] = (),
    retry_after: float | None = None,
) -> RoutekitError:
    kinds = [row.kind for row in run.attempts if row.kind]
    made = CLASSES.get(code, RouteExhausted)
    more: dict[str, Any] = {"retry_after": retry_after} if made in (RouteExhausted, BudgetExceeded) else {}
    if made is TruncatedAnswer:
        more["partial"] = run.partial
    return made(
        message,
        details=[*details, *run.notes],
        hints=hints,
        attempts=tuple(run.attempts),
        skipped=tuple(run.skipped.values()),
        exit_code=code,
        kind=kinds[0] if len(set(kinds)) == 1 and kinds[0] else None,
        **more,
    )
