"""The operating system's keyring: which backend, in what state, one entry read, written, removed. It never waits
longer than told to, and never lets a keyring ask anything on the terminal."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..errors import CredentialError
from .ledger import read_hosts, written_hosts
from .secret import Secret

T = TypeVar("T")

SERVICE = "routekit"
#: seconds a keyring may take to answer
KEYRING_DEADLINE = 2.0


#: the backend to try before keyring looks at every installed one (which costs 100 ms and more)
_USUAL = {
    "linux": "keyring.backends.SecretService.Keyring",
    "darwin": "keyring.backends.macOS.Keyring",
    "win32": "keyring.backends.Windows.WinVaultKeyring",
}
_NAMES = {"SecretService": "Secret Service", "macOS": "macOS Keychain", "Windows": "Windows Credential Manager"}
#: backends that ask for a password on the terminal, by the names of their classes
_ASKING = frozenset({"EncryptedKeyring", "CryptFileKeyring"})
_DEFAULT_COLLECTION = "/org/freedesktop/secrets/aliases/default"
#: a thread stuck in a silent keyring cannot be ended; so many are enough
_MOST_STUCK = 4
_STUCK = "routekit-keyring-stuck"
_UNLOCK = (
    'bash -c \'read -rsp "keyring password: " P && printf %s "$P" | '
    "gnome-keyring-daemon --replace --unlock --components=secrets'"
)

#: what keyring and what it stands on raise, by class name, nearest first: the classes are theirs to import
_RAISED = {
    "TimeoutError": "silent",
    "KeyringLocked": "locked",
    "LockedException": "locked",
    "PromptDismissedException": "locked",
    "EOFError": "asks",
    "InitError": "unset",
    "ItemNotFoundException": "unset",
    "NoKeyringError": "none",
    "SecretServiceNotAvailableException": "none",
}


class _Trouble(Exception):
    """Why the keyring gave no answer: a row of ``_TROUBLES``. ``detail`` is a name, never a message of theirs."""

    def __init__(self, why: str, detail: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.detail = detail


#: why → state, words
_TROUBLES = {
    "silent": ("silent", "the keyring is not answering"),
    "locked": ("locked", "the keyring is locked"),
    "asks": ("locked", "the keyring asks for a password on the terminal, which routekit does not do"),
    "unset": ("none", "the keyring service runs, but holds no default collection yet"),
    "none": ("none", "there is no keyring on this machine"),
    "misconfigured": ("none", "the keyring backend cannot be used: {}"),
    "failed": ("none", "the keyring failed with {}"),
    "weak": ("none", "the keyring {} would keep the key readable or not at all"),
    "vanished": ("none", "the keyring {} took the key and did not give it back"),
}
_ELSEWHERE = " (a config can name another source: key = 'env:NAME' or 'cmd:COMMAND')"
_UNLOCKABLE = frozenset({"locked", "unset"})


def likely(environ: Mapping[str, str]) -> bool:
    """Whether a keyring is likely to be here, told without importing or asking one: on Linux all known ones are on
    the session's bus, unless the user has named a backend."""
    if not sys.platform.startswith("linux") or "PYTHON_KEYRING_BACKEND" in environ:
        return True
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    named = os.path.join(home, "python_keyring", "keyringrc.cfg")
    return bool(environ.get("DBUS_SESSION_BUS_ADDRESS")) or os.path.exists(named)


def storing(entry: str, environ: Mapping[str, str] | None = None) -> str:
    """The command that stores a key on this machine, as far as that can be told without asking a keyring."""
    there = likely(os.environ if environ is None else environ)
    return f"routekit keys set {entry}" + ("" if there else " --store file")


def _trouble(why: str, entry: str, *, detail: str = "", verb: str = "found") -> CredentialError:
    state, words = _TROUBLES[why]
    also = _ELSEWHERE if state == "none" and why not in _UNLOCKABLE else ""
    message = f"the key of {entry} was not {verb}: {words.format(detail)}{also}"
    return CredentialError(message, state=state, hints=_ways_out(why, entry))


def _ways_out(why: str, entry: str) -> list[str]:
    own_file = f"routekit keys set {entry} --store file"
    if why in _UNLOCKABLE:
        unlock = [_UNLOCK] if sys.platform.startswith("linux") else []
        return [*unlock, own_file]
    if why == "misconfigured" and "PYTHON_KEYRING_BACKEND" in os.environ:
        return ["unset PYTHON_KEYRING_BACKEND", own_file]
    if why == "silent":
        return [own_file, "routekit doctor"]
    return [own_file]


def ask_keyring(work: Callable[[], T], *, entry: str, deadline: float, verb: str = "found") -> T:
    """Runs ``work`` in a daemon thread and waits no longer than ``deadline``. The thread may be left behind, stuck in
    an import or a socket; it holds nothing up. Raises ``CredentialError`` for whatever the keyring did."""
    if sum(thread.name == _STUCK for thread in threading.enumerate()) >= _MOST_STUCK:
        raise _trouble("silent", entry, verb=verb)
    done, results, troubles = threading.Event(), list[T](), list[_Trouble]()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            troubles.append(error if isinstance(error, _Trouble) else _Trouble(*_why(error)))
        done.set()

    thread = threading.Thread(target=run, name="routekit-keyring", daemon=True)
    thread.start()
    if not done.wait(deadline):
        thread.name = _STUCK
        raise _trouble("silent", entry, verb=verb)
    if troubles:
        raise _trouble(troubles[0].why, entry, detail=troubles[0].detail, verb=verb)
    return results[0]


