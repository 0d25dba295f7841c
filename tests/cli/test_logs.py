"""``logs``: listed, searched, shown, removed for good."""

from __future__ import annotations

import time
from typing import Any

import pytest

from routekit.core.chat import Message
from routekit.state.conversations import ConversationLog, Entry, Place


@pytest.fixture
def logged(machine: Any) -> Any:
    """A log of three entries: two of one conversation, one forty days old."""
    machine.config("a/m")
    log = ConversationLog(machine.home / "conversations.db")
    rows = [("old", "c1", 40), ("first", "c2", 2), ("second", "c2", 1)]
    for name, conversation, days in rows:
        entry = Entry(
            id=f"{conversation}{name}",
            conversation=conversation,
            time=time.time() - days * 86400,
            reference="chat",
            served_by="a/m" if name != "second" else "b/n",
            prompt=(Message(role="user", content=f"{name} question\nof two lines"),),
            answer=f"the {name} answer\x1b[2J",
            cost="0.0031",
        )
        assert log.append(entry, Place(directory=str(machine.cwd)))
    log.close()
    return machine


def prompts(done: Any) -> list[str]:
    return [row["prompt"].split()[0] for row in done.json]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], ["old", "first", "second"]),
        (["-n", "2"], ["first", "second"]),
        (["-q", "quest"], ["old", "first", "second"]),
        (["-q", "first answer"], ["first"]),
        (["-m", "b/n"], ["second"]),
        (["-c"], ["first", "second"]),
        (["--cid", "c1"], ["old"]),
        (["-q", "nothing"], []),
    ],
    ids=" ".join,
)
def test_entries_are_found(logged: Any, arguments: list[str], found: list[str]) -> None:
    assert prompts(logged.run("logs", *arguments, "--json")) == found


def test_a_list_is_a_line_an_entry_with_money_when_asked(logged: Any) -> None:
    done = logged.run("logs", "-u")
    assert (done.code, done.err, len(done.out.splitlines())) == (0, "", 4)
    assert "second question of two lines" in done.out.splitlines()[-1]
    assert "$0.0031" in done.out
    assert "$" not in logged.run("logs").out


def test_the_last_answer_alone_comes_as_it_was(logged: Any) -> None:
    assert logged.run("logs", "-r").out == "the second answer\x1b[2J\n"
    assert logged.run("logs", "show", "c1o", "-r").out == "the old answer\x1b[2J\n"


def test_one_entry_or_a_conversation_is_shown(logged: Any) -> None:
    one = logged.run("logs", "show", "c2first")
    assert "> first question\n> of two lines\n\nthe first answer" in one.out
    assert "second" not in one.out
    both = logged.run("logs", "show", "c2")
    assert both.out.index("> first") < both.out.index("> second")
    assert logged.run("logs", "show", "nosuch").code == 2


def test_what_is_removed_is_gone_from_the_file(logged: Any) -> None:
    assert logged.run("logs", "rm", "--older-than", "30d").out == "removed 1 entry\n"
    assert logged.run("logs", "rm", "c2second", "--json").json == {"removed": 1}
    assert prompts(logged.run("logs", "--json")) == ["first"]
    content = b"".join(file.read_bytes() for file in logged.home.glob("conversations.db*"))
    assert b"old answer" not in content
    assert b"second answer" not in content
    assert logged.run("logs", "rm", "--all").out == "removed 1 entry\n"
    assert "Nothing is in the log yet" in logged.run("logs").out


@pytest.mark.parametrize("arguments", [[], ["c1", "--all"], ["nosuch"], ["--older-than", "soon"]])
def test_nothing_is_removed_by_mistake(logged: Any, arguments: list[str]) -> None:
    assert logged.run("logs", "rm", *arguments).code == 2
    assert len(logged.run("logs", "--json").json) == 3


def test_status_says_whether_where_and_how_much(logged: Any) -> None:
    status = logged.run("logs", "status", "--json").json
    assert (status["on"], status["entries"], status["conversations"]) == (True, 3, 2)
    assert logged.run("logs", "path").out.strip() == status["file"] == str(logged.home / "conversations.db")
    assert logged.run("logs", "off").code == 0
    assert "logging is off (by routekit logs off)" in logged.run("logs", "status").out
    logged.config("a/m", more="[log]\nconversations = false")
    on = logged.run("logs", "on")
    assert (on.code, "log.conversations true" in on.err) == (1, True)


def test_a_damaged_log_is_spoken_of_and_no_traceback(logged: Any) -> None:
    (logged.home / "conversations.db").write_bytes(b"not a database at all" * 1000)
    done = logged.run("logs")
    assert "Traceback" not in done.err
    assert done.err != ""
