"""The texts a configuration is read from, and which of them each entry came from. It converts nothing."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from ..core.config import Problem
from ..files import read_marked
from .kinds import Fault, Path, quoted
from .masks import masked

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
#: deeper than any sensible document, and shallow enough for every reader here
_DEEPEST = 40


class Source:
    """One TOML text. ``writers`` says who else could have written it, or is empty."""

    def __init__(self, *, name: str, text: str, writers: str = "") -> None:
        self.name = name
        self.text = text
        self.writers = writers
        self.document: dict[str, Any] = {}
        self._lines: dict[Path, int] | None = None

    def parse(self) -> Problem | None:
        """Fill ``document``, or say what is wrong with the text."""
        try:
            document = tomllib.loads(self.text)
        except RecursionError:
            return Problem(file=self.name, message="tables or lists are nested too deeply")
        except ValueError as error:  # TOMLDecodeError, and Python's own limits on numbers
            return self._broken(str(error))
        if _is_deep(document):
            return Problem(file=self.name, message="tables or lists are nested too deeply")
        self.document = document
        return None

    def _broken(self, message: str) -> Problem:
        found = _PLACE.search(message)
        words = masked(_PLACE.sub("", message))
        if found is None:
            return Problem(file=self.name, message=words)
        line = int(found[1]) if found[1] else self.text.count("\n") + 1
        column = f"column {found[2]}: " if found[2] else "end of file: "
        return Problem(file=self.name, line=line, message=column + words)

    def line(self, path: Path) -> int:
        from .lines import find_lines, line_of

        if self._lines is None:
            self._lines = find_lines(self.text)
        return line_of(path, self._lines)


def _is_deep(document: Any) -> bool:
    pending = [(document, 0)]
    while pending:
        value, depth = pending.pop()
        if depth > _DEEPEST:
            return True
        if isinstance(value, dict):
            pending += [(each, depth + 1) for each in value.values() if isinstance(each, dict | list)]
        elif isinstance(value, list):
            pending += [(each, depth + 1) for each in value if isinstance(each, dict | list)]
    return False


def read_source(path: str) -> Source | Problem:
    """The file's text, or why there is none. A byte order mark is accepted, another encoding is not."""
    try:
        data, found = read_marked(path, opened=True)
        writers = other_writers(path, found)
    except (OSError, ValueError) as error:
        return Problem(file=path, message=f"cannot be read: {getattr(error, 'strerror', None) or error}")
    try:
        return Source(name=path, text=data.decode("utf-8-sig").replace("\r\n", "\n"), writers=writers)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return Problem(file=path, line=line, message="is not UTF-8 text; save it as UTF-8")


def other_writers(path: str, status: os.stat_result) -> str:
    """Who besides this user (and root) may change the file, in words; empty for nobody. Windows has no such marks."""
    if not hasattr(os, "getuid"):
        return ""
    try:
        folder = os.stat(os.path.dirname(os.path.realpath(path)))
    except OSError:
        return "its folder cannot be seen"
    return writers_of(status, folder, user=os.getuid())


def writers_of(file: os.stat_result, folder: os.stat_result, *, user: int) -> str:
    """As ``other_writers``, from what the system says of the file and its folder."""
    trusted = (user, 0)
    # In a folder open to all, anyone may put another file in this one's place, unless the sticky bit forbids it.
    open_to_all = folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX
    rows = (
        (file.st_uid not in trusted, "it belongs to another user"),
        (file.st_mode & stat.S_IWOTH, "everyone may write it"),
        (file.st_mode & stat.S_IWGRP, "its group may write it"),
        (folder.st_uid not in trusted, "its folder belongs to another user"),
        (open_to_all, "its folder is open to everyone"),
    )
    return next((words for hit, words in rows if hit), "")


class Merged:
    """Overlaid sources as one document. Whole entries by id are replaced in the tables of entries, single keys in the
    others."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.document: dict[str, Any] = {}
        self.owners: dict[Path, Source] = {}
        self.sources = list(sources)
        for source in self.sources:
            for table, value in source.document.items():
                self._lay(table, value, source)

    def _lay(self, table: str, value: Any, source: Source) -> None:
        below = self.document.get(table)
        self.owners[(table,)] = source
        if not isinstance(value, dict):
            self.document[table] = value
            return
        if isinstance(below, dict):
            self.document[table] = {**below, **value}
        else:
            self.document[table] = dict(value)
        self.owners |= {(table, key): source for key in value}

    def owner(self, path: Path) -> Source | None:
        return self.owners.get(path[:2]) or self.owners.get(path[:1]) or (self.sources[-1] if self.sources else None)

    def problems(self, faults: Iterable[Fault]) -> list[Problem]:
        """The faults with file, line and key path, in the order a person meets them in the files."""
        order = {source.name: index for index, source in enumerate(self.sources)}
        found = [self._problem(fault) for fault in faults]
        return sorted(dict.fromkeys(found), key=lambda problem: (order.get(problem.file, -1), problem.line))

    def _problem(self, fault: Fault) -> Problem:
        source = self.owner(fault.path)
        severity: Any = fault.severity
        return Problem(
            file=source.name if source else "",
            line=source.line(fault.path) if source else 0,
            key=key_text(fault.path),
            message=masked(fault.message),
            severity=severity,
        )


def key_text(path: Path) -> str:
    """A key path as a person writes it: ``routes.plan.targets[2].weight``; elements count from 1."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        else:
            text += ("." if text else "") + quoted(part)
    return masked(text)


def guarded(merged: Merged, providers: Mapping[str, Any]) -> list[Fault]:
    """Refusals of what must not come from a file others can write: commands to run, and addresses to send keys to."""
    faults = []
    for id, provider in providers.items():
        source = merged.owner(("providers", id))
        if source is None or not source.writers:
            continue
        fix = f"try: chmod go-w {source.name}" if "write it" in source.writers else "move it to a folder of your own"
        for path, what in _dangers(id, provider):
            message = f"{what} is not taken from this file, because {source.writers}; {fix}"
            faults.append(Fault(path=path, message=message))
    return faults


def _dangers(id: str, provider: Any) -> Iterable[tuple[Path, str]]:
    base: Path = ("providers", id)
    if provider.key.startswith("cmd:"):
        yield (*base, "key"), "a command to run"
    for name, value in provider.headers.items():
        if value.startswith("cmd:"):
            yield (*base, "headers", name), "a command to run"
    if provider.origin == "config" and provider.api != "scripted":
        yield (*base, "base_url"), "an address of its own"
    if provider.proxy:
        yield (*base, "proxy"), "a proxy"
