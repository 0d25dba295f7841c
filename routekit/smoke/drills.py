"""The drills: what routekit promises, tried on the real parts within a second or two. pytest runs the same functions.

A drill is given its ``Stand`` and returns, or raises; it prints nothing and leaves nothing behind.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from ..core.decide import Choice
from ..core.faults import VendorFault
from ..core.record import RequestRecord, document
from ..core.value import Value
from ..credentials import Redactor, Secret
from ..errors import EX_CREDENTIAL, EX_IO, EX_LATER, EX_UNAVAILABLE
from ..router import Router
from ..testing import fails
from ..vendors import VendorCall
from . import wires
from .stand import Failed, Parts, Stand, Told, accounts, ask, expect, expect_in, route

if TYPE_CHECKING:
    import httpx2

#: how long one drill may take before it counts as hung, in seconds; all of them together take one or two
PATIENCE = 20.0
#: as much as is shown of why one failed
LONGEST = 400
#: fails over, cools its target, and is never worth a second try at the same one
DOWN = fails("timeout", message="no answer")
#: nobody asleep is asked, and nobody is probed: what happens is what the drill does
STRICT = '[health]\nprobe = false\n[defaults]\nlast_resort = "never"\n'


class Drill(Value):
    """``name`` says what is promised."""

    name: str
    run: Callable[[Stand], Awaitable[None]]


class Verdict(Value):
    """How one drill, or one walk over a route of the person's own, ended. ``detail`` says why it failed."""

    name: str
    passed: bool
    detail: str = ""
    seconds: float = 0.0
    kind: str = "drill"


# --- selections -------------------------------------------------------------------------------------------------------


async def ordered(stand: Stand) -> None:
    text = STRICT + accounts("a", "b", "c") + route("r", "a/m", "b/m", "c/m")
    router = stand.router(text, scripts={"a": ["from a", DOWN, "from a"], "b": ["from b"], "c": ["from c"]})
    found = [await ask(router, "r") for _ in range(3)]
    stand.clock.advance(30)
    found.append(await ask(router, "r"))
    expect("served, while a fails once", [told.record.served_by for told in found], ["a/m", "b/m", "b/m", "a/m"])


async def round_robin(stand: Stand) -> None:
    text = STRICT + accounts("a", "b") + route("r", "a/m", "b/m", more='selection = "round-robin"')
    router = stand.router(text, scripts={"a": ["from a"], "b": ["from b"]})
    found = [(await ask(router, "r")).record.served_by for _ in range(5)]
    expect("served", found, ["a/m", "b/m", "a/m", "b/m", "a/m"])


def _weighted_pair(selection: str) -> str:
    targets = '{ target = "a/m", weight = 3 }, { target = "b/m", weight = 1 }'
    return STRICT + accounts("a", "b") + f'[routes.r]\ntargets = [{targets}]\nselection = "{selection}"\n'


async def weighted(stand: Stand) -> None:
    draws = (0.0, 0.74, 0.76, 0.99, 0.5)
    scripts = {"a": ["from a"], "b": ["from b"]}
    served = []
    for draw in draws:
        router = stand.router(_weighted_pair("weighted"), scripts=scripts, draws=[draw] * 8)
        served.append((await ask(router, "r")).record.served_by)
    expect(f"served at the draws {draws}", served, ["a/m", "a/m", "b/m", "b/m", "a/m"])


async def smooth(stand: Stand) -> None:
    router = stand.router(_weighted_pair("smooth"), scripts={"a": ["from a"], "b": ["from b"]})
    served = [(await ask(router, "r")).record.served_by for _ in range(40)]
    expect("the first four", served[:4], ["a/m", "a/m", "b/m", "a/m"])
    expect("of forty", Counter(served), Counter({"a/m": 30, "b/m": 10}))


# --- failing over -----------------------------------------------------------------------------------------------------


async def exhaustion(stand: Stand) -> None:
    text = STRICT + accounts("a", "b") + route("r", "a/m", "b/m")
    down = {"a": [fails("timeout", message="a is silent")], "b": [fails("unknown", message="b is odd")]}
    told = await ask(stand.router(text, scripts=down), "r")
    expect("attempts", told.tried, [("a/m", "failed"), ("b/m", "failed")])
    expect("exit code", told.record.exit_code, EX_UNAVAILABLE)
    expect_in("the error", told.words, "a/m", "a is silent", "b/m", "b is odd")


