"""``doctor`` finds what is wrong, says what to type, sends and shows no key, and works where nothing else does."""

from __future__ import annotations

import http.server
import os
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

GROUPS = ["install", "config", "keyring", "keys", "state", "terminal", "completion", "notebook", "clock"]


def findings(done: Any) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for row in done.json["findings"]:
        found.setdefault(row["group"], []).append(row)
    return found


def failed(done: Any) -> list[str]:
    return [group for group, rows in findings(done).items() if any(row["state"] == "fail" for row in rows)]


def test_a_machine_that_is_well_is_exit_0(machine: Any) -> None:
    machine.config("a/m")
    machine.ask("hi")
    done = machine.run("doctor", "--offline", "--json")
    assert (done.code, done.json["ok"], failed(done)) == (0, True, [])
    assert list(findings(done)) == GROUPS
    assert "write-ahead log" in " ".join(row["text"] for row in findings(done)["state"])


def test_each_failing_line_is_followed_by_a_command(machine: Any) -> None:
    machine.config("a/m")
    done = machine.run("doctor", "--offline", env={"KEY_A": None})
    lines = done.out.splitlines()
    assert done.code == 1
    failing = [at for at, line in enumerate(lines) if " FAIL " in line]
    assert [lines[at + 1].split()[0] for at in failing] == ["try:"]
    assert lines[-1] == "1 thing to mend"


@pytest.mark.parametrize(
    "text", [None, "version = 1\n[routes.x", "version = 1\nbudgets = 3\n"], ids=["none", "broken", "wrong"]
)
def test_it_works_without_a_config_and_with_a_broken_one(machine: Any, text: str | None) -> None:
    if text is not None:
        machine.write(text)
    done = machine.run("doctor", "--offline", "--json")
    assert (done.code, done.err) == (1, "")
    assert failed(done) == ["config"]
    assert list(findings(done)) == GROUPS


def test_a_home_that_cannot_be_written_is_said_so(machine: Any) -> None:
    machine.config("a/m")
    machine.ask("hi")
    (machine.home / "state.db").unlink()
    (machine.home / "state.db").mkdir()
    done = machine.run("doctor", "--offline", "--json")
    assert done.code == 1
    assert failed(done) == ["state"]


def test_files_that_others_can_read_are_a_failure(machine: Any) -> None:
    machine.config("a/m")
    machine.ask("hi")
    (machine.home / "conversations.db").chmod(0o644)
    machine.home.chmod(0o755)
    done = machine.run("doctor", "--offline", "--json")
    hints = [row["hint"] for row in findings(done)["state"] if row["state"] == "fail"]
    assert hints == [f"chmod 700 {machine.home}", f"chmod 600 {machine.home}/conversations.db"]


def test_offline_no_command_is_run_and_nobody_is_called(machine: Any, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    machine.config("a/m", providers=machine.providers(names="a").replace("env:KEY_A", f"cmd:touch {ran}; echo k"))
    assert machine.run("doctor", "--offline").code == 0
    assert not ran.exists()
    machine.run("doctor")
    assert ran.exists()


def test_no_key_is_shown(machine: Any) -> None:
    machine.config("a/m")
    done = machine.run("doctor", "--json", "--debug")
    assert "canary" not in done.out + done.err
    assert "…0000" in done.out


@pytest.fixture
def late() -> Iterator[str]:
    """A vendor whose clock is two hours behind."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(404)
            self.send_header("Date", formatdate(time.time() - 7200, usegmt=True))
            self.send_header("Content-Length", "0")
            self.end_headers()
            seen.append(dict(self.headers))

        def log_message(self, *_: Any) -> None:
            return

    seen: list[dict[str, str]] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    assert all("canary" not in str(headers) for headers in seen)


def test_an_address_that_answers_and_one_that_does_not_and_the_clock(machine: Any, late: str) -> None:
    gone = '[providers.gone]\napi = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\nkey = "none"'
    machine.config("a/m", providers=machine.providers(names="a", base_url=late), more=gone)
    done = machine.run("doctor", "--json")
    rows = findings(done)
    assert [row["state"] for row in rows["network"]] == ["ok", "fail"]
    assert rows["network"][1]["hint"] == "routekit providers test gone"
    assert "ahead of a's" in rows["clock"][-1]["text"]
    assert rows["clock"][-1]["text"].startswith("2h")


def test_the_keyring_is_only_needed_where_a_provider_says_so(machine: Any) -> None:
    nowhere = {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={machine.place}/nobus", "DISPLAY": None}
    machine.config("a/m")
    well = machine.run("doctor", "--offline", "--json", env=nowhere)
    assert findings(well)["keyring"][0]["state"] == "note"
    machine.config("a/m", providers=machine.providers(names="a").replace("env:KEY_A", "keyring"))
    done = machine.run("doctor", "--offline", "--json", env=nowhere)
    assert findings(done)["keyring"][0]["state"] == "fail"
    assert done.code == 1


def test_nothing_is_made_by_looking(machine: Any, tmp_path: Path) -> None:
    place = tmp_path / "nothing"
    machine.run("doctor", "--offline", env={"ROUTEKIT_HOME": str(place)})
    assert not os.path.lexists(place)
