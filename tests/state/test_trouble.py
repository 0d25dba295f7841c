"""Whatever is wrong with the file: no exception, one warning, and the work goes on in memory."""

from __future__ import annotations

import fcntl
import os
import random
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from routekit.state.database import Database, Unusable, file_system, journal_for
from routekit.state.sqlite import MIGRATIONS, SqliteStore


def count(values: Mapping[str, bytes]) -> tuple[int, dict[str, bytes]]:
    number = int(values.get("n", b"0")) + 1
    return number, {"n": b"%d" % number}


def filled(path: Path, **values: bytes) -> Path:
    """A sound store with something in it, and no log beside it."""
    store = SqliteStore(path)
    store.transact([], lambda _: (None, values))
    for number in range(40):
        store.record(f"old-{number}", -1.0, {"filling": "x" * 500})
    assert store.warnings == []
    store.close()
    return path


def everything_works_in_memory(report: dict[str, Any], words: str) -> None:
    assert report["mode"] == "memory"
    assert report["counts"][-1] - report["counts"][0] == 2
    assert report["seen"]["n"] == str(report["counts"][-1])
    assert report["ids"][:3] == ["id-2", "id-1", "id-0"]
    assert report["left"][:2] == ["id-2", "id-1"]
    assert len(report["warnings"]) == 1, report["warnings"]
    assert words in report["warnings"][0]
    assert "state.db" in report["warnings"][0]


