"""The person's own routes, walked with their targets failing. Scripted accounts stand in for the vendors: nothing is
sent, and nothing that is remembered of the real ones is read or changed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from ..core.config import Config
from ..core.decide import Choice
from ..core.plan import Leaf, Plan
from ..core.words import plural
from ..router import Router
from ..state import open_store
from ..testing import APIS, Clock, TestRouter, Vendor, fails
from ..vendors import VendorCall
from .drills import Verdict, judged
from .stand import Failed, Told, ask, expect

#: scripts fail so: over to the next target, and no second try at the same one
DOWN = fails("timeout", message="failed by this drill")


async def run(router: Router) -> AsyncGenerator[Verdict, None]:
    """Each route of the configuration with its first choice failing, then with all of its targets failing."""
    for route in router.config.routes.values():
        if not route.enabled:
            continue
        for words, walk in (("its first target fails", first_fails), ("all targets fail", all_fail)):
            double = Double(router)
            work = walk(double, f"route/{route.id}")
            yield await judged(f"{route.id}: {words}", work, close=double.close, kind="route")


class Double:
    """The same configuration, catalogs and selections over scripted accounts; for each question a memory and a clock of
    its own. Budgets are left out, and nobody is waited for: what is tried is who comes after whom."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._made: list[Router] = []

    def router(self, down: Callable[[str], bool]) -> TestRouter:
        """``down`` says of a ``provider/model`` whether it fails."""

        class Scripted(Vendor):
            def script_of(self, call: VendorCall) -> list[Any]:
                return [DOWN if down(f"{call.provider.id}/{call.model}") else "Here I am."]

        real = self._router
        one = TestRouter(
            paths=real.paths,
            config=_without_waits(real.config),
            state=open_store(None),
            registry=real.registry,
            speakers=dict.fromkeys(APIS, Scripted({})),
            now=Clock(real.now()),
            draw=lambda: 0.5,
            environ={},
        )
        self._made.append(one)
        return one

    def close(self) -> None:
        for one in self._made:
            one.close()


def _without_waits(config: Config) -> Config:
    change = msgspec.structs.replace
    providers = {
        id: change(
            row, budget=None, model_info={name: change(info, budget=None) for name, info in row.model_info.items()}
        )
        for id, row in config.providers.items()
    }
    routes = {id: change(row, budget=None, last_resort="never") for id, row in config.routes.items()}
    return change(config, providers=providers, routes=routes)


def _usable(plan: Plan, now: float) -> list[Leaf]:
    return [leaf for leaf in plan.leaves if leaf.until is None or now < leaf.until]


async def first_fails(double: Double, model: str) -> None:
    healthy = double.router(lambda _: False)
    plan = healthy.plan(model)
    first = plan.leaves[await _first_choice(healthy, model)]
    told = await ask(double.router(lambda target: target == first.target), model)
    spare = [leaf for leaf in _usable(plan, healthy.now()) if leaf.target != first.target]
    if not spare or plan.attempts < 2:
        # One target, or one attempt, is what was asked for: then its failure is the route's, and is told as such.
        expect("who was tried", _distinct(told), [first.label])
        _told_honestly(told, [first])
        return
    expect("the first attempt", told.tried[:1], [(first.label, "failed")])
    if told.error is not None:
        raise Failed(f"nobody served, though only {first.label} failed: {told.error.message}")
    if told.record.first_choice != first.label or not told.record.why_not:
        raise Failed(f"the record does not say that {first.label} should have served")


async def all_fail(double: Double, model: str) -> None:
    failing = double.router(lambda _: True)
    plan = failing.plan(model)
    told = await ask(failing, model)
    reached = min(len(_usable(plan, failing.now())), plan.attempts)
    tried = [leaf for leaf in plan.leaves if leaf.label in _distinct(told)]
    if len(tried) < reached:
        raise Failed(f"{len(tried)} of {plural(reached, 'target')} tried: {', '.join(_distinct(told)) or 'none'}")
    _told_honestly(told, tried)


def _distinct(told: Told) -> list[str]:
    return list(dict.fromkeys(target for target, _ in told.tried))


def _told_honestly(told: Told, tried: list[Leaf]) -> None:
    """A failed request says so, names everybody it tried, and does not end as a success."""
    if told.error is None or told.record.exit_code == 0:
        raise Failed(f"answered by {told.record.served_by}, though everybody fails")
    missing = [leaf.label for leaf in tried if leaf.label not in told.words]
    if missing:
        raise Failed(f"the error does not name {', '.join(missing)}")


async def _first_choice(router: Router, model: str) -> int:
    """The leaf that the route would ask first, in a memory where nothing has happened yet."""
    from contextlib import aclosing

    async with aclosing(router.run("Is anybody there?", model=model)) as steps:
        async for step in steps:
            if isinstance(step, Choice):
                return step.leaf
    raise Failed("nobody was chosen")
