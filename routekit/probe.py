"""The probe alongside: while somebody else serves, a sleeping target is asked something tiny now and then, so that it
is back soon after it has healed. It never delays an answer and never sends a word of the person's.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .core import judge as judging
from .core.chat import Message, Request
from .core.config import Api, Config
from .core.health import due_for_probe
from .core.plan import Branch, Group, Leaf, Plan

#: the smallest answer each API can be limited to, where it is not one token
SMALLEST: Mapping[Api, int] = {"openai-responses": 16}


def due(config: Config, plan: Plan, values: judging.Values, now: float) -> list[Leaf]:
    """The leaves that sleep in a window we guessed and that nobody has tried for ``probe_every``; nobody is probing."""
    found = []
    for leaf in plan.leaves:
        raw = values.get(leaf.target_key)
        if raw and due_for_probe(judging.read_standing(raw), config.providers[leaf.provider].health, now):
            found.append(leaf)
    return found


def alone(leaf: Leaf) -> Plan:
    """A plan of that leaf only: a probe's walk has nowhere else to go."""
    leaf = msgspec.structs.replace(leaf, index=0)
    branch = Branch(kind="leaf", index=0, label=leaf.label)
    group = Group(
        index=0,
        id=leaf.label,
        label=leaf.label,
        algorithm="ordered",
        children=(branch,),
        sticky=False,
        turn_key=f"turn:probe:{leaf.label}",
    )
    return Plan(reference=leaf.label, groups=(group,), leaves=(leaf,), pinned=True, attempts=1, last_resort="never")


def question(config: Config, leaf: Leaf) -> Request:
    """A fixed question with the smallest answer the API allows; stopping at that limit is a success."""
    most = SMALLEST.get(config.providers[leaf.provider].api, 1)
    return Request(messages=(Message(role="user", content="Hi"),), options={"max_tokens": most})
