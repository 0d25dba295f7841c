"""``routekit chat`` in the shell: lends the conversation its streams, and ends the process when the person leaves."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ..commands.report import Context, Report
from ..commands.table import ASK
from ..errors import EX_PIPE, RoutekitError
from . import render
from .boundary import guarded, leave
from .manner import Manner
from .screen import Screen

#: how often the waiting line may move while nothing comes, in seconds
TICK = 0.1


def show(context: Context, given: Mapping[str, Any]) -> int:
    from ..repl.shell import start

    asked = dict(given)
    how = _manner(asked)

    def talk() -> int:
        try:
            return start(context, asked, terminal=Lent(how))
        except BrokenPipeError:
            render.silence_stdout()
            return EX_PIPE
        finally:
            context.close()

    return leave(guarded(sys.argv, talk, clean=context.router.clean))


def _manner(asked: dict[str, Any]) -> Manner:
    """How answers are shown: as ``ask`` would, where ``chat`` has no option of its own for it."""
    full = {row.name: () if row.many else False if row.kind == "flag" else row.default for row in ASK.options}
    full |= asked
    before = set(full)
    how = Manner(full)
    for name in before - set(full):
        asked.pop(name, None)
    return how


class Lent:
    """``repl.chat.Terminal`` over the process's own streams."""

    def __init__(self, how: Manner) -> None:
        self._how = how

    @property
    def live(self) -> bool:
        return self._how.live

    @property
    def interactive(self) -> bool:
        return sys.stdin is not None and sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())

    def note(self, text: str) -> None:
        render.note(text)

    def say(self, text: str) -> None:
        render.complain(text)

    def report(self, report: Report) -> None:
        render.report(report, as_json=False)

    def failure(self, error: RoutekitError) -> None:
        render.failure(error)

    def bug(self, error: Exception) -> int:
        def again() -> int:
            raise error

        return guarded(sys.argv, again)

    def busy(self) -> AbstractContextManager[None]:
        return quiet_keys()

    def screen(self, asked: str) -> Talking:
        return Talking(self._how, asked)


@contextmanager
def quiet_keys() -> Iterator[None]:
    """While an answer comes, what is typed is kept for the next line and not shown within the answer; Enter stays what
    it is at the prompt. Ctrl-C and Ctrl-Z stay what they are."""
    try:
        import termios
    except ImportError:  # Windows has another kind of terminal
        yield
        return
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin.fileno())
    during = [*before]
    during[0] &= ~termios.ICRNL
    during[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, during)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)


class Talking(Screen):
    """One answer of a conversation."""

    def tick(self) -> float:
        self.waiting.pulse()
        return TICK
