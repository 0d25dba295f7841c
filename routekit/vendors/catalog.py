"""What is known of each provider's models: the listing kept from its vendor, and the shipped table where it is silent.

It asks no vendor (``listing`` does), loads no SDK, and reads each file only when somebody wants to know.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from ..core.config import Catalog, ModelInfo, Price, Provider
from ..core.ids import is_glob, matches
from ..core.value import Value
from ..credentials.ledger import Locked, host_of, write_private
from ..files import read_bounded
from .presets import PRESETS

#: the table of windows and prices that comes with routekit
SHIPPED = Path(__file__).parent.parent / "data" / "models.json"
#: listings kept per provider id: profiles may give one id several accounts
ACCOUNTS = 4
#: what vendors put behind a model's name for one of its snapshots
_SNAPSHOT = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|\d{4}|\d{3}|latest)$")


class Listing(Value):
    """What a vendor said it offers, in its order. ``address`` is where it said so; ``left_out`` counts names that no
    reference can hold."""

    models: tuple[str, ...]
    info: Mapping[str, ModelInfo] = {}
    address: str = ""
    left_out: int = 0


class Kept(Value):
    """A listing as it is kept; its ``info`` stays JSON until a model of it is wanted."""

    fetched_at: float
    address: str
    models: tuple[str, ...]
    info: msgspec.Raw = msgspec.Raw(b"{}")


class Row(Value, array_like=True):
    """One model of a table of prices: US dollars per million tokens. ``marks``: ``r`` reasons, ``n`` does not."""

    context: int | None = None
    output: int | None = None
    input: float | None = None
    out: float | None = None
    cached: float | None = None
    marks: str = ""


class Table(Value):
    """Windows and prices by vendor and model (in lower case), made on ``date`` from that ``version`` of ``source``.
    Each vendor's rows stay JSON until that vendor is wanted."""

    source: str = ""
    version: str = ""
    date: str = ""
    vendors: Mapping[str, msgspec.Raw] = {}


class _Book(Value):
    """The cache file. Keys are ``provider-id account``; ``table`` is a newer table than the shipped one, if any."""

    listings: Mapping[str, Kept] = {}
    table: Table = Table()


class Catalogs:
    """Every provider's catalog, over one cache file (``None``: in memory only). Files are read when first needed, and
    the cache again when another process has replaced it."""

    def __init__(self, path: Path | None, *, shipped: Path = SHIPPED) -> None:
        self._path, self._shipped = path, shipped
        self._book: _Book | None = None
        self._mark: tuple[int, int] | None = None
        self._table: Table | None = None
        self._rows: dict[str, dict[str, Row]] = {}

    def of(self, provider: Provider) -> Catalog:
        """Configured before fetched before open. A configured glob also lists what the vendor's listing has for it."""
        kept = self.kept(provider)
        info = _Known(kept, lambda model: self._shipped_info(provider, model))
        listed, fetched_at = (kept.models, kept.fetched_at) if kept is not None else ((), None)
        if provider.models is not None:
            models = tuple(_expanded(provider.models, listed))
            return Catalog(kind="configured", models=models, info=info, fetched_at=fetched_at)
        kind = "fetched" if kept is not None else "open"
        return Catalog(kind=kind, models=listed, info=info, fetched_at=fetched_at)  # type: ignore[arg-type]

    def kept(self, provider: Provider) -> Kept | None:
        """The listing kept for this provider's present address and credential."""
        return self._read().listings.get(_key(provider))

    def keep(self, provider: Provider, listing: Listing, *, now: float) -> None:
        """Keep a fresh listing in place of the older one; others' stay. Raises ``StateError``."""
        info = msgspec.Raw(msgspec.json.encode(dict(listing.info)))
        kept = Kept(fetched_at=now, address=listing.address, models=listing.models, info=info)
        self._change(lambda book: msgspec.structs.replace(book, listings=_with(book.listings, _key(provider), kept)))

    def keep_table(self, table: Table) -> bool:
        """Keep a table newer than those at hand. Says whether it was."""
        if _version(table) <= _version(self._tabled()):
            return False
        self._change(lambda book: msgspec.structs.replace(book, table=table))
        return True

    def _change(self, step: Callable[[_Book], _Book]) -> None:
        if self._path is None:
            self._book = step(self._book or _Book())
        else:
            with Locked(self._path):
                write_private(self._path, msgspec.json.encode(step(read_book(self._path))) + b"\n")
            self._book = None
        self._table, self._rows = None, {}

    def _read(self) -> _Book:
        if self._path is None:
            return self._book or _Book()
        mark = _mark(self._path)
        if self._book is None or mark != self._mark:
            self._book, self._mark = read_book(self._path), mark
            self._table, self._rows = None, {}
        return self._book

    def _tabled(self) -> Table:
        if self._table is None:
            self._table = max(read_table(self._shipped), self._read().table, key=_version)
        return self._table

    def _shipped_info(self, provider: Provider, model: str) -> ModelInfo | None:
        vendor, at_home = vendor_of(provider)
        if vendor and vendor not in self._rows:
            raw = self._tabled().vendors.get(vendor)
            self._rows[vendor] = msgspec.json.decode(raw, type=dict[str, Row]) if raw else {}
        row = _row(self._rows.get(vendor, {}), model)
        return _row_info(row, priced=at_home) if row is not None else None


