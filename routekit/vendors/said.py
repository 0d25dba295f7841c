"""What an error answer says: codes, words, parameter and status out of any body a vendor sends. It judges nothing.

Bodies come whole or as the inner error object, as JSON of any shape, JSON inside JSON, text, or a web page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from ..core.value import Value

#: bounds on what is read: nothing an honest vendor says lies beyond them
DEPTH, LAYERS, TEXT, MESSAGE = 10, 40, 8192, 300
BODY = 65536

#: keys under which one error stands inside another, or inside its wrapping
_NESTED = (
    "error", "errors", "response", "detail", "details", "innererror", "inner_error", "metadata", "headers",
    "upstream_error", "base_resp", "violations", "message", "raw",
)  # fmt: skip
_CODES = (
    "error_code", "code", "type", "status", "reason", "error_type", "limit_source", "status_code", "http_code",
)  # fmt: skip
_STATUSES = ("code", "http_code", "status", "status_code", "statusCode")
_TEXTS = (
    "message", "error", "detail", "msg", "raw", "status_msg", "error_description", "title", "quotaId",
)  # fmt: skip
_HOLLOW = frozenset({"provider returned error", "error", "unknown error", "upstream error", "internal error"})

_ADDRESS = re.compile(r"https?://\S+|\b(?:[\w-]{1,63}\.){1,6}(?:com|ai|io|dev|net|org|ms)/\S*")
_PAGE = re.compile(r"<(?:!doctype|html|head|body|title)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,400})", re.IGNORECASE)
_HIDDEN = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]{0,1000}>")
#: what keys look like; a vendor that repeats one must not make us repeat it
_KEYLIKE = re.compile(
    r"(?i:\bbearer\s+)\S{8,}|\b(?:sk|pk|rk|xai|gsk|nvapi|csk|pplx|sess|hf)[-_][\w-]{8,}|\bAIza[\w-]{20,}"
    r"|(?i:\b(?:api[_-]?key|key|token)=)[^\s&\"']{8,}"
)
MASK = "•••"


class Said(Value):
    """``status`` is the one that counts: the answer's own, else one named in the body, ``None`` where neither is an
    error. ``codes`` are lower case; ``text`` holds all words, without web addresses (they mention billing in every
    other error); ``message`` is the part to show."""

    status: int | None
    codes: frozenset[str] = frozenset()
    code: str | None = None
    message: str = ""
    text: str = ""
    param: str | None = None
    page: bool = False
    layers: tuple[Mapping[str, Any], ...] = ()


def listen(status: int | None, body: object, *, hidden: Sequence[str] = ()) -> Said:
    """Read an error answer. ``hidden`` are secrets to mask wherever they appear."""
    page = _page(body)
    layers = () if page is not None else tuple(islice(_layers(body, 0), LAYERS))
    texts = [page] if page else [masked(text, hidden) for layer in layers for text in _texts(layer)]
    effective = status if status is not None and status >= 300 else _named_status(layers)
    code = _code(layers, effective)
    spoken = [*texts, *(found for found in _codes(layers) if " " in found)]
    return Said(
        status=effective,
        codes=frozenset(_codes(layers)),
        code=code if code is None else masked(code, hidden)[:80],
        message=_shown(texts),
        text=_ADDRESS.sub(" ", " ".join(spoken)[:TEXT]),
        param=_param(layers),
        page=page is not None,
        layers=layers,
    )


def masked(text: str, hidden: Sequence[str] = ()) -> str:
    """The text with whitespace collapsed, and everything that is or looks like a key masked."""
    for secret in hidden:
        text = text.replace(secret, MASK) if secret else text
    return _KEYLIKE.sub(MASK, " ".join(text[:BODY].split()))


def _shown(texts: Sequence[str]) -> str:
    telling = [text for text in texts if text.lower().rstrip(".") not in _HOLLOW]
    text = next(iter([*telling, *texts]), "")
    return text if len(text) <= MESSAGE else text[: MESSAGE - 1] + "…"


def _page(body: object) -> str | None:
    """A web page's title, else its first words; ``None`` for what is no page."""
    if isinstance(body, bytes | bytearray):
        body = bytes(body[:BODY]).decode("utf-8", "replace")
    if not isinstance(body, str) or not _PAGE.search(body[:2048]) or not body.lstrip("\ufeff \t\r\n").startswith("<"):
        return None
    title = _TITLE.search(body[:BODY])
    words = title[1] if title and title[1].strip() else _TAG.sub(" ", _HIDDEN.sub(" ", body[:BODY]))
    return masked(words) or "a web page"


