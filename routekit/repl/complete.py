"""What can stand where the cursor is: commands, then their arguments. Pure: names and files are asked of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..core.value import Value
from .slash import COMMANDS, Command

#: what kind of names (``references``, ``files`` …) and what is typed of one → those that exist
Names = Callable[[str, str], Sequence[str]]

#: model options people set, and the values of those that have few
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "temperature": ("0", "0.2", "0.7", "1"),
    "max_tokens": ("256", "1024", "4096"),
    "top_p": ("0.9", "1"),
    "top_k": (),
    "reasoning_effort": ("none", "minimal", "low", "medium", "high", "xhigh"),
    "verbosity": ("low", "medium", "high"),
    "stop": (),
    "seed": (),
    "frequency_penalty": (),
    "presence_penalty": (),
}


class Choice(Value):
    """``text`` takes the place of the ``length`` characters before the cursor."""

    text: str
    length: int
    help: str = ""


def find(before: str, names: Names) -> list[Choice]:
    """``before`` is everything up to the cursor. A message completes to nothing."""
    if not before.startswith("/") or before.startswith("//") or "\n" in before:
        return []
    command, blank, typed = before[1:].partition(" ")
    if not blank:
        return [
            Choice(text=f"/{row.name}", length=len(before), help=row.help)
            for row in COMMANDS
            if any(name.startswith(command) for name in row.names)
        ]
    row = next((row for row in COMMANDS if command in row.names), None)
    if row is None or not row.completes:
        return []
    fragment, done = _last(typed)
    kind = row.completes[min(len(done), len(row.completes) - 1)]
    return [Choice(text=_quoted(one), length=len(fragment)) for one in _values(row, kind, fragment, done, names)]


def _last(typed: str) -> tuple[str, list[str]]:
    """The word being typed, as it stands, and the words before it."""
    quote, start = "", 0
    for at, letter in enumerate(typed):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and (at == 0 or typed[at - 1].isspace()):
            quote = letter
        elif letter.isspace():
            start = at + 1
    return typed[start:], typed[:start].split()


def _quoted(word: str) -> str:
    if not any(letter.isspace() for letter in word):
        return word
    # what is in a folder is still to be typed
    return f'"{word}' if word.endswith("/") else f'"{word}"'


def _values(row: Command, kind: str, fragment: str, done: Sequence[str], names: Names) -> list[str]:
    head, *fixed = kind.split()
    bare = fragment.lstrip("\"'")
    if head in ("word", "flag"):
        found: Sequence[str] = fixed if not done else ()
    elif head == "options":
        found = tuple(OPTIONS)
    elif head == "values":
        found = OPTIONS.get(done[0], ()) if len(done) == 1 else ()
    elif head == "commands":
        found = [one.name for one in COMMANDS]
    else:
        # a file's name may be any of many; of everything else one is enough
        found = names(head, bare) if head == "files" or len(done) < len(row.completes) else ()
    return [one for one in found if one.startswith(bare)]
