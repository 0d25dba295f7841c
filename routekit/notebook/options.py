"""What may follow a magic, taken from the verb table, and how it is read. Pure: a prompt is never split or unquoted.

Options come first, left to right; the first word that is none begins the prompt, which is the rest of the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ..commands.table import ASK, GLOBAL, GROUPS, VERBS, Option, Verb
from ..config.kinds import seconds
from ..core.value import Value
from ..errors import UsageError

FORMATS = ("markdown", "md", "text", "code", "json", "html", "math")
#: options of the shell's ``ask`` that make no sense in a cell: where output goes, what is piped in
_OF_SHELLS = frozenset("stream json jsonl no_stdin edit render color continue verbose quiet".split())
#: options that a surface acts on itself; all others are the question's
SHOWN = frozenset(
    "format into raw continue quiet soft error usage explain dry_run hide_reasoning extract extract_last debug "
    "cid log".split()
)

_OWN = (
    Option(
        flags=("-f", "--format"),
        help="How the answer is shown (in the shell, -f is a fragment).",
        kind="choice",
        choices=FORMATS,
        metavar="FORMAT",
    ),
    Option(flags=("-i", "--into"), help="Bind the answer to this name.", metavar="NAME"),
    Option(flags=("-r", "--raw"), help="Replace nothing in braces.", kind="flag"),
    Option(flags=("-c", "--continue"), help="Continue this notebook's conversation.", kind="flag"),
    Option(flags=("--quiet",), help="Show nothing; only return the answer.", kind="flag"),
    Option(flags=("--soft",), help="Return an error instead of failing the cell.", kind="flag"),
    Option(flags=("--error",), help="Ask about the last exception.", kind="flag"),
    Option(flags=("--debug",), help="Show the traceback of a fault in routekit.", kind="flag"),
)


def route_options() -> tuple[Option, ...]:
    """The options of ``%route``: those of ``ask`` that fit, under the same letters where they are free, and our own."""
    taken = {flag for row in _OWN for flag in row.flags}
    fitting = []
    for row in ASK.options:
        flags = tuple(flag for flag in row.flags if flag not in taken)
        if flags and row.name not in _OF_SHELLS:
            fitting.append(msgspec.structs.replace(row, flags=flags))
    return (*_OWN, *fitting)


class Line(Value):
    """A magic's line taken apart: options in order with their words, and the rest as it stands."""

    options: tuple[tuple[Option, tuple[str, ...]], ...] = ()
    rest: str = ""


_WORD = re.compile(r"\s*(?P<word>(?P<quote>[\"'])(?P<inner>.*?)(?P=quote)(?=\s|$)|\S+)", re.DOTALL)
#: what looks like an option; ``-5``, ``-->`` and a lone dash do not
_LIKE_OPTION = re.compile(r"--?[A-Za-z][\w-]*(?:=.*)?", re.DOTALL)


def read(text: str, rows: Sequence[Option]) -> Line:
    """Raises ``UsageError`` for an unknown option, or one without its value; never for anything in the prompt."""
    known = {flag: row for row in rows for flag in row.flags}
    found: list[tuple[Option, tuple[str, ...]]] = []
    at = 0
    while True:
        flag, end = _next(text, at)
        if flag == "--":
            return Line(options=tuple(found), rest=text[end:].lstrip())
        name, equals, value = flag.partition("=")
        row = known.get(name if name.startswith("--") else flag)
        if row is None:
            if _LIKE_OPTION.fullmatch(flag) and text[at:].lstrip().startswith(flag):
                raise _unknown(flag, known)
            return Line(options=tuple(found), rest=text[at:].lstrip())
        if row.kind == "switch":
            values: tuple[str, ...] = (name,)
        elif equals and row.kind not in ("flag", "pair"):
            values = (value,)
        else:
            values, end = _values(text, end, row, flag)
        found.append((row, values))
        at = end


def _next(text: str, at: int) -> tuple[str, int]:
    """The next word without its quotes, and where it ends; empty at the end."""
    found = _WORD.match(text, at)
    if not found:
        return "", len(text)
    return (found["word"] if found["inner"] is None else found["inner"]), found.end()


def _values(text: str, at: int, row: Option, flag: str) -> tuple[tuple[str, ...], int]:
    values = []
    for _ in range({"flag": 0, "pair": 2}.get(row.kind, 1)):
        start = at
        word, at = _next(text, at)
        if not text[start:at].strip():
            raise UsageError(f"{flag} needs {'KEY and VALUE' if row.kind == 'pair' else 'a value'}: {row.help}")
        values.append(word)
    return tuple(values), at


