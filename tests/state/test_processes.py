"""Processes that share one store: nothing is lost, nothing is counted twice, nobody is told "database is locked"."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from routekit.state import open_store
from routekit.state.sqlite import SqliteStore


def total(path: Path) -> int:
    return int(open_store(path).peek(["n"])["n"])


def test_many_processes_count_exactly(start: Any, finish: Any, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    reports = [finish(child) for child in _at_once(start, path, processes=6, times=150)]
    assert total(path) == 900
    assert {tuple(report["warnings"]) for report in reports} == {()}


def test_sixteen_processes_create_one_store(start: Any, finish: Any, tmp_path: Path) -> None:
    path = tmp_path / "state" / "state.db"
    reports = [finish(child) for child in _at_once(start, path, processes=16, times=5)]
    assert total(path) == 80
    assert [report["mode"] for report in reports] == ["wal"] * 16
    assert {tuple(report["warnings"]) for report in reports} == {()}


def _at_once(start: Any, path: Path, *, processes: int, times: int) -> list[Any]:
    """All are loaded before any begins."""
    children = [start("add", path, times) for _ in range(processes)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    return children


def test_a_killed_process_leaves_a_usable_store_that_lost_no_commit(start: Any, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    survivor = SqliteStore(path)
    for _ in range(4):
        children = [start("endless", path) for _ in range(2)]
        said = [int(child.stdout.readline()) for child in children for _ in range(20)]
        for child in children:
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert survivor.transact(["n"], _count, patience=5) > max(said)
    assert survivor.warnings == []
    survivor.close()
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _count(values: Mapping[str, bytes]) -> tuple[int, dict[str, bytes]]:
    number = int(values.get("n", b"0")) + 1
    return number, {"n": b"%d" % number}


@pytest.mark.parametrize("pragma", ["", "PRAGMA journal_mode = wal"], ids=["no byte", "no table"])
def test_a_creation_killed_half_way_is_finished_by_the_next(tmp_path: Path, pragma: str) -> None:
    path = tmp_path / "state.db"
    path.touch()
    connection = sqlite3.connect(path)
    connection.execute(pragma)
    connection.close()
    store = SqliteStore(path)
    assert store.transact(["n"], _count) == 1
    assert (store.mode, store.warnings) == ("wal", [])


def test_children_of_a_fork_open_the_store_anew(start: Any, finish: Any, tmp_path: Path) -> None:
    report = finish(start("fork", tmp_path / "state.db", 4))
    assert report == {"warnings": [], "mode": "wal", "codes": [0] * 4, "total": 83}


def test_a_step_runs_again_when_its_commit_meets_a_reader(tmp_path: Path) -> None:
    """With a rollback journal a reader may hold up a commit; the step's second run counts, and only that."""
    path = tmp_path / "state.db"
    store = SqliteStore(path, journal="delete")
    store.transact(["n"], _count)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM state").fetchall()
    runs = []

    def step(values: Mapping[str, bytes]) -> tuple[int, dict[str, bytes]]:
        runs.append(dict(values))
        if len(runs) == 2:
            reader.close()
        return _count(values)

    assert store.transact(["n"], step, patience=30) == 2
    assert runs == [{"n": b"1"}] * 2
    assert total(path) == 2
    assert store.warnings == []
