"""A vendor on this machine that fails in any way asked for, in the three wire APIs, and writes down what it was sent.

It knows nothing of routekit: what it sends is what the vendors' documentation (and their bad days) look like.

In a test:              def test_x(loopback):                      # a pytest fixture: tests import it from here
                            loopback.script("m", {"status": 503}, {"tokens": 3})
                            ... loopback.url("openai-chat") ...
                            assert [r.model for r in loopback.requests] == ["m", "m"]

For other processes:    python -m tests.loopback --port 0 --script '{"m": [{"status": 503}, {}]}'
                        prints one JSON object per line: {"event": "listening", "port": …}, then requests and closes;
                        POST /_script replaces the scripts, GET /_log returns the events so far, POST /_reset forgets.

Every request takes the next step of its model's script ("*" for models without one; without any: a healthy answer);
the last step repeats. A model name may also say its step itself: "x?status=503&cut_after=5". Keys of a step:

  the answer      tokens 60 · text "…" (instead of numbered words) · reasoning "…" · tools [{id, name, arguments}] ·
                  finish (the API's word) · usage false · model (the name claimed)
  its pace        wait (before headers) · hold (after headers) · delay (before each token) · pings (seconds between
                  pings while holding)
  no answer       hang "accept" | "headers" (silence before headers, for ever | after them) · close "fin" | "rst"
                  (before headers)
  another answer  status, body (text or JSON), headers, type · redirect URL · raw "…" (the exact bytes, latin-1)
  its stream      sse ["…", …] (frames as given) and then end "clean" | "fin" | "rst" | "hang" ·
                  cut_after k, cut "fin" | "rst" | "clean" | "stall" · error_after k, error {…} ·
                  bad_after k, bad "…" (an extra frame), bad_replaces (it takes the token's place) · no_done ·
                  gzip · bytewise (one byte per write) · crlf · no_names (no event: lines)
  its headers     limits {name: value}
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import stat
import struct
import sys
import threading
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, TextIO
from urllib.parse import parse_qsl

import pytest

PATHS = {
    "/chat/completions": "openai-chat",
    "/responses": "openai-responses",
    "/v1/messages": "anthropic-messages",
}
#: what comes before the SDK's own path in a base URL
PREFIXES = {"openai-chat": "/v1", "openai-responses": "/v1", "anthropic-messages": ""}
#: sixty words, so that a cut answer cannot pass for a whole one
WORDS = tuple(f"word{number}" for number in range(1, 61))

Step = dict[str, Any]


def answer(tokens: int = 60) -> str:
    """The text of a healthy answer of so many tokens."""
    return " ".join(WORDS[index % len(WORDS)] for index in range(tokens))


@dataclass
class Seen:
    """One request as it arrived, and how its connection ended."""

    number: int
    api: str
    path: str
    headers: list[tuple[str, str]]
    body: Any
    at: float
    step: Step = field(default_factory=dict)
    sent: int = 0
    closed_at: float | None = None
    closed_by: str = ""

    @property
    def model(self) -> str:
        return str(self.body.get("model", "")) if isinstance(self.body, dict) else ""

    def header(self, name: str) -> list[str]:
        """Every value of a header, so that a second one cannot hide."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


