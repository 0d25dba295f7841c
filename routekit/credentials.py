"""From a credential reference to a secret, under a deadline. It prints and logs none, and stores one only where asked.

Where a key is kept, in the order a reader meets it here: an environment variable, a file of the user's, a command, and
routekit's own two stores, the OS keyring (service ``routekit``) and, only where asked for by name, one plaintext file
per key. What is remembered *about* keys (which store, the hosts they may go to, the last four characters) is in a
ledger.

Errors leave ``resolve`` from a frame that holds no secret and without a cause: verbose tracebacks print locals.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from .core.ids import ID_RULE, is_id
from .core.keyref import KEY_SHAPE, MASK, CredentialRef, is_ref, looks_like_key, parse_ref
from .core.value import Value
from .errors import CredentialError, UsageError

__all__ = [
    "CredentialRef", "KeyPlace", "KeyRecord", "KeyStatus", "Redactor", "Secret", "Stored",
    "clean_key", "host_allowed", "host_of", "is_ref", "key_tag", "looks_like_key", "parse_ref",
    "read_ledger", "remove", "resolve", "resolve_async", "status", "store",
]  # fmt: skip

T = TypeVar("T")
Where = Literal["keyring", "file"]

SERVICE = "routekit"
#: seconds a keyring may take to answer, and a key command (which may ask a person)
KEYRING_DEADLINE = 2.0
COMMAND_DEADLINE = 30.0
#: no vendor's key is longer; what is, was not a key
LONGEST = 16_384
#: Windows keeps 2,500 bytes of UTF-16 per item and answers a longer one with "the stub received bad data"
LONGEST_ON_WINDOWS = 1_250


class Secret:
    """A secret whose text shows only where ``reveal`` is called: in the header being built. All else sees a mask."""

    __slots__ = ("_text", "source")

    def __init__(self, text: str, source: str = "") -> None:
        self._text = text
        self.source = source

    def reveal(self) -> str:
        return self._text

    @property
    def last4(self) -> str:
        """The last four characters, for lists; empty for secrets too short to show any."""
        return self._text[-4:] if len(self._text) >= 12 else ""

    def __repr__(self) -> str:
        return f"Secret({MASK}, source={self.source!r})"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a Secret is never pickled")


class KeyPlace(Value):
    """Where routekit keeps keys of its own and what it knows about them: ``files`` is a folder with one plaintext file
    per key, ``ledger`` a JSON file without secrets. Neither need exist."""

    files: Path
    ledger: Path


class KeyRecord(Value):
    """What is remembered about a stored key. ``hosts`` are those it was stored for; ``when`` is wall-clock seconds."""

    where: Where
    last4: str = ""
    hosts: tuple[str, ...] = ()
    when: float = 0.0


class Stored(Value):
    """The result of ``store``: where the key went, in words, and what the person should know besides."""

    source: str
    last4: str = ""
    note: str = ""


class KeyStatus(Value):
    """One line of ``keys list``. ``state``: ``present``, ``unknown`` (nobody looked) or a ``CredentialError`` state."""

    source: str
    state: str
    last4: str = ""
    hint: str = ""


# ---------------------------------------------------------------- what a key may look like


def clean_key(text: str) -> str:
    """The key as it is sent: without surrounding white space. Raises ``CredentialError`` (state ``invalid``) for a text
    no header can carry; the message never repeats it. A key with a line break would otherwise come back from the SDKs
    as a connection error whose cause prints the key."""
    key, fault = _stripped(text), _fault(text)
    del text
    if fault:
        del key
        raise CredentialError(f"the key {fault}", state="invalid", hints=["routekit keys set PROVIDER"])
    return key


def _stripped(text: str) -> str:
    # byte-order marks and zero-width spaces come along with text copied from editors and web pages
    return text.strip().strip("\ufeff\u200b\u2060").strip()


def _fault(text: str) -> str | None:
    key = _stripped(text)
    for wrong, words in _FAULTS:
        if wrong(key):
            return words
    return None


def _controls(key: str) -> bool:
    return any(ord(c) < 32 or ord(c) == 127 for c in key)


_FAULTS: tuple[tuple[Callable[[str], bool], str], ...] = (
    (lambda key: not key, "is empty"),
    (lambda key: "\n" in key or "\r" in key, "has more than one line"),
    (_controls, "has a control character in it"),
    (lambda key: not key.isascii(), "has a character outside ASCII in it"),
    (lambda key: " " in key, "has a space in it"),
    (lambda key: key[0] == key[-1] and key[0] in "\"'`" and len(key) > 1, "is wrapped in quotation marks"),
    (lambda key: len(key) > LONGEST, f"is longer than {LONGEST} characters"),
)


def _checked(raw: Secret, *, hints: Sequence[str]) -> Secret:
    """The same secret, cleaned. The text itself stays out of this frame: an error leaves through it."""
    fault = _fault(raw.reveal())
    if fault:
        raise CredentialError(f"the key from {raw.source} {fault}", state="invalid", hints=hints)
    return Secret(_stripped(raw.reveal()), raw.source)


# ---------------------------------------------------------------- reading


class _Job:
    """One look-up, as far as somebody else may have to end it: the running command, if any."""

    def __init__(self) -> None:
        self.abandoned = False
        self.process: Any = None

    def started(self, process: Any) -> None:
        self.process = process
        if self.abandoned:
            self.abandon()

    def abandon(self) -> None:
        self.abandoned = True
        if self.process is not None and self.process.poll() is None:
            _kill(self.process)


class _Asked(Value):
    """The question put to ``resolve``, whole. Not shown in tracebacks: ``environ`` is full of other secrets."""

    ref: CredentialRef
    variable: str | None
    environ: Mapping[str, str]
    deadline: float
    command_deadline: float
    interactive: bool
    place: KeyPlace | None
    job: _Job

    def __repr__(self) -> str:
        return f"<{self.ref}>"


def resolve(
    ref: CredentialRef,
    *,
    variable: str | None,
    environ: Mapping[str, str],
    deadline: float = KEYRING_DEADLINE,
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
        interactive=interactive, place=place, job=_Job(),
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
    deadline: float = KEYRING_DEADLINE,
    command_deadline: float = COMMAND_DEADLINE,
    interactive: bool = False,
    place: KeyPlace | None = None,
) -> Secret | None:
    """``resolve`` for an event loop: the wait can be cancelled at any time (a running command is killed), and nothing
    that is stuck holds up the loop or the end of the process: the work is in a daemon thread, never in a pool."""
    import asyncio

    asked = _Asked(
        ref=ref, variable=variable, environ=environ, deadline=deadline, command_deadline=command_deadline,
        interactive=interactive, place=place, job=_Job(),
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
    return _checked(raw, hints=hints)


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


# ---------------------------------------------------------------- file:


def _from_file(asked: _Asked) -> Secret:
    path = asked.ref.name
    home = asked.environ.get("HOME")
    if path.startswith("~/") and home:
        path = os.path.join(home, path[2:])
    return _read_file(os.path.expanduser(path), source=f"file {asked.ref.name}", hints=[f"ls -l {_quoted(path)}"])


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _read_file(path: str, *, source: str, hints: Sequence[str]) -> Secret:
    """A key file's content. Opened first and judged by what was opened, so that it cannot be exchanged in between;
    never waiting, so that a pipe without a writer cannot hold anybody up."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        state = "absent" if isinstance(error, FileNotFoundError | NotADirectoryError) else "refused"
        raise CredentialError(f"the key was not found: {source}: {error.strerror}", state=state, hints=hints) from None
    with open(handle, "rb") as opened:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise CredentialError(f"{source} is no regular file", state="refused", hints=hints)
        if sys.platform != "win32" and mode & 0o077:
            raise CredentialError(
                f"{source} can be read by others (mode {stat.S_IMODE(mode):04o})",
                state="refused",
                hints=[f"chmod 600 {_quoted(path)}"],
            )
        raw = Secret(opened.read(4 * LONGEST).decode("utf-8", "replace"), source)
    return _checked(raw, hints=hints)


