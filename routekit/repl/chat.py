"""One conversation at a terminal: what is in force, what goes with the next message, and asking. It reads no keys."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any, Protocol

from ..commands.notices import due
from ..commands.report import Context, Report
from ..core.chat import Delta, Usage
from ..core.record import RequestRecord
from ..core.value import Value
from ..errors import RoutekitError
from ..play import Play
from ..session import Session
from ..state.conversations import Entry

#: commands of the shell → what is typed here instead
HERE = (
    ("routekit why", "/why"),
    ("routekit health list", "/health"),
    ("routekit health", "/health"),
    ("routekit budget list", "/budget"),
    ("routekit routes preview", "/preview"),
    ("routekit logs list", "/load"),
)


class Screen(Protocol):
    """One answer as it is shown. ``tick`` is called before each wait; it says how many seconds nothing need move."""

    def take(self, step: Any) -> None: ...

    def tick(self) -> float: ...

    def pause(self) -> None: ...


class Terminal(Protocol):
    """What the shell lends: its streams, and how things look there. ``live``: answers are shown as they come.
    ``interactive``: a person types."""

    @property
    def live(self) -> bool: ...

    @property
    def interactive(self) -> bool: ...

    def note(self, text: str) -> None: ...

    def say(self, text: str) -> None: ...

    def report(self, report: Report) -> None: ...

    def failure(self, error: RoutekitError) -> None: ...

    def bug(self, error: Exception) -> int:
        """Says that something went wrong that never should; the exit code it stands for."""

    def busy(self) -> AbstractContextManager[None]:
        """Entered while an answer comes: nothing that is typed is shown within it."""

    def screen(self, waiting_for: str) -> Screen: ...


class Spent(Value):
    """What one question used, whoever was tried for it."""

    who: str
    usage: Usage | None = None
    cost: str | None = None


class Chat:
    """``how`` are the keywords of every question. ``failed`` is the exit code of the last question or command that
    failed, 0 once one has worked again."""

    def __init__(self, context: Context, session: Session, terminal: Terminal, *, how: Mapping[str, Any]) -> None:
        self.context, self.session, self.terminal = context, session, terminal
        self.router = context.router
        self.how = dict(how)
        #: what goes with the next message: texts, and parts of messages, each under its name
        self.texts: list[tuple[str, str]] = []
        self.parts: list[tuple[str, Mapping[str, Any]]] = []
        #: what the next line of the person begins with
        self.draft = ""
        self.record: RequestRecord | None = None
        #: by the request's id; also what was taken back, and what failed
        self.spent = _spent(session)
        self.failed = 0
        self.left = False
        self._play: Play | None = None
        self._warned = 0

    @property
    def model(self) -> str:
        """What is asked. Raises ``UsageError`` where nothing says."""
        return self.session.model or self.router.default_model()

    @property
    def pending(self) -> list[str]:
        return [name for name, _ in (*self.texts, *self.parts)]

    # --- asking -------------------------------------------------------------------------------------------------------

    def ask(self, text: str) -> None:
        """Send a message, with the files that were waiting for one."""
        self.settle()
        prompt = "\n\n".join([*(content for _, content in self.texts), *([text] if text else [])])
        happenings = self._begin(prompt, attachments=[part for _, part in self.parts])
        self.texts, self.parts = [], []
        self._show(happenings, self.model)

    def retry(self, model: str | None) -> None:
        """Ask the last question again. Raises ``UsageError`` where there is none."""
        self.settle()
        prompt, instead = self.session.question()
        happenings = self._begin(prompt, instead=instead, model=model)
        self._show(happenings, model or self.model)

    def _begin(self, prompt: Any, **more: Any) -> Any:
        for line in due(self.router):
            self.terminal.note(line)
        return self.session.run(prompt, **{**self.how, "live": self.terminal.live, **more})

    def _show(self, happenings: Any, model: str) -> None:
        """The answer, as it comes. Ctrl-C stops it and leaves what came; an error is told, and the talk goes on."""
        screen = self.terminal.screen(model)
        seen = Seen(screen)
        self._play = Play(happenings, self.router.background)
        try:
            with self.terminal.busy():
                self._play.show(seen.take, screen.tick)
            self.failed = 0
        except KeyboardInterrupt:
            self._play.rest(seen.take)
            screen.pause()
            if not self.terminal.interactive:
                raise
            self.terminal.note(seen.stopped)
        except RoutekitError as error:
            screen.pause()
            self.fail(error)
        finally:
            self._remember()

    def _remember(self) -> None:
        record = self.router.last_record()
        if record is not None and record.conversation == self.session.id:
            self.record = record
            self.spent[record.id] = _spent_of(record)
        warnings = self.router.store.warnings
        for text in warnings[self._warned :]:
            self.terminal.note(text)
        self._warned = len(warnings)

    def fail(self, error: RoutekitError) -> None:
        self.failed = error.exit_code
        error = self.router.set_aside(error)
        error.hints = tuple(in_place(hint) for hint in error.hints)
        self.terminal.failure(error)

    def settle(self) -> None:
        """Wait for the history to be whole: an answer that was stopped may still be on its way into it."""
        if self._play is not None:
            self._play.settle()
            self._play = None

    # --- the conversation ---------------------------------------------------------------------------------------------

    @property
    def tokens(self) -> str:
        """``1,204 tok``: in and out, of this conversation so far."""
        used = [row.usage for row in self.spent.values() if row.usage is not None]
        about = "~" if any(one.estimated for one in used) else ""
        return f"{about}{sum(one.input_tokens + one.output_tokens for one in used):,} tok"

    @property
    def money(self) -> str:
        """``$0.012``; empty where no price is known."""
        costs = [Decimal(row.cost) for row in self.spent.values() if row.cost is not None]
        return f"${sum(costs, Decimal(0)):f}" if costs else ""

    @property
    def last(self) -> Entry | None:
        self.settle()
        return self.session.last

    def renew(self, session: Session) -> None:
        """Go on in another conversation."""
        self.settle()
        self.session, self.record, self.spent = session, None, _spent(session)

    def another(self) -> Session:
        """A conversation that begins now, with the settings of this one."""
        now = self.session
        return Session(
            self.router, model=now.model, system=now.system, options=now.options, log=now.log, place=now.place
        )


def _spent(session: Session) -> dict[str, Spent]:
    return {entry.id: Spent(who=entry.served_by or "", usage=entry.usage, cost=entry.cost) for entry in session.entries}


def _spent_of(record: RequestRecord) -> Spent:
    """A failed or stopped request has used what its attempts have."""
    who = record.served_by or (record.attempts[-1].target if record.attempts else "")
    if record.usage is not None:
        return Spent(who=who, usage=record.usage, cost=record.cost)
    used = [attempt.usage for attempt in record.attempts if attempt.usage is not None]
    costs = [Decimal(attempt.cost) for attempt in record.attempts if attempt.cost is not None]
    usage = Usage(
        input_tokens=sum(one.input_tokens for one in used),
        output_tokens=sum(one.output_tokens for one in used),
        cached_tokens=sum(one.cached_tokens for one in used),
        estimated=any(one.estimated for one in used),
    )
    return Spent(who=who, usage=usage if used else None, cost=str(sum(costs, Decimal(0))) if costs else None)


class Seen:
    """What has been shown of one answer, to the screen and for the word that ends it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._text = False

    def take(self, step: Any) -> None:
        if isinstance(step, Delta) and step.kind in ("text", "refusal"):
            self._text = True
        self._screen.take(step)

    @property
    def stopped(self) -> str:
        return "stopped; what came is kept" if self._text else "stopped before anything came"


def in_place(hint: str) -> str:
    """A command to type in the shell as what is typed here, where there is such a thing."""
    for shell, here in HERE:
        if hint == shell or hint.startswith(shell + " "):
            return here + hint.removeprefix(shell)
    return hint
