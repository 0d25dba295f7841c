"""Where routekit's files are: one place for every name. It creates, reads and writes nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from ..core.value import Value
from ..errors import ConfigError

APP = "routekit"


class Paths(Value):
    """``config_file`` is the one file a person edits; ``named`` says that it was asked for by name, so that its absence
    is an error. Everything routekit writes by itself lies in ``state_dir``, so that the other may be published."""

    config_file: str
    state_dir: str
    named: bool = False

    @property
    def config_dir(self) -> str:
        return os.path.dirname(self.config_file)

    @property
    def profiles_dir(self) -> str:
        return os.path.join(self.config_dir, "profiles")

    def profile(self, name: str) -> str:
        return os.path.join(self.profiles_dir, f"{name}.toml")

    @property
    def state(self) -> str:
        return os.path.join(self.state_dir, "state.db")

    @property
    def conversations(self) -> str:
        return os.path.join(self.state_dir, "conversations.db")

    @property
    def catalog(self) -> str:
        return os.path.join(self.state_dir, "catalog.json")

    @property
    def history(self) -> str:
        return os.path.join(self.state_dir, "history")

    @property
    def keys(self) -> str:
        # never beside the config: people publish that directory
        return os.path.join(self.state_dir, "keys.json")

    def listing(self) -> dict[str, str]:
        """Every file and folder routekit uses, by what it is for: what ``config path`` prints."""
        return {
            "config": self.config_file,
            "profiles": self.profiles_dir,
            "state": self.state,
            "conversations": self.conversations,
            "catalog": self.catalog,
            "history": self.history,
            "keys": self.keys,
        }


def find_paths(environ: Mapping[str, str], *, config_file: str | None = None) -> Paths:
    """``config_file`` (the ``--config`` option) beats ``ROUTEKIT_CONFIG``; ``ROUTEKIT_HOME`` holds everything; else the
    XDG variables where they are set, on every system; else the system's own places."""
    named = config_file or environ.get("ROUTEKIT_CONFIG") or None
    config_dir, state_dir = _folders(environ)
    file = _absolute(named, environ) if named else os.path.join(config_dir, "config.toml")
    return Paths(config_file=file, state_dir=state_dir, named=named is not None)


def _folders(environ: Mapping[str, str]) -> tuple[str, str]:
    home = environ.get("ROUTEKIT_HOME")
    if home:
        folder = _absolute(home, environ)
        return folder, folder
    return _xdg(environ, "XDG_CONFIG_HOME", "config"), _xdg(environ, "XDG_STATE_HOME", "state")


def _xdg(environ: Mapping[str, str], variable: str, kind: str) -> str:
    base = environ.get(variable, "")
    # the XDG specification: a relative path there is invalid and must be ignored
    return os.path.join(base, APP) if os.path.isabs(base) else _native(environ, kind)


def _native(environ: Mapping[str, str], kind: str) -> str:
    if str(sys.platform) not in ("darwin", "win32", "android"):
        # What platformdirs says here, without its 13 ms of CPU: more than a bare interpreter, on every start.
        return os.path.join(_home(environ), {"config": ".config", "state": ".local/state"}[kind], APP)
    import platformdirs

    find = platformdirs.user_config_dir if kind == "config" else platformdirs.user_state_dir
    return find(APP, appauthor=False)


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def _absolute(path: str, environ: Mapping[str, str]) -> str:
    if path == "~" or path.startswith("~/"):
        path = _home(environ) + path[1:]
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise ConfigError(
            f"{path} is relative to the current directory, which is gone", hints=["cd", f"ls {os.path.basename(path)}"]
        ) from None