# ---------------------------------------------------------------- cmd:


def _from_command(asked: _Asked) -> Secret:
    """Runs the command in the shell (people write pipes), in a process group of its own, away from our terminal's
    input: a Ctrl-C meant for us must not reach it, and its end must take what it started along."""
    import subprocess

    command = asked.ref.name
    process = subprocess.Popen(
        command, shell=True, env=dict(asked.environ), start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    asked.job.started(process)
    output, complaint = _Drain(process.stdout), _Drain(process.stderr)
    try:
        code = process.wait(asked.command_deadline)
    except subprocess.TimeoutExpired:
        raise CredentialError(
            f"the key command '{_shown(command)}' gave no answer in {asked.command_deadline:g} s",
            state="silent",
            hints=[_shown(command)],
        ) from None
    finally:
        asked.job.abandon()
    printed = Secret(output.text(), f"cmd {_shown(command)}")
    if code or not printed.reveal().strip():
        raise _command_failed(command, code, complaint.text(), printed)
    # exactly one newline: whatever else the command printed is the user's to see
    kept = Secret(printed.reveal().removesuffix("\n").removesuffix("\r"), printed.source)
    return _checked(kept, hints=[f"{_shown(command)} | head -n 1"])


def _command_failed(command: str, code: int, complaint: str, printed: Secret) -> CredentialError:
    redactor = Redactor([printed])
    words = " ".join(redactor.clean(complaint).split())[:400]
    what = f"failed with exit code {code}" if code else "printed nothing"
    return CredentialError(
        f"the key command '{_shown(command)}' {what}" + (f": {words}" if words else ""),
        state="absent",
        hints=[_shown(command)],
    )


def _shown(command: str) -> str:
    line = " ".join(KEY_SHAPE.sub(MASK, command).split())
    return line if len(line) <= 120 else line[:119] + "…"


class _Drain:
    """Reads a pipe to its end in a daemon thread and keeps the beginning, however much is printed."""

    def __init__(self, pipe: Any) -> None:
        self._kept = b""
        self._pipe = pipe
        self._thread = threading.Thread(target=self._read, name="routekit-drain", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while piece := self._pipe.read1(65_536):
                self._kept = (self._kept + piece)[: 4 * LONGEST]

    def text(self) -> str:
        # Something the command left running may hold the pipe open for ever.
        self._thread.join(0.5)
        return self._kept.decode("utf-8", "replace")


def _kill(process: Any) -> None:
    import subprocess

    try:
        if sys.platform == "win32":
            process.kill()
        else:
            import signal

            os.killpg(process.pid, signal.SIGKILL)
        process.wait(1.0)
    except (OSError, subprocess.TimeoutExpired):
        # Gone already, or not to be ended: there is nothing more to do.
        return


# ---------------------------------------------------------------- keyring


#: the backend to try before keyring looks at every installed one (which costs 100 ms and more)
_USUAL = {
    "linux": "keyring.backends.SecretService.Keyring",
    "darwin": "keyring.backends.macOS.Keyring",
    "win32": "keyring.backends.Windows.WinVaultKeyring",
}
_NAMES = {"SecretService": "Secret Service", "macOS": "macOS Keychain", "Windows": "Windows Credential Manager"}
#: backends that ask for a password on the terminal, by the names of their classes
_ASKING = frozenset({"EncryptedKeyring", "CryptFileKeyring"})
#: a thread stuck in a silent keyring cannot be ended; so many are enough
_MOST_STUCK = 4
_THREAD = "routekit-keyring"
_UNLOCK = (
    'bash -c \'read -rsp "keyring password: " P && printf %s "$P" | '
    "gnome-keyring-daemon --replace --unlock --components=secrets'"
)

#: what keyring and what it stands on raise, by class name, nearest first: the classes are theirs to import
_RAISED = {
    "TimeoutError": "silent",
    "KeyringLocked": "locked",
    "LockedException": "locked",
    "PromptDismissedException": "locked",
    "EOFError": "asks",
    "InitError": "unset",
    "ItemNotFoundException": "unset",
    "NoKeyringError": "none",
    "SecretServiceNotAvailableException": "none",
}


class _Trouble(Exception):
    """Why the keyring gave no answer: a row of ``_TROUBLES``. ``detail`` is a name, never a message of theirs."""

    def __init__(self, why: str, detail: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.detail = detail


#: why → state, words
_TROUBLES = {
    "silent": ("silent", "the keyring is not answering"),
    "locked": ("locked", "the keyring is locked"),
    "asks": ("locked", "the keyring asks for a password on the terminal, which routekit does not do"),
    "unset": ("none", "the keyring service runs, but holds no default collection yet"),
    "none": ("none", "there is no keyring on this machine"),
    "misconfigured": ("none", "the keyring backend cannot be used: {}"),
    "failed": ("none", "the keyring failed with {}"),
    "weak": ("refused", "the keyring {} would keep the key readable or not at all"),
    "vanished": ("refused", "the keyring {} took the key and did not give it back"),
}
_ELSEWHERE = " (a config can name another source: key = 'env:NAME' or 'cmd:COMMAND')"
_UNLOCKABLE = frozenset({"locked", "unset"})


def _trouble(why: str, entry: str, *, detail: str = "", verb: str = "found") -> CredentialError:
    state, words = _TROUBLES[why]
    also = _ELSEWHERE if state == "none" and why not in _UNLOCKABLE else ""
    message = f"the key of {entry} was not {verb}: {words.format(detail)}{also}"
    return CredentialError(message, state=state, hints=_ways_out(why, entry))


def _ways_out(why: str, entry: str) -> list[str]:
    own_file = f"routekit keys set {entry} --store file"
    if why in _UNLOCKABLE:
        unlock = [_UNLOCK] if sys.platform.startswith("linux") else []
        return [*unlock, own_file]
    if why == "misconfigured" and "PYTHON_KEYRING_BACKEND" in os.environ:
        return ["unset PYTHON_KEYRING_BACKEND", own_file]
    if why == "silent":
        return [own_file, "routekit doctor"]
    return [own_file]


def _from_keyring(asked: _Asked) -> Secret:
    entry = asked.ref.name
    hints = [f"routekit keys set {entry}"]
    own = asked.place.files / entry if asked.place else None
    if own is not None and own.exists():
        return _read_file(str(own), source=f"file {own}", hints=hints)
    found = _on_keyring(lambda: _get(entry, interactive=asked.interactive), entry=entry, deadline=asked.deadline)
    if found is None:
        raise CredentialError(
            f"the key of {entry} was not found: the keyring has no entry of that name", state="absent", hints=hints
        )
    return _checked(found, hints=hints)


def _on_keyring(work: Callable[[], T], *, entry: str, deadline: float, verb: str = "found") -> T:
    """Runs ``work`` in a daemon thread and waits no longer than ``deadline``. The thread may be left behind, stuck in
    an import or a socket; it holds nothing up. Raises ``CredentialError`` for whatever the keyring did."""
    stuck = sum(thread.name == _THREAD for thread in threading.enumerate())
    if stuck >= _MOST_STUCK:
        raise _trouble("silent", entry, verb=verb)
    done, results, troubles = threading.Event(), list[T](), list[_Trouble]()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - keyrings raise anything, and a dead thread would answer nothing
            troubles.append(error if isinstance(error, _Trouble) else _Trouble(*_why(error)))
        done.set()

    threading.Thread(target=run, name=_THREAD, daemon=True).start()
    if not done.wait(deadline):
        raise _trouble("silent", entry, verb=verb)
    if troubles:
        raise _trouble(troubles[0].why, entry, detail=troubles[0].detail, verb=verb)
    return results[0]


def _why(error: BaseException) -> tuple[str, str]:
    """The trouble an exception stands for: judged by it and by what caused it, outermost first."""
    seen: BaseException | None = error
    while seen is not None:
        for base in type(seen).__mro__:
            if base.__name__ in _RAISED:
                return _RAISED[base.__name__], type(seen).__name__
        seen = seen.__cause__ or seen.__context__
    return "failed", type(error).__name__


def _settings_file() -> Path:
    from keyring.util import platform_

    return Path(platform_.config_root()) / "keyringrc.cfg"


def _chosen_by() -> str | None:
    """What names a keyring backend for this user, in words, or nothing."""
    if "PYTHON_KEYRING_BACKEND" in os.environ:
        return "the environment variable PYTHON_KEYRING_BACKEND"
    settings = _settings_file()
    return str(settings) if settings.exists() else None


def _backends() -> list[Any]:
    """The backends to read from, the one to write to first. Imports keyring; call it in the keyring's thread."""
    from keyring import core

    chosen = _chosen_by()
    usual = _USUAL.get(sys.platform)
    if usual and not chosen:
        try:
            return [core.load_keyring(usual)]
        except Exception as error:
            # Without it there may be another backend, but behind a bus that does not answer there is none.
            if _why(error)[0] == "silent":
                raise
    try:
        backend = core.get_keyring()
    except Exception as error:
        if not chosen or _why(error)[0] == "silent":
            raise
        raise _Trouble("misconfigured", f"{chosen} names none that works here") from None
    members = list(getattr(backend, "backends", [backend]))
    if not members or type(backend).__module__ == "keyring.backends.fail":
        raise _Trouble("none")
    return members


def _class_names(backend: Any) -> set[str]:
    return {base.__name__ for base in type(backend).__mro__}


def _module(backend: Any) -> str:
    return type(backend).__module__.rpartition(".")[2]


def _title(backend: Any) -> str:
    return _NAMES.get(_module(backend), f"{_module(backend)}.{type(backend).__name__}")


def _get(entry: str, *, interactive: bool) -> Secret | None:
    backends = _backends()
    for backend in backends:
        if _class_names(backend) & _ASKING:
            continue
        _ensure_open(backend, interactive=interactive)
        text = backend.get_password(SERVICE, entry)
        if text is not None:
            return Secret(text, f"keyring ({_title(backend)})")
    if all(_class_names(backend) & _ASKING for backend in backends):
        raise _Trouble("asks")
    return None


def _ensure_open(backend: Any, *, interactive: bool) -> None:
    """Raises where reading would open a window that asks to unlock, or to make, the keyring: keyring itself always
    does, on whichever screen the session has, and waits for it without end."""
    service = getattr(sys.modules[type(backend).__module__], "secretstorage", None)
    if interactive or service is None:
        return
    bus = service.dbus_init()
    try:
        # The path of the default collection; unlike get_default_collection, this makes none.
        collection = service.Collection(bus, getattr(backend, "preferred_collection", _DEFAULT_COLLECTION))
        if collection.is_locked():
            raise _Trouble("locked")
    finally:
        bus.close()


_DEFAULT_COLLECTION = "/org/freedesktop/secrets/aliases/default"


def _writable(*, interactive: bool) -> Any:
    """The one backend that may be written to."""
    backend = _backends()[0]
    if _class_names(backend) & _ASKING:
        raise _Trouble("asks")
    if backend.priority < 1 or type(backend).__module__ == "keyring.backends.null":
        raise _Trouble("weak", _title(backend))
    _ensure_open(backend, interactive=interactive)
    return backend


def _put(entry: str, secret: Secret, *, interactive: bool) -> str:
    """Stores and reads back: some keyrings take a key and keep nothing. Returns the backend's name."""
    backend = _writable(interactive=interactive)
    backend.set_password(SERVICE, entry, secret.reveal())
    if backend.get_password(SERVICE, entry) != secret.reveal():
        raise _Trouble("vanished", _title(backend))
    return _title(backend)


def _delete(entry: str, *, interactive: bool) -> str | None:
    """The name of the backend the entry was removed from; ``None`` where there was none."""
    for backend in _backends():
        if _class_names(backend) & _ASKING:
            continue
        _ensure_open(backend, interactive=interactive)
        if backend.get_password(SERVICE, entry) is not None:
            backend.delete_password(SERVICE, entry)
            return _title(backend)
    return None


_SOURCES: dict[str, Callable[[_Asked], Secret | None]] = {
    "keyring": _from_keyring,
    "env": _from_env,
    "cmd": _from_command,
    "file": _from_file,
    "auto": _from_auto,
    "none": _from_nowhere,
}


# ---------------------------------------------------------------- storing


def store(
    name: str,
    secret: Secret,
    *,
    place: KeyPlace,
    now: float,
    where: Where = "keyring",
    hosts: Iterable[str] = (),
    deadline: float = KEYRING_DEADLINE,
    interactive: bool = False,
) -> Stored:
    """Keep a key under the name of its keyring entry, read it back, and remember the hosts it may go to (see
    ``host_of``). ``where="file"`` is for those who asked for plaintext by name. Raises ``CredentialError``."""
    _check_name(name)
    key = _checked(secret, hints=[f"routekit keys set {name}"])
    if where == "file":
        path = place.files / name
        _write(path, key.reveal().encode() + b"\n")
        stored = Stored(source=f"file {path}", last4=key.last4, note="readable by every program you run")
    else:
        stored = _to_keyring(name, key, place=place, deadline=deadline, interactive=interactive)
    record = KeyRecord(where=where, last4=key.last4, hosts=tuple(sorted(set(hosts))), when=now)
    _change_ledger(place.ledger, name, record)
    return stored


def _check_name(name: str) -> None:
    # A name is also a file's name; and what does not look like a name may be a key given in the wrong place.
    if looks_like_key(name):
        raise UsageError(
            "the name given for a key looks like a key itself: name a provider, then paste the key when asked"
        )
    if not is_id(name):
        raise UsageError(f"that is no name for a key: a name is {ID_RULE}")


def _to_keyring(name: str, key: Secret, *, place: KeyPlace, deadline: float, interactive: bool) -> Stored:
    if sys.platform == "win32" and len(key.reveal()) > LONGEST_ON_WINDOWS:
        raise CredentialError(
            f"the key is longer than the {LONGEST_ON_WINDOWS} characters Windows keeps",
            state="invalid",
            hints=[f"routekit keys set {name} --store file"],
        )
    title = _on_keyring(lambda: _put(name, key, interactive=interactive), entry=name, deadline=deadline, verb="stored")
    plain = place.files / name
    note = ""
    if plain.exists():
        # It would be read instead of the key just stored.
        plain.unlink()
        note = f"the plaintext copy {plain} was removed"
    return Stored(source=f"keyring ({title})", last4=key.last4, note=note)


def remove(name: str, *, place: KeyPlace, deadline: float = KEYRING_DEADLINE, interactive: bool = False) -> str:
    """Forget a key, wherever routekit keeps it, and say where it was. Raises ``CredentialError`` where there was none
    (state ``absent``) and where the keyring could not be asked though it may hold one."""
    _check_name(name)
    plain = place.files / name
    removed = f"file {plain}" if plain.exists() else ""
    plain.unlink(missing_ok=True)
    recorded = read_ledger(place.ledger).get(name)
    if not (removed and recorded is not None and recorded.where == "file"):
        title = _on_keyring(
            lambda: _delete(name, interactive=interactive), entry=name, deadline=deadline, verb="removed"
        )
        removed = f"keyring ({title})" if title else removed
    _change_ledger(place.ledger, name, None)
    if not removed:
        raise CredentialError(f"no key named {name} is stored", state="absent", hints=["routekit keys list"])
    return removed


def status(
    ref: CredentialRef,
    *,
    variable: str | None,
    environ: Mapping[str, str],
    place: KeyPlace,
    look: bool = False,
    deadline: float = KEYRING_DEADLINE,
) -> KeyStatus:
    """What can be said of a key. Without ``look`` neither keyring nor command is asked: the ledger and the environment
    answer, and what they do not know is ``unknown``."""
    if ref.kind == "none":
        return KeyStatus(source="none", state="present")
    if look or ref.kind in {"env", "file"}:
        return _looked(ref, variable=variable, environ=environ, place=place, deadline=deadline)
    if ref.kind == "cmd":
        return KeyStatus(source=f"cmd {_shown(ref.name)}", state="unknown", hint="routekit keys check")
    known = read_ledger(place.ledger).get(ref.name)
    if known is not None:
        source = "keyring" if known.where == "keyring" else f"file {place.files / ref.name}"
        return KeyStatus(source=source, state="present", last4=known.last4)
    if ref.kind == "auto" and variable and environ.get(variable, "").strip():
        return _looked(
            CredentialRef(kind="env", name=variable), variable=None, environ=environ, place=place, deadline=0
        )
    return KeyStatus(source=ref.source, state="unknown", hint=f"routekit keys set {ref.name}")


def _looked(
    ref: CredentialRef, *, variable: str | None, environ: Mapping[str, str], place: KeyPlace, deadline: float
) -> KeyStatus:
    try:
        secret = resolve(ref, variable=variable, environ=environ, deadline=deadline, place=place)
    except CredentialError as error:
        return KeyStatus(source=ref.source, state=error.state, hint=error.hints[0] if error.hints else "")
    return KeyStatus(source=secret.source if secret else "none", state="present", last4=secret.last4 if secret else "")


# ---------------------------------------------------------------- the ledger


def read_ledger(path: Path) -> dict[str, KeyRecord]:
    """What is remembered of stored keys, by entry. A missing or damaged file is an empty one: it holds no key."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, KeyRecord])
    except (OSError, msgspec.MsgspecError):
        return {}


def _change_ledger(path: Path, name: str, record: KeyRecord | None) -> None:
    with _Locked(path):
        ledger = read_ledger(path)
        ledger.pop(name, None)
        if record is not None:
            ledger[name] = record
        if ledger or path.exists():
            _write(path, msgspec.json.format(msgspec.json.encode(ledger), indent=2) + b"\n")


class _Locked:
    """One writer of a file at a time, over all processes: the file is read, changed and replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".lock")

    def __enter__(self) -> None:
        _make_folder(self._path.parent)
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _write(path: Path, content: bytes) -> None:
    """Replace a file whole or not at all; nobody but the owner can read it at any moment, whatever the umask."""
    _make_folder(path.parent)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with open(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(handle)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


# ---------------------------------------------------------------- where a key may go


def host_of(base_url: str) -> str:
    """The host of an endpoint as the ledger remembers it: lower case, with the port unless it is that of https. Plain
    http to the same name is another host: whoever listens in between would read the key."""
    from urllib.parse import urlsplit

    parts = urlsplit(base_url)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (80 if parts.scheme == "http" else 443)
    return host if port == 443 else f"{host}:{port}"


def host_allowed(stored_hosts: Sequence[str] | None, host: str) -> bool:
    """Whether a key may be sent to a host (both as ``host_of`` writes them). Nothing remembered, nothing refused: keys
    from variables, commands and files have no memory."""
    return not stored_hosts or host.lower() in stored_hosts


def key_tag(secret: Secret, salt: bytes) -> str:
    """A short mark that changes when the key does and cannot be turned back into it (HMAC-SHA256, 64 bits of it).
    ``salt`` is random and kept per installation, so that marks of two machines cannot be compared."""
    import hmac

    return hmac.digest(salt, secret.reveal().encode(), "sha256").hex()[:16]


# ---------------------------------------------------------------- redaction


#: what stands after these words is a secret, whatever its length
_AFTER = re.compile(
    r"(?i)(\b(?:authorization|x-api-key|api[_-]?key)[\"']?\s*[:=]\s*[\"']?(?:bearer\s+|basic\s+)?"
    r"|\b(?:bearer|basic)\s+(?=\S*\d))(?!•)[^\s\"',;&]{4,}"
)
_USERINFO = re.compile(r"(?<=://)[^/?#\s@]*:[^/?#\s@]*(?=@)")
#: shorter texts are placeholders (``ollama``, ``none``), and masking them would garble ordinary words
_SHORTEST = 8


class Redactor:
    """Takes secrets out of text. It knows the secrets its owner has told it of, in the forms in which libraries write
    them (as they are, URL-quoted, in JSON, in base64 and hex), and the shapes of keys nobody told it of. A secret cut
    in two by a stream is not found: clean whole texts."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._forms: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        for secret in secrets:
            self.add(secret)

    def __repr__(self) -> str:
        return f"Redactor({MASK})"

    def add(self, secret: Secret) -> None:
        forms = self._forms | _forms(secret.reveal())
        if forms == self._forms or not forms:
            return
        # longest first, so that no form leaves the rest of a longer one behind
        ordered = sorted(forms, key=len, reverse=True)
        self._forms, self._pattern = forms, re.compile("|".join(map(re.escape, ordered)))

    def clean(self, text: str) -> str:
        if self._pattern is not None:
            text = self._pattern.sub(MASK, text)
        text = _USERINFO.sub(MASK, KEY_SHAPE.sub(MASK, text))
        return _AFTER.sub(lambda found: (found[1] or "") + MASK, text)


def _forms(key: str) -> frozenset[str]:
    if len(key) < _SHORTEST:
        return frozenset()
    from urllib.parse import quote, quote_plus

    quoted = {quote(key, safe=""), quote(key), quote_plus(key)}
    lowered = {re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), form) for form in quoted}
    in_json = msgspec.json.encode(key).decode()[1:-1]
    raw = key.encode()
    return frozenset({key, in_json, repr(key)[1:-1], raw.hex(), *quoted, *lowered, *_base64_forms(raw)})


def _base64_forms(raw: bytes) -> Iterable[str]:
    """The base64 of the key wherever it stands in what was encoded (``user:key``, say): one form for each of the three
    alignments, without the characters at its ends that its neighbours have a part in."""
    from base64 import b64encode

    for before, lost in ((0, 0), (1, 2), (2, 3)):
        text = b64encode(b"\0" * before + raw).decode()
        spare = (before + len(raw)) % 3
        certain = text[lost : len(text) - (4 - spare if spare else 0)]
        yield certain
        yield certain.replace("+", "-").replace("/", "_")
