"""What the vendor modules over an official SDK share: hermetic clients, one streamed call, every failure as one fault.
It knows no wire API, never retries, never follows a redirect."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from ..core.chat import Delta, Event, Opened
from ..core.faults import Fault, VendorFault
from ..credentials import Secret
from . import VendorCall, limits, sse
from .classify import UNCONNECTED, classify, from_exception_name
from .reading import InStream, Reader
from .translate import Translated

if TYPE_CHECKING:
    import httpx2

#: how much of an answer that is no stream is read, and how long for: enough to know what it is
BODY_BYTES = 64 * 1024
BODY_SECONDS = 3.0
#: how long a finished answer waits for what may still follow it (usage, ``[DONE]``, the end of the body)
LINGER_SECONDS = 1.0
DRAIN_SECONDS = 0.1

#: faults that, once output has begun, mean that the answer was cut; others keep their own name and consequences
_CUT = frozenset({"transient", "timeout", "client_error", "unknown"})
#: a broken event that held output: what it held is lost, and no count of pieces can prove otherwise
_OUTPUT_MARKS = (b'"delta"', b'"content"', b'"text"', b'"arguments"', b'"partial_json"')


class SdkVendor(ABC):
    """One wire API over its vendor's SDK. An object holds one connection pool per (proxy, place) of the running loop;
    ``close`` it on that loop. ``transport`` takes the place of the network: no connection is made then."""

    api: ClassVar[str]
    sdk: ClassVar[str]
    #: the path below ``base_url``, as the SDK appends it
    path: ClassVar[str]

    def __init__(
        self,
        *,
        pause_gc: bool = True,
        body_seconds: float = BODY_SECONDS,
        linger: float = LINGER_SECONDS,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._transport = transport
        self._pause_gc = pause_gc
        self._body_seconds = body_seconds
        self._linger = linger
        self._pools: dict[tuple[str | None, str], httpx2.AsyncClient] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    @abstractmethod
    def translate(self, call: VendorCall) -> Translated: ...

    def own_headers(self, call: VendorCall, omit: Any) -> Mapping[str, Any]:
        """Headers of this API, beside the key's; ``omit`` as a value leaves one out."""
        return {}

    @abstractmethod
    def reader(self, call: VendorCall, dropped: tuple[str, ...]) -> Reader: ...

    @abstractmethod
    def sdk_client(self, call: VendorCall, pool: httpx2.AsyncClient) -> Any:
        """The SDK's async client for this one call: a tenth of a millisecond on a shared pool, and no secret outlives
        its call."""

    def load(self) -> None:
        # A collection in the middle of importing thousands of classes frees nothing and costs a seventh of the time.
        paused = self._pause_gc and gc.isenabled()
        if paused:
            gc.disable()
        try:
            __import__(self.sdk)
        finally:
            if paused:
                gc.enable()

    async def close(self) -> None:
        pools, self._pools = self._pools, {}
        # connections of another loop cannot be closed from here; that loop's end has closed them
        for pool in pools.values() if self._loop is asyncio.get_running_loop() else ():
            await pool.aclose()

    async def stream(self, call: VendorCall) -> AsyncGenerator[Event, None]:
        progress = _Progress()
        fault: Fault | None = None
        try:
            async with aclosing(self._events(call, progress)) as events:
                async for event in events:
                    yield event
        except VendorFault as raised:
            fault = raised.fault
        except InStream as error:
            headers = {} if progress.headers is None else progress.headers
            fault = judged(call, status=200, body=error.body, headers=headers, in_stream=True)
        except Exception as error:
            # an SDK raises and leaks anything; all of it becomes one fault
            fault = leaked(error, answered=progress.headers is not None)
        # Raised outside of the handlers: there it would carry the SDK's exception as its context, and that one the key.
        if fault is not None:
            raise VendorFault(scrubbed(_as_seen(fault, progress), call)) from None

    async def _events(self, call: VendorCall, progress: _Progress) -> AsyncGenerator[Event, None]:
        translated, held = _translated(self, call), list[Delta]()
        response = await self._send(call, translated)
        try:
            call.alive()
            progress.headers = dict(response.headers)
            opened = _opened(response.headers)
            yield opened
            if not _is_stream(response):
                raise VendorFault(await _no_answer(call, response))
            reader = self.reader(call, translated.dropped)
            async with aclosing(self._deltas(call, response, reader)) as deltas:
                async for delta in deltas:
                    if reader.skipped:
                        # Perhaps something is missing before it: shown only once the end has proven that nothing is.
                        held.append(delta)
                    else:
                        progress.pieces += 1
                        yield delta
            finish = reader.finish()
            if finish is None:
                raise VendorFault(Fault(kind="transient", message=_unproven(reader), status=200, answered=True))
            for delta in held:
                yield delta
            yield msgspec.structs.replace(finish, request_id=opened.request_id or finish.request_id)
        finally:
            await response.aclose()

    async def _send(self, call: VendorCall, translated: Translated) -> httpx2.Response:
        """The answer, whatever its status: the SDK raises the bad ones, and they are judged like the rest."""
        import httpx2

        client = self.sdk_client(call, self._pool(call))
        # Else the SDK asks a worker thread for it, once per client: a thread that an exit would wait for.
        client._platform = "Unknown"
        timeout = httpx2.Timeout(None, connect=call.connect or None)
        omit = sys.modules[self.sdk].omit
        headers = request_headers(call, omit, self.own_headers(call, omit))
        try:
            response: httpx2.Response = await client.post(
                self.path,
                cast_to=httpx2.Response,
                body=translated.body,
                options={"timeout": timeout, "headers": headers},
                stream=True,
                stream_cls=client._default_stream_cls,
            )
        except Exception as error:
            answer = getattr(error, "response", None)
            if not isinstance(answer, httpx2.Response):
                raise
            response = answer
        return response

    async def _deltas(self, call: VendorCall, response: httpx2.Response, reader: Reader) -> AsyncGenerator[Delta, None]:
        decoder = sse.Decoder()
        async with aclosing(self._chunks(response, reader)) as chunks:
            async for chunk in chunks:
                call.alive()
                for delta in _read(decoder.feed(chunk), reader):
                    yield delta
                if reader.closed:
                    break
            else:
                for delta in _read(decoder.end(), reader):
                    yield delta
            if reader.closed:
                await _drain(chunks)

    async def _chunks(self, response: httpx2.Response, reader: Reader) -> AsyncGenerator[bytes, None]:
        """The body. Once the answer is complete, nothing that happens to the rest of it matters any more."""
        body, now = response.aiter_bytes(), asyncio.get_running_loop().time
        end: float | None = None
        while True:
            if end is None and reader.complete:
                end = now() + self._linger
            try:
                async with asyncio.timeout_at(end):
                    chunk = await anext(body, None)
            except Exception:
                if reader.complete:
                    return
                raise
            if chunk is None:
                return
            yield chunk

    def _pool(self, call: VendorCall) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections belong to their loop; those of a loop that has ended are gone with it.
            self._loop, self._pools = loop, {}
        place = place_of(call.provider.base_url)
        key = (call.provider.proxy, place)
        if key not in self._pools:
            self._pools[key] = pool_for(call, place, self._body_seconds, transport=self._transport)
        return self._pools[key]


