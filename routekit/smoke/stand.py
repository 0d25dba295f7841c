"""What drills stand on: routers made of real parts, a clock set by hand, vendors that do as they are told.

Nothing here opens a connection, or reads a file, a keyring or the environment of the person.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..config.paths import Paths
from ..core.record import Attempt, RequestRecord
from ..core.select import Registry, built_in
from ..core.value import Value
from ..credentials import Redactor
from ..errors import RoutekitError
from ..router import Router
from ..state import StateStore, open_store
from ..testing import Clock, Vendor
from ..vendors import Vendor as AnyVendor
from ..vendors import vendor_for

if TYPE_CHECKING:
    import httpx2

#: below a file nothing can be: whoever would read or write there is told so at once
NOWHERE = Paths(config_file=os.path.join(os.devnull, "config.toml"), state_dir=os.devnull)

Handler = Callable[["httpx2.Request"], "httpx2.Response"]


def memory() -> StateStore:
    return open_store(None)


class Parts(Value):
    """What the drills try: each is made anew for each drill. Whoever puts in a broken one sees its drill fail."""

    registry: Callable[[], Registry] = built_in
    store: Callable[[], StateStore] = memory
    vendor: Callable[..., AnyVendor] = vendor_for
    redactor: Callable[[], Redactor] = Redactor


class Failed(Exception):
    """What a drill found is not what it must find."""


def expect(what: str, found: object, wanted: object) -> None:
    """Not an ``assert``: those are left out where Python is told to optimise."""
    if found != wanted:
        raise Failed(f"{what}: {found!r} instead of {wanted!r}")


def expect_in(what: str, text: str, *wanted: str) -> None:
    for part in wanted:
        if part not in text:
            raise Failed(f"{what}: {part!r} is missing in {text!r}")


class Told(Value):
    """How one question ended: ``error`` is what a person would be shown, empty where it was answered."""

    record: RequestRecord
    text: str = ""
    error: RoutekitError | None = None

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return self.record.attempts

    @property
    def tried(self) -> list[tuple[str, str]]:
        return [(row.target, row.outcome) for row in self.attempts]

    @property
    def words(self) -> str:
        return "\n".join(self.error.lines()) if self.error is not None else ""


class Stand:
    """The surroundings of one drill."""

    def __init__(self, parts: Parts) -> None:
        self.parts, self.clock, self.scripted = parts, Clock(), Vendor({})
        self._routers: list[Router] = []

    def router(
        self,
        toml: str,
        *,
        scripts: Mapping[str, Any] | None = None,
        handler: Handler | None = None,
        environ: Mapping[str, str] | None = None,
        draws: Iterable[float] = (),
    ) -> Router:
        """A router over a configuration as text. ``scripts`` say what accounts of the API ``scripted`` do;
        ``handler`` answers for all others, to the real SDKs."""
        speakers: dict[str, AnyVendor] = {"scripted": self.scripted}
        if handler is not None:
            speakers |= self.speakers(handler)
        self.scripted.scripts |= dict(scripts or {})
        numbers = iter(draws)
        made = Router.from_toml(
            f"version = 1\n{toml}",
            state=self.parts.store(),
            paths=NOWHERE,
            environ=environ or {},
            registry=self.parts.registry(),
            redactor=self.parts.redactor(),
            speakers=speakers,
            now=self.clock,
            draw=lambda: next(numbers, 0.0),
        )
        self._routers.append(made)
        return made

    def speakers(self, handler: Handler) -> dict[str, AnyVendor]:
        """The real vendor modules over the real SDKs; what they would send goes to ``handler``."""
        import httpx2

        apis = ("openai-chat", "openai-responses", "anthropic-messages")
        return {api: self.parts.vendor(api, transport=httpx2.MockTransport(handler)) for api in apis}

    @property
    def calls(self) -> list[str]:
        """``provider/model`` as sent, of every call that reached a scripted account."""
        return [f"{call.provider.id}/{call.model}" for call in self.scripted.calls]

    def close(self) -> None:
        for router in self._routers:
            router.close()


async def ask(router: Router, model: str, **how: Any) -> Told:
    """One question, whatever becomes of it."""
    try:
        answer = await router.aask("Is anybody there?", model=model, **how)
    except RoutekitError as error:
        record = router.last_record()
        if record is None:
            raise
        return Told(record=record, error=router.set_aside(error))
    return Told(record=answer.record, text=answer.text)


def accounts(*ids: str, more: str = "") -> str:
    return "".join(f'[providers.{id}]\napi = "scripted"\n{more}\n' for id in ids)


def route(id: str, *targets: str, more: str = "") -> str:
    listed = ", ".join(f'"{target}"' for target in targets)
    return f"[routes.{id}]\ntargets = [{listed}]\n{more}\n"
