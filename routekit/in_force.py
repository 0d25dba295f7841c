"""The configuration in force: read at its first use, and again when its files change. A version that is broken never
replaces a good one, and it asks no vendor and opens no memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from .config import demo
from .config import file as config_file
from .config.convert import Vendors
from .config.paths import Paths
from .config.sources import Merged
from .config.watch import Live, Watch, can_be_read_again
from .core.config import Config
from .credentials import read_ledger
from .errors import ConfigError, RoutekitError
from .vendors.presets import API_DEFAULTS, PRESETS


class InForce:
    """``selections``: the names of algorithms it may use. ``replaced`` is told of a new version (before, after) when it
    is about to take the place of an older one. ``config``: a configuration that comes from no file."""

    def __init__(
        self,
        paths: Paths,
        *,
        environ: Mapping[str, str],
        profile: str | None,
        patches: Sequence[str],
        selections: Collection[str],
        replaced: Callable[[Config, Config], None],
        now: Callable[[], float],
        config: Config | None = None,
    ) -> None:
        self._paths, self._environ = paths, environ
        self._profile, self._patches = profile, tuple(patches)
        self._selections, self._replaced, self._now = selections, replaced, now
        self._config = config
        self._watch: Watch | None = None
        self._live = Live(digest=config.digest if config else "", loaded_at=now(), mode="given")
        self._notices: list[str] = []

    def setting(self, *, allow_scripted: bool = False) -> config_file.Setting:
        """What a configuration may name: vendors and selections."""
        return config_file.Setting(
            vendors=Vendors(presets=PRESETS, defaults=API_DEFAULTS),
            selections=self._selections,
            allow_scripted=allow_scripted,
        )

    def give(self, config: Config) -> None:
        """Put a configuration that comes from no file in force."""
        self._config = config
        self._live = msgspec.structs.replace(self._live, digest=config.digest)

    @property
    def config(self) -> Config:
        """The configuration as it was last read; read now if it never was."""
        if self._config is None:
            watch = Watch(self._watched())
            look = watch.look()
            self._config = config_file.checked(self.inspect(), own=self._paths.config_file)
            watch.good(look)
            self._watch = watch if can_be_read_again(watch.files) else None
            self._live = _live(self._config, self._now())
        return self._config

    def _watched(self) -> list[str]:
        """The files that make the configuration, also those that are not there yet: where there is no file, the ledger
        of keys says which vendors exist."""
        name = self._named
        named = [self._paths.profile(name)] if name else []
        own = [] if self._is_demo(name) else [self._paths.config_file]
        ledger = [self._paths.keys] if self.unconfigured else []
        return [*own, *named, *self._patches, *ledger]

    def refresh(self) -> Config:
        """As ``config``, but read again if one of its files changed since. A version that is broken does not replace
        the one in force, and that is said once (``take_notices``, ``live``). Raises ``ConfigError`` only where no
        configuration was ever in force."""
        before, watch = self.config, self._watch
        if watch is None or not watch.changed():
            return before
        look = watch.look()
        watch.seen(look)
        try:
            missing = watch.lost(before.files)
            if missing:
                raise ConfigError(missing, hints=["routekit config path"])
            fresh = config_file.checked(self.inspect(), own=self._paths.config_file)
        except RoutekitError as error:
            self._reject(error)
        else:
            watch.good(look)
            self._replace(before, fresh)
        return self.config

    def _replace(self, before: Config, fresh: Config) -> None:
        if self._live.rejected:
            self._notices.append("the configuration can be used again, and is")
        self._replaced(before, fresh)
        self._live = _live(fresh, self._now() if fresh.digest != before.digest else self._live.loaded_at)
        self._config = fresh

    def _reject(self, error: RoutekitError) -> None:
        words = "; ".join([error.message, *error.details])
        if words == self._live.rejected:
            return
        since = time.strftime("%H:%M:%S", time.localtime(self._live.loaded_at))
        told = error.details[0] if error.details else error.message
        self._notices.append(f"the version of {since} stays in use: {told}; try: routekit config check")
        self._live = msgspec.structs.replace(self._live, rejected=words, rejected_at=self._now())

    def live(self) -> Live:
        """Which version is in force since when, and what is wrong with a newer one that is not."""
        self.refresh()
        return self._live

    def take_notices(self) -> list[str]:
        """What happened to the configuration since this was last asked; each is given once."""
        taken, self._notices = self._notices, []
        return taken

    def inspect(self, *, stored: Collection[str] | None = None) -> config_file.Reading:
        """The configuration as its files are now, its problems as values. Raises ``ConfigError`` where there is none.
        ``stored``: the keys to take as present where there is no file, instead of those known to be."""
        return config_file.inspect(
            self._paths,
            setting=self.setting(),
            environ=self._environ,
            profile=self._profile,
            patches=self._patches,
            stored=tuple(read_ledger(Path(self._paths.keys))) if stored is None else stored,
        )

    def files(self) -> list[str]:
        """The files in force, outermost last; the demo and the environment have none. Raises ``ConfigError`` where one
        that was named is not there."""
        name = self._named
        if self._is_demo(name):
            return list(self._patches)
        return config_file.files_in_force(self._paths, profile=name, patches=self._patches)

    def overlaid(self) -> Merged:
        """What the files in force say, not judged: for the little that must work with a broken configuration, and to
        find the lines of things."""
        return config_file.overlaid(self.files())

    @property
    def unconfigured(self) -> bool:
        """Whether no file, profile or patch says anything: the environment alone is the configuration."""
        asked = self._paths.named or self._named or self._patches
        return not asked and not os.path.lexists(self._paths.config_file)

    @property
    def _named(self) -> str | None:
        """The profile that is asked for."""
        return self._profile or self._environ.get("ROUTEKIT_PROFILE") or None

    def _is_demo(self, name: str | None) -> bool:
        """Whether the profile of that name is the one that comes with routekit: a file of the same name precedes it."""
        return name == demo.NAME and not os.path.lexists(self._paths.profile(name))


def _live(config: Config, since: float) -> Live:
    return Live(digest=config.digest, loaded_at=since, files=config.files, mode=config.mode)
