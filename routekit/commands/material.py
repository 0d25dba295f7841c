"""What goes along with a question: files, addresses and the pipe, read as text or as attachments. It sends nothing."""

from __future__ import annotations

import os
from typing import Any

from ..attachments import LARGEST, attachment, fetched
from ..errors import RequestRefused, UsageError
from ..files import read_bounded

STDIN = "-"


def text(source: str, stdin: bytes | None = None) -> str:
    """The text of a file, an address, or (``-``) standard input. Raises ``RequestRefused`` where it is none."""
    raw, called = _bytes(source, stdin)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RequestRefused(
            f"{called} is not text in UTF-8", kind="input", hints=[f"routekit ask -a {source} 'your question'"]
        ) from None


def part(source: str, stdin: bytes | None = None, *, type: str | None = None) -> dict[str, Any]:
    """The message part of an image or a PDF. Raises ``RequestRefused``."""
    if source == STDIN:
        return attachment(stdin or b"", type=type, name="stdin")
    try:
        return attachment(source, type=type)
    except UsageError as error:
        raise RequestRefused(error.message, kind="input") from None


def _bytes(source: str, stdin: bytes | None) -> tuple[bytes, str]:
    if source == STDIN:
        return stdin or b"", "standard input"
    try:
        if source.startswith(("http://", "https://")):
            return fetched(source), source
        raw = read_bounded(os.path.expanduser(source), most=LARGEST, opened=True)
    except UsageError as error:
        raise RequestRefused(error.message, kind="input") from None
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        raise RequestRefused(f"{source} cannot be read: {words}", kind="input") from None
    return raw, source
