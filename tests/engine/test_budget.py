"""Budgets through the whole engine: who is refused, what is settled, what is given back, and what it costs others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from routekit.core.chat import Delta
from routekit.errors import (
    EX_BUDGET,
    EX_CREDENTIAL,
    EX_LATER,
    BudgetExceeded,
    ConfigError,
    RouteExhausted,
    RoutekitError,
)
from routekit.router import Router
from routekit.state import Step
from routekit.state.memory import MemoryStore
from routekit.vendors import VendorCall
from routekit.vendors.scripted import Vendor

NOW = 1_700_000_000.0
ANSWER = {"text": "hello", "usage": {"input_tokens": 10, "output_tokens": 20}}


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Counting(MemoryStore):
    """A memory that notes which keys each transaction asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, ...]] = []

    def transact(self, keys: Iterable[str], step: Step[Any], *, patience: float = 1.0) -> Any:
        self.asked.append(tuple(keys))
        return super().transact(self.asked[-1], step, patience=patience)


def account(id: str, *, budget: str = "", info: str = "") -> str:
    budget = f"budget = {{ {budget} }}\n" if budget else ""
    info = f'[providers.{id}.model_info."m"]\n{info}\n' if info else ""
    return f'[providers.{id}]\napi = "scripted"\nkey = "none"\n{budget}{info}'


def route(id: str, *targets: str, more: str = "") -> str:
    listed = ", ".join(f'"{target}"' for target in targets)
    return f"[routes.{id}]\ntargets = [{listed}]\n{more}\n"


def opened(*parts: str, script: Any = (ANSWER,), clock: Clock | None = None, state: Any = None) -> Router:
    vendor = Vendor(script=script)
    clock = clock or Clock()
    text = "version = 1\n" + "\n".join(parts)
    return Router.from_toml(text, speakers={"scripted": vendor}, now=clock, state=state or MemoryStore())


def rows(router: Router) -> dict[str, tuple[int, int, int]]:
    """budget → (spent, reserved, limit)."""
    return {
        f"{row.scope} {row.unit} per {row.window}": (row.spent, row.reserved, row.limit) for row in router.budgets()
    }


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_spent_budget_refuses_with_spent_reserved_limit_and_window() -> None:
    clock = Clock()
    router = opened(account("a", budget="requests_per_minute = 2"), route("r", "a/m"), clock=clock)
    router.ask("one")
    clock.now += 10
    router.ask("two")
    with pytest.raises(BudgetExceeded) as raised:
        router.ask("three")
    error = raised.value
    assert error.exit_code == EX_BUDGET
    assert error.message == (
        "r: no room in budget provider:a: 2 spent and 0 reserved of 2 requests per minute; frees in 50s"
    )
    assert error.retry_after == 50
    assert error.hints == ("routekit budget list",)
    assert not error.attempts
    clock.now += 50
    assert router.ask("four").text == "hello"


def test_the_refusal_is_kept_in_the_record_and_shown_in_the_preview() -> None:
    router = opened(account("a", budget="requests_per_day = 1"), route("r", "a/m"))
    router.ask("one")
    with pytest.raises(BudgetExceeded):
        router.ask("two")
    record = router.why()
    assert (record.exit_code, [skip.until for skip in record.skipped]) == (EX_BUDGET, [NOW + 86400])
    leaf: Any = router.preview("r").children[0]
    assert leaf.reason == "budget provider:a: 1 spent and 0 reserved of 1 request per day"


def test_a_leaf_without_room_is_passed_over_for_one_that_has_it() -> None:
    router = opened(account("a", budget="requests_per_minute = 1"), account("b"), route("r", "a/m", "b/m"))
    answers = [router.ask("x").record for _ in range(3)]
    assert [record.served_by for record in answers] == ["a/m", "b/m", "b/m"]
    assert "budget provider:a" in str(answers[1].why_not)


def test_a_pinned_call_counts_against_the_providers_budget_and_is_refused_by_it() -> None:
    router = opened(account("a", budget="requests_per_minute = 2"), route("r", "a/m"))
    router.ask("x", model="a/other")
    router.ask("x")
    with pytest.raises(BudgetExceeded):
        router.ask("x", model="a/third")


def test_a_targets_budget_is_its_own_whatever_route_the_call_came_through() -> None:
    router = opened(
        account("a", info="budget = { requests_per_day = 2 }"),
        route("r", "a/m"),
        route("outer", "r"),
        route("other", "a/n"),
    )
    router.ask("x", model="outer")
    router.ask("x", model="a/m")
    with pytest.raises(BudgetExceeded, match="target:a/m"):
        router.ask("x", model="r")
    assert router.ask("x", model="other").text == "hello"


