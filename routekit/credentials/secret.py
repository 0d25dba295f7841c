"""A secret and what one may look like. It says why a text cannot be a key without ever repeating it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.keyref import MASK
from ..errors import CredentialError

#: no vendor's key is longer; what is, was not a key
LONGEST = 16_384


class Secret:
    """A secret whose text shows only where ``reveal`` is called: in the header being built. All else sees a mask."""

    __slots__ = ("_text", "hosts", "source")

    def __init__(self, text: str, source: str = "", *, hosts: tuple[str, ...] | None = None) -> None:
        """``hosts``: those it was stored for, where they stand beside it."""
        self._text = text
        self.source = source
        self.hosts = hosts

    def reveal(self) -> str:
        return self._text

    @property
    def last4(self) -> str:
        """The last four characters, for lists; empty for secrets too short to show any."""
        return self._text[-4:] if len(self._text) >= 12 else ""

    def __repr__(self) -> str:
        return f"Secret({MASK}, source={self.source!r})"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a Secret is never pickled")


def clean_key(text: str) -> str:
    """The key as it is sent: without surrounding white space. Raises ``CredentialError`` (state ``invalid``) for a text
    no header can carry; the message never repeats it. A key with a line break would otherwise come back from the SDKs
    as a connection error whose cause prints the key."""
    key, fault = _stripped(text), _fault(text)
    del text
    if fault:
        del key
        raise CredentialError(f"the key {fault}", state="invalid", hints=["routekit keys set PROVIDER"])
    return key


def _stripped(text: str) -> str:
    # byte-order marks and zero-width spaces come along with text copied from editors and web pages
    return text.strip().strip("\ufeff\u200b\u2060").strip()


def _fault(text: str) -> str | None:
    key = _stripped(text)
    for wrong, words in _FAULTS:
        if wrong(key):
            return words
    return None


def _controls(key: str) -> bool:
    return any(ord(c) < 32 or ord(c) == 127 for c in key)


_FAULTS: tuple[tuple[Callable[[str], bool], str], ...] = (
    (lambda key: not key, "is empty"),
    (lambda key: "\n" in key or "\r" in key, "has more than one line"),
    (_controls, "has a control character in it"),
    (lambda key: not key.isascii(), "has a character outside ASCII in it"),
    (lambda key: " " in key, "has a space in it"),
    (lambda key: key[0] == key[-1] and key[0] in "\"'`" and len(key) > 1, "is wrapped in quotation marks"),
    (lambda key: len(key) > LONGEST, f"is longer than {LONGEST} characters"),
)


def checked(raw: Secret, *, hints: Sequence[str]) -> Secret:
    """The same secret, cleaned. The text itself stays out of this frame: an error leaves through it."""
    fault = _fault(raw.reveal())
    if fault:
        raise CredentialError(f"the key from {raw.source} {fault}", state="invalid", hints=hints)
    return Secret(_stripped(raw.reveal()), raw.source, hosts=raw.hosts)


def key_tag(secret: Secret, salt: bytes) -> str:
    """A short mark that changes when the key does and cannot be turned back into it (HMAC-SHA256, 64 bits of it).
    ``salt`` is random and kept per installation, so that marks of two machines cannot be compared."""
    import hmac

    return hmac.digest(salt, secret.reveal().encode(), "sha256").hex()[:16]
