"""What can stand where a name is being typed: from config and memory only, never from the network or the keyring."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import RoutekitError
from .report import Context


def candidates(context: Context, what: str, typed: str) -> list[str]:
    """Names that begin with what is typed. A broken config completes to nothing: this is no place for errors."""
    try:
        names = SOURCES[what](context)
    except RoutekitError:
        return []
    finally:
        context.close()
    return [name for name in names if name.startswith(typed)]


def _references(context: Context) -> list[str]:
    return context.router.models()


def _routes(context: Context) -> list[str]:
    return list(context.router.config.routes)


def _providers(context: Context) -> list[str]:
    config = context.router.config
    return [*config.providers, *config.synthetic_providers]


def _credentials(context: Context) -> list[str]:
    from .keys import names

    return names(context.router)


def _conversations(context: Context) -> list[str]:
    from .logs import conversations

    return conversations(context.router)


def _entries(context: Context) -> list[str]:
    from .logs import known

    return known(context.router)


def _options(context: Context) -> list[str]:
    """Names of model options that every vendor understands, in words of ours."""
    return list(OPTIONS)


#: the options that are known under the same name everywhere, and values that fit them
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "temperature": ("0", "0.2", "0.7", "1"),
    "max_tokens": ("256", "1024", "4096"),
    "reasoning_effort": ("minimal", "low", "medium", "high"),
    "top_p": ("0.9", "1"),
    "stop": (),
    "seed": ("1",),
}

SOURCES: Mapping[str, Callable[[Context], list[str]]] = {
    "references": _references,
    "routes": _routes,
    "providers": _providers,
    "credentials": _credentials,
    "conversations": _conversations,
    "entries": _entries,
    "options": _options,
}
