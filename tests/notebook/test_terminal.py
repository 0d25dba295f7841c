"""Terminal IPython, in a real terminal: an answer is a plain stream there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[pexpect.spawn[str]]:
    env = dict(os.environ) | {
        "ROUTEKIT_PROFILE": "demo",
        "ROUTEKIT_HOME": str(tmp_path / "rk"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "TERM": "dumb",
        "NO_COLOR": "1",
    }
    words = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=nocolor", "--no-confirm-exit"]
    child = pexpect.spawn(sys.executable, words, env=env, encoding="utf-8", timeout=20, dimensions=(40, 200))
    child.setecho(False)
    child.expect_exact("In [1]: ")
    child.sendline("%load_ext routekit")
    child.expect_exact("In [2]: ")
    yield child
    child.close(force=True)


def said(terminal: pexpect.spawn[str], line: str, number: int) -> str:
    terminal.sendline(line)
    terminal.expect_exact(f"In [{number}]: ")
    return str(terminal.before or "").replace("\r\n", "\n")


def test_an_answer_is_plain_text_with_a_footer(terminal: pexpect.spawn[str]) -> None:
    text = said(terminal, "%route what's new?", 3)
    assert "Hello from the demo. You asked: what's new?\ndemo → demo-backup/model · " in text
    assert "IPython.core.display" not in text
    # the output's number was written and taken back
    assert text.rstrip().endswith("\r\x1b[K") or "Out[2]" not in text.split("\x1b[K")[-1]


def test_an_assigned_question_with_a_question_mark_is_one(terminal: pexpect.spawn[str]) -> None:
    assert "You asked: is 17 prime?" in said(terminal, "ans = %route is 17 prime?", 3)
    assert "demo-backup/model" in said(terminal, "print(ans.served_by)", 4)
    assert "Out[4]" in said(terminal, "ans", 5)


def test_verbs_are_text_and_errors_are_lines(terminal: pexpect.spawn[str]) -> None:
    assert "demo-primary/model" in said(terminal, "%routekit routes list", 3)
    text = said(terminal, "%route -m demo-primary/model hi", 4)
    assert "RouteExhausted: " in text
    assert "Traceback" not in text
    assert "routekit/notebook" not in text


def test_help_is_the_magics_own(terminal: pexpect.spawn[str]) -> None:
    terminal.sendline("print(get_ipython().find_line_magic('route').__doc__)")
    terminal.expect_exact("In [3]: ")
    assert "%%route [MODEL] [options]" in str(terminal.before)
    assert "-f, --format" in str(terminal.before)
