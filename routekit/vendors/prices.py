"""The table of windows and prices, made from ``genai-prices`` and from what is known of models that reason. Only
``models refresh`` and the release script load this: the library costs 170 ms, and everything else reads the table."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from .catalog import Row, Table

SOURCE = "genai-prices"
#: a vendor's name here (its preset's) → the library's
VENDORS: Mapping[str, str] = {
    "openai": "openai",
    "anthropic": "anthropic",
    "deepseek": "deepseek",
    "gemini": "google",
    "groq": "groq",
    "mistral": "mistral",
    "minimax": "minimax",
    "moonshot": "moonshotai",
    "together": "together",
    "xai": "x-ai",
    "zai": "zai",
}
#: who reasons (``r``) and who certainly does not (``n``), first match first; nothing is said of the others
REASONING: Mapping[str, tuple[tuple[str, str], ...]] = {
    "openai": (
        ("gpt-5*-chat*", "n"),
        ("gpt-5*", "r"),
        ("gpt-6*", "r"),
        ("o[134]*", "r"),
        ("gpt-4*", "n"),
        ("gpt-3*", "n"),
        ("chatgpt-4o*", "n"),
    ),
    "anthropic": (("claude-3-7*", "r"), ("claude-3*", "n"), ("claude-2*", "n"), ("claude-*-[45]*", "r")),
    "deepseek": (("deepseek-reasoner", "r"), ("deepseek-r1*", "r"), ("deepseek-v4*", "r")),
    "gemini": (("gemini-2.5-pro*", "r"), ("gemini-3*-pro*", "r"), ("gemini-1*", "n"), ("gemini-2.0*", "n")),
    "moonshot": (("kimi-k2-thinking*", "r"), ("moonshot-v1*", "n")),
}


def table(today: datetime.date) -> Table:
    """The table as the installed library has it on that day."""
    from importlib.metadata import version

    from genai_prices.data import providers

    sources = {provider.id: provider for provider in providers}
    return Table(
        source=SOURCE,
        version=version(SOURCE),
        date=today.isoformat(),
        vendors={
            vendor: _encoded(_rows(vendor, sources[source].models, today))
            for vendor, source in VENDORS.items()
            if source in sources
        },
    )


def _encoded(rows: Iterator[tuple[str, Row]]) -> msgspec.Raw:
    found: dict[str, Row] = {}
    for name, row in rows:
        # The library's own order: its first match is the one that counts.
        found.setdefault(name, row)
    return msgspec.Raw(msgspec.json.encode({name: _short(found[name]) for name in sorted(found)}))


def _short(row: Row) -> list[Any]:
    """The row without what stands unsaid at its end; whole numbers as such."""
    said = [int(one) if isinstance(one, float) and one.is_integer() else one for one in msgspec.to_builtins(row)]
    while said and said[-1] in (None, ""):
        said.pop()
    return said


def _rows(vendor: str, models: list[Any], today: datetime.date) -> Iterator[tuple[str, Row]]:
    for model in models:
        row = _row(vendor, model, today)
        if row.context is not None or row.input is not None:
            for name in _names(model):
                yield name, row


def _row(vendor: str, model: Any, today: datetime.date) -> Row:
    price = _price(model.prices, today)
    paid, made = _money(price, "input_mtok"), _money(price, "output_mtok")
    if paid is None or made is None:
        paid = made = None
    return Row(
        context=model.context_window,
        input=paid,
        out=made,
        cached=_money(price, "cache_read_mtok") if paid is not None else None,
        marks=next((mark for glob, mark in REASONING.get(vendor, ()) if fnmatchcase(model.id.lower(), glob)), ""),
    )


def _names(model: Any) -> Iterator[str]:
    """The names a model is known under, its own first. Patterns are not names: a snapshot's date is taken off when a
    model is looked up."""
    yield model.id.lower()
    for clause in getattr(model.match, "or_", [model.match]):
        said = getattr(clause, "equals", None) or getattr(clause, "starts_with", None)
        if said:
            yield said.lower().rstrip("-@.:")


def _price(prices: Any, today: datetime.date) -> Any:
    """The price in force that day; where it changes with the hour, the dearest, so that no budget is overrun."""
    if not isinstance(prices, list):
        return prices
    begun = [row for row in prices if getattr(row.constraint, "start_date", today) <= today]
    hourly = [row for row in begun if hasattr(row.constraint, "start_time")]
    dated = [row for row in begun if not hasattr(row.constraint, "start_time")]
    dated.sort(key=lambda row: getattr(row.constraint, "start_date", datetime.date.min))
    found = [row.prices for row in (*dated[-1:], *hourly)]
    return max(found, key=lambda price: _money(price, "output_mtok") or 0.0, default=None)


def _money(price: Any, unit: str) -> float | None:
    """US dollars per million tokens; of a price in tiers, the first."""
    value = getattr(price, unit, None)
    value = getattr(value, "base", value)
    return round(float(value), 6) if value is not None else None
