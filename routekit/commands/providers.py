"""``providers``: vendor accounts, and synthetic providers over them — listed, shown, edited, tested. Only ``test``
calls a vendor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..config.show import duration_text
from ..core.config import Config, Limits, Provider, SyntheticProvider
from ..core.health import duration
from ..core.plan import offers
from ..core.record import Attempt
from ..core.words import KEY_STATES, cause, plural
from ..errors import RoutekitError, UsageError
from ..router import Router
from ..vendors.presets import API_DEFAULTS, PRESETS
from .edits import edit, in_force, need_id, once
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
        refused = f" ({KEY_STATES['refused']})" if str(key.ref) in router.refused() else ""
        return found.source + (f" …{found.last4}" if found.last4 else "") + refused
    if found.state == "unknown" and key.ref.kind == "cmd":
        return found.source
    return f"{found.source} ({KEY_STATES[found.state]})"


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


def unknown(config: Config, id: str, *, synthetic: bool = True) -> UsageError:
    from ..config.kinds import nearest

    names = [*config.providers, *(config.synthetic_providers if synthetic else ())]
    if id in config.routes:
        return UsageError(f"'{id}' is a route, no provider", hints=[f"routekit routes show {id}"])
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


# --- edits ------------------------------------------------------------------------------------------------------------


def add(
    context: Context,
    *,
    id: str,
    preset: str | None = None,
    api: str | None = None,
    base_url: str | None = None,
    key: str | None = None,
    members: str | None = None,
    selection: str | None = None,
    json: bool = False,
) -> Report:
    """A vendor account, or (with ``members``) a synthetic provider; more members for one that is there."""
    need_id(id, what="a provider")
    concrete = {"--preset": preset, "--api": api, "--base-url": base_url, "--key": key}
    if members is not None:
        stray = next((name for name, value in concrete.items() if value), None)
        if stray:
            raise UsageError(f"{stray} is for a vendor account; a synthetic provider has members only")
        return _add_members(context, id, members, selection)
    if selection:
        raise UsageError("--selection is for a synthetic provider: name its --members too")
    return _add_account(context, id, preset=preset, api=api, base_url=base_url, key=key)


def _add_members(context: Context, id: str, members: str, selection: str | None) -> Report:
    from ..config.changes import add_members

    names = [name.strip() for name in members.split(",") if name.strip()]
    if not names:
        raise UsageError("--members names no provider", hints=["routekit providers list"])
    once(names, what="member")
    config = in_force(context.router)
    for name in names:
        if name in config.synthetic_providers:
            raise UsageError(f"{name} is synthetic itself, and those do not nest; name its members")
        if name not in config.providers:
            raise unknown(config, name, synthetic=False)
    if id in config.providers:
        raise UsageError(f"there is a provider '{id}' already", hints=[f"routekit providers show {id}"])
    return edit(context, add_members(id, names, selection=selection))


def _add_account(
    context: Context, id: str, *, preset: str | None, api: str | None, base_url: str | None, key: str | None
) -> Report:
    from ..config.changes import add_provider
    from ..config.kinds import nearest

    if preset is None and api is None:
        if id not in PRESETS:
            raise UsageError(
                f"'{id}' is no vendor known by that name: name one with --preset, or --api and --base-url",
                details=[nearest(id, PRESETS, what="known vendors")],
                hints=[
                    f"routekit providers add {id} --preset openai",
                    f"routekit providers add {id} --api openai-chat --base-url https://…",
                ],
            )
        preset = id
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"no vendor is known as '{preset}'; {nearest(preset, PRESETS, what='known')}")
    if in_force(context.router).mode != "environment":
        _refuse_there(context, id, base_url)
    if preset is None and base_url is None:
        _need_address(id, api or "")
    said = {"preset": preset, "api": api, "base_url": base_url, "key": key}
    report = edit(context, add_provider(id, {name: value for name, value in said.items() if value}), fresh=id)
    return msgspec.structs.replace(report, hints=tuple(_next(context.router, id)))


def _refuse_there(context: Context, id: str, base_url: str | None) -> None:
    if id in in_force(context.router).providers:
        change = [f"routekit providers set {id} base_url {base_url}"] if base_url else []
        raise UsageError(
            f"there is a provider '{id}' already; nothing was changed",
            hints=[*change, f"routekit providers show {id}", f"routekit providers set {id} KEY VALUE"],
        )


def _need_address(id: str, api: str) -> None:
    """An API alone says how to speak, not to whom: nobody's key goes to a vendor that was not named."""
    usual = next((vendor for spoken, vendor in API_DEFAULTS.items() if spoken == api), None)
    if usual is None or usual == id:
        return
    raise UsageError(
        f"--api {api} says how {id} speaks, not where it is: give its address too"
        + (f" ({usual} itself is {PRESETS[usual].base_url})" if usual in PRESETS else ""),
        hints=[
            f"routekit providers add {id} --api {api} --base-url https://…",
            f"routekit providers add {id} --preset {usual}",
        ],
    )


