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


SOURCES: Mapping[str, Callable[[Context], list[str]]] = {
    "references": _references,
    "routes": _routes,
    "providers": _providers,
    "credentials": _credentials,
}
