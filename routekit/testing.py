"""For tests of code that asks through routekit: scripted vendors, a clock that moves when told, a log of attempts.

    from routekit import testing

    def test_the_backup_serves_while_the_primary_sleeps():
        clock = testing.Clock()
        router = testing.router_from(
            TOML,                                     # providers "a" and "b", a route over a/m and b/m
            clock=clock,
            scripts={"a": [testing.fails("transient", status=503), "back again"], "b": ["hi"]},
        )
        assert router.ask("hello").text == "hi"
        assert testing.attempts(router) == [("a/m", "failed"), ("a/m", "failed"), ("b/m", "success")]
        clock.advance(31)                             # a cool-down begins with 30 s
        assert router.ask("hello").served_by == "a/m"

The router is the real one; only vendors, clock, chance and keys are replaced. Nothing here opens a socket, reads a
keyring or an environment, or touches the user's files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .core.chat import Request
from .core.config import Provider
from .core.faults import FAULTS
from .core.keyref import CredentialRef
from .core.plan import Leaf, Plan
from .core.record import RequestRecord, from_document
from .credentials import Secret
from .errors import UsageError
from .keychain import Keychain
from .router import Router
from .state import StateStore, open_store
from .vendors import VendorCall
from .vendors.scripted import Script, Step
from .vendors.scripted import Vendor as ScriptedVendor

APIS = ("openai-chat", "openai-responses", "anthropic-messages", "scripted")


class Clock:
    """Wall-clock seconds that stand still until ``advance`` or ``set``. Limits of a running attempt (``first_output``,
    ``stall`` …) are measured in real time, not by this."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def set(self, now: float) -> None:
        self._now = now


def fails(kind: str, *, message: str = "scripted failure", **more: Any) -> Mapping[str, Any]:
    """A script step that fails with a fault class (``transient``, ``rate_limit``, ``auth`` …). ``more``: ``status``,
    ``code``, ``hint`` (seconds the vendor asks to wait), ``parameter``. Raises ``UsageError`` for an unknown class."""
    if kind not in FAULTS:
        raise UsageError(f"unknown fault class '{kind}': known are {', '.join(FAULTS)}")
    return {"fault": kind, "message": message, **more}


def answers(text: str, **more: Any) -> Mapping[str, Any]:
    """A script step that answers. ``more``: ``usage`` (a table of counts), ``finish``, ``reasoning``, ``tool_calls``,
    ``cut_after``, ``delay`` …, as in ``vendors.scripted``."""
    return {"text": text, **more}


class Vendor(ScriptedVendor):
    """A scripted vendor for every provider at once. ``calls`` lists every call that reached it, in order."""

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        super().__init__()
        self.scripts = dict(scripts)

    def script_of(self, call: VendorCall) -> Any:
        return self.scripts.get(call.provider.id, super().script_of(call))


class Placeholders(Keychain):
    """Keys that nobody needs to have."""

    async def secret(self, provider: Provider) -> Secret | None:
        return Secret("placeholder-key", source="test")

    async def resolve(self, ref: CredentialRef, *, variable: str | None) -> Secret | None:
        return Secret("placeholder-value", source="test")

    def blocked(self, plan: Plan) -> Mapping[str, str]:
        return {}


class TestRouter(Router):
    """A router that needs no key, never probes alongside unless asked to, and knows what its vendors were asked."""

    __test__ = False
    keychain = Placeholders
    vendors: Vendor
    probes = False

    def alongside(self, plan: Plan, serving: Leaf) -> None:
        if self.probes:
            super().alongside(plan, serving)

    @property
    def requests(self) -> list[tuple[str, Request]]:
        """(``provider/model`` as sent, request) of every call that reached a vendor, in order."""
        return [(f"{call.provider.id}/{call.model}", call.request) for call in self.vendors.calls]


def router_from(
    toml: str,
    *,
    scripts: Mapping[str, Iterable[Step] | Mapping[str, Iterable[Step]]] | None = None,
    clock: Clock | None = None,
    state: StateStore | None = None,
    draws: Iterable[float] = (),
    probes: bool = False,
    **more: Any,
) -> TestRouter:
    """A router over a configuration as text, with a memory and a log of its own. ``scripts``: provider id →
    what its calls meet, step by step, the last repeating (texts, ``answers(…)``, ``fails(…)``, or a function of the
    call), or a table from model names to such lists. Providers of every API are scripted; one without a script, here
    or in its ``params.script``, fails as ``setup``. ``draws``: the random numbers ``weighted`` groups use, in order,
    then 0.5. ``more`` goes to ``Router`` (``algorithms`` …). Raises ``ConfigError``."""
    vendor = Vendor({name: _steps(name, steps) for name, steps in (scripts or {}).items()})
    numbers = iter(draws)
    router = TestRouter.from_toml(
        toml,
        state=state or open_store(None),
        speakers=dict.fromkeys(APIS, vendor),
        now=clock or Clock(),
        draw=lambda: next(numbers, 0.5),
        environ={},
        **more,
    )
    assert isinstance(router, TestRouter), "from_toml makes what it is called on"
    router.vendors, router.probes = vendor, probes
    unknown = [name for name in vendor.scripts if name not in router.config.providers]
    if unknown:
        raise UsageError(f"there is no provider {', '.join(unknown)} in this configuration to script")
    return router


def _steps(provider: str, steps: Any) -> Script:
    if isinstance(steps, str):
        raise UsageError(f"the script of {provider} is a list of steps: write [{steps!r}]")
    return steps if isinstance(steps, Mapping) else list(steps)


def records(router: Router) -> list[RequestRecord]:
    """Every request of this router, oldest first."""
    return [from_document(row) for row in reversed(router.store.records(limit=1_000_000))]


def attempts(router: Router) -> list[tuple[str, str]]:
    """(target, outcome) of every attempt of every request, in order: outcomes are ``success``, ``failed``,
    ``truncated``, ``cancelled`` and ``probe``."""
    return [(row.target, row.outcome) for record in records(router) for row in record.attempts]
