"""The probe alongside: while somebody else serves, a sleeping target is asked something tiny now and then, so that it
is back soon after it has healed. It never delays an answer and never sends a word of the person's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from .core import judge as judging
from .core.chat import Message, Request
from .core.config import Api, Config
from .core.health import due_for_probe
from .core.plan import Branch, Group, Leaf, Plan
from .core.select import Algorithm
from .errors import RoutekitError

if TYPE_CHECKING:
    import asyncio

    from .dispatch import Engine

#: the smallest answer each API can be limited to, where it is not one token
SMALLEST: Mapping[Api, int] = {"openai-responses": 16}


def due(config: Config, plan: Plan, values: judging.Values, now: float) -> list[Leaf]:
    """The leaves that sleep in a window we guessed and that nobody has tried for ``probe_every``; nobody is probing."""
    found = []
    for leaf in plan.leaves:
        raw = values.get(leaf.target_key)
        if raw and due_for_probe(judging.read_standing(raw), config.providers[leaf.provider].health, now):
            found.append(leaf)
    return found


def alone(leaf: Leaf) -> Plan:
    """A plan of that leaf only: a probe's walk has nowhere else to go."""
    leaf = msgspec.structs.replace(leaf, index=0)
    branch = Branch(kind="leaf", index=0, label=leaf.label)
    group = Group(
        index=0,
        id=leaf.label,
        label=leaf.label,
        algorithm="ordered",
        children=(branch,),
        sticky=False,
        turn_key=f"turn:probe:{leaf.label}",
    )
    return Plan(reference=leaf.label, groups=(group,), leaves=(leaf,), pinned=True, attempts=1, last_resort="never")


def question(config: Config, leaf: Leaf) -> Request:
    """A fixed question with the smallest answer the API allows; stopping at that limit is a success."""
    most = SMALLEST.get(config.providers[leaf.provider].api, 1)
    return Request(messages=(Message(role="user", content="Hi"),), options={"max_tokens": most})


class Probes:
    """The probes of one engine that are under way. ``may`` (the sleeping leaf, the serving one) tells whether a probe
    costs nobody anything; ``select`` gives a plan's selections."""

    def __init__(
        self,
        engine: Engine,
        *,
        select: Callable[[Plan], Sequence[Algorithm]],
        may: Callable[[Leaf, Leaf], bool],
    ) -> None:
        self._engine, self._select, self._may = engine, select, may
        self._under_way: set[asyncio.Task[None]] = set()

    def start(self, plan: Plan, serving: Leaf) -> None:
        """While ``serving`` answers: start the probe of one sleeping target that is due for one. Never waits."""
        if len(plan.leaves) < 2:
            return
        engine = self._engine
        values = engine.store.peek([leaf.target_key for leaf in plan.leaves])
        ready = [leaf for leaf in due(engine.config, plan, values, engine.now()) if self._may(leaf, serving)]
        if ready:
            import asyncio

            task = asyncio.get_running_loop().create_task(self._probe(ready[0]))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _probe(self, leaf: Leaf) -> None:
        from .dispatch import Dispatch, Order

        plan, config = alone(leaf), self._engine.config
        how: dict[str, Any] = {"live": False, "failover": False, "probe": True, "surface": "probe"}
        order = Order(request=question(config, leaf), plan=plan, config=config, **how)
        try:
            async with aclosing(Dispatch(self._engine, order, self._select(plan)).run()) as steps:
                async for _ in steps:
                    pass
        except RoutekitError:
            # Its record says how it went; nobody waits for it.
            return

    async def end(self, patience: float) -> None:
        """Let probes under way come to their verdict, at most ``patience`` seconds; then they are cancelled."""
        import asyncio

        under_way = list(self._under_way)
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=patience)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
