"""The state of one process, for drills and tests, and where a person wants nothing on disk.

It must not touch a file, and forgets everything with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from routekit.state import Step, T
from routekit.state.records import Row, matching, pack, unpack


class MemoryStore:
    mode = "memory"

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._values: dict[str, bytes] = {}
        self._rows: list[Row] = []
        self._lock = threading.RLock()

    def transact(self, keys: Iterable[str], step: Step[T], *, patience: float = 1.0) -> T:
        with self._lock:
            result, writes = step(self.peek(keys))
            kept = {**self._values, **writes}
            self._values = {key: value for key, value in kept.items() if value is not None}
            return result

    def peek(self, keys: Iterable[str]) -> dict[str, bytes]:
        with self._lock:
            return {key: self._values[key] for key in keys if key in self._values}

    def scan(self, prefix: str) -> dict[str, bytes]:
        with self._lock:
            return {key: self._values[key] for key in sorted(self._values) if key.startswith(prefix)}

    def record(self, id: str, time: float, document: Mapping[str, Any]) -> None:
        try:
            row = pack(id, time, document)
        except Exception as error:
            self.warnings.append(f"the record {id} could not be kept: {type(error).__name__}")
            return
        with self._lock:
            self._rows.append(row)

    def records(self, *, id: str | None = None, limit: int = 1) -> list[dict[str, Any]]:
        with self._lock:
            return [unpack(row) for row in matching(self._rows, id=id, limit=limit)]

    def prune(self, before: float) -> None:
        with self._lock:
            self._rows = [row for row in self._rows if row.time >= before]

    def close(self) -> None:
        """Nothing to let go of: a closed store may be used again, as the file's may."""
