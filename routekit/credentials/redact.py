"""Takes secrets out of text. It keeps only what its owner told it, and nothing outside of it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from ..core.keyref import KEY_SHAPE, MASK
from .secret import Secret

#: what stands after these words is a secret, whatever its length
_AFTER = re.compile(
    r"(?i)(\b(?:authorization|x-api-key|api[_-]?key)[\"']?\s*[:=]\s*[\"']?(?:bearer\s+|basic\s+)?"
    r"|\b(?:bearer|basic)\s+(?=\S*\d))(?!•)[^\s\"',;&]{4,}"
)
_USERINFO = re.compile(r"(?<=://)[^/?#\s@]*:[^/?#\s@]*(?=@)")
#: shorter texts are placeholders (``ollama``, ``none``), and masking them would garble ordinary words
_SHORTEST = 8


class Redactor:
    """Takes secrets out of text. It knows the secrets its owner has told it of, in the forms in which libraries write
    them (as they are, URL-quoted, in JSON, in base64 and hex), and the shapes of keys nobody told it of. A secret cut
    in two by a stream is not found: clean whole texts."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._forms: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        for secret in secrets:
            self.add(secret)

    def __repr__(self) -> str:
        return f"Redactor({MASK})"

    def add(self, secret: Secret) -> None:
        forms = self._forms | _forms(secret.reveal())
        if forms == self._forms or not forms:
            return
        # longest first, so that no form leaves the rest of a longer one behind
        ordered = sorted(forms, key=len, reverse=True)
        self._forms, self._pattern = forms, re.compile("|".join(map(re.escape, ordered)))

    def clean(self, text: str) -> str:
        if self._pattern is not None:
            text = self._pattern.sub(MASK, text)
        text = _USERINFO.sub(MASK, KEY_SHAPE.sub(MASK, text))
        return _AFTER.sub(lambda found: (found[1] or "") + MASK, text)


def _forms(key: str) -> frozenset[str]:
    if len(key) < _SHORTEST:
        return frozenset()
    from urllib.parse import quote, quote_plus

    quoted = {quote(key, safe=""), quote(key), quote_plus(key)}
    lowered = {re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), form) for form in quoted}
    in_json = msgspec.json.encode(key).decode()[1:-1]
    raw = key.encode()
    return frozenset({key, in_json, repr(key)[1:-1], raw.hex(), *quoted, *lowered, *_base64_forms(raw)})


def _base64_forms(raw: bytes) -> Iterable[str]:
    """The base64 of the key wherever it stands in what was encoded (``user:key``, say): one form for each of the three
    alignments, without the characters at its ends that its neighbours have a part in."""
    from base64 import b64encode

    for before, lost in ((0, 0), (1, 2), (2, 3)):
        text = b64encode(b"\0" * before + raw).decode()
        spare = (before + len(raw)) % 3
        certain = text[lost : len(text) - (4 - spare if spare else 0)]
        yield certain
        yield certain.replace("+", "-").replace("/", "_")
