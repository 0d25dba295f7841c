"""Names: ids, references, targets and globs — how they are read, printed and matched. It resolves nothing."""

from __future__ import annotations

import re
from functools import lru_cache

from ..errors import UsageError
from .value import Value

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
ID_RULE = "a letter or digit, then up to 127 of letters, digits, '.', '_', '-'"
#: the reserved provider name under which every route can be referenced (``route/NAME``)
ROUTE = "route"


def is_id(text: str) -> bool:
    return ID.fullmatch(text) is not None


class Reference(Value):
    """What a person typed for a model: ``NAME[#variant]`` (a route or alias: ``provider`` is None) or
    ``provider/model[#variant]``. ``route/NAME`` reads as the bare name with ``route_only`` set."""

    provider: str | None = None
    model: str
    variant: str | None = None
    route_only: bool = False

    def __str__(self) -> str:
        head = f"{self.provider}/{self.model}" if self.provider else self.model
        head = f"{ROUTE}/{head}" if self.route_only else head
        return f"{head}#{self.variant}" if self.variant else head


def parse_reference(text: str) -> Reference:
    """Read a reference. The first ``/`` splits (model ids may hold more), the last ``#`` starts the variant.
    Raises ``UsageError`` for an empty part or a name no id can have."""
    body, mark, variant = text.strip().rpartition("#")
    if not mark:
        body, variant = text.strip(), ""
    provider, slash, model = body.partition("/")
    if not body or (mark and not variant) or (slash and not (provider and model)):
        raise UsageError(f"'{text}' is not a model reference: write NAME or provider/model, either with #variant")
    if not is_id(provider):
        raise UsageError(f"'{text}' is not a model reference: '{provider}' is no id ({ID_RULE})")
    if not slash:
        return Reference(model=provider, variant=variant or None)
    if provider == ROUTE:
        return Reference(model=model, variant=variant or None, route_only=True)
    return Reference(provider=provider, model=model, variant=variant or None)


def is_glob(text: str) -> bool:
    return "*" in text


@lru_cache(maxsize=512)
def _glob(pattern: str) -> re.Pattern[str]:
    # fnmatch would give '?' and '[' a meaning and fold case by platform; only '*' is special here.
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)


def matches(pattern: str, text: str) -> bool:
    """Whether ``text`` fits ``pattern``: anchored, case-sensitive, ``*`` the only wildcard."""
    if "*" not in pattern:
        return pattern == text
    return _glob(pattern).fullmatch(text) is not None