class _Progress:
    """How far one call has come."""

    __slots__ = ("headers", "pieces")

    def __init__(self) -> None:
        self.headers: dict[str, str] | None = None
        self.pieces = 0


# -- hermetic clients --------------------------------------------------------------------------------------------------


def ambient_headers(variable: str, omit: Any) -> dict[str, Any]:
    """The SDK client's default headers (wire.md §1.2): every header that the environment would add is left out, under
    its own spelling. Ours are said with the request, where no spelling of the environment can undo them."""
    lines = os.environ.get(variable, "").split("\n")
    return {**{line.partition(":")[0].strip(): omit for line in lines if ":" in line}, "Authorization": omit}


def request_headers(call: VendorCall, omit: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """Everything we say ourselves. ``own`` are the API's headers; nothing can replace the one with the key."""
    key = authorization(call, omit)
    taken = {name.lower() for name in key}
    extra = {name: value for name, value in call.headers.items() if name.lower() not in taken}
    return {**_ALWAYS, **own, **extra, **key}


#: said, because an environment that names them would have them left out
_ALWAYS = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}


def authorization(call: VendorCall, omit: Any) -> dict[str, Any]:
    """The one header with the key. ``Authorization`` is always said or left out on purpose: else an SDK takes one from
    the environment."""
    key, auth = _key(call.secret), call.provider.auth
    if not key or auth == "none":
        return {"Authorization": omit}
    if auth == "bearer":
        return {"Authorization": f"Bearer {key}"}
    name = auth.partition(":")[2] if auth.startswith("header:") else auth
    return {"Authorization": omit, name: key}