class Loopback:
    """The server, in a thread with a loop of its own. Use it as a context manager; ``fixture`` does."""

    def __init__(
        self,
        port: int = 0,
        scripts: dict[str, list[Step]] | None = None,
        log: TextIO | None = None,
        *,
        host: str = "127.0.0.1",
    ) -> None:
        self.port, self.host = port, host
        self.requests: list[Seen] = []
        self.connections = 0
        self._scripts: dict[str, list[Step]] = dict(scripts or {})
        self._taken: dict[str, int] = {}
        self._log = log
        self._events: list[dict[str, Any]] = []
        self._change = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True, name="loopback")
        self._ready = threading.Event()
        self._stop = asyncio.Event()

    # -- for tests --

    def url(self, api: str = "openai-chat") -> str:
        return f"http://{self.host}:{self.port}{PREFIXES[api]}"

    def script(self, model: str, *steps: Step) -> None:
        self._scripts[model] = list(steps)
        self._taken.pop(model, None)

    def reset(self) -> None:
        with self._change:
            self._scripts.clear()
            self._taken.clear()
            self.requests.clear()
            self._events.clear()
            self.connections = 0

    def count(self, model: str) -> int:
        return sum(request.model == model for request in self.requests)

    def wait_for(self, condition: Any, seconds: float = 5.0) -> bool:
        """Wait until ``condition(self)`` holds; whether it did."""
        with self._change:
            return bool(self._change.wait_for(lambda: condition(self), seconds))

    def __enter__(self) -> Loopback:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)

    # -- the server --

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, self.host, self.port, limit=64 * 1024 * 1024)
        self.port = server.sockets[0].getsockname()[1]
        self._tell({"event": "listening", "port": self.port})
        self._ready.set()
        await self._stop.wait()
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tell(self, event: dict[str, Any]) -> None:
        with self._change:
            if event["event"] == "request":
                event = {**event, "count": len(self.requests)}
            self._events.append(event)
            self._change.notify_all()
        if self._log is not None:
            print(json.dumps(event), file=self._log, flush=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, _Gone):
            pass
        finally:
            with contextlib.suppress(Exception):
                writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        got = await _request(reader)
        if got is None:
            return False
        method, path, headers, body = got
        if path.startswith("/_"):
            await self._control(writer, path, body)
            return True
        api = next((api for end, api in PATHS.items() if path.partition("?")[0].endswith(end)), "")
        seen = Seen(len(self.requests) + 1, api, path, headers, _json(body), time.monotonic())
        seen.step = self._take(seen.model)
        with self._change:
            self.requests.append(seen)
        self._tell(_request_event(seen, method))
        line = _Line(reader, writer, seen)
        try:
            keep = await _play(line, seen)
        except (ConnectionError, _Gone):
            self._closed(seen, "client")
            raise
        except _Cut as cut:
            _hang_up(writer, cut.how)
            self._closed(seen, "server")
            return False
        self._closed(seen, "nobody" if keep else "server")
        return keep

    def _closed(self, seen: Seen, by: str) -> None:
        seen.closed_by, seen.closed_at = by, time.monotonic()
        self._tell({"event": "end", "number": seen.number, "model": seen.model, "by": by, "sent": seen.sent})

    def _take(self, model: str) -> Step:
        if "?" in model and model not in self._scripts:
            return _step_in_name(model)
        name = model if model in self._scripts else "*"
        steps = self._scripts.get(name) or [{}]
        position = self._taken.get(name, 0)
        self._taken[name] = position + 1
        return steps[min(position, len(steps) - 1)]

    async def _control(self, writer: asyncio.StreamWriter, path: str, body: bytes) -> None:
        if path == "/_script":
            self._scripts, self._taken = json.loads(body), {}
        elif path == "/_reset":
            self.reset()
        answer = json.dumps(self._events if path == "/_log" else {"ok": True}).encode()
        writer.write(_head(200, {"Content-Type": "application/json", "Content-Length": str(len(answer))}) + answer)
        await writer.drain()


class _Gone(Exception):
    """The client has closed the connection."""


