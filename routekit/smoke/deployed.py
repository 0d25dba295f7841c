"""A configured profile, asked for real: one short question through each route, and to each target where that is wanted.

It judges what came back; it prints nothing, and knows no vendor.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from ..core.chat import Delta, Usage
from ..core.health import duration
from ..core.plan import Leaf, Plan
from ..core.record import Attempt, RequestRecord
from ..core.value import Value
from ..core.words import attempt_line, attempt_lines, cause, skip_line, why_skipped
from ..errors import CredentialError, RoutekitError
from ..router import Router

if TYPE_CHECKING:
    import asyncio

#: as short as a question can be, with an answer that cannot be empty
QUESTION = "Reply with the one word: ready"
#: how much longer than its own timeout a question may take before it is ended from outside, in seconds
GRACE = 15.0
#: how long probes alongside may still take at the end, in seconds
PROBES = 0.5


class Asked(Value):
    """One route or target, asked. ``detail`` says why it failed, ``note`` what else is worth knowing; ``lines`` are the
    attempts in words. Lengths are seconds from the question on."""

    name: str
    kind: str
    passed: bool
    detail: str = ""
    note: str = ""
    served_by: str | None = None
    answer: str = ""
    attempts: tuple[Attempt, ...] = ()
    lines: tuple[str, ...] = ()
    first_output: float | None = None
    total: float = 0.0
    usage: Usage | None = None
    cost: str | None = None
    record: str | None = None


class Errand(Value):
    """What is to be asked: the routes, with their plans, and all of their targets too where ``each_target`` says so.
    ``broken`` routes have no plan: why."""

    plans: Mapping[str, Plan]
    broken: Mapping[str, str] = {}
    each_target: bool = False
    timeout: float = 180.0
    parallel: int = 1

    @property
    def leaves(self) -> dict[str, Leaf]:
        return {leaf.label: leaf for plan in self.plans.values() for leaf in plan.leaves}

    @property
    def calls(self) -> tuple[int, int, int]:
        """(fewest, most) calls where all is well, and the most where everything fails that can."""
        routes, targets = len(self.plans), len(self.leaves) if self.each_target else 0
        worst = sum(plan.attempts for plan in self.plans.values()) + targets
        fewest = max(routes, targets)
        return fewest, max(fewest, routes + targets - 1 if targets else routes), worst


def errand(router: Router, names: Sequence[str], **how: Any) -> Errand:
    """The named references, or every route that is not switched off, or else what is asked when nothing is named.
    Raises ``UsageError`` for names that do not exist."""
    config = router.config
    if names:
        return Errand(plans={name: router.plan(name) for name in dict.fromkeys(names)}, **how)
    plans, broken = {}, {}
    routes = [row.id for row in config.routes.values() if row.enabled]
    for name in routes:
        try:
            plans[name] = router.plan(f"route/{name}")
        except RoutekitError as error:
            broken[name] = error.message
    if not routes:
        plans = {router.default_model(): router.plan()}
    return Errand(plans=plans, broken=broken, **how)


async def run(router: Router, errand: Errand) -> AsyncGenerator[Asked, None]:
    """Ask, ``parallel`` at a time, and yield each as it comes back: first the routes, then the targets that no route
    has reached."""
    for name, why in errand.broken.items():
        yield Asked(name=name, kind="route", passed=False, detail=why)
    reached: dict[str, Asked] = {}
    questions = [partial(_route, router, name, errand.timeout) for name in errand.plans]
    async with aclosing(_several(questions, errand.parallel)) as answers:
        async for asked in answers:
            reached |= {row.target: _of_target(row, asked) for row in asked.attempts if row.outcome != "cancelled"}
            yield asked
    async with aclosing(_targets(router, errand, reached)) as answers:
        async for asked in answers:
            yield asked
    await router.end_probes(PROBES)


async def _targets(router: Router, errand: Errand, reached: Mapping[str, Asked]) -> AsyncGenerator[Asked, None]:
    leaves = errand.leaves if errand.each_target else {}
    for label in leaves:
        if label in reached:
            yield reached[label]
    unmet = [leaf for label, leaf in leaves.items() if label not in reached]
    questions = [partial(_target, router, leaf, errand.timeout) for leaf in unmet]
    async with aclosing(_several(questions, errand.parallel)) as answers:
        async for asked in answers:
            yield asked


async def _several(work: Sequence[Callable[[], Awaitable[Asked]]], parallel: int) -> AsyncGenerator[Asked, None]:
    """So many at a time, as they end. Whoever stops listening stops them all."""
    import asyncio

    room = asyncio.Semaphore(max(1, parallel))

    async def in_turn(one: Callable[[], Awaitable[Asked]]) -> Asked:
        async with room:
            return await one()

    tasks: list[asyncio.Task[Asked]] = [asyncio.ensure_future(in_turn(one)) for one in work]
    try:
        for next_one in asyncio.as_completed(tasks):
            yield await next_one
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# --- one question -----------------------------------------------------------------------------------------------------


async def _route(router: Router, name: str, timeout: float) -> Asked:
    steps = router.run(QUESTION, model=name, live=False, timeout=timeout, surface="smoke", log=False)
    return await _asked(router, steps, name=name, kind="route", timeout=timeout)


async def _target(router: Router, leaf: Leaf, timeout: float) -> Asked:
    steps = router.run_alone(leaf, QUESTION, live=False, timeout=timeout, surface="smoke")
    return await _asked(router, steps, name=leaf.label, kind="target", timeout=timeout)


async def _asked(router: Router, steps: AsyncGenerator[Any, None], *, name: str, kind: str, timeout: float) -> Asked:
    import asyncio

    heard = _Heard()
    try:
        async with asyncio.timeout(timeout + GRACE):
            await heard.out(steps)
    except RoutekitError as error:
        router.set_aside(error)
        return heard.failed(error, name=name, kind=kind, now=router.now())
    except TimeoutError:
        return Asked(name=name, kind=kind, passed=False, detail=f"no end within {duration(timeout + GRACE)}")
    return heard.answered(name=name, kind=kind, now=router.now())


class _Heard:
    """What one question has brought."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.attempts: list[Attempt] = []
        self.record: RequestRecord | None = None

    async def out(self, steps: AsyncGenerator[Any, None]) -> None:
        async with aclosing(steps) as listened:
            async for step in listened:
                if isinstance(step, Delta) and step.kind in ("text", "refusal"):
                    self.text.append(step.text)
                elif isinstance(step, Attempt):
                    self.attempts.append(step)
                elif isinstance(step, RequestRecord):
                    self.record = step

    def answered(self, *, name: str, kind: str, now: float) -> Asked:
        record, text = self.record, "".join(self.text).strip()
        if record is None:
            return Asked(name=name, kind=kind, passed=False, detail="it ended without an answer")
        served = record.attempts[-1]
        detail = _wrong(record, text)
        spoke = served.first_output
        return Asked(
            name=name,
            kind=kind,
            passed=not detail,
            detail=detail,
            note=f"not its first choice {record.first_choice}: {record.why_not}" if record.why_not else "",
            served_by=record.served_by,
            answer=text,
            attempts=record.attempts,
            lines=_lines(record.attempts, record.skipped, now),
            first_output=max(0.0, spoke - record.time) if spoke is not None else None,
            total=record.duration_s,
            usage=record.usage,
            cost=record.cost,
            record=record.id,
        )

    def failed(self, error: RoutekitError, *, name: str, kind: str, now: float) -> Asked:
        attempts = tuple(row for row in error.attempts if isinstance(row, Attempt)) or tuple(self.attempts)
        credential = isinstance(error, CredentialError) or any(row.kind == "auth" for row in attempts)
        # A request that was asked of one target says all there is to say in its one attempt.
        alone = kind == "target" and attempts and attempts[-1].outcome != "cancelled"
        said = cause(attempts[-1]) if alone else error.message.removeprefix(f"{name}: ")
        return Asked(
            name=name,
            kind=kind,
            passed=False,
            detail=f"credential problem: {said}" if credential else said,
            attempts=attempts,
            lines=_lines(attempts, error.skipped, now),
            total=sum(row.duration for row in attempts),
        )


