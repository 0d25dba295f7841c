"""The Python API as callers meet it: in loops, threads, forks and interrupts; attachments on the wire; types."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import routekit
from routekit import RequestRefused, RouteExhausted, UsageError, attachment, testing
from routekit.state import open_store
from tests.loopback import Loopback, answer, loopback

__all__ = ["loopback"]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4\n%%EOF\n"
APIS = ("openai-chat", "openai-responses", "anthropic-messages")
SCRIPTED = '[providers.a]\napi = "scripted"\n[defaults]\nroute = "a/m"\n'


def config(server: Loopback, *, first_output: str = "20s") -> str:
    providers = "".join(
        f'[providers.{api}]\napi = "{api}"\nbase_url = "{server.url(api)}"\nkey = "none"\n' for api in APIS
    )
    return f'{providers}[limits]\nfirst_output = "{first_output}"\n[defaults]\nroute = "openai-chat/m"\n'


# -- from anywhere -----------------------------------------------------------------------------------------------------


def test_it_works_inside_a_running_loop_twice_and_in_one_loop_after_another(loopback: Loopback) -> None:
    router = routekit.Router.from_toml(config(loopback))

    async def main() -> list[str]:
        blocking = [router.ask("hi").text, "".join(delta.text for delta in router.stream("hi"))]
        awaited = (await router.aask("hi")).text
        return [*blocking, awaited, "".join([delta.text async for delta in router.astream("hi")])]

    loopback.script("m", {"tokens": 3})
    assert asyncio.run(main()) + asyncio.run(main()) == [answer(3)] * 8
    router.close()


def test_eight_threads_may_ask_at_once(loopback: Loopback) -> None:
    router = routekit.Router.from_toml(config(loopback))
    loopback.script("m", {"tokens": 2, "wait": 0.2})
    texts: list[str] = []
    barrier = threading.Barrier(8)

    def ask() -> None:
        barrier.wait()
        texts.append(router.ask("hi").text)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert texts == [answer(2)] * 8
    assert len({record.id for record in testing.records(router)}) == 8
    assert sum(thread.name == "routekit-loop" for thread in threading.enumerate()) >= 1
    router.close()


def test_leaving_a_stream_closes_the_upstream(loopback: Loopback) -> None:
    router = routekit.Router.from_toml(config(loopback))
    loopback.script("m", {"tokens": 60, "delay": 0.05})
    for delta in router.stream("hi"):
        assert delta.text
        break
    assert loopback.wait_for(lambda server: server.requests[0].closed_at is not None)
    assert loopback.requests[0].sent < 60
    router.close()


def test_asking_on_routekits_own_loop_is_refused_not_a_deadlock() -> None:
    router = testing.router_from(SCRIPTED, scripts={"a": ["hi"]})

    async def inside() -> str:
        with pytest.raises(UsageError, match="own loop"):
            router.ask("hi")
        return (await router.aask("hi")).text

    assert router.background.call(inside()) == "hi"


def test_closing_a_router_ends_the_question_of_another_thread(loopback: Loopback) -> None:
    router = routekit.Router.from_toml(config(loopback))
    loopback.script("m", {"hang": "headers"})
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            router.ask("hi")
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert loopback.wait_for(lambda server: len(server.requests) == 1, 20)
    router.close()
    thread.join(timeout=10)
    assert [type(failure) for failure in failures] == [routekit.RoutekitError]


def script_of(server: Loopback, body: str, *, state: Path | None = None) -> list[str]:
    head = (
        "import os, pathlib, routekit\nfrom routekit.state import open_store\n"
        f"store = open_store(pathlib.Path({str(state)!r}) if {state is not None} else None)\n"
        f"router = routekit.Router.from_toml({config(server)!r}, state=store)\n"
    )
    return [sys.executable, "-c", head + body]


def test_after_a_fork_both_sides_can_ask(loopback: Loopback, root: Path) -> None:
    loopback.script("m", {"tokens": 1})
    body = (
        "assert router.ask('hi').text == 'word1'\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if router.ask('hi').text == 'word1' else 9)\n"
        "assert router.ask('hi').text == 'word1'\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run(script_of(loopback, body), cwd=root, capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout.strip(), done.returncode) == ("0", 0), done.stderr
    assert len(loopback.requests) == 3


def begin(server: Loopback, root: Path, body: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        script_of(server, body), cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert server.wait_for(lambda server: bool(server.requests), 40), process.communicate()
    return process


def test_an_interrupt_of_the_waiting_thread_closes_the_upstream_and_keeps_the_record(
    loopback: Loopback, root: Path
) -> None:
    loopback.script("m", {"hang": "headers"})
    body = (
        "from routekit import testing\n"
        "try:\n    router.ask('hi')\n"
        "except KeyboardInterrupt:\n    print(testing.attempts(router), flush=True)\n"
        "    import time; time.sleep(30)\n"
    )
    process = begin(loopback, root, body)
    process.send_signal(signal.SIGINT)
    try:
        assert process.stdout is not None
        # read before the process ends: the cancellation is complete when the interrupt is raised
        assert process.stdout.readline().strip() == "[('openai-chat/m', 'cancelled')]"
        assert loopback.wait_for(lambda server: server.requests[0].closed_at is not None)
    finally:
        process.kill()
        process.communicate()


def test_the_end_of_the_interpreter_cancels_what_still_runs_and_keeps_its_record(
    loopback: Loopback, root: Path, tmp_path: Path
) -> None:
    loopback.script("m", {"hang": "headers"})
    body = "import threading; threading.Thread(target=lambda: router.ask('hi'), daemon=True).start(); input()\n"
    command = script_of(loopback, body, state=tmp_path / "state.db")
    process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, text=True)
    assert loopback.wait_for(lambda server: bool(server.requests), 40)
    process.communicate("\n", timeout=20)
    assert process.returncode == 0
    (kept,) = open_store(tmp_path / "state.db").records(limit=9)
    assert [attempt["outcome"] for attempt in kept["attempts"]] == ["cancelled"]


# -- attachments -------------------------------------------------------------------------------------------------------


def test_first_bytes_tell_what_a_file_is_whatever_its_name(tmp_path: Path) -> None:
    kinds = {
        b"\xff\xd8\xff\xe0": "image/jpeg",
        b"GIF89a": "image/gif",
        b"RIFF\0\0\0\0WEBPVP8 ": "image/webp",
        PNG: "image/png",
    }
    for content, kind in kinds.items():
        (tmp_path / "picture.txt").write_bytes(content)
        url = attachment(tmp_path / "picture.txt")["image_url"]["url"]
        assert url == f"data:{kind};base64,{base64.b64encode(content).decode()}"
    (tmp_path / "paper.bin").write_bytes(b"\n\n" + PDF)
    assert attachment(str(tmp_path / "paper.bin"))["file"]["filename"] == "paper.bin"
    assert attachment(PDF, name="x.pdf")["file"]["file_data"].startswith("data:application/pdf;base64,")
    assert attachment("data:image/png;base64,AAAA") == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,AAAA"},
    }


def test_an_image_by_address_is_left_to_the_vendor_and_anything_else_is_fetched(loopback: Loopback) -> None:
    assert attachment("https://example.invalid/a.PNG?x=1")["image_url"] == {"url": "https://example.invalid/a.PNG?x=1"}
    loopback.script(
        "*", {"status": 200, "body": PDF.decode(), "type": "application/pdf"}, {"status": 404, "body": "no"}
    )
    fetched = attachment(f"{loopback.url()}/papers/two.pdf?v=1")
    assert fetched["file"] == attachment(PDF, name="two.pdf")["file"]
    with pytest.raises(UsageError, match="cannot be fetched: HTTP 404"):
        attachment(f"{loopback.url()}/nothing.pdf")
    with pytest.raises(UsageError, match="cannot be fetched"):
        attachment("http://127.0.0.1:9/nothing.pdf")


def test_what_cannot_be_read_is_a_usage_error_and_what_no_model_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.png cannot be read: No such file"):
        attachment(tmp_path / "gone.png")
    with pytest.raises(UsageError, match="Is a directory"):
        attachment(tmp_path)
    with pytest.raises(UsageError):
        attachment("bad\0name")
    (tmp_path / "notes.txt").write_text("words")
    with pytest.raises(RequestRefused) as refused:
        attachment(tmp_path / "notes.txt")
    assert refused.value.exit_code == 65
    assert refused.value.hints == (f"routekit ask -f {tmp_path}/notes.txt 'your question'",)
    with pytest.raises(RequestRefused, match="audio/mp3 cannot be attached"):
        attachment(b"ID3", type="audio/mp3")
    with pytest.raises(UsageError):
        attachment("data:image/png,plain")


IMAGE, PAPER = base64.b64encode(PNG).decode(), base64.b64encode(PDF).decode()
ON_THE_WIRE: dict[str, Any] = {
    "openai-chat": [
        {"type": "text", "text": "what disagrees?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}},
        {"type": "file", "file": {"filename": "p.pdf", "file_data": f"data:application/pdf;base64,{PAPER}"}},
    ],
    "openai-responses": [
        {"type": "input_text", "text": "what disagrees?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
        {"type": "input_file", "file_data": f"data:application/pdf;base64,{PAPER}", "filename": "p.pdf"},
    ],
    "anthropic-messages": [
        {"type": "text", "text": "what disagrees?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PAPER},
            "title": "p.pdf",
        },
    ],
}


@pytest.mark.parametrize("api", APIS)
def test_attachments_and_schemas_reach_each_api_in_its_own_form(api: str, loopback: Loopback, tmp_path: Path) -> None:
    (tmp_path / "p.pdf").write_bytes(PDF)
    loopback.script("m", {"text": '{"name": "x"}'})
    router = routekit.Router.from_toml(config(loopback))
    given = {"attachments": [PNG, tmp_path / "p.pdf"], "schema": "name", "model": f"{api}/m"}
    assert router.ask("what disagrees?", **given).data == {"name": "x"}
    body = loopback.requests[0].body
    turn = (body.get("messages") or body.get("input"))[-1]
    assert turn["content"] == ON_THE_WIRE[api]
    form = {
        "openai-chat": lambda: body["response_format"]["json_schema"]["schema"],
        "openai-responses": lambda: body["text"]["format"]["schema"],
        "anthropic-messages": lambda: body["output_config"]["format"]["schema"],
    }
    assert form[api]()["required"] == ["name"]
    router.close()


def test_an_attachment_goes_to_a_candidate_that_can_take_it_and_the_other_is_said() -> None:
    toml = """
    [providers.a]
    api = "scripted"
    models = ["m"]
    [providers.a.model_info.m]
    pdf = false
    [providers.b]
    api = "scripted"
    [routes.r]
    targets = ["a/m", "b/m"]
    """
    router = testing.router_from(toml, scripts={"a": ["a"], "b": ["b"]})
    answered = router.ask("read", model="r", attachments=[PDF])
    assert answered.served_by == "b/m"
    assert [(skip.target, skip.reason) for skip in answered.record.skipped] == [("a/m", "cannot take pdf")]
    assert router.ask("read", model="r").served_by == "a/m"


def test_parts_made_by_hand_pass_through_and_attachments_join_the_last_message() -> None:
    router = testing.router_from(SCRIPTED, scripts={"a": ["hi"]})
    part = {"type": "image_url", "image_url": {"url": "https://example.invalid/x.png", "detail": "low"}}
    router.ask([{"role": "user", "content": "one"}, {"role": "user", "content": [part]}], attachments=[part])
    first, last = router.requests[0][1].messages
    assert (first.content, last.content) == ("one", (part, part))


# -- answers -----------------------------------------------------------------------------------------------------------


def test_an_answers_message_carries_a_conversation_on_by_hand() -> None:
    call = {"id": "t1", "name": "look", "arguments": "{}"}
    router = testing.router_from(SCRIPTED, scripts={"a": [testing.answers("", tool_calls=[call]), "seen"]})
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    asked: list[Any] = [{"role": "user", "content": "look"}]
    first = router.ask(asked, tools=tools, tool_choice="required")
    asked += [first.message, {"role": "tool", "tool_call_id": "t1", "content": "a cat"}]
    assert router.ask(asked, tools=tools).text == "seen"
    sent = router.requests[0][1]
    assert (sent.tools, sent.tool_choice) == (tuple(tools), "required")
    assert [message.role for message in router.requests[1][1].messages] == ["user", "assistant", "tool"]


def test_an_unknown_keyword_is_an_error() -> None:
    router = testing.router_from(SCRIPTED, scripts={"a": ["hi"]})
    with pytest.raises(TypeError):
        router.ask("hi", modle="a/m")  # type: ignore[call-arg]


# -- types -------------------------------------------------------------------------------------------------------------

CALLER = """
import routekit
from routekit import Answer, Router, Session, attachment, testing


