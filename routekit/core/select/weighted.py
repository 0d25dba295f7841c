"""``weighted``: random odds by weight. It keeps no state; the draw ``r`` is given."""

from __future__ import annotations

from . import Context, GroupView, Pick, State

#: a demoted child's odds
DEMOTED = 0.01


class Weighted:
    def __init__(self, context: Context) -> None: ...

    def select(self, group: GroupView, state: State, call: Pick) -> int | None:
        odds = [(at, _odds(child.weight, child.demoted)) for at, child in enumerate(group.children) if child.ready]
        rest = call.r * sum(weight for _, weight in odds)
        for at, weight in odds:
            rest -= weight
            if rest <= 0:
                return at
        # Rounding may leave a crumb: it belongs to the last.
        return odds[-1][0] if odds else None

    def on_dispatch(self, group: GroupView, state: State, call: Pick, index: int) -> State:
        return state

    def keeps(self, group: GroupView, index: int) -> bool:
        return not group.children[index].demoted or all(child.demoted for child in group.children if child.ready)


def _odds(weight: int, demoted: bool) -> float:
    return weight * DEMOTED if demoted else float(weight)
