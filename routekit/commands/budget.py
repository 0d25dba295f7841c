"""``budget``: what is spent and reserved of each budget. Listing is a read; only ``reset`` changes anything."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.budget import dollars, quantity
from ..core.health import duration
from ..errors import UsageError
from ..views import BudgetLine
from .report import Context, Report, Table, lines


def listing(context: Context, *, json: bool = False) -> Report:
    return _report(context.router.budgets())


def show(context: Context, *, id: str, json: bool = False) -> Report:
    scopes = context.router.budget_scopes(id)
    return _report(row for row in context.router.budgets() if row.scope in scopes)


def _report(found: Iterable[BudgetLine]) -> Report:
    rows = list(found)
    table = Table(
        columns=("budget", "per", "spent", "reserved", "limit", "frees in"),
        rows=tuple(_row(row) for row in rows),
        empty="No budget is configured: providers, models and routes may each have one.",
    )
    return Report(blocks=(table,), data=[_data(row) for row in rows])


def _row(row: BudgetLine) -> tuple[str, ...]:
    about = "~" if row.estimated else ""
    return (
        row.scope,
        row.window,
        about + quantity(row.spent, row.unit),
        _number(row.reserved, row.unit),
        _number(row.limit, row.unit),
        duration(row.frees_s) if row.frees_s is not None else "",
    )


def _number(amount: int, unit: str) -> str:
    return dollars(amount) if unit == "nanos" else f"{amount:,}"


def _data(row: BudgetLine) -> dict[str, object]:
    money = row.unit == "nanos"
    amounts = {"spent": row.spent, "reserved": row.reserved, "limit": row.limit}
    return {
        "budget": row.scope,
        "window": row.window,
        "unit": "usd" if money else row.unit,
        **{name: amount / 1e9 if money else amount for name, amount in amounts.items()},
        "estimated": row.estimated,
        "frees_s": round(row.frees_s, 3) if row.frees_s is not None else None,
    }


def reset(context: Context, *, id: str | None = None, all: bool = False, json: bool = False) -> Report:
    if (id is None) == (not all):
        raise UsageError(
            "name the budget to reset, or say --all", hints=["routekit budget list", "routekit budget reset --all"]
        )
    names = context.router.reset_budgets(id)
    return lines(*[f"reset {name}" for name in names] or ["nothing to reset"], data=names)