class _Cut(Exception):
    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class _Line:
    """The connection while it answers one request: writes pieces, waits, and notices a client that leaves."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Seen) -> None:
        self._reader, self._writer, self._seen = reader, writer, seen
        self._squeeze = zlib.compressobj(wbits=31) if seen.step.get("gzip") else None
        self.chunked = False

    def check(self) -> None:
        if self._reader.at_eof() or self._reader.exception() is not None or self._writer.is_closing():
            raise _Gone

    async def pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check()
            await asyncio.sleep(min(left, 0.01))
        self.check()

    async def send(self, data: bytes) -> None:
        self.check()
        self._writer.write(data)
        await self._writer.drain()

    async def frame(self, data: bytes) -> None:
        """One piece of a streamed body."""
        if self._squeeze is not None:
            data = self._squeeze.compress(data) + self._squeeze.flush(zlib.Z_SYNC_FLUSH)
        size = 1 if self._seen.step.get("bytewise") else max(1, len(data))
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            await self.send(b"%x\r\n%s\r\n" % (len(piece), piece))

    async def end(self) -> None:
        if self._squeeze is not None and (rest := self._squeeze.flush()):
            await self.send(b"%x\r\n%s\r\n" % (len(rest), rest))
        await self.send(b"0\r\n\r\n")


def _hang_up(writer: asyncio.StreamWriter, how: str) -> None:
    if how == "rst":
        sock = writer.get_extra_info("socket")
        # linger 0: the close becomes a reset
        sock.setsockopt(1, 13, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        writer.close()


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, list[tuple[str, str]], bytes] | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines if line)]
    method, path, _ = first.split(" ", 2)
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return method, path, headers, await reader.readexactly(length)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("latin-1")


def _request_event(seen: Seen, method: str) -> dict[str, Any]:
    return {
        "event": "request",
        "number": seen.number,
        "api": seen.api,
        "method": method,
        "path": seen.path,
        "model": seen.model,
        "headers": seen.headers,
        "body": seen.body,
    }


def _step_in_name(model: str) -> Step:
    step: Step = {}
    for name, value in parse_qsl(model.partition("?")[2]):
        try:
            step[name] = json.loads(value)
        except ValueError:
            step[name] = value
    return step


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Loopback", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def _play(line: _Line, seen: Seen) -> bool:
    """One answer; whether the connection may be used again."""
    step = seen.step
    if step.get("hang") == "accept":
        await line.pause(3600)
    await line.pause(step.get("wait", 0))
    if step.get("close"):
        raise _Cut(step["close"])
    if "raw" in step:
        await line.send(step["raw"].encode("latin-1"))
        raise _Cut("fin")
    if "status" in step or "redirect" in step or "body" in step:
        return await _plain(line, step)
    head = {"Content-Type": step.get("type", "text/event-stream"), "Transfer-Encoding": "chunked"}
    head |= {"x-request-id": f"req-{seen.number}", "request-id": f"req-{seen.number}"}
    head |= {"Content-Encoding": "gzip"} if step.get("gzip") else {}
    await line.send(_head(200, {**head, **step.get("headers", {}), **step.get("limits", {})}))
    if step.get("hang") == "headers":
        await line.pause(3600)
    await _hold(line, step)
    await _stream(line, seen)
    return True


async def _plain(line: _Line, step: Step) -> bool:
    body = step.get("body", "")
    data = body.encode("utf-8") if isinstance(body, str) else json.dumps(body).encode()
    kind = "text/html" if isinstance(body, str) else "application/json"
    headers = {"Content-Type": step.get("type", kind), "Content-Length": str(len(data))}
    if "redirect" in step:
        headers["Location"] = step["redirect"]
    if step.get("gzip"):
        squeeze = zlib.compressobj(wbits=31)
        data = squeeze.compress(data) + squeeze.flush()
        headers |= {"Content-Encoding": "gzip", "Content-Length": str(len(data))}
    headers |= {**step.get("headers", {}), **step.get("limits", {})}
    status = step.get("status", 307 if "redirect" in step else 200)
    if status == 204:
        headers.pop("Content-Length", None)
    await line.send(_head(status, headers) + data)
    if step.get("end") in ("fin", "rst"):
        raise _Cut(step["end"])
    if step.get("end") == "hang":
        await line.pause(3600)
    return True


async def _hold(line: _Line, step: Step) -> None:
    left, every = step.get("hold", 0), step.get("pings")
    while left > 0:
        await line.pause(min(every or left, left))
        left -= every or left
        if every:
            await line.frame(b": ping\n\n")


async def _stream(line: _Line, seen: Seen) -> None:
    step = seen.step
    frames = _given(step) if "sse" in step else _frames(seen)
    async for frame in frames:
        if frame == "":
            raise _Cut(str(step.get("cut") or step.get("end") or "fin"))
        await line.frame(_dressed(frame, step))
    end = step.get("end", "clean")
    if end == "hang" or (step.get("cut") == "stall" and "cut_after" in step):
        await line.pause(3600)
    if end != "clean":
        raise _Cut(end)
    await line.end()


async def _given(step: Step) -> AsyncIterator[str]:
    for frame in step["sse"]:
        yield frame


def _dressed(frame: str, step: Step) -> bytes:
    if step.get("no_names"):
        frame = "\n".join(line for line in frame.split("\n") if not line.startswith("event:"))
    if step.get("crlf"):
        frame = frame.replace("\n", "\r\n")
    return frame.encode("utf-8", "surrogateescape")


async def _frames(seen: Seen) -> AsyncIterator[str]:
    """The frames of an answer in its API, with what the step does to them. An empty frame means: cut here."""
    step, (head, body, tail) = seen.step, API[seen.api or "openai-chat"](seen)
    last = min(step.get("cut_after", len(body)), step.get("error_after", len(body)))
    for frame in head:
        yield frame
    for number, frame in enumerate(body[:last]):
        bad = number == step.get("bad_after")
        if bad:
            yield step.get("bad", 'data: {"broken": \n\n')
        if not (bad and step.get("bad_replaces")):
            await asyncio.sleep(step.get("delay", 0))
            yield frame
            seen.sent += 1
    async for frame in _ending(seen, tail):
        yield frame


async def _ending(seen: Seen, tail: list[str]) -> AsyncIterator[str]:
    step = seen.step
    if "error_after" in step:
        yield _error_frame(seen)
    elif "cut_after" not in step:
        for frame in tail:
            yield frame
    elif step.get("cut", "fin") not in ("clean", "stall"):
        yield ""


def _error_frame(seen: Seen) -> str:
    error = seen.step.get("error", {"type": "overloaded_error", "message": "Overloaded", "code": "overloaded"})
    if seen.api == "openai-chat":
        return _data({"error": error})
    return _named({"type": "error", "error": error})


def _pieces(step: Step) -> list[str]:
    if "text" in step:
        return [step["text"]]
    words = answer(step.get("tokens", 60)).split()
    return [word if number == 0 else f" {word}" for number, word in enumerate(words)]


def _data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _named(value: Any) -> str:
    return f"event: {value['type']}\ndata: {json.dumps(value)}\n\n"


Frames = tuple[list[str], list[str], list[str]]


def _chat(seen: Seen) -> Frames:
    step, pieces = seen.step, _pieces(seen.step)
    base = {"id": f"chatcmpl-{seen.number}", "object": "chat.completion.chunk", "created": 1, "model": _claimed(seen)}

    def chunk(delta: Any, finish: str | None = None) -> str:
        return _data({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    body = [chunk({"reasoning_content": step["reasoning"]})] if step.get("reasoning") else []
    body += [chunk({"content": piece}) for piece in pieces]
    for index, tool in enumerate(step.get("tools", ())):
        function = {"name": tool["name"], "arguments": tool["arguments"]}
        body.append(
            chunk({"tool_calls": [{"index": index, "id": tool["id"], "type": "function", "function": function}]})
        )
    usage = {"prompt_tokens": 7, "completion_tokens": len(pieces), "total_tokens": 7 + len(pieces)}
    tail = [chunk({}, step.get("finish", "tool_calls" if step.get("tools") else "stop"))]
    if step.get("usage", True):
        tail.append(_data({**base, "choices": [], "usage": usage}))
    return (
        [chunk({"role": "assistant", "content": ""})],
        body,
        tail + ([] if step.get("no_done") else ["data: [DONE]\n\n"]),
    )


def _responses(seen: Seen) -> Frames:
    step, pieces = seen.step, _pieces(seen.step)
    text = "".join(pieces)
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    output: list[Any] = [item]
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    base = {"id": f"resp_{seen.number}", "object": "response", "model": _claimed(seen), "error": None}
    body = [_named({"type": "response.output_text.delta", **where, "delta": piece}) for piece in pieces]
    if step.get("reasoning"):
        delta = {"item_id": "rs_1", "output_index": 9, "delta": step["reasoning"]}
        body.insert(0, _named({"type": "response.reasoning_summary_text.delta", **delta}))
    for index, tool in enumerate(step.get("tools", ()), 1):
        call = {"type": "function_call", "id": f"fc_{index}", "call_id": tool["id"], "name": tool["name"]}
        place = {"item_id": f"fc_{index}", "output_index": index}
        body.append(_named({"type": "response.output_item.added", "output_index": index, "item": call}))
        delta = {"type": "response.function_call_arguments.delta", **place, "delta": tool["arguments"]}
        body.append(_named(delta))
        output.append({**call, "arguments": tool["arguments"]})
    usage = {"input_tokens": 7, "output_tokens": len(pieces), "total_tokens": 7 + len(pieces)}
    end: dict[str, Any] = {**base, "status": "completed", "output": output, "usage": usage}
    kind = "response.completed"
    if step.get("finish"):
        kind, end["incomplete_details"] = "response.incomplete", {"reason": step["finish"]}
    done = _named({"type": "response.output_text.done", **where, "text": text})
    created = _named({"type": "response.created", "response": {**base, "status": "in_progress", "output": []}})
    return [created], body, [done, _named({"type": kind, "response": end})]


def _messages(seen: Seen) -> Frames:
    step, pieces = seen.step, _pieces(seen.step)
    message = {
        "id": f"msg_{seen.number}",
        "type": "message",
        "role": "assistant",
        "model": _claimed(seen),
        "content": [],
    }
    start = {"type": "message_start", "message": {**message, "usage": {"input_tokens": 7, "output_tokens": 1}}}
    head = [_named(start), _named({"type": "ping"})]
    body: list[str] = []
    index = 0
    if step.get("reasoning"):
        body += _block(
            index, {"type": "thinking", "thinking": ""}, [{"type": "thinking_delta", "thinking": step["reasoning"]}]
        )
        index += 1
    block = _block(index, {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces])
    head_of_text, body, close = (block[:1], body + block[1:-1], block[-1:])
    tail = list(close)
    for number, tool in enumerate(step.get("tools", ()), index + 1):
        use = {"type": "tool_use", "id": tool["id"], "name": tool["name"], "input": {}}
        tail += _block(number, use, [{"type": "input_json_delta", "partial_json": tool["arguments"]}])
    reason = step.get("finish", "tool_use" if step.get("tools") else "end_turn")
    tail.append(
        _named({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": len(pieces)}})
    )
    return head + head_of_text, body, [*tail, _named({"type": "message_stop"})]


def _block(index: int, block: Any, deltas: list[Any]) -> list[str]:
    return [
        _named({"type": "content_block_start", "index": index, "content_block": block}),
        *(_named({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas),
        _named({"type": "content_block_stop", "index": index}),
    ]


def _claimed(seen: Seen) -> str:
    return str(seen.step.get("model", seen.model))


API = {"openai-chat": _chat, "openai-responses": _responses, "anthropic-messages": _messages}


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted vendor on this machine.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--script", default="{}", help="JSON: model → list of steps")
    options = parser.parse_args()
    server = Loopback(options.port, json.loads(options.script), sys.stdout, host=options.host)
    with server, contextlib.suppress(KeyboardInterrupt):
        if stat.S_ISFIFO(os.fstat(0).st_mode):
            # until the parent goes away: its end of our standard input closes with it
            sys.stdin.read()
        else:
            signal.pause()


if __name__ == "__main__":
    main()
