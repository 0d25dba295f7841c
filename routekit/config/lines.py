"""Finds where things stand in TOML text, for messages and edits. It judges nothing: the text must have parsed."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress

from .kinds import Path

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\''
    r"|\#[^\n]*|\n|[][{}=,]|[^\s\"'\[\]{}=,#]+",
    re.DOTALL,
)


class Span:
    """Lines from ``first`` to ``last``, counted from 1: a table with its header, or one statement."""

    __slots__ = ("first", "last", "path")

    def __init__(self, path: Path, first: int, last: int) -> None:
        self.path = path
        self.first = first
        self.last = last


class Scanner:
    """Reads tokens one after another and notes where each key and list element begins."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, int]] = []
        line = 1
        for found in _TOKEN.finditer(text):
            token = found.group()
            if not token.startswith("#"):
                self.tokens.append((token, line))
            line += token.count("\n")
        self.at = 0
        self.lines: dict[Path, int] = {}
        self.counts: dict[Path, int] = {}
        #: tables in order, the top level first; the last line is that of the last statement, not of what follows it
        self.sections: list[Span] = [Span((), 0, 0)]
        self.statements: list[Span] = []
        #: the line on which a list element ends
        self.ends: dict[Path, int] = {}
        #: the line of the comma after it, if there is one
        self.commas: dict[Path, int] = {}

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def line(self) -> int:
        return self.tokens[min(self.at, len(self.tokens) - 1)][1]

    def last_line(self) -> int:
        """The line on which what was read last ends."""
        token, line = self.tokens[self.at - 1]
        return line + (token.count("\n") if token != "\n" else 0)

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def skip_newlines(self) -> None:
        while self.peek() == "\n":
            self.at += 1

    def note(self, base: Path, parts: Path, line: int) -> Path:
        path = base
        for part in parts:
            path = (*path, part)
            self.lines.setdefault(path, line)
        return path

    def key(self, *ends: str) -> Path:
        parts: list[str | int] = []
        while self.peek() not in ("", "\n", *ends):
            token = self.take()
            parts += [_unquoted(token)] if token[0] in "\"'" else [part for part in token.split(".") if part]
        return tuple(parts)

    def document(self) -> None:
        base: Path = ()
        while self.at < len(self.tokens):
            before = self.at
            self.skip_newlines()
            line = self.line()
            if self.peek() == "[":
                base = self.header()
                self.sections.append(Span(base, line, line))
            elif self.peek():
                self.statements.append(Span(self.pair(base), line, self.last_line()))
                self.sections[-1].last = self.last_line()
            if self.at == before:  # nothing understood: never stand still
                self.at += 1

    def header(self) -> Path:
        line = self.line()
        self.take()
        many = self.peek() == "["
        if many:
            self.take()
        path = self.table(self.key("]"), line, many=many)
        while self.peek() == "]":
            self.take()
        if many:
            index = self.counts.get(path, 0)
            self.counts[path] = index + 1
            path = self.note(path, (index,), line)
        return path

    def table(self, parts: Path, line: int, *, many: bool) -> Path:
        """The path of a header; below an array of tables it goes through that array's latest element."""
        path: Path = ()
        for place, part in enumerate(parts):
            path = self.note(path, (part,), line)
            last = place == len(parts) - 1
            if path in self.counts and not (many and last):
                path = (*path, self.counts[path] - 1)
        return path

    def pair(self, base: Path) -> Path:
        line = self.line()
        path = self.note(base, self.key("=", "}", ","), line)
        if self.peek() == "=":
            self.take()
            self.value(path)
        return path

    def value(self, path: Path) -> None:
        opening = self.peek()
        if opening == "[":
            self.items(path)
        elif opening == "{":
            self.inline(path)
        else:
            while self.peek() not in ("", "\n", ",", "]", "}"):
                self.take()

    def items(self, path: Path) -> None:
        self.take()
        index = 0
        while True:
            self.skip_newlines()
            if self.peek() in ("", "]"):
                break
            element = self.note(path, (index,), self.line())
            self.value(element)
            self.ends[element] = self.last_line()
            index += 1
            self.skip_newlines()
            if self.peek() != ",":
                break
            self.commas[element] = self.line()
            self.take()
        self.take()

    def inline(self, path: Path) -> None:
        self.take()
        while self.peek() not in ("", "}"):
            before = self.at
            self.skip_newlines()
            self.pair(path)
            self.skip_newlines()
            if self.peek() == ",":
                self.take()
            if self.at == before:
                break
        self.take()


def _unquoted(token: str) -> str:
    try:
        return str(tomllib.loads(f"k = {token}")["k"])
    except tomllib.TOMLDecodeError:
        return token.strip("\"'")


def scan(text: str) -> Scanner:
    scanner = Scanner(text)
    with suppress(RecursionError):  # absurdly deep nesting: the outer lines are known, enough for a message
        scanner.document()
    return scanner


def find_lines(text: str) -> dict[Path, int]:
    """The line (from 1) of every key path and list element of a TOML text."""
    return scan(text).lines


def line_of(path: Path, lines: dict[Path, int]) -> int:
    """The line of the path, or of the nearest thing around it; 0 if nothing of it is in the text."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return 0
