"""From a merged document to typed entries, presets and defaults filled in. It compares no two entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

from ..core.config import (
    Api,
    Defaults,
    Health,
    Limits,
    Log,
    Member,
    Provider,
    Repl,
    Route,
    SyntheticProvider,
)
from ..core.value import Value
from .kinds import BAD, At, dotted, id_fault, nearest, read_fields
from .masks import shown
from .tables import APIS, ENTRIES, PROVIDER, ROUTE, SCRIPTED, SETTINGS, SYNTHETIC, TOP, VERSION, host_of


class PresetRow(Protocol):
    """What is needed of a known vendor. The rows belong to the vendors' side, which this side cannot import."""

    @property
    def name(self) -> str: ...
    @property
    def api(self) -> Api: ...
    @property
    def base_url(self) -> str: ...
    @property
    def key_variable(self) -> str | None: ...
    @property
    def auth(self) -> str: ...
    @property
    def anthropic_version(self) -> str | None: ...
    @property
    def quirks(self) -> tuple[str, ...]: ...
    @property
    def place(self) -> str | None:
        """The form of the address, where only the user can know it and ``base_url`` is empty."""


class Vendors(Value):
    """The known vendors by preset name, and the preset an ``api`` without an address stands for."""

    presets: Mapping[str, Any]
    defaults: Mapping[Api, str]

    def row(self, name: str | None) -> PresetRow | None:
        return cast("PresetRow | None", self.presets.get(name)) if name is not None else None


class Draft(Value):
    """The readable part of a document. ``declared`` holds every id that was written per table, also of entries with
    faults, so that one fault does not make others."""

    providers: dict[str, Provider]
    synthetic_providers: dict[str, SyntheticProvider]
    routes: dict[str, Route]
    aliases: dict[str, str]
    declared: Mapping[str, frozenset[str]]
    defaults: Defaults
    limits: Limits
    log: Log
    repl: Repl


def convert(document: Mapping[str, Any], at: At, *, vendors: Vendors, allow_scripted: bool = False) -> Draft:
    """Read every table; every fault goes to ``at``."""
    _refuse_strangers(document, at)
    settings = {key: SETTINGS[key].read(document.get(key, {}), at / key) for key in SETTINGS}
    said: dict[str, Any] = {key: None if value is BAD else value for key, value in settings.items()}
    defaults = said["defaults"] or {}
    policy = {key: value for key, value in defaults.items() if key not in Defaults.__struct_fields__}
    health = said["health"] or {}

    def provider(id: str, raw: Any, place: At) -> Provider | None:
        return _provider(id, raw, place, vendors=vendors, health=health, allow_scripted=allow_scripted)

    def route(id: str, raw: Any, place: At) -> Route | None:
        return _route(id, raw, place, policy=policy)

    return Draft(
        providers=_entries(document, "providers", at, provider),
        synthetic_providers=_entries(document, "synthetic_providers", at, _synthetic),
        routes=_entries(document, "routes", at, route),
        aliases=said["aliases"] or {},
        declared={table: frozenset(_declared(document.get(table), table)) for table in (*ENTRIES, "aliases")},
        defaults=Defaults(**{key: value for key, value in defaults.items() if key in Defaults.__struct_fields__}),
        limits=said["limits"] or Limits(),
        log=said["log"] or Log(),
        repl=said["repl"] or Repl(),
    )


def _refuse_strangers(document: Mapping[str, Any], at: At) -> None:
    for key in document:
        if key not in TOP:
            (at / key).refuse(f"unknown key; {nearest(key, TOP)}")
    version = document.get("version", VERSION)
    if version != VERSION or isinstance(version, bool | float):
        (at / "version").refuse(f"{shown(version)} is not a version this routekit reads: write version = {VERSION}")


