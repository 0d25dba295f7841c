"""From a credential reference to a secret. Its errors name the key's source and carry neither causes nor frames."""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from ..core.keyref import CredentialRef
from ..core.value import Value
from ..errors import CredentialError
from . import command, os_keyring
from .ledger import KeyPlace, read_ledger, whole_path
from .secret import LONGEST, Secret, checked

#: seconds a key command may take: it may ask a person
COMMAND_DEADLINE = 30.0


class _Asked(Value):
    """The question put to ``resolve``, whole. Not shown in tracebacks: ``environ`` is full of other secrets."""

    ref: CredentialRef
    variable: str | None
    environ: Mapping[str, str]
    deadline: float
    command_deadline: float
    interactive: bool
    place: KeyPlace | None
    job: command.Job

    def __repr__(self) -> str:
        return f"<{self.ref}>"


def resolve(
    ref: CredentialRef,
    *,
    variable: str | None,
    environ: Mapping[str, str],
    deadline: float = os_keyring.KEYRING_DEADLINE,
    command_deadline: float = COMMAND_DEADLINE,
    interactive: bool = False,
    place: KeyPlace | None = None,
) -> Secret | None:
    """The secret a reference names; ``None`` for ``none``. Blocks; under an event loop use ``resolve_async``.

    ``variable`` is the vendor's usual variable, which only ``auto`` reads. Times are in seconds. A keyring that is
    locked is not asked to unlock unless ``interactive``, since that may open a window on a screen far away. Raises
    ``CredentialError``; its ``state`` says why."""
    asked = _Asked(
        ref=ref, variable=variable, environ=environ, deadline=deadline, command_deadline=command_deadline,
        interactive=interactive, place=place, job=command.Job(),
    )  # fmt: skip
    del environ
    try:
        outcome = _outcome(asked)
    finally:
        asked.job.abandon()
    return _given(outcome)


async def resolve_async(
    ref: CredentialRef,
    *,
    variable: str | None,
    environ: Mapping[str, str],
    deadline: float = os_keyring.KEYRING_DEADLINE,
    command_deadline: float = COMMAND_DEADLINE,
    interactive: bool = False,
    place: KeyPlace | None = None,
) -> Secret | None:
    """``resolve`` for an event loop: the wait can be cancelled at any time (a running command is killed), and nothing
    that is stuck holds up the loop or the end of the process: the work is in a daemon thread, never in a pool."""
    import asyncio

    asked = _Asked(
        ref=ref, variable=variable, environ=environ, deadline=deadline, command_deadline=command_deadline,
        interactive=interactive, place=place, job=command.Job(),
    )  # fmt: skip
    del environ
    if ref.kind in {"env", "none"}:
        return _given(_outcome(asked))
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Secret | CredentialError | None] = loop.create_future()

    def deliver(outcome: Secret | CredentialError | None) -> None:
        if not future.done():
            future.set_result(outcome)

    def work() -> None:
        outcome = _outcome(asked)
        # The loop may be closed by now: then nobody waits any more.
        if not loop.is_closed():
            try:
                loop.call_soon_threadsafe(deliver, outcome)
            except RuntimeError:
                return

    threading.Thread(target=work, name="routekit-credential", daemon=True).start()
    try:
        outcome = await future
    finally:
        asked.job.abandon()
    return _given(outcome)


def _outcome(asked: _Asked) -> Secret | CredentialError | None:
    """The answer or the error, as a value: an error keeps neither the frames nor the causes it came through."""
    try:
        return _SOURCES[asked.ref.kind](asked)
    except CredentialError as error:
        return _bare(error)


def _bare(error: CredentialError) -> CredentialError:
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _given(outcome: Secret | CredentialError | None) -> Secret | None:
    if isinstance(outcome, CredentialError):
        raise outcome
    return outcome


def _from_nowhere(_asked: _Asked) -> None:
    return None


def _from_env(asked: _Asked) -> Secret:
    return _variable(asked.ref.name, asked.environ)


def _variable(name: str, environ: Mapping[str, str]) -> Secret:
    raw = Secret(environ.get(name, ""), f"env {name}")
    hints = [f"export {name}=…"]
    if not raw.reveal().strip():
        words = "is empty" if name in environ else "is not set"
        raise CredentialError(
            f"the key was not found: the environment variable {name} {words}", state="absent", hints=hints
        )
    return checked(raw, hints=hints)


