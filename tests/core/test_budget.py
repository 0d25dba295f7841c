"""Ledgers: rolling windows, reserves and leases, clocks that jump, sizes that stay small, words with the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core import budget
from routekit.core.budget import EMPTY, NOTHING, Amount, Books, Ledger, Reserve
from routekit.core.chat import Usage
from routekit.core.config import Budget, Price

NOW = 1_700_000_000.0
ONE = Amount(requests=1)


def seconds(most: int, *, least: int = 0) -> st.SearchStrategy[float]:
    """Lengths that a clock of today can add without rounding."""
    return st.integers(least * 16, most * 16).map(lambda sixteenths: sixteenths / 16)


def limits(*budgets: tuple[str, Budget]) -> budget.Limits:
    return budget.limits(budgets)


def minute(limit: int = 10, unit: str = "requests") -> Any:
    return limits(("provider:a", Budget(**{f"{unit}_per_minute": limit})))


def taken(holder: str, *, now: float = NOW, lease: float = 600.0, amount: Amount = ONE) -> Reserve:
    return Reserve(holder=holder, since=now, until=now + lease, amount=amount)


class Store:
    """What a store does: a step over the values, its writes kept."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def write(self, books: Books) -> None:
        for key, value in books.writes().items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value

    def ask(self, budgets: Any, holder: str, now: float, *, need: Amount = ONE, lease: float = 600.0) -> Any:
        """Reserve if there is room: what ``decide`` does in one transaction."""
        books = Books(self.values, now)
        lack = books.lack(budgets, need, holder=holder)
        if lack is None:
            books.reserve(budgets, taken(holder, now=now, lease=lease, amount=need))
        self.write(books)
        return lack

    def settle(self, budgets: Any, holder: str, now: float, *, amount: Amount = ONE) -> None:
        books = Books(self.values, now)
        books.settle(budgets, holder, amount)
        self.write(books)


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "row"), budget.LIMITS.items())
def test_a_spend_counts_for_exactly_its_window(name: str, row: tuple[str, str, int]) -> None:
    window, unit, scale = row
    length, budgets = budget.WINDOWS[window], limits(("route:r", Budget(**{name: 1})))
    store, need = Store(), Amount(**{unit: scale})
    assert store.ask(budgets, "first", NOW, need=need) is None
    store.settle(budgets, "first", NOW, amount=need)
    lack = store.ask(budgets, "second", NOW + length - 0.001, need=need)
    assert lack is not None
    assert (lack.until, lack.window) == (NOW + length, window)
    assert store.ask(budgets, "third", NOW + length, need=need) is None


def test_a_window_rolls_it_does_not_begin_anew() -> None:
    store, budgets = Store(), minute(2)
    for second in (0, 40):
        assert store.ask(budgets, f"r{second}", NOW + second) is None
        store.settle(budgets, f"r{second}", NOW + second)
    assert store.ask(budgets, "x", NOW + 59) is not None
    assert store.ask(budgets, "x", NOW + 60) is None
    assert store.ask(budgets, "y", NOW + 61).until == NOW + 100


@given(st.lists(seconds(600), min_size=1, max_size=200), st.integers(1, 20))
def test_no_sixty_seconds_ever_hold_more_than_the_limit(times: list[float], limit: int) -> None:
    store, budgets, passed = Store(), minute(limit), []
    for number, at in enumerate(sorted(times)):
        if store.ask(budgets, str(number), NOW + at) is None:
            store.settle(budgets, str(number), NOW + at)
            passed.append(at)
    assert all(sum(end - 60 < at <= end for at in passed) <= limit for end in passed)


@given(st.lists(seconds(600), min_size=1, max_size=200), st.integers(1, 20))
def test_a_refusal_is_never_due_to_spending_older_than_a_window_and_a_sixtieth(times: list[float], limit: int) -> None:
    store, budgets, passed = Store(), minute(limit), []
    for number, at in enumerate(sorted(times)):
        if store.ask(budgets, str(number), NOW + at) is None:
            store.settle(budgets, str(number), NOW + at)
            passed.append(at)
        else:
            assert sum(at - 61 < old <= at for old in passed) >= limit


@given(st.lists(seconds(10 * 86400), min_size=130, max_size=150))
def test_a_ledger_stays_small_however_much_is_spent(times: list[float]) -> None:
    length, ledger = 86400.0, EMPTY
    for at in sorted(times):
        ledger = budget.spend(budget.current(ledger, length, NOW + at), ONE, length=length, now=NOW + at)
        assert len(ledger.spent) <= budget.BUCKETS + 2


def test_reserves_without_end_are_folded_into_spending() -> None:
    ledger = EMPTY
    for number in range(budget.RESERVES + 50):
        ledger = budget.reserve(ledger, taken(str(number), now=NOW), 60.0)
    assert len(ledger.reserved) == budget.RESERVES
    assert budget.spent(ledger, "requests") + budget.reserved(ledger, "requests") == budget.RESERVES + 50


