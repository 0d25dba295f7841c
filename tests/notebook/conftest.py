"""A real kernel, and all that it says. One for all tests of a worker: each begins with a config of its own."""

from __future__ import annotations

import os
import queue
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.loopback import Loopback

ROOT = Path(__file__).resolve().parent.parent.parent
#: what no output, metadata or traceback may hold
CANARY = "sk-canary-5b1f0c9e7d2a4836"

CONFIG = """
version = 1
[providers.mock]
api = "openai-chat"
base_url = "{url}"
key = "env:MOCK_KEY"
[routes.chat]
targets = ["mock/m"]
[routes.pair]
targets = ["mock/first", "mock/second"]
[defaults]
route = "chat"
"""


@dataclass
class Ran:
    """One executed cell: its reply, every message it caused in order with its arrival time."""

    reply: dict[str, Any] = field(default_factory=dict)
    messages: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    idle_at: float = 0.0

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [message["content"] for _, message in self.messages if message["msg_type"] in kinds]

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The bundles on the screen in the end: an update takes its output's place."""
        places: dict[str, dict[str, Any]] = {}
        for number, content in enumerate(self.of("display_data", "update_display_data", "execute_result")):
            places[content.get("transient", {}).get("display_id") or str(number)] = content
        return list(places.values())

    @property
    def texts(self) -> list[str]:
        return [content["data"].get("text/plain", "") for content in self.shown]

    @property
    def printed(self) -> str:
        return "".join(content["text"] for content in self.of("stream"))

    @property
    def traceback(self) -> list[str]:
        return [line for content in self.of("error") for line in content["traceback"]]

    @property
    def status(self) -> str:
        return str(self.reply["content"]["status"])


class Kernel:
    def __init__(self, place: Path, loopback: Loopback) -> None:
        self.place, self.loopback = place, loopback
        self.home = place / "rk"
        self.home.mkdir(mode=0o700)
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        self.env = kept | {
            "HOME": str(place),
            "ROUTEKIT_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "MOCK_KEY": CANARY,
            "LC_ALL": "C.UTF-8",
            "IPYTHONDIR": str(place / "ipython"),
        }
        self.manager = KernelManager(connection_file=str(place / "kernel.json"))
        self.client: BlockingKernelClient

    def __enter__(self) -> Kernel:
        self.config(CONFIG.format(url=self.loopback.url()))
        self.manager.start_kernel(env=self.env, cwd=str(self.place))
        client = self.manager.client()
        assert isinstance(client, BlockingKernelClient)
        self.client = client
        self.client.start_channels()
        self.client.wait_for_ready(timeout=30)
        assert self.run("%load_ext routekit").status == "ok"
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def config(self, text: str) -> None:
        fresh = self.home / "config.new"
        fresh.write_text(text, "utf-8")
        fresh.replace(self.home / "config.toml")

    def start(self, code: str) -> str:
        return str(self.client.execute(code, stop_on_error=False, allow_stdin=False))

    def run(self, code: str, timeout: float = 30.0) -> Ran:
        return self.finish(self.start(code), Ran(), timeout)

    def wait_for_output(self, asked: str, ran: Ran, timeout: float = 20.0) -> None:
        """Until something is on the screen."""
        end = time.monotonic() + timeout
        while not ran.of("display_data", "stream"):
            self._take(asked, ran, end)

    def finish(self, asked: str, ran: Ran, timeout: float = 30.0) -> Ran:
        end = time.monotonic() + timeout
        while not ran.idle_at:
            self._take(asked, ran, end)
        while ran.reply.get("parent_header", {}).get("msg_id") != asked:
            ran.reply = self.client.get_shell_msg(timeout=max(0.1, end - time.monotonic()))
        return ran

    def _take(self, asked: str, ran: Ran, end: float) -> None:
        try:
            message = self.client.get_iopub_msg(timeout=max(0.01, end - time.monotonic()))
        except queue.Empty:
            pytest.fail(f"the kernel said nothing more; until then: {ran.messages}")
        if message["parent_header"].get("msg_id") != asked:
            return
        ran.messages.append((time.monotonic(), message))
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            ran.idle_at = time.monotonic()

    def interrupt(self) -> float:
        self.manager.interrupt_kernel()
        return time.monotonic()

    def prompts(self) -> list[str]:
        """What the vendor was asked, message by message."""
        return [message["content"] for seen in self.loopback.requests for message in seen.body["messages"]]


@pytest.fixture(scope="session")
def _kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    place = tmp_path_factory.mktemp("kernel")
    with Loopback() as loopback, Kernel(place, loopback) as kernel:
        yield kernel


@pytest.fixture
def kernel(_kernel: Kernel) -> Kernel:
    """The kernel with the usual config, nobody asleep, nothing asked yet."""
    _kernel.config(CONFIG.format(url=_kernel.loopback.url()))
    assert _kernel.run("%reset -f\n%routekit health reset --all").status == "ok"
    _kernel.loopback.reset()
    return _kernel


@pytest.fixture
def interpreter() -> str:
    return sys.executable
