"""The public crash tests with their real waits and the default limits, each question a process of its own: what the
fast tests play with shortened ones. Takes about three minutes, and is a job of its own: pytest -m waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.conftest import Done
from tests.loopback import Loopback, answer

pytestmark = [pytest.mark.waits, pytest.mark.timeout(240)]

WHOLE = answer() + "\n"
#: the defaults, said: a vendor on this machine would be waited for longer
DEFAULTS = 'connect = "10s"\nfirst_output = "10s"\nstall = "30s"'


@contextmanager
def healed_after(loopback: Loopback, seconds: float) -> Iterator[list[float]]:
    """The model ``m`` answers 503 for so long; the list holds when it healed."""
    loopback.script("m", {"status": 503})
    healed: list[float] = []

    def heal() -> None:
        loopback.script("m", {})
        healed.append(time.monotonic())

    timer = threading.Timer(seconds, heal)
    timer.start()
    try:
        yield healed
    finally:
        timer.cancel()


def timed(machine: Any, *arguments: str) -> tuple[Done, float]:
    began = time.monotonic()
    done = machine.ask("hi", *arguments, timeout=100.0)
    return done, time.monotonic() - began


def test_s15_through_a_minute_of_outage_every_request_is_served_and_the_primary_is_back(machine: Any) -> None:
    loopback = machine.loopback
    machine.config("a/m", "b/n", limits=DEFAULTS)
    began = time.monotonic()
    with healed_after(loopback, 60.0) as healed:
        served: list[tuple[float, str]] = []
        for number in range(24):
            time.sleep(max(0.0, began + 4.0 * number - time.monotonic()))
            asked = time.monotonic()
            done = machine.ask("hi", "--json")
            assert (done.code, done.json["response"]) == (0, answer())
            served.append((asked, done.json["served_by"]))
    down = [request for request in loopback.requests if request.model == "m" and request.at < healed[0]]
    assert 1 <= len(down) <= 4
    assert {by for asked, by in served if asked < healed[0]} == {"b/n"}
    back = next(asked for asked, by in served if by == "a/m")
    assert back <= healed[0] + 30.0
    assert {by for asked, by in served if asked >= back} == {"a/m"}


def test_s01_two_seconds_that_were_asked_for_are_waited(machine: Any) -> None:
    machine.loopback.script("m", {"status": 429, "headers": {"Retry-After": "2"}}, {})
    machine.config("a/m", "b/n", limits=DEFAULTS)
    assert machine.ask("hi").out == WHOLE
    first, second = machine.loopback.requests
    assert (first.model, second.model) == ("m", "m")
    assert second.at - first.at >= 1.8


@pytest.fixture
def at_once() -> Iterator[ThreadPoolExecutor]:
    """Waiting costs nothing: what mostly waits may wait together."""
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_s06_s07_s09_and_slow_answers_take_the_time_their_limits_say(machine: Any, at_once: ThreadPoolExecutor) -> None:
    loopback = machine.loopback
    steps = {
        "accept": {"hang": "accept"},
        "headers": {"hang": "headers"},
        "twenty": {"hold": 20},
        "stall": {"cut_after": 20, "cut": "stall"},
        "slow": {"hold": 25},
        "only": {"hold": 25},
    }
    for model, step in steps.items():
        loopback.script(model, step)
    listed = {model: [f"a/{model}"] + ([] if model == "only" else ["b/n"]) for model in steps}
    routes = "".join(f"[routes.{model}]\ntargets = {targets}\n" for model, targets in listed.items())
    machine.config(limits=DEFAULTS, more=routes.replace("'", '"'))
    results = dict(zip(steps, at_once.map(lambda model: timed(machine, "-m", model), steps), strict=True))
    assert {model: (done.code, done.out) for model, (done, _) in results.items()} == dict.fromkeys(steps, (0, WHOLE))
    # processes take a while to start here; what matters is that nobody waits for what never comes
    waits = {model: took for model, (_, took) in results.items()}
    assert 25 <= waits["only"] < 45
    assert loopback.count("only") == 1
    for model in ("accept", "headers", "twenty", "slow"):
        assert 10 <= waits[model] < 25, (model, waits)
        assert loopback.count(model) == 1
    assert 30 <= waits["stall"] < 45
    assert loopback.count("stall") == 1


def test_s02_s04_a_dead_vendor_is_not_hammered(machine: Any) -> None:
    machine.loopback.script("m", {"status": 503})
    machine.loopback.script("n", {"status": 429})
    machine.config("a/m", "b/n", "c/o", limits=DEFAULTS)
    assert machine.ask("hi").out == WHOLE
    assert machine.models() == ["m", "m", "n", "o"]
    times = [request.at for request in machine.loopback.requests]
    assert times[1] - times[0] >= 0.24