def _unknown(flag: str, known: Mapping[str, Any]) -> UsageError:
    import difflib

    near = difflib.get_close_matches(flag.partition("=")[0], known, n=2, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return UsageError(f"unknown option {flag}{hint}", hints=["%route -- your prompt   (if it is part of the prompt)"])


def words(text: str) -> list[str]:
    """All words of a line, quotes around whole words taken off; an apostrophe inside one is a letter."""
    found = []
    at = 0
    while text[at:].strip():
        word, at = _next(text, at)
        found.append(word)
    return found


# --- values -----------------------------------------------------------------------------------------------------------


def settle(line: Line, rows: Sequence[Option], fill: Callable[[str], str] = str) -> dict[str, Any]:
    """Every option's value by name, unset ones included, as a verb's function takes them. ``fill`` is applied to each
    word before it is read."""
    given: dict[str, Any] = {row.name: _unset(row) for row in rows}
    for row, raw in line.options:
        value = _read(row, tuple(raw if row.kind == "switch" else map(fill, raw)))
        given[row.name] = (*given[row.name], value) if row.many else value
    return given


def _unset(row: Option) -> Any:
    if row.many:
        return ()
    return False if row.kind == "flag" else row.default


def _read(row: Option, values: tuple[str, ...]) -> Any:
    if row.kind == "flag":
        return True
    if row.kind == "switch":
        return values[0] == row.flags[0]
    if row.kind == "pair":
        return values
    if row.kind == "choice" and values[0] not in row.choices:
        raise UsageError(f"{row.flags[-1]} '{values[0]}': one of {', '.join(row.choices)}")
    reader = _READERS.get(row.kind)
    return reader(values[0], row) if reader else values[0]


def _seconds(text: str, row: Option) -> float:
    plain = re.fullmatch(r"\d{1,9}(\.\d+)?", text)
    length = float(text) if plain else seconds(text)
    if not length:
        raise UsageError(f"{row.flags[-1]} '{text}' is no length of time: write 30, 250ms, 30s or 2m")
    return length


def _integer(text: str, row: Option) -> int:
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise UsageError(f"{row.flags[-1]} '{text}' is no whole number")
    return int(text)


def _money(text: str, row: Option) -> float:
    if not re.fullmatch(r"\d{1,9}(\.\d+)?", text):
        raise UsageError(f"{row.flags[-1]} '{text}' is no amount of money: write 0.05")
    return float(text)


_READERS: Mapping[str, Callable[[str, Option], Any]] = {"seconds": _seconds, "integer": _integer, "money": _money}


# --- verbs ------------------------------------------------------------------------------------------------------------


def verb_of(typed: Sequence[str]) -> tuple[Verb, int]:
    """The verb that words name, and how many of them. A group alone is its default. Raises ``UsageError`` with the
    nearest names."""
    names = {verb.path: verb for verb in VERBS}
    if tuple(typed[:1]) in names:
        return names[tuple(typed[:1])], 1
    if tuple(typed[:2]) in names:
        return names[tuple(typed[:2])], 2
    group = next((row for row in GROUPS if typed and row.name == typed[0]), None)
    if group is None:
        raise _no_verb(typed[0] if typed else "", list(dict.fromkeys(path[0] for path in names)), "%routekit")
    if len(typed) == 1 or typed[1].startswith("-"):
        return names[(group.name, group.default)], 1
    raise _no_verb(typed[1], [path[1] for path in names if path[0] == group.name], f"%routekit {group.name}")


def _no_verb(name: str, known: list[str], where: str) -> UsageError:
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
    return UsageError(f"unknown command '{name}'; {hint}" if name else f"which command? {hint}", hints=[where])


def read_verb(text: str) -> tuple[Verb, dict[str, Any], dict[str, Any]]:
    """A ``%routekit`` line: the verb, what its function is given, and the global options, which may stand anywhere."""
    rest, said = read_globals(text)
    if len(rest) > 1 and rest[1].partition("=")[0] in {flag for row in GLOBAL for flag in row.flags}:
        below, more = read_globals(" ".join(map(_quoted, rest[1:])))
        rest, said = [rest[0], *below], said | {name: value for name, value in more.items() if value}
    verb, count = verb_of(rest)
    given, positional = _verb_values(verb, rest[count:], said)
    return verb, given | _arguments(verb, positional), said


def read_globals(text: str) -> tuple[list[str], dict[str, Any]]:
    """The words of a line without the global options before its verb, and those options."""
    line = read(text, GLOBAL)
    return words(line.rest), settle(line, GLOBAL)


def _verb_values(verb: Verb, typed: Sequence[str], said: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    rows = (*verb.options, *GLOBAL)
    found: list[tuple[Option, tuple[str, ...]]] = []
    positional: list[str] = []
    rest = list(typed)
    while rest:
        if not _LIKE_OPTION.fullmatch(rest[0]):
            positional.append(rest.pop(0))
            continue
        line = read(" ".join(map(_quoted, rest)), rows)
        found += line.options
        rest = words(line.rest)
    given = settle(Line(options=tuple(found)), rows)
    for row in GLOBAL:
        value = given.pop(row.name)
        if value:
            said[row.name] = value
    return given, positional


def _quoted(word: str) -> str:
    return f'"{word}"' if not word or any(char.isspace() for char in word) else word


def _arguments(verb: Verb, typed: list[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    rest = list(typed)
    for row in verb.arguments:
        if row.many:
            given[row.name], rest = tuple(rest), []
        else:
            given[row.name] = rest.pop(0) if rest else None
        if row.required and not given[row.name]:
            raise UsageError(f"{verb.name} needs {row.name.upper()}", hints=[f"routekit {verb.name} --help"])
    if rest:
        raise UsageError(f"{verb.name} takes no '{rest[0]}'", hints=[f"routekit {verb.name} --help"])
    return given


def help_text(verb: Verb) -> list[str]:
    """A verb's help, as the shell gives it."""
    named = " ".join(row.name.upper() if row.required else f"[{row.name.upper()}]" for row in verb.arguments)
    lines = [f"%routekit {verb.name} {named}".rstrip(), "", verb.help, ""]
    lines += [f"  {', '.join(row.flags)} {row.metavar}".rstrip() + f"   {row.help}" for row in verb.options]
    return [*lines, *(f"  %{line}" for line in verb.examples if line.startswith("routekit"))]