# --- reserves ---------------------------------------------------------------------------------------------------------


def test_what_is_reserved_is_not_there_for_others() -> None:
    store, budgets = Store(), minute(2)
    assert [store.ask(budgets, holder, NOW) is None for holder in "abc"] == [True, True, False]


def test_a_request_has_one_reserve_and_does_not_stand_in_its_own_way() -> None:
    store, budgets = Store(), minute(1)
    assert store.ask(budgets, "a", NOW) is None
    assert store.ask(budgets, "a", NOW + 1) is None
    assert len(budget.read_ledger(store.values["budget:provider:a|minute"]).reserved) == 1


def test_a_release_gives_everything_back_and_leaves_no_row() -> None:
    store, budgets = Store(), minute(1)
    store.ask(budgets, "a", NOW)
    assert store.values
    store.settle(budgets, "a", NOW + 1, amount=NOTHING)
    assert store.values == {}


def test_a_reserve_is_freed_when_its_lease_ends() -> None:
    store, budgets = Store(), minute(1)
    store.ask(budgets, "killed", NOW, lease=5.0)
    assert store.ask(budgets, "b", NOW + 4.9).until == NOW + 5
    assert store.ask(budgets, "b", NOW + 5) is None


def test_output_renews_a_lease_and_never_shortens_it() -> None:
    ledger = budget.reserve(EMPTY, taken("a", lease=10), 60.0)
    assert budget.renew(ledger, "a", NOW + 30).reserved[0].until == NOW + 30
    assert budget.renew(ledger, "a", NOW + 1).reserved[0].until == NOW + 10
    assert budget.renew(ledger, "b", NOW + 30) == ledger


def test_a_call_that_outlived_its_lease_is_counted_all_the_same() -> None:
    store, budgets = Store(), minute(1)
    store.ask(budgets, "slow", NOW, lease=5.0)
    store.settle(budgets, "slow", NOW + 20)
    assert store.ask(budgets, "b", NOW + 21) is not None


def test_every_budget_on_the_path_must_have_room() -> None:
    budgets = limits(("provider:a", Budget(requests_per_day=5)), ("route:r", Budget(requests_per_minute=1)))
    store = Store()
    assert store.ask(budgets, "x", NOW) is None
    assert store.ask(budgets, "y", NOW).scope == "route:r"
    assert store.ask(budgets[:1], "y", NOW) is None
    ledger = budget.read_ledger(store.values["budget:provider:a|day"])
    assert budget.reserved(ledger, "requests") == 2


def test_requests_and_tokens_of_a_minute_share_one_row() -> None:
    budgets = limits(("provider:a", Budget(requests_per_minute=5, tokens_per_minute=100, tokens_per_day=1000)))
    assert budget.keys(budgets, "a/m") == ("budget:provider:a|minute", "budget:provider:a|day", "usual:a/m")
    store = Store()
    store.ask(budgets, "x", NOW, need=Amount(requests=1, tokens=60))
    store.settle(budgets, "x", NOW, amount=Amount(requests=1, tokens=40))
    assert budget.spent(budget.read_ledger(store.values["budget:provider:a|minute"]), "tokens") == 40
    lack = store.ask(budgets, "y", NOW, need=Amount(requests=1, tokens=61))
    assert (lack.unit, lack.spent, lack.need) == ("tokens", 40, 61)


def test_the_budget_that_frees_last_is_the_one_named() -> None:
    budgets = limits(("provider:a", Budget(requests_per_minute=1, requests_per_day=1)))
    store = Store()
    store.ask(budgets, "x", NOW)
    store.settle(budgets, "x", NOW)
    assert store.ask(budgets, "y", NOW).window == "day"


def test_what_can_never_fit_has_no_end() -> None:
    store = Store()
    assert store.ask(minute(0), "x", NOW).until is None
    assert store.ask(minute(100, "tokens"), "x", NOW, need=Amount(tokens=101)).until is None


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["ask", "settle", "release", "die"]), seconds(9))))
def test_any_interleaving_never_holds_more_than_the_limit(steps: list[tuple[str, str, float]]) -> None:
    store, budgets, now = Store(), minute(3), NOW
    for holder, what, pause in steps:
        now += pause
        if what == "ask":
            store.ask(budgets, holder, now, lease=20.0)
        elif what != "die":
            known = budget.current(budget.read_ledger(store.values.get("budget:provider:a|minute")), 60.0, now)
            if any(row.holder == holder for row in known.reserved):
                store.settle(budgets, holder, now, amount=ONE if what == "settle" else NOTHING)
        ledger = budget.read_ledger(store.values.get("budget:provider:a|minute"))
        ledger = budget.current(ledger, 60.0, now)
        assert budget.spent(ledger, "requests") + budget.reserved(ledger, "requests") <= 3


# --- the clock --------------------------------------------------------------------------------------------------------


