"""The conversation log with 100,000 entries: a search ≤ 0.3 s, and an append that is not slowed by what is there.

Run by hand or by the bench job: ``python tests/bench/bench_conversations.py``. Ends with 1 over the budget.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from routekit.core.chat import Message
from routekit.state.conversations import ConversationLog, Entry, Place

ENTRIES = 100_000
BUDGET_S = 0.3
APPEND_MS = 20.0
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


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
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
    return int(slowest > BUDGET_S or median > APPEND_MS)


if __name__ == "__main__":
    sys.exit(main())
