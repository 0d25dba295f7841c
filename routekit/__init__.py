"""Calls to language models through names you own: routed, failed over, explained. Nothing heavy is loaded at import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

#: public name → the module below this package that holds it
_HOMES = {
    "__version__": "version",
    "Answer": "answer",
    "BudgetExceeded": "errors",
    "ConfigError": "errors",
    "CredentialError": "errors",
    "RequestRefused": "errors",
    "RouteExhausted": "errors",
    "Router": "router",
    "RoutekitError": "errors",
    "Session": "session",
    "StateError": "errors",
    "TruncatedAnswer": "errors",
    "UsageError": "errors",
    "aask": "simple",
    "ask": "simple",
    "astream": "simple",
    "attachment": "attachments",
    "register": "simple",
    "stream": "simple",
    "testing": "testing",
}

__all__ = [
    "Answer",
    "BudgetExceeded",
    "ConfigError",
    "CredentialError",
    "RequestRefused",
    "RouteExhausted",
    "RoutekitError",
    "Router",
    "Session",
    "StateError",
    "TruncatedAnswer",
    "UsageError",
    "__version__",
    "aask",
    "ask",
    "astream",
    "attachment",
    "register",
    "stream",
    "testing",
]

if TYPE_CHECKING:
    from . import testing
    from .answer import Answer
    from .attachments import attachment
    from .errors import (
        BudgetExceeded,
        ConfigError,
        CredentialError,
        RequestRefused,
        RouteExhausted,
        RoutekitError,
        StateError,
        TruncatedAnswer,
        UsageError,
    )
    from .router import Router
    from .session import Session
    from .simple import aask, ask, astream, register, stream
    from .version import __version__
else:
    # hidden from type checkers, which would take any name for one of ours
    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'routekit' has no attribute '{name}'")
        from importlib import import_module

        home = import_module(f".{_HOMES[name]}", __name__)
        return home if name == _HOMES[name] else getattr(home, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext routekit``"""
    from .notebook.magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext routekit``"""
    from .notebook.magics import unload

    unload(shell)
