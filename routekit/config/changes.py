"""What people ask of a config by command, as operations on it. It writes nothing and judges no values."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UsageError
from .edit import Operation, Plan, drop, insert, move, put
from .kinds import Kind, Path, nearest
from .masks import shown
from .tables import ENTRIES, MEMBER, SETTINGS, TARGET

Document = Mapping[str, Any]


# ---- any key


def set_value(key: str, text: str) -> Plan:
    """``config set KEY VALUE``. The key is a TOML key path; a dotted id need not be quoted if the file has it. The
    value is TOML, or plain text where it is none."""

    def plan(document: dict[str, Any]) -> list[Operation]:
        path = _path(key, document)
        return [put(path, read_value(text, kind=_kind(path)))]

    return plan


def unset(key: str) -> Plan:
    def plan(document: dict[str, Any]) -> list[Operation]:
        path = _path(key, document)
        return [drop(path)] if _has(document, path) else []

    return plan


def read_value(text: str, *, kind: Kind | None = None) -> Any:
    """TOML if it is TOML and fits, else the text itself: ``2m``, ``smooth`` and ``1e5`` need no quotes."""
    try:
        value = tomllib.loads(f"v = {text}")
    except (ValueError, RecursionError):
        return text
    if set(value) != {"v"}:
        return text
    return text if _wants_text(kind) and not isinstance(value["v"], str) else value["v"]


def _wants_text(kind: Kind | None) -> bool:
    return kind is not None and kind.schema.get("type") == "string" and kind.schema.get("format") != "date-time"


def _path(key: str, document: Document) -> Path:
    parts = _split(key)
    if parts[0] in ENTRIES and len(parts) > 2:
        # the longest id the file has, so that openai.alternate needs no quotes here
        known = document.get(parts[0], {})
        for end in range(len(parts), 1, -1):
            name = ".".join(parts[1:end])
            if name in known:
                parts = [parts[0], name, *parts[end:]]
                break
    path = tuple(parts)
    _check_key(path)
    return path


def _split(key: str) -> list[str]:
    try:
        place: Any = tomllib.loads(f"{key} = 1")
    except (ValueError, RecursionError):
        place = {}
    parts = []
    while isinstance(place, dict) and len(place) == 1:
        ((part, place),) = place.items()
        parts.append(part)
    if place != 1 or "\n" in key:
        raise UsageError(f"{shown(key)} is no key: write it as in routes.plan.selection")
    return parts


def _check_key(path: Sequence[Any]) -> None:
    """A key nobody knows is a mistyped command, not a fault of the file."""
    known: Mapping[str, Any] = {**ENTRIES, **SETTINGS}
    if path[0] not in known:
        raise UsageError(f"there is no key '{path[0]}'; {nearest(path[0], known)}")
    if path[0] in ENTRIES:
        _check_fields(path[2:], ENTRIES[path[0]], what=f"{path[0]}.{path[1]}" if len(path) > 1 else path[0])
    elif SETTINGS[path[0]].fields:
        _check_fields(path[1:], SETTINGS[path[0]].fields, what=path[0])


def _check_fields(parts: Sequence[Any], fields: Mapping[str, Kind], *, what: str) -> None:
    if parts and parts[0] not in fields:
        raise UsageError(f"there is no key '{parts[0]}' in {what}; {nearest(str(parts[0]), fields)}")


def _kind(path: Path) -> Kind | None:
    if path[0] in ENTRIES:
        return ENTRIES[str(path[0])].get(str(path[2])) if len(path) == 3 else None
    fields = SETTINGS[str(path[0])].fields
    if path[0] == "aliases":
        return Kind(read=lambda value, at: value, schema={"type": "string"})
    return fields.get(str(path[1])) if len(path) == 2 else None


def _has(document: Any, path: Path) -> bool:
    for part in path:
        if not isinstance(document, dict) or part not in document:
            return False
        document = document[part]
    return True


def _entry(document: Document, table: str, id: str, *, what: str) -> Any:
    known = document.get(table, {})
    if not isinstance(known, dict) or id not in known:
        several = "aliases" if what == "alias" else f"{what}s"
        raise UsageError(f"there is no {what} '{id}' in the file; {nearest(id, known, what=several)}")
    return known[id]


# ---- aliases and the default


def set_alias(name: str, reference: str) -> Plan:
    return lambda document: [put(("aliases", name), reference)]


def remove_alias(name: str) -> Plan:
    def plan(document: dict[str, Any]) -> list[Operation]:
        _entry(document, "aliases", name, what="alias")
        return [drop(("aliases", name))]

    return plan


def set_default(reference: str) -> Plan:
    return lambda document: [put(("defaults", "route"), reference)]


# ---- routes


def add_route(id: str, targets: Sequence[str], *, selection: str | None = None) -> Plan:
    """A new route, or more targets at the end of one."""

    def plan(document: dict[str, Any]) -> list[Operation]:
        more = [put(("routes", id, "selection"), selection)] if selection else []
        if id not in document.get("routes", {}):
            fields = {"targets": list(targets)} | ({"selection": selection} if selection else {})
            return [put(("routes", id), fields)]
        texts = _texts(document["routes"][id])
        fresh = [target for target in dict.fromkeys(targets) if target not in texts]
        path = ("routes", id, "targets")
        return [*(insert(path, len(texts) + place, each) for place, each in enumerate(fresh)), *more]

    return plan


def remove_route(id: str, target: str | None = None) -> Plan:
    """The route, or one target of it."""

    def plan(document: dict[str, Any]) -> list[Operation]:
        route = _entry(document, "routes", id, what="route")
        if target is None:
            return [drop(("routes", id))]
        return [drop(("routes", id, "targets", _target(route, id, target)))]

    return plan


def move_target(id: str, target: str, position: int) -> Plan:
    """``position`` counts from 1."""

    def plan(document: dict[str, Any]) -> list[Operation]:
        route = _entry(document, "routes", id, what="route")
        index = _target(route, id, target)
        to = _position(position, len(route["targets"]))
        return [move(("routes", id, "targets"), index, to)]

    return plan


def set_route(id: str, key: str, text: str) -> Plan:
    """``routes set ID KEY VALUE``; ``TARGET.KEY`` sets a key of one target."""

    def plan(document: dict[str, Any]) -> list[Operation]:
        route = _entry(document, "routes", id, what="route")
        owner, dot, field = key.rpartition(".")
        if dot and (owner in _texts(route) or _means_part(owner, field, ENTRIES["routes"], TARGET.fields)):
            return _set_target(route, id, owner, field, text)
        path = ("routes", id, *_split(key))
        _check_key(path)
        return [put(path, read_value(text, kind=_kind(path)))]

    return plan


def _means_part(owner: str, field: str, own: Mapping[str, Kind], part: Mapping[str, Kind]) -> bool:
    """Whether ``OWNER.FIELD`` was typed for a target or member, though there is none of that name."""
    return field in part and owner.partition(".")[0] not in own


def _set_target(route: Any, id: str, target: str, field: str, text: str) -> list[Operation]:
    _check_fields([field], TARGET.fields, what=f"a target of {id}")
    index = _target(route, id, target)
    value = read_value(text, kind=TARGET.fields[field])
    path = ("routes", id, "targets", index)
    if isinstance(route["targets"][index], dict):
        return [put((*path, field), value)]
    return [put(path, {"target": target, field: value})]


def _texts(route: Any) -> list[Any]:
    return [each.get("target") if isinstance(each, dict) else each for each in route.get("targets", [])]


def _target(route: Any, id: str, target: str) -> int:
    texts = _texts(route)
    if target not in texts:
        known = [text for text in texts if isinstance(text, str)]
        raise UsageError(f"'{target}' is no target of {id}; {nearest(target, known, what='targets')}")
    return texts.index(target)


def _position(position: int, count: int) -> int:
    if not 1 <= position <= count:
        raise UsageError(f"{position} is no position: there are 1 to {count}")
    return position - 1


# ---- providers


def add_provider(id: str, fields: Mapping[str, Any]) -> Plan:
    def plan(document: dict[str, Any]) -> list[Operation]:
        _refuse_taken(document, id)
        return [put(("providers", id), dict(fields))]

    return plan


def add_synthetic(id: str, members: Sequence[str], *, selection: str | None = None) -> Plan:
    def plan(document: dict[str, Any]) -> list[Operation]:
        _refuse_taken(document, id)
        fields = {"providers": list(members)} | ({"selection": selection} if selection else {})
        return [put(("synthetic_providers", id), fields)]

    return plan


def add_members(id: str, members: Sequence[str], *, selection: str | None = None) -> Plan:
    """A new synthetic provider, or more members at the end of one."""

    def plan(document: dict[str, Any]) -> list[Operation]:
        if id not in document.get("synthetic_providers", {}):
            return list(add_synthetic(id, members, selection=selection)(document))
        entry = document["synthetic_providers"][id]
        ids = _member_ids(entry)
        fresh = [member for member in members if member not in ids]
        tables = isinstance(entry.get("members"), list)
        path = ("synthetic_providers", id, "members" if tables else "providers")
        more = [put(("synthetic_providers", id, "selection"), selection)] if selection else []
        values: list[Any] = [{"provider": member} for member in fresh] if tables else fresh
        return [*(insert(path, len(ids) + place, each) for place, each in enumerate(values)), *more]

    return plan


def _refuse_taken(document: Document, id: str) -> None:
    for table in ("providers", "synthetic_providers"):
        if id in document.get(table, {}):
            raise UsageError(f"there is a provider '{id}' already", hints=[f"routekit providers show {id}"])


def remove_provider(id: str, member: str | None = None) -> Plan:
    """The provider (synthetic or not), or one member of a synthetic one."""

    def plan(document: dict[str, Any]) -> list[Operation]:
        table = _table(document, id)
        if member is None:
            return [drop((table, id))]
        return _remove_member(document, id, member)

    return plan


def set_provider(id: str, key: str, text: str) -> Plan:
    """``providers set ID KEY VALUE``; ``MEMBER.KEY`` sets a key of a synthetic provider's member."""

    def plan(document: dict[str, Any]) -> list[Operation]:
        table = _table(document, id)
        owner, dot, field = key.rpartition(".")
        synthetic = table == "synthetic_providers" and bool(dot)
        if synthetic and (
            owner in _member_ids(document[table][id]) or _means_part(owner, field, ENTRIES[table], MEMBER.fields)
        ):
            return _set_member(document, id, owner, field, text)
        path = (table, id, *_split(key))
        _check_key(path)
        return [put(path, read_value(text, kind=_kind(path)))]

    return plan


