"""``providers``: vendor accounts, and synthetic providers over them — listed and shown. It calls no vendor."""

from __future__ import annotations

from typing import Any

from ..config.show import duration_text
from ..core.config import Config, Limits, Provider, SyntheticProvider
from ..core.words import plural
from ..errors import UsageError
from ..router import Router
from .keys import Holder, holders, known
from .report import Context, Lines, Report, Table

#: so many model names are shown before the rest is counted
SHOWN = 12


def listing(context: Context, *, json: bool = False) -> Report:
    router = context.router
    config = router.config
    keys = {holder.provider: holder for holder in holders(config) if not holder.header}
    rows = [_row(router, row, keys[row.id]) for row in config.providers.values()]
    rows += [_synthetic_row(row) for row in config.synthetic_providers.values()]
    table = Table(
        columns=("provider", "what it speaks", "where", "key", "models", ""),
        rows=tuple(rows),
        empty="No providers.",
    )
    data = [_data(router, row, keys[row.id]) for row in config.providers.values()]
    data += [_synthetic_data(row) for row in config.synthetic_providers.values()]
    hints = () if rows else ("routekit init",)
    return Report(blocks=(table,), data=data, hints=hints)


def _row(router: Router, provider: Provider, key: Holder) -> tuple[str, ...]:
    off = "" if provider.enabled else "off"
    where = provider.base_url.partition("://")[2] if provider.base_url.startswith("https") else provider.base_url
    return (provider.id, provider.api, where, key_words(router, key), _models_in_short(router, provider), off)


def key_words(router: Router, key: Holder) -> str:
    """Where the key is, and what is known of it without looking."""
    if key.ref.kind == "none":
        return "no key needed"
    found = known(router, key)
    if found.state == "present":
        return found.source + (f" …{found.last4}" if found.last4 else "")
    if found.state == "unknown":
        return found.source + (" (none stored yet)" if key.ref.kind != "cmd" else "")
    return f"{found.source} ({found.state})"


def _models_in_short(router: Router, provider: Provider) -> str:
    catalog = router.catalog(provider)
    return "any" if catalog.kind == "open" else str(len(catalog.models))


def _synthetic_row(row: SyntheticProvider) -> tuple[str, ...]:
    members = ", ".join(_member(member.provider, member.weight, member.enabled) for member in row.members)
    return (row.id, f"synthetic, {row.selection}", members or "no members", "", "", "" if row.enabled else "off")


def _member(id: str, weight: int, enabled: bool) -> str:
    notes = [*([f"weight {weight}"] if weight != 1 else []), *([] if enabled else ["off"])]
    return f"{id} ({', '.join(notes)})" if notes else id


def _data(router: Router, provider: Provider, key: Holder) -> dict[str, Any]:
    catalog = router.catalog(provider)
    found = known(router, key)
    return {
        "id": provider.id,
        "kind": "concrete",
        "api": provider.api,
        "preset": provider.preset,
        "base_url": provider.base_url,
        "credential": str(key.ref),
        "key": {"source": found.source, "state": found.state, "last4": found.last4 or None},
        "catalog": catalog.kind,
        "models": list(catalog.models),
        "enabled": provider.enabled,
    }


def _synthetic_data(row: SyntheticProvider) -> dict[str, Any]:
    members = [
        {
            "provider": member.provider,
            "weight": member.weight,
            "enabled": member.enabled,
            "map": dict(member.map),
        }
        for member in row.members
    ]
    return {
        "id": row.id,
        "kind": "synthetic",
        "selection": row.selection,
        "members": members,
        "enabled": row.enabled,
    }


# --- one --------------------------------------------------------------------------------------------------------------


def show(context: Context, *, id: str, json: bool = False) -> Report:
    router = context.router
    config = router.config
    if id in config.providers:
        provider = config.providers[id]
        key = next(holder for holder in holders(config) if holder.provider == id and not holder.header)
        text = _story(router, provider, key)
        return Report(blocks=(Table(columns=("", ""), rows=tuple(text)),), data=_data(router, provider, key))
    if id in config.synthetic_providers:
        row = config.synthetic_providers[id]
        return Report(blocks=(Lines(text=tuple(_synthetic_story(row, config))),), data=_synthetic_data(row))
    raise unknown(config, id)


def unknown(config: Config, id: str) -> UsageError:
    from ..config.kinds import nearest

    names = [*config.providers, *config.synthetic_providers]
    return UsageError(
        f"there is no provider '{id}'; {nearest(id, names, what='providers')}", hints=["routekit providers list"]
    )


def _story(router: Router, provider: Provider, key: Holder) -> list[tuple[str, str]]:
    catalog = router.catalog(provider)
    models = ", ".join(catalog.models[:SHOWN])
    more = f" and {len(catalog.models) - SHOWN} more" if len(catalog.models) > SHOWN else ""
    groups = [row.id for row in router.config.synthetic_providers.values() if _is_member(provider.id, row)]
    rows = [
        ("provider", provider.id + ("" if provider.enabled else " (switched off)")),
        ("speaks", provider.api + (f", as {provider.preset} does" if provider.preset else "")),
        ("address", provider.base_url),
        ("key", key_words(router, key)),
        ("models", f"{models}{more}" if catalog.kind != "open" else f"any: {provider.id}/MODEL is tried as it is"),
        ("member of", ", ".join(groups)),
        ("headers", ", ".join(provider.headers)),
        ("parameters", ", ".join(provider.params) if provider.api != "scripted" else ""),
        ("proxy", provider.proxy or ""),
        ("limits", _limits(provider.limits)),
        ("at most", plural(provider.max_parallel, "request") + " at a time" if provider.max_parallel else ""),
    ]
    return [row for row in rows if row[1]]


def _is_member(id: str, row: SyntheticProvider) -> bool:
    return any(member.provider == id for member in row.members)


def _limits(limits: Limits) -> str:
    said = {name: getattr(limits, name) for name in Limits.__struct_fields__}
    return ", ".join(f"{name} {duration_text(value)}" for name, value in said.items() if value is not None)


def _synthetic_story(row: SyntheticProvider, config: Config) -> list[str]:
    told = [f"{row.id}: {row.selection} over {plural(len(row.members), 'member')}" + ("" if row.enabled else " (off)")]
    for member in row.members:
        off = not member.enabled or not config.providers[member.provider].enabled
        told.append(f"  {_member(member.provider, member.weight, not off)}")
        told += [f"    {asked} is sent as {sent}" for asked, sent in member.map.items()]
    return [*told, f"ask it as {row.id}/MODEL, with any model its members offer"]