def _from_auto(asked: _Asked) -> Secret:
    """The keyring, then the variable. A key known to be in the keyring is never replaced by the variable's: with two
    accounts of one vendor that would be the wrong one, unnoticed."""
    try:
        return _from_keyring(asked)
    except CredentialError as error:
        missing = _bare(error)
    known = asked.place is not None and asked.ref.name in read_ledger(asked.place.ledger)
    if missing.state == "invalid" or (known and missing.state != "absent"):
        raise missing
    if asked.variable and asked.environ.get(asked.variable, "").strip():
        return _variable(asked.variable, asked.environ)
    raise _nowhere(asked, missing)


def _nowhere(asked: _Asked, missing: CredentialError) -> CredentialError:
    if asked.variable is None:
        return missing
    return CredentialError(
        f"{missing.message}; the environment variable {asked.variable} is not set either",
        state=missing.state,
        hints=[*missing.hints, f"export {asked.variable}=…"],
    )


def _from_file(asked: _Asked) -> Secret:
    real = whole_path(asked.ref.name, asked.environ)
    quoted = _quoted(real)
    # A new file is to be private from its first moment.
    hint = f"ls -l {quoted}" if os.path.lexists(real) else f"(umask 077; ${{EDITOR:-vi}} {quoted})"
    return read_file(real, source=f"file {asked.ref.name}", hints=[hint])


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


#: what lies here is others' business, whoever owns it: nobody is told to close it
_SYSTEM = ("/etc/", "/usr/", "/bin/", "/sbin/", "/lib", "/boot/", "/dev/", "/proc/", "/sys/", "/opt/", "/var/lib/")


def _may_be_closed(path: str, found: os.stat_result) -> bool:
    """Whether a person may be told to close a file to others: one of their own, as small as a key, of no system."""
    own = sys.platform == "win32" or found.st_uid == os.getuid()
    return own and found.st_size <= LONGEST and not os.path.realpath(path).startswith(_SYSTEM)


def read_file(path: str, *, source: str, hints: Sequence[str]) -> Secret:
    """A key file's content. Opened first and judged by what was opened, so that it cannot be exchanged in between;
    never waiting, so that a pipe without a writer cannot hold anybody up."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        there = not isinstance(error, FileNotFoundError | NotADirectoryError)
        state, what = ("unreadable", "could not be read") if there else ("absent", "was not found")
        raise CredentialError(f"the key {what}: {source}: {error.strerror}", state=state, hints=hints) from None
    try:
        found = os.fstat(handle)
        mode = found.st_mode
        if not stat.S_ISREG(mode):
            raise CredentialError(f"the key could not be read: {source} is no file", state="unreadable", hints=hints)
        if sys.platform != "win32" and mode & 0o077:
            raise CredentialError(
                f"the key {source} can be read by others (mode {stat.S_IMODE(mode):04o}), so it is not used",
                state="exposed",
                hints=[f"chmod 600 {_quoted(path)}" if _may_be_closed(path, found) else f"ls -l {_quoted(path)}"],
            )
        raw = Secret(os.read(handle, 4 * LONGEST).decode("utf-8", "replace"), source)
    finally:
        os.close(handle)
    return checked(raw, hints=hints)


def _from_command(asked: _Asked) -> Secret:
    return command.run(asked.ref.name, environ=asked.environ, deadline=asked.command_deadline, job=asked.job)


def _from_keyring(asked: _Asked) -> Secret:
    entry = asked.ref.name
    hints = [os_keyring.storing(entry, asked.environ)]
    own = asked.place.files / entry if asked.place else None
    if own is not None and own.exists():
        return read_file(str(own), source=f"file {own}", hints=hints)
    known = asked.place is not None and entry in read_ledger(asked.place.ledger)
    found = os_keyring.ask_keyring(
        lambda: os_keyring.get(entry, interactive=asked.interactive, hosts=not known),
        entry=entry, deadline=asked.deadline,
    )  # fmt: skip
    if found is None:
        raise CredentialError(
            f"the key of {entry} was not found: the keyring has no entry of that name", state="absent", hints=hints
        )
    return checked(found, hints=hints)


_SOURCES: dict[str, Callable[[_Asked], Secret | None]] = {
    "keyring": _from_keyring,
    "env": _from_env,
    "cmd": _from_command,
    "file": _from_file,
    "auto": _from_auto,
    "none": _from_nowhere,
}
