"""Real processes over one store: exact shares, one rung per incident, one probe at a time (semantics §4, §5)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from routekit.router import Router
from routekit.state import open_store
from routekit.vendors.scripted import Vendor

CALLERS = Path(__file__).with_name("callers.py")
Rows = list[dict[str, Any]]


def config(*accounts: str, targets: str, selection: str = "ordered", more: str = "") -> str:
    """``config("a: text = 'hi'", …)``: an account and the step each of its calls takes."""
    rows = [account.partition(":") for account in accounts]
    listed = "".join(
        f'[providers.{id}]\napi = "scripted"\nkey = "none"\nparams.script = [{{ {step} }}]\n' for id, _, step in rows
    )
    return f'version = 1\n{more}\n{listed}[routes.r]\ntargets = [{targets}]\nselection = "{selection}"\n'


def started(state: Path, processes: int, times: int, text: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(CALLERS), str(state), str(processes), str(times), text]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def asked(state: Path, processes: int, times: int, text: str) -> Rows:
    with started(state, processes, times, text) as running:
        rows: Rows = [json.loads(line) for line in running.communicate(timeout=50)[0].splitlines()]
    assert sum("warnings" in row for row in rows) == processes
    assert [row["warnings"] for row in rows if row.get("warnings")] == []
    return rows


def served(rows: Rows) -> Counter[str]:
    return Counter(row["served"] for row in rows if "served" in row)


def called(rows: Rows) -> Counter[str]:
    return Counter(row["called"] for row in rows if "called" in row)


def opened(state: Path, text: str, *, shift: float = 0.0) -> Router:
    script = [lambda call: dict(call.provider.params["script"][0])]
    speakers = {"scripted": Vendor(script=script)}
    return Router.from_toml(text, state=open_store(state), speakers=speakers, now=lambda: time.time() + shift)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "state.sqlite3"


# --- shares -----------------------------------------------------------------------------------------------------------

SHARES = config(
    "a: text = 'a'",
    "b: text = 'b'",
    targets='{ target = "a/m", weight = 3 }, { target = "b/m", weight = 1 }',
    selection="smooth",
)


def test_three_to_one_over_eight_processes_is_exactly_300_and_100_of_400(state: Path) -> None:
    assert served(asked(state, 8, 50, SHARES)) == {"a/m": 300, "b/m": 100}


def test_three_to_one_over_sixteen_processes_is_exactly_300_and_100_of_400(state: Path) -> None:
    assert served(asked(state, 16, 25, SHARES)) == {"a/m": 300, "b/m": 100}


def test_three_to_one_over_eight_processes_is_exactly_30_and_10_of_40(state: Path) -> None:
    assert served(asked(state, 8, 5, SHARES)) == {"a/m": 30, "b/m": 10}


def test_forty_calls_of_one_process_are_a_a_b_a_ten_times_over(state: Path) -> None:
    rows = asked(state, 1, 40, SHARES)
    assert "".join(row["served"][0] for row in rows if "served" in row) == "aaba" * 10


def test_a_rotation_goes_on_where_the_last_process_left_it(state: Path) -> None:
    text = config("a: text = 'a'", "b: text = 'b'", targets='"a/m", "b/m"', selection="round-robin")
    assert [next(iter(served(asked(state, 1, 1, text)))) for _ in range(3)] == ["a/m", "b/m", "a/m"]


# --- one incident -----------------------------------------------------------------------------------------------------

DOWN = "fault = 'unknown', message = 'down', first = 0.3"


def test_forty_eight_processes_that_meet_one_outage_cost_one_rung(state: Path) -> None:
    text = config(f"a: {DOWN}", "b: text = 'b'", targets='"a/m", "b/m"')
    rows = asked(state, 48, 1, text)
    assert served(rows) == {"b/m": 48}
    assert called(rows)["a/m"] >= 2
    sleeper = next(row for row in opened(state, text).health() if row.key == "a/m")
    assert sleeper.rung == 1
    assert sleeper.until is not None
    assert sleeper.until - time.time() <= 30


def test_a_dead_target_is_met_by_the_first_process_and_skipped_by_the_next_nine(state: Path) -> None:
    text = config("a: fault = 'unknown', message = 'down'", "b: text = 'b'", targets='"a/m", "b/m"')
    asked(state, 1, 1, text)
    rows = asked(state, 9, 1, text)
    assert (called(rows), served(rows)) == ({"b/m": 9}, {"b/m": 9})


def test_a_failure_met_in_one_route_is_respected_by_another_process_in_another(state: Path) -> None:
    down = "a: fault = 'unknown', message = 'down'"
    asked(state, 1, 1, config(down, "b: text = 'b'", targets='"a/m", "b/m"'))
    other = config(down, "c: text = 'c'", targets='"a/m", "c/m"', selection="round-robin")
    assert called(asked(state, 1, 2, other)) == {"c/m": 2}


# --- half-open --------------------------------------------------------------------------------------------------------

SHORT = '[health]\nfirst = "100ms"\n[limits]\nconnect = "100ms"\nfirst_output = "3s"\n'


def window_over(state: Path, text: str) -> None:
    """a has failed, and its window has ended."""
    broken = text.replace("first = 0.5", "first = 0.0").replace("text = 'a'", "fault = 'unknown', message = 'down'")
    asked(state, 1, 1, broken)
    time.sleep(0.15)


def test_of_sixteen_processes_at_the_end_of_a_window_exactly_one_probes_and_fifteen_go_elsewhere(state: Path) -> None:
    text = config("a: text = 'a', first = 0.5", "b: text = 'b'", targets='"a/m", "b/m"', more=SHORT)
    window_over(state, text)
    rows = asked(state, 16, 1, text)
    # Whoever comes after the verdict may use the target again; nobody may before.
    verdict = next(row["at"] for row in rows if row.get("served") == "a/m")
    before = [row for row in rows if row.get("called") == "a/m" and row["at"] < verdict]
    assert len(before) == 1
    assert {row["served"] for row in rows if "served" in row and row["at"] < verdict} <= {"b/m"}
    assert served(rows).total() == 16
    assert served(rows)["b/m"] >= 8


def test_with_nothing_else_the_other_fifteen_wait_for_the_verdict_and_are_served(state: Path) -> None:
    text = config("a: text = 'a', first = 0.5", targets='"a/m"', more=SHORT)
    window_over(state, text)
    rows = asked(state, 16, 1, text)
    calls = sorted(row["at"] for row in rows if row.get("called") == "a/m")
    assert served(rows) == {"a/m": 16}
    assert calls[1] - calls[0] >= 0.45


def test_a_prober_that_is_killed_frees_the_target_after_its_lease(state: Path) -> None:
    text = config("a: text = 'a', first = 0.5", "b: text = 'b'", targets='"a/m", "b/m"', more=SHORT)
    window_over(state, text)
    hanging = text.replace("first = 0.5", "first = 3600")
    with started(state, 1, 1, hanging) as running:
        assert running.stdout is not None
        call = json.loads(running.stdout.readline())
        assert call["called"] == "a/m"
        os.kill(call["process"], signal.SIGKILL)
    lease = 0.1 + 3 + 5
    assert opened(state, text).ask("x", model="r").served_by == "b/m"
    assert opened(state, text, shift=lease - 1).ask("x", model="r").served_by == "b/m"
    assert opened(state, text, shift=lease + 1).ask("x", model="r").served_by == "a/m"


def test_two_processes_started_back_to_back_go_to_different_members(state: Path) -> None:
    text = config(
        "a: text = 'a', first = 0.3", "b: text = 'b', first = 0.3", targets='"a/m", "b/m"', selection="round-robin"
    )
    assert served(asked(state, 2, 1, text)) == {"a/m": 1, "b/m": 1}
