"""Questions to the person at the terminal, for verbs that must ask. It shows nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import CredentialError, UsageError
from ..files import bound
from ..terminal.look import safe, stripped
from . import render

if TYPE_CHECKING:
    from ..terminal.waiting import Waiting


#: more bytes than any key has
LONGEST = 64 * 1024


def _piped_key() -> bytes:
    raw = sys.stdin.buffer.read(LONGEST + 1) if sys.stdin is not None else b""
    if len(raw) > LONGEST:
        raise CredentialError(
            f"standard input is larger than {bound(LONGEST)}, which no key is; nothing was stored", state="invalid"
        )
    return raw


class Person:
    """``commands.report.Io`` over the process's own terminal."""

    def __init__(self) -> None:
        self._line: Waiting | None = None

    @property
    def interactive(self) -> bool:
        return sys.stdin is not None and sys.stdin.isatty()

    def say(self, text: str) -> None:
        with self._alone():
            render.complain(text)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """A line that moves, on a terminal, for as long as it takes."""
        from ..terminal.look import look
        from ..terminal.waiting import busy

        with busy(sys.stderr, look(sys.stderr, os.environ), what) as line:
            self._line = line
            try:
                yield
            finally:
                self._line = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While something is written, the moving line is not."""
        line = self._line
        if line is None:
            yield
            return
        with line.lock:
            line.wipe()
            yield

    def show(self, text: str) -> None:
        with self._alone():
            render.write(text + "\n")

    def ask(self, question: str, *, default: str | None = None, choices: Sequence[str] = ()) -> str:
        self._need(question)
        shown = f"{question} [{default}]: " if default else f"{question}: "
        while True:
            sys.stderr.write(safe(shown, sys.stderr))
            sys.stderr.flush()
            line = sys.stdin.readline()
            if not line:
                raise self._left(question)
            answer = line.strip() or (default or "")
            if answer and (not choices or answer in choices):
                return answer
            render.complain(f"one of: {', '.join(choices)}" if choices else "an answer is needed")

    def secret(self, question: str) -> str:
        if not self.interactive:
            # Bytes: what is no UTF-8 is no key either, and is refused in words.
            return _piped_key().decode("utf-8", "replace")
        import getpass

        try:
            return getpass.getpass(stripped(f"{question} (not shown): "), stream=sys.stderr)
        except EOFError:
            raise self._left(question) from None

    def confirm(self, question: str, *, default: bool = True) -> bool:
        answer = self.ask(f"{question} (y/n)", default="y" if default else "n", choices=("y", "n", "yes", "no"))
        return answer.startswith("y")

    def _left(self, question: str) -> UsageError:
        """Ctrl-D leaves the cursor behind the question."""
        render.complain("")
        return UsageError(f"no answer to: {question}")

    def _need(self, question: str) -> None:
        if not self.interactive:
            raise UsageError(f"this needs an answer, and there is no terminal to give it: {question}")
