"""The base of every value in routekit: frozen, keyword-only, cheap to build. It owns no behaviour of its own."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An immutable record. ``msgspec.structs.replace`` makes a changed copy; JSON leaves defaults out."""
