"""How long one transaction of the shared store takes while eight processes want it: median ≤ 0.5 ms.

Run by hand or by the bench job: ``python tests/bench/bench_store.py``. The baseline is a bare SQLite transaction on the
same disk in the same run. Ends with 1 over the budget.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing.synchronize import Barrier
from pathlib import Path

PROCESSES = 8
TIMES = 400
BUDGET_MS = 0.5


def timed(action: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        action()
        taken.append((time.perf_counter() - started) * 1000)
    return taken


def bare(path: Path) -> list[float]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = normal")
    connection.execute("CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")
    connection.execute("INSERT INTO state VALUES ('n', x'00')")

    def once() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE state SET value = x'01' WHERE key = 'n'")
        connection.execute("COMMIT")

    return timed(once, TIMES)


def contend(path: Path, barrier: Barrier) -> tuple[list[float], list[str]]:
    """Eight keys read and two written, like one choice among the leaves of a route."""
    from routekit.state.sqlite import SqliteStore

    store = SqliteStore(path)
    keys = [f"leaf/{number}" for number in range(8)]

    def step(values: Mapping[str, bytes]) -> tuple[None, dict[str, bytes]]:
        count = int(values.get("leaf/0", b"0")) + 1
        return None, {"leaf/0": b"%d" % count, "leaf/1": b"x" * 100}

    store.peek(keys)
    barrier.wait()
    taken = timed(lambda: store.transact(keys, step, patience=30.0), TIMES)
    return taken, store.warnings


def worker(path: Path, barrier: Barrier, out: multiprocessing.Queue[tuple[list[float], list[str]]]) -> None:
    out.put(contend(path, barrier))


def main() -> int:
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        baseline = statistics.median(bare(Path(folder) / "bare.db"))
        barrier, out = context.Barrier(PROCESSES), context.Queue()
        path = Path(folder) / "state.db"
        processes = [context.Process(target=worker, args=(path, barrier, out)) for _ in range(PROCESSES)]
        for process in processes:
            process.start()
        answers = [out.get(timeout=120) for _ in processes]
        for process in processes:
            process.join()
        total = int(sqlite3.connect(path).execute("SELECT value FROM state WHERE key = 'leaf/0'").fetchone()[0])
    taken = sorted(one for times, _ in answers for one in times)
    warnings = [text for _, texts in answers for text in texts]
    median, late = statistics.median(taken), taken[int(len(taken) * 0.99)]
    print(f"transaction, {PROCESSES} processes: median {median:.3f} ms (budget {BUDGET_MS}), 99 % {late:.1f} ms")
    print(f"a bare SQLite transaction, alone: median {baseline:.3f} ms; ratio {median / baseline:.1f}")
    print(f"counted {total} of {PROCESSES * TIMES}; warnings: {warnings or 'none'}")
    return int(median > BUDGET_MS or total != PROCESSES * TIMES or bool(warnings))


if __name__ == "__main__":
    sys.exit(main())