async def main(router: Router) -> str:
    answer: Answer = await router.aask("hi", model="plan", options={"max_tokens": 5}, timeout=3.0)
    async for delta in routekit.astream("hi"):
        print(delta.text)
    return answer.text


def blocking() -> int:
    answer = routekit.ask([{"role": "user", "content": "hi"}], schema={"type": "object"}, tools=[], system="Brief.")
    with Session(Router.open(config="config.toml"), model="plan") as chat:
        chat.ask("what?", attachments=[attachment("chart.png"), b"", "paper.pdf"])
        for delta in chat.stream("more"):
            print(delta.text)
        print(chat.retry(model="other").served_by, chat.undo().answer)
    router = testing.router_from("", scripts={"a": ["hi", testing.fails("transient")]}, clock=testing.Clock())
    return answer.usage.output_tokens + len(testing.attempts(router)) + len(router.requests)
"""
WRONG = """
import routekit

routekit.ask("hi", modle="plan")
routekit.ask("hi", timeout="soon")
routekit.nothing("hi")
answer: int = routekit.ask("hi")
"""


def test_callers_are_checked_by_mypy_strict(tmp_path: Path, root: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [*command, "caller.py", "wrong.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("caller.py")] == []
    assert [line.split(":")[1] for line in lines if "error:" in line and line.startswith("wrong.py")] == [
        *("4", "5", "6", "7")
    ], done.stdout + done.stderr


def test_importing_the_package_loads_nothing_of_weight(root: Path) -> None:
    code = "import sys, routekit; routekit.__all__; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("routekit")} <= {"routekit", "routekit.version"}
    assert not loaded & {"openai", "anthropic", "httpx2", "asyncio", "msgspec", "pydantic", "keyring", "jsonschema"}


def test_every_public_name_can_be_had(root: Path) -> None:
    for name in routekit.__all__:
        assert getattr(routekit, name) is not None


def test_a_timeout_of_the_callers_own_is_kept(loopback: Loopback) -> None:
    router = routekit.Router.from_toml(config(loopback))
    router.ask("warm the SDK up")
    loopback.script("m", {"hang": "headers"})
    started = time.monotonic()
    with pytest.raises(RouteExhausted, match="--timeout"):
        router.ask("hi", timeout=0.2)
    assert time.monotonic() - started < 10
    router.close()


@pytest.mark.parametrize("how", [{"timeout": "abc"}, {"timeout": 0}, {"timeout": True}, {"max_cost": "1"}])
def test_what_is_no_amount_is_a_usage_error(how: dict[str, Any]) -> None:
    router = routekit.Router.from_toml(SCRIPTED)
    with pytest.raises(UsageError, match="is a number above 0"):
        router.ask("hi", **how)


@pytest.mark.parametrize("prompt", ["", "  \n", [{"role": "user", "content": ""}]])
def test_an_empty_prompt_is_a_usage_error(prompt: Any) -> None:
    router = routekit.Router.from_toml(SCRIPTED)
    with pytest.raises(UsageError, match="nothing to ask"):
        router.ask(prompt)
