"""Sessions: history, stickiness, answers that broke off, taking back and asking again, going on from the log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from routekit import RoutekitError, Router, Session, TruncatedAnswer, UsageError, testing
from routekit.core.chat import Delta, Finish, Message
from routekit.core.record import Attempt, RequestRecord
from routekit.dispatch import Note
from routekit.state.conversations import CUT_SHORT, Place
from tests.loopback import Loopback, loopback

__all__ = ["loopback"]

TOML = """
[providers.a]
api = "scripted"
[providers.b]
api = "scripted"
[routes.both]
targets = ["a/m", "b/m"]
[routes.turns]
selection = "round-robin"
targets = ["a/m", "b/m"]
[defaults]
route = "a/m"
"""


def router_with(*steps: Any, b: Sequence[Any] = ("from b",), toml: str = TOML, **more: Any) -> testing.TestRouter:
    return testing.router_from(toml, scripts={"a": steps or ["from a"], "b": b}, **more)


def said(messages: Sequence[Message]) -> list[Any]:
    return [message.content for message in messages]


async def happenings(chat: Session, prompt: Any, **how: Any) -> list[Any]:
    return [happening async for happening in chat.run(prompt, **how)]


# -- history -----------------------------------------------------------------------------------------------------------


def test_every_question_carries_what_was_said_before() -> None:
    router = router_with("1", "2", "3")
    with Session(router, model="a/m", system="Brief.", options={"max_tokens": 9}) as chat:
        assert [chat.ask(question).text for question in ("one", "two")] == ["1", "2"]
        assert "".join(delta.text for delta in chat.stream("three")) == "3"
    _, last = router.requests[-1]
    assert said(last.messages) == ["one", "1", "two", "2", "three"]
    assert (last.system, last.options) == ("Brief.", {"max_tokens": 9})
    assert said(chat.messages) == ["one", "1", "two", "2", "three", "3"]


def test_a_session_works_inside_a_running_loop_both_ways() -> None:
    async def main() -> Session:
        chat = Session(router_with("1", "2", "3"))
        chat.ask("one")
        await chat.aask("two")
        assert [delta.text async for delta in chat.astream("three")] == ["3"]
        return chat

    assert said(asyncio.run(main()).messages) == ["one", "1", "two", "2", "three", "3"]


def test_a_session_stays_with_the_target_that_served_it_while_others_rotate() -> None:
    router = router_with()
    chat = Session(router, model="turns")
    assert {chat.ask("hi").served_by for _ in range(4)} == {"a/m"}
    assert {Session(router, model="turns").ask("hi").served_by, chat.ask("hi").served_by} == {"a/m", "b/m"}


def test_the_record_names_the_conversation() -> None:
    router = router_with()
    chat = Session(router)
    answer = chat.ask("hi")
    assert answer.conversation == chat.id == answer.record.session


def test_a_call_of_a_tool_and_its_result_are_part_of_the_history() -> None:
    call = {"id": "t1", "name": "look", "arguments": '{"at": 1}'}
    router = router_with(testing.answers("", tool_calls=[call]), "seen")
    chat = Session(router)
    assert chat.ask("look").tool_calls[0]["id"] == "t1"
    chat.ask([{"role": "tool", "tool_call_id": "t1", "content": "a cat"}])
    asked = router.requests[-1][1].messages
    assert [message.role for message in asked] == ["user", "assistant", "tool"]
    assert asked[1].tool_calls[0]["function"] == {"name": "look", "arguments": '{"at": 1}'}
    assert asked[2].tool_call_id == "t1"


# -- what broke off ----------------------------------------------------------------------------------------------------


def test_a_question_that_failed_leaves_no_trace_and_can_be_asked_again() -> None:
    chat = Session(router_with(testing.fails("request"), "1"))
    with pytest.raises(RoutekitError):
        chat.ask("one")
    assert chat.messages == ()
    assert chat.retry().text == "1"
    assert said(chat.messages) == ["one", "1"]


def test_an_answer_left_in_the_middle_is_kept_marked_and_carried_on() -> None:
    router = router_with(testing.answers("", pieces=["so ", "far ", "never"]), "2")
    chat = Session(router)
    stream = chat.stream("one")
    shown = next(stream).text + next(stream).text
    stream.close()
    assert shown == "so far "
    assert chat.last is not None
    assert (chat.last.partial, chat.last.answer) == (True, "so far ")
    chat.ask("two")
    assert said(router.requests[-1][1].messages) == ["one", f"so far \n\n{CUT_SHORT}", "two"]


def test_an_answer_that_was_cut_by_the_vendor_is_kept_marked() -> None:
    router = router_with(testing.answers("", pieces=["so ", "far ", "never"], cut_after=2))
    chat = Session(router)
    with pytest.raises(TruncatedAnswer):
        list(chat.stream("one"))
    assert [(entry.answer, entry.partial) for entry in router.log.entries()] == [("so far ", True)]
    assert said(chat.messages) == ["one", f"so far \n\n{CUT_SHORT}"]
    assert router.log.entries()[0].id == testing.records(router)[0].id


def test_what_nobody_was_shown_is_not_kept() -> None:
    chat = Session(router_with(testing.answers("", pieces=["so ", "far "], cut_after=1), b=["whole"]), model="both")
    assert chat.ask("one").text == "whole"
    assert said(chat.messages) == ["one", "whole"]


# -- taking back, asking again -----------------------------------------------------------------------------------------


def test_taking_back_shortens_the_history_and_the_log_still_shows_it() -> None:
    router = router_with("1", "2", "3")
    chat = Session(router)
    chat.ask("one")
    chat.ask("two")
    assert chat.undo().question == "two"
    chat.ask("three")
    assert said(router.requests[-1][1].messages) == ["one", "1", "three"]
    assert [entry.undone for entry in router.log.entries()] == [False, True, False]
    chat.undo()
    chat.undo()
    with pytest.raises(UsageError, match="nothing to take back"):
        chat.undo()


def test_a_retry_asks_the_same_of_another_model_and_takes_the_answers_place() -> None:
    router = router_with("1", "2")
    chat = Session(router)
    chat.ask("one")
    chat.ask("two")
    answer = chat.retry(model="b/m")
    assert (answer.text, answer.served_by) == ("from b", "b/m")
    assert said(router.requests[-1][1].messages) == ["one", "1", "two"]
    assert said(chat.messages) == ["one", "1", "two", "from b"]


def test_a_retry_that_fails_leaves_the_answer_it_had() -> None:
    chat = Session(router_with("1", b=[testing.fails("request")]))
    chat.ask("one")
    with pytest.raises(RoutekitError):
        chat.retry(model="b/m")
    assert said(chat.messages) == ["one", "1"]


def test_there_is_no_retry_before_the_first_question() -> None:
    with pytest.raises(UsageError, match="nothing to ask again"):
        Session(router_with()).retry()


# -- the log -----------------------------------------------------------------------------------------------------------


def test_a_conversation_goes_on_where_it_ended_with_its_model_and_system_prompt() -> None:
    router = router_with("1", b=["2", "3"])
    first = Session(router, model="b/m", system="Brief.", place=Place(terminal="t", surface="shell"))
    first.ask("one")
    first.save("dogs")
    for again in (Session(router, id=first.id), Session.load(router, "dogs"), Session.load(router, first.id[:9])):
        assert (again.id, again.model, again.system) == (first.id, "b/m", "Brief.")
        assert said(again.messages) == ["one", "2"]
    found = router.log.last(Place(terminal="t"))
    assert found is not None
    assert (found.id, found.surface) == (first.id, "shell")
    with pytest.raises(UsageError, match="no conversation cats"):
        Session.load(router, "cats")


def test_an_id_of_ones_own_begins_a_conversation() -> None:
    router = router_with()
    Session(router, id="support-7").ask("one")
    assert said(Session(router, id="support-7").messages) == ["one", "from a"]


@pytest.mark.parametrize("off", ["session", "call", "config", "switch"])
def test_nothing_is_kept_where_the_log_is_off_and_saving_keeps_it_after_all(off: str) -> None:
    router = router_with(toml=TOML + ("[log]\nconversations = false\n" if off == "config" else ""))
    if off == "switch":
        router.switch_log(False)
    chat = Session(router, log=False if off == "session" else None)
    chat.ask("one", **({"log": False} if off == "call" else {}))
    assert router.log.entries() == []
    assert said(chat.messages) == ["one", "from a"]
    chat.save("kept")
    assert [entry.question for entry in router.log.entries()] == ["one"]
    assert said(Session.load(router, "kept").messages) == ["one", "from a"]


def test_the_switch_does_not_overrule_a_configuration_that_says_no() -> None:
    router = router_with(toml=TOML + "[log]\nconversations = false\n")
    router.switch_log(True)
    assert not router.logging
    asked = router_with()
    asked.switch_log(False)
    assert not asked.logging
    asked.switch_log(True)
    assert asked.logging


def test_a_programs_lone_question_is_kept_only_when_asked_for_and_a_persons_as_configured() -> None:
    router = router_with()
    router.ask("a program")
    router.ask("a program that says so", log=True)
    router.ask("a person", surface="shell")
    router.ask("a person who says no", surface="shell", log=False)
    assert [entry.question for entry in router.log.entries()] == ["a program that says so", "a person"]
    assert len(router.log.conversations()) == 2, "a lone question is a conversation of its own"


def test_an_entry_holds_the_new_question_only_and_carries_the_requests_id() -> None:
    router = router_with("1", "2")
    chat = Session(router)
    chat.ask("one")
    answer = chat.ask("two")
    entry = router.log.show(answer.record.id)
    assert (entry.question, entry.answer, entry.served_by) == ("two", "2", "a/m")
    assert entry.usage == answer.usage


# -- vendor material ---------------------------------------------------------------------------------------------------

SIGNED = {"type": "thinking", "thinking": "hm", "signature": "s"}


def test_vendor_material_goes_back_to_the_account_it_came_from() -> None:
    router = router_with(testing.answers("", events=[Delta(text="1"), Finish(reasoning=(SIGNED,))]), "2")
    chat = Session(router)
    chat.ask("one")
    again = Session(router, id=chat.id)
    again.ask("two")
    reply = router.requests[-1][1].messages[1]
    assert (reply.reasoning, reply.reasoning_from) == ((SIGNED,), "a")


def test_vendor_material_that_another_account_was_not_given_is_said_once() -> None:
    dropped = Finish(dropped=("reasoning",))
    step = testing.answers("", events=[Delta(text="x"), dropped])
    router = router_with(testing.answers("", events=[Delta(text="1"), Finish(reasoning=(SIGNED,))]), b=[step])
    chat = Session(router)
    chat.ask("one")

    async def notes() -> list[str]:
        return [one.text for one in await happenings(chat, "again", model="b/m") if isinstance(one, Note)]

    assert asyncio.run(notes()) == ["b/m: the thinking of a was left out: no other can read it"]
    assert asyncio.run(notes()) == []


def test_a_run_tells_everything_and_ends_with_the_record() -> None:
    told = asyncio.run(happenings(Session(router_with()), "hi"))
    assert isinstance(told[-1], RequestRecord)
    assert [one.outcome for one in told if isinstance(one, Attempt)] == ["success"]


def test_a_log_that_cannot_be_written_costs_a_warning_not_the_answer(tmp_path: Any) -> None:
    from routekit.state.conversations import ConversationLog

    (tmp_path / "file").write_text("in the way")
    router = router_with("1", "2", log=ConversationLog(tmp_path / "file" / "x.db"))
    chat = Session(router)
    assert [chat.ask("one").text, chat.ask("two").text] == ["1", "2"]
    assert said(chat.messages) == ["one", "1", "two", "2"]
    assert len(router.log.warnings) == 1


def frame(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


def piece(index: int, kind: str, **fields: Any) -> str:
    return frame("content_block_delta", index=index, delta={"type": kind, **fields})


#: what Anthropic's API sends when a model thinks: the thinking, its signature, then the text
THOUGHT_ALOUD = [
    frame(
        "message_start",
        message={
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
        },
    ),
    frame("content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}),
    piece(0, "thinking_delta", thinking="let me see"),
    piece(0, "signature_delta", signature="c2ln"),
    frame("content_block_stop", index=0),
    frame("content_block_start", index=1, content_block={"type": "text", "text": ""}),
    piece(1, "text_delta", text="yes"),
    frame("content_block_stop", index=1),
    frame("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 9}),
    frame("message_stop"),
]


def test_signed_thinking_goes_back_over_the_wire_to_its_own_account_and_to_no_other(loopback: Loopback) -> None:
    accounts = "".join(
        f'[providers.{id}]\napi = "{api}"\nbase_url = "{loopback.url(api)}"\nkey = "none"\n'
        for id, api in (("one", "anthropic-messages"), ("two", "anthropic-messages"), ("three", "openai-chat"))
    )
    loopback.script("m", {"sse": THOUGHT_ALOUD}, {"text": "yes"})
    router = Router.from_toml(accounts)
    chat = Session(router, model="one/m")
    chat.ask("first")
    chat.ask("second")
    own = loopback.requests[1].body["messages"][1]["content"]
    assert [block["type"] for block in own] == ["thinking", "text"]
    assert own[0]["thinking"] == "let me see"
    assert own[0]["signature"] == "c2ln"
    told = router.background.call(happenings(chat, "third", model="two/m"))
    assert "thinking" not in str(loopback.requests[2].body["messages"])
    assert [one.text for one in told if isinstance(one, Note)] == [
        "two/m: the thinking of one was left out: no other can read it"
    ]
    chat.ask("fourth", model="three/m")
    assert "signature" not in str(loopback.requests[3].body)
    router.close()
