"""``smooth``: smooth weighted rotation with exact shares. State: one integer score per child.

The rotation is nginx's smooth weighted round-robin; scores of children not ready are frozen, so that the sum of all
scores stays zero and a sleeper's return replays at most one credit.
"""

from __future__ import annotations

from . import Child, Context, GroupView, Pick, State

#: weights are counted in hundredths, so that a demoted child's share stays an integer and ties stay exact
LIVE, DEMOTED = 100, 1


class Smooth:
    def __init__(self, context: Context) -> None:
        self._size = len(context.members)

    def select(self, group: GroupView, state: State, call: Pick) -> int | None:
        return self._winner(group, self._raised(group, state))

    def on_dispatch(self, group: GroupView, state: State, call: Pick, index: int) -> State:
        scores = self._raised(group, state)
        scores[index] -= sum(_share(child) for child in group.children if child.ready)
        return scores

    def keeps(self, group: GroupView, index: int) -> bool:
        return not group.children[index].demoted or all(child.demoted for child in group.children if child.ready)

    def _raised(self, group: GroupView, state: State) -> list[int]:
        whole = isinstance(state, list) and len(state) == self._size and all(isinstance(one, int) for one in state)
        scores = list(state) if whole else [0] * self._size
        return [
            score + _share(child) if child.ready else score for score, child in zip(scores, group.children, strict=True)
        ]

    def _winner(self, group: GroupView, scores: list[int]) -> int | None:
        best: int | None = None
        for at, child in enumerate(group.children):
            # Strictly greater: of equals the earlier wins.
            if child.ready and (best is None or scores[at] > scores[best]):
                best = at
        return best


def _share(child: Child) -> int:
    return child.weight * (DEMOTED if child.demoted else LIVE)
