"""One call of a vendor, made and collected. It knows no wire and no fault."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from routekit.core.chat import Delta, Event, Finish, Message, Opened, Request
from routekit.core.config import Provider
from routekit.core.faults import Fault, VendorFault
from routekit.credentials import Secret
from routekit.vendors import Vendor, VendorCall, vendor_for

APIS = ("openai-chat", "openai-responses", "anthropic-messages")
KEY = "sk-canary-0123456789"


@dataclass
class Got:
    events: list[Event] = field(default_factory=list)
    fault: Fault | None = None
    alive: int = 0

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Delta) and event.kind == "text")

    @property
    def finish(self) -> Finish:
        found = self.events[-1] if self.events else None
        assert isinstance(found, Finish), (found, self.fault)
        return found

    @property
    def opened(self) -> Opened:
        assert isinstance(self.events[0], Opened)
        return self.events[0]

    @property
    def outcome(self) -> str:
        """One word: the kind of the fault, or ``ok``."""
        return self.fault.kind if self.fault else ("ok" if isinstance(self.events[-1], Finish) else "no end")

    def tools(self) -> dict[int, tuple[str | None, str | None, str]]:
        calls: dict[int, tuple[str | None, str | None, str]] = {}
        for event in self.events:
            if isinstance(event, Delta) and event.kind == "tool":
                id, name, arguments = calls.get(event.index, (None, None, ""))
                calls[event.index] = (event.id or id, event.name or name, arguments + event.text)
        return calls


def request(*messages: Message, **more: Any) -> Request:
    return Request(messages=messages or (Message(role="user", content="hi"),), **more)


def make_call(
    api: str = "openai-chat",
    url: str = "http://127.0.0.1:1/v1",
    *,
    model: str = "m",
    ask: Request | None = None,
    secret: str | None = KEY,
    provider: Mapping[str, Any] | None = None,
    alive: Any = lambda: None,
    **more: Any,
) -> VendorCall:
    settings = {"id": "p", "api": api, "base_url": url, "key": "env:KEY", **(provider or {})}
    return VendorCall(
        provider=Provider(**settings),
        model=model,
        request=ask or request(),
        secret=None if secret is None else Secret(secret),
        connect=more.pop("connect", 10.0),
        alive=alive,
        **more,
    )


def new_vendor(api: str) -> Vendor:
    """A vendor that gives up sooner on bodies that hang, so that tests need not wait."""
    return vendor_for(api, body_seconds=0.2, linger=0.2)


async def collect(vendor: Vendor, call: VendorCall, got: Got) -> Got:
    try:
        async with aclosing(vendor.stream(call)) as events:
            async for event in events:
                got.events.append(event)
    except VendorFault as error:
        if error.__cause__ or error.__context__:
            raise AssertionError("a fault carries an exception, and that may carry a key") from error
        got.fault = error.fault
    return got


def ask(api: str, url: str, model: str = "m", *, within: float = 10.0, **more: Any) -> Got:
    """Make one call with a vendor of its own, and never wait longer than ``within``."""
    got = Got()

    def alive() -> None:
        got.alive += 1

    async def run() -> Got:
        vendor = new_vendor(api)
        try:
            async with asyncio.timeout(within):
                return await collect(vendor, make_call(api, url, model=model, alive=alive, **more), got)
        finally:
            await vendor.close()

    return asyncio.run(run())
