"""A question played in the background while the person's own thread shows it. It decides nothing and keeps nothing.

The thread of the terminal or cell never waits for the network, so an interrupt reaches it at once; the request is then
cancelled, and nobody waits long for the connection's farewell.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .loop import Background

#: how long a cancelled request may keep the person waiting for its connection's end, in seconds
FAREWELL = 0.15
#: how long the next question waits until a cancelled one is in the history, in seconds
PATIENCE = 3.0


class End:
    """The happenings are over."""


class Play:
    """One question under way. ``settle`` must be called before the next one."""

    def __init__(self, happenings: AsyncGenerator[Any, None], background: Background) -> None:
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._over = threading.Event()
        self._future: Future[None] = background.start(self._feed(happenings))

    async def _feed(self, happenings: AsyncGenerator[Any, None]) -> None:
        from contextlib import aclosing

        try:
            async with aclosing(happenings) as steps:
                async for step in steps:
                    self._inbox.put(step)
        finally:
            self._inbox.put(End)
            self._over.set()

    def show(self, take: Callable[[Any], None], tick: Callable[[], float]) -> None:
        """Every happening to ``take``, as it happens; ``tick`` is called before each wait, and says for how many
        seconds nothing need move. Raises what the request raises; whatever else ends this (an interrupt, a closed pipe)
        cancels the request."""
        try:
            self._steps(take, tick)
        except BaseException:
            self._future.cancel()
            self._over.wait(FAREWELL)
            raise
        self._future.result()

    def _steps(self, take: Callable[[Any], None], tick: Callable[[], float]) -> None:
        while True:
            try:
                step = self._inbox.get(timeout=tick())
            except queue.Empty:
                continue
            if step is End:
                return
            take(step)

    def rest(self, take: Callable[[Any], None]) -> None:
        """What had come before the end of a cancelled request, and was not shown yet."""
        while not self._inbox.empty():
            step = self._inbox.get_nowait()
            if step is not End:
                take(step)

    def settle(self) -> None:
        """Wait until what was said is in the history."""
        self._over.wait(PATIENCE)
