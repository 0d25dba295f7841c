"""Request records as the stores keep them: one JSON document each, found by id and ordered by time.

It must not know where the records lie, nor what is in a document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from routekit.core.value import DAMAGED, Value


class Row(Value):
    id: str
    time: float
    document: bytes


def pack(id: str, time: float, document: Mapping[str, Any]) -> Row:
    """The document always carries ``id`` and ``time``, so that a reader needs no second source."""
    whole = {"id": id, "time": time, **document}
    try:
        encoded = msgspec.json.encode(whole, enc_hook=str)
    except UnicodeEncodeError:
        # An argument or a vendor's words with undecodable bytes: better a question mark than no record.
        import json

        plain = msgspec.to_builtins(whole, enc_hook=str)
        encoded = json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace")
    return Row(id=id.encode("utf-8", "replace").decode(), time=float(time), document=encoded)


def unpack(row: Row) -> dict[str, Any]:
    try:
        return msgspec.json.decode(row.document, type=dict[str, Any])
    except DAMAGED:
        return {"id": row.id, "time": row.time}  # a mangled document must not hide the others


def matching(rows: Iterable[Row], *, id: str | None, limit: int) -> list[Row]:
    """Newest first, of ``rows`` in the order they were written; one written again replaces its former self. An exact
    id beats a prefix; an ambiguous prefix gives at least two rows, so that nobody takes the first for the only one."""
    known: dict[str, Row] = {}
    for row in rows:
        known.pop(row.id, None)
        known[row.id] = row
    if id is not None and id in known:
        return [known[id]]
    found = [row for row in reversed(known.values()) if id is None or row.id.startswith(id)]
    found.sort(key=lambda row: -row.time)
    return found[: limit if id is None else max(limit, 2)]
