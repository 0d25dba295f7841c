"""A vendor without a network: it answers from a script, for the demo and for tests. It imitates outcomes, no wire.

The script is ``params["script"]`` of the provider (or ``Vendor(script=…)``): a list of steps, or a table from model
names to such lists (``"*"`` for the others). Each call takes the next step of its provider and model; the last repeats.
A step is a text (an answer), or a table of

    text        the answer; ``{prompt}`` stands for the start of what was asked, ``{model}`` for the model
    pieces      the answer already cut up (list of texts); else it is cut at its spaces
    reasoning   text sent before the answer as reasoning
    tool_calls  list of {id, name, arguments}
    first       seconds before anything comes;  delay: seconds before each piece
    finish      the finish reason (``stop``); usage: {input_tokens, output_tokens, …}; served: the model to claim
    headers     of the opened response;  events: a list of ``core.chat`` events, sent as they are
    cut_after   after so many pieces the stream breaks;  stall_after: after so many it falls silent
    fault       a fault class, raised instead of an answer, with message, status, code, hint, parameter
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from ..core.chat import Delta, Event, Finish, Opened, Usage
from ..core.faults import FAULTS, Fault, VendorFault
from . import VendorCall

#: a step as Python code may also give it: made when its call is made
Step = str | Mapping[str, Any] | Callable[[VendorCall], Any]
Script = Iterable[Step] | Mapping[str, Iterable[Step]]

_PROMPT_SHOWN = 60


class Vendor:
    """``sleep`` is what waiting means (a test's clock); ``calls`` lists every call made, for assertions."""

    api = "scripted"

    def __init__(
        self,
        *,
        script: Script | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        pause_gc: bool = True,
    ) -> None:
        self._script = script
        self._sleep = sleep
        self._next: dict[tuple[str, str], int] = {}
        self.calls: list[VendorCall] = []

    def load(self) -> None:
        """There is nothing to import."""

    async def close(self) -> None:
        """There is nothing to close."""

    async def stream(self, call: VendorCall) -> AsyncGenerator[Event, None]:
        self.calls.append(call)
        step = self._step(call)
        await self._wait(step.get("first"))
        if "fault" in step:
            raise VendorFault(_fault(step))
        call.alive()
        yield Opened(headers=step.get("headers", {}), request_id=f"scripted-{len(self.calls)}")
        for number, event in enumerate(_events(step, call)):
            if number == step.get("stall_after"):
                await asyncio.Event().wait()
            if number == step.get("cut_after"):
                kind = "truncated" if number else "transient"
                raise VendorFault(Fault(kind=kind, message="the script cut the stream here", answered=True))
            await self._wait(step.get("delay"))
            call.alive()
            yield event

    async def _wait(self, seconds: Any) -> None:
        if seconds:
            await self._sleep(float(seconds))

    def script_of(self, call: VendorCall) -> Any:
        """The script of one call's provider."""
        return self._script if self._script is not None else call.provider.params.get("script")

    def _step(self, call: VendorCall) -> Mapping[str, Any]:
        steps = _steps(self.script_of(call), call.model)
        key = (call.provider.id, call.model)
        position = self._next.get(key, 0)
        self._next[key] = position + 1
        step: Any = steps[min(position, len(steps) - 1)]
        if callable(step):
            step = step(call)
        if isinstance(step, str):
            return {"text": step}
        if isinstance(step, Mapping) and step.get("fault", "unknown") in FAULTS:
            return cast(Mapping[str, Any], step)
        raise _wrong("a step is a text or a table, its fault one of: " + ", ".join(FAULTS))


def _steps(script: Any, model: str) -> list[Any]:
    if isinstance(script, Mapping):
        script = script.get(model, script.get("*"))
    if not script or isinstance(script, str):
        raise _wrong(f"there are no steps for the model '{model}'")
    return list(script)


def _wrong(message: str) -> VendorFault:
    return VendorFault(Fault(kind="setup", message=f"params.script: {message}", delivered=False))


def _fault(step: Mapping[str, Any]) -> Fault:
    status = step.get("status")
    return Fault(
        kind=step["fault"],
        message=str(step.get("message", "the script says so")),
        status=status,
        code=step.get("code"),
        hint=step.get("hint"),
        parameter=step.get("parameter"),
        answered=status is not None,
        delivered=bool(step.get("delivered", True)),
    )


def _events(step: Mapping[str, Any], call: VendorCall) -> list[Event]:
    if "events" in step:
        return list(step["events"])
    events: list[Event] = []
    if step.get("reasoning"):
        events.append(Delta(kind="reasoning", text=step["reasoning"]))
    events += [Delta(text=piece) for piece in _pieces(step, call)]
    calls = step.get("tool_calls", ())
    events += [
        Delta(kind="tool", index=index, id=tool.get("id"), name=tool.get("name"), text=tool.get("arguments", "{}"))
        for index, tool in enumerate(calls)
    ]
    reason = step.get("finish", "tool_calls" if calls else "stop")
    return [*events, Finish(reason=reason, usage=_usage(step, call, events), model=step.get("served", call.model))]


def _pieces(step: Mapping[str, Any], call: VendorCall) -> list[str]:
    if "pieces" in step:
        return list(step["pieces"])
    text = str(step.get("text", "")).replace("{prompt}", _prompt(call)).replace("{model}", call.model)
    return re.findall(r"\s*\S+\s*$|\s*\S+", text)


def _prompt(call: VendorCall) -> str:
    asked = next((message.content for message in reversed(call.request.messages) if message.role == "user"), "")
    if isinstance(asked, tuple):
        asked = " ".join(part.get("text", "") for part in asked)
    line = " ".join((asked or "").split())
    return line if len(line) <= _PROMPT_SHOWN else line[: _PROMPT_SHOWN - 1] + "…"


def _usage(step: Mapping[str, Any], call: VendorCall, events: list[Event]) -> Usage:
    if "usage" in step:
        return Usage(**step["usage"])
    return Usage(input_tokens=max(1, call.request.characters() // 4), output_tokens=len(events))