def _lines(attempts: Iterable[Attempt], skipped: Iterable[Any], now: float) -> tuple[str, ...]:
    return (*attempt_lines(attempts), *(skip_line(skip, now) for skip in skipped))


def _wrong(record: RequestRecord, text: str) -> str:
    """What is wrong with an answer that came; empty where nothing is."""
    if not text:
        return f"the answer of {record.served_by} is empty (finish reason: {record.finish_reason})"
    other = _stranger(record.attempts[-1])
    if other:
        return other
    refused = [f"{row.target}: {cause(row)}" for row in record.attempts if row.kind == "auth"]
    keyless = [row for row in record.skipped if row.reason.startswith("credential")]
    refused += [f"{row.target}: {why_skipped(row.reason, row.said)}" for row in keyless]
    return f"credential problem: {'; '.join(refused)}" if refused else ""


def _stranger(attempt: Attempt) -> str:
    """What is wrong where a vendor says that another model answered."""
    return f"{attempt.target} answered as {attempt.stranger}" if attempt.stranger else ""


def _of_target(attempt: Attempt, asked: Asked) -> Asked:
    """What a route's question has shown of one target on its way."""
    served = attempt.outcome == "success"
    detail = (_stranger(attempt) or ("" if asked.answer else "the answer is empty")) if served else cause(attempt)
    return Asked(
        name=attempt.target,
        kind="target",
        passed=not detail,
        detail=detail,
        note=f"asked through {asked.name}",
        served_by=attempt.target if served else None,
        answer=asked.answer if served else "",
        attempts=(attempt,),
        lines=(attempt_line(attempt),),
        total=attempt.duration,
        usage=attempt.usage,
        cost=attempt.cost,
        record=asked.record,
    )


def failures(found: Collection[Asked]) -> int:
    return sum(not row.passed for row in found)
