"""One damaged row costs itself: what is whole is shown, and one note says how many rows were left out."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.loopback import Loopback

CONFIG = """
version = 1
[providers.a]
api = "openai-chat"
base_url = "{url}"
key = "none"
[providers.b]
api = "openai-chat"
base_url = "{url}"
key = "none"
[routes.turns]
targets = ["a/m", "b/m"]
selection = "round-robin"
[routes.smooth]
targets = ["a/m", "b/m"]
selection = "smooth"
[defaults]
route = "turns"
"""
#: no calendar has these times
ABSURD = (253_402_300_800.0 * 10, 1e300, -1e300)
#: what may stand where a JSON document should
BAD = (b"", b"{", b"[]", b"\xff\xfe", b'{"id": 3}', b'"text"', "text", 7, 1.5, b"[" * 100_000)


class Machine:
    """A home in which two questions were asked and answered."""

    def __init__(self, cli: Cli, home: Path, url: str) -> None:
        self._cli, self.folder = cli, home / "rk"
        self.folder.mkdir(mode=0o700)
        config = self.folder / "config.toml"
        config.touch(mode=0o600)
        config.write_text(CONFIG.format(url=url))
        for question in ("first", "second"):
            ran = self.run("ask", question)
            assert ran.returncode == 0, ran.stderr

    def run(self, *words: str) -> Any:
        return self._cli(*words, env={"ROUTEKIT_HOME": str(self.folder)})

    def spoil(self, file: str, sql: str, *rows: tuple[Any, ...]) -> None:
        connection = sqlite3.connect(self.folder / file)
        for values in rows or ((),):
            assert connection.execute(sql, values).rowcount > 0, sql
        connection.commit()
        connection.close()


@pytest.fixture
def machine(cli: Cli, home: Path, loopback: Loopback) -> Machine:
    return Machine(cli, home, loopback.url("openai-chat"))


def test_damaged_entries_hide_no_other_in_the_log_and_take_nobodys_place(machine: Machine) -> None:
    sql = (
        "INSERT INTO entries (id, conversation, time, reference, prompt, answer, document) "
        "SELECT ? || id, conversation, time, reference, prompt, answer, ? FROM entries WHERE number = 2"
    )
    machine.spoil("conversations.db", sql, *((f"x{at}-", document) for at, document in enumerate(BAD)))
    for words, shown in (
        (("logs", "list"), ("first", "second")),
        (("logs", "list", "-n", "1"), ("second",)),
        (("logs", "list", "--json"), ("first", "second")),
        (("logs", "list", "-q", "second"), ("second",)),
    ):
        ran = machine.run(*words)
        assert ran.returncode == 0, ran.stderr
        assert [word for word in ("first", "second") if word in ran.stdout] == list(shown)
        assert ran.stderr.count("10 logged questions are damaged and left out") == 1
    assert machine.run("logs", "show", "x0-").returncode == 2
    gone = machine.run("logs", "rm", "x0-")
    assert (gone.returncode, gone.stdout) == (0, "removed 1 entry\n"), gone.stderr


def test_a_damaged_conversation_hides_no_other_and_no_entry(machine: Machine) -> None:
    machine.spoil("conversations.db", "UPDATE conversations SET created = 'never', used = 'never'")
    assert "second" in machine.run("logs", "list").stdout
    ran = machine.run("ask", "-c", "third")
    assert "Traceback" not in ran.stderr
    assert ran.returncode in (0, 2)
    assert machine.run("logs", "status").returncode == 0


def test_damaged_records_hide_no_other(machine: Machine) -> None:
    sql = "INSERT INTO records SELECT ? || id, time + 1, ? FROM records WHERE time = (SELECT min(time) FROM records)"
    worse = b'{"attempts": 3}', b'{"surface": "cli", "reference": "r", "cost": "much"}'
    machine.spoil("state.db", sql, *((f"x{at}-", document) for at, document in enumerate([*BAD, *worse])))
    ran = machine.run("stats", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["requests"] == 2
    assert ran.stderr.count("damaged and left out") == 2, ran.stderr  # rows without a document; documents that are none
    why = machine.run("why")
    assert (why.returncode, "served by b/m" in why.stdout) == (0, True), why.stderr
    named = machine.run("why", "x1-")
    assert (named.returncode, "is damaged" in named.stderr) == (70, True), named.stderr
    assert "Traceback" not in named.stderr


@pytest.mark.parametrize("value", ["text", b"{", b"\xff\xfe", b"{}", b'"text"', b'["text", 1]'])
def test_a_damaged_entry_of_the_memory_is_none(machine: Machine, value: Any) -> None:
    assert machine.run("ask", "-m", "smooth", "third").returncode == 0
    machine.spoil("state.db", "UPDATE state SET value = ?", (value,))
    for words in (
        ("health", "list", "--json"),
        ("budget", "list"),
        ("ask", "fourth"),
        ("ask", "-m", "smooth", "fifth"),
    ):
        ran = machine.run(*words)
        assert ran.returncode == 0, (words, ran.stderr)
        assert "lost" not in ran.stderr


def test_a_value_that_is_none_in_the_memory_is_counted_once(machine: Machine) -> None:
    machine.spoil("state.db", "INSERT INTO state (key, value) VALUES ('target:a/n', 'text'), ('target:a/o', 7)")
    ran = machine.run("health", "list")
    assert ran.returncode == 0
    assert ran.stderr.count("2 of what it holds are damaged and left out") == 1


@pytest.mark.parametrize("time", ABSURD)
def test_a_time_that_no_calendar_has_is_said_and_shown_as_none(machine: Machine, time: float) -> None:
    for table, file in (("records", "state.db"), ("entries", "conversations.db")):
        sql = f"UPDATE {table} SET time = ?, document = CAST(json_set(CAST(document AS TEXT), '$.time', ?) AS BLOB)"
        machine.spoil(file, sql, (time, time))
    standing = json.dumps({"window": {"start": 1.0, "end": time, "cause": "quota"}, "last_failure": time}).encode()
    machine.spoil("state.db", "INSERT OR REPLACE INTO state VALUES ('target:a/m', ?)", (standing,))
    machine.spoil("conversations.db", "UPDATE conversations SET created = ?, used = ?", (time, time))
    shown = [
        row["id"] for row in json.loads(machine.run("logs", "list", "--json").stdout) if row["datetime_utc"] is None
    ]
    assert len(shown) == 2
    for words in (
        ("why",), ("why", "--json"), ("logs", "list"), ("logs", "show", shown[0]), ("logs", "status"), ("stats",),
        ("health", "list"), ("health", "list", "--json"), ("logs", "status", "--json"), ("ask", "third"),
    ):  # fmt: skip
        ran = machine.run(*words)
        assert ran.returncode == 0, (words, ran.stderr)
    assert "at no date a calendar has" in machine.run("logs", "show", shown[0]).stdout
