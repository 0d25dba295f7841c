"""Runs the command a key comes from, under a deadline. It is started for a dispatch and by nothing else."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from ..core.keyref import KEY_SHAPE, MASK
from ..errors import CredentialError
from .redact import Redactor
from .secret import LONGEST, Secret, checked


class Job:
    """One look-up, as far as somebody else may have to end it: the running command, if any."""

    def __init__(self) -> None:
        self.abandoned = False
        self.process: Any = None

    def started(self, process: Any) -> None:
        self.process = process
        if self.abandoned:
            self.abandon()

    def abandon(self) -> None:
        self.abandoned = True
        if self.process is not None and self.process.poll() is None:
            _kill(self.process)


def run(command: str, *, environ: Mapping[str, str], deadline: float, job: Job) -> Secret:
    """Runs the command in the shell (people write pipes), in a process group of its own, away from our terminal's
    input: a Ctrl-C meant for us must not reach it, and its end must take what it started along."""
    import subprocess

    try:
        process = subprocess.Popen(
            command, shell=True, env=dict(environ), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        raise _failed(command, f"could not be started: {error.strerror}") from None
    job.started(process)
    output, complaint = _Drain(process.stdout), _Drain(process.stderr)
    try:
        code = process.wait(deadline)
    except subprocess.TimeoutExpired:
        raise _failed(command, f"gave no answer in {deadline:g} s", state="silent") from None
    finally:
        job.abandon()
    printed = Secret(output.text(), f"cmd {shown(command)}")
    if code or not printed.reveal().strip():
        what = f"failed with exit code {code}" if code else "printed nothing"
        raise _failed(command, what + _complaint(complaint.text(), printed))
    return checked(printed, hints=[f"{shown(command)} | head -n 1"])


def _failed(command: str, what: str, *, state: str = "absent") -> CredentialError:
    return CredentialError(f"the key command '{shown(command)}' {what}", state=state, hints=[shown(command)])


def _complaint(stderr: str, printed: Secret) -> str:
    """What the command said on stderr, on one line, without anything it said on stdout."""
    redactor = Redactor(Secret(line.strip()) for line in printed.reveal().splitlines())
    words = " ".join(redactor.clean(stderr).split())[:400]
    return f": {words}" if words else ""


def shown(command: str) -> str:
    line = " ".join(KEY_SHAPE.sub(MASK, command).split())
    return line if len(line) <= 120 else line[:119] + "…"


class _Drain:
    """Reads a pipe to its end in a daemon thread and keeps the beginning, however much is printed."""

    def __init__(self, pipe: Any) -> None:
        self._kept = b""
        self._pipe = pipe
        self._thread = threading.Thread(target=self._read, name="routekit-drain", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while piece := self._pipe.read1(65_536):
                self._kept = (self._kept + piece)[: 4 * LONGEST]

    def text(self) -> str:
        # Something the command left running may hold the pipe open for ever.
        self._thread.join(0.5)
        return self._kept.decode("utf-8", "replace")


def _kill(process: Any) -> None:
    import subprocess

    try:
        if sys.platform == "win32":
            process.kill()
        else:
            import signal

            os.killpg(process.pid, signal.SIGKILL)
        process.wait(1.0)
    except (OSError, subprocess.TimeoutExpired):
        # Gone already, or not to be ended: there is nothing more to do.
        return
