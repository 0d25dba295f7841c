"""From a credential reference to a secret, under a deadline. It never prints, logs or stores one anywhere but where asked."""

from __future__ import annotations


class Secret:
    """A secret whose text shows only where ``reveal`` is called: in the header being built. Everything else sees a mask."""

    __slots__ = ("_text", "source")

    def __init__(self, text: str, source: str = "") -> None:
        self._text = text
        self.source = source

    def reveal(self) -> str:
        return self._text

    @property
    def last4(self) -> str:
        """The last four characters, for lists; empty for secrets too short to show any."""
        return self._text[-4:] if len(self._text) >= 12 else ""

    def __repr__(self) -> str:
        return f"Secret(•••, source={self.source!r})"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a Secret is never pickled")
