"""Edits of a config file that keep everything they do not name: comments, order, layout. It never writes a file that
would have an error the old one did not have.

An edit is a list of operations. Each is done twice: on the plain document, which is the truth, and on the text. A text
is accepted only if it parses to exactly that truth.
"""

from __future__ import annotations

import copy
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import msgspec

from ..core.config import Problem
from ..core.value import Value
from ..errors import ConfigError, RoutekitError
from ..files import read_marked, replaceable
from .file import Setting, read
from .kinds import Path, quoted
from .lines import Span, scan
from .sources import Source, other_writers
from .tables import ENTRIES, SETTINGS


class Operation(Value):
    """``set`` puts ``value`` at ``path``, ``drop`` takes away what is there; ``insert`` and ``move`` change the list at
    ``path`` (``index``, and ``to`` where the element goes)."""

    kind: str
    path: Path
    value: Any = None
    index: int = 0
    to: int = 0


def put(path: Path, value: Any) -> Operation:
    return Operation(kind="set", path=path, value=value)


def drop(path: Path) -> Operation:
    return Operation(kind="drop", path=path)


def insert(path: Path, index: int, value: Any) -> Operation:
    return Operation(kind="insert", path=path, index=index, value=value)


def move(path: Path, index: int, to: int) -> Operation:
    return Operation(kind="move", path=path, index=index, to=to)


class Edited(Value):
    """What an edit did. ``warnings`` are those the file did not have before."""

    file: str
    before: str
    after: str
    warnings: tuple[Problem, ...] = ()

    @property
    def changed(self) -> bool:
        return self.before != self.after

    def lines(self) -> list[str]:
        """The changed lines, with ``-`` and ``+`` before them."""
        from difflib import ndiff

        return [line for line in ndiff(self.before.splitlines(), self.after.splitlines()) if line[:1] in "+-"]


#: looks at the document as it is and says what to do; raises ``UsageError`` where that cannot be done
Plan = Callable[[dict[str, Any]], Sequence[Operation]]


# ---- on the plain document


def _reach(document: Any, path: Path, *, create: bool = False) -> Any:
    for part in path:
        if create and isinstance(document, dict) and part not in document:
            document[part] = {}
        document = document[part]
    return document


def _apply(operation: Operation, document: dict[str, Any]) -> None:
    if operation.kind in ("set", "drop"):
        parent = _reach(document, operation.path[:-1], create=operation.kind == "set")
        if operation.kind == "set":
            parent[operation.path[-1]] = copy.deepcopy(operation.value)
        else:
            del parent[operation.path[-1]]
        return
    elements = _reach(document, operation.path)
    if operation.kind == "insert":
        elements.insert(operation.index, copy.deepcopy(operation.value))
    else:
        elements.insert(operation.to, elements.pop(operation.index))


# ---- on the text: first by lines, which keeps comments where they belong, then by tomlkit, which knows every layout


