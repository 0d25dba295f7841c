"""The event loop routekit runs on, and work that may block beside it. It decides nothing.

Everything that can hang for ever — a resolver, a keyring, an import — runs in a raw daemon thread: the default executor
joins its threads at exit, so one stuck look-up would hold the whole process.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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
    """Run a coroutine to its end on a ``Loop`` of its own. Ctrl-C cancels it and is raised after it has cleaned up."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(main)


class Background:
    """One private loop in a daemon thread, for callers that block: notebooks, scripts, threads, running loops."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = Loop()
                threading.Thread(target=self._loop.run_forever, name="routekit-loop", daemon=True).start()
            return self._loop

    def call(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait; an interrupt of the waiting thread cancels it."""
        future = asyncio.run_coroutine_threadsafe(main, self.loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, *, patience: float = 1.0) -> None:
        """Cancel what still runs, wait at most ``patience`` seconds for it, and stop the loop."""
        loop, self._loop = self._loop, None
        if loop is None:
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
