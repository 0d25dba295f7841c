"""A conversation: its history goes with every question, and it stays with the target that served it last.

It asks through a ``Router`` and keeps nothing in files itself; the log does, unless it is off.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from .asking import messages, pieces
from .core.chat import Delta, Message
from .core.record import Attempt
from .errors import UsageError
from .router import Router
from .state.conversations import Entry, Place, turns

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, Unpack

    from .answer import Answer
    from .dispatch import Happening
    from .keywords import How


class Session:
    """``id`` names the conversation, in the log and for stickiness; one that is in the log already goes on where it
    ended, with its model and system prompt unless others are given. ``log``: whether it is kept there; unsaid, as
    configured. One question at a time.

    An answer that was interrupted or cut after some of it had been shown stays in the history, marked as cut short."""

    def __init__(
        self,
        router: Router,
        *,
        model: str | None = None,
        system: str | None = None,
        options: Mapping[str, Any] | None = None,
        id: str | None = None,
        log: bool | None = None,
        place: Place | None = None,
    ) -> None:
        self.router, self.model, self.system = router, model, system
        self.options: dict[str, Any] = dict(options or {})
        self.id = id or router.new_id()
        self.log = log
        self.place = place or Place()
        self._entries: list[Entry] = []
        #: the ids of the entries that are in the log
        self._logged: set[str] = set()
        self._asked: tuple[Message, ...] | None = None
        if id is not None:
            self._resume()

    @classmethod
    def load(cls, router: Router, wanted: str, **more: Any) -> Self:
        """A conversation of the log, by its name, its id or a unique beginning of that. Raises ``UsageError``."""
        return cls(router, id=router.log.find(wanted).id, **more)

    def _resume(self) -> None:
        self._entries = self.router.log.entries(conversation=self.id, whole=True)
        self._logged = {entry.id for entry in self._entries}
        last = self.last
        if last is not None:
            self.model = self.model or last.reference
            self.system = self.system if self.system is not None else last.system

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    # --- what was said ------------------------------------------------------------------------------------------------

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The questions and answers that count, oldest first."""
        return tuple(entry for entry in self._entries if not entry.undone)

    @property
    def last(self) -> Entry | None:
        return self.entries[-1] if self.entries else None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history as it goes with the next question."""
        return turns(self._entries)

    @property
    def logging(self) -> bool:
        return self.router.logging if self.log is None else self.log

    def begin_with(self, entry: Entry) -> None:
        """Take a question that was asked alone for the first of this conversation, with its model and system prompt
        unless others were given. Raises ``UsageError`` where something has been said already."""
        if self._entries:
            raise UsageError("a conversation can only begin with a question before anything else was said in it")
        self._entries.append(entry)
        self.model = self.model or entry.reference
        self.system = self.system if self.system is not None else entry.system

    def undo(self) -> Entry:
        """Take the last question and its answer back; the log still shows them. Raises ``UsageError`` where there is
        none."""
        last = self.last
        if last is None:
            raise UsageError("there is nothing to take back: nothing has been said in this conversation")
        self._take_back(last)
        return last

    def save(self, name: str | None = None) -> str:
        """Keep the conversation in the log, also where it was not kept so far, and give it a name. Returns its id.
        Raises ``UsageError`` for a name taken, or where nothing has been said."""
        for entry in self._entries:
            if entry.id not in self._logged and self.router.log.append(entry, self.place):
                self._logged.add(entry.id)
        if name is not None:
            self.router.log.rename(self.id, name)
        return self.id

    def _take_back(self, entry: Entry) -> None:
        at = [one.id for one in self._entries].index(entry.id)
        self._entries[at] = msgspec.structs.replace(entry, undone=True)
        if entry.id in self._logged:
            self.router.log.undo(entry.id)

    # --- asking -------------------------------------------------------------------------------------------------------

    def run(self, prompt: Any, *, instead: Entry | None = None, **how: Any) -> AsyncGenerator[Happening, None]:
        """As ``Router.run``, within this conversation. ``instead``: the answer takes that entry's place."""
        asked = messages(prompt, how.pop("attachments", ()))
        defaults = {"model": self.model, "system": self.system, "place": self.place, "surface": self.place.surface}
        how = {**defaults, **{name: value for name, value in how.items() if value is not None}}
        how["options"] = {**self.options, **how.get("options", {})}
        logged = bool(how.get("log", self.logging))
        before = [entry for entry in self._entries if instead is None or entry.id != instead.id]
        told = how.get("keep")

        def keep(entry: Entry) -> None:
            self._asked = None
            self._entries.append(entry)
            if logged and self.router.log.append(entry, self.place):
                self._logged.add(entry.id)
            if instead is not None:
                self._take_back(instead)
            if told is not None:
                told(entry)

        how |= {"history": turns(before), "session": self.id, "conversation": self.id, "keep": keep, "log": False}
        return self._watched(asked, self.router.run(asked, **how), before)

    async def _watched(
        self, asked: tuple[Message, ...], happenings: AsyncGenerator[Happening, None], before: list[Entry]
    ) -> AsyncGenerator[Happening, None]:
        """The same happenings, and a word when another account answers than before and could not be given the vendor
        material of the history."""
        from contextlib import aclosing

        from .dispatch import Note

        self._asked = asked
        counted = [entry for entry in before if not entry.undone]
        former = (counted[-1].served_by or "").partition("/")[0] if counted else ""
        theirs = dict.fromkeys(entry.reasoning_from for entry in counted if entry.reasoning_from)
        async with aclosing(happenings) as steps:
            async for step in steps:
                yield step
                if isinstance(step, Attempt) and _stripped(step, former):
                    whose = ", ".join(name for name in theirs if name != step.provider)
                    yield Note(text=f"{step.target}: the thinking of {whose} was left out: no other can read it")

    async def aask(self, prompt: Any, **how: Unpack[How]) -> Answer:
        """One whole answer; see ``Router.aask``."""
        return await self._answer(prompt, {**how})

    def ask(self, prompt: Any, **how: Unpack[How]) -> Answer:
        """As ``aask``, blocking; also inside a running event loop."""
        return self.router.background.call(self.aask(prompt, **how))

    def astream(self, prompt: Any, **how: Unpack[How]) -> AsyncGenerator[Delta, None]:
        """The answer's pieces as they come."""
        return pieces(self.run(prompt, live=True, **how))

    def stream(self, prompt: Any, **how: Unpack[How]) -> Iterator[Delta]:
        """As ``astream``, blocking. Closing the iterator closes the upstream; what came until then is kept."""
        return self.router.blocking(self.astream(prompt, **how))

    async def aretry(self, **how: Unpack[How]) -> Answer:
        """Ask the last question again, perhaps of another ``model``. The answer takes the place of the former one,
        which stays if this fails. Raises ``UsageError`` where nothing has been asked."""
        prompt, instead = self.question()
        return await self._answer(prompt, {**how, "instead": instead})

    def retry(self, **how: Unpack[How]) -> Answer:
        """As ``aretry``, blocking."""
        return self.router.background.call(self.aretry(**how))

    def question(self) -> tuple[tuple[Message, ...], Entry | None]:
        """What a retry asks: the question that got no answer, or the last one with the entry that its new answer
        replaces. For ``run(prompt, instead=…)``."""
        if self._asked is not None:
            return self._asked, None
        last = self.last
        if last is None:
            raise UsageError("there is nothing to ask again: nothing has been asked in this conversation")
        return last.prompt, last

    async def _answer(self, prompt: Any, how: dict[str, Any]) -> Answer:
        from .answer import gathered
        from .schema import shape

        wanted = how["schema"] = shape(how["schema"]) if how.get("schema") is not None else None
        return await gathered(self.run(prompt, **{**how, "live": False}), wanted=wanted)


def _stripped(attempt: Attempt, former: str) -> bool:
    """Whether another account than before answered, and vendor material was left out of what it was sent."""
    return attempt.outcome == "success" and attempt.provider != former and "reasoning" in attempt.dropped
