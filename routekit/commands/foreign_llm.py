"""The configuration of ``llm``: keys, aliases, the default model, further OpenAI-compatible servers. Only read."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from ..core.ids import is_id
from ..credentials import Secret
from ..errors import ConfigError
from ..files import read_bounded
from ..vendors.presets import PRESETS
from .foreign import CALLED, Account, Imported, as_id, vendor_of, yaml_of

#: what ``llm`` asks where nobody has said anything
DEFAULT = "gpt-4o-mini"
FOLDER = "io.datasette.llm"


def directory(environ: Mapping[str, str]) -> str:
    said = environ.get("LLM_USER_PATH")
    if said:
        return os.path.expanduser(said)
    home = environ.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", FOLDER)
    if sys.platform == "win32":
        return os.path.join(environ.get("APPDATA", home), FOLDER)
    return os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), FOLDER)


def read(folder: str, environ: Mapping[str, str]) -> Imported:
    if not os.path.isdir(folder):
        raise ConfigError(f"there is no configuration of llm: {folder}", hints=["routekit init"])
    return _Reading(folder, environ).imported()


class _Reading:
    """One directory, read once."""

    def __init__(self, folder: str, environ: Mapping[str, str]) -> None:
        self.folder, self.environ = folder, environ
        found = _json(os.path.join(folder, "keys.json"))
        #: llm's file begins with a remark under a key of its own
        self.keys = {name: key for name, key in found.items() if not name.startswith("//") and isinstance(key, str)}
        self.accounts: dict[str, Account] = {}
        self.left: list[str] = []
        #: llm's own names of models on further servers → references
        self.servers: dict[str, str] = {}

    def imported(self) -> Imported:
        for name in self.keys:
            vendor = CALLED.get(name, name)
            if vendor in PRESETS:
                self._account(vendor)
        used = self._servers()
        self.left += [
            f"the key {name}: it belongs to no vendor known here"
            for name in self.keys
            if CALLED.get(name, name) not in PRESETS and name not in used
        ]
        aliases = self._aliases()
        default = self._reference(self._default())
        keys = os.path.join(self.folder, "keys.json")
        told = (f"llm keeps its own copies in plain text: {keys}",) if self.keys else ()
        return Imported(
            source=f"llm ({self.folder})",
            accounts=tuple(self.accounts.values()),
            aliases=aliases,
            default=default,
            log=not os.path.exists(os.path.join(self.folder, "logs-off")),
            left=tuple(self.left),
            told=told,
        )

    def _account(self, vendor: str) -> None:
        """With llm's key; without one, as its usual variable or a later ``keys set`` will say."""
        if vendor in self.accounts:
            return
        row = PRESETS[vendor]
        key = next((self.keys[name] for name in self.keys if CALLED.get(name, name) == vendor), None)
        if not row.base_url and not row.keyless:
            self.left.append(f"{vendor}: its address is yours alone to know; try: routekit providers add {vendor}")
        elif key is not None:
            self.accounts[vendor] = Account(id=vendor, preset=vendor, key="keyring", secret=Secret(key, "llm"))
        else:
            self.accounts[vendor] = Account(id=vendor, preset=vendor, key="none" if row.keyless else "auto")

    def _default(self) -> str:
        try:
            said = read_bounded(os.path.join(self.folder, "default_model.txt")).decode("utf-8", "replace")
            return said.strip() or DEFAULT
        except OSError:
            return DEFAULT

    def _reference(self, model: str) -> str | None:
        """A model of llm's as ours, with its provider made where there is none."""
        if model in self.servers:
            return self.servers[model]
        vendor, name = vendor_of(model)
        if not vendor:
            return None
        self._account(vendor)
        return f"{vendor}/{name}" if vendor in self.accounts else None

    def _aliases(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, model in _json(os.path.join(self.folder, "aliases.json")).items():
            reference = self._reference(str(model))
            if reference is None:
                self.left.append(f"the alias {name}: nobody here offers {model}")
            elif not is_id(name) or name in self.accounts or name in ("route", "main"):
                self.left.append(f"the alias {name}: that name cannot be one here")
            else:
                found[name] = reference
        return found

    # --- further servers --------------------------------------------------------------------------------------------

    def _servers(self) -> set[str]:
        """Providers of ``extra-openai-models.yaml``, one per address and key; the names of keys they use."""
        file = os.path.join(self.folder, "extra-openai-models.yaml")
        rows = yaml_of(file) if os.path.exists(file) else []
        used: set[str] = set()
        ids: dict[tuple[str, str], str] = {}
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict) and row.get("model_id") and row.get("api_base"):
                name = str(row.get("api_key_name") or "")
                used.add(name)
                place = (str(row["api_base"]), name)
                if place not in ids:
                    ids[place] = self._server(row, *place)
                self.servers[str(row["model_id"])] = f"{ids[place]}/{row.get('model_name') or row['model_id']}"
            elif isinstance(row, dict) and row.get("model_id"):
                self._plain(row)
        return used

    def _plain(self, row: Mapping[str, Any]) -> None:
        """A further model of OpenAI itself."""
        self._account("openai")
        self.servers[str(row["model_id"])] = f"openai/{row.get('model_name') or row['model_id']}"

    def _server(self, row: Mapping[str, Any], address: str, name: str) -> str:
        from ..credentials import host_of

        id = as_id(name or host_of(address).partition(":")[0])
        while id in self.accounts or id == "route":
            id += "-2"
        secret = Secret(self.keys[name], "llm") if name in self.keys else None
        headers = row.get("headers")
        if isinstance(headers, dict) and headers:
            # A header may hold a key, and the file may not.
            self.left.append(f"{id}: extra headers ({', '.join(headers)})")
        self.accounts[id] = Account(
            id=id, api="openai-chat", base_url=address, key="keyring" if secret else "none", secret=secret
        )
        return id


def _json(file: str) -> dict[str, Any]:
    """Raises ``ConfigError``, without a word of what the file says."""
    try:
        found = msgspec.json.decode(read_bounded(file) or b"{}")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, RecursionError):
        raise ConfigError(f"{file} is not JSON") from None
    return found if isinstance(found, dict) else {}
