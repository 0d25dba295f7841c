"""``routekit.ask`` and its kin: one shared ``Router`` over the user's configuration. It adds nothing of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from .answer import Answer
from .core.chat import Delta
from .core.select import Factory, Registry, built_in
from .router import Router

if TYPE_CHECKING:
    from typing import Unpack

    from .keywords import How


class Shared:
    """The router all calls share, opened at the first; and the algorithms registered for it, perhaps before. A forked
    child gets a router of its own, since sockets and loops do not survive a fork."""

    def __init__(self) -> None:
        self.registry: Registry = built_in()
        self._router: Router | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()

    def router(self) -> Router:
        if self._process != os.getpid():
            # a thread that does not exist here may have held the old lock
            self._lock, self._router, self._process = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._router is None:
                known = built_in()
                names = [name for name in self.registry.names() if not known.has(name)]
                self._router = Router.open(algorithms={name: self.registry.resolve(name) for name in names})
            return self._router

    def register(self, name: str, factory: Factory) -> None:
        self.registry.register(name, factory)
        if self._router is not None and self._process == os.getpid():
            self._router.registry.register(name, factory)


@cache
def shared() -> Shared:
    return Shared()


def router() -> Router:
    """The shared router. Raises ``ConfigError``."""
    return shared().router()


def ask(prompt: Any, **how: Unpack[How]) -> Answer:
    """Ask the default route, or ``model=``. Blocks; works inside a running event loop and from threads. ``prompt`` is
    text or messages in the OpenAI chat shape. Raises ``RoutekitError``; its ``exit_code`` and ``attempts`` say why."""
    return router().ask(prompt, **how)


async def aask(prompt: Any, **how: Unpack[How]) -> Answer:
    """As ``ask``, for ``await``."""
    return await router().aask(prompt, **how)


def stream(prompt: Any, **how: Unpack[How]) -> Iterator[Delta]:
    """The answer's pieces as they come. Closing the iterator closes the upstream."""
    return router().stream(prompt, **how)


def astream(prompt: Any, **how: Unpack[How]) -> AsyncGenerator[Delta, None]:
    """As ``stream``, for ``async for``."""
    return router().astream(prompt, **how)


def register(name: str, factory: Factory) -> None:
    """Make a selection algorithm known to the shared router, under a name that configurations may use; best before the
    first question, since only then a configuration that names it can be read. Raises ``UsageError``
    for a name taken."""
    shared().register(name, factory)
