"""The state that all routekit processes of one person share, in one SQLite file.

It must not fail a request: whatever is wrong with the file costs one warning, and the work goes on in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from routekit.state import Step, T
from routekit.state.database import Database, Unusable, transaction
from routekit.state.records import Row, matching, pack, unpack

#: Append only: a number once released stays what it is. Conversations have a file, and a list, of their own.
MIGRATIONS = (
    (
        "CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE records (id TEXT PRIMARY KEY, time REAL NOT NULL, document BLOB NOT NULL)",
        "CREATE INDEX records_by_time ON records (time)",
    ),
)
#: below the smallest parameter limit a build of SQLite may have (999)
CHUNK = 500
#: the last of all text that begins with a prefix, in the byte order of UTF-8
LAST = "\U0010ffff"
#: after the answer there is time (architecture.md §4)
AFTER = 5.0
#: records kept in memory while the file cannot be written
WAITING = 1000


class SqliteStore:
    """A long outage is survived by an overlay: what was decided in memory while the file could not be written. When the
    file comes back, an entry is carried over if the file still holds the value it was decided from, else it is dropped:
    the others' work counts more than ours. Waiting records are all carried over."""

    def __init__(self, path: Path, *, journal: str | None = None, after: float = AFTER) -> None:
        """``after``: the patience, in seconds, of what is written when the answer is already there. ``journal`` is
        asked of a new file only: ``wal`` or ``delete``; unset, the file system decides."""
        self.warnings: list[str] = []
        self._said: set[str] = set()
        self._fallen = False
        self._overlay: dict[str, tuple[bytes | None, bytes | None]] = {}  # key → (decided from, decided)
        self._waiting: list[Row] = []
        self._after = after
        self._database = Database(path, MIGRATIONS, warn=self._warn, journal=journal)

    @property
    def mode(self) -> str:
        """``wal``, ``delete`` (a rollback journal), or ``memory`` while the file cannot be written. Opens the file."""

        def work(connection: sqlite3.Connection) -> str:
            with transaction(connection):
                self._database.check_version(connection)
                # Removes nothing; on a read-only file the transaction alone would have begun as a mere read.
                connection.execute("DELETE FROM state WHERE key IS NULL")
                return str(connection.execute("PRAGMA journal_mode").fetchone()[0])

        try:
            return self._database.run(work, patience=1.0)
        except Unusable as error:
            self._fall_back(error)
            return "memory"

    def transact(self, keys: Iterable[str], step: Step[T], *, patience: float = 1.0) -> T:
        asked = tuple(dict.fromkeys(keys))

        def work(connection: sqlite3.Connection) -> T:
            with transaction(connection):
                self._database.check_version(connection)
                self._carry_over(connection)
                result, writes = step(_read(connection, asked))
                _write(connection, writes)
            return result

        try:
            result = self._database.run(work, patience=patience)
        except Unusable as error:
            self._fall_back(error)
            return self._decide_in_memory(asked, step)
        self._fallen = False
        self._overlay.clear()
        return result

    def peek(self, keys: Iterable[str]) -> dict[str, bytes]:
        asked = tuple(keys)
        found: dict[str, bytes] = self._look(lambda connection: _read(connection, asked), {})
        return self._overlaid(found, [key for key in asked if key in self._overlay])

    def scan(self, prefix: str) -> dict[str, bytes]:
        def work(connection: sqlite3.Connection) -> dict[str, bytes]:
            query = "SELECT key, value FROM state WHERE key >= ? AND key < ? ORDER BY key"
            return self._whole(connection.execute(query, (_text(prefix), _text(prefix) + LAST)))

        found: dict[str, bytes] = self._look(work, {})
        return self._overlaid(found, [key for key in self._overlay if key.startswith(prefix)])

    def record(self, id: str, time: float, document: Mapping[str, Any]) -> None:
        try:
            self._waiting.append(pack(id, time, document))
            self._save_waiting(self._after)
        except Unusable as error:
            self._fall_back(error)
            del self._waiting[:-WAITING]
        except Exception as error:
            self._warn(f"the record {id} could not be kept: {type(error).__name__}")

    def records(self, *, id: str | None = None, limit: int = 1) -> list[dict[str, Any]]:
        wanted = limit if id is None else max(limit, 2)

        def work(connection: sqlite3.Connection) -> list[Row]:
            rows = list(_rows(connection, None if id is None else _text(id), wanted))
            whole = [row for row in rows if _is_row(row)]
            self._left_out(len(rows) - len(whole), "record")
            return whole

        found: list[Row] = self._look(work, [])
        return [unpack(row) for row in matching([*reversed(found), *self._waiting], id=id, limit=limit)]

    def prune(self, before: float) -> None:
        self._waiting = [row for row in self._waiting if row.time >= before]

        def work(connection: sqlite3.Connection) -> int:
            with transaction(connection):  # a few at a time: others want to write too
                self._database.check_version(connection)
                query = "DELETE FROM records WHERE id IN (SELECT id FROM records WHERE time < ? LIMIT ?)"
                return connection.execute(query, (before, CHUNK)).rowcount

        try:
            while self._database.exists() and self._database.run(work, patience=self._after) == CHUNK:
                pass
        except Unusable as error:
            self._fall_back(error)

    def close(self) -> None:
        """A closed store may be used again; it opens the file anew."""
        with suppress(Unusable):
            if self._waiting:
                self._save_waiting(0.0)
        self._database.drop()

    def _whole(self, rows: Iterable[tuple[Any, Any]]) -> dict[str, bytes]:
        """The values among stored ones that are such; another program may have written anything."""
        found = dict(rows)
        kept = {key: value for key, value in found.items() if isinstance(value, bytes)}
        self._left_out(len(found) - len(kept), "entry")
        return kept

    def _left_out(self, count: int, word: str) -> None:
        if count:
            what = f"one {word} in it is" if count == 1 else f"{count} of what it holds are"
            self._warn(f"{self._database.path}: {what} damaged and left out")

    # -- without the file

    def _warn(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.warnings.append(text)

    def _fall_back(self, error: Unusable) -> None:
        if not self._fallen:  # one warning an outage, whatever else fails in it
            self._fallen = True
            self._warn(f"{error.message}; routekit goes on with what this process remembers")

    def _decide_in_memory(self, keys: tuple[str, ...], step: Step[T]) -> T:
        """What cannot be written may still be readable (a writer is in the way): then the windows of others count."""
        found: dict[str, bytes] = {}
        with suppress(Unusable):
            if self._database.exists():
                found = self._database.run(lambda connection: _read(connection, keys), patience=0.0)
        result, writes = step(self._overlaid(found, [key for key in keys if key in self._overlay]))
        for key, value in writes.items():
            base = self._overlay[key][0] if key in self._overlay else found.get(key)
            self._overlay[key] = (base, value)
        return result

    def _overlaid(self, found: dict[str, bytes], keys: Iterable[str]) -> dict[str, bytes]:
        decided = {key: self._overlay[key][1] for key in keys}
        return {key: value for key, value in {**found, **decided}.items() if value is not None}

    # -- with the file

    def _look(self, work: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        if not self._database.exists():
            return nothing  # looking creates no file
        try:
            return self._database.run(work, patience=1.0)
        except Unusable as error:
            self._fall_back(error)
            return nothing

    def _carry_over(self, connection: sqlite3.Connection) -> None:
        if self._overlay:
            held = _read(connection, self._overlay)
            _write(connection, {key: new for key, (old, new) in self._overlay.items() if held.get(key) == old})

    def _save_waiting(self, patience: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                self._database.check_version(connection)
                rows = [(row.id, row.time, row.document) for row in self._waiting]
                connection.executemany("INSERT OR REPLACE INTO records (id, time, document) VALUES (?, ?, ?)", rows)

        self._database.run(work, patience=patience)
        self._waiting.clear()


def _is_row(row: Row) -> bool:
    return isinstance(row.id, str) and isinstance(row.time, float) and isinstance(row.document, bytes)


def _text(key: str) -> str:
    """A session may be named with bytes that are no text; SQLite stores none."""
    return key.encode("utf-8", "backslashreplace").decode()


def _read(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, bytes]:
    names = {_text(key): key for key in keys}
    found: dict[str, bytes] = {}
    left = iter(names)
    while chunk := tuple(islice(left, CHUNK)):
        marks = ",".join("?" * len(chunk))
        for name, value in connection.execute(f"SELECT key, value FROM state WHERE key IN ({marks})", chunk):
            # Another program may have written anything: what is no value is none, until it is written again.
            if isinstance(value, bytes):
                found[names[name]] = value
    return found


def _write(connection: sqlite3.Connection, writes: Mapping[str, bytes | None]) -> None:
    kept = [(_text(key), value) for key, value in writes.items() if value is not None]
    gone = [(_text(key),) for key, value in writes.items() if value is None]
    connection.executemany("INSERT OR REPLACE INTO state (key, value) VALUES (?, ?)", kept)
    connection.executemany("DELETE FROM state WHERE key = ?", gone)


def _rows(connection: sqlite3.Connection, id: str | None, limit: int) -> Iterator[Row]:
    # Of the matches of a prefix its own id comes first: an exact match must not fall to the limit.
    where, values = ("", ()) if id is None else ("WHERE id >= ? AND id < ?", (id, id + LAST))
    order = "time DESC, rowid DESC" if id is None else "id = ? DESC, time DESC, rowid DESC"
    query = f"SELECT id, time, document FROM records {where} ORDER BY {order} LIMIT ?"
    for name, time, document in connection.execute(query, (*values, *([] if id is None else [id]), limit)):
        yield Row(id=name, time=time, document=document)
