"""The scripted vendor itself, as other processes use it: it reports what it was sent and when it was left."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO, Any

import pytest

from tests.loopback import Loopback, answer, loopback  # noqa: F401 - a fixture


class Standalone:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.output: IO[str] = process.stdout
        self.port = int(self.event()["port"])

    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.output.readline())
        return found


@pytest.fixture
def standalone() -> Iterator[Standalone]:
    command = [sys.executable, "-m", "tests.loopback", "--script", json.dumps({"m": [{"status": 503}, {"tokens": 2}]})]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Standalone(process)
        process.communicate(timeout=10)
    assert process.returncode == 0


def post(port: int, path: str, body: Any) -> bytes:
    data = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nX-Seen: yes\r\nContent-Length: {len(data)}\r\n\r\n"
        line.sendall(head.encode() + data)
        line.shutdown(socket.SHUT_WR) if path.startswith("/_") else None
        got = b""
        while b"0\r\n\r\n" not in got and (piece := line.recv(65536)):
            got += piece
            if got.startswith(b"HTTP/1.1 503"):
                break
        return got


def test_as_a_process_it_reports_requests_and_their_ends_as_lines_of_json(standalone: Standalone) -> None:
    assert post(standalone.port, "/v1/chat/completions", {"model": "m"}).startswith(b"HTTP/1.1 503")
    assert b"[DONE]" in post(standalone.port, "/v1/chat/completions", {"model": "m"})
    events = [standalone.event() for _ in range(4)]
    requests = [event for event in events if event["event"] == "request"]
    assert [(event["model"], event["api"], event["count"]) for event in requests] == [
        ("m", "openai-chat", 1),
        ("m", "openai-chat", 2),
    ]
    assert ["X-Seen", "yes"] in requests[0]["headers"]
    assert {event["by"] for event in events if event["event"] == "end"} == {"nobody"}


def test_a_process_can_be_told_a_new_script_and_asked_for_its_log(standalone: Standalone) -> None:
    post(standalone.port, "/_script", {"n": [{"text": "hello there"}]})
    assert b"hello there" in post(standalone.port, "/v1/responses", {"model": "n"})
    log = post(standalone.port, "/_log", None)
    assert [event["event"] for event in json.loads(log.partition(b"\r\n\r\n")[2])] == ["listening", "request", "end"]


def test_a_client_that_leaves_is_noticed_at_once(loopback: Loopback) -> None:  # noqa: F811
    loopback.script("m", {"hang": "accept"})
    line = socket.create_connection(("127.0.0.1", loopback.port))
    line.sendall(b'POST /v1/messages HTTP/1.1\r\nContent-Length: 13\r\n\r\n{"model":"m"}')
    assert loopback.wait_for(lambda rig: rig.count("m") == 1)
    left = time.monotonic()
    line.close()
    assert loopback.wait_for(lambda rig: rig.requests[0].closed_by == "client")
    closed_at = loopback.requests[0].closed_at
    assert closed_at is not None
    assert closed_at - left < 1


def test_a_healthy_answer_is_never_the_start_of_itself() -> None:
    """Sixty different words: a cut answer cannot pass for a whole one."""
    assert len(set(answer().split())) == 60