async def synthetic(stand: Stand) -> None:
    plan = '[synthetic_providers.plan]\nproviders = ["work", "home"]\n'
    text = STRICT + accounts("work", "home", "other") + plan + route("r", "plan/m", "other/m")
    router = stand.router(text, scripts={"work": [DOWN], "home": ["from home"], "other": ["from other"]})
    told = await ask(router, "r")
    expect("attempts", told.tried, [("work/m", "failed"), ("home/m", "success")])
    kept = router.why(told.record.id[:19])
    expect("decisions", _path(kept), [("r", "plan/m"), ("plan", "work/m"), ("r", "plan/m"), ("plan", "home/m")])
    expect("what the record says of it", (kept.served_by, kept.first_choice), ("home/m", "work/m"))
    candidates = [row.label for decision in kept.decisions[1:2] for row in decision.candidates]
    expect("members recorded", candidates, ["work/m", "home/m"])


def _path(record: RequestRecord) -> list[tuple[str, str]]:
    return [(row.group.partition("/")[0], row.chosen) for row in record.decisions]


async def mapped(stand: Stand) -> None:
    members = '{ provider = "a", map = { "asked" = "sent-a" } }, { provider = "b" }'
    plan = f"[synthetic_providers.plan]\nmembers = [{members}]\n"
    router = stand.router(STRICT + accounts("a", "b") + plan, scripts={"a": [DOWN], "b": ["from b"]})
    told = await ask(router, "plan/asked")
    expect("sent", stand.calls, ["a/sent-a", "b/asked"])
    expect("served by", told.record.served_by, "b/asked")


async def cut_stream(stand: Stand) -> None:
    text = STRICT + wires.account("a") + wires.account("b", "anthropic-messages") + route("r", "a/m", "b/m")

    def handler(request: httpx2.Request) -> httpx2.Response:
        chat = request.url.host == "chat.invalid"
        return wires.answer("openai-chat", "m", cut=True) if chat else wires.answer("anthropic-messages", "m")

    router = stand.router(text, handler=handler)
    told = await ask(router, "r")
    expect("held back", told.tried, [("a/m", "truncated"), ("b/m", "success")])
    expect("the answer", told.text, wires.TEXT)
    expect("the window earned", told.attempts[0].window_s, 30.0)
    stand.clock.advance(30)
    live = await _live(router, "r")
    expect("live: exit code", live.record.exit_code, EX_IO)
    expect("live: attempts", live.tried, [("a/m", "truncated")])


async def _live(router: Router, model: str) -> Told:
    """One question whose answer is shown as it comes."""
    from ..errors import RoutekitError

    try:
        async with aclosing(router.run("Is anybody there?", model=model, live=True)) as steps:
            async for _ in steps:
                pass
    except RoutekitError as error:
        return Told(record=_last(router), error=error)
    return Told(record=_last(router))


def _last(router: Router) -> RequestRecord:
    record = router.last_record()
    if record is None:
        raise Failed("no record was kept")
    return record


# --- windows ----------------------------------------------------------------------------------------------------------


async def escalation(stand: Stand) -> None:
    router = stand.router(STRICT + accounts("a") + route("r", "a/m"), scripts={"a": [DOWN]})
    for seconds, said in ((30.0, "30s"), (60.0, "1m0s"), (120.0, "2m0s")):
        told = await ask(router, "r")
        expect("windows", [row.window_s for row in told.attempts], [seconds])
        expect_in("the error", told.words, f"(sleep {said})")
        stand.clock.advance(seconds - 0.5)
        early = await ask(router, "r")
        expect(f"attempts before the {said} are over", (early.tried, early.record.exit_code), ([], EX_LATER))
        stand.clock.advance(0.5)


async def reset(stand: Stand) -> None:
    text = STRICT + accounts("a", "b") + route("r", "a/m", "b/m")
    router = stand.router(text, scripts={"a": [DOWN, DOWN, "well again", DOWN], "b": ["from b"]})
    windows = []
    for _ in range(4):
        told = await ask(router, "r")
        windows.append(told.attempts[0].window_s)
        stand.clock.advance(60)
    expect("windows of a, with b's successes between and an own one before the last", windows, [30.0, 60.0, None, 30.0])


async def sleepers(stand: Stand) -> None:
    text = STRICT + accounts("a", "b") + route("r", "a/m", "b/m")
    busy = {"a": [fails("rate_limit", hint=30)], "b": [fails("rate_limit", hint=60)]}
    router = stand.router(text, scripts=busy)
    await ask(router, "r")
    stand.clock.advance(0.1)
    told = await ask(router, "r")
    expect("calls", stand.calls, ["a/m", "b/m"])
    expect("attempts and exit code", (told.tried, told.record.exit_code), ([], EX_LATER))
    expect_in("the error", told.words, "sleeping: a/m 29.9s, b/m 59.9s")


