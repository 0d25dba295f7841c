"""What a person should be told once: about the config in force, the mode without a file. It prints nothing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..core.config import Config
from ..core.words import plural
from ..router import Router


def due(router: Router) -> list[str]:
    """The lines to show before a question: what became of a configuration that changed, what was used where there is no
    file, and each warning once per config."""
    config = router.refresh()
    return [*router.take_notices(), *_of(router, config)]


def _of(router: Router, config: Config) -> list[str]:
    if config.mode == "environment":
        names = ", ".join(config.providers)
        return [f"no config file; using {names} from the environment (routekit init makes a file)"]
    if not config.warnings or not _first_time(router, f"warned:{config.digest}"):
        return []
    lines = [str(problem) for problem in config.warnings]
    return [*lines[:5], *([f"{plural(len(lines) - 5, 'more warning')}: routekit config check"] if lines[5:] else [])]


def _first_time(router: Router, key: str) -> bool:
    now = router.now()

    def step(values: Mapping[str, bytes]) -> tuple[bool, dict[str, bytes | None]]:
        return key not in values, {} if key in values else {key: msgspec.json.encode(now)}

    return router.store.transact([key], step)
