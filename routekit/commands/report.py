"""What a verb gives back: rows and lines for people, plain data for machines. It knows no terminal and no notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Protocol, cast

from ..core.value import Value
from ..errors import RoutekitError
from ..router import Router


class Table(Value):
    """Columns with names, and rows of text. A table without rows shows ``empty`` instead."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = ""


class Lines(Value):
    text: tuple[str, ...]


class Report(Value):
    """``blocks`` are shown in order; ``data`` is the same for ``--json``; ``hints`` are commands to type next;
    ``exit_code`` is the process's, where the surface is one. ``notes`` go to stderr."""

    blocks: tuple[Table | Lines, ...] = ()
    data: Any = None
    notes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    exit_code: int = 0


def lines(*text: str, data: Any = None, exit_code: int = 0, hints: Sequence[str] = ()) -> Report:
    return Report(blocks=(Lines(text=text),), data=data, exit_code=exit_code, hints=tuple(hints))


class Io(Protocol):
    """How a verb talks to the person while it runs. ``interactive`` is False where nobody can answer; asking then
    raises ``UsageError``."""

    @property
    def interactive(self) -> bool: ...

    def say(self, text: str) -> None: ...

    def show(self, text: str) -> None:
        """A line of the result itself, at once: for verbs whose results come one by one."""

    def ask(self, question: str, *, default: str | None = None, choices: Sequence[str] = ()) -> str: ...

    def secret(self, question: str) -> str:
        """A secret: typed without an echo, or piped in."""

    def confirm(self, question: str, *, default: bool = True) -> bool: ...


class Context:
    """What every verb is given: the router of the global options, opened when first used, and the person."""

    def __init__(
        self,
        io: Io,
        *,
        environ: Mapping[str, str],
        config_file: str | None = None,
        profile: str | None = None,
        patches: Sequence[str] = (),
        router: Router | None = None,
        surface: str = "shell",
    ) -> None:
        self.io, self.environ, self.surface = io, environ, surface
        self.config_file, self.profile, self.patches = config_file, profile, tuple(patches)
        self._router = router
        #: a surface that lives longer keeps its router open; a verb there begins with the files as they are
        self._lent = router is not None
        if router is not None:
            with suppress(RoutekitError):  # there may be no configuration yet: the verb knows whether it needs one
                router.refresh()

    def busy(self, what: str) -> AbstractContextManager[None]:
        """While it is entered, the person can see what takes so long; where the surface has a way to show that."""
        show = getattr(self.io, "busy", None)
        return nullcontext() if show is None else cast(AbstractContextManager[None], show(what))

    @property
    def router(self) -> Router:
        if self._router is None:
            from ..config.paths import find_paths

            self._router = Router(
                paths=find_paths(self.environ, config_file=self.config_file),
                environ=self.environ,
                profile=self.profile,
                patches=self.patches,
            )
        return self._router

    def renew(self) -> Router:
        """The router over what the files say now: after a verb has changed them."""
        if self._lent:
            self.router.refresh()
        self.close()
        return self.router

    def close(self) -> None:
        if self._router is not None and not self._lent:
            self._router.close()
            self._router = None