class _Known(Mapping[str, ModelInfo]):
    """What is known of any model, found when it is asked for: the listing's word before the table's. Iterating gives
    the listing's models only."""

    def __init__(self, kept: Kept | None, shipped: Callable[[str], ModelInfo | None]) -> None:
        self._kept, self._shipped = kept, shipped
        self._said: dict[str, ModelInfo] | None = None
        self._found: dict[str, ModelInfo | None] = {}

    def __getitem__(self, model: str) -> ModelInfo:
        if model not in self._found:
            self._found[model] = _over(self._listed().get(model), self._shipped(model))
        found = self._found[model]
        if found is None:
            raise KeyError(model)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())

    def _listed(self) -> dict[str, ModelInfo]:
        if self._said is None:
            self._said = {}
            if self._kept is not None:
                self._said = _decoded(self._kept.info)
        return self._said


def _decoded(raw: msgspec.Raw) -> dict[str, ModelInfo]:
    try:
        return msgspec.json.decode(raw, type=dict[str, ModelInfo])
    except (msgspec.MsgspecError, RecursionError):
        return {}


def _over(first: ModelInfo | None, second: ModelInfo | None) -> ModelInfo | None:
    """Field by field, the first that says anything."""
    if first is None or second is None:
        return first or second
    said = {
        field: value
        for info in (second, first)
        for field, value in msgspec.structs.asdict(info).items()
        if value is not None and value != {}
    }
    return ModelInfo(**said)


# --- the cache file ---------------------------------------------------------------------------------------------------


def read_book(path: Path) -> _Book:
    """What is kept. A missing or damaged file is an empty one: everything in it can be fetched again."""
    try:
        return msgspec.json.decode(read_bounded(path), type=_Book)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return _Book()


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino)


def account(provider: Provider) -> str:
    """A fingerprint of where a listing comes from: another address or another credential may offer other models."""
    said = (provider.api, provider.base_url, provider.credential, provider.auth, sorted(provider.headers.items()))
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:16]


def _key(provider: Provider) -> str:
    return f"{provider.id} {account(provider)}"


def _with(listings: Mapping[str, Kept], key: str, kept: Kept) -> dict[str, Kept]:
    changed = {**listings, key: kept}
    mine = [one for one in changed if one.partition(" ")[0] == key.partition(" ")[0]]
    mine.sort(key=lambda one: changed[one].fetched_at)
    for old in mine[:-ACCOUNTS]:
        del changed[old]
    return changed


def _expanded(entries: tuple[str, ...], listed: tuple[str, ...]) -> Iterator[str]:
    """Configured entries in their order, each glob after the listed models that fit it; the glob stays, since a model
    may be newer than the listing."""
    seen: set[str] = set()
    for entry in entries:
        fitting = [model for model in listed if matches(entry, model)] if is_glob(entry) else []
        for model in (*fitting, entry):
            if model not in seen:
                seen.add(model)
                yield model


# --- the table --------------------------------------------------------------------------------------------------------


def read_table(path: Path) -> Table:
    return msgspec.json.decode(path.read_bytes(), type=Table)


def _version(table: Table) -> tuple[int, ...]:
    return tuple(int(part) for part in table.version.split(".") if part.isdigit())


def vendor_of(provider: Provider) -> tuple[str, bool]:
    """Whose models these are (a name in the table, empty for nobody's), and whether that vendor's own prices hold: the
    models of a vendor behind another address have its windows, not its bill."""
    host = host_of(provider.base_url) if "://" in provider.base_url else ""
    for row in PRESETS.values():
        if row.base_url and host == host_of(row.base_url):
            return _family(row.name), True
    named = PRESETS.get(provider.preset or "")
    return (_family(named.name), not named.base_url) if named is not None else ("", False)


def _family(preset: str) -> str:
    name = preset.removesuffix("-anthropic")
    hosted = {"azure": "openai", "azure-anthropic": "anthropic"}
    return hosted.get(preset, name)


def _row(rows: Mapping[str, Row], model: str) -> Row | None:
    name = model.lower()
    return rows.get(name) or rows.get(_SNAPSHOT.sub("", name))


def _row_info(row: Row, *, priced: bool) -> ModelInfo:
    price = None
    if priced and row.input is not None and row.out is not None:
        price = Price(input=row.input, output=row.out, cached=row.cached)
    reasons = {"r": True, "n": False}.get(row.marks)
    return ModelInfo(context=row.context, output=row.output, reasons=reasons, price=price)
