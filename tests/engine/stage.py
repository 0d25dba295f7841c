"""A stage for one router: scripted accounts, a clock that is moved by hand, and a list of who was called.

It scripts vendors and nothing else: choosing, settling and recording are routekit's own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

from routekit.answer import Answer
from routekit.core.faults import Fault, VendorFault
from routekit.core.record import RequestRecord
from routekit.errors import RoutekitError
from routekit.loop import run
from routekit.router import Router
from routekit.state import StateStore, open_store
from routekit.vendors import VendorCall
from routekit.vendors.scripted import Vendor

NOW = 1_700_000_000.0
Step = str | Mapping[str, Any]


def accounts(*ids: str, more: str = "") -> str:
    return "".join(f'[providers."{id}"]\napi = "scripted"\n{more}\n' for id in ids)


def remote(*ids: str) -> str:
    """Accounts on hosts of their own, scripted all the same."""
    return "".join(
        f'[providers.{id}]\napi = "openai-chat"\nbase_url = "https://{id}.example"\nkey = "none"\n' for id in ids
    )


def down(kind: str = "unknown", message: str = "down", **more: Any) -> Mapping[str, Any]:
    return {"fault": kind, "message": message, **more}


class Stage:
    """``scripts``: by provider, or by ``provider/model``; each call takes the next step, the last repeats. Besides what
    ``vendors.scripted`` takes a step may be a ``Fault``, or ``...``: the call says nothing until the test ends.
    Unscripted accounts answer with their own id."""

    def __init__(
        self,
        text: str,
        scripts: Mapping[str, Iterable[Any]] | None = None,
        *,
        state: StateStore | None = None,
        draw: float = 0.0,
        speaker: Vendor | None = None,
        **more: Any,
    ) -> None:
        self.now = NOW
        self.calls: list[str] = []
        self.made: list[VendorCall] = []
        self._scripts = {name: list(steps) for name, steps in (scripts or {}).items()}
        self._taken: dict[str, int] = {}
        speaker = speaker or Vendor(script=[self._step])
        self.router = Router.from_toml(
            "version = 1\n" + text,
            state=state or open_store(None),
            speakers={"scripted": speaker, "openai-chat": speaker},
            now=lambda: self.now,
            draw=lambda: draw,
            **more,
        )

    def _step(self, call: VendorCall) -> Any:
        target = f"{call.provider.id}/{call.model}"
        self.calls.append(target)
        self.made.append(call)
        name = target if target in self._scripts else call.provider.id
        steps = self._scripts.get(name, [call.provider.id])
        at = self._taken[name] = self._taken.get(name, 0) + 1
        step = steps[min(at, len(steps)) - 1]
        if isinstance(step, Fault):
            raise VendorFault(step)
        if step is ...:
            return {"text": "", "first": 3600}
        return step(call) if callable(step) else step

    def script(self, name: str, *steps: Any) -> None:
        self._scripts[name] = list(steps)
        self._taken.pop(name, None)

    def ask(self, model: str = "r", **how: Any) -> Answer:
        return run(self.router.aask("hello", model=model, **how))

    def fails(self, model: str = "r", **how: Any) -> RoutekitError:
        try:
            answer = self.ask(model, **how)
        except RoutekitError as error:
            return error
        raise AssertionError(f"it was answered: {answer}")

    def live(self, model: str = "r", **how: Any) -> tuple[str, RoutekitError | None]:
        """What a reader of a live stream was shown, and the error it ended with."""
        shown: list[str] = []

        async def read() -> None:
            async for delta in self.router.astream("hello", model=model, **how):
                shown.append(delta.text)

        try:
            run(read())
        except RoutekitError as error:
            return "".join(shown), error
        return "".join(shown), None

    def happenings(self, model: str = "r", **how: Any) -> AsyncGenerator[Any, None]:
        return self.router.run("hello", model=model, **how)

    def record(self) -> RequestRecord:
        found = self.router.last_record()
        assert found is not None
        return found

    def causes(self) -> list[str]:
        """The last request's attempts as (target, class)."""
        return [f"{row.target} {row.kind or row.outcome}" for row in self.record().attempts]

    def asleep(self) -> dict[str, float]:
        """Everything that sleeps, with the seconds left."""
        rows = self.router.health()
        return {row.key: round(row.until - self.now, 3) for row in rows if row.state == "asleep" and row.until}
