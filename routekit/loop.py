"""The event loop routekit runs on, and work that may block beside it. It decides nothing.

Everything that can hang for ever — a resolver, a keyring, an import — runs in a raw daemon thread: the default executor
joins its threads at exit, so one stuck look-up would hold the whole process.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

from .errors import RoutekitError, UsageError

T = TypeVar("T")
#: how long a cancelled question may take to close what it opened, in seconds
CLEANING_UP = 1.0


async def beside(work: Callable[[], T], *, name: str = "routekit-beside") -> T:
    """Run ``work`` in a daemon thread and wait for it. Cancelling stops the wait at once, not the thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            outcome: tuple[T | None, BaseException | None] = (work(), None)
        except BaseException as error:
            outcome = (None, error)
        try:
            loop.call_soon_threadsafe(deliver, *outcome)
        except RuntimeError:
            # The loop has closed: nobody waits any more.
            return

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future


class Loop(asyncio.SelectorEventLoop):
    """A selector loop whose name look-ups can be walked away from."""

    async def getaddrinfo(self, host: Any, port: Any, **more: Any) -> Any:
        return await beside(lambda: socket.getaddrinfo(host, port, **more), name="routekit-resolver")

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> Any:
        return await beside(lambda: socket.getnameinfo(sockaddr, flags), name="routekit-resolver")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a ``Loop`` of its own. Ctrl-C cancels it and is raised after it has cleaned up.
    Where a loop is running already (a notebook's cell), it is played in a thread beside that."""
    if not _running():
        with asyncio.Runner(loop_factory=Loop) as runner:
            return runner.run(main)
    background = Background()
    try:
        return background.call(main)
    finally:
        background.close()


def _running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Background:
    """One private loop in a daemon thread, for callers that block: notebooks, scripts, threads, running loops. A forked
    child gets a loop of its own: no thread survives a fork. At the interpreter's end what still runs is cancelled."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        if self._process != os.getpid():
            self._forget()
        with self._lock:
            if self._loop is None:
                self._loop = Loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="routekit-loop", daemon=True)
                self._thread.start()
                atexit.register(_close, weakref.ref(self))
            return self._loop

    @property
    def inside(self) -> bool:
        """Whether the caller is the loop itself, which must not wait for itself."""
        return self._thread is threading.current_thread()

    def call(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait. An interrupt of the waiting thread cancels it, and is raised once it has
        cleaned up, or a second later."""
        loop, ended = self.loop(), threading.Event()
        if self.inside:
            main.close()
            raise UsageError("a blocking call was made on routekit's own loop: use the async form there")
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            tasks.append(loop.create_task(main))
            tasks[0].add_done_callback(lambda _: ended.set())

        loop.call_soon_threadsafe(start)
        try:
            ended.wait()
        except BaseException:
            loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            ended.wait(CLEANING_UP)
            raise
        if tasks[0].cancelled():
            raise RoutekitError("routekit was closed while it was being asked") from None
        return tasks[0].result()

    def start(self, main: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there and do not wait for it; cancelling the future cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(main, self.loop())

    def finish(self, main: Coroutine[Any, Any, None]) -> None:
        """As ``call``; on the loop itself (a collector may run anywhere) it is only started."""
        loop = self.loop()
        if self.inside:
            loop.create_task(main)
        else:
            self.call(main)

    def close(self, *, patience: float = CLEANING_UP) -> None:
        """Cancel what still runs, wait at most ``patience`` seconds for it, and stop the loop."""
        loop, self._loop = self._loop, None
        if loop is None or self._process != os.getpid():
            return

        async def end() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        try:
            asyncio.run_coroutine_threadsafe(end(), loop).result(timeout=patience)
        except TimeoutError:
            pass
        finally:
            loop.call_soon_threadsafe(loop.stop)


def _close(background: weakref.ref[Background]) -> None:
    found = background()
    if found is not None:
        found.close()
