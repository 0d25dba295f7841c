"""What a command costs in processor time, as a multiple of a bare interpreter measured in the same run.

    python tests/bench/startup.py             a table
    python tests/bench/startup.py --check     the same; exit 1 if a budget is exceeded

Processor time (user + system) of the whole child, the smallest of several runs: a busy machine makes a run dearer,
never cheaper. The ratio carries over between machines; seconds do not.
"""

from __future__ import annotations

import http.server
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
RUNS, MORE_RUNS = 7, 15

CONFIG = """\
version = 1
[defaults]
route = "bench"
[log]
conversations = false
[providers.chat]
api = "openai-chat"
base_url = "{url}/v1"
key = "none"
models = ["m"]
[providers.responses]
api = "openai-responses"
base_url = "{url}/v1"
key = "none"
models = ["m"]
[providers.messages]
api = "anthropic-messages"
base_url = "{url}"
key = "none"
models = ["m"]
[routes.bench]
targets = ["chat/m", "messages/m"]
"""

_CHUNK = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_RESPONSE = {"id": "r", "object": "response", "created_at": 1, "model": "m", "tools": [], "tool_choice": "auto"}
_RESPONSE |= {"parallel_tool_calls": False}
_TEXT = {"type": "output_text", "text": "hi", "annotations": []}
_ITEM = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [_TEXT]}
_TOKENS = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
_TOKENS |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
_MESSAGE = {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
_MESSAGE |= {"stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
_PLACE = {"item_id": "i", "output_index": 0, "content_index": 0, "logprobs": []}
_STOP = {"stop_reason": "end_turn", "stop_sequence": None}

#: per path, the events of a whole streamed answer of that wire API
ANSWERS: dict[str, tuple[Any, ...]] = {
    "/v1/chat/completions": (
        {**_CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": None}]},
        {**_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ),
    "/v1/responses": (
        {"type": "response.created", "response": {**_RESPONSE, "status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "delta": "hi", **_PLACE},
        {
            "type": "response.completed",
            "response": {**_RESPONSE, "status": "completed", "output": [_ITEM], "usage": _TOKENS},
        },
    ),
    "/v1/messages": (
        {"type": "message_start", "message": _MESSAGE},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": _STOP, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ),
}


def body_of(path: str) -> bytes:
    """The answer as the wire carries it: typed events, or chat's unnamed chunks and their end mark."""
    lines = []
    for number, event in enumerate(ANSWERS[path]):
        if "type" in event:
            lines.append(f"event: {event['type']}")
        lines.append(f"data: {json.dumps({'sequence_number': number, **event})}\n")
    if path.endswith("completions"):
        lines.append("data: [DONE]\n")
    return "\n".join([*lines, ""]).encode()


class Budget(NamedTuple):
    """``arguments`` after ``python -m routekit``; at most ``times`` a bare interpreter, besides importing ``sdk``."""

    name: str
    arguments: tuple[str, ...]
    times: float
    sdk: str | None = None
    env: Mapping[str, str] = {}


COMPLETING = {"_ROUTEKIT_COMPLETE": "bash_complete", "COMP_WORDS": "routekit rou", "COMP_CWORD": "1"}
COMPLETING_NAMES = {**COMPLETING, "COMP_WORDS": "routekit ask -m ", "COMP_CWORD": "3"}
BUDGETS = (
    Budget("--version", ("--version",), 12),
    Budget("--help", ("--help",), 12),
    Budget("completion", (), 12, env=COMPLETING),
    Budget("completion after -m", (), 12, env=COMPLETING_NAMES),
    Budget("logs", ("logs",), 12),
    Budget("routes list", ("routes", "list"), 12),
    Budget("why", ("why",), 12),
    Budget("ask --dry-run", ("ask", "--dry-run", "hi"), 15),
    Budget("ask, openai chat", ("ask", "-m", "chat/m", "hi"), 20, "openai"),
    Budget("ask, openai responses", ("ask", "-m", "responses/m", "hi"), 20, "openai"),
    Budget("ask, anthropic", ("ask", "-m", "messages/m", "hi"), 20, "anthropic"),
)


class Vendor(http.server.BaseHTTPRequestHandler):
    """Answers every request with the whole stream of its API."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = body_of(self.path)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the table is the output."""


@contextmanager
def vendor() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Vendor)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def cpu(command: list[str], env: Mapping[str, str]) -> float:
    """Seconds of processor time of one run. Raises ``SystemExit`` when the command fails: a failure is cheap."""
    read, write = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, write, 2)]
    pid = os.posix_spawn(command[0], command, dict(env), file_actions=actions)
    os.close(write)
    os.close(null)
    with open(read, encoding="utf-8", errors="replace") as errors:
        said = errors.read()
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command[1:])}: exit {os.waitstatus_to_exitcode(status)}\n{said[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def cpu_at_a_prompt(command: list[str], env: Mapping[str, str]) -> float:
    """As ``cpu``, of a command on a terminal of its own, from its start until it asks for a line and is told to end."""
    pid, terminal = os.forkpty()
    if not pid:
        os.execve(command[0], command, dict(env))
    said = b""
    while "❯".encode() not in said:
        try:
            said += os.read(terminal, 65536)
        except OSError:
            break
    os.write(terminal, b"\x04")
    _, status, usage = os.wait4(pid, 0)
    os.close(terminal)
    if status:
        raise SystemExit(f"{' '.join(command[1:])}: exit {os.waitstatus_to_exitcode(status)}\n{said[-2000:]!r}")
    return usage.ru_utime + usage.ru_stime


def environment(home: str) -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": home, "ROUTEKIT_HOME": home, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}


def least(measure: Callable[[], float], runs: int) -> float:
    return min(measure() for _ in range(runs))


class Row(NamedTuple):
    name: str
    seconds: float
    ratio: float
    allowed: float


def measure_all(home: str, runs: int) -> list[Row]:
    env = environment(home)

    def cost(arguments: list[str], more: Mapping[str, str] | None = None) -> float:
        command, whole = [sys.executable, *arguments], {**env, **(more or {})}
        cpu(command, whole)  # byte code is written, files are in memory
        return least(lambda: cpu(command, whole), runs)

    bare = cost(["-c", "pass"])
    sdk = {name: cost(["-c", f"import {name}"]) / bare for name in ("openai", "anthropic")}
    rows = [Row("python -c pass", bare, 1.0, 1.0)]
    rows += [Row(f"import {name}", ratio * bare, ratio, ratio) for name, ratio in sdk.items()]
    # `why` needs an answer to explain
    cpu([sys.executable, "-m", "routekit", "ask", "-m", "chat/m", "hi"], env)
    for budget in BUDGETS:
        seconds = cost(["-m", "routekit", *budget.arguments], budget.env)
        rows.append(Row(budget.name, seconds, seconds / bare, budget.times + sdk.get(budget.sdk or "", 0.0)))
    talk = [sys.executable, "-m", "routekit", "chat"]
    seconds = least(lambda: cpu_at_a_prompt(talk, {**env, "TERM": "xterm"}), runs)
    rows.append(Row("chat, ready", seconds, seconds / bare, 30))
    return rows


def show(rows: list[Row]) -> None:
    print(f"{'command':<24} {'CPU':>9} {'× python':>9} {'budget':>7}")
    for row in rows:
        mark = "" if row.ratio <= row.allowed else "   over"
        print(f"{row.name:<24} {row.seconds * 1000:>6.0f} ms {row.ratio:>9.1f} {row.allowed:>7.1f}{mark}")


def main() -> int:
    with tempfile.TemporaryDirectory() as home, vendor() as url:
        os.chmod(home, 0o700)
        Path(home, "config.toml").write_text(CONFIG.format(url=url), "utf-8")
        rows = measure_all(home, RUNS)
        if any(row.ratio > row.allowed for row in rows):
            rows = measure_all(home, MORE_RUNS)
    show(rows)
    over = any(row.ratio > row.allowed for row in rows)
    return int(over and "--check" in sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
