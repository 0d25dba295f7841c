"""The shared memory of all routekit processes: its contract. The implementations are ``sqlite`` and ``memory``.

Values are small JSON documents as bytes, one per key; the core decides what is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
#: the values of the asked keys (absent ones missing) → (result, the values to write; ``None`` deletes)
Step = Callable[[Mapping[str, bytes]], tuple[T, Mapping[str, bytes | None]]]


class StateStore(Protocol):
    """``transact`` runs a pure step over the named keys' values as one atomic transaction over all processes; the step
    may be run more than once. Keys are opaque text. ``record`` appends one finished request; it never raises."""

    #: what a person should be told about this store, once (it fell back to memory, a file was set aside …)
    warnings: list[str]

    @property
    def mode(self) -> str:
        """How it is kept, for ``doctor``: ``wal``, ``delete`` (a rollback journal) or ``memory``."""

    def transact(self, keys: Iterable[str], step: Step[T], *, patience: float = 1.0) -> T:
        """``patience``: the longest wait for other writers, in seconds; after it the store carries on in memory, with a
        warning. Choosing waits 1 s, settling 5 s."""

    def peek(self, keys: Iterable[str]) -> dict[str, bytes]: ...

    def scan(self, prefix: str) -> dict[str, bytes]:
        """All keys with that prefix; a read."""

    def record(self, id: str, time: float, document: Mapping[str, Any]) -> None: ...

    def records(self, *, id: str | None = None, limit: int = 1) -> list[dict[str, Any]]:
        """Newest first. ``id`` may be a unique prefix of an id; an ambiguous one gives two or more, whatever the limit.
        Each document carries ``id`` and ``time``."""

    def prune(self, before: float) -> None:
        """Forget records older than that wall-clock time."""

    def close(self) -> None: ...


def open_store(path: Path | None) -> StateStore:
    """The store in that file, opened at its first use; ``None``: in memory. Never raises."""
    if path is None:
        from routekit.state.memory import MemoryStore

        return MemoryStore()
    from routekit.state.sqlite import SqliteStore

    return SqliteStore(path)