def move_member(id: str, member: str, position: int) -> Plan:
    """``position`` counts from 1."""

    def plan(document: dict[str, Any]) -> list[Operation]:
        path, index = _member(document, id, member)
        return [move(path, index, _position(position, len(_member_ids(document["synthetic_providers"][id]))))]

    return plan


def _table(document: Document, id: str) -> str:
    if id in document.get("synthetic_providers", {}):
        return "synthetic_providers"
    if id not in document.get("providers", {}):
        known = [*document.get("providers", {}), *document.get("synthetic_providers", {})]
        raise UsageError(f"there is no provider '{id}' in the file; {nearest(id, known, what='providers')}")
    return "providers"


def _member_ids(entry: Any) -> list[Any]:
    members = entry.get("members")
    if isinstance(members, list):
        return [each.get("provider") if isinstance(each, dict) else None for each in members]
    return list(entry.get("providers", []))


def _member(document: Document, id: str, member: str) -> tuple[Path, int]:
    entry = _entry(document, "synthetic_providers", id, what="synthetic provider")
    ids = _member_ids(entry)
    if member not in ids:
        known = [each for each in ids if isinstance(each, str)]
        raise UsageError(f"'{member}' is no member of {id}; {nearest(member, known, what='members')}")
    spelling = "members" if "members" in entry else "providers"
    return ("synthetic_providers", id, spelling), ids.index(member)


