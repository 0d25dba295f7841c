"""The tables of ``README.md`` in this folder: every row is there, and every test they name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = (HERE / "README.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: cells[2]
    for line in TABLE.splitlines()
    if line.startswith("| ") and len(cells := [cell.strip() for cell in line.strip("|").split(" | ")]) == 3
}
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


@cache
def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_test_the_tables_name_exists() -> None:
    named = NAMED.findall(TABLE)
    assert len(named) > 150
    missing = [f"{file}::{name}" for file, name in named if name not in functions_of(HERE / file)]
    assert missing == []


def test_every_row_of_the_documents_is_in_the_tables() -> None:
    wanted = [f"A{number}" for number in range(1, 7)]
    wanted += [f"2a.{number}" for number in range(1, 46)]
    wanted += [f"R{number}" for number in range(57, 71)]
    wanted += [f"D{number}" for number in range(1, 56)]
    wanted += [f"C{number}" for number in range(1, 30)]
    wanted += [f"report {number}" for number in range(1, 127)]
    assert [row for row in wanted if row not in ROWS] == []


def test_every_row_names_a_test_or_the_rule_that_replaces_it_or_says_that_it_waits() -> None:
    bare = [
        row
        for row, held in ROWS.items()
        if row != "row" and not NAMED.search(held) and not re.search(r"semantics §|not built|second wave", held)
    ]
    assert [row for row in bare if not set(row) <= {"-"}] == []
