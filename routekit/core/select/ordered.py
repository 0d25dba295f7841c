"""``ordered`` (also ``priority``): the first ready child in configured order. It keeps no state."""

from __future__ import annotations

from . import Context, GroupView, Pick, State


class Ordered:
    def __init__(self, context: Context) -> None: ...

    def select(self, group: GroupView, state: State, call: Pick) -> int | None:
        return next((at for at, child in enumerate(group.children) if child.ready), None)

    def on_dispatch(self, group: GroupView, state: State, call: Pick, index: int) -> State:
        return state
