"""What is put into a prompt in place of ``{name}``, and how a value is written there. Pure; it never raises for text.

Replaced are plain identifiers that the namespace binds, and ``{In[3]}``, ``{Out[3]}``, ``{Err[3]}``. Everything else in
braces is text, so that JSON, code, LaTeX and templates arrive as typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..core.value import Value
from ..errors import UsageError

_NAME = r"[^\W\d]\w*"
_WHAT = rf"{_NAME}|(?:In|Out|Err)\[\d+\]"
_HOLE = re.compile(rf"\{{\{{(?P<literal>{_WHAT})\}}\}}|\{{(?P<what>{_WHAT})\}}")
_PART = re.compile(rf"\{{(?P<root>{_NAME})[.\[(][^{{}}\n]*\}}")
#: a table's bounds in a prompt
ROWS, COLUMNS, CELL, TABLE = 60, 30, 200, 8_000


class Filled(Value):
    """A text with its names replaced: ``used`` says what by, ``left`` names what looked like a name and stayed."""

    text: str
    used: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


#: an expression in braces → its value; raises ``KeyError`` where there is none
Lookup = Callable[[str], Any]


def fill(text: str, lookup: Lookup) -> Filled:
    """The text with every bound name replaced; ``{{name}}`` is a literal ``{name}`` where ``name`` would be."""
    used: dict[str, str] = {}
    left: dict[str, None] = {}

    def put(found: re.Match[str]) -> str:
        what = found["what"] or found["literal"]
        try:
            value = lookup(what)
        except KeyError:
            if found["what"]:
                left[found[0]] = None
            return found[0]
        if found["literal"]:
            return f"{{{what}}}"
        written = _written(what, value)
        used[what] = f"{what} ({describe(value)}, {size(written)})"
        return written

    done = _HOLE.sub(put, text)
    left |= dict.fromkeys(_parts(text, lookup))
    return Filled(text=done, used=tuple(used.values()), left=tuple(left))


def _parts(text: str, lookup: Lookup) -> Iterable[str]:
    """``{df.shape}`` and the like, where ``df`` is bound: text, but somebody may have meant more."""
    for found in _PART.finditer(text):
        if _HOLE.fullmatch(found[0]):
            continue
        try:
            lookup(found["root"])
        except KeyError:
            continue
        yield found[0]


def namespace(
    names: Mapping[str, Any], cells: Callable[[str, int], str | None], *, hidden: Iterable[str] = ()
) -> Lookup:
    """A look-up in a namespace without the names a shell puts there itself. ``cells`` gives ``In``, ``Out`` or ``Err``
    of a cell number, ``None`` where there is none."""
    unseen = frozenset(hidden)

    def look(what: str) -> Any:
        kind, bracket, number = what.rstrip("]").partition("[")
        if bracket:
            found = cells(kind, int(number))
            if found is None:
                raise KeyError(what)
            return found
        if what in unseen:
            raise KeyError(what)
        return names[what]

    return look


def _written(what: str, value: Any) -> str:
    try:
        return write(value)
    except Exception as error:
        # The value's own code failed: whoever wrote it should be told whose it was.
        raise UsageError(f"{{{what}}} cannot be written as text: {type(error).__name__}") from None


# --- values as text ---------------------------------------------------------------------------------------------------


def write(value: Any) -> str:
    """A value as a model reads it: text as it is, a table as bounded Markdown, anything else as ``str`` gives it."""
    if isinstance(value, str):
        return value
    return markdown_table(value) if is_table(value) else str(value)


def describe(value: Any) -> str:
    name = type(value).__name__
    return f"{name} {'×'.join(str(length) for length in value.shape)}" if is_table(value) else name


def size(text: str) -> str:
    count = len(text.encode("utf-8", "surrogatepass"))
    return f"{count} B" if count < 1000 else f"{count / 1000:.1f} kB"


def is_table(value: Any) -> bool:
    """A data frame or series of pandas or polars, told by its shape: neither is imported for that."""
    module = type(value).__module__.partition(".")[0]
    return module in ("pandas", "polars") and type(value).__name__ in ("DataFrame", "Series")


def markdown_table(frame: Any) -> str:
    """The first rows and columns, as far as the bounds allow; what was cut is stated below."""
    if type(frame).__name__ == "Series":
        frame = frame.to_frame()
    height, width = frame.shape
    names, rows = _grid(frame)
    lines = [_line(names), _line(["---"] * len(names))]
    length = sum(map(len, lines))
    shown = 0
    for row in rows:
        line = _line(row)
        length += len(line) + 1
        if length > TABLE:
            break
        lines.append(line)
        shown += 1
    cut = [f"first {shown} of {height} rows"] if shown < height else []
    cut += [f"first {COLUMNS} of {width} columns"] if width > COLUMNS else []
    return "\n".join([*lines, *([f"({', '.join(cut)})"] if cut else [])])


def _grid(frame: Any) -> tuple[list[str], list[list[str]]]:
    names = [_cell(name) for name in list(frame.columns)[:COLUMNS]]
    head = frame.head(ROWS)
    if hasattr(head, "iter_rows"):
        return names, [[_cell(value) for value in row[:COLUMNS]] for row in head.iter_rows()]
    numbered = type(head.index).__name__ == "RangeIndex" and head.index.name is None
    rows = []
    for label, row in zip(head.index, head.iloc[:, :COLUMNS].itertuples(index=False, name=None), strict=True):
        rows.append([*([] if numbered else [_cell(label)]), *(_cell(value) for value in row)])
    return [*([] if numbered else [_cell(head.index.name or "")]), *names], rows


def _cell(value: Any) -> str:
    text = " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= CELL else text[: CELL - 1] + "…"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
