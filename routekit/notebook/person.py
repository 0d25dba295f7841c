"""Questions to the person at the notebook, for verbs that must ask. It shows nothing else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..errors import UsageError


class Person:
    """``commands.report.Io`` over the front end's own input field. Secrets are typed hidden and never become output."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    @property
    def interactive(self) -> bool:
        kernel = getattr(self._shell, "kernel", None)
        if kernel is not None:
            return bool(getattr(kernel, "_allow_stdin", False))
        return sys.stdin is not None and sys.stdin.isatty()

    def say(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")

    def show(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")

    def ask(self, question: str, *, default: str | None = None, choices: Sequence[str] = ()) -> str:
        self._need(question)
        while True:
            answer = input(f"{question} [{default}]: " if default else f"{question}: ").strip() or (default or "")
            if answer and (not choices or answer in choices):
                return answer
            self.say(f"one of: {', '.join(choices)}" if choices else "an answer is needed")

    def secret(self, question: str) -> str:
        self._need(question)
        import getpass

        # By its module: a kernel puts its own hidden field there.
        return getpass.getpass(f"{question} (not shown): ")

    def confirm(self, question: str, *, default: bool = True) -> bool:
        answer = self.ask(f"{question} (y/n)", default="y" if default else "n", choices=("y", "n", "yes", "no"))
        return answer.startswith("y")

    def _need(self, question: str) -> None:
        if not self.interactive:
            raise UsageError(f"this needs an answer, and this notebook can give none: {question}")