def toml_value(value: Any) -> str:
    """One value on one line, as a person would write it."""
    import json

    if isinstance(value, dict):
        inner = ", ".join(f"{quoted(key)} = {toml_value(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return value.isoformat() if hasattr(value, "isoformat") else repr(value)


def _header(path: Path) -> str:
    return f"[{'.'.join(quoted(part) for part in path)}]"


def _by_lines(operation: Operation, text: str) -> str | None:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    edit = {"set": _set_line, "drop": _drop_lines, "move": _move_lines}.get(operation.kind)
    return edit(operation, lines, text) if edit else None


def _set_line(operation: Operation, lines: list[str], text: str) -> str | None:
    scanner = scan(text)
    if operation.path in scanner.lines:
        return None  # there already: replacing a value is tomlkit's
    value = operation.value
    parent = operation.path[:-1]
    statement = f"{quoted(operation.path[-1])} = {toml_value(value)}\n"
    section = next((span for span in scanner.sections if span.path == parent and parent), None)
    if section is not None and not (isinstance(value, dict) and len(parent) == 1):
        indent = _indent(lines[section.last - 1]) if section.last > section.first else ""
        return "".join([*lines[: section.last], indent + statement, *lines[section.last :]])
    if len(operation.path) < 2:
        return None
    gap = ["\n"] if lines and lines[-1].strip() else []
    if isinstance(value, dict):
        body = "".join(f"{quoted(key)} = {_laid_out(each)}\n" for key, each in value.items())
        return "".join([*lines, *gap, _header(operation.path) + "\n", body])
    return "".join([*lines, *gap, _header(parent) + "\n", statement])


def _laid_out(value: Any) -> str:
    """A list of several things gets a line for each."""
    if isinstance(value, list) and len(value) > 1 and len(toml_value(value)) > 60:
        return "[\n" + "".join(f"  {toml_value(each)},\n" for each in value) + "]"
    return toml_value(value)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _drop_lines(operation: Operation, lines: list[str], text: str) -> str | None:
    scanner = scan(text)
    path = operation.path
    spans = [span for span in (*scanner.sections, *scanner.statements) if span.path[: len(path)] == path and span.path]
    if not spans:
        return None
    gone = {number for span in spans for number in range(span.first, span.last + 1)}
    # one blank line goes with a table, so that removing and adding leaves no growing gap
    for span in spans:
        following = span.last
        if span in scanner.sections and following < len(lines) and not lines[following].strip():
            gone.add(following + 1)
    return "".join(line for number, line in enumerate(lines, 1) if number not in gone)


def _move_lines(operation: Operation, lines: list[str], text: str) -> str | None:
    scanner = scan(text)
    spans: list[Span] = []
    while (*operation.path, len(spans)) in scanner.ends:
        element = (*operation.path, len(spans))
        spans.append(Span(element, scanner.lines[element], scanner.ends[element]))
    apart = all(one.last < two.first for one, two in pairwise(spans))
    whole = all(scanner.commas.get(span.path) == span.last for span in spans)
    if not spans or not apart or not whole or lines[spans[0].first - 1].lstrip()[:1] not in "\"'{":
        return None
    taken = spans[operation.index]
    block = lines[taken.first - 1 : taken.last]
    rest = [*spans[: operation.index], *spans[operation.index + 1 :]]
    # the block goes before the element that will follow it, or after the last one
    at = rest[operation.to].first - 1 if operation.to < len(rest) else rest[-1].last if rest else taken.first - 1
    at -= len(block) if at >= taken.last else 0
    left = [*lines[: taken.first - 1], *lines[taken.last :]]
    return "".join([*left[:at], *block, *left[at:]])


def _by_tomlkit(operation: Operation, text: str) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    place: Any = document
    for part in operation.path[:-1]:
        if operation.kind == "set" and isinstance(part, str) and part not in place:
            place[part] = tomlkit.table()
        place = place[part]
    last: Any = operation.path[-1]
    if operation.kind == "set":
        place[last] = tomlkit.value(toml_value(operation.value))
    elif operation.kind == "drop" and isinstance(place, list):
        place.pop(last)
    elif operation.kind == "drop":
        del place[last]
    elif operation.kind == "insert":
        place[last].insert(operation.index, tomlkit.value(toml_value(operation.value)))
    else:
        place[last].insert(operation.to, place[last].pop(operation.index))
    return tomlkit.dumps(document)


def rewrite(text: str, operations: Sequence[Operation]) -> str:
    """The text after the operations. Raises ``RoutekitError`` if no way of writing them gives exactly what they say."""
    for operation in operations:
        wanted = tomllib.loads(text)
        _apply(operation, wanted)
        text = _rewritten(operation, text, wanted)
    return text


def _rewritten(operation: Operation, text: str, wanted: dict[str, Any]) -> str:
    for way in (_by_lines, _by_tomlkit):
        # Whatever a way of editing trips over, the next one or the message below is the answer; nothing is written yet.
        with suppress(Exception):
            after = way(operation, text)
            for written in (_aired(text, after), after) if after is not None else ():
                if _agrees(tomllib.loads(written), wanted, operation):
                    return written
    where = ".".join(quoted(part) for part in operation.path)
    raise RoutekitError(
        f"{where} stands in a layout that cannot be edited without touching more than it; nothing was written",
        hints=["routekit config edit"],
    )


def _aired(before: str, after: str) -> str:
    """The new lines with the spaces inside ``{ … }`` and after commas that tomlkit forgets, and people write. Text that
    happens to look like it is spared by the comparison that follows."""
    old = set(before.splitlines())
    lines = after.splitlines(keepends=True)
    return "".join(line if line.rstrip("\n") in old else _CLOSE.sub(" }", _COMMA.sub(", ", line)) for line in lines)


_COMMA = re.compile(r",(?=[\"'{])")
_CLOSE = re.compile(r"(?<=[^\s{])\}")


def _agrees(found: dict[str, Any], wanted: dict[str, Any], operation: Operation) -> bool:
    if found == wanted or operation.kind != "drop":
        return found == wanted
    # with the last entry of a table the table itself may go, or stay empty: both mean the same
    return _pruned(found, operation.path[:-1]) == _pruned(wanted, operation.path[:-1])


def _pruned(document: dict[str, Any], path: Path) -> dict[str, Any]:
    for depth in range(len(path), 0, -1):
        with suppress(KeyError, TypeError, IndexError):
            parent = _reach(document, path[: depth - 1])
            if parent[path[depth - 1]] == {}:
                del parent[path[depth - 1]]
    return document


# ---- judged and written


def edit_text(text: str, plan: Plan, *, setting: Setting, name: str = "(text)", writers: str = "") -> Edited:
    """The text after the plan, refused if that adds an error. A text that does not parse is not edited at all."""
    source = Source(name=name, text=text, writers=writers)
    broken = source.parse()
    if broken is not None or not _is_sound(source.document):
        problems = [broken] if broken else read([source], setting=setting).errors
        raise ConfigError("the file must be repaired first", problems=problems, hints=["routekit config edit"])
    operations = [one for one in plan(copy.deepcopy(source.document)) if not _is_idle(one, source.document)]
    after = rewrite(text, operations)
    old = read([source], setting=setting).problems
    new = read([Source(name=name, text=after, writers=writers)], setting=setting).problems
    known = {(problem.key, problem.message) for problem in old}
    added = [problem for problem in new if (problem.key, problem.message) not in known]
    errors = [problem for problem in added if problem.severity == "error"]
    if errors:
        # No lines: they would be those of a text that was never written.
        placeless = [msgspec.structs.replace(problem, file="", line=0) for problem in errors]
        raise ConfigError("this edit would break the configuration; nothing was written", problems=placeless)
    return Edited(file=name, before=text, after=after, warnings=tuple(added))


def _is_sound(document: dict[str, Any]) -> bool:
    """Whether tables are tables and lists are lists, so that a plan can look around in it."""
    lists = {"targets", "members", "providers"}
    for table in (*ENTRIES, *SETTINGS):
        entries = document.get(table, {})
        if not isinstance(entries, dict):
            return False
        for entry in entries.values() if table in ENTRIES else ():
            if not isinstance(entry, dict) or not isinstance(entry.get("weights", {}), dict):
                return False
            if not all(isinstance(entry[key], list) for key in lists & entry.keys()):
                return False
    return True


def _is_idle(operation: Operation, document: dict[str, Any]) -> bool:
    """Whether the document already says so; what changes nothing writes nothing."""
    if operation.kind == "move":
        return operation.index == operation.to
    if operation.kind != "set":
        return False
    with suppress(KeyError, IndexError, TypeError):
        there = _reach(document, operation.path)
        return bool(there == operation.value) and type(there) is type(operation.value)
    return False


def edit_file(file: str, plan: Plan, *, setting: Setting) -> Edited:
    """Edit the file in place, or make it. Links are followed, so that the file they lead to changes; nothing is written
    unless something changed."""
    target = os.path.realpath(file)
    with unwritable(target):
        target = replaceable(target)
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    with _alone(os.path.dirname(target)):
        raw, writers = _current(target)
        mark, ends = ("\ufeff" if raw[:1] == "\ufeff" else ""), ("\r\n" if "\r\n" in raw else "\n")
        text = raw.removeprefix(mark).replace("\r\n", "\n") or "version = 1\n"
        edited = edit_text(text, plan, setting=setting, name=file, writers=writers)
        if edited.changed or not raw:
            write_whole(target, mark + edited.after.replace("\n", ends))
    return edited


def _current(target: str) -> tuple[str, str]:
    try:
        raw, found = read_marked(target)
        return raw.decode("utf-8"), other_writers(target, found)
    except FileNotFoundError:
        return "", ""
    except (OSError, UnicodeDecodeError) as error:
        words = getattr(error, "strerror", None) or error
        raise ConfigError(f"{target} cannot be read: {words}", hints=["routekit config path"]) from None


@contextmanager
def unwritable(target: str) -> Iterator[None]:
    """What the system says against writing the file, as an error of the setup."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}", hints=["routekit config path"]) from None


def write_whole(target: str, text: str) -> None:
    """Replace the file at once, for its owner only: readers see the old text or the new one, also after a crash. Links
    are followed; what is there and no regular file is left alone."""
    with unwritable(target):
        target = replaceable(target)
    folder, name = os.path.split(target)
    draft = os.path.join(folder, f".{name}.{os.getpid()}.new")
    try:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except OSError as error:
        with suppress(OSError):
            os.unlink(draft)
        raise ConfigError(f"{target} cannot be written: {error.strerror}", hints=["routekit config path"]) from None
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    with suppress(OSError):  # some systems cannot open a folder; the file itself is safe already
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _alone(folder: str) -> Iterator[None]:
    """One editor at a time, where the system has such locks: two commands at once must not lose one another's edit."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with unwritable(folder):
        handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
