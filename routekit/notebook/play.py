"""A question played in the background while the cell's own thread shows it. It decides nothing and keeps nothing.

The cell's thread never blocks on the network, so an interrupt reaches it at once; it then cancels the request, waits
until the connection is closed, and ends the cell with one line.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..loop import Background
    from .display import Screen

#: how long a cancelled request may take to close its connection and write its record, in seconds
FAREWELL = 0.2


class Interrupted(KeyboardInterrupt):
    """The person has stopped the answer. No ``except Exception`` of a loop around it goes on to the next question."""

    def _render_traceback_(self) -> list[str]:
        return [f"Interrupted: {self}"]


class _End:
    """The happenings are over."""


def play(happenings: AsyncGenerator[Any, None], *, background: Background, screen: Screen) -> None:
    """Every happening to the screen, as it happens. Raises what the request raises, or ``Interrupted``."""
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    over = threading.Event()
    future = background.start(_feed(happenings, inbox, over))
    stopped = False
    try:
        _show(inbox, screen)
    except KeyboardInterrupt:
        stopped = True
        future.cancel()
        over.wait(FAREWELL)
        _drain(inbox, screen)
    except BaseException:
        future.cancel()
        raise
    if stopped:
        raise Interrupted("stopped; what had come is kept" if screen.text else "stopped before anything came") from None
    future.result()


async def _feed(happenings: AsyncGenerator[Any, None], inbox: queue.SimpleQueue[Any], over: threading.Event) -> None:
    from contextlib import aclosing

    try:
        async with aclosing(happenings) as steps:
            async for step in steps:
                inbox.put(step)
    finally:
        inbox.put(_End)
        over.set()


def _show(inbox: queue.SimpleQueue[Any], screen: Screen) -> None:
    while True:
        try:
            step = inbox.get(timeout=screen.tick())
        except queue.Empty:
            continue
        if step is _End:
            return
        screen.take(step)


def _drain(inbox: queue.SimpleQueue[Any], screen: Screen) -> None:
    while not inbox.empty():
        step = inbox.get_nowait()
        if step is not _End:
            screen.take(step)
