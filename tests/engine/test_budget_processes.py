"""Budgets over real processes: no number of them passes a limit together, and one that is killed frees its room."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from routekit.errors import BudgetExceeded
from routekit.router import Router
from routekit.state import open_store
from routekit.vendors.scripted import Vendor
from tests.loopback import Loopback, loopback

__all__ = ["loopback"]

SPENDERS = Path(__file__).with_name("spenders.py")


def config(budget: str) -> str:
    return (
        "version = 1\n[limits]\ndeadline = '20s'\n"
        f'[providers.a]\napi = "scripted"\nkey = "none"\nbudget = {{ {budget} }}\n[routes.r]\ntargets = ["a/m"]\n'
    )


def started(state: Path, count: int, text: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(SPENDERS), str(state), str(count), text, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_forty_processes_on_a_budget_of_ten_requests_make_exactly_ten(tmp_path: Path) -> None:
    with started(tmp_path / "state.sqlite3", 40, config("requests_per_day = 10")) as running:
        rows: list[dict[str, Any]] = [json.loads(line) for line in running.communicate(timeout=50)[0].splitlines()]
    codes = sorted(row["code"] for row in rows if "code" in row)
    assert codes == [0] * 10 + [80] * 30
    assert sorted(row["ended"] for row in rows if "ended" in row) == codes
    assert sum("calling" in row for row in rows) == 10
    refused = [row["message"] for row in rows if row.get("code") == 80]
    assert all("reserved of 10 requests per day" in message for message in refused)
    # Whoever is refused is told numbers that add up to the limit.
    words = [message.split() for message in refused]
    assert {int(row[row.index("spent") - 1]) + int(row[row.index("reserved") - 1]) for row in words} == {10}
    assert [row["warnings"] for row in rows if row.get("warnings")] == []


def test_a_call_killed_in_the_middle_frees_its_reserve_after_its_lease(tmp_path: Path) -> None:
    state, text, shift = tmp_path / "state.sqlite3", config("requests_per_day = 1"), [0.0]
    with started(state, 1, text, "hang") as running:
        assert running.stdout is not None
        os.kill(json.loads(running.stdout.readline())["calling"], signal.SIGKILL)
        assert json.loads(running.stdout.readline()) == {"ended": -signal.SIGKILL}
    router = Router.from_toml(
        text,
        state=open_store(state),
        speakers={"scripted": Vendor(script=["hello"])},
        now=lambda: time.time() + shift[0],
    )
    with pytest.raises(BudgetExceeded, match="0 spent and 1 reserved of 1 request per day") as raised:
        router.ask("x")
    assert 0 < (raised.value.retry_after or 0) <= 20
    shift[0] = 20.0
    assert router.ask("x").text == "hello"
    router.close()


def test_the_shell_refuses_with_80_and_the_numbers(cli: Any, loopback: Loopback, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        f'version = 1\n[providers.a]\napi = "openai-chat"\nbase_url = "{loopback.url()}"\nkey = "none"\n'
        'budget = { requests_per_day = 1 }\n[routes.r]\ntargets = ["a/m"]\n'
    )
    loopback.script("m", {"text": "hello"})
    assert cli("--config", str(file), "ask", "hi").stdout == "hello\n"
    done = cli("--config", str(file), "ask", "hi")
    assert (done.returncode, done.stdout) == (80, "")
    assert "budget provider:a: 1 spent and 0 reserved of 1 request per day; frees in 2" in done.stderr
    assert "try: routekit budget list" in done.stderr
    assert loopback.count("m") == 1
    as_json = cli("--config", str(file), "ask", "hi", "--json")
    assert as_json.returncode == 80
    assert json.loads(as_json.stdout)["error"]["class"] == "budget"
    listed = json.loads(cli("--config", str(file), "budget", "list", "--json").stdout)
    assert [(row["budget"], row["spent"], row["reserved"], row["limit"]) for row in listed] == [("provider:a", 1, 0, 1)]
    assert cli("--config", str(file), "budget", "show", "a").stdout.splitlines()[1].startswith("provider:a  day  1 req")
    assert cli("--config", str(file), "budget", "reset", "a").stdout == "reset provider:a\n"
    assert cli("--config", str(file), "ask", "hi").returncode == 0


def test_the_shell_takes_a_highest_cost_and_config_check_refuses_what_cannot_be_counted(
    cli: Any, loopback: Loopback, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    provider = f'version = 1\n[providers.a]\napi = "openai-chat"\nbase_url = "{loopback.url()}"\nkey = "none"\n'
    route = '[routes.r]\ntargets = ["a/m"]\n'
    file.write_text(provider + '[providers.a.model_info."m"]\nprice = { input = 1.0, output = 10.0 }\n' + route)
    done = cli("--config", str(file), "ask", "hi", "--max-cost", "0.001", "-o", "max_tokens", "500")
    assert done.returncode == 80
    assert "budget --max-cost $0.001: would cost about $0.005" in done.stderr
    assert cli("--config", str(file), "ask", "hi", "--max-cost", "-1").returncode == 2
    assert loopback.requests == []
    file.write_text(provider + "budget = { usd_per_day = 1.0 }\n" + route)
    done = cli("--config", str(file), "config", "check")
    assert done.returncode == 78
    assert "a/m has no known price, so the usd budget of provider:a cannot be kept" in done.stdout
