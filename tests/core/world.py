"""A small world for the pure core: a configuration, its plan, the store's values as a dict, and a clock set by hand.

It performs what a store and the loop would do between the core's functions, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from routekit.config.convert import Vendors
from routekit.config.file import Setting, from_text
from routekit.core import decide as heart
from routekit.core import settle as settling
from routekit.core.config import Catalog, Config, Health
from routekit.core.decide import Choice, Exhausted, Waiting
from routekit.core.faults import Fault
from routekit.core.health import CLEAR, Standing
from routekit.core.judge import Walk
from routekit.core.plan import Plan, expand
from routekit.core.select import Algorithm, Context, Registry, built_in
from routekit.core.settle import Try
from routekit.vendors.presets import API_DEFAULTS, PRESETS

NOW = 1_700_000_000.0


def configured(text: str, *, selections: tuple[str, ...] = ()) -> Config:
    vendors = Vendors(presets=PRESETS, defaults=API_DEFAULTS)
    setting = Setting(vendors=vendors, selections=(*built_in().names(), *selections), allow_scripted=True)
    return from_text("version = 1\n" + text, setting=setting)


def providers(*ids: str, more: str = "") -> str:
    """Scripted accounts."""
    return "".join(f'[providers."{id}"]\napi = "scripted"\n{more}\n' for id in ids)


def route(id: str, *targets: str, **settings: object) -> str:
    """``route("r", "a/m", "b/m 3")``: a number after a target is its weight."""
    listed = []
    for target in targets:
        name, _, weight = target.partition(" ")
        listed.append(f'{{ target = "{name}", weight = {weight} }}' if weight else f'"{name}"')
    lines = "".join(f"{key} = {_toml(value)}\n" for key, value in settings.items())
    return f"[routes.{id}]\ntargets = [{', '.join(listed)}]\n{lines}"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


class World:
    def __init__(
        self,
        text: str,
        asked: str = "r",
        *,
        catalogs: Mapping[str, Catalog] | None = None,
        registry: Registry | None = None,
        now: float = NOW,
    ) -> None:
        registry = registry or built_in()
        self.config = configured(text, selections=registry.names())
        self.plan: Plan = expand(self.config, catalogs or {}, asked)
        self.selectors: list[Algorithm] = [
            registry.resolve(group.algorithm)(
                Context(
                    group=group.id,
                    members=tuple(child.label for child in group.children),
                    weights=tuple(child.weight for child in group.children),
                )
            )
            for group in self.plan.groups
        ]
        self.values: dict[str, bytes] = {}
        self.now = now
        self._asked = 0

    def ask(self, **walk: Any) -> Asked:
        """A request on its way. ``r`` is its draw in every group."""
        self._asked += 1
        r = walk.pop("r", 0.5)
        walk.setdefault("id", f"request-{self._asked}")
        return Asked(self, Walk(draws=(r,) * len(self.plan.groups), **walk))

    def serve(self, **walk: Any) -> str:
        """One request from beginning to clean end; who served it."""
        asked = self.ask(**walk)
        label = asked.go()
        asked.finished()
        return label

    def fail(self, *labels: str, kind: str = "unknown", **fault: Any) -> None:
        """Let each of these fail once, as a request of its own would."""
        for label in labels:
            self._asked += 1
            self.settle(label, Fault(kind=kind, **fault), holder=f"request-{self._asked}")

    def settle(
        self, label: str, outcome: str | Fault, *, holder: str = "somebody", started: float | None = None
    ) -> None:
        leaf = self.leaf(label)
        done = Try(holder=holder, started=self.now if started is None else started, leaf=leaf)
        settings = self.config.providers[leaf.provider].health
        self.write(settling.settle(done, outcome, self.values, settings=settings, now=self.now))

    def write(self, writes: Mapping[str, bytes | None]) -> None:
        kept = {**self.values, **writes}
        self.values = {key: value for key, value in kept.items() if value is not None}

    def leaf(self, label: str) -> Any:
        return next(leaf for leaf in self.plan.leaves if leaf.label == label)

    def standing(self, key: str) -> Standing:
        raw = self.values.get(key)
        return msgspec.json.decode(raw, type=Standing) if raw else CLEAR

    def target(self, label: str) -> Standing:
        return self.standing(self.leaf(label).target_key)

    def credential(self, label: str) -> Standing:
        return self.standing(self.leaf(label).credential_key)

    def left(self, label: str) -> float | None:
        """Seconds left in the target's window; ``None`` without one."""
        window = self.target(label).window
        return window.left(self.now) if window else None

    def health(self) -> Health:
        return next(iter(self.config.providers.values())).health


class Asked:
    """One request, stepped by hand."""

    def __init__(self, world: World, walk: Walk) -> None:
        self.world, self.walk = world, walk
        self.choice: Choice | None = None
        self.started = world.now

    def outcome(self) -> Choice | Waiting | Exhausted:
        world = self.world
        outcome, writes = heart.decide(world.plan, world.selectors, world.values, walk=self.walk, now=world.now)
        world.write(writes)
        if isinstance(outcome, Choice):
            self.choice, self.started = outcome, world.now
            self.change(entered=outcome.entered)
        return outcome

    def go(self) -> str:
        outcome = self.outcome()
        assert isinstance(outcome, Choice), outcome
        return self.label

    @property
    def picked(self) -> Choice:
        assert self.choice is not None
        return self.choice

    @property
    def label(self) -> str:
        return self.world.plan.leaves[self.picked.leaf].label

    def change(self, **fields: Any) -> None:
        self.walk = msgspec.structs.replace(self.walk, **fields)

    def failed(self, kind: str = "unknown", **fault: Any) -> Asked:
        """The leaf is given up; the walk may go on."""
        self._settle(Fault(kind=kind, **fault))
        given = {**self.walk.given_up, self.picked.leaf: f"given up ({kind})"}
        self.change(given_up=given, first=False)
        return self

    def finished(self) -> None:
        self._settle("answered")
        self._settle("finished")

    def answered(self) -> None:
        self._settle("answered")

    def released(self) -> None:
        self._settle("released")

    def _settle(self, outcome: str | Fault) -> None:
        world = self.world
        leaf = world.plan.leaves[self.picked.leaf]
        done = Try(
            holder=self.walk.id,
            started=self.started,
            leaf=leaf,
            groups=tuple(world.plan.groups[at] for at in self.picked.groups),
            children=tuple(row.chosen for row in self.picked.path),
            session=self.walk.session,
            selectors=tuple(world.selectors[at] for at in self.picked.groups),
            extras=tuple(self.walk.extras[at] for at in self.picked.groups) if self.walk.extras else (),
        )
        settings = world.config.providers[leaf.provider].health
        world.write(settling.settle(done, outcome, world.values, settings=settings, now=world.now))