def _key(secret: Secret | None) -> str:
    key = secret.reveal() if secret is not None else ""
    if not key.isascii() or not key.isprintable() or key != key.strip():
        message = "the key holds a line break, a space at an end, or a character no header may hold"
        raise VendorFault(Fault(kind="setup", message=message, delivered=False))
    return key


def place_of(base_url: str) -> str:
    """Which pool an address belongs to: ``plain`` on this machine (no proxy of the environment, no TLS), ``local``
    (the same with TLS) or ``remote``."""
    import httpx2

    try:
        url = httpx2.URL(base_url)
        port = url.port or 80
    except (httpx2.InvalidURL, ValueError, TypeError):
        url, port = httpx2.URL(""), 0
    if url.scheme not in ("http", "https") or not url.host or not 0 < port < 65536:
        raise VendorFault(Fault(kind="setup", message="base_url is not the address of a web server", delivered=False))
    if not is_loopback(url.host):
        return "remote"
    return "plain" if url.scheme == "http" else "local"


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def pool_for(
    call: VendorCall, place: str, body_seconds: float, *, transport: httpx2.AsyncBaseTransport | None = None
) -> httpx2.AsyncClient:
    if transport is not None:
        return _new_pool(None, "plain", body_seconds=body_seconds, transport=transport)
    try:
        return _new_pool(call.provider.proxy, place, body_seconds=body_seconds)
    except (ValueError, ImportError) as error:
        if call.provider.proxy is None:
            raise
        message = f"no connection can be made through the proxy of this provider ({type(error).__name__})"
        raise VendorFault(Fault(kind="setup", message=message, delivered=False)) from None


def _new_pool(
    proxy: str | None, place: str, *, body_seconds: float, transport: httpx2.AsyncBaseTransport | None = None
) -> httpx2.AsyncClient:
    import ssl
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    async def bound(response: httpx2.Response) -> None:
        if not _is_stream(response) and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _bounded(response.stream, body_seconds)

    # A context without roots costs nothing and trusts nobody; loading the system's costs 30 ms.
    verify: ssl.SSLContext | bool = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if place == "plain" and not proxy else True
    return httpx2.AsyncClient(
        transport=transport,
        proxy=proxy,
        verify=verify,
        trust_env=place == "remote",
        follow_redirects=False,
        timeout=None,
        # max_parallel is the caller's to keep; a pool that makes requests wait would hide the wait from the limits
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        # one account's cookies must never reach another account of the same host
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        event_hooks={"response": [bound]},
    )


