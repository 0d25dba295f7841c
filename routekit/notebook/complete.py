"""What can stand where the cursor is, after one of our magics. Pure but for the names, which come from the config."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..commands.table import GROUPS, VERBS, Option
from .options import route_options

_ROUTE = re.compile(r"[ \t]*(?:[^\W\d][\w.]*[ \t]*=[ \t]*)?%(?P<cell>%?)route[ \t]+(?P<typed>.*)")
_VERB = re.compile(r"[ \t]*(?:[^\W\d][\w.]*[ \t]*=[ \t]*)?%routekit[ \t]+(?P<typed>.*)")

#: what kind of names (``references``, ``providers`` …) → those that exist
Names = Callable[[str], Sequence[str]]


def find(before: str, *, first_line: bool, names: Names) -> tuple[str, list[str]] | None:
    """The fragment being typed and what it may become; ``None`` where the line is not ours. ``before`` is the line up
    to the cursor."""
    found = _VERB.fullmatch(before)
    if found:
        return _verb(found["typed"], names)
    found = _ROUTE.fullmatch(before)
    if not found or (found["cell"] and not first_line):
        return None
    return _ask(found["typed"], names, cell=bool(found["cell"]))


def _ask(typed: str, names: Names, *, cell: bool) -> tuple[str, list[str]] | None:
    fragment, done = _split(typed)
    rows = {flag: row for row in route_options() for flag in row.flags}
    expected = _expected(done, rows)
    if expected is not None:
        return fragment, _values(expected, fragment, names)
    if fragment.startswith("-"):
        return fragment, [flag for flag in rows if flag.startswith(fragment)]
    if cell or not _words_of_prompt(done, rows):
        return fragment, _starting(names("references"), fragment)
    return None


def _split(typed: str) -> tuple[str, list[str]]:
    fragment = re.split(r"\s", typed)[-1]
    return fragment, typed[: len(typed) - len(fragment)].split()


def _expected(done: Sequence[str], rows: dict[str, Option]) -> Option | None:
    """The option whose value is being typed."""
    row = rows.get(done[-1]) if done else None
    return row if row is not None and row.kind not in ("flag", "switch", "pair") else None


def _words_of_prompt(done: Sequence[str], rows: dict[str, Option]) -> bool:
    """Whether something besides options has been typed."""
    waiting = 0
    for word in done:
        row = rows.get(word)
        if waiting:
            waiting -= 1
        elif row is None:
            return True
        else:
            waiting = {"flag": 0, "switch": 0, "pair": 2}.get(row.kind, 1)
    return False


def _values(row: Option, fragment: str, names: Names) -> list[str]:
    if row.choices:
        return _starting(row.choices, fragment)
    return _starting(names(row.completes), fragment) if row.completes else []


def _starting(found: Sequence[str], fragment: str) -> list[str]:
    return [name for name in found if name.startswith(fragment)]


def _verb(typed: str, names: Names) -> tuple[str, list[str]] | None:
    fragment, done = _split(typed)
    if not done:
        return fragment, _starting(list(dict.fromkeys(verb.path[0] for verb in VERBS)), fragment)
    if len(done) == 1 and any(group.name == done[0] for group in GROUPS):
        return fragment, _starting([verb.path[1] for verb in VERBS if verb.path[0] == done[0]], fragment)
    verb = next((row for row in VERBS if row.path == tuple(done[: len(row.path)])), None)
    if verb is None:
        return fragment, []
    rows = {flag: row for row in verb.options for flag in row.flags}
    expected = _expected(done, rows)
    if expected is not None:
        return fragment, _values(expected, fragment, names)
    if fragment.startswith("-"):
        return fragment, _starting(list(rows), fragment)
    kinds = dict.fromkeys(row.completes for row in verb.arguments if row.completes)
    return fragment, _starting([name for kind in kinds for name in names(kind)], fragment)
