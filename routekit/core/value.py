"""The base of every value in routekit: frozen, keyword-only, cheap to build. It owns no behaviour of its own."""

from __future__ import annotations

from typing import dataclass_transform

import msgspec


# msgspec hands these two settings down to subclasses, which a type checker does not see unless it is told.
@dataclass_transform(frozen_default=True, kw_only_default=True)
class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An immutable record. ``msgspec.structs.replace`` makes a changed copy; JSON leaves defaults out."""
