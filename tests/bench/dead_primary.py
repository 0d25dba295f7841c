"""What a dead primary adds to each later question, each a process of its own: at most 50 ms over the same question
without it.

    python tests/bench/dead_primary.py             a table
    python tests/bench/dead_primary.py --check     the same; exit 1 if a way of being dead costs more

Two homes, asked in turn: in one the route is (dead, healthy), in the other healthy alone. What counts is the difference
of the medians of that one run: whatever else the machine does happens to both.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.loopback import Loopback

ROOT = Path(__file__).resolve().parents[2]
RUNS, MORE_RUNS, ALLOWED = 15, 45, 0.050

#: long asleep: what is measured is the passing over, not the first meeting; probes alongside stay as they are
CONFIG = """\
version = 1
[defaults]
route = "r"
[log]
conversations = false
[limits]
first_output = "2s"
[health]
first = "1h"
[providers.dead]
api = "openai-chat"
base_url = "{dead}/v1"
key = "none"
[providers.well]
api = "openai-chat"
base_url = "{well}/v1"
key = "none"
[routes.r]
targets = [{targets}]
"""
WITH, WITHOUT = '"dead/m", "well/n"', '"well/n"'


class Row(NamedTuple):
    name: str
    without: float
    added: float
    added_cpu: float


@contextmanager
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def ask(home: Path) -> tuple[float, float]:
    """Seconds of one question: by the clock, of the processor. Raises ``SystemExit`` if it was not answered."""
    env = {"PATH": os.defpath, "HOME": str(home), "ROUTEKIT_HOME": str(home), "PYTHONPATH": str(ROOT)}
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "routekit", "ask", "hi"], env=env, stdin=subprocess.DEVNULL, capture_output=True
    )
    took, after = time.perf_counter() - began, os.times()
    if done.returncode:
        raise SystemExit(f"ask: exit {done.returncode}\n{done.stderr.decode('utf-8', 'replace')[-2000:]}")
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return took, spent


def write(home: Path, targets: str, *, dead: str, well: str) -> Path:
    home.mkdir(mode=0o700)
    file = home / "config.toml"
    file.write_text(CONFIG.format(dead=dead, well=well, targets=targets), "utf-8")
    file.chmod(0o600)
    return home


def measure(name: str, place: Path, *, dead: str, well: str, runs: int) -> Row:
    with_it = write(place / f"{name}-with", WITH, dead=dead, well=well)
    without = write(place / f"{name}-without", WITHOUT, dead=dead, well=well)
    for home in (with_it, without):
        # the first meeting, and files in memory
        ask(home)
        ask(home)
    pairs = [(ask(with_it), ask(without)) for _ in range(runs)]
    walls = [statistics.median(pair[at][0] for pair in pairs) for at in (0, 1)]
    spent = [statistics.median(pair[at][1] for pair in pairs) for at in (0, 1)]
    return Row(name, walls[1], walls[0] - walls[1], spent[0] - spent[1])


def measure_all(runs: int) -> list[Row]:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        well = stack.enter_context(Loopback(scripts={"n": [{"tokens": 5}]}))
        server = f"http://127.0.0.1:{well.port}"
        dead = stack.enter_context(Loopback(scripts={"m": [{"status": 503}]}))
        silent = stack.enter_context(Loopback(scripts={"m": [{"hang": "accept"}]}))
        ways = {
            "refuses connections": stack.enter_context(nobody()),
            "answers 503": f"http://127.0.0.1:{dead.port}",
            "says nothing": f"http://127.0.0.1:{silent.port}",
        }
        return [measure(name, place, dead=url, well=server, runs=runs) for name, url in ways.items()]


def show(rows: list[Row]) -> None:
    print(f"{'the primary':<22} {'without it':>10} {'added':>9} {'added CPU':>10} {'allowed':>8}")
    for row in rows:
        mark = "" if row.added <= ALLOWED else "   over"
        figures = f"{row.without * 1000:>7.0f} ms {row.added * 1000:>+6.0f} ms {row.added_cpu * 1000:>+7.0f} ms"
        print(f"{row.name:<22} {figures} {ALLOWED * 1000:>5.0f} ms{mark}")


def main() -> int:
    rows = measure_all(RUNS)
    if any(row.added > ALLOWED for row in rows):
        rows = measure_all(MORE_RUNS)
    show(rows)
    over = any(row.added > ALLOWED for row in rows)
    return int(over and "--check" in sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