def _remove_member(document: Document, id: str, member: str) -> list[Operation]:
    path, index = _member(document, id, member)
    weights = document["synthetic_providers"][id].get("weights", {})
    weighed = [drop(("synthetic_providers", id, "weights", member))] if member in weights else []
    return [*weighed, drop((*path, index))]


def _set_member(document: Document, id: str, member: str, field: str, text: str) -> list[Operation]:
    _check_fields([field], MEMBER.fields, what=f"a member of {id}")
    path, index = _member(document, id, member)
    value = read_value(text, kind=MEMBER.fields[field])
    if path[-1] == "members":
        return [put((*path, index, field), value)]
    if field == "weight":
        return [put(("synthetic_providers", id, "weights", member), value)]
    return _as_tables(document["synthetic_providers"][id], id, index, field, value)


def _as_tables(entry: Any, id: str, index: int, field: str, value: Any) -> list[Operation]:
    """Ids and weights cannot say this; the members become tables, each saying what it said before."""
    weights = entry.get("weights", {})
    members: list[dict[str, Any]] = [
        {"provider": each} | ({"weight": weights[each]} if each in weights else {}) for each in entry["providers"]
    ]
    members[index][field] = value
    base: Path = ("synthetic_providers", id)
    gone = [drop((*base, key)) for key in ("providers", "weights") if key in entry]
    return [*gone, put((*base, "members"), members)]