def _bounded(stream: Any, seconds: float) -> Any:
    """A body that is no stream of events, bounded in size and time, and never an exception: a 503 whose body hangs or
    is cut is a 503."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            left, body = BODY_BYTES, aiter(stream)
            with suppress(httpx2.HTTPError, TimeoutError):
                end = asyncio.get_running_loop().time() + seconds
                while left > 0:
                    async with asyncio.timeout_at(end):
                        chunk = await anext(body, None)
                    if chunk is None:
                        return
                    yield chunk[:left]
                    left -= len(chunk)

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


# -- reading -----------------------------------------------------------------------------------------------------------


def _translated(vendor: SdkVendor, call: VendorCall) -> Translated:
    try:
        return vendor.translate(call)
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        message = f"the messages or tools do not have the shape of the chat API ({type(error).__name__})"
        raise VendorFault(Fault(kind="request", message=message, delivered=False)) from None


def _is_stream(response: httpx2.Response) -> bool:
    """A server that names no type at all gets the benefit of the doubt: what is no event then is no answer."""
    kind: str = response.headers.get("content-type", "text/event-stream")
    return response.is_success and kind.lower().lstrip().startswith("text/event-stream")


def _opened(headers: Mapping[str, str]) -> Opened:
    return Opened(headers=limits.keep(headers), request_id=limits.request_id(headers))


def _read(events: list[sse.Event], reader: Reader) -> Iterator[Delta]:
    for event in events:
        if reader.closed:
            return
        data = _data(event, reader)
        if data is not None:
            yield from reader.read(event.name, data)


def _data(event: sse.Event, reader: Reader) -> object:
    stripped = event.data.strip()
    if stripped == b"[DONE]":
        return "[DONE]"
    try:
        return sse.parse(stripped)
    except ValueError:
        if event.name == "error":
            raise InStream(event.data.decode("utf-8", "replace")) from None
        if not reader.complete and stripped:
            reader.skipped += 1
            if any(mark in stripped for mark in _OUTPUT_MARKS):
                raise VendorFault(Fault(kind="transient", message=_BROKEN, status=200, answered=True)) from None
        return None


_BROKEN = "an event of the stream is not JSON, and part of the answer was in it"


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read to the end of the body where it comes at once, so that the connection can be used again."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass


# -- faults ------------------------------------------------------------------------------------------------------------


async def _no_answer(call: VendorCall, response: httpx2.Response) -> Fault:
    try:
        content = await response.aread()
    except Exception:
        # what cannot be decoded says nothing; its status still does
        content = b""
    body: Any = content.decode("utf-8", "replace")
    with suppress(ValueError):
        body = sse.parse(content)
    return judged(call, status=response.status_code, body=body, headers=dict(response.headers), in_stream=False)


def judged(call: VendorCall, *, status: int, body: Any, headers: Mapping[str, str], in_stream: bool) -> Fault:
    lowered = {name.lower(): value for name, value in headers.items()}
    return classify(
        status=status,
        body=body,
        headers=lowered,
        in_stream=in_stream,
        now=time.time(),
        quirks=call.provider.quirks,
    )


def leaked(error: Exception, *, answered: bool) -> Fault:
    """The fault an exception stands for, by the names of its classes and its causes'; of the texts only the innermost
    says anything."""
    names: list[str] = []
    text = ""
    seen: BaseException | None = error
    while seen is not None and len(names) < 64:
        names += [kind.__name__ for kind in type(seen).__mro__]
        text = str(seen) or text
        seen = seen.__cause__ or seen.__context__
    fault = from_exception_name(tuple(dict.fromkeys(names)), text)
    return msgspec.structs.replace(fault, answered=True, delivered=True) if answered else fault


def _unproven(reader: Reader) -> str:
    if reader.skipped:
        return "an event of the stream could not be read, and nothing proves that the answer is whole"
    return "the stream ended without the API's end of an answer"


def _as_seen(fault: Fault, progress: _Progress) -> Fault:
    if progress.pieces and fault.kind in _CUT:
        return msgspec.structs.replace(fault, kind="truncated")
    return fault


def scrubbed(fault: Fault, call: VendorCall) -> Fault:
    """Vendors repeat keys in their error texts; they end here."""
    hidden = [value for value in call.headers.values() if len(value) >= 8]
    if call.secret is not None and call.secret.reveal():
        hidden.append(call.secret.reveal())

    def clean(text: str | None) -> str | None:
        for value in hidden:
            text = text.replace(value, "•••") if text else text
        return text

    return msgspec.structs.replace(
        fault,
        message=_to_whom(clean(fault.message) or "", call),
        code=clean(fault.code),
        parameter=clean(fault.parameter),
        request_id=clean(fault.request_id),
    )


def _to_whom(message: str, call: VendorCall) -> str:
    """A connection that was not made names its host, unless it is a proxy's that was not made."""
    address = call.provider.base_url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    unnamed = message.startswith(UNCONNECTED) and not call.provider.proxy and address
    return message.replace(UNCONNECTED, f"{UNCONNECTED} to {address}", 1) if unnamed else message
