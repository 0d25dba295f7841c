"""The vendor without a network: every outcome can be scripted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from routekit.core.chat import Delta, Finish, Message, Opened, Usage
from routekit.core.faults import FAULTS
from routekit.vendors.scripted import Vendor
from tests.vendors.asking import Got, collect, make_call, request


def run(vendor: Any, *, model: str = "m", script: Any = None, provider: str = "p", **more: Any) -> Got:
    params = {} if script is None else {"script": script}
    call = make_call("scripted", "", model=model, provider={"id": provider, "params": params}, **more)
    return asyncio.run(collect(vendor, call, Got()))


def test_an_answer_is_opened_streamed_and_finished() -> None:
    got = run(Vendor(), script=["one two three"])
    assert [type(event) for event in got.events] == [Opened, Delta, Delta, Delta, Finish]
    assert got.text == "one two three"
    assert got.finish.usage is not None
    assert (got.finish.reason, got.finish.model) == ("stop", "m")


@pytest.mark.parametrize("text", ["", " ", "a", " a  b\n", "\n\nx", "tail "])
def test_cutting_an_answer_into_pieces_loses_nothing(text: str) -> None:
    assert run(Vendor(), script=[{"text": text}]).text == (text if text.strip() else "")


def test_each_call_takes_the_next_step_and_the_last_repeats() -> None:
    vendor = Vendor()
    outcomes = [run(vendor, script=[{"fault": "transient", "status": 503}, "a", "b"]) for _ in range(4)]
    assert [got.fault.kind if got.fault else got.text for got in outcomes] == ["transient", "a", "b", "b"]


def test_providers_and_models_have_their_own_place_in_the_script() -> None:
    vendor = Vendor()
    script = {"x": ["x1", "x2"], "*": ["else"]}
    assert [run(vendor, model=m, script=script).text for m in ("x", "y", "x")] == ["x1", "else", "x2"]
    assert run(vendor, model="x", script=script, provider="q").text == "x1"


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_every_fault_can_be_scripted(kind: str) -> None:
    step = {"fault": kind, "status": 418, "message": "so", "code": "c", "hint": 3.0, "parameter": "p"}
    fault = run(Vendor(), script=[step]).fault
    assert fault is not None
    assert (fault.kind, fault.message, fault.status, fault.code) == (kind, "so", 418, "c")
    assert (fault.hint, fault.parameter, fault.answered) == (3.0, "p", True)


def test_a_stream_can_be_cut_before_and_after_output() -> None:
    early, late = (run(Vendor(), script=[{"text": "a b c", "cut_after": n}]) for n in (0, 2))
    assert (early.outcome, early.text) == ("transient", "")
    assert (late.outcome, late.text) == ("truncated", "a b")


def test_a_stalled_stream_ends_only_by_its_callers_limit() -> None:
    async def stalled() -> Got:
        got = Got()
        call = make_call("scripted", "", provider={"params": {"script": [{"text": "a b c", "stall_after": 1}]}})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await collect(Vendor(), call, got)
        return got

    assert asyncio.run(stalled()).text == "a"


def test_waits_go_through_the_given_clock() -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    got = run(Vendor(sleep=sleep), script=[{"text": "a b", "first": 30, "delay": 7}])
    assert got.text == "a b"
    assert waited == [30.0, 7.0, 7.0, 7.0]


def test_python_objects_can_be_the_script() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2}
    steps: list[Any] = [
        lambda call: f"you asked {call.model}",
        {"events": [Delta(text="raw"), Finish(reason="length")]},
        {"text": "t", "tool_calls": [{"id": "c", "name": "f", "arguments": "{}"}], "usage": usage, "served": "other"},
        {"pieces": ["a ", "", "b"], "reasoning": "hm", "headers": {"retry-after": "1"}},
    ]
    vendor = Vendor(script=steps)
    first, second, third, fourth = (run(vendor) for _ in steps)
    assert first.text == "you asked m"
    assert (second.text, second.finish.reason) == ("raw", "length")
    assert (third.tools(), third.finish.reason) == ({0: ("c", "f", "{}")}, "tool_calls")
    assert (third.finish.usage, third.finish.model) == (Usage(input_tokens=1, output_tokens=2), "other")
    assert (fourth.text, fourth.opened.headers) == ("a b", {"retry-after": "1"})
    assert [call.model for call in vendor.calls] == ["m"] * 4


@pytest.mark.parametrize("script", [None, [], "text", [3], [{"fault": "nonsense"}], {"other": ["x"]}])
def test_a_wrong_script_is_a_fault_of_the_configuration(script: Any) -> None:
    fault = run(Vendor(), script=script).fault
    assert fault is not None
    assert fault.kind == "setup"
    assert "params.script" in fault.message


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("hi", "m: hi!"),
        ("two\n  lines", "m: two lines!"),
        ("x" * 100, "m: " + "x" * 59 + "…!"),
        (({"type": "text", "text": "part"}, {"type": "image_url", "image_url": {}}), "m: part!"),
    ],
)
def test_an_answer_can_repeat_the_start_of_what_was_asked(asked: Any, shown: str) -> None:
    ask = request(Message(role="user", content=asked), Message(role="assistant", content="not this"))
    assert run(Vendor(), script=["{model}: {prompt}!"], ask=ask).text == shown


def test_it_loads_no_sdk() -> None:
    import subprocess
    import sys

    code = "import sys; from routekit.vendors import vendor_for; vendor_for('scripted').load(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"openai", "anthropic", "httpx2"} & set(loaded)