def _entries(document: Mapping[str, Any], table: str, at: At, make: Any) -> Any:
    raw = document.get(table, {})
    place = at / table
    if not isinstance(raw, dict):
        place.refuse(f"{shown(raw)} is not allowed here: a table per id, as in [{table}.ID]")
        return {}
    found = {}
    for id, each in raw.items():
        fault = id_fault(id)
        entry = (place / id).refuse(fault) if fault else make(id, each, place / id)
        if entry is not None and entry is not BAD:
            found[id] = entry
    return found


def _declared(raw: Any, table: str) -> Iterable[str]:
    if not isinstance(raw, dict):
        return
    known = ENTRIES.get(table, {})
    for id, entry in raw.items():
        yield id
        # the ids somebody meant when the quotes around a dotted one are missing
        for key, value in entry.items() if isinstance(entry, dict) else ():
            if key not in known and isinstance(value, dict):
                yield ".".join([id, *dotted(key, value, known)])


def _fields(raw: Any, at: At, fields: Any) -> dict[str, Any] | None:
    """The readable fields of an entry; ``None`` if it is no entry but the first half of an unquoted dotted id."""
    found = read_fields(raw, at, fields=fields, ids=True)
    if found is BAD or (raw and all(key not in fields and isinstance(value, dict) for key, value in raw.items())):
        return None
    return cast("dict[str, Any]", found)


# ---- providers


def _provider(
    id: str, raw: Any, at: At, *, vendors: Vendors, health: Mapping[str, Any], allow_scripted: bool
) -> Provider | None:
    found = _fields(_without_secrets(id, raw, at), at, PROVIDER)
    if found is None:
        return None
    row = _stated_row(raw, found, at, vendors)
    api = found.get("api") or (row.api if row else None)
    if api is None:
        if "api" not in raw and "preset" not in raw:
            at.refuse(f"'api' is missing: write one of {', '.join(APIS[:3])}, or a preset{_preset_hint(id, vendors)}")
        return None
    if api == SCRIPTED and not allow_scripted:
        (at / "api").refuse("'scripted' is for the demo profile and for tests only")
    row = row or _default_row(api, found, vendors)
    base_url = _base_url(api, found, row, at, raw=raw)
    if base_url is None:
        return None
    _refuse_second_key(found, at)
    filled = _vendor_facts(row, base_url) | found
    if filled["auth"] == "none" and filled.get("key", "none") != "none":
        (at / "key").warn('this key is never sent, because auth is none; write auth = "bearer" too')
    filled["key"] = filled.get("key") or ("none" if api == SCRIPTED or filled["auth"] == "none" else f"keyring:{id}")
    filled["health"] = Health(**{**health, **found.get("health", {})})
    filled |= {"id": id, "api": api, "base_url": base_url, "preset": row.name if row else None}
    return Provider(**filled)


#: what other programs call the place of the secret itself
_SECRET_KEYS = ("api_key", "apikey", "api-key", "auth_token", "access_token", "token", "secret", "password")


def _without_secrets(id: str, raw: Any, at: At) -> Any:
    if not isinstance(raw, dict):
        return raw
    for key in raw:
        if key.lower() in _SECRET_KEYS:
            (at / key).refuse(f"secrets never stand in the file: take it out; try: routekit keys set {id}")
    return {key: value for key, value in raw.items() if key.lower() not in _SECRET_KEYS}


def _preset_hint(id: str, vendors: Vendors) -> str:
    return f' (preset = "{id}")' if id in vendors.presets else ""


def _stated_row(raw: Mapping[str, Any], found: Mapping[str, Any], at: At, vendors: Vendors) -> PresetRow | None:
    name = found.get("preset")
    row = vendors.row(name)
    if name is not None and row is None:
        (at / "preset").refuse(f"{shown(name)} is no known vendor; {nearest(name, vendors.presets)}")
    elif row is not None and "base_url" not in raw and _family(found.get("api", row.api)) != _family(row.api):
        (at / "api").refuse(f"preset '{row.name}' has its address for {row.api}; write base_url for {found['api']} too")
    return row


def _family(api: str) -> str:
    return api.partition("-")[0]


