"""Server-sent events, from the bytes of a response to whole events. It reads no network and judges no content."""

from __future__ import annotations

import re

import msgspec

#: an event longer than this is no event of any vendor; holding on to it would only fill the memory
LONGEST = 32 * 1024 * 1024

_END = re.compile(rb"\r\n|\n|\r")


class TooLong(Exception):
    """The vendor sent an event that never ends."""


class Event(msgspec.Struct, frozen=True):
    name: str
    data: bytes


class Decoder:
    """Bytes in, in pieces of any size; whole events out. ``end`` gives the last event even where its blank line never
    came (the SDKs lose it)."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[Event]:
        self._size += len(chunk)
        if self._size > LONGEST:
            raise TooLong
        if self._rest and not self._rest[-1].endswith(b"\r") and not _END.search(chunk):
            # Joined once, when its end has come: joining every piece makes a long line cost its square.
            self._rest.append(chunk)
            return []
        whole = b"".join((*self._rest, chunk))
        # A '\r' at the very end may be half of '\r\n': it waits for the next piece.
        held = whole[-1:] if whole.endswith(b"\r") else b""
        *lines, rest = _END.split(whole[: len(whole) - len(held)])
        self._rest = [rest + held]
        return [event for line in lines if (event := self._line(line)) is not None]

    def end(self) -> list[Event]:
        rest = b"".join(self._rest).rstrip(b"\r")
        self._rest = []
        return [event for line in (rest, b"") if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> Event | None:
        event = Event(self._name, b"\n".join(self._data)) if self._data else None
        self._name, self._data, self._size = "", [], 0
        return event


def parse(data: bytes) -> object:
    """The JSON of an event. Raises ``ValueError`` for anything else, however it is broken."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise ValueError("not JSON") from None
