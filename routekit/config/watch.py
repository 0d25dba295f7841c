"""Whether the files of a configuration have changed since they were read, and which version is live. It reads no file's
text and judges none."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Sequence

from ..core.value import Value

#: what the system says of a file; ``None`` where there is none
Mark = tuple[int, int, int, int, int] | None

#: a file changed less than this long ago may change again without its times or size showing it (seconds)
WARM = 0.05


class Live(Value):
    """The version of the configuration in force: its digest, since when (wall-clock seconds), from which files.
    ``rejected`` says what is wrong with the newer version that is not in force, ``rejected_at`` since when."""

    digest: str
    loaded_at: float
    files: tuple[str, ...] = ()
    mode: str = "file"
    rejected: str = ""
    rejected_at: float | None = None


class Look(Value):
    """The files as they were at one moment. ``warm``: another look is needed before this one can be trusted."""

    marks: tuple[Mark, ...]
    warm: bool = False


class Watch:
    """The last look at the files, and the last one after which they made a good configuration."""

    def __init__(self, files: Sequence[str], *, clock: Callable[[], float] = time.time) -> None:
        self.files = tuple(dict.fromkeys(files))
        self._clock = clock
        self._seen: Look | None = None
        self._good: Look | None = None

    def look(self) -> Look:
        """To be taken before the files are read: what changes meanwhile is then seen at the next look."""
        marks = tuple(_mark(file) for file in self.files)
        newest = max((mark[0] for mark in marks if mark is not None), default=0)
        return Look(marks=marks, warm=abs(self._clock() * 1e9 - newest) < WARM * 1e9)

    def seen(self, look: Look) -> None:
        self._seen = look

    def good(self, look: Look) -> None:
        self._seen = self._good = look

    def changed(self) -> bool:
        """Whether the files must be read again. A few microseconds: one question to the system per file."""
        if self._seen is None or self._seen.warm:
            return True
        return any(_mark(file) != mark for file, mark in zip(self.files, self._seen.marks, strict=True))

    def lost(self, among: Collection[str]) -> str:
        """Which of the files that made the good configuration is gone or empty, in words: a half-written file must not
        pass for a configuration without anything in it."""
        for file, mark in zip(self.files, self._good.marks if self._good else (), strict=False):
            now = _mark(file)
            if file in among and mark is not None and mark[2] > 0 and (now is None or now[2] == 0):
                return f"{file} is {'gone' if now is None else 'empty'}"
        return ""


def _mark(file: str) -> Mark:
    # The change time too: it tells a chmod, and a copy that kept its times.
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


def can_be_read_again(files: Sequence[str]) -> bool:
    """Not a pipe: ``--patch <(…)`` gives its text once."""
    for file in files:
        try:
            if not stat.S_ISREG(os.stat(file).st_mode):
                return False
        except OSError:
            continue
    return True
