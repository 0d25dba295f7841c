"""The conversation log: what is kept, found, repeated and removed; and that it never stands in the way."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from routekit.core.chat import Message
from routekit.errors import UsageError
from routekit.state.conversations import (
    CUT_SHORT,
    MIGRATIONS,
    Conversation,
    ConversationLog,
    Entry,
    Place,
    terminal_key,
    turns,
)

NOWHERE = Place()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "routekit" / "conversations.db"


@pytest.fixture
def log(path: Path) -> ConversationLog:
    return ConversationLog(path)


def entry(id: str, question: str = "why?", answer: str = "because", **more: Any) -> Entry:
    more = {"conversation": "c1", "time": 1000.0, "reference": "chat", "served_by": "a/m", **more}
    return Entry(id=id, prompt=(Message(role="user", content=question),), answer=answer, **more)


def image(content: str) -> Message:
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{content}"}}
    return Message(role="user", content=({"type": "text", "text": "what is this?"}, part))


# -- keeping -----------------------------------------------------------------------------------------------------------


def test_what_was_appended_is_found_whole_by_another_process(log: ConversationLog, path: Path) -> None:
    kept = entry("e1", system="Brief.", options={"max_tokens": 5}, cost="0.1", thoughts="hm", schema={"type": "object"})
    assert log.append(kept, NOWHERE)
    assert ConversationLog(path).show("e1") == kept


def test_the_file_and_its_folder_are_private_whatever_the_umask(log: ConversationLog, path: Path) -> None:
    before = os.umask(0)
    try:
        log.append(entry("e1"), NOWHERE)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


def test_looking_creates_no_file(log: ConversationLog, path: Path) -> None:
    assert log.entries(query="x") == []
    assert log.conversations() == []
    assert log.stats().entries == 0
    assert log.remove(before=9e9) == 0
    assert log.last(Place(terminal="t")) is None
    assert not path.exists()


def test_text_that_is_no_unicode_costs_a_question_mark_not_the_entry(log: ConversationLog) -> None:
    assert log.append(entry("e1", question="odd \udcff byte", answer="fine \udcfe"), NOWHERE)
    assert log.show("e1").question == "odd ? byte"
    assert log.warnings == []


def test_two_processes_keep_all_their_entries(path: Path, root: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.state.test_conversations import *\n"
        "log = ConversationLog(Path(sys.argv[1]))\n"
        "assert all(log.append(entry(sys.argv[2] + str(n)), NOWHERE) for n in range(40)), log.warnings\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name], cwd=root, env={**os.environ}) for name in "ab"
    ]
    assert [process.wait(timeout=50) for process in started] == [0, 0]
    assert ConversationLog(path).stats().entries == 80


def test_large_data_is_kept_once_and_put_back(log: ConversationLog, path: Path) -> None:
    message = image("QUJD" * 5000)
    for id in ("e1", "e2"):
        log.append(msgspec.structs.replace(entry(id), prompt=(message,)), NOWHERE)
    assert sqlite3.connect(path).execute("SELECT count(*) FROM attachments").fetchone() == (1,)
    assert log.show("e2").prompt == (message,)
    assert log.history("c1")[0] == message
    assert len(msgspec.json.encode(log.entries()[0])) < 1000, "a list of entries reads no images"


# -- the history -------------------------------------------------------------------------------------------------------


def test_the_history_repeats_questions_and_answers_in_order(log: ConversationLog) -> None:
    log.append(entry("e1", "one", "1"), NOWHERE)
    log.append(entry("x1", "other", "?", conversation="c2"), NOWHERE)
    log.append(entry("e2", "two", "2"), NOWHERE)
    assert [message.content for message in log.history("c1")] == ["one", "1", "two", "2"]


def test_an_answer_that_broke_off_is_repeated_as_its_text_marked() -> None:
    broken = entry("e1", answer="so far", partial=True, tool_calls=({"id": "t"},), reasoning=({"type": "thinking"},))
    question, reply = turns([broken])
    assert question.content == "why?"
    assert reply == Message(role="assistant", content=f"so far\n\n{CUT_SHORT}")


def test_a_question_whose_answer_broke_off_before_any_text_is_no_turn() -> None:
    assert turns([entry("e1", answer="", partial=True, thoughts="hm")]) == ()


def test_what_was_taken_back_is_in_the_log_but_not_in_the_history(log: ConversationLog) -> None:
    log.append(entry("e1", "one", "1"), NOWHERE)
    log.append(entry("e2", "two", "2"), NOWHERE)
    assert log.undo("e2")
    assert [message.content for message in log.history("c1")] == ["one", "1"]
    assert [(one.id, one.undone) for one in log.entries()] == [("e1", False), ("e2", True)]
    assert log.find("c1").entries == 1


def test_vendor_material_is_kept_with_whom_it_came_from(log: ConversationLog) -> None:
    signed = ({"type": "thinking", "signature": "s"},)
    log.append(entry("e1", reasoning=signed, reasoning_from="a"), NOWHERE)
    reply = log.history("c1")[1]
    assert (reply.reasoning, reply.reasoning_from) == (signed, "a")


# -- finding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [True, False], ids=["fts5", "plain"])
def test_every_word_of_a_search_must_begin_a_word_of_question_or_answer(path: Path, index: bool) -> None:
    log = ConversationLog(path, index=index)
    log.append(entry("e1", "ten names for a cheesecake", "Whey to go"), NOWHERE)
    log.append(entry("e2", "names of dogs", "Rex"), NOWHERE)
    assert [one.id for one in log.entries(query="NAMES")] == ["e1", "e2"]
    assert [one.id for one in log.entries(query="cheese whey")] == ["e1"]
    assert log.entries(query="cheese rex") == []


@pytest.mark.parametrize("index", [True, False], ids=["fts5", "plain"])
@pytest.mark.parametrize("query", ['say "hi"', "a AND b", "x* NEAR(y", "50%_\\", "prompt:x", "-", "(", "'"])
def test_nothing_in_a_search_is_an_operator(path: Path, index: bool, query: str) -> None:
    log = ConversationLog(path, index=index)
    log.append(entry("e1", f"before {query} after"), NOWHERE)
    log.append(entry("e2", "something else entirely"), NOWHERE)
    assert [one.id for one in log.entries(query=query)] == ["e1"]
    assert log.warnings == []


def test_accents_do_not_hide_a_word(log: ConversationLog) -> None:
    log.append(entry("e1", "un café crème"), NOWHERE)
    assert [one.id for one in log.entries(query="cafe\u0301 creme")] == ["e1"]


def test_entries_written_without_an_index_are_found_by_a_program_that_has_one(path: Path) -> None:
    ConversationLog(path).append(entry("e1", "indexed apple"), NOWHERE)
    ConversationLog(path, index=False).append(entry("e2", "plain apple"), NOWHERE)
    assert [one.id for one in ConversationLog(path).entries(query="apple")] == ["e1", "e2"]


def test_a_list_is_the_newest_so_many_oldest_first_of_one_model_or_conversation(log: ConversationLog) -> None:
    for number in range(4):
        log.append(entry(f"e{number}", served_by=f"{'ab'[number % 2]}/m", conversation=f"c{number // 2}"), NOWHERE)
    assert [one.id for one in log.entries(limit=2)] == ["e2", "e3"]
    assert [one.id for one in log.entries(model="a/m")] == ["e0", "e2"]
    assert [one.id for one in log.entries(model="chat", conversation="c1", query="why", limit=1)] == ["e3"]


def test_an_entry_is_shown_by_a_unique_beginning_of_its_id(log: ConversationLog) -> None:
    for id in ("abc1", "abc2", "abc"):
        log.append(entry(id), NOWHERE)
    assert log.show("abc2").id == "abc2"
    assert log.show("abc").id == "abc", "its own id is never ambiguous"
    with pytest.raises(UsageError, match="more than one entry begins with ab"):
        log.show("ab")
    with pytest.raises(UsageError, match="no entry zz"):
        log.show("zz")


def test_the_last_conversation_is_this_terminals_else_this_directorys(log: ConversationLog) -> None:
    log.append(entry("e1", conversation="mine"), Place(terminal="t1", directory="/d"))
    log.append(entry("e2", conversation="other", time=1001.0), Place(terminal="t2", directory="/d"))

    def last(**place: str) -> str | None:
        found: Conversation | None = log.last(Place(**place))
        return found.id if found else None

    assert last(terminal="t1", directory="/d") == "mine"
    assert last(terminal="t3", directory="/d") == "other"
    assert last(terminal="t3", directory="/e") is None
    assert last() is None


def test_a_name_belongs_to_one_conversation(log: ConversationLog) -> None:
    log.append(entry("e1", conversation="c1"), NOWHERE)
    log.append(entry("e2", conversation="c2"), NOWHERE)
    log.rename("c1", "dogs")
    assert log.find("dogs").id == "c1"
    with pytest.raises(UsageError, match="another conversation is called 'dogs'"):
        log.rename("c2", "dogs")
    with pytest.raises(UsageError, match="no conversation c9"):
        log.rename("c9", "cats")


def test_a_terminal_is_told_by_its_own_variables() -> None:
    first = terminal_key({"TMUX_PANE": "%1", "TMUX": "/tmp/server,1,0"})
    assert first is not None
    assert first != terminal_key({"TMUX_PANE": "%1", "TMUX": "/tmp/server,2,0"})
    assert first == terminal_key({"TMUX_PANE": "%1", "TMUX": "/tmp/server,1,0"})


# -- removing ----------------------------------------------------------------------------------------------------------


def test_removed_text_is_in_no_file_any_more(log: ConversationLog, path: Path) -> None:
    secret = msgspec.structs.replace(entry("e1", answer="xylophone quixotic"), prompt=(image("U0VDUkVU" * 1000),))
    log.append(secret, NOWHERE)
    log.append(entry("e2", "harmless", conversation="c2"), NOWHERE)
    bytes_of = lambda: b"".join(file.read_bytes() for file in path.parent.iterdir())  # noqa: E731
    assert b"xylophone" in bytes_of()
    assert log.remove("e1") == 1
    assert not [word for word in (b"xylophone", b"quixotic", b"U0VDUkVU") if word in bytes_of()]
    assert [one.id for one in log.entries(query="harm")] == ["e2"]
    assert [one.id for one in log.conversations()] == ["c2"]


def test_a_conversation_goes_whole_and_old_ones_by_their_age(log: ConversationLog) -> None:
    for number in range(6):
        log.append(entry(f"e{number}", time=1000.0 + number, conversation=f"talk{number // 2}"), NOWHERE)
    assert log.remove("talk1") == 2
    assert log.remove(before=1001.0) == 1
    assert [one.id for one in log.entries()] == ["e1", "e4", "e5"]
    assert log.entries(query="because", limit=9) == log.entries()
    with pytest.raises(UsageError):
        log.remove("talk1")


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_a_log_that_cannot_be_written_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    told: list[str] = []
    log = ConversationLog(tmp_path / "file" / "conversations.db", warn=told.append)
    assert [log.append(entry(id), NOWHERE) for id in ("e1", "e2")] == [False, False]
    assert log.undo("e1") is False
    assert log.entries() == []
    assert len(log.warnings) == 1
    assert told == log.warnings
    assert "e1 is not in the log" in log.warnings[0]


def test_a_full_disk_costs_the_entry_and_one_warning(path: Path, root: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path; from tests.state.test_conversations import *\n"
        "log = ConversationLog(Path(sys.argv[1])); assert log.append(entry('e1'), NOWHERE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "assert not log.append(entry('e2', answer='x' * 1_000_000), NOWHERE)\n"
        "assert len(log.warnings) == 1 and 'e2 is not in the log' in log.warnings[0], log.warnings\n"
        "assert [one.id for one in log.entries()] == ['e1']\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_damaged_file_is_set_aside_and_a_new_one_begun(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"not a database at all" * 500)
    log = ConversationLog(path)
    assert log.append(entry("e1"), NOWHERE)
    assert "was damaged" in log.warnings[0]
    assert [one.id for one in log.entries(query="why")] == ["e1"]
    assert [file.name for file in path.parent.iterdir() if "damaged" in file.name]


def test_a_newer_routekits_log_is_not_written(log: ConversationLog, path: Path) -> None:
    log.append(entry("e1"), NOWHERE)
    sqlite3.connect(path).execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}").connection.commit()
    assert not log.append(entry("e2"), NOWHERE)
    assert "newer routekit" in log.warnings[0]
    assert sqlite3.connect(path).execute("SELECT count(*) FROM entries").fetchone() == (1,)


def test_a_log_in_memory_keeps_the_same_contract() -> None:
    log = ConversationLog(None)
    assert log.entries() == []
    assert log.append(entry("e1"), NOWHERE)
    assert [one.id for one in log.entries(query="because")] == ["e1"]
    assert log.remove("c1") == 1
    assert log.stats().entries == 0