def _default_row(api: Api, found: Mapping[str, Any], vendors: Vendors) -> PresetRow | None:
    """An entry without preset and without address is the API's own vendor, as is one that spells that address out."""
    row = vendors.row(vendors.defaults.get(api))
    return row if row and found.get("base_url", row.base_url) == row.base_url.rstrip("/") else None


def _base_url(
    api: str, found: Mapping[str, Any], row: PresetRow | None, at: At, *, raw: Mapping[str, Any]
) -> str | None:
    said = found.get("base_url")
    if said is None and "base_url" in raw:
        return None  # refused already
    url = said or (f"{SCRIPTED}:" if api == SCRIPTED else row.base_url.rstrip("/") if row else "")
    if not url:
        form = f", as in {row.place}" if row and row.place else ""
        at.refuse(f"'base_url' is missing: write your own address{form}")
        return None
    if (api == SCRIPTED) != url.startswith(f"{SCRIPTED}:"):
        (at / "base_url").refuse("an address of this kind does not fit the api")
        return None
    if api == "anthropic-messages" and url.endswith("/v1"):
        (at / "base_url").warn("an Anthropic-style address is written without '/v1', which is added to it")
    if url.startswith("http://") and not is_loopback(url):
        (at / "base_url").warn("keys and prompts would travel unencrypted: write https://")
    return url


def is_loopback(url: str) -> bool:
    host = url.partition("://")[2].partition("/")[0]
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower() in ("localhost", "::1") or name.startswith("127.")


def _vendor_facts(row: PresetRow | None, base_url: str) -> dict[str, Any]:
    if row is None:
        return {"auth": "bearer", "origin": "config"}
    # A vendor without one address for all is at home wherever its user says it is.
    at_home = not row.base_url or host_of(base_url) == host_of(row.base_url.rstrip("/"))
    return {
        "auth": row.auth,
        "anthropic_version": row.anthropic_version,
        "quirks": tuple(row.quirks),
        # the vendor's usual variable holds a key for the vendor, not for whoever answers at another address
        "key_variable": row.key_variable if at_home else None,
        "origin": "preset" if at_home and row.base_url else "config",
    }


def _refuse_second_key(found: Mapping[str, Any], at: At) -> None:
    carrier = found.get("auth", "").partition("header:")[2].lower()
    for name in found.get("headers", {}):
        if name.lower() == carrier:
            (at / "headers" / name).refuse("this header carries the key (see 'auth'); it is not set here")


# ---- synthetic providers and routes


def _synthetic(id: str, raw: Any, at: At) -> SyntheticProvider | None:
    found = _fields(raw, at, SYNTHETIC)
    if found is None:
        return None
    if "members" in raw and ("providers" in raw or "weights" in raw):
        at.refuse("'members' already says it all: write either members, or providers and weights")
        return None
    if "members" not in raw and "providers" not in raw:
        at.refuse("'providers' is missing: write the members' ids, or 'members' as tables")
        return None
    members = found.pop("members", None) or _members(found, at)
    found.pop("providers", None)
    found.pop("weights", None)
    return SyntheticProvider(id=id, **(found | {"members": tuple(members)}))


def _members(found: Mapping[str, Any], at: At) -> list[Member]:
    providers, weights = found.get("providers", ()), found.get("weights", {})
    for name in weights:
        if name not in providers:
            (at / "weights" / name).refuse(f"{shown(name)} is no member; {nearest(name, providers, what='members')}")
    return [Member(provider=name, weight=weights.get(name, 1)) for name in providers]


def _route(id: str, raw: Any, at: At, *, policy: Mapping[str, Any]) -> Route | None:
    found = _fields(raw, at, ROUTE)
    if found is None:
        return None
    if "targets" not in raw:
        at.refuse("'targets' is missing: write at least one reference, as in targets = [\"provider/model\"]")
        return None
    return Route(**{"id": id, "targets": (), **policy, **found})
