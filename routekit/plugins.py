"""Selection algorithms of other packages, found by the entry-point group ``routekit.algorithms``.

The installed packages are looked through only when a configuration names an algorithm that is not known otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .core.select import Factory, Registry
from .errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "routekit.algorithms"


class Algorithms(Registry):
    """A registry whose unknown names are looked for among the installed packages. As a collection it holds every name
    a configuration may use."""

    def __init__(self, known: Registry) -> None:
        super().__init__({name: known.resolve(name) for name in known.names()})
        self._absent: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (self.has(name) or self._entry(name) is not None)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.names(), *_entries()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def resolve(self, name: str) -> Factory:
        """Raises ``ConfigError`` where a package offers the algorithm and cannot be loaded."""
        entry = None if self.has(name) else self._entry(name)
        if entry is not None:
            self.register(name, _loaded(entry))
        return super().resolve(name)

    def _entry(self, name: str) -> EntryPoint | None:
        found = None if name in self._absent else _entries().get(name)
        if found is None:
            self._absent.add(name)
        return found


def _entries() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _loaded(entry: EntryPoint) -> Factory:
    try:
        factory: Factory = entry.load()
    except Exception as error:  # a package of somebody else's raises anything
        package = entry.dist.name if entry.dist is not None else entry.value
        raise ConfigError(
            f"the selection algorithm '{entry.name}' of {package} cannot be loaded: {type(error).__name__}: {error}",
            hints=[f"pip install --upgrade {package}"],
        ) from None
    return factory