async def half_open(stand: Stand) -> None:
    text = STRICT + accounts("a", "b") + route("r", "a/m", "b/m")
    router = stand.router(text, scripts={"a": [DOWN, "well again"], "b": ["from b"]})
    await ask(router, "r")
    stand.clock.advance(30)
    async with aclosing(router.run("Is anybody there?", model="r")) as first:
        choice = await anext(first)
        expect("the first to come", isinstance(choice, Choice) and choice.path[-1].chosen, "a/m")
        second = await ask(router, "r")
        expect("served meanwhile by", second.record.served_by, "b/m")
        async for _ in first:
            pass
    expect("the first was served by", _last(router).served_by, "a/m")
    expect("and whoever comes after it, by", (await ask(router, "r")).record.served_by, "a/m")


# --- vendors and credentials ------------------------------------------------------------------------------------------


async def whole_answers(stand: Stand) -> None:
    names = {"chat": "openai-chat", "responses": "openai-responses", "messages": "anthropic-messages"}
    text = STRICT + "".join(wires.account(name, api) for name, api in names.items())
    router = stand.router(text, handler=lambda request: wires.answer(names[request.url.host.partition(".")[0]], "m"))
    for name in names:
        told = await ask(router, f"{name}/m")
        usage = told.record.usage
        found = (told.text, told.record.finish_reason, usage and usage.input_tokens, usage and usage.output_tokens)
        expect(names[name], found, (wires.TEXT, "stop", 7, 3))


#: API, status, the vendor's error, the class it is
SAID: Sequence[tuple[str, int, Mapping[str, str], str]] = (
    ("openai-chat", 401, {"code": "invalid_api_key", "message": "Incorrect API key provided"}, "auth"),
    ("openai-chat", 429, {"code": "insufficient_quota", "message": "You exceeded your current quota"}, "quota"),
    ("openai-chat", 429, {"code": "rate_limit_exceeded", "message": "Rate limit reached for m"}, "rate_limit"),
    ("openai-chat", 404, {"code": "model_not_found", "message": "The model m does not exist"}, "model_gone"),
    ("openai-chat", 400, {"code": "context_length_exceeded", "message": "Too many tokens"}, "context"),
    ("openai-chat", 400, {"code": "content_filter", "message": "Refused by policy"}, "content_filter"),
    ("openai-chat", 503, {"message": "The engine is overloaded"}, "transient"),
    ("anthropic-messages", 401, {"type": "authentication_error", "message": "invalid x-api-key"}, "auth"),
    ("anthropic-messages", 400, {"type": "invalid_request_error", "message": "credit balance is too low"}, "quota"),
    ("anthropic-messages", 429, {"type": "rate_limit_error", "message": "Number of requests"}, "rate_limit"),
    ("anthropic-messages", 529, {"type": "overloaded_error", "message": "Overloaded"}, "transient"),
    ("anthropic-messages", 400, {"type": "invalid_request_error", "message": "messages: at least one"}, "request"),
)


async def told_apart(stand: Stand) -> None:
    for api, status, error, wanted in SAID:
        found = await _fault(stand, api, wires.refusal(status, error))
        expect(f"{api}, {status} {error['message']}", found, wanted)


async def _fault(stand: Stand, api: str, response: httpx2.Response) -> str:
    """The class of fault that a vendor module makes of an answer."""
    router = stand.router(wires.account("a", api))
    provider = router.config.providers["a"]
    request = router.request("Is anybody there?")
    secret = Secret("placeholder", source="drill")
    call = VendorCall(provider=provider, model="m", request=request, secret=secret, connect=1.0, alive=lambda: None)
    try:
        async with aclosing(stand.speakers(lambda _: response)[api].stream(call)) as events:
            async for _ in events:
                pass
    except VendorFault as raised:
        return raised.fault.kind
    return "no fault"


#: of no shape that a key usually has, so that only knowing them helps
CANARIES = {"WORK_KEY": "violet-Tandem-42-quarry", "HOME_KEY": "amber-Lintel-77-sonnet"}


def _keyed() -> str:
    return "".join(wires.account(id, key=f"env:{id.upper()}_KEY") for id in ("work", "home"))


