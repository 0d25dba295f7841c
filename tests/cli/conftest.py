"""A machine for one test of the shell: a vendor on loopback, a config over it, routekit as processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.loopback import PREFIXES, Loopback, loopback

__all__ = ["loopback"]

#: for tests in which no limit plays a part: long enough for any machine
PATIENT = 'first_output = "20s"\nstall = "20s"'
#: for those with a silent vendor: a moment, and not ten seconds
QUICK = 'first_output = "1500ms"\nstall = "1500ms"'
KEYS = {
    "KEY_A": "sk-canary-aaaa-0000000000",
    "KEY_B": "sk-canary-bbbb-1111111111",
    "KEY_C": "sk-canary-cccc-2222222222",
}


class Done(NamedTuple):
    """A process that has ended: its code as ``Popen`` says it (a signal is negative), its bytes and its words."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode("utf-8")

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


class Machine:
    """``config`` writes the file; ``ask`` and ``run`` are whole processes; ``start`` is one still running."""

    def __init__(self, loopback: Loopback, place: Path) -> None:
        self.loopback, self.place = loopback, place
        self.home = place / "rk"
        self.home.mkdir(mode=0o700)
        self.cwd = place / "cwd"
        self.cwd.mkdir(exist_ok=True)
        self._children: list[subprocess.Popen[bytes]] = []

    # -- the config --

    def providers(self, api: str = "openai-chat", *, names: str = "abc", base_url: str | None = None) -> str:
        url = base_url or self.loopback.url(api)
        rows = [
            f'[providers.{name}]\napi = "{api}"\nbase_url = "{url}"\nkey = "env:KEY_{name.upper()}"' for name in names
        ]
        return "\n".join(rows)

    def config(
        self,
        *targets: str,
        api: str = "openai-chat",
        providers: str | None = None,
        limits: str = PATIENT,
        health: str = "",
        route: str = "",
        more: str = "",
    ) -> Path:
        """Write a config with one route ``chat`` over the targets, by default those of providers a, b and c."""
        listed = ", ".join(target if target.startswith("{") else f'"{target}"' for target in targets)
        text = "\n".join(
            [
                "version = 1",
                *(['[defaults]\nroute = "chat"'] if targets else []),
                f"[limits]\n{limits}",
                *([f"[health]\n{health}"] if health else []),
                self.providers(api) if providers is None else providers,
                *([f"[routes.chat]\ntargets = [{listed}]\n{route}"] if targets else []),
                more,
            ]
        )
        return self.write(text)

    def write(self, text: str) -> Path:
        file = self.home / "config.toml"
        file.write_text(text)
        file.chmod(0o600)
        return file

    # -- processes --

    def environ(self, env: Mapping[str, str | None] | None = None) -> dict[str, str]:
        given = {**os.environ, "ROUTEKIT_HOME": str(self.home), **KEYS, **(env or {})}
        return {name: value for name, value in given.items() if value is not None}

    def start(
        self,
        *arguments: str | bytes,
        env: Mapping[str, str | None] | None = None,
        python: Sequence[str] = ("-m", "routekit"),
        **more: Any,
    ) -> subprocess.Popen[bytes]:
        channels = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        child = subprocess.Popen(
            [sys.executable, *python, *arguments], env=self.environ(env), cwd=self.cwd, bufsize=0, **channels
        )
        self._children.append(child)
        return child

    def run(
        self,
        *arguments: str | bytes,
        stdin: bytes | str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout: float = 50.0,
        **more: Any,
    ) -> Done:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        child = self.start(*arguments, env=env, stdin=subprocess.DEVNULL if data is None else subprocess.PIPE, **more)
        return self.finish(child, data=data, timeout=timeout)

    def finish(self, child: subprocess.Popen[bytes], *, data: bytes | None = None, timeout: float = 50.0) -> Done:
        try:
            out, err = child.communicate(data, timeout=timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            pytest.fail(f"still running after {timeout} s; stdout {out!r}, stderr {err!r}")
        return Done(child.returncode, out or b"", (err or b"").decode("utf-8", "replace"))

    def ask(self, *arguments: str | bytes, **more: Any) -> Done:
        return self.run("ask", *arguments, **more)

    def read(self, child: subprocess.Popen[bytes], count: int) -> bytes:
        """So many bytes of its stdout, as soon as they are there."""
        data = b""
        while len(data) < count:
            piece = child.stdout.read(count - len(data)) if child.stdout else b""
            assert piece, f"stdout ended after {data!r}"
            data += piece
        return data

    def interrupt(self, child: subprocess.Popen[bytes]) -> tuple[Done, float]:
        """Ctrl-C, and how long the process took to end after it."""
        child.send_signal(signal.SIGINT)
        began = time.monotonic()
        child.wait(timeout=10)
        took = time.monotonic() - began
        return self.finish(child), took

    def why(self, *arguments: str) -> Any:
        return self.run("why", "--json", *arguments).json

    def records(self) -> list[dict[str, Any]]:
        """Every record in the store, read as routekit reads it."""
        from routekit.state import open_store

        store = open_store(self.home / "state.db")
        try:
            return [dict(row) for row in store.records(limit=1000)]
        finally:
            store.close()

    def until(self, condition: Callable[[], Any], seconds: float = 40.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"nothing came of waiting {seconds} s"
            time.sleep(0.01)

    def models(self) -> list[str]:
        return [request.model for request in self.loopback.requests]

    def close(self) -> None:
        for child in self._children:
            if child.poll() is None:
                child.kill()
                child.wait(timeout=5)
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()


@pytest.fixture
def machine(loopback: Loopback, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(loopback, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=sorted(PREFIXES))
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)
