"""How long one decision takes: three leaves ≤ 50 µs, a hundred ≤ 500 µs, and what a route among a thousand costs.

Run by hand or by the bench job: ``python tests/bench/decide.py [--check]``. Each figure is also told as a ratio to a
baseline loop of plain Python timed in the same run, which is what ``--check`` judges: machines differ, ratios less so.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from routekit.core import decide as heart
from tests.core.world import World, providers, route

#: the baseline loop: so long that it takes about a microsecond on the machine the budgets were met on
BASELINE_ROUNDS = 36
ROUNDS, BEST_OF = 300, 7
#: case → the most microseconds the design page allows on the machine it was written on
BUDGETS = {"three leaves": 50.0, "a hundred leaves": 500.0}
#: so that a ratio of 50 stands for 50 µs there
BASELINE_US = 1.0


def best(action: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Microseconds of processor time of one action, from the best of several series: a busy machine only ever adds."""
    series = []
    for _ in range(BEST_OF):
        began = time.process_time()
        for _ in range(rounds):
            action()
        series.append((time.process_time() - began) / rounds * 1e6)
    return min(series)


def baseline() -> int:
    total = 0
    for number in range(BASELINE_ROUNDS):
        total += number & 7
    return total


def deciding(world: World, *, tokens: int = 25) -> Callable[[], object]:
    walk = world.ask(tokens=tokens, r=0.5).walk
    return lambda: heart.decide(world.plan, world.selectors, world.values, walk=walk, now=world.now)


def leaves(count: int, selection: str = "ordered") -> World:
    ids = [f"p{number}" for number in range(count)]
    return World(providers(*ids) + route("r", *(f"{id}/m" for id in ids), selection=selection))


def troubled(count: int) -> World:
    """Every second leaf has failed before; the first one sleeps."""
    world = leaves(count, "round-robin")
    world.fail(*(leaf.label for leaf in world.plan.leaves[::2]))
    return world


def main(check: bool) -> int:
    unit = best(baseline, 3000)
    cases = {
        "three leaves": leaves(3),
        "three leaves, rotating": leaves(3, "round-robin"),
        "three leaves, some asleep": troubled(3),
        "a hundred leaves": leaves(100),
        "a hundred leaves, smooth": leaves(100, "smooth"),
        "a hundred leaves, half asleep": troubled(100),
    }
    print(f"{'baseline loop':32} {unit:8.2f} µs")
    over = []
    for name, world in cases.items():
        took = best(deciding(world), max(20, ROUNDS // len(world.plan.leaves)))
        allowed = next(limit for case, limit in BUDGETS.items() if name.startswith(case))
        ratio, most = took / unit, allowed / BASELINE_US
        over += [name] if ratio > most else []
        print(f"{name:32} {took:8.2f} µs  {ratio:7.1f} × baseline (at most {most:.0f})")
    return 1 if check and over else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