async def spared(stand: Stand) -> None:
    """A refused key takes its own account out, for every model, and nobody else's."""

    def handler(request: httpx2.Request) -> httpx2.Response:
        refused = CANARIES["WORK_KEY"] in request.headers.get("authorization", "")
        no = {"code": "invalid_api_key", "message": "no"}
        return wires.refusal(401, no) if refused else wires.answer("openai-chat", "m")

    text = STRICT + _keyed() + route("r", "work/m", "work/n", "home/m")
    router = stand.router(text, handler=handler, environ=CANARIES)
    told = await ask(router, "r")
    expect("attempts", told.tried, [("work/m", "failed"), ("home/m", "success")])
    expect("the failed one", (told.attempts[0].kind, told.attempts[0].scope), ("auth", "credential"))
    asleep = [row.key for row in router.health() if row.state == "asleep"]
    expect("asleep", asleep, ["env:WORK_KEY"])
    again = await ask(router, "r")
    expect("attempts of the next request", again.tried, [("home/m", "success")])


async def unspoken(stand: Stand) -> None:
    """Vendors that repeat their own key, and each other's, in what they say."""

    def handler(request: httpx2.Request) -> httpx2.Response:
        said = "Incorrect API key provided: " + request.headers.get("authorization", "")
        if CANARIES["HOME_KEY"] in said:
            said += f" (and not {CANARIES['WORK_KEY']})"
        return wires.refusal(401, {"code": "invalid_api_key", "message": said})

    router = stand.router(STRICT + _keyed() + route("r", "work/m", "home/m"), handler=handler, environ=CANARIES)
    told = await ask(router, "r")
    expect("exit code", told.record.exit_code, EX_CREDENTIAL)
    expect_in("the error", told.words, "work/m", "home/m", "Incorrect API key provided")
    shown = "\n".join(_everything(router, told))
    for name, key in CANARIES.items():
        if key in shown:
            raise Failed(f"the key in {name} stands in what is printed")


def _everything(router: Router, told: Told) -> list[str]:
    """Every text that a surface may make of a request."""
    import traceback

    error = told.error
    return [
        told.words,
        *(traceback.format_exception(error) if error is not None else ()),
        repr(error),
        repr(told.attempts),
        str(document(told.record)),
        str(router.store.records(limit=9)),
        repr(router.health()),
        repr(router.config),
        repr(router.take_notices()),
        *router.store.warnings,
    ]


DRILLS: tuple[Drill, ...] = (
    Drill(name="ordered asks in the configured order", run=ordered),
    Drill(name="round-robin alternates", run=round_robin),
    Drill(name="weighted draws by weight", run=weighted),
    Drill(name="smooth shares 3:1 exactly", run=smooth),
    Drill(name="exhaustion surfaces an error", run=exhaustion),
    Drill(name="windows escalate: 30s, 1m0s, 2m0s", run=escalation),
    Drill(name="own success resets the windows", run=reset),
    Drill(name="nothing left stops and names the sleepers", run=sleepers),
    Drill(name="half-open lets one through", run=half_open),
    Drill(name="a synthetic provider falls through and is recorded", run=synthetic),
    Drill(name="the map applies per attempt", run=mapped),
    Drill(name="whole answers are read in every API", run=whole_answers),
    Drill(name="a cut stream is never a success", run=cut_stream),
    Drill(name="failures are told apart", run=told_apart),
    Drill(name="a refused key spares the other account", run=spared),
    Drill(name="no secret is printed", run=unspoken),
)


async def run(parts: Parts | None = None, drills: Sequence[Drill] = DRILLS) -> AsyncGenerator[Verdict, None]:
    """Each drill in turn, on parts of its own. A drill that raises anything, or hangs, has failed."""
    for drill in drills:
        stand = Stand(parts or Parts())
        yield await judged(drill.name, drill.run(stand), close=stand.close)


async def judged(name: str, work: Awaitable[object], *, close: Callable[[], None], kind: str = "drill") -> Verdict:
    """Await ``work`` and judge it by how it ends."""
    import asyncio

    began, detail = time.perf_counter(), ""
    try:
        async with asyncio.timeout(PATIENCE):
            await work
    except Failed as failed:
        detail = str(failed)
    except TimeoutError:
        detail = f"no end within {PATIENCE:.0f}s"
    except Exception as error:
        detail = f"{type(error).__name__}: {error}"
    finally:
        close()
    detail = Redactor().clean(" ".join(detail.split()))
    detail = detail if len(detail) <= LONGEST else detail[: LONGEST - 1] + "…"
    return Verdict(name=name, passed=not detail, detail=detail, seconds=time.perf_counter() - began, kind=kind)
