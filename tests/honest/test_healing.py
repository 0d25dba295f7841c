"""An outage of a minute and the way back, with the real numbers on a clock that is moved by hand (S15); the same with
real processes and real minutes is in tests/slow."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from routekit.core.record import from_document
from routekit.loop import run
from tests.engine.stage import NOW, Stage, accounts, down

OUTAGE, EVERY, BACK = 60.0, 4.0, 30.0


class Outage:
    """A route of a and b; a is down for the first minute."""

    def __init__(self, more: str = "", *, seconds: float = OUTAGE) -> None:
        text = f'{more}{accounts("a", "b")}[routes.r]\ntargets = ["a/m", "b/n"]\n'
        self.met: list[float] = []
        self.stage = Stage(text, {"a": [self._answer]})
        self.stage.router.long_lived = False
        self.seconds = seconds

    def _answer(self, call: Any) -> Any:
        at = self.stage.now - NOW
        if at < self.seconds:
            self.met.append(at)
            return down("transient", "no", status=503)
        return "a"

    def ask(self, at: float) -> str | None:
        self.stage.now = NOW + at

        async def one() -> str | None:
            answered = await self.stage.router.aask("hello", model="r")
            await self.stage.router.end_probes(5.0)
            return answered.served_by

        return run(one())


def back(served: list[tuple[float, str | None]]) -> float:
    """Since when the first target has served without a break."""
    others = [at for at, by in served if by != "a/m"]
    return min(at for at, by in served if by == "a/m" and at > max(others))


@pytest.mark.parametrize("probe", ["true", "false"])
@pytest.mark.parametrize("offset", [0.0, 1.5, 3.0])
def test_s15_every_request_is_served_and_the_primary_is_back_within_half_a_minute(offset: float, probe: str) -> None:
    outage = Outage(f"[health]\nprobe = {probe}\n")
    served = [(at, outage.ask(at)) for at in (offset + EVERY * number for number in range(30))]
    assert {by for _, by in served} == {"a/m", "b/n"}
    assert len(outage.met) <= 4
    if probe == "true":
        assert back(served) <= OUTAGE + BACK
    assert served[-1][1] == "a/m"


def test_a_probe_that_succeeds_ends_like_any_answer(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage('[health]\nfirst = "5m"\n', seconds=10.0)
    outage.ask(0.0)
    with caplog.at_level("ERROR", logger="asyncio"):
        assert [outage.ask(at) for at in (28.0, 32.0, 36.0)] == ["b/n", "b/n", "a/m"]
        gc.collect()
    assert caplog.messages == []
    records = [from_document(row) for row in outage.stage.router.store.records(limit=100)]
    (probe,) = [row for row in records if row.surface == "probe"]
    assert (probe.exit_code, probe.served_by, [row.outcome for row in probe.attempts]) == (0, "a/m", ["probe"])


def test_a_longer_outage_costs_two_requests_a_minute_at_most() -> None:
    outage = Outage(seconds=600.0)
    served = [(at, outage.ask(at)) for at in (EVERY * number for number in range(170))]
    assert {by for _, by in served if _ < 600} == {"b/n"}
    assert len(outage.met) <= 2 + 600 / 30
    assert back(served) <= 600 + BACK + EVERY


def test_an_outage_nobody_asks_during_costs_nothing() -> None:
    outage = Outage()
    assert outage.ask(0.0) == "b/n"
    assert outage.ask(61.0) == "a/m"
    assert outage.met == [0.0, 0.0]
