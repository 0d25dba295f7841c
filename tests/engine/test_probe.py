"""The probe alongside: a sleeping target is tried with a tiny question of ours while somebody else serves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from routekit.core.record import RequestRecord, from_document
from routekit.router import Router
from routekit.state import open_store
from routekit.vendors.scripted import Vendor

TOML = """
version = 1
[providers.a]
api = "scripted"
params.script = ["never asked by text"]
[providers.b]
api = "scripted"
params.script = ["b answers"]
[routes.r]
targets = ["a/m", "b/m"]
"""
DOWN = {"fault": "transient", "status": 503, "message": "down"}


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class World:
    """Two scripted vendors behind one route; ``a`` is down until it is healed."""

    def __init__(self, toml: str = TOML) -> None:
        self.clock, self.up = Clock(), False
        self.calls: list[tuple[str, str]] = []
        vendor = Vendor(script=[self._step], sleep=lambda seconds: asyncio.sleep(0))
        self.router = Router.from_toml(toml, state=open_store(None), speakers={"scripted": vendor}, now=self.clock)

    def _step(self, call: Any) -> Any:
        self.calls.append((call.provider.id, str(call.request.messages[-1].content)))
        return "fine" if call.provider.id == "b" or self.up else DOWN

    async def _ask(self) -> str | None:
        answer = await self.router.aask("my own words", model="r")
        await self.router.end_probes(5.0)
        return answer.served_by

    def ask(self, *, after: float = 0.0) -> str | None:
        self.clock.now += after
        self.calls.clear()
        return asyncio.run(self._ask())

    def standing(self) -> Any:
        return next(row for row in self.router.health() if row.key == "a/m")

    def probes(self) -> list[RequestRecord]:
        rows = [from_document(row) for row in self.router.store.records(limit=100)]
        return [row for row in rows if row.surface == "probe"]


@pytest.fixture
def world() -> World:
    """``a`` has failed twice: it sleeps for a minute, from now on."""
    found = World()
    assert found.ask() == "b/m"
    assert found.ask(after=30.0) == "b/m"
    assert found.standing().rung == 2
    return found


def test_a_sleeping_target_is_probed_while_another_serves(world: World) -> None:
    assert world.ask(after=30.0) == "b/m"
    assert sorted(provider for provider, _ in world.calls) == ["a", "b"]


def test_a_probe_never_carries_the_persons_words(world: World) -> None:
    world.ask(after=30.0)
    assert [text for provider, text in world.calls if provider == "a"] == ["Hi"]


def test_a_probe_is_due_only_after_probe_every(world: World) -> None:
    world.ask(after=29.0)
    assert [provider for provider, _ in world.calls] == ["b"]


def test_a_failed_probe_keeps_the_rung_and_never_shortens_the_window(world: World) -> None:
    end = world.standing().until
    world.ask(after=30.0)
    after = world.standing()
    assert (after.rung, after.state) == (2, "asleep")
    assert after.until == max(end, world.clock.now + 60.0)


def test_the_next_probe_waits_its_time_after_a_failed_one(world: World) -> None:
    world.ask(after=30.0)
    world.ask(after=10.0)
    assert [provider for provider, _ in world.calls] == ["b"]


def test_a_healed_target_serves_the_next_request_after_its_probe(world: World) -> None:
    world.up = True
    assert world.ask(after=30.0) == "b/m"
    assert world.ask(after=1.0) == "a/m"
    assert world.standing().rung == 0


def test_probes_are_recorded_as_probes_and_are_nobodys_last_answer(world: World) -> None:
    world.ask(after=30.0)
    assert [(row.reference, row.attempts[0].outcome) for row in world.probes()] == [("a/m", "probe")]
    assert world.router.why().served_by == "b/m"


def test_probe_false_turns_it_off() -> None:
    world = World(TOML + "\n[health]\nprobe = false\n")
    world.ask()
    world.ask(after=30.0)
    world.ask(after=30.0)
    assert [provider for provider, _ in world.calls] == ["b"]


def test_a_window_the_vendor_stated_is_never_probed(world: World) -> None:
    stated = {"fault": "rate_limit", "status": 429, "hint": 3600.0}
    other = World()
    other._step = lambda call: stated if call.provider.id == "a" else "fine"  # type: ignore[method-assign]
    other.router._speakers["scripted"] = Vendor(script=[lambda call: other._step(call)])
    other.ask()
    other.ask(after=60.0)
    assert not other.probes()
