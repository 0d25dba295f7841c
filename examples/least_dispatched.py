"""A selection algorithm of one's own: whoever was asked least, for its weight, is asked next.

Use it from a script, for that script alone:

    import routekit
    from least_dispatched import LeastDispatched

    routekit.register("least-dispatched", LeastDispatched)

or install it, so that the shell and every notebook know it too. In the pyproject.toml of your package:

    [project.entry-points."routekit.algorithms"]
    least-dispatched = "least_dispatched:LeastDispatched"

and name it in the configuration:

    [routes.chat]
    selection = "least-dispatched"
    targets = ["openai/gpt-6.1-terra", { target = "anthropic/claude-opus-5-5", weight = 2 }]
"""

from __future__ import annotations

from routekit.core.select import Context, GroupView, Pick, State


class LeastDispatched:
    """State: how often each member was asked, by its label. It is kept for every process, and starts afresh when
    members, weights or algorithm change."""

    def __init__(self, context: Context) -> None:
        self.members = context.members

    def select(self, group: GroupView, state: State, call: Pick) -> int | None:
        """Whom to ask: a question, answered the same however often it is put. ``None`` when nobody is ready."""
        asked = state or {}
        ready = [index for index, child in enumerate(group.children) if child.ready]

        def burden(index: int) -> tuple[bool, float, int]:
            child = group.children[index]
            return child.demoted, asked.get(child.label, 0) / child.weight, index

        return min(ready, key=burden, default=None)

    def on_dispatch(self, group: GroupView, state: State, call: Pick, index: int) -> State:
        """The turn is spent here, before the call is made; what is returned is remembered."""
        asked = dict(state or {})
        label = group.children[index].label
        return {**asked, label: asked.get(label, 0) + 1}
