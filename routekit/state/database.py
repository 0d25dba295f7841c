"""One SQLite file of routekit's: created privately, opened, migrated, retried when busy, set aside when damaged.

It must not know what the tables mean. Whatever keeps the file from being used ends as one ``Unusable``.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from routekit.errors import StateError
from routekit.files import replaceable

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

T = TypeVar("T")


class Unusable(StateError):
    """The file cannot be used now. A later try may succeed: a lock ends, a disk is cleared."""


#: what takes the schema from one number to the next; the list only ever grows at its end
Migration = Sequence[str]

BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
REASONS = {
    sqlite3.SQLITE_BUSY: "is locked by another program",
    sqlite3.SQLITE_LOCKED: "is locked by another program",
    sqlite3.SQLITE_PROTOCOL: "is locked by another program",
    sqlite3.SQLITE_READONLY: "is read-only",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
    sqlite3.SQLITE_IOERR: "cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_NOTADB: "is not a database",
}
#: WAL keeps its index in memory shared by all openers, which these cannot offer between machines (sqlite.org/wal.html)
NETWORK = frozenset(
    "9p afp afs autofs beegfs ceph cifs coda drvfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 pvfs2 smb3 smbfs "
    "vboxsf virtiofs vmhgfs prl_fs webdav".split()
)
#: even in a long outage a call waits this long, so that another writer's millisecond is not taken for the outage
LEAST_WAIT = 0.2


def journal_for(folder: str) -> str:
    """``wal``, or ``delete`` (a rollback journal) on a network file system."""
    if folder.startswith("\\\\"):
        return "delete"
    device = os.stat(folder).st_dev
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            kind = file_system(mounts, f"{os.major(device)}:{os.minor(device)}")
    except OSError:
        return "wal"
    shared = kind in NETWORK or kind == "fuse" or kind.startswith("fuse.")
    return "delete" if shared else "wal"


def file_system(mounts: Iterator[str] | Sequence[str], device: str) -> str:
    """The kind of the file system with that ``major:minor``, of the lines of mountinfo; empty where unknown."""
    for line in mounts:
        place, _, kind = line.partition(" - ")
        if place.split()[2:3] == [device]:
            return kind.split()[0]
    return ""


class Database:
    """``run`` is the only way in. One thread at a time is inside; others wait. A connection never crosses a fork: it is
    closed before and opened anew on both sides, since SQLite in the child would believe it held its parent's locks."""

    def __init__(
        self, path: Path, migrations: Sequence[Migration], *, warn: Callable[[str], None], journal: str | None = None
    ) -> None:
        self.path = path
        self._migrations = migrations
        self._warn = warn
        self._journal = journal
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._waited = 0.0
        self._hooked = False
        self._quiet = True
        self._orphan: sqlite3.Connection | None = None
        self._evidence: list[sqlite3.Connection] = []

    # -- the way in

    def run(self, work: Callable[[sqlite3.Connection], T], *, patience: float) -> T:
        """``work`` may be run more than once. ``patience`` counts over a whole outage, not once per call: while the
        file stays locked, a request with many steps does not wait many times.

        Raises ``Unusable`` when the file cannot be used, and whatever else ``work`` raises."""
        with self._lock:
            started = time.monotonic()
            deadline = started + max(patience - self._waited, min(patience, LEAST_WAIT))
            mended = False
            while True:
                try:
                    result = work(self._connected(deadline))
                except sqlite3.Error as error:
                    code = _code(error)
                    if code in DAMAGED and not mended:
                        mended = True
                        self._mend(deadline)
                    elif code not in BUSY or time.monotonic() >= deadline:
                        raise self._refusal(code, error, started) from None
                    else:
                        _pause()
                else:
                    self._waited = 0.0
                    return result

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def drop(self) -> None:
        """Close the connection, if any; the next ``run`` opens it anew."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()

    def _refusal(self, code: int, error: sqlite3.Error, started: float) -> Unusable:
        if code in BUSY:
            self._waited = max(self._waited, time.monotonic() - started)
        else:
            self.drop()
        return Unusable(f"{self.path} {REASONS.get(code, f'cannot be used: {error}')}")

    # -- opening

    def _connected(self, deadline: float) -> sqlite3.Connection:
        if self._connection is not None and not self._moved():
            return self._connection
        if self._orphan is not None:
            raise Unusable(f"{self.path} was in use while this process was forked")
        self.drop()
        self._hook_forks()
        try:
            connection = self._open(Path(os.path.realpath(self.path)), deadline)
            self._identity = _identity(self.path)
        except OSError as error:
            raise Unusable(f"{self.path} cannot be used: {error.strerror or error}") from None
        self._connection = connection
        return connection

    def _moved(self) -> bool:
        """Somebody set the file aside or deleted it: what we have open is shared with nobody any more."""
        try:
            return _identity(self.path) != self._identity
        except OSError:
            return True

    def _open(self, file: Path, deadline: float) -> sqlite3.Connection:
        _make_folder(file.parent)
        for suffix in ("", "-wal", "-shm", "-journal", ".lock"):
            # A pipe would be waited for, a device written over or moved aside. SQLite has its own words for a folder.
            if not os.path.isdir(f"{file}{suffix}"):
                replaceable(f"{file}{suffix}")
        # Shared while opening, so that nobody renames the file between our opening it and its -wal.
        with self._hold(file, exclusive=False, deadline=deadline):
            connection = self._current(file)
        if connection is None:
            with self._hold(file, exclusive=True, deadline=deadline):
                connection = self._current(file) or self._prepared(file)
        return connection

    def _current(self, file: Path) -> sqlite3.Connection | None:
        """A connection, if the file is there with the schema of this program."""
        if not file.exists():
            return None
        _make_private(file)
        connection = _connect(file)
        try:
            version = _version(connection)
            if version == len(self._migrations):
                return _configured(connection)
            self._refuse_newer(version)
        except BaseException as error:
            self._let_go(connection, error)
            raise
        connection.close()
        return None

    def _refuse_newer(self, version: int) -> None:
        if version > len(self._migrations):
            raise Unusable(
                f"{self.path} was written by a newer routekit (its schema is {version}, "
                f"this program knows {len(self._migrations)}: upgrade it)"
            )

    def check_version(self, connection: sqlite3.Connection) -> None:
        """For the start of a write transaction: a newer program may have migrated the file since we opened it."""
        self._refuse_newer(_version(connection))

    def _prepared(self, file: Path) -> sqlite3.Connection:
        """Create or migrate; under the exclusive lock."""
        with suppress(FileExistsError):
            # Never opened by us if it exists: closing that descriptor would drop the locks of every other connection
            # in this process (sqlite.org/howtocorrupt.html §2.2).
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            os.close(descriptor)
            os.chmod(file, 0o600)  # a umask may also take too much
        journal = self._journal or journal_for(str(file.parent))
        try:
            return self._built(file, journal)
        except sqlite3.DatabaseError as error:
            if journal != "wal" or _code(error) in BUSY | DAMAGED | {sqlite3.SQLITE_FULL}:
                raise
        return self._built(file, "delete")  # no shared memory here

    def _built(self, file: Path, journal: str) -> sqlite3.Connection:
        connection = _connect(file)
        try:
            _set_journal(connection, journal)
            self._migrate(connection)
            return _configured(connection)
        except BaseException as error:
            self._let_go(connection, error)
            raise

    def _let_go(self, connection: sqlite3.Connection, error: BaseException) -> None:
        """The last to close a file folds its log into it and deletes the log: of a damaged one, only once it is moved
        (SQLite leaves a moved file alone)."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED:
            self._evidence.append(connection)
        else:
            connection.close()

    def _migrate(self, connection: sqlite3.Connection) -> None:
        with transaction(connection):
            done = _version(connection)
            for number, statements in enumerate(self._migrations[done:], done + 1):
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")

    # -- damage

    def _mend(self, deadline: float) -> None:
        file = Path(os.path.realpath(self.path))
        if self._connection is not None:
            self._evidence.append(self._connection)
            self._connection = None
        try:
            with self._hold(file, exclusive=True, deadline=deadline):
                # Sixteen processes may have met the damage; the fifteen who come second find a sound file.
                aside = self._set_aside(file) if self._damaged(file) else None
        except (OSError, sqlite3.Error) as error:
            raise Unusable(f"{self.path} is damaged and could not be set aside: {error}") from None
        finally:
            self._close_evidence()
        if aside is not None:
            self._warn(f"{self.path} was damaged: it is now {aside.name}, and routekit began a new one")

    def _damaged(self, file: Path) -> bool:
        if not file.exists():
            return False
        try:
            connection = _connect(file)
            self._evidence.append(connection)
            return bool(connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok")
        except sqlite3.DatabaseError as error:
            if _code(error) in DAMAGED:
                return True
            if _code(error) in BUSY:
                # Somebody is at work in it, so it is a database again: another has begun it anew meanwhile.
                return False
            raise

    def _set_aside(self, file: Path) -> Path:
        if sys.platform == "win32":
            self._close_evidence()  # there an open file cannot be renamed
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        aside = file.with_name(f"{file.name}.damaged-{stamp}-{os.getpid()}")
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.rename(f"{file}{suffix}", f"{aside}{suffix}")
        return aside

    def _close_evidence(self) -> None:
        while self._evidence:
            with suppress(sqlite3.Error):
                self._evidence.pop().close()

    # -- the lock between processes, for creating, migrating and setting aside

    @contextmanager
    def _hold(self, file: Path, *, exclusive: bool, deadline: float) -> Iterator[None]:
        descriptor = _lock_file(file, exclusive=exclusive)
        try:
            while descriptor is not None and not _try_lock(descriptor, exclusive=exclusive):
                if time.monotonic() >= deadline:
                    raise Unusable(f"{self.path} is being prepared by another program")
                _pause()
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    # -- forks

    def _hook_forks(self) -> None:
        if self._hooked or not hasattr(os, "register_at_fork"):
            return
        self._hooked = True
        this = weakref.ref(self)

        def on(method: Callable[[Database], None]) -> Callable[[], None]:
            def call() -> None:
                database = this()
                if database is not None:
                    method(database)

            return call

        os.register_at_fork(
            before=on(Database._before_fork),
            after_in_parent=on(Database._after_fork_in_parent),
            after_in_child=on(Database._after_fork_in_child),
        )

    def _before_fork(self) -> None:
        self._quiet = self._lock.acquire(timeout=10)
        if self._quiet:
            self.drop()

    def _after_fork_in_parent(self) -> None:
        if self._quiet:
            self._lock.release()

    def _after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        if not self._quiet:
            # Kept, never closed: even closing a parent's connection in the child may harm the parent's.
            self._orphan, self._connection = self._connection, None


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Takes the write lock at its start: one that reads first and asks to write later can only be refused."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def _code(error: sqlite3.Error) -> int:
    """The primary result code. An error without one is misuse by our own code, never the file's state."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:
        raise error
    return code & 0xFF


def _pause() -> None:
    # Short, for a transaction is; uneven, so that waiters do not march in step.
    time.sleep(0.0001 + 0.0007 * os.urandom(1)[0] / 255)


def _connect(file: Path) -> sqlite3.Connection:
    # mode=rw: SQLite must never create the file itself, with the umask's permissions.
    uri = f"{file.as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _configured(connection: sqlite3.Connection) -> sqlite3.Connection:
    """In WAL, NORMAL loses at most the last commits to a power cut, never the file; a rollback journal needs FULL."""
    wal = connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if wal else 'FULL'}")
    return connection


def _set_journal(connection: sqlite3.Connection, journal: str) -> None:
    """Of a new file; an older one keeps the mode it was created with."""
    if journal != "wal":
        # Alone on the file, SQLite reads WAL without shared memory: so a failed try at WAL can be taken back.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    if _version(connection) == 0:
        connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.execute("PRAGMA locking_mode = NORMAL")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the change of mode comes with the next use


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _make_folder(folder: Path) -> None:
    """0700, if it is ours to make. A folder that was there is its owner's: it may be a home, or /tmp."""
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _make_private(file: Path) -> None:
    """Take others' permissions away. SQLite gives -wal and -shm those of the file itself."""
    mode = os.stat(file).st_mode & 0o777
    if file.is_file() and mode & 0o077:
        with suppress(OSError):
            os.chmod(file, mode & 0o700)


def _lock_file(file: Path, *, exclusive: bool) -> int | None:
    try:
        return os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if exclusive or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return None  # in a folder where nobody can write, nobody can rename either


def _try_lock(descriptor: int, *, exclusive: bool) -> bool:
    if sys.platform == "win32":
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