def test_the_budgets_of_all_routes_on_the_path_count_fixed_ones_too() -> None:
    router = opened(
        account("a"),
        route("inner", "a/m", more="fixed = true\nbudget = { requests_per_day = 2 }"),
        route("outer", "inner", more="budget = { requests_per_day = 5 }"),
    )
    router.ask("x", model="outer")
    router.ask("x", model="inner")
    with pytest.raises(BudgetExceeded, match="route:inner"):
        router.ask("x", model="outer")
    assert rows(router) == {"route:inner requests per day": (2, 0, 2), "route:outer requests per day": (1, 0, 5)}


def test_a_budget_is_not_overridden_by_the_last_resort() -> None:
    script = [ANSWER, {"fault": "transient", "status": 503}, {"fault": "transient", "status": 503}, ANSWER]
    router = opened(account("a", budget="requests_per_day = 3"), route("r", "a/m"), script=script)
    router.ask("x")
    with pytest.raises(RouteExhausted):
        router.ask("x")
    # Three requests are spent: asleep and without room, it is not even tried.
    with pytest.raises(RoutekitError) as raised:
        router.ask("x")
    assert not raised.value.attempts
    assert raised.value.exit_code == EX_LATER


def test_a_last_resort_takes_room_like_any_other_call() -> None:
    seen: list[tuple[int, int, int]] = []

    def step(call: VendorCall) -> Any:
        seen.append(rows(router)["provider:a requests per day"])
        return ANSWER

    script = [{"fault": "unknown", "status": 500}, step]
    router = opened(account("a", budget="requests_per_day = 3"), route("r", "a/m"), script=script)
    with pytest.raises(RouteExhausted):
        router.ask("x")
    assert router.ask("x").record.attempts[0].last_resort
    assert seen == [(1, 1, 3)]


def test_somebody_who_wakes_counts_for_more_than_a_budget() -> None:
    script = {"m": [ANSWER], "n": [{"fault": "rate_limit", "status": 429, "hint": 60}]}
    router = opened(account("a", budget="requests_per_day = 1"), account("b"), route("r", "a/m", "b/n"), script=script)
    router.ask("x")
    for code in (EX_LATER, EX_LATER):
        with pytest.raises(RouteExhausted) as raised:
            router.ask("x")
        assert raised.value.exit_code == code


def test_attempts_that_were_made_decide_the_code_and_the_budget_is_in_the_story() -> None:
    script = {"m": [{"fault": "auth", "status": 401}], "n": [ANSWER]}
    router = opened(account("a"), account("b", budget="requests_per_day = 0"), route("r", "a/m", "b/n"), script=script)
    with pytest.raises(RoutekitError) as raised:
        router.ask("x")
    assert raised.value.exit_code == EX_CREDENTIAL
    assert "budget provider:b: 0 spent and 0 reserved of 0 requests per day" in "\n".join(raised.value.details)


# --- tokens and money -------------------------------------------------------------------------------------------------


def test_tokens_are_reserved_by_estimate_and_settled_by_the_vendors_count() -> None:
    seen: list[Mapping[str, tuple[int, int, int]]] = []

    def step(call: VendorCall) -> Any:
        seen.append(rows(router))
        return ANSWER

    router = opened(account("a", budget="tokens_per_day = 5000"), route("r", "a/m"), script=[step])
    router.ask("x" * 400, options={"max_tokens": 300})
    assert seen == [{"provider:a tokens per day": (0, 400, 5000)}]
    assert rows(router) == {"provider:a tokens per day": (30, 0, 5000)}


def test_without_max_tokens_the_models_usual_output_is_reserved() -> None:
    seen: list[int] = []

    def step(call: VendorCall) -> Any:
        seen.append(rows(router)["provider:a tokens per day"][1])
        return ANSWER

    router = opened(account("a", budget="tokens_per_day = 5000"), route("r", "a/m"), script=[step])
    router.ask("xxxx")
    router.ask("xxxx")
    assert seen == [1001, 21]


def test_a_call_that_can_never_fit_is_refused_without_an_end() -> None:
    router = opened(account("a", budget="tokens_per_minute = 100"), route("r", "a/m"))
    with pytest.raises(BudgetExceeded, match="this one needs about 201 tokens") as raised:
        router.ask("xxxx", options={"max_tokens": 200})
    assert raised.value.retry_after is None


