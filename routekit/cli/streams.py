"""The process's streams, made safe once: none is ``None``, none is another file by accident. It writes nothing."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress


class Closed:
    """Stands where a stream was closed before we began (``>&-``). Writing fails as it would on a full disk."""

    encoding = "utf-8"
    errors = "strict"
    closed = False

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")

    def flush(self) -> None:
        return

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "it is closed")


def prepare() -> None:
    """Before anything is opened: what is opened first would get the number of a closed stream, and be written into."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                _occupy(number)
    # For type checkers a stream is always there.
    sys.stdout = sys.stdout or Closed()
    sys.stderr = sys.stderr or Closed()


def _occupy(number: int) -> None:
    handle = os.open(os.devnull, os.O_RDWR)
    if handle != number:
        os.dup2(handle, number)
        os.close(handle)
