"""A provider's models as its vendor lists them, asked over the official SDK's raw access. It keeps nothing, and a
failure here says nothing of anybody's health."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from ..core.chat import Request
from ..core.config import ModelInfo, Price, Provider
from ..core.faults import Fault, VendorFault
from ..core.value import Value
from ..credentials import Secret
from . import VendorCall, sse, vendor_for
from .catalog import Listing
from .sdk import SdkVendor, judged, leaked, place_of, pool_for, request_headers, scrubbed

if TYPE_CHECKING:
    import httpx2

#: how long one address may take
SECONDS = 5.0
#: how many pages are read, and how much is asked for in one
PAGES = 50
PER_PAGE = 1000
#: what a server says that has no such page
ABSENT = frozenset({404, 405})


class Page(Value):
    """One page of a listing; ``after`` is the query that asks for the next one, empty at the end."""

    models: tuple[str, ...]
    info: Mapping[str, ModelInfo]
    after: Mapping[str, str] = {}
    left_out: int = 0


class _Elsewhere(Exception):
    """There is no listing at this address; there may be one at the next."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


async def fetch(
    provider: Provider, *, secret: Secret | None, headers: Mapping[str, str], seconds: float = SECONDS
) -> Listing:
    """The models a provider lists. Raises ``VendorFault``: as the first of its addresses failed where all did."""
    call = VendorCall(
        provider=provider,
        model="",
        request=Request(messages=()),
        secret=secret,
        connect=seconds,
        alive=lambda: None,
        headers=headers,
    )
    fault: Fault
    try:
        return await _asked(call, seconds)
    except VendorFault as raised:
        fault = raised.fault
    except Exception as error:
        fault = leaked(error, answered=False)
    # Outside of the handlers: there it would carry the SDK's exception as its context, and that one the key.
    raise VendorFault(scrubbed(fault, call)) from None


async def _asked(call: VendorCall, seconds: float) -> Listing:
    vendor = vendor_for(call.provider.api)
    assert isinstance(vendor, SdkVendor), "only vendors over an SDK list their models"
    vendor.load()
    tried = addresses(call.provider.base_url, api=call.provider.api)
    pool = pool_for(call, place_of(call.provider.base_url), seconds)
    # Its own bound is for pages where a stream should be; a listing may be far longer, and ends with its seconds.
    pool.event_hooks = {}
    first: Fault | None = None
    try:
        for address in tried:
            try:
                return await _Source(vendor, call, pool, seconds).read(address)
            except _Elsewhere as missed:
                first = first or missed.fault
    finally:
        await pool.aclose()
    assert first is not None, "a provider has an address to ask"
    raise VendorFault(_nowhere(first, tried))


def _nowhere(first: Fault, tried: tuple[str, ...]) -> Fault:
    said, kind = first.message or "no answer", first.kind
    if first.status in ABSENT:
        # Judged as an answer to a question, it would mean that a model is gone.
        said, kind = f"the server has no listing of its models (status {first.status})", "unsupported"
    elsewhere = f"; nor at {', '.join(tried[1:])}" if len(tried) > 1 else ""
    return msgspec.structs.replace(first, kind=kind, message=f"{said} at {tried[0]}{elsewhere}")


