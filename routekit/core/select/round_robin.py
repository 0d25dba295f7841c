"""``round-robin``: weights are priority tiers, and the highest tier with somebody ready rotates.

Its state is one cursor per tier.
"""

from __future__ import annotations

from . import Context, GroupView, Pick, State


class RoundRobin:
    def __init__(self, context: Context) -> None:
        # The cursor runs over the tier's configured members, asleep or not: filtering the sleepers out first would
        # hand a sleeper's share to its neighbour.
        tiers: dict[int, list[int]] = {}
        for at, weight in enumerate(context.weights):
            tiers.setdefault(weight, []).append(at)
        self._tiers = {weight: tiers[weight] for weight in sorted(tiers, reverse=True)}

    def select(self, group: GroupView, state: State, call: Pick) -> int | None:
        for weight, members in self._tiers.items():
            pick = self._in_tier(group, members, _cursor(state, weight))
            if pick is not None:
                return pick
        return None

    def _in_tier(self, group: GroupView, members: list[int], cursor: int) -> int | None:
        turn = [members[(cursor + step) % len(members)] for step in range(len(members))]
        ready = [at for at in turn if group.children[at].ready]
        live = [at for at in ready if not group.children[at].demoted]
        return next(iter(live or ready), None)

    def on_dispatch(self, group: GroupView, state: State, call: Pick, index: int) -> State:
        weight = next(weight for weight, members in self._tiers.items() if index in members)
        members = self._tiers[weight]
        # To the pick's place + 1, not the cursor's: a sleeper stepped over must not be visited twice as often.
        moved = (members.index(index) + 1) % len(members)
        return {**(state if isinstance(state, dict) else {}), str(weight): moved}

    def keeps(self, group: GroupView, index: int) -> bool:
        """A session may keep its pick while nobody of a higher tier is ready, and nobody live of its own if demoted."""
        own = next(weight for weight, members in self._tiers.items() if index in members)
        rivals = [at for weight, members in self._tiers.items() if weight > own for at in members]
        if group.children[index].demoted:
            rivals += [at for at in self._tiers[own] if not group.children[at].demoted]
        return not any(group.children[at].ready for at in rivals)


def _cursor(state: State, weight: int) -> int:
    # What is stored may be damaged, or another's: it is worth nothing then.
    found = state.get(str(weight)) if isinstance(state, dict) else None
    return found if isinstance(found, int) else 0
