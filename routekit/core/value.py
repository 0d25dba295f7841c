"""The base of every value in routekit: frozen, keyword-only, cheap to build. It owns no behaviour of its own."""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec


class _KeywordOnly(msgspec.StructMeta):
    # msgspec hands "frozen" down to subclasses, but "kw_only" counts for one class's own fields alone.
    def __new__(mcls, name: str, bases: tuple[type, ...], space: dict[str, Any], **config: Any) -> Any:
        config.setdefault("kw_only", True)
        return super().__new__(mcls, name, bases, space, **config)


# A type checker does not see what the metaclass and msgspec do unless it is told.
@dataclass_transform(frozen_default=True, kw_only_default=True)
class Value(msgspec.Struct, metaclass=_KeywordOnly, frozen=True, omit_defaults=True):
    """An immutable record. ``msgspec.structs.replace`` makes a changed copy; JSON leaves defaults out."""


#: what reading a stored document raises that is damaged, or that somebody else has written
DAMAGED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
