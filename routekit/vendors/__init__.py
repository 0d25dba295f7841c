"""The seam to the vendors: what a vendor module is given, what it gives back. It loads no SDK; each module does that
itself, when its first call is made."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Protocol

import msgspec

from ..core.chat import Event, Request
from ..core.config import ModelInfo, Provider
from ..credentials import Secret


class VendorCall(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one attempt needs. ``params`` are the variant's and the provider's body parameters, already merged;
    ``headers`` the provider's extra headers, already resolved; ``connect`` is in seconds. ``alive`` must be called for
    every piece of the response that arrives, pings included: it feeds the stall limit, which the caller keeps."""

    provider: Provider
    model: str
    request: Request
    secret: Secret | None
    connect: float
    alive: Callable[[], None]
    params: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
    #: what is known of the model: its largest output, for APIs that must be told one
    info: ModelInfo = ModelInfo()
    #: parameters this target has refused in this request; they are left out
    without: frozenset[str] = frozenset()


class Vendor(Protocol):
    """One wire API. ``stream`` yields at most one ``Opened`` first, then ``Delta``s, and ends with exactly one
    ``Finish``, and only if the API's own terminal event came; anything else raises ``VendorFault``. It never retries,
    never follows a redirect, never waits longer than the transport, and closes the connection when it is closed or
    cancelled."""

    def stream(self, call: VendorCall) -> AsyncGenerator[Event, None]: ...

    def load(self) -> None:
        """Import what the first call will need. Blocking; may be called in a daemon thread, any number of times."""

    async def close(self) -> None: ...


#: wire API → the module below this package whose ``Vendor`` speaks it
MODULES: Mapping[str, str] = {
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic-messages": "anthropic_messages",
    "scripted": "scripted",
}


def vendor_for(api: str, **settings: Any) -> Vendor:
    """A vendor of one wire API. Cheap: no SDK is imported before ``load`` or the first call. ``settings`` go to the
    module's ``Vendor`` (``pause_gc=False`` inside a kernel, whose own threads need collections). Raises ``KeyError``
    for an API without a row."""
    from importlib import import_module

    vendor: Vendor = import_module(f".{MODULES[api]}", __name__).Vendor(**settings)
    return vendor
