"""The line below the prompt: who is asked, who sleeps, what was used, what a budget leaves. It only looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ..core.budget import dollars
from ..core.words import plural
from ..errors import RoutekitError
from ..views import BudgetLine, GroupNode, LeafView
from .chat import Chat

#: every key draws the line again; it is put together anew only this often, in seconds
FRESH = 1.0
LENGTHS = {"minute": "1m", "day": "24h", "month": "30d"}


class Bottom:
    """``text`` is cheap enough to be asked for at every key."""

    def __init__(self, chat: Chat, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._chat, self._clock = chat, clock
        self._text, self._made, self._for = "", float("-inf"), ("", 0)

    def text(self) -> str:
        key = (self._chat.session.model or "", len(self._chat.spent))
        if key != self._for or self._clock() - self._made >= FRESH:
            try:
                self._text = " │ ".join(parts(self._chat))
            except RoutekitError as error:
                self._text = error.message
            self._made, self._for = self._clock(), key
        return self._text


def parts(chat: Chat) -> list[str]:
    top = chat.router.preview(chat.model)
    leaves = list(_leaves(top))
    asleep = [leaf for leaf in leaves if not leaf.ready and leaf.until is not None]
    used = [row for row in chat.spent.values() if row.usage is not None]
    found = [
        _who(chat, leaves),
        f"{len(asleep)} cooling" if asleep else "",
        chat.tokens if used else "",
        _money(chat, leaves),
        f"with {plural(len(chat.pending), 'file')}" if chat.pending else "",
    ]
    return [part for part in found if part]


def _who(chat: Chat, leaves: list[LeafView]) -> str:
    """The target that answered last, if it was asked for by this name; else the one that would be asked now."""
    record = chat.record
    if record is not None and record.reference == chat.model and record.served_by is not None:
        who: str | None = record.served_by
    else:
        who = next((leaf.target for leaf in leaves if leaf.serves), None)
    if who == chat.model:
        return who
    return f"{chat.model} → {who or 'nobody is ready'}"


def _leaves(node: GroupNode) -> Iterator[LeafView]:
    for child in node.children:
        if isinstance(child, GroupNode):
            yield from _leaves(child)
        else:
            yield child


def _money(chat: Chat, leaves: list[LeafView]) -> str:
    """The money budget on the way that is nearest to its end; without one, what the conversation has cost."""
    scopes = {f"route:{chat.model}"}
    for leaf in leaves:
        scopes |= {f"provider:{leaf.target.partition('/')[0]}", f"target:{leaf.target.partition('#')[0]}"}
    budgets = [row for row in chat.router.budgets() if row.unit == "nanos" and row.scope in scopes]
    if not budgets:
        return chat.money
    tightest = max(budgets, key=_fullness)
    return f"{dollars(tightest.spent)} of {dollars(tightest.limit)} in {LENGTHS.get(tightest.window, tightest.window)}"


def _fullness(row: BudgetLine) -> float:
    return (row.spent + row.reserved) / row.limit if row.limit else 1.0
