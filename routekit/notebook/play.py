"""An answer played in a cell: shown as it comes, and ended with one line when the person stops it. It keeps nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from ..play import Play

if TYPE_CHECKING:
    from ..loop import Background
    from .display import Screen


class Interrupted(KeyboardInterrupt):
    """The person has stopped the answer. No ``except Exception`` of a loop around it goes on to the next question."""

    def _render_traceback_(self) -> list[str]:
        return [f"Interrupted: {self}"]


def play(happenings: AsyncGenerator[Any, None], *, background: Background, screen: Screen) -> None:
    """Every happening to the screen, as it happens. Raises what the request raises, or ``Interrupted``."""
    playing = Play(happenings, background)
    stopped = False
    try:
        playing.show(screen.take, screen.tick)
    except KeyboardInterrupt:
        stopped = True
        playing.rest(screen.take)
    if stopped:
        raise Interrupted("stopped; what had come is kept" if screen.text else "stopped before anything came") from None
