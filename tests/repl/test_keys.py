"""The keys of the conversation, typed through prompt-toolkit's own pipe."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repl.conftest import ALT_ENTER, CTRL_C, CTRL_D, CTRL_J, ENTER, Talk, pasted

EDITOR = """\
import sys
text = open(sys.argv[1]).read()
open(sys.argv[1], "w").write(text + " edited\\nsecond line\\n")
"""


def editor(place: Path) -> str:
    script = place / "editor.py"
    script.write_text(EDITOR)
    return f"{sys.executable} {script}"


def test_enter_sends(talk: Talk) -> None:
    desk = talk.type("hello", ENTER)
    assert (talk.asked, desk.answers) == (["hello"], ["answer"])


@pytest.mark.parametrize("key", [ALT_ENTER, CTRL_J], ids=["Alt-Enter", "Ctrl-J"])
def test_a_new_line_is_typed_without_sending(talk: Talk, key: str) -> None:
    talk.type("one", key, "two", ENTER)
    assert talk.asked == ["one\ntwo"]


def test_enter_after_a_backslash_begins_a_new_line_and_takes_the_backslash(talk: Talk) -> None:
    talk.type("one\\", ENTER, "two", ENTER)
    assert talk.asked == ["one\ntwo"]


def test_enter_in_an_open_fence_begins_a_new_line(talk: Talk) -> None:
    talk.type("```python", ENTER, "print(1)\\", ENTER, "```", ENTER)
    assert talk.asked == ["```python\nprint(1)\\\n```"]


@pytest.mark.parametrize(
    "text",
    ["one\ntwo\n\nthree", "/etc/passwd\n/quit", "exit\nquit", "```\nnever closed", "ends so\\\nand so\\", "a\tb\x07"],
)
def test_a_paste_is_one_message_whatever_it_contains(talk: Talk, text: str) -> None:
    talk.type(pasted(text), ENTER)
    assert talk.asked == [text]


def test_a_paste_with_the_line_ends_of_other_systems_is_one_message(talk: Talk) -> None:
    talk.type(pasted("one\r\ntwo\rthree"), ENTER)
    assert talk.asked == ["one\ntwo\nthree"]


def test_a_paste_into_an_open_fence_is_still_in_it(talk: Talk) -> None:
    talk.type("```", ENTER, pasted("x = 1"), ENTER, "```", ENTER)
    assert talk.asked == ["```\nx = 1\n```"]


def test_one_pasted_line_is_as_typed(talk: Talk) -> None:
    desk = talk.type(pasted("/modle"), ENTER)
    assert talk.asked == []
    assert "/model" in desk.failures[0].message


def test_ctrl_c_clears_what_is_typed(talk: Talk) -> None:
    desk = talk.type("half a thought", CTRL_C, "whole", ENTER)
    assert talk.asked == ["whole"]
    assert desk.notes == []


def test_ctrl_c_on_an_empty_line_says_how_to_leave_and_stays(talk: Talk) -> None:
    desk = talk.type(CTRL_C, CTRL_C, "hello", ENTER)
    assert talk.asked == ["hello"]
    assert desk.notes == ["nothing to stop; Ctrl-D or /quit leaves"] * 2


def test_ctrl_d_on_an_empty_line_leaves_with_code_0(talk: Talk) -> None:
    talk.type(CTRL_D, leave=False)
    assert (talk.code, talk.asked) == (0, [])


def test_ctrl_d_does_not_leave_what_is_typed(talk: Talk) -> None:
    talk.type("hello", CTRL_D, ENTER)
    assert talk.asked == ["hello"]


def test_up_brings_back_what_was_said(talk: Talk) -> None:
    talk.type("first", ENTER, "second", ENTER, 3, "\x1b[A", "\x1b[A", ENTER)
    assert talk.asked == ["first", "second", "first"]


def test_ctrl_r_finds_what_was_said_in_an_earlier_talk(talk: Talk) -> None:
    talk.type("the needle in here", ENTER, "something else", ENTER)
    talk.type(1, "\x12", "needle", ENTER, ENTER)
    assert talk.asked[2:] == ["the needle in here"]


def test_the_history_file_is_its_owners_alone_and_leaves_out_what_it_should(talk: Talk, place: Path) -> None:
    talk.type("remember me", ENTER, " not me", ENTER, "/show", ENTER, "//slash", ENTER)
    file = place / "history"
    kept = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "remember me" in kept
    assert not any(word in kept for word in ("not me", "/show", "slash"))
    assert talk.asked == ["remember me", " not me", "/slash"]


@pytest.mark.parametrize("way", ["option", "config"])
def test_no_history_writes_no_file(talks: Callable[..., Talk], place: Path, way: str) -> None:
    from tests.repl.conftest import CONFIG

    talk = talks(config=CONFIG + ("[repl]\nhistory = false\n" if way == "config" else ""))
    talk.type("hello", ENTER, options={"no_history": True} if way == "option" else {})
    assert not (place / "history").exists()


def test_a_history_file_of_loose_mode_is_closed_and_a_long_one_shortened(talk: Talk, place: Path) -> None:
    file = place / "history"
    file.write_text("".join(f"\n# 2026\n+line {number} {'x' * 1000}\n" for number in range(2500)))
    file.chmod(0o644)
    talk.type("hello", ENTER)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kept = file.read_text()
    assert len(kept) < 1_500_000
    assert "line 2499 " in kept
    assert "line 0 " not in kept


def test_vi_keys_where_the_config_says_so(talks: Callable[..., Talk]) -> None:
    from tests.repl.conftest import CONFIG

    talk = talks(config=CONFIG + '[repl]\nkeys = "vi"\n')
    # Escape, then delete a word backwards from the end, then append: emacs would type the letters
    talk.type("hello wrold", "\x1b", "bcw", "world", ENTER)
    assert talk.asked == ["hello world"]


def test_ctrl_x_ctrl_e_edits_what_is_typed_and_enter_sends_it(talks: Callable[..., Talk], place: Path) -> None:
    talk = talks(environ={"VISUAL": editor(place)})
    talk.type("draft", "\x18\x05", ENTER)
    assert talk.asked == ["draft edited\nsecond line"]


def test_edit_sends_what_the_editor_leaves(talks: Callable[..., Talk], place: Path) -> None:
    talk = talks(environ={"EDITOR": editor(place)})
    talk.type("/edit begun", ENTER, "!edit", ENTER)
    assert talk.asked == ["begun edited\nsecond line", " edited\nsecond line"]
    assert [one.name for one in place.iterdir() if one.suffix == ".md"] == []


def test_a_nothing_is_not_sent(talk: Talk) -> None:
    desk = talk.type(ENTER, "   ", ENTER, ENTER)
    assert (talk.asked, desk.notes, desk.failures) == ([], [], [])
