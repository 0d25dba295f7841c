"""The seam to the vendors: what a vendor module is given, what it gives back. It loads no SDK; each module does that
itself, when its first call is made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import msgspec

from ..core.chat import Event, Request
from ..core.config import Provider
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
    #: parameters this target has refused in this request; they are left out
    without: frozenset[str] = frozenset()


class Vendor(Protocol):
    """One wire API. ``stream`` yields at most one ``Opened`` first, then ``Delta``s, and ends with exactly one
    ``Finish``, and only if the API's own terminal event came; anything else raises ``VendorFault``. It never retries,
    never follows a redirect, never waits longer than the transport, and closes the connection when it is closed or
    cancelled."""

    def stream(self, call: VendorCall) -> AsyncIterator[Event]: ...

    def load(self) -> None:
        """Import what the first call will need. Blocking; may be called in a daemon thread, any number of times."""

    async def close(self) -> None: ...