def _layers(body: object, depth: int) -> Iterator[Mapping[str, Any]]:
    """Every object in the body that may speak of the error, outermost first."""
    if depth > DEPTH:
        return
    if isinstance(body, bytes | bytearray):
        body = bytes(body[:BODY]).decode("utf-8", "replace")
    if isinstance(body, str):
        inner = _decoded(body)
        yield from [{"message": body}] if inner is None else _layers(inner, depth + 1)
    elif isinstance(body, Mapping):
        yield body
        for value in _inner(body):
            yield from _layers(value, depth + 1)
    elif isinstance(body, list | tuple):
        for item in body[:8]:
            yield from _layers(item, depth + 1)


def _inner(layer: Mapping[str, Any]) -> Iterator[object]:
    for key in _NESTED:
        value = layer.get(key)
        if isinstance(value, Mapping | list | tuple):
            yield value
        elif isinstance(value, str) and (inner := _decoded(value)) is not None:
            yield inner


def _decoded(text: str) -> object:
    """The JSON object or list in a text; ``None`` where it is none."""
    stripped = text.strip()
    if stripped[:1] not in ("{", "[") or len(stripped) > BODY:
        return None
    try:
        found: object = msgspec.json.decode(stripped)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return found


def _texts(layer: Mapping[str, Any]) -> Iterator[str]:
    for key in _TEXTS:
        value = layer.get(key)
        if isinstance(value, str) and value.strip() and _decoded(value) is None:
            yield f"{_place(layer)}: {value}" if key == "msg" and _place(layer) else value


def _place(layer: Mapping[str, Any]) -> str:
    """Where in the request a validator points (``loc``), without the word "body"."""
    loc = layer.get("loc")
    parts = loc[:12] if isinstance(loc, list | tuple) else ()
    return ".".join(str(part)[:80] for part in parts if isinstance(part, str | int) and part != "body")


def _codes(layers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for layer in layers:
        for key in _CODES:
            found = _scalar(layer.get(key))
            if found:
                yield found.lower()


def _scalar(value: object) -> str | None:
    if isinstance(value, str):
        return value.strip()[:200] or None
    # a bool is an int, and turning a very long one into text fails
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9 else None


def _named_status(layers: Sequence[Mapping[str, Any]]) -> int | None:
    for layer in layers:
        for key in _STATUSES:
            found = _scalar(layer.get(key))
            if found and len(found) == 3 and found.isascii() and found.isdigit() and 400 <= int(found) <= 599:
                return int(found)
    return None


def _code(layers: Sequence[Mapping[str, Any]], status: int | None) -> str | None:
    """The most telling code: a word before a number, a code before a type, an inner one before none."""
    found = [_scalar(layer.get(key)) for key in _CODES[:4] for layer in layers]
    telling = [code for code in found if code and code not in ("error", str(status))]
    words = [code for code in telling if not code.lstrip("-").isdigit()]
    return next(iter([*words, *telling]), None)


def _param(layers: Sequence[Mapping[str, Any]]) -> str | None:
    named = [layer["param"] for layer in layers if isinstance(layer.get("param"), str) and layer["param"].strip()]
    return next(iter([*named, *filter(None, map(_place, layers))]), None)
