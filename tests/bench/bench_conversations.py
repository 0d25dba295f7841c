"""The conversation log with 100,000 entries: a search ≤ 0.3 s, also as a whole ``routekit logs -q``; an append and a
whole ``ask`` that are not slowed by what is there.

Run by hand or by the bench job: ``python tests/bench/bench_conversations.py``. Ends with 1 over the budget.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from routekit.core.chat import Message
from routekit.state.conversations import ConversationLog, Entry, Place

ENTRIES = 100_000
BUDGET_S = 0.3
APPEND_MS = 20.0
#: what a full log may add to a whole ``ask``
SLOWED_S = 0.05
#: how many entries one transaction takes while filling; one each would take an hour on some disks
BATCH = 5_000
#: words by rank: frequent ones as frequent as in real text
VOCABULARY = [f"w{rank:05d}" for rank in range(20_000)]
WEIGHTS = [1 / (rank + 1) for rank in range(20_000)]
QUERIES = ("w00000", "w", "w0000 w0001", "w19999", "w00003 w15000", "nothing")


def entry(number: int, chance: random.Random) -> Entry:
    words = chance.choices(VOCABULARY, WEIGHTS, k=150)
    return Entry(
        id=f"{number:011x}",
        conversation=f"c{number // 3}",
        time=1e9 + number,
        reference="chat",
        served_by="a/m",
        prompt=(Message(role="user", content=" ".join(words[:50])),),
        answer=" ".join(words[50:]),
    )


def fill(path: Path) -> None:
    """Entries as the log itself writes them, many to a transaction."""
    log = ConversationLog(path)
    chance = random.Random(1)
    for start in range(0, ENTRIES, BATCH):
        log.extend([entry(number, chance) for number in range(start, start + BATCH)], Place())
    assert not log.warnings, log.warnings
    log.close()


def command(folder: str, *arguments: str) -> float:
    """The seconds a whole process takes, the best of five."""
    environ = {**os.environ, "ROUTEKIT_HOME": folder, "ROUTEKIT_PROFILE": "demo"}
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "routekit", *arguments], env=environ, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as empty:
        path = Path(folder) / "conversations.db"
        fill(path)
        slowest = 0.0
        for query in QUERIES:
            log = ConversationLog(path)  # opening counts: the shell opens it for each search
            started = time.perf_counter()
            found = log.entries(query=query, limit=20)
            taken = time.perf_counter() - started
            slowest = max(slowest, taken)
            print(f"search {query!r}: {taken * 1000:.1f} ms, {len(found)} shown")
        chance = random.Random(2)
        appends = []
        for number in range(ENTRIES, ENTRIES + 50):
            new = entry(number, chance)
            started = time.perf_counter()
            assert log.append(new, Place())
            appends.append((time.perf_counter() - started) * 1000)
        median = statistics.median(appends)
        print(
            f"append: median {median:.2f} ms (budget {APPEND_MS}); slowest search {slowest:.3f} s (budget {BUDGET_S})"
        )
        print(f"{log.stats().entries} entries, {log.stats().bytes / 1e6:.0f} MB")
        found = command(folder, "logs", "-q", "w00003 w15000")
        full, bare = command(folder, "ask", "hello"), command(empty, "ask", "hello")
        print(f"routekit logs -q: {found:.3f} s; ask: {full:.3f} s, with an empty log {bare:.3f} s")
    slowed = full - bare > SLOWED_S
    return int(max(slowest, found) > BUDGET_S or median > APPEND_MS or slowed)


if __name__ == "__main__":
    sys.exit(main())