def test_money_is_reserved_and_settled_from_the_price() -> None:
    info = "price = { input = 1000.0, output = 2000.0 }"
    router = opened(account("a", budget="usd_per_day = 0.1", info=info), route("r", "a/m"))
    router.ask("xxxx", options={"max_tokens": 40})
    assert rows(router) == {"provider:a nanos per day": (50_000_000, 0, 100_000_000)}
    with pytest.raises(BudgetExceeded, match=r"\$0\.05 spent and \$0\.00 reserved of \$0\.10 per day"):
        router.ask("xxxx", options={"max_tokens": 40})
    assert router.ask("xxxx", options={"max_tokens": 20}).text == "hello"


@pytest.mark.parametrize("asked", ["r", "a/m"])
def test_a_usd_budget_over_a_model_without_a_price_is_a_config_error(asked: str) -> None:
    router = opened(account("a", budget="usd_per_month = 5"), route("r", "a/m"))
    with pytest.raises(ConfigError, match=r'a/m has no known price, so the usd budget of provider:a .*"m"\.price'):
        router.ask("x", model=asked)


def test_max_cost_refuses_before_the_call_and_moves_on_to_a_cheaper_target() -> None:
    dear, cheap = "price = { input = 1.0, output = 1000.0 }", "price = { input = 1.0, output = 1.0 }"
    router = opened(account("a", info=dear), account("b", info=cheap), route("r", "a/m", "b/m"), route("dear", "a/m"))
    how: Any = {"options": {"max_tokens": 100}, "max_cost": 0.01}
    assert router.ask("x", model="r", **how).record.served_by == "b/m"
    with pytest.raises(BudgetExceeded, match=r"--max-cost \$0\.01: would cost about \$0\.10"):
        router.ask("x", model="dear", **how)
    assert router.ask("x", model="dear", options={"max_tokens": 9}, max_cost=0.01).text == "hello"


def test_max_cost_refuses_what_has_no_price() -> None:
    router = opened(account("a"), route("r", "a/m"))
    with pytest.raises(BudgetExceeded, match="no price is known"):
        router.ask("x", max_cost=1.0)


# --- what is given back -----------------------------------------------------------------------------------------------


def asked(router: Router, **how: Any) -> None:
    with pytest.raises(RoutekitError):
        router.ask("xxxx", **how)


@pytest.mark.parametrize(
    ("step", "requests", "tokens"),
    [
        ({"fault": "timeout", "delivered": False}, 0, 0),
        ({"fault": "setup", "delivered": False}, 0, 0),
        ({"fault": "rate_limit", "status": 429, "hint": 60}, 1, 0),
        ({"fault": "auth", "status": 401}, 1, 0),
        # Nobody knows how far it came: the prompt may have been read.
        ({"fault": "timeout"}, 1, 1),
        ({"pieces": ["eight ch", "aracters"], "cut_after": 1}, 1, 3),
    ],
)
def test_a_failed_attempt_takes_what_it_can_have_cost(step: Mapping[str, Any], requests: int, tokens: int) -> None:
    budget = "requests_per_day = 9, tokens_per_day = 9000"
    router = opened(account("a", budget=budget), route("r", "a/m"), script=[step])
    asked(router)
    assert rows(router) == {
        "provider:a requests per day": (requests, 0, 9),
        "provider:a tokens per day": (tokens, 0, 9000),
    }


def test_an_estimate_is_marked_as_one() -> None:
    script = [{"pieces": ["eight ch", "aracters"], "cut_after": 1}]
    router = opened(account("a", budget="tokens_per_day = 9000"), route("r", "a/m"), script=script)
    asked(router)
    assert [row.estimated for row in router.budgets()] == [3]
    usage = router.why().attempts[0].usage
    assert usage is not None
    assert usage.estimated


def test_a_retry_is_a_second_request_and_needs_room_of_its_own() -> None:
    script = [{"fault": "transient", "status": 503}, ANSWER]
    roomy = opened(account("a", budget="requests_per_day = 2"), route("r", "a/m"), script=script)
    assert roomy.ask("x").text == "hello"
    assert rows(roomy) == {"provider:a requests per day": (2, 0, 2)}
    narrow = opened(account("a", budget="requests_per_day = 1"), route("r", "a/m"), script=script)
    asked(narrow)
    assert len(narrow.why().attempts) == 1
    assert rows(narrow) == {"provider:a requests per day": (1, 0, 1)}


