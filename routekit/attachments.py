"""Images and PDFs as parts of a message: read, recognised by their first bytes, put into the OpenAI chat shape.

It sends nothing to a vendor; of addresses it fetches only what no vendor would fetch itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .errors import RequestRefused, UsageError
from .files import read_bounded

#: first bytes → media type
MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
PDF = "application/pdf"
#: what all three APIs take
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
#: an address that ends so is an image, which vendors fetch themselves
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
#: the largest request any of the vendors takes is about this long
LARGEST = 32 * 1024 * 1024
#: seconds for each step of a fetch
PATIENCE = 10.0
#: how far into a file its mark may stand: some PDFs begin with a few bytes of something else
LOOKED_AT = 1024


def attachment(
    source: str | os.PathLike[str] | bytes, *, type: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """A message part from a file's path, an ``http(s)`` or ``data:`` address, or the bytes themselves. ``type`` is the
    media type, where the first bytes do not tell; ``name`` the name a PDF goes by.

    Raises ``UsageError`` for what cannot be read, ``RequestRefused`` for what is neither image nor PDF."""
    if isinstance(source, bytes):
        return _part(source, type, name or "attachment", called="the attachment")
    text = os.fspath(source)
    if text.startswith("data:"):
        return _of_data(text, name)
    if text.startswith(("http://", "https://")):
        return _of_address(text, type, name)
    return _part(_read(Path(text)), type, name or os.path.basename(text), called=text)


def media_type(content: bytes) -> str | None:
    """What the bytes are, as far as it matters here."""
    for mark, found in MAGIC:
        if content.startswith(mark):
            return found
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return PDF if b"%PDF-" in content[:LOOKED_AT] else None


def _part(content: bytes, said: str | None, name: str, *, called: str) -> dict[str, Any]:
    kind = said or media_type(content)
    if kind is None:
        text = _is_text(content)
        raise RequestRefused(
            f"{called} is neither an image (PNG, JPEG, GIF, WebP) nor a PDF",
            kind="unsupported",
            hints=[f"routekit ask -f {called} 'your question'"] if text and called != "the attachment" else [],
        )
    import base64

    return _shaped(f"data:{kind};base64,{base64.b64encode(content).decode()}", kind, name)


def _shaped(address: str, kind: str, name: str) -> dict[str, Any]:
    if kind == PDF:
        return {"type": "file", "file": {"filename": name, "file_data": address}}
    if kind in IMAGES:
        return {"type": "image_url", "image_url": {"url": address}}
    raise RequestRefused(f"{kind} cannot be attached: models take {', '.join((*IMAGES, PDF))}", kind="unsupported")


def _of_data(address: str, name: str | None) -> dict[str, Any]:
    head, comma, _ = address.partition(",")
    if not comma or not head.endswith(";base64"):
        raise UsageError("a data: address must say its media type and be base64: data:image/png;base64,…")
    return _shaped(address, head.removeprefix("data:").partition(";")[0], name or "attachment")


def _of_address(address: str, said: str | None, name: str | None) -> dict[str, Any]:
    path = address.partition("?")[0].partition("#")[0].lower()
    if said in IMAGES or (said is None and path.endswith(ENDINGS)):
        return {"type": "image_url", "image_url": {"url": address}}
    return _part(fetched(address), said, name or path.rpartition("/")[2] or "attachment", called=address)


def fetched(address: str) -> bytes:
    """What stands at an ``http(s)`` address. Raises ``UsageError``, or ``RequestRefused`` for too much of it."""
    import httpx2

    content = bytearray()
    try:
        with httpx2.stream("GET", address, follow_redirects=True, timeout=PATIENCE) as response:
            if response.status_code != 200:
                raise UsageError(f"{address} cannot be fetched: HTTP {response.status_code}")
            for chunk in response.iter_bytes():
                content += chunk
                _check_size(len(content), address)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise UsageError(f"{address} cannot be fetched: {error or type(error).__name__}") from None
    return bytes(content)


def _read(path: Path) -> bytes:
    path = path.expanduser()
    try:
        _check_size(path.stat().st_size, str(path))
        return read_bounded(path, most=LARGEST, opened=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise UsageError(f"{str(path)!r} is no name of a file") from None


def _check_size(size: int, called: str) -> None:
    if size > LARGEST:
        raise RequestRefused(
            f"{called} is larger than {LARGEST // 1024 // 1024} MB: no vendor takes it", kind="request"
        )


def _is_text(content: bytes) -> bool:
    try:
        content[:LOOKED_AT].decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > LOOKED_AT - 4
    return b"\0" not in content[:LOOKED_AT]