def _why(error: BaseException) -> tuple[str, str]:
    """The trouble an exception stands for: judged by it and by what caused it, outermost first."""
    seen: BaseException | None = error
    while seen is not None:
        for base in type(seen).__mro__:
            if base.__name__ in _RAISED:
                return _RAISED[base.__name__], type(seen).__name__
        seen = seen.__cause__ or seen.__context__
    return "failed", type(error).__name__


def _settings_file() -> Path:
    from keyring.util import platform_

    return Path(platform_.config_root()) / "keyringrc.cfg"


def _chosen_by() -> str | None:
    """What names a keyring backend for this user, in words, or nothing."""
    if "PYTHON_KEYRING_BACKEND" in os.environ:
        return "the environment variable PYTHON_KEYRING_BACKEND"
    settings = _settings_file()
    return str(settings) if settings.exists() else None


def _backends() -> list[Any]:
    """The backends to read from, the one to write to first. Imports keyring; call it in the keyring's thread."""
    from keyring import core

    chosen = _chosen_by()
    usual = _USUAL.get(sys.platform)
    if usual and not chosen:
        try:
            return [core.load_keyring(usual)]
        except Exception as error:
            # Without it there may be another backend, but behind a bus that does not answer there is none.
            if _why(error)[0] == "silent":
                raise
    try:
        backend = core.get_keyring()
    except Exception as error:
        if not chosen or _why(error)[0] == "silent":
            raise
        raise _Trouble("misconfigured", f"{chosen} names none that works here") from None
    members = list(getattr(backend, "backends", [backend]))
    if not members or type(backend).__module__ == "keyring.backends.fail":
        raise _Trouble("none")
    return members


def _class_names(backend: Any) -> set[str]:
    return {base.__name__ for base in type(backend).__mro__}


def _module(backend: Any) -> str:
    return type(backend).__module__.rpartition(".")[2]


def _title(backend: Any) -> str:
    return _NAMES.get(_module(backend), f"{_module(backend)}.{type(backend).__name__}")


def _hosts_of(entry: str) -> str:
    """The item beside a key's that holds its hosts; no entry's name has a space in it."""
    return f"{entry} (hosts)"


def get(entry: str, *, interactive: bool, hosts: bool = False) -> Secret | None:
    """``hosts``: with the hosts that were stored beside it; a second look-up, for when the ledger knows none."""
    backends = _backends()
    for backend in backends:
        if _class_names(backend) & _ASKING:
            continue
        _ensure_open(backend, interactive=interactive)
        text = backend.get_password(SERVICE, entry)
        if text is not None:
            beside = backend.get_password(SERVICE, _hosts_of(entry)) if hosts else None
            return Secret(text, f"keyring ({_title(backend)})", hosts=read_hosts(beside or ""))
    if all(_class_names(backend) & _ASKING for backend in backends):
        raise _Trouble("asks")
    return None


def _ensure_open(backend: Any, *, interactive: bool) -> None:
    """Raises where reading would open a window that asks to unlock, or to make, the keyring: keyring itself always
    does, on whichever screen the session has, and waits for it without end."""
    service = getattr(sys.modules[type(backend).__module__], "secretstorage", None)
    if interactive or service is None:
        return
    bus = service.dbus_init()
    try:
        # The path of the default collection; unlike get_default_collection, this makes none.
        collection = service.Collection(bus, getattr(backend, "preferred_collection", _DEFAULT_COLLECTION))
        if collection.is_locked():
            raise _Trouble("locked")
    finally:
        bus.close()


def _writable(*, interactive: bool) -> Any:
    """The one backend that may be written to."""
    backend = _backends()[0]
    if _class_names(backend) & _ASKING:
        raise _Trouble("asks")
    if backend.priority < 1 or type(backend).__module__ == "keyring.backends.null":
        raise _Trouble("weak", _title(backend))
    _ensure_open(backend, interactive=interactive)
    return backend


def put(entry: str, secret: Secret, *, interactive: bool, hosts: Sequence[str] = ()) -> str:
    """Stores and reads back: some keyrings take a key and keep nothing. Returns the backend's name."""
    backend = _writable(interactive=interactive)
    backend.set_password(SERVICE, _hosts_of(entry), written_hosts(hosts))
    backend.set_password(SERVICE, entry, secret.reveal())
    if backend.get_password(SERVICE, entry) != secret.reveal():
        raise _Trouble("vanished", _title(backend))
    return _title(backend)


def delete(entry: str, *, interactive: bool) -> str | None:
    """The name of the backend the entry was removed from; ``None`` where there was none."""
    for backend in _backends():
        if _class_names(backend) & _ASKING:
            continue
        _ensure_open(backend, interactive=interactive)
        if backend.get_password(SERVICE, entry) is not None:
            backend.delete_password(SERVICE, entry)
            if backend.get_password(SERVICE, _hosts_of(entry)) is not None:
                backend.delete_password(SERVICE, _hosts_of(entry))
            return _title(backend)
    return None