def test_failover_leaves_nothing_reserved_behind() -> None:
    script = {"m": [{"fault": "timeout", "delivered": False}], "n": [ANSWER]}
    router = opened(
        account("a", budget="requests_per_day = 5"),
        account("b", budget="requests_per_day = 5"),
        route("r", "a/m", "b/n", more="budget = { requests_per_day = 5 }"),
        script=script,
    )
    assert router.ask("x").record.served_by == "b/n"
    assert rows(router) == {
        "provider:a requests per day": (0, 0, 5),
        "provider:b requests per day": (1, 0, 5),
        "route:r requests per day": (1, 0, 5),
    }


def test_a_reader_that_leaves_after_output_is_charged_by_estimate() -> None:
    script = [{"pieces": ["eight ch", "aracters"], "delay": 0.001}]
    router = opened(account("a", budget="tokens_per_day = 9000"), route("r", "a/m"), script=script)

    async def first_piece() -> None:
        happenings = router.run("xxxx", live=True)
        async for step in happenings:
            if isinstance(step, Delta):
                break
        await happenings.aclose()

    asyncio.run(first_piece())
    assert rows(router) == {"provider:a tokens per day": (3, 0, 9000)}


def test_a_request_cancelled_between_two_attempts_gives_the_second_ones_room_back() -> None:
    script = [{"fault": "transient", "status": 503}, ANSWER]
    router = opened(account("a", budget="requests_per_day = 5"), route("r", "a/m"), script=script)

    async def cancelled() -> None:
        task = asyncio.ensure_future(router.aask("x"))
        while rows(router)["provider:a requests per day"][0] == 0:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert rows(router) == {"provider:a requests per day": (1, 0, 5)}


def test_calls_side_by_side_cannot_pass_a_budget_together() -> None:
    script = [{**ANSWER, "delay": 0.001}]
    router = opened(account("a", budget="requests_per_minute = 3"), route("r", "a/m"), script=script)

    async def many() -> list[Any]:
        return await asyncio.gather(*(router.aask("x") for _ in range(10)), return_exceptions=True)

    outcomes = asyncio.run(many())
    refused = [row for row in outcomes if isinstance(row, BudgetExceeded)]
    assert len(refused) == 7
    assert "0 spent and 3 reserved of 3 requests per minute" in refused[0].message


def test_output_renews_the_lease_of_a_long_answer() -> None:
    clock = Clock()
    leases: list[float] = []

    def piece(call: VendorCall) -> Any:
        return {"pieces": [f"p{number}" for number in range(12)], "delay": 20}

    async def sleep(seconds: float) -> None:
        clock.now += seconds
        leases.extend(row.frees_s for row in router.budgets() if row.frees_s is not None)

    vendor = Vendor(script=[piece], sleep=sleep)
    text = "version = 1\n[limits]\ndeadline = '60s'\n" + account("a", budget="requests_per_day = 5") + route("r", "a/m")
    router = Router.from_toml(text, speakers={"scripted": vendor}, now=clock)
    assert router.ask("x").text
    # 240 seconds under a lease of 60: it was there at every look.
    assert len(leases) == 13
    assert all(0 < lease <= 60 for lease in leases[:-1])


# --- others -----------------------------------------------------------------------------------------------------------


def test_without_budgets_no_key_and_no_transaction_is_added() -> None:
    def asked_of(*parts: str) -> list[tuple[str, ...]]:
        store = Counting()
        opened(*parts, route("r", "a/m", "b/m"), state=store).ask("x")
        return store.asked

    plain = asked_of(account("a"), account("b"))
    kept = asked_of(account("a", budget="requests_per_minute = 5, tokens_per_day = 50000"), account("b"))
    assert len(plain) == len(kept)
    assert not [key for keys in plain for key in keys if key.startswith(("budget:", "usual:"))]
    added = {key for keys in kept for key in keys} - {key for keys in plain for key in keys}
    assert added == {"budget:provider:a|minute", "budget:provider:a|day", "usual:a/m"}


def test_a_reset_forgets_one_budget_and_leaves_the_others() -> None:
    budget = "requests_per_day = 2"
    router = opened(account("a", budget=budget), account("b", budget=budget), route("r", "a/m"), route("s", "b/m"))
    router.ask("x", model="r")
    router.ask("x", model="s")
    assert router.reset_budgets("a") == ["provider:a"]
    assert rows(router) == {"provider:a requests per day": (0, 0, 2), "provider:b requests per day": (1, 0, 2)}
    assert router.reset_budgets() == ["provider:b"]


def test_a_name_without_a_budget_is_an_error_that_names_those_there_are() -> None:
    router = opened(account("a", budget="requests_per_day = 2"), route("r", "a/m"))
    with pytest.raises(RoutekitError, match=r"nothing named 'b' has a budget \(budgets: provider:a\)"):
        router.reset_budgets("b")
