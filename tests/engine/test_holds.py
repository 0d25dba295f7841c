"""Limits that vendors state in headers: what one answer said is known to every process before the next one is asked."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from routekit.core.health import Hold
from routekit.core.judge import read_standing
from routekit.errors import EX_LATER, RouteExhausted, RoutekitError
from routekit.router import Router
from routekit.state import StateStore, open_store
from routekit.state.memory import MemoryStore
from routekit.vendors.scripted import Vendor
from tests.loopback import Loopback, loopback

__all__ = ["loopback"]

NOW = 1_700_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def limits(remaining: float, *, limit: int = 1000, reset: str = "6m0s", what: str = "requests") -> dict[str, str]:
    return {
        f"x-ratelimit-limit-{what}": str(limit),
        f"x-ratelimit-remaining-{what}": str(remaining),
        f"x-ratelimit-reset-{what}": reset,
    }


def opened(script: Any, *, selection: str = "ordered", clock: Clock | None = None, state: Any = None) -> Router:
    text = (
        "version = 1\n"
        '[providers.a]\napi = "scripted"\nkey = "none"\n[providers.b]\napi = "scripted"\nkey = "none"\n'
        f'[routes.r]\ntargets = ["a/m", "b/n"]\nselection = "{selection}"\n'
    )
    return Router.from_toml(
        text, speakers={"scripted": Vendor(script=script)}, now=clock or Clock(), state=state or MemoryStore()
    )


def hold_of(store: StateStore, target: str) -> Hold | None:
    raw = store.peek([f"target:{target}"]).get(f"target:{target}")
    return read_standing(raw).hold if raw else None


def servers(router: Router, count: int, **how: Any) -> list[str | None]:
    return [router.ask("x", model="r", **how).record.served_by for _ in range(count)]


def test_a_vendor_with_nothing_left_is_left_out_until_its_reset() -> None:
    clock = Clock()
    router = opened({"m": [{"text": "a", "headers": limits(0)}, "a"], "n": ["b"]}, clock=clock)
    assert servers(router, 2) == ["a/m", "b/n"]
    assert hold_of(router.store, "a/m") == Hold(start=NOW, end=NOW + 360)
    assert router.why().why_not == "on hold by its vendor, back in 6m0s"
    clock.now += 360
    assert servers(router, 1) == ["a/m"]


def test_a_pinned_target_on_hold_is_refused_with_its_time() -> None:
    router = opened({"m": [{"text": "a", "headers": limits(0)}]})
    router.ask("x", model="a/m")
    with pytest.raises(RouteExhausted) as raised:
        router.ask("x", model="a/m")
    assert (raised.value.exit_code, raised.value.retry_after) == (EX_LATER, 360)


def test_no_reset_stated_holds_a_minute() -> None:
    router = opened({"m": [{"text": "a", "headers": {"x-ratelimit-remaining-tokens": "0"}}], "n": ["b"]})
    servers(router, 1)
    assert hold_of(router.store, "a/m") == Hold(start=NOW, end=NOW + 60)


def test_nearly_nothing_left_only_sorts_it_last() -> None:
    script = {"m": [{"text": "a", "headers": limits(20)}], "n": ["b"]}
    assert servers(opened(script, selection="round-robin"), 4) == ["a/m", "b/n", "b/n", "b/n"]
    assert servers(opened(script), 2) == ["a/m", "a/m"]


def test_a_healthier_answer_lifts_what_an_earlier_one_said() -> None:
    low, well = limits(20), limits(900)
    router = opened({"m": [{"text": "a", "headers": low}, {"text": "a", "headers": well}, "a"], "n": ["b"]})
    servers(router, 1)
    assert hold_of(router.store, "a/m") is not None
    servers(router, 1)
    assert hold_of(router.store, "a/m") is None


@pytest.mark.parametrize("headers", [{}, {"x-ratelimit-remaining-requests": ""}, {"retry-after": "30"}, limits(500)])
def test_headers_that_mean_no_shortage_hold_nothing(headers: Mapping[str, str]) -> None:
    router = opened({"m": [{"text": "a", "headers": headers}], "n": ["b"]})
    assert servers(router, 2) == ["a/m", "a/m"]
    assert hold_of(router.store, "a/m") is None


def test_a_hold_is_known_while_the_answer_still_comes() -> None:
    state = MemoryStore()
    seen: list[Hold | None] = []

    async def sleep(seconds: float) -> None:
        seen.append(hold_of(state, "a/m"))

    router = opened({}, state=state)
    step = {"pieces": ["a", "b"], "delay": 1, "headers": limits(0)}
    router._speakers["scripted"] = Vendor(script=[step], sleep=sleep)
    router.ask("x", model="r")
    assert seen[0] == Hold(start=NOW, end=NOW + 360)


def test_limits_that_are_not_short_cost_no_transaction() -> None:
    class Counting(MemoryStore):
        count = 0

        def transact(self, keys: Iterable[str], step: Any, *, patience: float = 1.0) -> Any:
            self.count += 1
            return super().transact(keys, step, patience=patience)

    def transactions(headers: Mapping[str, str]) -> int:
        state = Counting()
        servers(opened({"m": [{"text": "a", "headers": headers}], "n": ["b"]}, state=state), 1)
        return state.count

    assert transactions({}) == transactions(limits(900)) == transactions(limits(20))
    assert transactions(limits(0)) == transactions({}) + 1


# --- the real SDK -----------------------------------------------------------------------------------------------------


def real(loopback: Loopback, state: StateStore, *, targets: str = '"a/m", "b/n"') -> Router:
    accounts = "".join(
        f'[providers.{id}]\napi = "openai-chat"\nbase_url = "{loopback.url()}"\nkey = "none"\n' for id in "ab"
    )
    text = f"version = 1\n{accounts}[routes.r]\ntargets = [{targets}]\n"
    return Router.from_toml(text, state=state)


def test_a_real_answers_headers_hold_the_target_for_another_process(loopback: Loopback, tmp_path: Path) -> None:
    loopback.script("m", {"text": "a", "limits": limits(0)})
    loopback.script("n", {"text": "b"})
    file = tmp_path / "state.sqlite3"
    first, second = real(loopback, open_store(file)), real(loopback, open_store(file))
    assert servers(first, 1) == ["a/m"]
    assert servers(second, 1) == ["b/n"]
    assert loopback.count("m") == 1
    first.close()
    second.close()


def test_a_real_refusals_headers_hold_longer_than_its_retry_after(loopback: Loopback) -> None:
    refusal = {"status": 429, "limits": limits(0), "headers": {"retry-after": "20"}}
    loopback.script("m", refusal)
    loopback.script("n", {"text": "b"})
    store = open_store(None)
    assert servers(real(loopback, store), 1) == ["b/n"]
    hold = hold_of(store, "a/m")
    assert hold is not None
    assert 359 < hold.end - hold.start <= 360


def test_a_short_retry_after_is_known_to_others_while_it_is_waited_out(loopback: Loopback) -> None:
    loopback.script("m", {"status": 429, "headers": {"retry-after-ms": "700"}}, {"text": "a"})
    loopback.script("n", {"text": "b"})
    store = open_store(None)
    first = real(loopback, store, targets='"a/m"')
    answers: list[Any] = []
    waiter = threading.Thread(target=lambda: answers.extend(servers(first, 1)))
    waiter.start()
    while hold_of(store, "a/m") is None:
        waiter.join(0.005)
        assert waiter.is_alive()
    standing = read_standing(store.peek(["target:a/m"])["target:a/m"])
    # Somebody who has others goes to them; nobody has been cooled.
    assert servers(real(loopback, store), 1) == ["b/n"]
    assert (standing.window, standing.rung) == (None, 0)
    # Somebody who has only this one waits as well, and is served.
    assert servers(real(loopback, store, targets='"a/m"'), 1) == ["a/m"]
    waiter.join()
    assert answers == ["a/m"]
    assert loopback.count("m") == 3


def test_a_wait_that_was_in_vain_ends_in_the_stated_window(loopback: Loopback) -> None:
    loopback.script(
        "m", {"status": 429, "headers": {"retry-after-ms": "50"}}, {"status": 429, "headers": {"retry-after": "40"}}
    )
    store = open_store(None)
    with pytest.raises(RoutekitError):
        servers(real(loopback, store, targets='"a/m"'), 1)
    window = read_standing(store.peek(["target:a/m"])["target:a/m"]).window
    assert window is not None
    assert (window.stated, round(window.length)) == (True, 40)


def test_the_headers_of_the_http_standard_hold_as_well(loopback: Loopback) -> None:
    standard = {"ratelimit-limit": "100", "ratelimit-remaining": "0", "ratelimit-reset": "50"}
    loopback.script("m", {"text": "a", "limits": standard})
    loopback.script("n", {"text": "b"})
    assert servers(real(loopback, open_store(None)), 2) == ["a/m", "b/n"]
