"""The loop: decide, call, settle, until served or exhausted. It chooses nothing and prints nothing.

One ``Dispatch`` is one request. Its ``run`` yields what happens as it happens and ends with the ``RequestRecord``; a
request that fails raises one error from ``errors`` after the record has been written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol

import msgspec

from . import outcomes
from .core import budget
from .core import decide as heart
from .core import judge as judging
from .core import settle as settling
from .core.chat import Delta, Event, Finish, Opened, Request
from .core.config import Config, Provider
from .core.decide import Choice, Exhausted, Waiting
from .core.faults import Fault, VendorFault
from .core.health import Hold
from .core.judge import Walk
from .core.plan import Leaf, Plan, host_of
from .core.record import Attempt, GroupDecision, RequestRecord, Skip
from .core.select import Algorithm
from .core.settle import Try
from .core.value import DAMAGED, Value
from .credentials import Secret
from .errors import CredentialError, RoutekitError
from .outcomes import Cut, Live, Tally
from .state import StateStore
from .vendors import Vendor, VendorCall, limits

#: the polite retry: this long, times 0.5 … 1.5
POLITE = 0.5
#: a stated wait up to this long is waited out on the same target
SHORT_HINT = 5.0
#: how often a request that waits for another's probe looks again
LOOK_AGAIN = 0.05
#: same class on same credential this often, and the credential's other leaves are left out
SAME_CLASS = 3
#: parameters a request can do without
HARMLESS = frozenset(
    """temperature top_p top_k min_p presence_penalty frequency_penalty repetition_penalty seed stop stream_options
    reasoning_effort reasoning effort output_config.effort verbosity thinking developer user safety_identifier
    prompt_cache_key prompt_cache_retention""".split()
)
#: parameters that an API has under a second name, too: refused under one, they go under the other
RENAMED: Mapping[str, frozenset[str]] = {"openai-chat": frozenset({"max_tokens", "max_completion_tokens"})}
#: when any vendor last answered over HTTP: what tells a vendor's outage from our own
NETWORK_KEY = "network"
OFFLINE_AFTER = 30.0

#: the longest waits for other writers of the store, in seconds
CHOOSING, SETTLING = 1.0, 5.0


class Engine(Protocol):
    """What a dispatch stands on; the ``Router`` is one."""

    @property
    def config(self) -> Config: ...

    @property
    def store(self) -> StateStore: ...

    def vendor(self, api: str) -> Vendor: ...

    async def secret(self, provider: Provider) -> Secret | None: ...

    async def headers(self, provider: Provider) -> Mapping[str, str]: ...

    def blocked(self, plan: Plan) -> Mapping[str, str]: ...

    def key_tag(self, secret: Secret | None) -> str | None: ...

    def new_key(self, credential: str) -> str: ...

    async def tags(self, plan: Plan, *, deep: bool = False) -> Mapping[str, str]: ...

    def clean(self, text: str) -> str: ...

    def now(self) -> float: ...

    def random(self) -> float: ...

    def new_id(self) -> str: ...

    def remember(self, record: RequestRecord) -> None: ...

    def alongside(self, plan: Plan, serving: Leaf) -> None: ...


class Order(Value):
    """One request and how it is to be served. ``live``: deltas are handed over as they come, and nothing restarts once
    one was; else they are held back until the answer is whole. ``timeout`` (seconds) is the caller's own; ``only`` the
    one provider, concrete or synthetic, whose targets may serve."""

    request: Request
    plan: Plan
    #: the configuration the plan was made from; the router's may be another one before this request is over
    config: Config | None = None
    live: bool = True
    failover: bool = True
    only: str | None = None
    timeout: float | None = None
    #: a probe alongside: to a sleeping target, with a question of ours
    probe: bool = False
    #: a person tries a target out (``judge.Walk.testing``)
    testing: bool = False
    #: the most that one call may be expected to cost, in US dollars
    max_cost: float | None = None
    surface: str = "python"
    session: str | None = None
    conversation: str | None = None


class Note(Value):
    """Something a person should be told while it happens."""

    text: str
    kind: str = "note"


Happening = Note | Choice | Attempt | Delta | Finish | RequestRecord


class Watch:
    """The limits of one attempt, in loop time. ``alive`` feeds the stall limit; ``spoke`` ends the wait for output."""

    def __init__(self, leaf: Leaf, *, spare: bool, deadline: float, caller: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._stall = leaf.limits.stall or 0.0
        # Headers and opening events prove life, not speed: a model that thinks may be silent until its first output
        # for as long as its first-output limit allows.
        self._silence = max(self._stall, leaf.limits.first_output or 0.0) if self._stall else 0.0
        self._first = leaf.limits.first_output if spare else None
        self._deadline: float | None = deadline
        self._caller = caller
        self._heard: float | None = None
        self._scope: asyncio.Timeout | None = None

    def alive(self) -> None:
        self._heard = self._loop.time()
        if self._scope is not None:
            self._scope.reschedule(self._due()[0])

    def spoke(self) -> None:
        self._first = self._deadline = None
        self._silence = self._stall
        self.alive()

    def _due(self) -> tuple[float, str, float]:
        """(loop time, name, length) of the limit that ends first."""
        rows = [
            (self._started + self._first, "first_output", self._first) if self._first else None,
            (self._heard + self._silence, "stall", self._silence) if self._heard and self._silence else None,
            (self._deadline, "deadline", self._deadline - self._started) if self._deadline is not None else None,
            (self._caller, "caller", self._caller - self._started) if self._caller is not None else None,
        ]
        return min((row for row in rows if row is not None), default=(float("inf"), "", 0.0))

    async def guard(self, events: AsyncIterator[Event]) -> Event | None:
        """The next event, or ``None`` at the end; raises ``Cut`` when a limit ends first."""
        try:
            async with asyncio.timeout_at(self._due()[0]) as self._scope:
                return await anext(events, None)
        except TimeoutError:
            if self._scope is None or not self._scope.expired():
                raise
            _, name, seconds = self._due()
            raise Cut(name, seconds) from None
        finally:
            self._scope = None


class Dispatch:
    """One request on its way. It lives for one ``run``."""

    def __init__(self, engine: Engine, order: Order, selectors: Sequence[Algorithm]) -> None:
        self.engine, self.order, self.selectors, self.plan = engine, order, selectors, order.plan
        self.config = order.config or engine.config
        self.id = engine.new_id()
        self.began = engine.now()
        self.attempts: list[Attempt] = []
        self.faults: list[Fault] = []
        self.decisions: list[GroupDecision] = []
        self.skipped: dict[str, Skip] = {}
        self.notes: list[str] = []
        self.first: Choice | None = None
        self.refused: CredentialError | None = None
        self.without: dict[int, frozenset[str]] = {}
        #: failures that never reached a vendor elsewhere: judged at the end, since we may simply be offline
        self.undelivered: list[tuple[Try, Fault]] = []
        self.shown = False
        #: what the reader has been shown of an answer that broke off
        self.partial = ""
        #: whether credentials have been looked at a second time
        self.looked = False
        self.given: dict[int, str] = heart.others_than(self.plan, order.only)
        labels = {self.plan.leaves[index].label: why for index, why in self.given.items()}
        self.skipped |= {label: Skip(target=label, reason=why) for label, why in labels.items()}
        loop_time = asyncio.get_running_loop().time()
        self.caller = loop_time + order.timeout if order.timeout is not None else None
        limit = max((leaf.limits.deadline or 0.0) for leaf in self.plan.leaves)
        self.deadline = loop_time + limit
        self.walk = Walk(
            id=self.id,
            draws=tuple(engine.random() for _ in self.plan.groups),
            extras=tuple({} for _ in self.plan.groups),
            session=order.session,
            given_up=dict(self.given),
            blocked=engine.blocked(self.plan),
            tokens=order.request.characters() // 4,
            needs=order.request.needs(),
            deadline=self.began + limit,
            output=outcomes.most_output(order.request),
            max_cost=round(order.max_cost * 1e9) if order.max_cost is not None else None,
            testing=order.testing,
            probing=self.config.providers[self.plan.leaves[0].provider].health if order.probe else None,
        )
        #: until when budgets keep room for this request
        self.lease = self.walk.deadline
        #: the attempt for which they do, until it is settled
        self.reserved: Try | None = None

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def run(self) -> AsyncGenerator[Happening, None]:
        record: RequestRecord | None = None
        try:
            async with aclosing(self._walk()) as steps:
                async for step in steps:
                    if isinstance(step, RequestRecord):
                        record = step
                        self._keep(record)
                    yield step
        except RoutekitError as error:
            self._judge_offline()
            self._keep(outcomes.failed(self, error))
            raise
        except (asyncio.CancelledError, GeneratorExit) as cause:
            self._judge_offline()
            if record is None:
                self._keep(outcomes.interrupted(self, reader_gone=isinstance(cause, GeneratorExit)))
            raise
        finally:
            if self.reserved is not None:
                # It ended between two attempts: the room for the second one is given back.
                self._settle(_spending(self.reserved, budget.NOTHING), "opened")

    async def _walk(self) -> AsyncGenerator[Happening, None]:
        await self._changed_keys()
        while True:
            outcome = self._decide()
            if isinstance(outcome, Waiting):
                yield Note(text=outcomes.waiting(outcome, self.engine.now()), kind="waiting")
                await self._wait(outcome)
            elif isinstance(outcome, Exhausted):
                if not await self._look_again(outcome):
                    self._judge_offline()
                    raise outcomes.exhausted(self, outcome)
            else:
                if outcome.last_resort:
                    leaf = self.plan.leaves[outcome.leaf]
                    yield Note(text=outcomes.last_resort(self.plan, leaf), kind="last-resort")
                async with aclosing(self._serve(outcome)) as steps:
                    async for step in steps:
                        yield step
                        if isinstance(step, RequestRecord):
                            return

    async def _changed_keys(self) -> None:
        """A key that was changed since its refusal counts again at once, not only when nobody else is left."""
        if len(self.plan.leaves) > 1:
            self._change(tags=await self.engine.tags(self.plan))

    def _decide(self) -> heart.Outcome:
        def step(values: Mapping[str, bytes]) -> tuple[heart.Outcome, judging.Writes]:
            # The clock is read once the store is ours: what others have written must not lie in its future.
            return heart.decide(self.plan, self.selectors, values, walk=self.walk, now=self.engine.now())

        # Room in a budget is worth a longer wait for the store than a turn: decided alone, it would be nobody's.
        patience = SETTLING if any(leaf.budgets for leaf in self.plan.leaves) else CHOOSING
        return self.engine.store.transact(self.plan.keys(self.order.session), step, patience=patience)

    async def _look_again(self, outcome: Exhausted) -> bool:
        """What was remembered of credentials may be stale: before giving up on one, it is looked at once more."""
        hopeful = any(skip.reason.startswith("credential") for skip in outcome.skipped)
        if self.looked or not self.walk.first or not hopeful:
            return False
        self.looked = True
        remembered = {name: why for name, why in self.walk.blocked.items() if self.refused is None}
        tags = await self.engine.tags(self.plan, deep=True)
        blocked = {name: why for name, why in self.walk.blocked.items() if name not in remembered}
        self._change(blocked=blocked, tags=tags)
        return bool(remembered or tags)

    def _change(self, **fields: Any) -> None:
        self.walk = msgspec.structs.replace(self.walk, **fields)

    async def _wait(self, waiting: Waiting) -> None:
        """Sleep until somebody may be ready. Another's probe can end any moment: look often, at most until its end."""
        loop = asyncio.get_running_loop()
        until = loop.time() + max(0.0, waiting.until - self.engine.now())
        until = min(until, self.deadline, self.caller or self.deadline)
        if waiting.cause in ("window", "hold"):
            await asyncio.sleep(max(0.0, until - loop.time()))
            self._change(waited=waiting.cause == "hold" or loop.time() >= self.deadline)
        while waiting.cause == "probe" and loop.time() < until:
            await asyncio.sleep(LOOK_AGAIN)
            outcome = self._peek()
            if not (isinstance(outcome, Waiting) and outcome.cause == "probe"):
                break
        else:
            self._change(waited=waiting.cause == "probe" or self.walk.waited)
        if self.caller is not None and loop.time() >= self.caller:
            raise outcomes.caller_timeout(self)

    def _peek(self) -> heart.Outcome:
        values = self.engine.store.peek(self.plan.keys(self.order.session))
        return heart.decide(self.plan, self.selectors, values, walk=self.walk, now=self.engine.now())[0]

    # --- one leaf -----------------------------------------------------------------------------------------------------

    async def _serve(self, choice: Choice) -> AsyncGenerator[Happening, None]:
        """Go to the chosen leaf: its secret, its attempts, its verdict."""
        leaf = self.plan.leaves[choice.leaf]
        self._note_choice(choice)
        done = self._try(choice, leaf)
        self.reserved = done if leaf.budgets else None
        try:
            yield choice
            live = await self._prepare(choice, leaf)
            if not self.order.probe:
                self.engine.alongside(self.plan, leaf)
        except CredentialError as error:
            self._credential_failed(leaf, error)
            self._settle(_spending(done, budget.NOTHING), "released")
            if not self.order.failover:
                raise outcomes.no_credential(self, error, alone=True) from None
            yield Note(text=f"{leaf.label}: {error.message}", kind="credential")
            return
        except BaseException:
            self._settle(_spending(done, budget.NOTHING), "released")
            raise
        again = True
        while again:
            again = False
            async with aclosing(self._attempt(live, done)) as steps:
                async for step in steps:
                    yield step
                    if isinstance(step, Attempt) and step.kind is not None:
                        again = await self._after(live, done, self.faults[-1])

    def _reserve_again(self, live: Live, done: Try, *, fault: Fault, tally: Tally) -> bool:
        """A retry is one more call to every budget on the path; without room for it, it is not made."""
        if not live.leaf.budgets:
            return True
        done = _spending(done, outcomes.spent(self, live, tally, fault))
        self.lease = max(self.walk.deadline, self.engine.now())

        def step(values: Mapping[str, bytes]) -> tuple[bool, judging.Writes]:
            return settling.once_more(done, values, walk=self.walk, now=self.engine.now())

        return self.engine.store.transact(live.leaf.budget_keys, step, patience=SETTLING)

    def _keep_reserve(self, done: Try) -> None:
        """Output keeps the room that budgets hold for this request; written only once half of the lease is gone."""
        now, limits = self.engine.now(), done.leaf.limits
        length = max(limits.deadline or 0.0, limits.stall or 0.0)
        if not done.leaf.budgets or self.lease - now > length / 2:
            return
        self.lease = until = now + length

        def step(values: Mapping[str, bytes]) -> tuple[None, judging.Writes]:
            return None, settling.renew(done, values, until=until, now=self.engine.now())

        self.engine.store.transact(done.leaf.budget_keys, step, patience=SETTLING)

    def _note_choice(self, choice: Choice) -> None:
        number = len(self.attempts) + 1
        self.first = self.first or choice
        self.decisions += [msgspec.structs.replace(row, attempt=number) for row in choice.path]
        for skip in choice.skipped:
            self.skipped.setdefault(skip.target, skip)
        self._change(entered=choice.entered)

    def _try(self, choice: Choice, leaf: Leaf) -> Try:
        groups = tuple(self.plan.groups[at] for at in choice.groups)
        return Try(
            holder=self.id,
            started=self.engine.now(),
            leaf=leaf,
            groups=groups,
            children=tuple(row.chosen for row in choice.path),
            session=self.order.session,
            probe=self.order.probe,
            selectors=tuple(self.selectors[at] for at in choice.groups),
            extras=tuple(self.walk.extras[at] for at in choice.groups),
        )

    async def _prepare(self, choice: Choice, leaf: Leaf) -> Live:
        """The SDK is imported while the secret is read: each may take a second."""
        provider = self.config.providers[leaf.provider]
        loading = asyncio.ensure_future(load(self.engine.vendor(provider.api)))
        try:
            async with asyncio.timeout_at(self.caller):
                secret = await self.engine.secret(provider)
                headers = await self.engine.headers(provider)
                await loading
        except TimeoutError:
            raise outcomes.caller_timeout(self) from None
        finally:
            loading.cancel()
        return Live(choice=choice, leaf=leaf, provider=provider, secret=secret, headers=headers)

    def _credential_failed(self, leaf: Leaf, error: CredentialError) -> None:
        self.refused = self.refused or error
        reason = f"credential {error.state}"
        if error.state == "absent" and leaf.credential.startswith("env:"):
            reason += f" ({leaf.credential.removeprefix('env:')} is not set)"
        self.skipped[leaf.label] = Skip(target=leaf.label, reason=reason)
        self._change(blocked={**self.walk.blocked, leaf.credential: reason})

    async def _attempt(self, live: Live, done: Try) -> AsyncGenerator[Happening, None]:
        """One call. Yields what may be shown, then its ``Attempt``, and after a success the ``RequestRecord``."""
        leaf = live.leaf
        done = msgspec.structs.replace(done, started=self.engine.now())
        tally = Tally(started=done.started)
        try:
            async with aclosing(self._stream(live, done, tally)) as events:
                async for event in events:
                    if self.order.live and isinstance(event, Delta):
                        self.shown = True
                        yield event
        except VendorFault as error:
            self.partial = tally.text() if self.shown else ""
            fault = self._cleaned(error.fault, tally)
            yield self._record_fault(live, done, fault=fault, tally=tally)
            return
        except Cut as cut:
            self.partial = tally.text() if self.shown else ""
            if cut.limit in ("caller", "deadline"):
                # Not the attempt's own limits: it learned nothing of its target.
                self._cancelled(live, done, tally)
                raise outcomes.out_of_time(self, cut) from None
            fault = outcomes.cut(cut, spoke=tally.spoke)
            yield self._record_fault(live, done, fault=fault, tally=tally)
            return
        except BaseException:
            self._cancelled(live, done, tally)
            raise
        done = _spending(heard(done, live, tally), outcomes.spent(self, live, tally))
        self._settle(msgspec.structs.replace(done, output=outcomes.said(tally)), "finished", answered=True)
        # Noted before it is shown: a reader that leaves now does not undo that it was answered and paid for.
        attempt = outcomes.success(self, live, tally)
        self.attempts.append(attempt)
        for delta in () if self.order.live else tally.deltas:
            yield delta
        yield tally.finished
        yield attempt
        self._judge_offline()
        yield outcomes.served(self, leaf, attempt, tally)

    async def _stream(self, live: Live, done: Try, tally: Tally) -> AsyncGenerator[Event, None]:
        leaf = live.leaf
        watch = Watch(leaf, spare=live.choice.spare or self.order.probe, deadline=self.deadline, caller=self.caller)
        call = VendorCall(
            provider=live.provider,
            model=leaf.wire_id,
            request=self.order.request,
            secret=live.secret,
            connect=leaf.limits.connect or 0.0,
            alive=watch.alive,
            params={**live.provider.params, **leaf.params},
            headers=live.headers,
            without=self.without.get(leaf.index, frozenset()),
            info=leaf.info,
        )
        async with aclosing(self.engine.vendor(live.provider.api).stream(call)) as events:
            while (event := await watch.guard(events)) is not None:
                if isinstance(event, Delta) and not tally.spoke:
                    watch.spoke()
                    tally.first_output = self.engine.now()
                    if live.choice.claims or live.choice.last_resort:
                        self._settle(done, "answered", answered=True)
                tally.take(self._clean(event))
                if isinstance(event, Opened):
                    tally.opened_at = self.engine.now()
                    self._announce(heard(done, live, tally))
                elif isinstance(event, Delta):
                    self._keep_reserve(done)
                yield event
        if tally.finish is None:
            raise VendorFault(Fault(kind="transient", message="the stream ended without an end", answered=True))

    def _clean(self, event: Event) -> Event:
        """What of an event comes into the record, without secrets: a vendor may repeat a key anywhere."""
        if isinstance(event, Delta):
            return event
        said = {name: getattr(event, name, None) for name in ("request_id", "model", "detail")}
        return msgspec.structs.replace(event, **{name: self.engine.clean(text) for name, text in said.items() if text})

    def _cleaned(self, fault: Fault, tally: Tally) -> Fault:
        kind = fault.kind
        if tally.spoke and fault.hits == "target" and kind in ("transient", "timeout", "unknown"):
            kind = "truncated"
        return msgspec.structs.replace(fault, kind=kind, message=self.engine.clean(fault.message))

    def _record_fault(self, live: Live, done: Try, *, fault: Fault, tally: Tally) -> Attempt:
        """Note a failed attempt; settle it if its target is given up with it."""
        self.faults.append(fault)
        self._change(first=False)
        window = None
        done = heard(done, live, tally)
        if self._retries(live, fault) and self._reserve_again(live, done, fault=fault, tally=tally):
            if fault.kind == "rate_limit":
                # A short wait is waited out here; the other processes must know of it at once.
                now = self.engine.now()
                wait = Hold(start=now, end=max(now + (fault.hint or 0.0), done.hold.end if done.hold else now))
                self._announce(msgspec.structs.replace(done, heard=now, hold=wait))
        else:
            window = self._give_up(live, _spending(done, outcomes.spent(self, live, tally, fault)), fault)
        attempt = outcomes.failure(self, live, fault, tally=tally, window=window)
        self.attempts.append(attempt)
        return attempt

    def _retries(self, live: Live, fault: Fault) -> bool:
        """Whether the same target gets this request once more."""
        before = [attempt for attempt in self.attempts if attempt.target == live.leaf.label]
        if self.shown or before or live.choice.last_resort or live.choice.claims or self._spent():
            return False
        if fault.row.again == "adapt":
            return fault.parameter in HARMLESS | RENAMED.get(live.provider.api, frozenset())
        if fault.hint is not None or fault.row.again == "hint":
            # A stated wait holds whatever the class: a 503 may ask for one, too.
            return fault.row.again != "never" and fault.hint is not None and fault.hint <= SHORT_HINT
        return fault.row.again == "once"

    def _spent(self) -> bool:
        return len(self.attempts) + 1 >= self.plan.attempts or asyncio.get_running_loop().time() >= self.deadline

    def _give_up(self, live: Live, done: Try, fault: Fault) -> float | None:
        """The target is done with in this request: its health is hit, once. Returns the window it earned."""
        self._leave(live.leaf, fault)
        if fault.kind == "auth":
            done = msgspec.structs.replace(done, key_tag=self.engine.key_tag(live.secret))
        if not fault.delivered and not live.leaf.local and fault.hits == "target":
            if live.leaf.budgets:
                self._settle(done, "opened")
            done = _spending(done, None)
            self.undelivered.append((done, fault))
            return self._would_earn(live, done, fault)
        return self._settle(done, fault, answered=fault.answered)

    def _leave(self, leaf: Leaf, fault: Fault) -> None:
        self.given[leaf.index] = f"given up ({fault.kind})"
        same = [
            row
            for row in self.attempts
            if (row.kind, row.credential, row.scope) == (fault.kind, leaf.credential, "credential")
        ]
        if fault.hits == "credential" and len(same) + 1 >= SAME_CLASS:
            others = [other.index for other in self.plan.leaves if other.credential == leaf.credential]
            self.given.update(dict.fromkeys(others, f"given up ({fault.kind} on its credential)"))
        if fault.kind == "context":
            self._change(larger_than=leaf.info.context or 0)
        self._change(given_up=dict(self.given))

    def _would_earn(self, live: Live, done: Try, fault: Fault) -> float | None:
        values = self.engine.store.peek(done.keys())
        now = self.engine.now()
        writes = settling.settle(done, fault, values, settings=live.provider.health, now=now)
        return settling.earned(done, fault, writes, now=now)

    async def _after(self, live: Live, done: Try, fault: Fault) -> bool:
        """After a failed attempt: raise, go on to another leaf (False), or wait and try the same one again (True)."""
        if live.leaf.index not in self.given:
            if fault.parameter and fault.row.again == "adapt":
                known = self.without.get(live.leaf.index, frozenset())
                self.without[live.leaf.index] = known | {fault.parameter}
                self.notes.append(outcomes.adapted(live, fault.parameter))
            else:
                await self._polite_wait(fault)
            return True
        over = fault.row.over
        stop = over == "no" or not self.order.failover or self.shown or self._budget_spent()
        if stop or (over == "held" and self.order.live and self.shown):
            self._judge_offline()
            raise outcomes.gave_up(self, fault)
        return False

    def _budget_spent(self) -> bool:
        return len(self.attempts) >= self.plan.attempts or asyncio.get_running_loop().time() >= self.deadline

    async def _polite_wait(self, fault: Fault) -> None:
        polite = POLITE * (0.5 + self.engine.random())
        seconds = fault.hint if fault.kind == "rate_limit" and fault.hint else max(polite, fault.hint or 0.0)
        until = asyncio.get_running_loop().time() + seconds
        end = min(until, self.deadline, self.caller or self.deadline)
        await asyncio.sleep(max(0.0, end - asyncio.get_running_loop().time()))
        if self.caller is not None and end >= self.caller:
            raise outcomes.caller_timeout(self)

    def _cancelled(self, live: Live, done: Try, tally: Tally) -> None:
        self._settle(_spending(heard(done, live, tally), outcomes.spent(self, live, tally)), "released")
        self.attempts.append(outcomes.cancelled(self, live, tally))

    # --- memory -------------------------------------------------------------------------------------------------------

    def _announce(self, done: Try) -> None:
        """A vendor that has nothing left is left alone by every process from now on, not only after this answer."""
        if done.hold is not None and not done.hold.demotes:
            self._settle(done, "opened")

    def _settle(self, done: Try, outcome: str | Fault, *, answered: bool = False) -> float | None:
        """Write an outcome; returns the window a fault earned. ``answered``: an HTTP answer came, so we are online."""
        settings = self.config.providers[done.leaf.provider].health
        if done.spent is not None:
            self.reserved = None

        def step(values: Mapping[str, bytes]) -> tuple[float | None, judging.Writes]:
            now = self.engine.now()
            writes = settling.settle(done, outcome, values, settings=settings, now=now)
            window = settling.earned(done, outcome, writes, now=now) if isinstance(outcome, Fault) else None
            if answered and not done.leaf.local:
                writes[NETWORK_KEY] = msgspec.json.encode(now)
            return window, writes

        return self.engine.store.transact(done.keys(), step, patience=SETTLING)

    def _judge_offline(self) -> None:
        """At the end: were the connections that failed the vendors' fault, or is this machine offline?"""
        waiting, self.undelivered = self.undelivered, []
        if not waiting:
            return
        if self._offline(waiting):
            self.notes.append("this machine seems to be offline: no vendor could be reached, so none was cooled")
            self.attempts = [msgspec.structs.replace(row, window_s=None) for row in self.attempts]
            for done, _ in waiting:
                self._settle(done, "released")
            return
        for done, fault in waiting:
            self._settle(done, fault)

    def _offline(self, waiting: Sequence[tuple[Try, Fault]]) -> bool:
        providers = self.config.providers
        hosts = {host_of(providers[done.leaf.provider].base_url) for done, _ in waiting}
        if len(hosts) < 2 or self._got_out():
            return False
        raw = self.engine.store.peek([NETWORK_KEY]).get(NETWORK_KEY)
        try:
            last = msgspec.json.decode(raw or b"0", type=float)
        except DAMAGED:
            last = 0.0
        return not 0 <= self.engine.now() - last < OFFLINE_AFTER

    def _got_out(self) -> bool:
        """Whether anything reached a vendor elsewhere; vendors on this machine tell nothing of the way out of it."""
        local = {leaf.label for leaf in self.plan.leaves if leaf.local}
        failed = [row for row in self.attempts if row.outcome in ("failed", "truncated")]
        reached = [row for row, fault in zip(failed, self.faults, strict=True) if fault.delivered or fault.answered]
        served = [row for row in self.attempts if row.outcome == "success"]
        return any(row.target not in local for row in (*reached, *served))

    def _keep(self, record: RequestRecord) -> None:
        self.engine.remember(record)


def _spending(done: Try, spent: budget.Amount | None) -> Try:
    return msgspec.structs.replace(done, spent=spent)


def heard(done: Try, live: Live, tally: Tally) -> Try:
    """The attempt with what its vendor stated of its limits. A wait after a failure is the fault's own to judge."""
    if tally.opened is None or tally.opened_at is None:
        return done
    stated = limits.observe(tally.opened.headers, now=tally.opened_at, quirks=live.provider.quirks)
    stated = [window for window in stated if window.name != limits.RETRY_AFTER]
    if not any(window.remaining is not None for window in stated):
        return done
    hold = limits.hold(stated, tally.opened_at)
    return msgspec.structs.replace(done, heard=tally.opened_at, hold=hold)


async def load(vendor: Vendor) -> None:
    from .loop import beside

    await beside(vendor.load, name="routekit-import")
