"""A person at a terminal, as verbs meet one: gives the answers prepared, and remembers what was said and asked."""

from __future__ import annotations

from collections.abc import Sequence

from routekit.errors import UsageError


class Person:
    """``None`` among the answers is Ctrl-D, an empty one takes the default."""

    def __init__(self, answers: Sequence[str | None]) -> None:
        self.answers = list(answers)
        self.interactive = bool(answers)
        self.said: list[str] = []
        self.shown: list[str] = []
        self.asked: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, text: str) -> None:
        self.shown.append(text)

    def _next(self, question: str) -> str:
        self.asked.append(question)
        if not self.interactive:
            raise UsageError(f"nobody is there to answer: {question}")
        assert self.answers, f"an answer too few for: {question}"
        answer = self.answers.pop(0)
        if answer is None:
            raise UsageError(f"no answer to: {question}")
        return answer

    def ask(self, question: str, *, default: str | None = None, choices: Sequence[str] = ()) -> str:
        answer = self._next(question) or default or ""
        assert not choices or answer in choices, (question, answer)
        return answer

    def secret(self, question: str) -> str:
        return self._next(question) if self.interactive else ""

    def confirm(self, question: str, *, default: bool = True) -> bool:
        answer = self._next(question)
        return answer.startswith("y") if answer else default
