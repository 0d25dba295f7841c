"""What every store promises, asked of each of them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from routekit.core.value import Value
from routekit.state import StateStore, open_store
from routekit.state.sqlite import SqliteStore


@pytest.fixture(params=["memory", "wal", "delete"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateStore]:
    kind: str = request.param
    made = open_store(None) if kind == "memory" else SqliteStore(tmp_path / "state" / "state.db", journal=kind)
    assert made.mode == kind
    yield made
    assert made.warnings == []
    made.close()


def put(store: StateStore, values: Mapping[str, bytes | None]) -> None:
    store.transact([], lambda _: (None, values))


def count(values: Mapping[str, bytes]) -> tuple[int, dict[str, bytes]]:
    number = int(values.get("n", b"0")) + 1
    return number, {"n": b"%d" % number}


class TestEveryStore:
    def test_a_step_sees_the_asked_keys_that_exist_and_no_others(self, store: StateStore) -> None:
        put(store, {"a": b"1", "b": b"2"})
        seen = store.transact(["a", "absent", "a"], lambda values: (dict(values), {}))
        assert seen == {"a": b"1"}

    def test_what_a_step_writes_is_there_for_the_next(self, store: StateStore) -> None:
        assert [store.transact(["n"], count) for _ in range(5)] == [1, 2, 3, 4, 5]

    def test_none_deletes(self, store: StateStore) -> None:
        put(store, {"a": b"1", "b": b"2"})
        put(store, {"a": None, "never-was": None})
        assert store.peek(["a", "b", "never-was"]) == {"b": b"2"}

    def test_values_are_any_bytes_and_keys_any_text(self, store: StateStore) -> None:
        odd = {"": b"", "ключ 🗝 ' \" % _": bytes(range(256)), "nul\0in": b"\0", "bad \udc80": b"surrogate"}
        put(store, odd)
        assert store.peek(odd) == odd

    def test_a_step_that_raises_writes_nothing_and_its_error_comes_out(self, store: StateStore) -> None:
        put(store, {"a": b"1"})

        def step(values: Mapping[str, bytes]) -> tuple[None, Mapping[str, bytes | None]]:
            raise LookupError("the step's own")

        with pytest.raises(LookupError, match="the step's own"):
            store.transact(["a"], step)
        assert store.transact(["n"], count) == 1
        assert store.peek(["a"]) == {"a": b"1"}

    def test_more_keys_than_a_statement_takes_parameters(self, store: StateStore) -> None:
        many = {f"k{number:05}": b"%d" % number for number in range(2500)}
        put(store, many)
        assert store.peek(many) == many
        assert store.transact(list(many), lambda values: (len(values), {})) == 2500

    def test_scan_finds_a_prefix_and_knows_no_wildcards(self, store: StateStore) -> None:
        put(store, {"a%/1": b"1", "a%/2": b"2", "ab/3": b"3", "a%": b"4", "A%/5": b"5", "a%/é": b"6"})
        assert store.scan("a%/") == {"a%/1": b"1", "a%/2": b"2", "a%/é": b"6"}
        assert len(store.scan("")) == 6

    def test_records_come_newest_first_whatever_order_they_were_written_in(self, store: StateStore) -> None:
        for id, time in (("b", 2.0), ("d", 4.0), ("a", 1.0), ("c", 3.0), ("d2", 4.0)):
            store.record(id, time, {"name": id.upper()})
        assert [record["name"] for record in store.records(limit=10)] == ["D2", "D", "C", "B", "A"]
        assert store.records() == [{"id": "d2", "time": 4.0, "name": "D2"}]

    def test_a_unique_prefix_finds_a_record(self, store: StateStore) -> None:
        for id in ("4f1a", "4f2b", "77"):
            store.record(id, 1.0, {})
        assert [record["id"] for record in store.records(id="4f2")] == ["4f2b"]
        assert store.records(id="5") == []
        assert store.records(id="%") == []

    def test_an_ambiguous_prefix_never_looks_unique(self, store: StateStore) -> None:
        for number in range(5):
            store.record(f"4f{number}", float(number), {})
        assert [record["id"] for record in store.records(id="4f")] == ["4f4", "4f3"]
        assert len(store.records(id="4f", limit=5)) == 5

    def test_a_whole_id_beats_newer_ids_that_begin_with_it(self, store: StateStore) -> None:
        store.record("4f", 1.0, {})
        for number in range(5):
            store.record(f"4f{number}", 9.0 + number, {})
        assert [record["id"] for record in store.records(id="4f")] == ["4f"]

    def test_a_record_written_again_replaces_itself(self, store: StateStore) -> None:
        store.record("a", 1.0, {"exit": 1})
        store.record("b", 2.0, {})
        store.record("a", 3.0, {"exit": 0})
        assert store.records(limit=9) == [{"id": "a", "time": 3.0, "exit": 0}, {"id": "b", "time": 2.0}]

    def test_a_record_takes_values_and_undecodable_text(self, store: StateStore) -> None:
        class Attempt(Value):
            target: str
            note: str = ""

        store.record("a", 1.0, {"attempts": (Attempt(target="x/y"),)})
        store.record("b", 2.0, {"asked": "caf\udce9"})
        assert store.records(id="a")[0]["attempts"] == [{"target": "x/y"}]
        assert store.records(id="b")[0]["asked"] == "caf?"

    def test_prune_forgets_what_is_older_and_nothing_else(self, store: StateStore) -> None:
        for number in range(5):
            store.record(f"old{number}", 1.0, {})
        store.record("edge", 5.0, {})
        store.record("new", 6.0, {})
        put(store, {"a": b"1"})
        store.prune(5.0)
        assert [record["id"] for record in store.records(limit=10)] == ["new", "edge"]
        assert store.peek(["a"]) == {"a": b"1"}

    def test_a_store_may_be_used_from_many_threads(self, store: StateStore) -> None:
        threads = [
            threading.Thread(target=lambda: [store.transact(["n"], count, patience=30) for _ in range(25)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.peek(["n"]) == {"n": b"100"}

    def test_a_closed_store_may_be_used_again(self, store: StateStore) -> None:
        put(store, {"a": b"1"})
        store.close()
        store.close()
        assert store.peek(["a"]) == {"a": b"1"}


def test_a_record_that_is_no_json_costs_a_warning_and_no_exception(tmp_path: Path) -> None:
    for store in (open_store(None), open_store(tmp_path / "state.db")):
        loop: dict[str, object] = {}
        loop["loop"] = loop
        store.record("bad", 1.0, loop)
        store.record("good", 1.0, {})
        assert len(store.warnings) == 1
        assert "bad" in store.warnings[0]
        assert [record["id"] for record in store.records(limit=9)] == ["good"]


def test_prune_forgets_more_than_one_helping(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state.db")
    for number in range(1010):
        store.record(f"old{number}", 1.0, {})
    store.record("new", 6.0, {})
    store.prune(5.0)
    assert [record["id"] for record in store.records(limit=10)] == ["new"]


def test_looking_creates_nothing_on_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state" / "state.db")
    assert (store.peek(["a"]), store.scan(""), store.records(limit=9)) == ({}, {}, [])
    store.prune(1.0)
    store.close()
    assert not (tmp_path / "state").exists()
    assert store.warnings == []


def test_values_and_records_outlive_the_store(tmp_path: Path) -> None:
    first = open_store(tmp_path / "state.db")
    put(first, {"a": b"1"})
    first.record("r", 1.0, {"x": 1})
    first.close()
    second = open_store(tmp_path / "state.db")
    assert second.peek(["a"]) == {"a": b"1"}
    assert second.records() == [{"id": "r", "time": 1.0, "x": 1}]


def test_neither_the_contract_nor_memory_loads_sqlite(root: Path) -> None:
    code = "import sys; from routekit.state import open_store; open_store(None); print('sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