class TestPermissions:
    @pytest.mark.parametrize("mask", ["000", "022", "077"])
    def test_folder_and_files_are_the_owners_alone(self, start: Any, finish: Any, tmp_path: Path, mask: str) -> None:
        report = finish(start("umask", tmp_path / "new" / "state" / "state.db", mask))
        assert report["folder"] == "0o700"
        assert set(report["modes"]) == {"state.db", "state.db-wal", "state.db-shm", "state.db.lock"}
        assert set(report["modes"].values()) == {"0o600"}
        assert report["warnings"] == []

    def test_a_folder_that_was_there_keeps_its_permissions(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        filled(tmp_path / "state.db")
        assert tmp_path.stat().st_mode & 0o777 == 0o755

    def test_a_file_that_others_can_read_is_closed_to_them(self, tmp_path: Path) -> None:
        path = filled(tmp_path / "state.db", n=b"1")
        path.chmod(0o644)
        assert SqliteStore(path).transact(["n"], count) == 2
        assert path.stat().st_mode & 0o777 == 0o600

    def test_a_link_to_nowhere_leads_to_a_private_file(self, tmp_path: Path) -> None:
        (tmp_path / "state.db").symlink_to(tmp_path / "elsewhere.db")
        filled(tmp_path / "state.db")
        assert (tmp_path / "elsewhere.db").stat().st_mode & 0o777 == 0o600


class TestNotWritable:
    def test_a_folder_nobody_may_write_in(self, start: Any, finish: Any, place: Path) -> None:
        place.chmod(0o500)
        report = finish(start("everything@nobody", place / "state" / "state.db"))
        everything_works_in_memory(report, "Permission denied")
        assert os.listdir(place) == []

    def test_a_file_nobody_may_write_to_still_tells_what_it_holds(self, start: Any, finish: Any, place: Path) -> None:
        path = self._given_away(filled(place / "state.db", old=b"7", n=b"40"))
        path.chmod(0o400)
        report = finish(start("everything@nobody", path))
        everything_works_in_memory(report, "is read-only")
        assert report["seen"] == {"n": "43", "old": "7"}
        assert SqliteStore(path).peek(["n"]) == {"n": b"40"}

    def test_a_file_nobody_may_even_read(self, start: Any, finish: Any, place: Path) -> None:
        path = self._given_away(filled(place / "state.db", n=b"40"))
        path.chmod(0o000)
        everything_works_in_memory(finish(start("everything@nobody", path)), "cannot be opened")

    @staticmethod
    def _given_away(path: Path) -> Path:
        if os.getuid() == 0:
            for file in path.parent.iterdir():
                os.chown(file, 65534, 65534)
        return path

    def test_a_folder_in_the_place_of_the_file(self, start: Any, finish: Any, tmp_path: Path) -> None:
        (tmp_path / "state.db").mkdir()
        everything_works_in_memory(finish(start("everything", tmp_path / "state.db")), "cannot be opened")

    def test_a_file_in_the_place_of_the_folder(self, start: Any, finish: Any, tmp_path: Path) -> None:
        (tmp_path / "state").touch()
        report = finish(start("everything", tmp_path / "state" / "state.db"))
        everything_works_in_memory(report, "Not a directory")

    @pytest.mark.parametrize("new", [True, False], ids=["new", "filled"])
    def test_a_full_disk(self, start: Any, finish: Any, tmp_path: Path, new: bool) -> None:
        path = tmp_path / "state.db"
        if not new:
            filled(path, n=b"40")
        report = finish(start("everything@full", path))
        everything_works_in_memory(report, "cannot")
        assert SqliteStore(path).transact(["n"], count) == (1 if new else 41)

    @pytest.mark.parametrize(("how", "words"), [("no-locks", "No locks"), ("no-posix-locks", "locked")])
    def test_a_file_system_without_locks(self, start: Any, finish: Any, tmp_path: Path, how: str, words: str) -> None:
        everything_works_in_memory(finish(start(f"everything@{how}", tmp_path / "state.db")), words)


class TestLockedByAnotherProgram:
    def test_work_goes_on_with_one_warning_and_is_carried_over(self, start: Any, finish: Any, tmp_path: Path) -> None:
        path = filled(tmp_path / "state.db", n=b"40", theirs=b"1")
        store = SqliteStore(path)
        holder = start("hold", path)
        assert holder.stdout.readline() == "held\n"

        assert [store.transact(["n"], count, patience=0.02) for _ in range(3)] == [41, 42, 43]
        assert store.transact(["theirs"], lambda values: (dict(values), {"gone": None})) == {"theirs": b"1"}
        assert store.peek(["n", "theirs"]) == {"n": b"43", "theirs": b"1"}
        assert len(store.warnings) == 1
        assert "locked by another program" in store.warnings[0]
        assert SqliteStore(path).peek(["n"]) == {"n": b"40"}

        finish(holder)
        assert store.transact(["n"], count) == 44
        assert SqliteStore(path).peek(["n"]) == {"n": b"44"}
        assert len(store.warnings) == 1

    def test_what_others_wrote_meanwhile_counts_more_than_ours(self, start: Any, finish: Any, tmp_path: Path) -> None:
        path = filled(tmp_path / "state.db", n=b"40")
        store = SqliteStore(path)
        holder = start("hold", path)
        assert holder.stdout.readline() == "held\n"
        assert store.transact(["n"], count, patience=0.02) == 41
        finish(holder)
        SqliteStore(path).transact([], lambda _: (None, {"n": b"70"}))
        assert store.transact(["n"], count) == 71

    def test_records_wait_for_the_lock_to_end(self, start: Any, finish: Any, tmp_path: Path) -> None:
        path = filled(tmp_path / "state.db")
        store = SqliteStore(path, after=0.02)
        holder = start("hold", path)
        assert holder.stdout.readline() == "held\n"
        store.record("one", 1.0, {"x": 1})
        assert store.records(id="on") == [{"id": "one", "time": 1.0, "x": 1}]
        finish(holder)
        store.record("two", 2.0, {})
        store.close()
        assert [record["id"] for record in SqliteStore(path).records(limit=2)] == ["two", "one"]
        assert len(store.warnings) == 1


class TestDamage:
    @staticmethod
    def _aside(path: Path, suffix: str = "") -> list[str]:
        found = [name.name for name in path.parent.iterdir() if ".damaged-" in name.name]
        return [name for name in found if name.endswith(suffix or tuple("0123456789"))]

    @pytest.mark.parametrize("size", [100, 4096, 50_000])
    def test_random_bytes_are_set_aside(self, tmp_path: Path, size: int) -> None:
        path = tmp_path / "state.db"
        junk = random.Random(size).randbytes(size)
        path.write_bytes(junk)
        store = SqliteStore(path)
        assert store.transact(["n"], count) == 1
        (aside,) = self._aside(path)
        assert (tmp_path / aside).read_bytes() == junk
        assert len(store.warnings) == 1
        assert aside in store.warnings[0]
        assert SqliteStore(path).peek(["n"]) == {"n": b"1"}

    def test_a_truncated_file_is_set_aside_with_its_log(self, tmp_path: Path) -> None:
        path = filled(tmp_path / "state.db", n=b"40")
        with path.open("r+b") as file:
            file.truncate(9000)
        (tmp_path / "state.db-wal").write_bytes(b"its log")
        store = SqliteStore(path)
        store.record("new", 1.0, {})
        assert [record["id"] for record in store.records(limit=9)] == ["new"]
        (aside,) = self._aside(path)
        assert aside in store.warnings[0]
        assert (tmp_path / f"{aside}-wal").exists()
        assert len(store.warnings) == 1

    def test_all_three_files_go_together(self, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        for suffix in ("", "-wal", "-shm"):
            (tmp_path / f"state.db{suffix}").write_bytes(b"not a database, " * 400)
        assert SqliteStore(path).transact(["n"], count) == 1
        (name,) = self._aside(path)
        assert (self._aside(path, "-wal"), self._aside(path, "-shm")) == ([f"{name}-wal"], [f"{name}-shm"])

    def test_damage_met_in_the_middle_of_work_is_set_aside_too(self, tmp_path: Path) -> None:
        path = filled(tmp_path / "state.db", n=b"40")
        content = path.read_bytes()
        path.write_bytes(content[:4096] + random.Random(1).randbytes(len(content) - 4096))
        store = SqliteStore(path)
        assert store.mode == "wal"
        assert store.transact(["n"], count) == 1
        assert len(self._aside(path)) == 1
        assert len(store.warnings) == 1

    def test_of_many_processes_that_meet_it_one_sets_it_aside(self, start: Any, finish: Any, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        path.write_bytes(b"not a database, " * 400)
        children = [start("add", path, 20) for _ in range(6)]
        for child in children:
            child.stdout.readline()
        with (tmp_path / "state.db.lock").open("w") as gate:  # all wait at the door, so that several meet the damage
            fcntl.flock(gate, fcntl.LOCK_EX)
            for child in children:
                child.stdin.write("go\n")
                child.stdin.flush()
            time.sleep(0.2)
        reports = [finish(child) for child in children]
        assert len(self._aside(path)) == 1
        assert sum(len(report["warnings"]) for report in reports) == 1
        assert SqliteStore(path).peek(["n"]) == {"n": b"120"}

    def test_a_locked_or_read_only_file_is_never_set_aside(self, start: Any, finish: Any, place: Path) -> None:
        path = filled(place / "state.db", n=b"40")
        place.chmod(0o555)
        finish(start("everything@nobody", path))
        assert self._aside(path) == []

    def test_a_damaged_file_that_cannot_be_moved_costs_one_warning(self, start: Any, finish: Any, place: Path) -> None:
        path = place / "state.db"
        path.write_bytes(b"not a database, " * 400)
        if os.getuid() == 0:
            os.chown(path, 65534, 65534)
        place.chmod(0o555)
        everything_works_in_memory(finish(start("everything@nobody", path)), "could not be set aside")

    def test_a_file_deleted_under_an_open_store_is_begun_anew_and_shared(self, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        first = SqliteStore(path)
        assert first.transact(["n"], count) == 1
        for file in tmp_path.glob("state.db*"):
            file.unlink()
        second = SqliteStore(path)
        assert [second.transact(["n"], count) for _ in range(4)] == [1, 2, 3, 4]
        assert first.transact(["n"], count) == 5
        assert (first.warnings, second.warnings) == ([], [])


class TestSchema:
    @pytest.mark.parametrize("open_before", [False, True], ids=["opened after", "opened before"])
    def test_a_newer_schema_is_said_and_not_written(self, tmp_path: Path, open_before: bool) -> None:
        path = filled(tmp_path / "state.db", n=b"40")
        store = SqliteStore(path)
        if open_before:
            assert store.transact(["n"], count) == 41
        self._migrate_by_hand(path)
        before = self._content(path)

        assert [store.transact(["n"], count) for _ in range(2)][1] == store.transact(["n"], count) - 1
        store.record("new", 1.0, {})
        store.prune(1e12)
        store.close()
        assert self._content(path) == before
        assert len(store.warnings) == 1
        assert "newer routekit" in store.warnings[0]

    @staticmethod
    def _migrate_by_hand(path: Path) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("ALTER TABLE state ADD COLUMN later TEXT")
        connection.execute("PRAGMA user_version = 99")
        connection.close()

    @staticmethod
    def _content(path: Path) -> list[Any]:
        connection = sqlite3.connect(path)
        rows = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("state", "records")]
        connection.close()
        return rows

    def test_an_older_file_is_migrated_and_keeps_its_rows(self, tmp_path: Path) -> None:
        path, said = tmp_path / "any.db", list[str]()
        lists = [(("CREATE TABLE a (x)",),), (("CREATE TABLE a (x)",), ("ALTER TABLE a ADD COLUMN y DEFAULT 5",))]
        old, new = (Database(path, migrations, warn=said.append) for migrations in lists)
        old.run(lambda connection: connection.execute("INSERT INTO a VALUES (1)"), patience=1)
        assert new.run(lambda connection: connection.execute("SELECT * FROM a").fetchall(), patience=1) == [(1, 5)]
        with pytest.raises(Unusable, match="newer"):
            old.run(old.check_version, patience=1)
        assert said == []

    def test_a_released_migration_never_changes(self) -> None:
        assert MIGRATIONS[0] == (
            "CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
            "CREATE TABLE records (id TEXT PRIMARY KEY, time REAL NOT NULL, document BLOB NOT NULL)",
            "CREATE INDEX records_by_time ON records (time)",
        )


class TestJournal:
    @pytest.mark.parametrize("obstacle", ["a folder", "a link to nowhere"])
    def test_without_shared_memory_a_rollback_journal_is_used(self, tmp_path: Path, obstacle: str) -> None:
        shared = tmp_path / "state.db-shm"
        shared.mkdir() if obstacle == "a folder" else shared.symlink_to("/nowhere/at/all")
        store = SqliteStore(tmp_path / "state.db")
        assert store.mode == "delete"
        assert store.transact(["n"], count) == 1
        store.close()
        again = SqliteStore(tmp_path / "state.db")
        assert (again.transact(["n"], count), again.mode) == (2, "delete")
        assert (store.warnings, again.warnings) == ([], [])

    def test_the_journal_is_chosen_at_creation_only(self, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        for asked in ("delete", "wal"):
            store = SqliteStore(path, journal=asked)
            assert (store.transact(["n"], count) > 0, store.mode) == (True, "delete")
            store.close()

    @pytest.mark.parametrize(("kind", "expected"), [("ext4", "ext4"), ("nfs4", "nfs4"), ("fuse.sshfs", "fuse.sshfs")])
    def test_the_file_system_is_found_by_its_device(self, kind: str, expected: str) -> None:
        mounts = [
            "21 1 254:0 / / rw,relatime - xfs /dev/vda rw",
            f"36 21 0:45 /a /home/some\\040one rw,nosuid shared:1 master:2 - {kind} server:/a rw",
            "40 21 0:46 / /run rw - tmpfs tmpfs rw",
        ]
        assert file_system(mounts, "0:45") == expected
        assert file_system(mounts, "9:99") == ""

    def test_a_local_folder_gets_wal_and_a_share_does_not(self, tmp_path: Path) -> None:
        assert journal_for(str(tmp_path)) == "wal"
        assert journal_for("\\\\server\\share\\routekit") == "delete"
