"""What one value of the file may be: a kind reads a raw value, or says what is allowed. It knows no key by name."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..core.ids import ID_RULE, is_id
from ..core.keyref import KEY_SHAPE
from ..core.value import Value
from .masks import shown

#: what a reader returns for a value it has refused
BAD: Final = object()
Path = tuple[str | int, ...]


class Fault(Value):
    """A refusal at a key path; the file and the line are found later, and only if there are any faults."""

    path: Path
    message: str
    severity: str = "error"


class At:
    """A place in the document being read, and the list its faults go to."""

    __slots__ = ("faults", "path")

    def __init__(self, faults: list[Fault], path: Path = ()) -> None:
        self.faults = faults
        self.path = path

    def __truediv__(self, key: str | int) -> At:
        return At(self.faults, (*self.path, key))

    def refuse(self, message: str) -> Any:
        self.faults.append(Fault(path=self.path, message=message))
        return BAD

    def warn(self, message: str) -> None:
        self.faults.append(Fault(path=self.path, message=message, severity="warning"))


class Kind(Value):
    """``read`` converts or refuses; ``schema`` says the same as a JSON Schema, for editors."""

    read: Callable[[Any, At], Any]
    schema: Mapping[str, Any]
    #: the fields of a kind that is a table, by key
    fields: Mapping[str, Kind] = {}


def _plain(test: Callable[[Any], bool], *, allowed: str, schema: Mapping[str, Any]) -> Kind:
    def read(value: Any, at: At) -> Any:
        return value if test(value) else at.refuse(f"{shown(value)} is not allowed here: {allowed}")

    return Kind(read=read, schema=schema)


def _is_integer(value: Any) -> bool:
    # bool is an int in Python; a switch is never a number here
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    # nan and inf fail the comparison, and a huge integer is compared without becoming a float
    return isinstance(value, float | int) and not isinstance(value, bool) and abs(value) < 1e15


def integer(low: int, high: int = 2**53) -> Kind:
    span = f"{low} to {high}" if high < 2**53 else f"{low} or more"
    schema = {"type": "integer", "minimum": low} | ({"maximum": high} if high < 2**53 else {})
    return _plain(
        lambda value: _is_integer(value) and low <= value <= high, allowed=f"a whole number, {span}", schema=schema
    )


def number(low: float) -> Kind:
    inner = _plain(
        lambda value: _is_number(value) and value >= low,
        allowed=f"a number, {low:g} or more",
        schema={"type": "number", "minimum": low},
    )

    def read(value: Any, at: At) -> Any:
        found = inner.read(value, at)
        return found if found is BAD else float(found)

    return Kind(read=read, schema=inner.schema)


def words(*allowed: str) -> Kind:
    return _plain(
        lambda value: isinstance(value, str) and value in allowed,
        allowed=f"one of {', '.join(allowed)}",
        schema={"enum": list(allowed)},
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable() and not value.isspace()


BOOLEAN: Final = _plain(lambda value: isinstance(value, bool), allowed="true or false", schema={"type": "boolean"})
TEXT: Final = _plain(_is_text, allowed="text in quotes", schema={"type": "string"})
LINE: Final = _plain(_is_line, allowed="text of one line, not empty", schema={"type": "string", "minLength": 1})
#: a line that may be empty, which counts as unset
LABEL: Final = _plain(
    lambda value: value == "" or _is_line(value), allowed="text of one line", schema={"type": "string"}
)
STICKY: Final = _plain(
    lambda value: isinstance(value, bool) or value == "cache",
    allowed='true, false or "cache"',
    schema={"enum": [True, False, "cache"]},
)

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)", re.ASCII)
_LONGEST = 3650 * 86400.0
DURATION_RULE: Final = 'a duration with its unit, as in "250ms", "30s", "2m", "8h", "7d"'


def seconds(text: str) -> float | None:
    """A duration of the file in seconds; ``None`` if it is none."""
    found = _DURATION.fullmatch(text)
    return float(found[1]) * UNITS[found[2]] if found else None


def duration(*, zero: bool = True) -> Kind:
    """``zero``: whether nothing is a sensible length here. A bare 0 needs no unit."""

    def read(value: Any, at: At) -> Any:
        if zero and _is_integer(value) and value == 0:
            return 0.0
        if isinstance(value, float | int) and not isinstance(value, bool):
            return at.refuse(f"{shown(value)}: which unit? write {DURATION_RULE}")
        length = seconds(value) if isinstance(value, str) else None
        if length is None or length > _LONGEST:
            return at.refuse(f"{shown(value)} is not allowed here: {DURATION_RULE}, at most 3650d")
        if not length and not zero:
            return at.refuse(f"{shown(value)} is not allowed here: it must be longer than nothing")
        return length

    return Kind(read=read, schema={"type": "string", "pattern": r"^\d+(\.\d+)?(ms|s|m|h|d)$"})


def _read_instant(value: Any, at: At) -> Any:
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return at.refuse(f"{shown(value)} is no instant: write date, time and zone, as in 2026-12-31T00:00:00Z")
    return value


INSTANT: Final = Kind(read=_read_instant, schema={"type": "string", "format": "date-time"})


def _json_fault(value: Any) -> str | None:
    if isinstance(value, str):
        return "a secret stands here; a request's parameters hold none" if KEY_SHAPE.search(value) else None
    if isinstance(value, bool | int):
        return None if abs(value) < 2**63 else "a number of this size cannot be sent as JSON"
    if isinstance(value, float):
        return None if math.isfinite(value) else "nan and inf cannot be sent as JSON"
    if isinstance(value, list | dict):
        inner = value if isinstance(value, list) else value.values()
        return next((fault for fault in map(_json_fault, inner) if fault), None)
    return "dates and times cannot be sent as JSON; write text in quotes"


def _read_json(value: Any, at: At) -> Any:
    fault = _json_fault(value)
    return at.refuse(fault) if fault else value


JSON: Final = Kind(read=_read_json, schema={})


def sequence(item: Kind) -> Kind:
    def read(value: Any, at: At) -> Any:
        if not isinstance(value, list):
            return at.refuse(f"{shown(value)} is not allowed here: a list, as in [ … ]")
        found = tuple(item.read(each, at / index) for index, each in enumerate(value))
        return tuple(each for each in found if each is not BAD)

    return Kind(read=read, schema={"type": "array", "items": item.schema})


def mapping(item: Kind, *, keys: Callable[[str], str | None] = lambda key: None, nested: bool = False) -> Kind:
    """A table with free keys. ``keys`` says what is wrong with a key, if anything is. Unless ``nested``, a table found
    where a plain value belongs is most likely a dotted name that was not quoted."""

    def entry(key: str, value: Any, at: At) -> Any:
        fault = keys(key)
        if fault:
            return at.refuse(fault)
        if isinstance(value, dict) and not nested:
            return at.refuse(f'a name with a dot must be quoted: "{".".join(dotted(key, value))}"')
        return item.read(value, at)

    def read(value: Any, at: At) -> Any:
        if not isinstance(value, dict):
            return at.refuse(f"{shown(value)} is not allowed here: a table, as in {{ name = … }}")
        found = {key: entry(key, each, at / key) for key, each in value.items()}
        return {key: each for key, each in found.items() if each is not BAD}

    return Kind(read=read, schema={"type": "object", "additionalProperties": item.schema})


def dotted(key: str, value: Any, known: Iterable[str] = ()) -> list[str]:
    """The parts of the name somebody meant when an unquoted dotted key made tables within tables."""
    parts = [key]
    while isinstance(value, dict) and len(value) == 1:
        inner, below = next(iter(value.items()))
        if inner in known or (known and not isinstance(below, dict)):
            break
        parts.append(inner)
        value = below
    return parts


def table(fields: Mapping[str, Kind], make: Callable[..., Any], *, required: Iterable[str] = ()) -> Kind:
    """A table with known keys, built by ``make`` from those that could be read; refused only if one it needs is
    missing."""
    needs = tuple(required)

    def read(value: Any, at: At) -> Any:
        found = read_fields(value, at, fields=fields)
        if found is BAD:
            return BAD
        for key in needs:
            if key not in value:
                at.refuse(f"'{key}' is missing")
        return make(**found) if all(key in found for key in needs) else BAD

    return Kind(read=read, schema=table_schema(fields, required=needs), fields=fields)


def table_schema(fields: Mapping[str, Kind], *, required: Iterable[str] = ()) -> dict[str, Any]:
    properties = {key: kind.schema for key, kind in fields.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


def read_fields(value: Any, at: At, *, fields: Mapping[str, Kind], ids: bool = False) -> Any:
    """The readable part of a table. ``ids``: the table itself is named by an id, so an unknown key that holds a table
    may be the second half of an unquoted dotted id."""
    if not isinstance(value, dict):
        return at.refuse(f"{shown(value)} is not allowed here: a table")
    found = {}
    for key, each in value.items():
        kind = fields.get(key)
        if kind is None:
            _refuse_unknown(key, each, at / key, known=fields, ids=ids)
            continue
        result = kind.read(each, at / key)
        if result is not BAD:
            found[key] = result
    return found


def _refuse_unknown(key: str, value: Any, at: At, *, known: Iterable[str], ids: bool) -> None:
    if ids and isinstance(value, dict):
        owner = at.path[-2]
        name = ".".join([str(owner), *dotted(key, value, known)])
        table_name = ".".join(quoted(part) for part in at.path[:-2])
        at.refuse(f'unknown key; an id with a dot must be quoted: [{table_name}."{name}"]')
        return
    at.refuse(f"unknown key; {nearest(key, known)}")


def nearest(word: str, known: Iterable[str], *, what: str = "allowed") -> str:
    """The closest known word as a question, or all of them."""
    from difflib import get_close_matches

    names = sorted(set(known))
    close = get_close_matches(word[:100], names, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    listed = ", ".join(names[:20]) + (" …" if len(names) > 20 else "")
    return f"{what}: {listed or 'nothing'}"


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def quoted(part: str | int) -> str:
    """One part of a key path as TOML writes it."""
    text = str(part)
    if _BARE.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def id_fault(key: str) -> str | None:
    return None if is_id(key) else f"{shown(key)} is no id: {ID_RULE}"
