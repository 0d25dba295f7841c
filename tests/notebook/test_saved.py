"""Notebooks run by a machine: they stop at a failing cell, and what they keep says who answered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook


def execute(place: Path, *cells: str, monkeypatch: pytest.MonkeyPatch, notebook: Any = None) -> Any:
    monkeypatch.setenv("ROUTEKIT_HOME", str(place / "rk"))
    monkeypatch.setenv("IPYTHONDIR", str(place / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(place / "runtime"))
    monkeypatch.setenv("ROUTEKIT_PROFILE", "demo")
    book = notebook or new_notebook(cells=[new_code_cell(text) for text in ("%load_ext routekit", *cells)])
    client = NotebookClient(book, timeout=30, kernel_name="python3", resources={"metadata": {"path": str(place)}})
    try:
        client.execute()
    except CellExecutionError:
        book.metadata["stopped"] = True
    return book


def counts(book: Any) -> list[int | None]:
    return [cell.execution_count for cell in book.cells if cell.cell_type == "code"]


def test_a_failing_cell_stops_the_notebook_and_soft_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soft = "%route --soft -m demo-primary/model hi"
    hard = "%%route demo-primary/model\nhi"
    book = execute(tmp_path, soft, hard, "print('never')", monkeypatch=monkeypatch)
    assert book.metadata.get("stopped")
    assert counts(book) == [1, 2, 3, None]
    error = book.cells[2].outputs[-1]
    assert error.output_type == "error"
    assert 1 <= len(error.traceback) <= 4
    assert "RouteExhausted" in error.traceback[0]


def test_a_saved_answer_says_who_gave_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = execute(tmp_path, "%route hi", monkeypatch=monkeypatch)
    answer, footer = book.cells[1].outputs
    assert answer.metadata.routekit.served_by == "demo-backup/model"
    assert answer.data["text/plain"] == "Hello from the demo. You asked: hi"
    assert footer.data["text/plain"].startswith("demo → demo-backup/model")


def test_the_example_notebook_runs_from_top_to_bottom(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "examples" / "notebook.ipynb"
    book = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    assert all(not cell.get("outputs") for cell in book.cells), "the example is kept without outputs"
    nbformat.validate(book)
    done = execute(tmp_path, notebook=book, monkeypatch=monkeypatch)
    assert "stopped" not in done.metadata, [cell.outputs for cell in done.cells if cell.get("outputs")][-1]
    text = json.dumps(done)
    assert text.count("<svg ") >= 4
    assert "used: topic (str, 8 B)" in text
    assert "left as text: {unknown}" in text


def test_the_example_script_asks_and_answers(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUTEKIT_HOME", str(tmp_path / "rk"))
    command = [sys.executable, str(root / "examples" / "summaries.py")]
    done = subprocess.run(command, input="one\ntwo?\n", capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.count("Hello from the demo. You asked: ") == 2
    assert done.stderr == ""
