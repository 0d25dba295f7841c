"""A config of 1,000 routes over 50 targets each: loaded and checked within a second, and one question among them costs
no more than among ten.

    python tests/bench/many_routes.py [--check]

Processor time, so that a busy machine does not decide; the question is a ratio within one run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from routekit.config import check as config_check
from routekit.router import Router
from routekit.state import open_store

TARGETS = 50
#: processor seconds for loading and checking, and how much dearer a question may be among a hundred times the routes
MOST_SECONDS, MOST_TIMES = 1.0, 1.5


def config(routes: int) -> str:
    providers = [f'[providers.p{number}]\napi = "openai-chat"\nkey = "none"' for number in range(10)]
    lists = [", ".join(f'"p{number % 10}/m{number}"' for number in range(TARGETS)) for _ in range(routes)]
    named = [f"[routes.r{number}]\ntargets = [{targets}]" for number, targets in enumerate(lists)]
    return "\n".join(["version = 1", *providers, *named])


def seconds(work: Callable[[], object], times: int) -> float:
    """The least processor time of a few runs."""
    spent = []
    for _ in range(times):
        before = time.process_time()
        work()
        spent.append(time.process_time() - before)
    return min(spent)


def question(routes: int) -> float:
    """Who would be asked, from the reference to the choice: the plan is made anew each time."""
    router = Router.from_toml(config(routes), state=open_store(None))

    def ask() -> None:
        router.planner.forget()
        router.preview("r7")

    return seconds(ask, 7)


def load() -> None:
    router = Router.from_toml(config(1000), state=open_store(None))
    config_check.check(router.config.warnings, files=router.config.files)


def main() -> int:
    loading = seconds(load, 2)
    few, many = question(10), question(1000)
    print(f"1,000 routes of {TARGETS} targets, loaded and checked   {loading:.2f} s   (at most {MOST_SECONDS} s)")
    print(f"one question among 10 / 1,000 routes              {few * 1000:.2f} / {many * 1000:.2f} ms")
    print(f"                                                  {many / few:.2f} times   (at most {MOST_TIMES})")
    missed = loading > MOST_SECONDS or many > few * MOST_TIMES
    return 1 if missed and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