class _Source:
    """One provider's listing, page by page."""

    def __init__(self, vendor: SdkVendor, call: VendorCall, pool: httpx2.AsyncClient, seconds: float) -> None:
        self.vendor, self.call, self.pool, self.seconds = vendor, call, pool, seconds

    async def read(self, address: str) -> Listing:
        pages: list[Page] = []
        query: Mapping[str, str] = {"limit": str(PER_PAGE)} if self.vendor.sdk == "anthropic" else {}
        asked: list[Mapping[str, str]] = []
        while len(pages) < PAGES and query not in asked:
            asked.append(query)
            page = read_page(await self._body(address, query))
            pages.append(page)
            if not page.after:
                break
            query = {**query, **page.after}
        models = tuple(dict.fromkeys(model for page in pages for model in page.models))
        if not models:
            raise _Elsewhere(Fault(kind="unknown", message="the listing is empty", status=200, answered=True))
        info = {model: said for page in reversed(pages) for model, said in page.info.items()}
        return Listing(models=models, info=info, address=address, left_out=sum(page.left_out for page in pages))

    async def _body(self, address: str, query: Mapping[str, str]) -> Any:
        response = await self._response(address, query)
        body: Any = None
        text = ""
        with suppress(Exception):
            # whatever cannot be decoded says nothing
            text = response.content.decode("utf-8", "replace")
            body = sse.parse(response.content)
        if response.status_code == 200 and _is_listing(body):
            return body
        fault = judged(
            self.call,
            status=response.status_code,
            body=body if body is not None else text,
            headers=dict(response.headers),
            in_stream=False,
        )
        spoken = isinstance(body, dict) and "error" in body
        if response.status_code in ABSENT or (response.status_code == 200 and not spoken):
            said = fault if response.status_code in ABSENT else _no_listing()
            raise _Elsewhere(said)
        raise VendorFault(fault)

    async def _response(self, address: str, query: Mapping[str, str]) -> httpx2.Response:
        import httpx2

        try:
            async with asyncio.timeout(self.seconds):
                return await self._get(address, query)
        except TimeoutError:
            message = f"no listing within {self.seconds:g}s from {address}"
            raise VendorFault(Fault(kind="timeout", message=message)) from None
        except Exception as error:
            answer = getattr(error, "response", None)
            if isinstance(answer, httpx2.Response):
                return answer
            fault = leaked(error, answered=False)
        raise _Elsewhere(fault) if fault.kind == "transient" else VendorFault(fault)

    async def _get(self, address: str, query: Mapping[str, str]) -> httpx2.Response:
        import sys

        import httpx2

        client = self.vendor.sdk_client(self.call, self.pool)
        # Else the SDK asks a worker thread for it: a thread that an exit would wait for.
        client._platform = "Unknown"
        omit = sys.modules[self.vendor.sdk].omit
        headers = {**request_headers(self.call, omit, self.vendor.own_headers(self.call, omit)), **_ACCEPT}
        options = {"headers": headers, "params": dict(query)}
        response: httpx2.Response = await client.get(address, cast_to=httpx2.Response, options=options)
        return response


_ACCEPT = {"Accept": "application/json"}


def _no_listing() -> Fault:
    return Fault(kind="unknown", message="what came is not a listing of models", status=200, answered=True)


# --- where to ask -----------------------------------------------------------------------------------------------------

#: what other vendors' Anthropic-style servers put behind the address of their own; their listing is often beside it
_COMPATIBLE = re.compile(r"(?:/(?:api|apps))?/(?:anthropic|claudecode|claude|coding|step_plan)$")
_VERSIONED = re.compile(r"/v\d+(?:alpha|beta)?\d*$")
#: an address that names the page to be called, instead of the place below which all pages are
_PAGE = re.compile(r"/chat/completions$|/v1/(?:responses|messages)$")


def addresses(base_url: str, *, api: str) -> tuple[str, ...]:
    """Where a provider's listing may be, likeliest first (behaviours.md 3a.8)."""
    base = base_url.rstrip("/")
    if base.endswith("/models"):
        return (base,)
    if _PAGE.search(base):
        return (_beside_page(base),)
    if api != "anthropic-messages":
        return (f"{base}/models",) if _VERSIONED.search(base) else (f"{base}/models", f"{base}/v1/models")
    if _VERSIONED.search(base):
        return (f"{base}/models",)
    root = _COMPATIBLE.sub("", base)
    beside = (f"{root}/v1/models", f"{root}/models") if root != base else (f"{base}/models",)
    return (f"{base}/v1/models", *beside)


def _beside_page(url: str) -> str:
    """The listing next to a page named in full: below its version, else below its parent folder."""
    before, version, _ = url.partition("/v1/")
    if version:
        return f"{before}/v1/models"
    return f"{url.rpartition('/')[0]}/v1/models"


# --- what a listing says ----------------------------------------------------------------------------------------------

_CONTEXT = (
    "max_input_tokens", "context_length", "context_window", "max_context_length", "max_model_len", "inputTokenLimit",
)  # fmt: skip
_OUTPUT = ("max_tokens", "max_completion_tokens", "max_output_tokens", "outputTokenLimit")
_CAPABILITIES: Mapping[str, tuple[str, ...]] = {
    "images": ("image_input", "vision"),
    "pdf": ("pdf_input",),
    "tools": ("function_calling",),
}
#: levels of effort in their order; what a vendor says of each decides which exist
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
MILLION = 1_000_000


def _is_listing(body: Any) -> bool:
    if isinstance(body, dict):
        return _is_list(body, "data") or _is_list(body, "models")
    return isinstance(body, list)


def _is_list(body: Mapping[str, Any], key: str) -> bool:
    return key in body and (body[key] is None or isinstance(body[key], list))


