"""``routekit.ask`` and its kin: one shared ``Router`` over the user's configuration. It adds nothing of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Iterator
from functools import cache
from typing import Any

from .answer import Answer
from .core.chat import Delta
from .core.select import Factory
from .router import Router

_opening = threading.Lock()


@cache
def _opened(process: int) -> Router:
    return Router.open()


def router() -> Router:
    """The shared router; a forked child gets one of its own, since sockets and loops do not survive a fork."""
    with _opening:
        return _opened(os.getpid())


def ask(prompt: Any, **how: Any) -> Answer:
    """Ask the default route, or ``model=``. Blocks; works inside a running event loop and from threads. ``prompt`` is
    text or messages in the OpenAI chat shape. Raises ``RoutekitError``; its ``exit_code`` and ``attempts`` say why."""
    return router().ask(prompt, **how)


async def aask(prompt: Any, **how: Any) -> Answer:
    """As ``ask``, for ``await``."""
    return await router().aask(prompt, **how)


def stream(prompt: Any, **how: Any) -> Iterator[Delta]:
    """The answer's pieces as they come. Closing the iterator closes the upstream."""
    return router().stream(prompt, **how)


def astream(prompt: Any, **how: Any) -> AsyncGenerator[Delta, None]:
    """As ``stream``, for ``async for``."""
    return router().astream(prompt, **how)


def register(name: str, factory: Factory) -> None:
    """Make a selection algorithm known to the shared router under a name configs may use."""
    router().registry.register(name, factory)