@given(seconds(10 * 365 * 86400, least=3))
def test_a_clock_set_back_counts_nothing_longer_than_its_window(back: float) -> None:
    store, budgets = Store(), minute(1)
    store.ask(budgets, "a", NOW)
    store.settle(budgets, "a", NOW)
    after = NOW - back
    # Refused, and the refusal is what moves the spend to the new time.
    assert store.ask(budgets, "b", after).until == after + 60
    assert store.ask(budgets, "b", after + 30).until == after + 60
    assert store.ask(budgets, "b", after + 60) is None


def test_a_clock_set_back_keeps_a_lease_no_longer_than_it_was() -> None:
    store, budgets = Store(), minute(1)
    store.ask(budgets, "killed", NOW, lease=5.0)
    after = NOW - 86400
    assert store.ask(budgets, "b", after).until == after + 5
    assert store.ask(budgets, "b", after + 5) is None


def test_a_neighbour_whose_clock_was_read_first_moves_nothing() -> None:
    store, budgets = Store(), minute(1)
    store.ask(budgets, "a", NOW)
    store.settle(budgets, "a", NOW)
    before = dict(store.values)
    assert store.ask(budgets, "b", NOW - 0.5).until == NOW + 60
    assert store.values == before


# --- stored values ----------------------------------------------------------------------------------------------------


def test_what_has_not_changed_is_not_written() -> None:
    store, budgets = Store(), minute(1)
    store.ask(budgets, "a", NOW)
    books = Books(store.values, NOW + 1)
    assert books.lack(budgets, ONE, holder="b") is not None
    assert books.writes() == {}


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"spent":[1]}', b"null", b""])
def test_a_damaged_row_is_an_empty_one(raw: bytes) -> None:
    assert budget.read_ledger(raw) == EMPTY


def test_a_ledger_survives_the_store() -> None:
    ledger = Ledger(
        spent=(budget.Bucket(last=NOW, amount=Amount(requests=1, tokens=2, nanos=3, estimated=2)),),
        reserved=(taken("a"),),
    )
    assert budget.read_ledger(msgspec.json.encode(ledger)) == ledger


# --- money and words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("price", "usage", "expected"),
    [
        ({"input": 0.1, "output": 0.4}, {"input_tokens": 1, "output_tokens": 0}, 100),
        ({"input": 2.5, "output": 10}, {"input_tokens": 1000, "output_tokens": 100}, 3_500_000),
        ({"input": 2.5, "output": 10, "cached": 0.25}, {"input_tokens": 1000, "cached_tokens": 400}, 1_600_000),
        ({"input": 2.5, "output": 10}, {"input_tokens": 1000, "cached_tokens": 400}, 2_500_000),
        ({"input": 0, "output": 0}, {"input_tokens": 1000, "output_tokens": 100}, 0),
    ],
)
def test_money_is_counted_in_billionths(price: Mapping[str, float], usage: Mapping[str, int], expected: int) -> None:
    assert budget.nanos(Price(**price), Usage(**usage)) == expected


def test_ten_cents_ten_times_is_exactly_a_dollar() -> None:
    store, budgets = Store(), limits(("route:r", Budget(usd_per_day=1.0)))
    need = Amount(nanos=100_000_000)
    for number in range(10):
        assert store.ask(budgets, str(number), NOW, need=need) is None
        store.settle(budgets, str(number), NOW, amount=need)
    assert store.ask(budgets, "one more", NOW, need=Amount(nanos=1)) is not None


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "$0.00"),
        (1_000_000_000, "$1.00"),
        (12_345_678, "$0.012346"),
        (20_000_000, "$0.02"),
        (400, "$0.00"),
        (1_234_500_000_000, "$1,234.50"),
        (999_999_999, "$1.00"),
    ],
)
def test_money_in_words(nanos: int, text: str) -> None:
    assert budget.dollars(nanos) == text


def test_a_refusal_names_spent_reserved_limit_and_window() -> None:
    store, budgets = Store(), minute(3)
    for holder in "abc":
        store.ask(budgets, holder, NOW)
    store.settle(budgets, "a", NOW)
    assert budget.said(store.ask(budgets, "d", NOW)) == (
        "budget provider:a: 1 spent and 2 reserved of 3 requests per minute"
    )


def test_a_refusal_for_money_names_what_the_call_needs() -> None:
    lack = Store().ask(limits(("route:r", Budget(usd_per_month=1.5))), "a", NOW, need=Amount(nanos=2_000_000_000))
    assert budget.said(lack) == (
        "budget route:r: $0.00 spent and $0.00 reserved of $1.50 per month, this one needs about $2.00"
    )


def test_the_usual_output_follows_what_comes() -> None:
    usual = budget.usual_after(None, 100)
    assert usual == 100
    for _ in range(20):
        usual = budget.usual_after(usual, 500)
    assert 490 < usual <= 500