def read_page(body: Any) -> Page:
    """Any shape of listing: ``data[].id``, else ``models[].name``, else a bare list of ids or of objects. A ``data`` of
    null is an empty one."""
    found: dict[str, ModelInfo] = {}
    left_out = 0
    for entry in _entries(body):
        name = _name(entry)
        if name is None:
            left_out += 1
        elif name not in found:
            found[name] = _info(entry) if isinstance(entry, dict) else ModelInfo()
    said = {name: info for name, info in found.items() if info != ModelInfo()}
    return Page(models=tuple(found), info=said, after=_after(body), left_out=left_out)


def _entries(body: Any) -> list[Any]:
    if isinstance(body, dict):
        body = body.get("data") if _is_list(body, "data") else body.get("models")
    return body if isinstance(body, list) else []


def _name(entry: Any) -> str | None:
    """A model's id as references hold it; ``None`` for what no reference can hold."""
    said = entry
    if isinstance(entry, dict):
        said = next((entry[key] for key in ("id", "name", "model") if isinstance(entry.get(key), str)), None)
    if not isinstance(said, str):
        return None
    name = said.removeprefix("models/")
    fits = 0 < len(name) <= 256 and name.isprintable() and not set(name) & set(" *#")
    return name if fits else None


def _after(body: Any) -> Mapping[str, str]:
    if not isinstance(body, dict):
        return {}
    last, token = body.get("last_id"), body.get("nextPageToken")
    if body.get("has_more") is True and isinstance(last, str) and last:
        return {"after_id": last}
    return {"pageToken": token} if isinstance(token, str) and token else {}


def _info(entry: Mapping[str, Any]) -> ModelInfo:
    capabilities = _table(entry, "capabilities")
    top = _table(entry, "top_provider")
    said: dict[str, Any] = {field: _able(capabilities, names) for field, names in _CAPABILITIES.items()}
    efforts = _efforts(capabilities)
    said |= {key: value for key, value in _openrouter(entry).items() if value is not None}
    said["reasons"] = said.get("reasons", _reasons(capabilities, efforts))
    return ModelInfo(
        context=_count(entry, _CONTEXT),
        output=_count(entry, _OUTPUT) or _count(top, _OUTPUT),
        price=_price(_table(entry, "pricing")),
        efforts=efforts,
        **said,
    )


def _table(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = entry.get(key)
    return found if isinstance(found, dict) else {}


def _count(entry: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    values = (entry.get(name) for name in names)
    return next((value for value in values if type(value) is int and 0 < value < 10**10), None)


def _able(capabilities: Mapping[str, Any], names: tuple[str, ...]) -> bool | None:
    return next((found for name in names if (found := _supported(capabilities.get(name))) is not None), None)


def _supported(said: Any) -> bool | None:
    """``true``, or ``{"supported": true}``."""
    said = said.get("supported") if isinstance(said, dict) else said
    return said if isinstance(said, bool) else None


def _efforts(capabilities: Mapping[str, Any]) -> tuple[str, ...] | None:
    effort = _table(capabilities, "effort")
    if _supported(effort) is None:
        return None
    return tuple(level for level in _EFFORTS if _supported(effort.get(level)) and _supported(effort))


def _reasons(capabilities: Mapping[str, Any], efforts: tuple[str, ...] | None) -> bool | None:
    stated = [_supported(capabilities.get(name)) for name in ("thinking", "reasoning")]
    stated += [bool(efforts)] if efforts is not None else []
    known = [one for one in stated if one is not None]
    return any(known) if known else None


def _openrouter(entry: Mapping[str, Any]) -> dict[str, bool | None]:
    parameters, modalities = entry.get("supported_parameters"), _table(entry, "architecture").get("input_modalities")
    said: dict[str, bool | None] = {}
    if isinstance(parameters, list):
        said |= {"reasons": "reasoning" in parameters, "tools": "tools" in parameters}
    if isinstance(modalities, list):
        # a file it does not take itself may still be read for it, on the way
        said |= {"images": "image" in modalities, "pdf": True if "file" in modalities else None}
    return said


def _price(pricing: Mapping[str, Any]) -> Price | None:
    """US dollars per million tokens, from a price per token (``prompt``, ``completion``) or per million (``input``,
    ``output``). A negative one means that it depends."""
    rows = (("prompt", "completion", "input_cache_read", MILLION), ("input", "output", "cached_input", 1))
    for first, second, third, scale in rows:
        paid, made = _money(pricing.get(first), scale), _money(pricing.get(second), scale)
        if paid is not None and made is not None:
            return Price(input=paid, output=made, cached=_money(pricing.get(third), scale))
    return None


def _money(said: Any, scale: int) -> float | None:
    if isinstance(said, bool) or not isinstance(said, int | float | str):
        return None
    try:
        value = float(said) * scale
    except ValueError:
        return None
    return round(value, 6) if 0 <= value < 10**6 else None
