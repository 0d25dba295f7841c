"""How files are read, and which may be replaced: nothing waits, all has a bound, a device is taken for no file.

It knows what no file means, and raises nothing but ``OSError``, whose ``strerror`` is fit for a person.
"""

from __future__ import annotations

import errno
import os
import re
import stat

#: more than any config, catalog or ledger; and more than any vendor takes in one request
LARGEST = 64 * 1024 * 1024
#: a descriptor that somebody has opened for us, such as the shell's ``<(…)``
_OPENED = re.compile(r"/dev/stdin|/(?:dev|proc/(?:self|\d+))/fd/\d+")


def read_bounded(path: str | os.PathLike[str], *, most: int = LARGEST, opened: bool = False) -> bytes:
    """The file's bytes. Judged by what was opened, so that it cannot be exchanged in between. ``opened``: a pipe is
    read too where the path is a descriptor that was handed to us; one with a name might never say anything."""
    name = os.fspath(path)
    return read_marked(name, most=most, opened=opened)[0]


def read_marked(path: str, *, most: int = LARGEST, opened: bool = False) -> tuple[bytes, os.stat_result]:
    """As ``read_bounded``, with what the system says of the file."""
    pipe = opened and _OPENED.fullmatch(path) is not None
    waits = 0 if pipe else getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, os.O_RDONLY | waits | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    try:
        found = os.fstat(handle)
        # A character device ends (``/dev/null``), or meets the bound.
        if not (pipe or stat.S_ISREG(found.st_mode) or stat.S_ISCHR(found.st_mode)):
            raise _unfit(path, found.st_mode)
        return _read(handle, most, path), found
    finally:
        os.close(handle)


def _read(handle: int, most: int, path: str) -> bytes:
    pieces, size = [], 0
    while piece := os.read(handle, 1 << 20):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise OSError(errno.EFBIG, f"it is larger than {bound(most)}", path)
    return b"".join(pieces)


def bound(most: int) -> str:
    """A number of bytes in words."""
    return f"{most >> 20} MB" if most >> 20 else f"{most >> 10} kB"


def replaceable(path: str | os.PathLike[str]) -> str:
    """The path with its links resolved, if what it leads to may be written by us: a regular file, or nothing yet."""
    real = os.path.realpath(path)
    try:
        mode = os.lstat(real).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return real
    if not stat.S_ISREG(mode):
        raise _unfit(real, mode)
    return real


def _unfit(path: str, mode: int) -> OSError:
    rows = (
        (stat.S_ISDIR, errno.EISDIR, os.strerror(errno.EISDIR)),
        (stat.S_ISFIFO, errno.EINVAL, "it is a pipe, not a file"),
        (stat.S_ISSOCK, errno.EINVAL, "it is a socket, not a file"),
        (stat.S_ISCHR, errno.EINVAL, "it is a device, not a file"),
        (stat.S_ISBLK, errno.EINVAL, "it is a device, not a file"),
    )
    code, words = next(((code, words) for holds, code, words in rows if holds(mode)), (errno.EINVAL, "it is no file"))
    return OSError(code, words, path)
