"""What is remembered about stored keys, and the hosts they may go to. It holds no key."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from ..core.keyref import CredentialRef
from ..core.value import Value
from ..errors import EX_CONFIG, ConfigError, StateError
from ..files import read_bounded, replaceable

Where = Literal["keyring", "file"]
#: what stands beside a secret that was stored for no host in particular
ANY_HOST = "*"


class KeyPlace(Value):
    """Where routekit keeps keys of its own and what it knows about them: ``files`` is a folder with one plaintext file
    per key, ``ledger`` a JSON file without secrets. Neither need exist."""

    files: Path
    ledger: Path


class KeyRecord(Value):
    """What is remembered about a stored key. ``hosts`` are those it was stored for; ``when`` is wall-clock seconds."""

    where: Where
    last4: str = ""
    hosts: tuple[str, ...] = ()
    when: float = 0.0


def read_ledger(path: Path) -> dict[str, KeyRecord]:
    """What is remembered of stored keys, by entry. A missing or damaged file is an empty one: it holds no key."""
    try:
        return msgspec.json.decode(read_bounded(path), type=dict[str, KeyRecord])
    except (OSError, msgspec.MsgspecError, RecursionError):
        return {}


def stored_hosts(ref: CredentialRef, place: KeyPlace) -> tuple[str, ...] | None:
    """The hosts a key was stored for; ``None`` where nothing is remembered."""
    if ref.kind not in {"keyring", "auto"}:
        return None
    record = read_ledger(place.ledger).get(ref.name)
    return record.hosts if record is not None else None


def own_entry(ref: CredentialRef, place: KeyPlace, environ: Mapping[str, str]) -> str | None:
    """The entry of routekit's own store that a reference reads; ``None`` for a key from elsewhere. A path to one of the
    store's files is that entry, whichever way it leads there."""
    if ref.kind in {"keyring", "auto"}:
        return ref.name
    if ref.kind != "file":
        return None
    real, folder = os.path.realpath(whole_path(ref.name, environ)), os.path.realpath(place.files)
    if real.startswith(folder + os.sep):
        return real[len(folder) + 1 :]
    try:
        # A hard link, another mount, a kept file that is a link itself: the same file by another name.
        found = os.stat(real)
        return next((one.name for one in os.scandir(folder) if os.path.samestat(os.stat(one.path), found)), None)
    except OSError:
        return None


def whole_path(name: str, environ: Mapping[str, str]) -> str:
    """The path of a ``file:`` reference, with the user's folder for a tilde."""
    home = environ.get("HOME")
    return os.path.expanduser(os.path.join(home, name[2:]) if name.startswith("~/") and home else name)


def barred(ref: CredentialRef, host: str, *, place: KeyPlace, environ: Mapping[str, str]) -> str:
    """Why a stored key may not be sent to a host (as ``host_of`` writes it), in words; empty where nothing forbids it.
    A key file of routekit's own of which no record is left may be sent nowhere."""
    entry = own_entry(ref, place, environ)
    if entry is None:
        return ""
    record = read_ledger(place.ledger).get(entry)
    hosts = record.hosts if record is not None else file_hosts(place.files / entry)
    if hosts is None and os.path.lexists(place.files / entry):
        return f"it is no longer known for which hosts the key {entry} was stored ({place.ledger} has no record of it)"
    return not_for(entry, hosts, host)


def not_for(entry: str, hosts: Sequence[str] | None, host: str) -> str:
    return "" if host_allowed(hosts, host) else f"the key {entry} was stored for {', '.join(hosts or ())}"


def hosts_beside(path: Path) -> Path:
    """Where the hosts of a key file stand, beside it: they outlive the ledger. No entry's name begins with a dot."""
    return path.with_name(f".{path.name}.hosts")


def file_hosts(path: Path) -> tuple[str, ...] | None:
    try:
        return read_hosts(hosts_beside(path).read_text())
    except (OSError, UnicodeDecodeError):
        return None


def read_hosts(text: str) -> tuple[str, ...] | None:
    """Hosts as they stand beside a secret; ``None`` for a text that names none. An asterisk stands for any."""
    return () if text.split() == [ANY_HOST] else tuple(text.split()) or None


def written_hosts(hosts: Sequence[str]) -> str:
    return " ".join(hosts) or ANY_HOST


def change_ledger(path: Path, name: str, record: KeyRecord | None) -> None:
    """Remember, or with ``None`` forget, what is known of one key. Raises ``StateError``."""
    with Locked(path):
        ledger = read_ledger(path)
        ledger.pop(name, None)
        if record is not None:
            ledger[name] = record
        if ledger or path.exists():
            write_private(path, msgspec.json.format(msgspec.json.encode(ledger), indent=2) + b"\n")


class Locked:
    """One writer of a file at a time, over all processes: the file is read, changed and replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".lock")

    def __enter__(self) -> None:
        try:
            _make_folder(self._path.parent)
            replaceable(self._path)
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise _unwritable(self._path, error) from None
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def _make_folder(folder: Path) -> None:
    # `mkdir(parents=True)` gives its mode to the last folder only.
    for one in reversed([folder, *folder.parents]):
        if not one.exists():
            one.mkdir(mode=0o700, exist_ok=True)


def write_private(path: Path, content: bytes) -> None:
    """Replace a file whole or not at all; nobody but the owner can read it at any moment, whatever the umask. A link
    stays one. Raises ``StateError``."""
    try:
        real = Path(replaceable(path))
    except OSError as error:
        raise _unwritable(path, error) from None
    beside = real.with_name(f".{real.name}.{os.urandom(6).hex()}")
    try:
        _make_folder(real.parent)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        with open(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(handle)
        os.replace(beside, real)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        with suppress(OSError):
            beside.unlink()


def _unwritable(path: Path, error: OSError) -> StateError:
    return StateError(
        f"{path} could not be written: {error.strerror}", hints=["routekit config path"], exit_code=EX_CONFIG
    )


def host_of(base_url: str) -> str:
    """The host of an endpoint as the ledger remembers it: lower case, with the port unless it is that of https. Plain
    http to the same name is another host: whoever listens in between would read the key. Raises ``ConfigError`` for
    what is no address, without repeating it: it may hold a password."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(base_url)
        host, said = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise ConfigError("the base_url is no address; one looks like https://host/path") from None
    host = f"[{host}]" if ":" in host else host
    port = said or (80 if parts.scheme == "http" else 443)
    return host if port == 443 else f"{host}:{port}"


def host_allowed(stored_hosts: Sequence[str] | None, host: str) -> bool:
    """Whether a key may be sent to a host (both as ``host_of`` writes them). Nothing remembered, nothing refused: keys
    from variables, commands and files have no memory."""
    return not stored_hosts or host.lower() in stored_hosts
