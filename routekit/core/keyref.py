"""Credential references: where a secret is kept, as text in a config. It reads no secret and repeats none."""

from __future__ import annotations

import re
from typing import Literal

from ..errors import CredentialError
from .ids import ID_RULE, is_id
from .value import Value

RefKind = Literal["keyring", "env", "cmd", "file", "auto", "none"]

REF_FORMS = "keyring, keyring:NAME, env:NAME, cmd:COMMAND, file:PATH, auto or none"
MASK = "•••"

#: how known vendors' keys begin; what vendors print of a key they refuse (``sk-ab***yz``) counts too
KEY_SHAPE = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk)-(?=[\w*.-]*[\d*])[\w*-](?:[\w*.-]{6,}[\w*-])"
    r"|gsk_\w{8,}|xai-[\w-]{8,}|AIza[\w-]{16,}|hf_\w{16,}|gh[oprsu]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{12,}"
    r"|AKIA[A-Z0-9]{12,}|pplx-\w{12,}|r8_\w{16,}|nvapi-[\w-]{12,}|fw_\w{12,}|csk-\w{12,}|tgp_v1_[\w-]{12,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_RUN = re.compile(r"[A-Za-z0-9+/=]{16,}")
_SEAM = re.compile(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
#: a run of 16 characters that changes between letters and digits this often is no word, date or version
_SEAMS = 3
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ROOTED = re.compile(r"/|~|[A-Za-z]:[\\/]|\\\\")


class CredentialRef(Value):
    """Where a secret is kept. ``name`` is the keyring entry, the variable, the command or the path; empty for ``none``.
    The text form is canonical: equal references print alike, so it can key health and records."""

    kind: RefKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind

    @property
    def source(self) -> str:
        """The place in words, for errors and lists."""
        words = {"keyring": "keyring entry", "auto": "keyring entry"}.get(self.kind, self.kind)
        return f"{words} {self.name}".strip()


def reference_of(credential: str) -> CredentialRef:
    """The reference behind a canonical text, as records and the memory of health hold it (``none:ID`` for no key)."""
    kind, _, name = credential.partition(":")
    known: tuple[RefKind, ...] = ("keyring", "env", "cmd", "file", "auto")
    return next((CredentialRef(kind=one, name=name) for one in known if one == kind), CredentialRef(kind="none"))


def looks_like_key(text: str) -> bool:
    """Whether the text holds something with the shape of a real key: a known beginning, a UUID, or a long run of
    characters too random for a name."""
    if KEY_SHAPE.search(text) or _UUID.search(text):
        return True
    return any(len(_SEAM.findall(run)) >= _SEAMS for run in _RUN.findall(text))


def is_ref(text: str) -> bool:
    """Whether the text has the form of a reference. A header's value may be one, or be plain text."""
    head, colon, _ = text.strip().partition(":")
    return head in _READERS if colon else head in {"keyring", "auto", "none"}


def parse_ref(text: str, *, entry: str) -> CredentialRef:
    """Read a reference as a config writes it; ``entry`` is the id of the provider it stands in, the keyring entry
    where none is named. Raises ``CredentialError`` (state ``invalid``), which never repeats what may be a key."""
    head, colon, rest = text.strip().partition(":")
    if head in _READERS and (colon or head in {"keyring", "auto", "none"}):
        return _READERS[head](rest.strip(), bool(colon), entry)
    if looks_like_key(text.strip()):
        raise _plain_key(f"the key of {entry} is written out", entry)
    raise _invalid(f"the key of {entry} is no credential reference: write {REF_FORMS}")


def _keyring(name: str, named: bool, entry: str) -> CredentialRef:
    return CredentialRef(kind="keyring", name=_entry(name, named, entry))


def _auto(name: str, named: bool, entry: str) -> CredentialRef:
    return CredentialRef(kind="auto", name=_entry(name, named, entry))


def _entry(name: str, named: bool, entry: str) -> str:
    if not named:
        return entry
    if looks_like_key(name):
        raise _plain_key(f"the keyring entry named for {entry} looks like the key itself", entry)
    if not is_id(name):
        raise _invalid(f"the keyring entry named for {entry} is no id: {ID_RULE}")
    return name


def _env(name: str, _named: bool, entry: str) -> CredentialRef:
    if looks_like_key(name):
        raise _plain_key(f"the variable named for {entry} looks like the key itself", entry)
    if not _VARIABLE.fullmatch(name):
        raise _invalid(f"the key of {entry} names no variable: write env:NAME with letters, digits and '_'")
    return CredentialRef(kind="env", name=name)


def _cmd(name: str, _named: bool, entry: str) -> CredentialRef:
    if KEY_SHAPE.search(name):
        raise _plain_key(f"the key command of {entry} holds what looks like the key itself", entry)
    if not name or "\0" in name:
        raise _invalid(f"the key command of {entry} is empty: write cmd:COMMAND, such as cmd:pass show {entry}")
    return CredentialRef(kind="cmd", name=name)


def _file(name: str, _named: bool, entry: str) -> CredentialRef:
    if KEY_SHAPE.search(name):
        raise _plain_key(f"the key file of {entry} has a name that looks like the key itself", entry)
    # A relative path would name another file in every working directory.
    if not _ROOTED.match(name) or "\0" in name:
        raise _invalid(f"the key file of {entry} needs a whole path: write file:/… or file:~/…")
    return CredentialRef(kind="file", name=name)


def _none(_name: str, named: bool, entry: str) -> CredentialRef:
    if named:
        raise _invalid(f"the key of {entry} says 'none' and more: write none alone")
    return CredentialRef(kind="none")


_READERS = {"keyring": _keyring, "env": _env, "cmd": _cmd, "file": _file, "auto": _auto, "none": _none}


def _invalid(message: str) -> CredentialError:
    return CredentialError(message, state="invalid", hints=["routekit config check"])


def _plain_key(what: str, entry: str) -> CredentialError:
    return CredentialError(
        f'{what}; secrets never stand in a config: store it, then write key = "keyring"',
        state="invalid",
        hints=[f"routekit keys set {entry}"],
    )
