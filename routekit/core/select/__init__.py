"""The contract every selection algorithm keeps, and the registry that finds one by name. It knows no algorithm itself.

    factory(context) -> algorithm
    algorithm.select(group, state, call)              -> index | None    pure; also run as the probe "is anyone left?"
    algorithm.on_dispatch(group, state, call, index)  -> state           the turn is spent here, before the call starts
    algorithm.on_failure / on_success(…)              -> state           optional
    algorithm.keeps(group, index)                     -> bool            optional: may a session keep this pick?

``state`` is a small JSON value, ``None`` at first; whatever is returned is stored for every process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from ...errors import UsageError
from ..value import Value

State = Any


class Child(Value):
    """A candidate as an algorithm sees it."""

    label: str
    weight: int = 1
    ready: bool = True
    demoted: bool = False


class GroupView(Value):
    id: str
    children: tuple[Child, ...]


class Pick(Value):
    """The request, as far as an algorithm may know it. ``r`` is uniform in [0, 1), drawn once per request and group
    before the transaction; ``tried`` holds the labels given up in this request; ``extras`` belongs to the algorithm and
    dies with the request."""

    r: float = 0.0
    tried: frozenset[str] = frozenset()
    session: str | None = None
    extras: Mapping[str, Any] = {}


class Context(Value):
    """What a factory is told about the group it will serve."""

    group: str
    members: tuple[str, ...]
    weights: tuple[int, ...]
    options: Mapping[str, Any] = {}


@runtime_checkable
class Algorithm(Protocol):
    def select(self, group: GroupView, state: State, call: Pick) -> int | None: ...

    def on_dispatch(self, group: GroupView, state: State, call: Pick, index: int) -> State: ...


Factory = Callable[[Context], Algorithm]


class Registry:
    """Names to factories; a value owned by one ``Router``."""

    def __init__(self, rows: Mapping[str, Factory] | None = None) -> None:
        self._rows: dict[str, Factory] = dict(rows or {})

    def register(self, name: str, factory: Factory) -> Registry:
        """Add one. Raises ``UsageError`` for an empty name, a factory that cannot be called, or a name taken."""
        if not isinstance(name, str) or not name.strip():
            raise UsageError("a selection algorithm needs a name")
        if not callable(factory):
            raise UsageError(f"selection algorithm '{name}': the factory cannot be called")
        if name in self._rows:
            raise UsageError(f"selection algorithm '{name}' is already registered")
        self._rows[name] = factory
        return self

    def resolve(self, name: str) -> Factory:
        if name not in self._rows:
            raise UsageError(f"unknown selection '{name}': registered are {', '.join(self._rows) or 'none'}")
        return self._rows[name]

    def has(self, name: str) -> bool:
        return name in self._rows

    def names(self) -> tuple[str, ...]:
        return tuple(self._rows)


def built_in() -> Registry:
    """A new registry with routekit's own algorithms."""
    from .ordered import Ordered
    from .round_robin import RoundRobin
    from .smooth import Smooth
    from .weighted import Weighted

    rows: dict[str, Factory] = {
        "ordered": Ordered,
        "priority": Ordered,
        "round-robin": RoundRobin,
        "weighted": Weighted,
        "smooth": Smooth,
    }
    return Registry(rows)
