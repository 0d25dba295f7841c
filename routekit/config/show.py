"""The merged config as TOML text again, and its JSON Schema. It reads no file and shows no secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..core.config import Config, Health, Limits, Log, Provider, Route, RouteTarget
from .kinds import UNITS, table_schema
from .masks import masked
from .tables import ENTRIES, SETTINGS, VERSION

_DURATIONS: Mapping[type, frozenset[str]] = {
    Limits: frozenset(Limits.__struct_fields__),
    Health: frozenset(Health.__struct_fields__) - {"factor", "failures", "probe"},
    Log: frozenset({"records_keep"}),
}
#: filled in at load from the preset; the file has no such keys
_NOT_IN_FILE = {"id", "key_variable", "quirks", "origin"}


def show(config: Config) -> str:
    """TOML that reads as the same configuration, with everything at its default left out."""
    import tomli_w

    document: dict[str, Any] = {"version": VERSION}
    document |= _plain(msgspec.structs.replace(config, limits=Limits(), warnings=(), files=(), digest="", mode="file"))
    if config.limits != Limits():
        document["limits"] = _plain(config.limits)
    return tomli_w.dumps(_clean(document), multiline_strings=False)


def _plain(value: Any) -> Any:
    """A value as TOML can say it; fields equal to their default are left out."""
    if isinstance(value, RouteTarget) and value == RouteTarget(target=value.target):
        return value.target
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    durations = _DURATIONS.get(type(value), frozenset())
    found = {}
    for field in msgspec.structs.fields(type(value)):
        each = getattr(value, field.name)
        if each is None or each == field.default or each in ({}, ()) or (each == Limits() and field.name == "limits"):
            continue
        if (isinstance(value, Provider | Route) and field.name in _NOT_IN_FILE) or field.name == "id":
            continue
        found[field.name] = duration_text(each) if field.name in durations else _plain(each)
    # an empty list says something where it is required
    if isinstance(value, Route):
        found.setdefault("targets", [])
    return {key: each for key, each in found.items() if each != {} or key in ("members",)}


def duration_text(length: float) -> str:
    """The length as the file writes it, in the largest unit that says it exactly."""
    for unit in ("d", "h", "m", "s", "ms"):
        count = length / UNITS[unit]
        if count >= 1 and count == int(count):
            return f"{int(count)}{unit}"
    return f"{length:.6f}".rstrip("0").rstrip(".") + "s"


def _clean(value: Any) -> Any:
    """No secret can be in a valid config; should one ever be, it is masked here too."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: _clean(each) for key, each in value.items()}
    return [_clean(each) for each in value] if isinstance(value, list) else value


def schema() -> dict[str, Any]:
    """The JSON Schema of the file, for editors that complete and check it."""
    entries = {
        name: {"type": "object", "additionalProperties": table_schema(fields)} for name, fields in ENTRIES.items()
    }
    settings = {name: dict(kind.schema) for name, kind in SETTINGS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "routekit configuration",
        "type": "object",
        "properties": {"version": {"const": VERSION}, **entries, **settings},
        "additionalProperties": False,
    }
