"""The one line that moves: who is being waited for, and how long already. It is wiped before all else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from ..core.health import duration
from .look import Look, stripped

#: nobody needs to be told of a shorter wait, in seconds
PATIENCE = 0.3
EVERY = 0.1
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Waiting:
    """Call ``pulse`` ten times a second, or have ``run`` do that; ``wipe`` before writing anything beside it. Where the
    stream's look does not move, nothing is ever written."""

    def __init__(self, stream: TextIO, look: Look, what: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._look, self._clock = stream, look, clock
        #: shown without what a terminal must not see
        self.what = what
        self._since = clock()
        self._shown = 0
        self._frame = 0
        #: held while the line is drawn by a thread of its own: whoever writes beside it wipes it first, under this
        self.lock = threading.RLock()
        #: whether there is something to wait for
        self.on = True

    def restart(self, what: str) -> None:
        """Wait for something else, from now on."""
        self.wipe()
        self.what, self._since, self.on = what, self._clock(), True

    def stop(self) -> None:
        self.wipe()
        self.on = False

    def pulse(self) -> None:
        waited = self._clock() - self._since
        if not (self.on and self._look.moves) or waited < PATIENCE:
            return
        frame = FRAMES[self._frame % len(FRAMES)]
        self._frame += 1
        what = stripped(self.what).replace("\n", " ")
        text = f"{frame} {what} {duration(waited)}"[: max(0, self._look.width - 1)]
        self._put("\r" + text + " " * max(0, self._shown - len(text)))
        self._shown = len(text)

    def wipe(self) -> None:
        """Leave the line empty, and the cursor at its beginning. Without escape sequences: no colour is asked for."""
        if self._shown:
            # An interrupt's ^C stands behind it.
            self._put("\r" + " " * min(self._shown + 2, self._look.width - 1) + "\r")
            self._shown = 0

    async def run(self) -> None:
        """Pulse until cancelled."""
        import asyncio

        try:
            while self._look.moves:
                await asyncio.sleep(EVERY)
                self.pulse()
        finally:
            self.wipe()

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._look = Look()


@contextmanager
def busy(stream: TextIO, look: Look, what: str) -> Iterator[Waiting]:
    """A waiting line beside work that blocks. Whoever writes meanwhile wipes it first, holding its ``lock``."""
    if not look.moves:
        yield Waiting(stream, look, what)
        return
    line, done = Waiting(stream, look, what), threading.Event()

    def pulse() -> None:
        while not done.wait(EVERY):
            with line.lock:
                line.pulse()

    thread = threading.Thread(target=pulse, name="routekit-waiting", daemon=True)
    thread.start()
    try:
        yield line
    finally:
        done.set()
        thread.join()
        line.wipe()
