"""What readers of answers share: counting output, numbering tool calls, the end of an answer. It knows no wire API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from ..core.chat import Delta, Finish, Usage


class InStream(Exception):
    """An error a vendor sent inside its stream. ``body`` is judged like the body of an error answer."""

    def __init__(self, body: Any) -> None:
        super().__init__("an error inside the stream")
        self.body = body


class Reader(Protocol):
    """One answer being read. ``complete``: the API's terminal event has come; ``closed``: nothing more can follow.
    ``skipped`` counts events that could not be read."""

    complete: bool
    closed: bool
    skipped: int

    def read(self, name: str, data: Any) -> Iterable[Delta]:
        """The output in one event. Raises ``InStream`` for an error of the vendor."""

    def finish(self) -> Finish | None:
        """The end of the answer, or None where its end was never proven."""


class Calls:
    """Numbers the tool calls of an answer. Fragments belong together by index, else by id, else to the last call;
    one index with a second id is a second call (some vendors number every call 0)."""

    def __init__(self) -> None:
        self._by_key: dict[object, int] = {}
        self._ids: list[str] = []
        self._named: list[bool] = []
        self.count = 0

    def piece(self, text: str, *, index: object = None, id: str | None = None, name: str | None = None) -> Delta:
        slot = self._slot(index, id, name)
        fresh = not self._ids[slot] and bool(id)
        if fresh and id:
            self._ids[slot] = id
            self._by_key[("id", id)] = slot
        first_name = bool(name) and not self._named[slot]
        self._named[slot] = self._named[slot] or bool(name)
        return Delta(kind="tool", text=text, index=slot, id=id if fresh else None, name=name if first_name else None)

    def _slot(self, index: object, id: str | None, name: str | None) -> int:
        if id and ("id", id) in self._by_key:
            return self._by_key[("id", id)]
        if index is not None:
            slot = self._by_key.get(("index", index))
            taken = slot is not None and id and self._ids[slot]
            return slot if slot is not None and not taken else self._new(("index", index))
        starts = id or (name and (not self._named or self._named[-1]))
        return self.count - 1 if self.count and not starts else self._new(None)

    def _new(self, key: object) -> int:
        slot = self.count
        self.count += 1
        self._ids.append("")
        self._named.append(False)
        if key is not None:
            self._by_key[key] = slot
        return slot


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: object) -> int:
    """A count as vendors send it; 0 for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list, whatever else a vendor put there."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def arguments(value: object) -> str:
    """Tool arguments as the string a caller expects; some vendors send the object itself."""
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value).decode()
    return text(value)


def is_error(data: object) -> bool:
    """Whether an event is an error by any of the shapes vendors use: nested, flat, or a list of one."""
    if isinstance(data, list):
        return any(is_error(item) for item in data)
    if not isinstance(data, dict):
        return False
    return bool(data.get("error")) or data.get("type") == "error" or data.get("object") == "error"


def proven(usage: Usage | None, *, pieces: int) -> bool:
    """Whether nothing was lost although an event could not be read: the vendor counts no more output tokens than there
    were pieces of output, and a piece is at least one token."""
    return usage is not None and 0 < usage.output_tokens <= pieces