def _next(router: Router, id: str) -> Iterator[str]:
    """What to type after a provider was added: where its key may come from, then a test."""
    holder = next((row for row in holders(router.config) if row.provider == id and not row.header), None)
    if holder is not None and holder.ref.kind != "none" and known(router, holder).state != "present":
        variable = router.config.providers[id].key_variable
        if variable and router.environ.get(variable) and holder.ref.kind == "keyring":
            yield f"routekit providers set {id} key env:{variable}"
        yield known(router, holder).hint
    yield f"routekit providers test {id}"


def remove(context: Context, *, id: str, member: str | None = None, json: bool = False) -> Report:
    from ..config.changes import remove_provider

    return edit(context, remove_provider(id, member), entry=_entry(context, id))


def move(context: Context, *, id: str, member: str, position: int, json: bool = False) -> Report:
    from ..config.changes import move_member

    return edit(context, move_member(id, member, position), entry=_entry(context, id))


def change(context: Context, *, id: str, key: str, value: str, json: bool = False) -> Report:
    from ..config.changes import set_provider

    return edit(context, set_provider(id, key, value), entry=_entry(context, id))


def _entry(context: Context, id: str) -> tuple[str, str]:
    return ("synthetic_providers" if id in in_force(context.router).synthetic_providers else "providers", id)


# --- test -------------------------------------------------------------------------------------------------------------

#: asked by ``providers test``: as short as a question can be
TINY = "Reply with the one word: ready"
#: seconds such a question may take
PATIENCE = 60.0


def try_out(context: Context, *, id: str, model: str | None = None, json: bool = False) -> Report:
    """One tiny question to a provider, or to each member of a synthetic one. The exit code is the first failure's."""
    router = context.router
    config = router.config
    if id in config.providers:
        asked = [id]
    elif id in config.synthetic_providers:
        asked = [row.provider for row in config.synthetic_providers[id].members if row.enabled]
    else:
        raise unknown(config, id)
    found = [_tested(context, provider, model) for provider in asked]
    words = tuple(line for row in found for line in _tested_words(row))
    code = next((row["exit_code"] for row in found if row["exit_code"]), 0)
    hints = tuple(dict.fromkeys(hint for row in found for hint in row["try"]))
    return Report(blocks=(Lines(text=words),), data=found if len(asked) != 1 else found[0], exit_code=code, hints=hints)


def _tested(context: Context, provider: str, model: str | None) -> dict[str, Any]:
    router = context.router
    target = f"{provider}/{model or _some_model(router, provider)}"
    told: dict[str, Any] = {"target": target, "exit_code": 0, "try": ()}
    try:
        answer = router.try_out(target, TINY, timeout=PATIENCE, surface=context.surface)
    except RoutekitError as error:
        tries = [row for row in error.attempts if isinstance(row, Attempt)]
        said = {"error": cause(tries[-1])} if tries else {"error": error.message, "details": list(error.details)}
        return told | said | {"exit_code": error.exit_code, "try": error.hints}
    usage = answer.usage
    return told | {
        "answer": answer.text.strip(),
        "duration_ms": round(answer.record.duration_s * 1000),
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
    }


def _tested_words(row: dict[str, Any]) -> Iterator[str]:
    if row["exit_code"]:
        yield f"{row['target']} failed: {row['error']}"
        yield from (f"  {line.strip()}" for line in row.get("details", ()))
        return
    counts = [f"{row[f'{way}put_tokens']} tokens {way}" for way in ("in", "out") if row[f"{way}put_tokens"] is not None]
    shown = row["answer"][:60] + ("…" if len(row["answer"]) > 60 else "")
    yield ", ".join([f"{row['target']} answers: {shown or '(no text)'}", duration(row["duration_ms"] / 1000), *counts])


def _some_model(router: Router, id: str) -> str:
    """A model to ask: the first listed, else one that a route names, else the vendor's example."""
    provider = router.config.providers[id]
    listed = [each for each in router.catalog(provider).models if "*" not in each]
    targets = [entry.target for route in router.config.routes.values() for entry in route.targets]
    named = [
        each.partition("/")[2].partition("#")[0] for each in targets if each.startswith(f"{id}/") and "*" not in each
    ]
    preset = PRESETS.get(provider.preset or "")
    example = [preset.example] if preset and preset.example else []
    catalog = router.catalog(provider)
    found = next((each for each in [*named, *example, *listed] if offers(catalog, each) is not False), None)
    if found is None:
        raise UsageError(
            f"nothing says which models {id} has; name one", hints=[f"routekit providers test {id} --model MODEL"]
        )
    return found
