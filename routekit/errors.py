"""Every error a person can meet, and the exit code it stands for. Nothing here knows where an error came from.

RoutekitError            70   a fault of routekit itself, when raised bare
├── UsageError            2   the call names something that does not exist
├── ConfigError          78   the configuration is missing or invalid; carries every problem found
├── CredentialError      77   a secret is absent, locked, out of reach or refused
├── RequestRefused       65   the request itself cannot be served: policy, size, shape
├── RouteExhausted     69…80  every candidate was tried or passed over; the code says why
├── TruncatedAnswer      74   the stream broke after output had begun; carries the partial text
├── BudgetExceeded       80   a budget or --max-cost had no room
└── StateError           70   the shared store could not be used where it had to be
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

EX_OK = 0
EX_NO = 1
EX_USAGE = 2
EX_DATA = 65
EX_UNAVAILABLE = 69
EX_SOFTWARE = 70
EX_IO = 74
EX_LATER = 75
EX_CREDENTIAL = 77
EX_CONFIG = 78
EX_BUDGET = 80
EX_INTERRUPTED = 130
EX_PIPE = 141


class RoutekitError(Exception):
    """The root of the tree. ``details`` are further lines of the story, ``hints`` whole commands to type next, best
    first; ``attempts`` and ``skipped`` hold the request's records where a request was made, in order."""

    exit_code: int = EX_SOFTWARE
    #: the word machines read as ``error.class`` in JSON
    kind: str = "bug"

    def __init__(
        self,
        message: str,
        *,
        hints: Sequence[str] = (),
        details: Sequence[str] = (),
        attempts: Sequence[Any] = (),
        skipped: Sequence[Any] = (),
        exit_code: int | None = None,
        kind: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hints = tuple(hints)
        self.details = tuple(details)
        self.attempts = tuple(attempts)
        self.skipped = tuple(skipped)
        if exit_code is not None:
            self.exit_code = exit_code
        if kind is not None:
            self.kind = kind

    def lines(self) -> list[str]:
        """The error as a person reads it: what happened, its details, then one ``try:`` line per next command."""
        details = [f"  {detail}" for detail in self.details]
        return [self.message, *details, *(f"  try: {hint}" for hint in self.hints)]

    def _render_traceback_(self) -> list[str]:
        # IPython asks for this instead of a traceback: a failed cell shows the error, not our stack.
        head, *rest = self.lines()
        return [f"{type(self).__name__}: {head}", *rest]


class UsageError(RoutekitError):
    exit_code = EX_USAGE
    kind = "usage"


class ConfigError(RoutekitError):
    """``problems`` holds every fault found (``core.config.Problem``), not only the first."""

    exit_code = EX_CONFIG
    kind = "setup"

    def __init__(
        self, message: str, *, problems: Sequence[Any] = (), details: Sequence[str] = (), **more: Any
    ) -> None:
        super().__init__(message, details=[*details, *(str(problem) for problem in problems)], **more)
        self.problems = tuple(problems)


class CredentialError(RoutekitError):
    """``state`` is one of ``absent``, ``locked``, ``silent`` (no answer in time), ``none`` (no keyring on this
    machine), ``refused`` (by its vendor), ``exposed`` (a file that others can read), ``unreadable``, ``elsewhere``
    (stored for other hosts), ``invalid``."""

    exit_code = EX_CREDENTIAL
    kind = "auth"

    def __init__(self, message: str, *, state: str = "absent", **more: Any) -> None:
        super().__init__(message, **more)
        self.state = state


class RequestRefused(RoutekitError):
    exit_code = EX_DATA
    kind = "request"


class RouteExhausted(RoutekitError):
    """``retry_after`` is the number of seconds until the first sleeper wakes, where one does."""

    exit_code = EX_UNAVAILABLE
    kind = "exhausted"

    def __init__(self, message: str, *, retry_after: float | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.retry_after = retry_after


class TruncatedAnswer(RoutekitError):
    exit_code = EX_IO
    kind = "truncated"

    def __init__(self, message: str, *, partial: str = "", **more: Any) -> None:
        super().__init__(message, **more)
        self.partial = partial


class BudgetExceeded(RoutekitError):
    """``retry_after`` is the number of seconds until a budget has room again, where one will."""

    exit_code = EX_BUDGET
    kind = "budget"

    def __init__(self, message: str, *, retry_after: float | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.retry_after = retry_after


class StateError(RoutekitError):
    kind = "state"
