"""What can stand where a name is being typed: from config and memory only, never from the network or the keyring."""

from __future__ import annotations

import os
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


def _options(_: Context) -> list[str]:
    return list(OPTIONS)


def _profiles(context: Context) -> list[str]:
    from ..config.demo import NAME

    folder = context.router.paths.profiles_dir
    try:
        files = sorted(os.listdir(folder))
    except OSError:
        files = []
    return list(dict.fromkeys([*(name.removesuffix(".toml") for name in files if name.endswith(".toml")), NAME]))


def _vendors(_: Context) -> list[str]:
    from ..vendors.presets import PRESETS

    return list(PRESETS)


def _shells(_: Context) -> list[str]:
    from .completion import SHELLS

    return list(SHELLS)


def _selections(context: Context) -> list[str]:
    return list(context.router.registry.names())


#: model options that every vendor's API has in some form, under the names routekit takes, and values to begin with
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "temperature": ("0", "0.2", "0.7", "1"),
    "max_tokens": ("256", "1024", "4096"),
    "reasoning_effort": ("minimal", "low", "medium", "high"),
    "top_p": ("0.9", "1"),
    "stop": (),
    "seed": ("1",),
}


def second(what: str, first: str, typed: str) -> list[str]:
    """The second word of an option that takes two, once the first is typed."""
    values = OPTIONS.get(first, ()) if what == "options" else TYPES
    return [value for value in values if value.startswith(typed)]


#: what ``--at`` may say
TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")

SOURCES: Mapping[str, Callable[[Context], list[str]]] = {
    "references": _references,
    "routes": _routes,
    "providers": _providers,
    "credentials": _credentials,
    "conversations": _conversations,
    "entries": _entries,
    "options": _options,
    "profiles": _profiles,
    "vendors": _vendors,
    "shells": _shells,
    "selections": _selections,
}
