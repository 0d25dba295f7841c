"""A real Secret Service for tests: a private message bus and GNOME's keyring daemon in a home of their own.

Every fixture is a ``Session``: ``run("…python…")`` runs code in a process of that session, ``environ`` is the
environment for processes of your own. Import the fixtures into a conftest:
``from tests.keyring.rig import absent_keyring, fresh_keyring, locked_keyring, silent_keyring, unlocked_keyring``.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct horse"
PATIENCE = 20.0


class Ran(NamedTuple):
    """A finished process: ``seconds`` from its start to its end, the end of its interpreter included."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def value(self) -> Any:
        """What the process printed last, as JSON."""
        assert self.stdout.strip(), f"printed nothing; stderr: {self.stderr}"
        return json.loads(self.stdout.strip().splitlines()[-1])


class Session:
    """A user's session, as far as a keyring is concerned. ``daemon`` is the keyring daemon's process, where it runs.
    Whoever asks a person for a password gets no answer, as on a screen nobody looks at; ``prompted`` tells of it."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self.home = home
        self.environ = dict(environ)
        self.daemon: subprocess.Popen[bytes] | None = None

    @property
    def prompted(self) -> bool:
        """Whether a window asking for a password would have opened."""
        return (self.home / "prompted").exists()

    def command(
        self, argv: list[str], *, stdin: str = "", env: Mapping[str, str] | None = None, timeout: float = PATIENCE
    ) -> Ran:
        began = time.monotonic()
        done = subprocess.run(
            argv,
            input=stdin,
            env={**self.environ, **(env or {})},
            cwd=self.home,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def run(
        self,
        code: str,
        *arguments: str,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        timeout: float = PATIENCE,
    ) -> Ran:
        return self.command([sys.executable, "-c", code, *arguments], stdin=stdin, env=env, timeout=timeout)


def _tool(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"{name} is not installed; try: apt-get install {package}", pytrace=False)
    return path


def _environ(home: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    runtime = home / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    return {**kept, "HOME": str(home), "XDG_RUNTIME_DIR": str(runtime), "PYTHONPATH": str(ROOT), **more}


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    # The path of a socket may be 107 characters long at most, which pytest's own folders exceed.
    with tempfile.TemporaryDirectory(prefix="rk-", ignore_cleanup_errors=True) as place:
        yield Path(place)


def _install_prompter(home: Path) -> None:
    """In place of the desktop's own: it takes note and never answers. The bus starts it when the daemon calls."""
    services = home / "run" / "dbus-1" / "services"
    services.mkdir(parents=True, exist_ok=True)
    (services / "org.gnome.keyring.SystemPrompter.service").write_text(
        "[D-BUS Service]\nName=org.gnome.keyring.SystemPrompter\n"
        f"Exec=/bin/sh -c 'echo $$ > {home}/prompted; exec sleep 600'\n"
    )


@contextlib.contextmanager
def _bus(session: Session) -> Iterator[None]:
    command = [_tool("dbus-daemon", "dbus"), "--session", "--nofork", "--nopidfile", "--print-address=1"]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=session.environ
    )
    assert process.stdout is not None
    try:
        session.environ["DBUS_SESSION_BUS_ADDRESS"] = process.stdout.readline().decode().strip()
        yield
    finally:
        process.terminate()
        process.wait(5)
        process.stdout.close()


def _start_daemon(session: Session, *, unlock: bool) -> subprocess.Popen[bytes]:
    command = [_tool("gnome-keyring-daemon", "gnome-keyring"), "--foreground", "--components=secrets"]
    process = subprocess.Popen(
        [*command, "--unlock"] if unlock else [*command, "--start"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=session.environ,
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(PASSWORD.encode() if unlock else b"")
        process.stdin.close()
    session.daemon = process
    _await_service(session)
    return process


def _await_service(session: Session) -> None:
    """Until the daemon owns its name on the bus; a client would otherwise start a second one."""
    ask = [
        _tool("dbus-send", "dbus"), "--session", "--print-reply", "--dest=org.freedesktop.DBus",
        "/org/freedesktop/DBus", "org.freedesktop.DBus.NameHasOwner", "string:org.freedesktop.secrets",
    ]  # fmt: skip
    end = time.monotonic() + PATIENCE
    while "boolean true" not in session.command(ask).stdout:
        assert time.monotonic() < end, "the keyring daemon did not appear on its bus"
        time.sleep(0.01)


def _stop_daemon(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGCONT)
        process.terminate()
    process.wait(5)


def _stop_prompter(home: Path) -> None:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
        os.kill(int((home / "prompted").read_text()), signal.SIGKILL)


@contextlib.contextmanager
def secret_service(home: Path, *, unlock: bool, settled: bool = False) -> Iterator[Session]:
    """A session with a bus and a keyring daemon. ``settled``: the default collection exists from an earlier login."""
    if settled:
        with secret_service(home, unlock=True):
            pass
    session = Session(home, _environ(home))
    _install_prompter(home)
    with _bus(session):
        daemon = _start_daemon(session, unlock=unlock)
        try:
            yield session
        finally:
            _stop_daemon(daemon)
            _stop_prompter(home)


@pytest.fixture(scope="module")
def unlocked_keyring() -> Iterator[Session]:
    """The keyring of a person who has logged in."""
    with _home() as home, secret_service(home, unlock=True) as session:
        yield session


@pytest.fixture
def locked_keyring() -> Iterator[Session]:
    """A keyring that exists and is locked, and no display to ask on."""
    with _home() as home, secret_service(home, unlock=False, settled=True) as session:
        yield session


@pytest.fixture
def fresh_keyring() -> Iterator[Session]:
    """A keyring service that was never used: no default collection."""
    with _home() as home, secret_service(home, unlock=False) as session:
        yield session


@pytest.fixture
def stopped_keyring() -> Iterator[Session]:
    """A bus that works, and a keyring daemon that has stopped answering."""
    with _home() as home, secret_service(home, unlock=True) as session:
        assert session.daemon is not None
        session.daemon.send_signal(signal.SIGSTOP)
        yield session


@pytest.fixture
def absent_keyring() -> Iterator[Session]:
    """A machine without a bus."""
    with _home() as home:
        yield Session(home, _environ(home))


@pytest.fixture
def dead_keyring() -> Iterator[Session]:
    """A bus address behind which nobody listens any more."""
    with _home() as home:
        yield Session(home, _environ(home, DBUS_SESSION_BUS_ADDRESS=f"unix:path={home / 'gone'}"))


@pytest.fixture
def silent_keyring() -> Iterator[Session]:
    """A bus that accepts every connection and never says a word."""
    with _home() as home, _mute(home / "bus") as address:
        yield Session(home, _environ(home, DBUS_SESSION_BUS_ADDRESS=address))


@contextlib.contextmanager
def _mute(path: Path) -> Iterator[str]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(64)
    ours, theirs = socket.socketpair()
    accepted: list[socket.socket] = []

    def accept() -> None:
        while listener in select.select([listener, theirs], [], [])[0]:
            accepted.append(listener.accept()[0])

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"unix:path={path}"
    finally:
        ours.send(b".")
        thread.join(5)
        for one in (listener, ours, theirs, *accepted):
            one.close()
