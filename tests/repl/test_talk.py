"""What happens in a conversation: asking, commands, errors, and what is carried on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from routekit.errors import UsageError
from tests.repl.conftest import CTRL_D, ENTER, Talk

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
BROKEN = {"pieces": ["so ", "far ", "so "], "cut_after": 2}
DOWN = {"fault": "request", "status": 400, "message": "no such thing"}

Talks = Callable[..., Talk]


def lines(*typed: str) -> list[str]:
    return [f"{line}{ENTER}" for line in typed]


def test_the_history_goes_with_every_question(talks: Talks) -> None:
    talk = talks(script={"*": ["first answer", "second answer"]})
    desk = talk.type(*lines("one", "two"))
    assert desk.answers == ["first answer", "second answer"]
    assert talk.history() == ["user: one", "assistant: first answer", "user: two"]


def test_the_greeting_says_what_is_asked_and_of_how_many(talk: Talk) -> None:
    assert talk.type().said == ["chat · ordered over 2 candidates · /help"]


def test_one_conversation_is_one_session(talk: Talk) -> None:
    talk.type(*lines("one", "two"))
    records = [dict(row) for row in talk.router.store.records(limit=9)]
    assert len({row["session"] for row in records}) == 1
    assert {row["surface"] for row in records} == {"repl"}
    assert {row["conversation"] for row in records} == {row["session"] for row in records}


def test_a_rotation_stays_with_whom_it_began(talks: Talks) -> None:
    config = """
