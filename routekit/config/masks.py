"""Recognises text that looks like a secret, so that no message ever repeats one. It reads no secret from anywhere."""

from __future__ import annotations

import re

from ..core.keyref import KEY_SHAPE, MASK, looks_like_key

_SCHEME = re.compile(r"(?:bearer|basic|token)\s+\S{8,}", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/?#\s]*@")


def may_be_secret(text: str) -> bool:
    """Whether the text holds what looks like a key: by its beginning, its randomness, or as a header's value."""
    return looks_like_key(text.strip()) or _SCHEME.search(text) is not None


def masked(text: str) -> str:
    """The text with everything replaced that is certainly a key; ids and model names stay readable."""
    return _USERINFO.sub(MASK + "@", KEY_SHAPE.sub(MASK, _SCHEME.sub(MASK, text)))


def shown(value: object) -> str:
    """A value of the file as a message may quote it: short, on one line, never a secret."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) > 10**20:
        return "a number of this size"  # Python refuses to print thousands of digits
    if not isinstance(value, str):
        return masked(str(value))[:60]
    if may_be_secret(value):
        return f"'{MASK}'"
    text = masked(value)
    # repr: control characters of the file must not reach a terminal
    return repr(text if len(text) <= 60 else text[:57] + "…")
