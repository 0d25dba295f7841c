"""Keys that routekit keeps itself: stored, removed, listed. It prints nothing and decides no place on its own."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ..core.ids import ID_RULE, is_id
from ..core.keyref import CredentialRef, looks_like_key
from ..core.value import Value
from ..errors import CredentialError, StateError, UsageError
from . import os_keyring
from .command import shown
from .ledger import (
    KeyPlace,
    KeyRecord,
    Where,
    change_ledger,
    hosts_beside,
    read_ledger,
    write_private,
    written_hosts,
)
from .secret import Secret, checked
from .sources import resolve

#: Windows keeps 2,500 bytes of UTF-16 per item and answers a longer one with "the stub received bad data"
LONGEST_ON_WINDOWS = 1_250


class Stored(Value):
    """The result of ``store``: where the key went, in words, and what the person should know besides."""

    source: str
    last4: str = ""
    note: str = ""


class KeyStatus(Value):
    """One line of ``keys list``. ``state``: ``present``, ``unknown`` (nobody looked) or a ``CredentialError`` state."""

    source: str
    state: str
    last4: str = ""
    hint: str = ""


def store(
    name: str,
    secret: Secret,
    *,
    place: KeyPlace,
    now: float,
    where: Where = "keyring",
    hosts: Iterable[str] = (),
    deadline: float = os_keyring.KEYRING_DEADLINE,
    interactive: bool = False,
) -> Stored:
    """Keep a key under the name of its keyring entry, read it back, and remember the hosts it may go to (see
    ``host_of``). ``where="file"`` is for those who asked for plaintext by name. Raises ``CredentialError``."""
    _check_name(name)
    again = f"routekit keys set {name} --store file" if where == "file" else os_keyring.storing(name)
    key = checked(secret, hints=[again])
    allowed = tuple(sorted(set(hosts)))
    if where == "file":
        path = place.files / name
        # Its hosts first: a key that lies there alone would be one for nobody.
        write_private(hosts_beside(path), written_hosts(allowed).encode() + b"\n")
        write_private(path, key.reveal().encode() + b"\n")
        stored = Stored(source=f"file {path}", last4=key.last4, note="readable by every program you run")
    else:
        stored = _to_keyring(name, key, place=place, deadline=deadline, interactive=interactive, hosts=allowed)
    record = KeyRecord(where=where, last4=key.last4, hosts=allowed, when=now)
    try:
        change_ledger(place.ledger, name, record)
    except StateError as error:
        return replace(stored, note="; ".join(filter(None, [stored.note, error.message])))
    return stored


def _check_name(name: str) -> None:
    # A name is also a file's name; and what does not look like a name may be a key given in the wrong place.
    if looks_like_key(name):
        raise UsageError(
            "the name given for a key looks like a key itself: name a provider, then paste the key when asked"
        )
    if not is_id(name):
        raise UsageError(f"that is no name for a key: a name is {ID_RULE}")


def _to_keyring(
    name: str, key: Secret, *, place: KeyPlace, deadline: float, interactive: bool, hosts: tuple[str, ...]
) -> Stored:
    if sys.platform == "win32" and len(key.reveal()) > LONGEST_ON_WINDOWS:
        raise CredentialError(
            f"the key is longer than the {LONGEST_ON_WINDOWS} characters Windows keeps",
            state="invalid",
            hints=[f"routekit keys set {name} --store file"],
        )
    title = os_keyring.ask_keyring(
        lambda: os_keyring.put(name, key, interactive=interactive, hosts=hosts),
        entry=name, deadline=deadline, verb="stored",
    )  # fmt: skip
    plain = place.files / name
    note = ""
    if plain.exists():
        # It would be read instead of the key just stored.
        plain.unlink()
        hosts_beside(plain).unlink(missing_ok=True)
        note = f"the plaintext copy {plain} was removed"
    return Stored(source=f"keyring ({title})", last4=key.last4, note=note)


def remove(
    name: str, *, place: KeyPlace, deadline: float = os_keyring.KEYRING_DEADLINE, interactive: bool = False
) -> str:
    """Forget a key, wherever routekit keeps it, and say where it was. Raises ``CredentialError`` where there was none
    (state ``absent``) and where the keyring could not be asked though it may hold one."""
    _check_name(name)
    plain = place.files / name
    known = read_ledger(place.ledger)
    removed = [f"file {plain}"] if plain.exists() else []
    plain.unlink(missing_ok=True)
    hosts_beside(plain).unlink(missing_ok=True)
    try:
        title = os_keyring.ask_keyring(
            lambda: os_keyring.delete(name, interactive=interactive), entry=name, deadline=deadline, verb="removed"
        )
        removed += [f"keyring ({title})"] if title else []
    except CredentialError as error:
        if not removed and error.state == "none" and name not in known:
            # Without a keyring, and without a word of it in the ledger, there is nothing that could be stored.
            raise _not_stored(name) from None
        if not removed:
            raise
        # An older key may still be in there, and would be the one found from now on.
        removed += [] if error.state == "none" else [f"the keyring could not be asked ({error.state})"]
    change_ledger(place.ledger, name, None)
    if not removed:
        raise _not_stored(name)
    return "; ".join(removed)


def _not_stored(name: str) -> CredentialError:
    return CredentialError(f"no key of {name} is stored", state="absent", hints=["routekit keys list"])


def renewing(ref: CredentialRef, *, environ: Mapping[str, str], place: KeyPlace, keyring: bool = True) -> str:
    """The command that puts a new key where this one comes from; empty where none is needed. ``keyring``: False where
    it is known that there is none."""
    if ref.kind == "env":
        return f"export {ref.name}=…"
    if ref.kind == "file":
        return f"${{EDITOR:-vi}} {_path(ref.name)}"
    if ref.kind == "cmd":
        return shown(ref.name)
    if ref.kind == "none":
        return ""
    known = read_ledger(place.ledger).get(ref.name)
    if not keyring or (known is not None and known.where == "file"):
        return f"routekit keys set {ref.name} --store file"
    return os_keyring.storing(ref.name, environ)


def _path(name: str) -> str:
    import shlex

    # A quoted tilde would be a folder of that name.
    return f"~/{shlex.quote(name[2:])}" if name.startswith("~/") else shlex.quote(name)


def status(
    ref: CredentialRef,
    *,
    variable: str | None,
    environ: Mapping[str, str],
    place: KeyPlace,
    look: bool = False,
    deadline: float = os_keyring.KEYRING_DEADLINE,
) -> KeyStatus:
    """What can be said of a key. Without ``look`` neither keyring nor command is asked: the ledger and the environment
    answer, and what they do not know is ``unknown``."""
    if ref.kind == "none":
        return KeyStatus(source="none", state="present")
    if look or ref.kind in {"env", "file"}:
        return _looked(ref, variable=variable, environ=environ, place=place, deadline=deadline)
    if ref.kind == "cmd":
        return KeyStatus(source=f"cmd {shown(ref.name)}", state="unknown", hint="routekit keys check")
    known = read_ledger(place.ledger).get(ref.name)
    if known is not None:
        source = "keyring" if known.where == "keyring" else f"file {place.files / ref.name}"
        return KeyStatus(source=source, state="present", last4=known.last4)
    if ref.kind == "auto" and variable and environ.get(variable, "").strip():
        return _looked(
            CredentialRef(kind="env", name=variable), variable=None, environ=environ, place=place, deadline=0
        )
    return KeyStatus(source=ref.source, state="unknown", hint=os_keyring.storing(ref.name, environ))


def _looked(
    ref: CredentialRef, *, variable: str | None, environ: Mapping[str, str], place: KeyPlace, deadline: float
) -> KeyStatus:
    try:
        secret = resolve(ref, variable=variable, environ=environ, deadline=deadline, place=place)
    except CredentialError as error:
        return KeyStatus(source=ref.source, state=error.state, hint=error.hints[0] if error.hints else "")
    return KeyStatus(source=secret.source if secret else "none", state="present", last4=secret.last4 if secret else "")