version = 1
[providers.a]
api = "scripted"
[providers.b]
api = "scripted"
[routes.turns]
selection = "round-robin"
targets = ["a/m", "b/m"]
"""
    talk = talks(config=config)
    talk.type(*lines("one", "two", "three"))
    talk.type(*lines("one"))
    assert [call.provider.id for call in talk.vendor.calls] == ["a", "a", "a", "b"]


@pytest.mark.parametrize("typed", ["/modle", "/modle chat", " /modle", "/", "/wyh", "/quit_"])
def test_an_unknown_command_is_an_error_and_never_sent(talk: Talk, typed: str) -> None:
    desk = talk.type(*lines(typed))
    assert talk.vendor.calls == []
    assert [type(error) for error in desk.failures] == [UsageError]


@pytest.mark.parametrize("typed", ["/quit", "/exit", "/q", "exit", "quit"])
def test_leaving_by_word_ends_with_code_0(talk: Talk, typed: str) -> None:
    talk.type(*lines(typed, "not any more"), leave=False)
    assert (talk.code, talk.asked) == (0, [])


def test_an_error_leaves_one_at_the_prompt_and_the_next_question_works(talks: Talks) -> None:
    talk = talks(script={"*": [DOWN, "good"]})
    desk = talk.type(*lines("one", "two"))
    assert len(desk.failures) == 1
    assert desk.answers == ["", "good"]
    assert talk.history() == ["user: two"]
    assert talk.code == 0


def test_a_cut_answer_stays_and_goes_on_marked(talks: Talks) -> None:
    talk = talks(script={"one": [BROKEN], "two": ["good"]})
    desk = talk.type(*lines("one", "/model other", "two"))
    assert len(desk.failures) == 1
    assert talk.history() == ["user: one", "assistant: so far \n\n[this answer was cut short]", "user: two"]


def test_an_error_that_names_a_shell_command_names_the_one_to_type_here(talk: Talk) -> None:
    desk = talk.type(*lines("/budget nobody"))
    assert desk.failures[0].hints == ("/budget",)


def test_model_changes_who_is_asked(talk: Talk) -> None:
    desk = talk.type(*lines("/model other", "hi", "/model"))
    assert [call.model for call in talk.vendor.calls] == ["two"]
    assert desk.said[-1] == "other · a/two"
    assert desk.rows() == ["other · a/two"]


def test_a_model_that_does_not_exist_changes_nothing(talk: Talk) -> None:
    desk = talk.type(*lines("/model nobody", "hi"))
    assert len(desk.failures) == 1
    assert [call.model for call in talk.vendor.calls] == ["one"]


def test_system_and_set_hold_for_what_follows(talk: Talk) -> None:
    talk.type(
        *lines("/system be brief", "/set temperature 0.5", "/set stop END", "hi", "/set stop -", "/system -", "ho")
    )
    first, second = (call.request for call in talk.vendor.calls)
    assert (first.system, dict(first.options)) == ("be brief", {"temperature": 0.5, "stop": "END"})
    assert (second.system, dict(second.options)) == (None, {"temperature": 0.5})


def test_set_refuses_what_is_no_option(talk: Talk) -> None:
    assert "model option" in talk.type(*lines("/set messages x")).failures[0].message


def test_show_tells_everything_in_force(talk: Talk) -> None:
    desk = talk.type(*lines("/system be brief", "/set top_p 1", "/log off", "/show"))
    shown = "\n".join(desk.rows())
    assert all(text in shown for text in ("chat · ordered over 2", "be brief", "option top_p 1", "log off"))


def test_files_go_once_with_the_next_message(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "my notes.md").write_text("a ``` fence\n")
    (tmp_path / "x.png").write_bytes(PNG)
    desk = talk.type(*lines(f'/file "{tmp_path}/my notes.md" {tmp_path}/*.png', "what is this?", "and now?"))
    assert desk.failures == []
    assert desk.said[-1] == f"with the next message: {tmp_path}/my notes.md, {tmp_path}/x.png"
    first = talk.vendor.calls[0].request.messages[-1].content
    assert not isinstance(first, str)
    assert first is not None
    assert [part["type"] for part in first] == ["text", "image_url"]
    assert first[0]["text"] == f"{tmp_path}/my notes.md:\n```\na ``` fence\n```\n\nwhat is this?"
    assert talk.asked[1] == "and now?"


def test_a_files_fence_is_longer_than_any_in_it(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("```sh\nls\n```\n")
    talk.type(*lines(f"/file {tmp_path}/a.md", "hi"))
    assert talk.asked == [f"{tmp_path}/a.md:\n````\n```sh\nls\n```\n````\n\nhi"]


def test_a_file_that_is_not_there_is_said_at_once_and_nothing_waits(talk: Talk) -> None:
    desk = talk.type(*lines("/file /nowhere/x.md", "hi"))
    assert "/nowhere/x.md" in desk.failures[0].message
    assert talk.asked == ["hi"]


def test_files_of_the_command_line_go_with_the_first_message(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("text")
    talk.type(*lines("hi"), options={"fragment": (f"{tmp_path}/a b.txt",)})
    assert talk.asked == [f"{tmp_path}/a b.txt:\n```\ntext\n```\n\nhi"]


def test_image_takes_images_only(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "x.pdf").write_bytes(b"%PDF-1.4")
    (tmp_path / "x.png").write_bytes(PNG)
    desk = talk.type(*lines(f"/image {tmp_path}/x.pdf", f"/image {tmp_path}/x.png"))
    assert "no image" in desk.failures[0].message
    assert desk.said[-1].endswith("x.png")


def test_retry_asks_again_and_the_new_answer_takes_the_old_ones_place(talks: Talks) -> None:
    talk = talks(script={"one": ["bad", "good"], "two": ["other"]})
    desk = talk.type(*lines("one", "/retry", "/retry -m other", "two"))
    assert desk.answers == ["bad", "good", "other", "good"]
    assert talk.history() == ["user: one", "assistant: other", "user: two"]
    assert talk.vendor.calls[-1].model == "one"


def test_retry_asks_what_got_no_answer(talks: Talks) -> None:
    talk = talks(script={"*": [DOWN, "good"]})
    desk = talk.type(*lines("one", "/retry"))
    assert desk.answers == ["", "good"]
    assert talk.asked == ["one", "one"]


def test_undo_takes_the_last_question_back(talk: Talk) -> None:
    desk = talk.type(*lines("one", "two", "/undo", "three"))
    assert desk.said[-1] == "taken back: two"
    assert talk.history() == ["user: one", "assistant: answer", "user: three"]


def test_new_begins_again_with_the_same_settings(talk: Talk) -> None:
    talk.type(*lines("/model other", "/system be brief", "one", "/new", "two"))
    assert talk.history() == ["user: two"]
    assert talk.vendor.calls[-1].request.system == "be brief"
    assert talk.vendor.calls[-1].model == "two"


@pytest.mark.parametrize("typed", ["/undo", "/retry", "/copy", "/save", "/why"])
def test_what_needs_an_answer_says_that_there_is_none(talk: Talk, typed: str) -> None:
    desk = talk.type(*lines(typed))
    assert [type(error) for error in desk.failures] == [UsageError]


def test_why_tells_of_this_conversations_last_question(talks: Talks) -> None:
    talk = talks(script={"*": ["answer"]})
    desk = talk.type(*lines("one", "/why"))
    mine = desk.rows()[0]
    talk.router.ask("elsewhere", model="other")
    assert "asked for chat" in mine
    assert desk.rows()[-1].startswith("served by a/one in ")


def test_preview_health_and_budget_are_the_shells_own(talk: Talk) -> None:
    desk = talk.type(*lines("/preview", "/preview other", "/health", "/budget"))
    assert desk.failures == []
    assert desk.rows(0)[0] == "chat (ordered)"
    assert desk.rows(1)[0] == "other (ordered)"
    assert desk.reports[2].blocks
    assert desk.reports[3].blocks


def test_usage_sums_what_was_answered_also_what_was_taken_back(talks: Talks) -> None:
    step = {"text": "answer", "usage": {"input_tokens": 1000, "output_tokens": 20}}
    talk = talks(script={"*": [step]})
    desk = talk.type(*lines("one", "two", "/undo", "/usage"))
    assert desk.rows() == ["a/one 1000 20  ", "a/one 1000 20  ", "together: 2,040 tok"]


def test_a_conversation_is_saved_by_name_and_loaded_in_another(talk: Talk) -> None:
    talk.type(*lines("/log off", "the question", "/save holiday"))
    desk = talk.type(*lines("/load", "/load holiday", "go on"))
    assert "holiday" in desk.rows(0)[0]
    assert "the question" in desk.rows(0)[0]
    assert talk.history() == ["user: the question", "assistant: answer", "user: go on"]


def test_what_was_never_saved_is_not_in_the_log_when_it_is_off(talk: Talk) -> None:
    talk.type(*lines("/log off", "secret", "/log on", "public"))
    assert [entry.question for entry in talk.router.log.entries()] == ["public"]


def test_no_log_on_the_command_line_keeps_nothing(talk: Talk) -> None:
    talk.type(*lines("secret"), options={"log": False})
    assert talk.router.log.entries() == []


def test_continue_goes_on_where_this_place_left_off(talk: Talk) -> None:
    talk.type(*lines("one"))
    desk = talk.type(*lines("two"), options={"continue": True})
    assert talk.history() == ["user: one", "assistant: answer", "user: two"]
    assert any("going on with" in line for line in desk.said)


def test_multi_takes_lines_as_they_are_until_its_end(talk: Talk) -> None:
    talk.type(*lines("!multi", "/model x", "exit", "", "!end"))
    talk.type(*lines("!multi DONE", "a", "!end", "!end DONE"))
    assert talk.asked == ["/model x\nexit\n", "a\n!end"]


def test_leaving_multi_sends_nothing_and_stays(talk: Talk) -> None:
    desk = talk.type(*lines("!multi", "a"), CTRL_D, *lines("b"))
    assert talk.asked == ["b"]
    assert len(desk.notes) == 1


def test_fragment_is_understood_for_fingers_from_llm(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    talk.type(*lines(f"!fragment {tmp_path}/a.txt", "hi"))
    assert talk.asked[0].startswith(f"{tmp_path}/a.txt:")


def test_copy_takes_the_answer_or_its_last_block(talks: Talks, place: Path) -> None:
    program = place / "wl-copy"
    program.write_text(f"#!/bin/sh\n/bin/cat > {place}/copied\n")
    program.chmod(0o700)
    answer = "Text\n\n```sh\nls\n```\n\n```py\nprint(1)\n```\n"
    talk = talks(script={"*": [{"pieces": [answer]}]}, environ={"PATH": str(place), "WAYLAND_DISPLAY": "w"})
    talk.type(*lines("hi", "/copy"))
    assert (place / "copied").read_text() == answer
    desk = talk.type(*lines("hi", "/copy code"))
    assert (place / "copied").read_text() == "print(1)\n"
    assert desk.said[-1] == "copied 9 characters (wl-copy)"


def test_paste_puts_text_at_the_prompt_and_images_beside_the_message(talks: Talks, place: Path) -> None:
    program = place / "wl-paste"
    program.write_text("#!/bin/sh\n[ \"$1\" = --type ] && exit 1\nprintf 'from the\\nclipboard'\n")
    program.chmod(0o700)
    talk = talks(environ={"PATH": str(place), "WAYLAND_DISPLAY": "w"})
    talk.type(*lines("/paste", " it is"))
    assert talk.asked == ["from the\nclipboard it is"]
    (place / "x.png").write_bytes(PNG)
    program.write_text(f"#!/bin/sh\n/bin/cat {place}/x.png\n")
    desk = talk.type(*lines("/paste", "what?"))
    assert desk.said[-1] == "with the next message: an image of the clipboard"
    assert talk.asked[-1] == "what?\nimage_url"


def test_without_a_clipboard_program_the_error_says_so(talks: Talks, place: Path) -> None:
    desk = talks(environ={"PATH": str(place)}).type(*lines("hi", "/copy", "/paste"))
    assert [error.exit_code for error in desk.failures] == [2, 2]


def test_help_lists_every_command_and_key(talk: Talk) -> None:
    desk = talk.type(*lines("/help", "/help retry"))
    assert "/model [ID]" in "\n".join(desk.rows(0))
    assert "Ctrl-X Ctrl-E" in "\n".join(desk.rows(0))
    assert desk.rows(1)[0] == "/retry [-m ID]"
