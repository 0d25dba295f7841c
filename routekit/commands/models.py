"""``models``: every reference that can be asked for, from config and catalogs. It asks no vendor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..core.config import Catalog, Member, ModelInfo
from ..core.plan import advertised, model_info, named_models, takes
from ..core.value import Value
from ..core.words import ago
from ..errors import UsageError
from ..router import Router
from ..vendors.presets import PRESETS
from .report import Context, Lines, Report, Table

#: what the flags keep
ROUTES, CONCRETE = frozenset({"route", "alias"}), frozenset({"model", "example"})


class Entry(Value):
    """``kind``: ``route``, ``alias``, ``synthetic``, ``model``, or ``example``: a name to begin with, of a vendor whose
    list nobody has fetched yet."""

    id: str
    kind: str
    about: str = ""


def listing(
    context: Context,
    *,
    query: Sequence[str] = (),
    routes: bool = False,
    concrete: bool = False,
    names: bool = False,
    json: bool = False,
) -> Report:
    if routes and concrete:
        raise UsageError("--routes and --concrete leave nothing: choose one", hints=["routekit models list --routes"])
    router = context.router
    wanted = [word.lower() for word in query]
    found = [row for row in entries(router) if all(word in row.id.lower() for word in wanted)]
    kept = ROUTES if routes else CONCRETE if concrete else None
    found = [row for row in found if kept is None or row.kind in kept]
    data: list[Any] = [{"id": row.id, "kind": row.kind, "about": row.about or None} for row in found]
    if names:
        return Report(blocks=(Lines(text=tuple(row.id for row in found if row.kind != "example")),), data=data)
    table = Table(
        columns=("", "", ""),
        rows=tuple((row.id, row.kind, row.about) for row in found),
        empty="Nothing here has such a name." if query or kept else "Nothing can be asked for by name yet.",
    )
    told = () if routes else (*_fetched(router), *_open_providers(router))
    return Report(blocks=(table, *((Lines(text=told),) if told else ())), data=data)


def entries(router: Router) -> Iterator[Entry]:
    config = router.config
    for route in config.routes.values():
        also = "/".join(advertised(route))
        listed = f"also {also}" if also != f"{route.id}/{route.id}" else ""
        off = "" if route.enabled else "off"
        yield Entry(id=route.id, kind="route", about=", ".join(part for part in (route.name, listed, off) if part))
    for alias, meant in config.aliases.items():
        yield Entry(id=alias, kind="alias", about=f"→ {meant}")
    yield from _synthetic(router)
    for provider in config.providers.values():
        catalog = router.catalog(provider)
        named = named_models(config, {provider.id: catalog}, provider.id)
        for model in named:
            about = _about(model_info(provider, catalog, model))
            yield Entry(id=f"{provider.id}/{model}", kind="model", about=about or _unlisted(catalog, model))
        row = PRESETS.get(provider.preset or "")
        if catalog.kind == "open" and row is not None and row.example and row.example not in named:
            yield Entry(id=f"{provider.id}/{row.example}", kind="example", about="a name to begin with")


def _synthetic(router: Router) -> Iterator[Entry]:
    config = router.config
    for row in config.synthetic_providers.values():
        offering: dict[str, list[str]] = {}
        for member in row.members:
            for model in (*router.catalog(config.providers[member.provider]).models, *member.map):
                if "*" not in model and member.provider not in offering.setdefault(model, []):
                    offering[model].append(member.provider)
        for model in named_models(config, router.catalogs(), row.id):
            takers = [member.provider for member in row.members if _may_take(router, member, model)]
            offering.setdefault(model, takers)
        for model, members in offering.items():
            yield Entry(id=f"{row.id}/{model}", kind="synthetic", about=", ".join(members))


def _may_take(router: Router, member: Member, model: str) -> bool:
    return takes(member.map, router.catalog(router.config.providers[member.provider]), model)


def _unlisted(catalog: Catalog, model: str) -> str:
    return "" if model in catalog.models else "named in the config"


def _about(info: ModelInfo) -> str:
    """What is known of a model, shortest first: its window, what it takes."""
    parts = [f"{info.context // 1000}k context" if info.context else ""]
    parts += [word for word, known in (("reasons", info.reasons), ("images", info.images), ("pdf", info.pdf)) if known]
    return ", ".join(part for part in parts if part)


def _fetched(router: Router) -> Iterator[str]:
    """How old each list is that came from a vendor."""
    for row in router.config.providers.values():
        fetched_at = router.catalog(row).fetched_at
        if fetched_at is not None:
            told = f"{row.id}: listed by its vendor {ago(fetched_at, router.now())}"
            yield f"{told}   (routekit models refresh {row.id})"


def _open_providers(router: Router) -> Iterator[str]:
    """A list that looks complete and is not would mislead: providers that name no models take any."""
    for row in router.config.providers.values():
        globs = [model for model in row.models or () if "*" in model]
        if router.catalog(row).kind == "open":
            told = f"{row.id}/MODEL: any model of {row.id} can be asked for by its name"
            yield f"{told}   (routekit models refresh {row.id})"
        elif globs:
            yield f"{row.id}/MODEL: also any name that fits {' or '.join(globs)}"
