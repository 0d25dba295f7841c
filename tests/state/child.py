"""A process that shares a store with others: ``child.py COMMAND PATH …``. It reports one line of JSON at its end."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import sqlite3
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from routekit.state.sqlite import SqliteStore

NOBODY = 65534
#: longer than any test's queue of writers
PATIENT = 30.0
F_SETLK = 6
SYSTEM_CALLS = {"x86_64": {"flock": 73, "fcntl": 72}, "aarch64": {"flock": 32, "fcntl": 25}}


def add(store: SqliteStore, key: str = "n", patience: float = PATIENT) -> int:
    def step(values: object) -> tuple[int, dict[str, bytes]]:
        count = int(dict(values).get(key, b"0")) + 1  # type: ignore[call-overload]
        return count, {key: b"%d" % count}

    return store.transact([key], step, patience=patience)


def report(store: SqliteStore, **more: object) -> None:
    print(json.dumps({"warnings": store.warnings, "mode": store.mode, **more}), flush=True)


def command_add(path: Path, times: str = "1") -> None:
    """Wait for the word, then count up."""
    store = SqliteStore(path)
    print("ready", flush=True)
    sys.stdin.readline()
    counts = [add(store) for _ in range(int(times))]
    report(store, last=counts[-1])
    store.close()


def command_endless(path: Path) -> None:
    """Count up and say so after each commit, until killed."""
    store = SqliteStore(path)
    while True:
        store.record(f"r{os.getpid()}", 1.0, {"n": add(store)})
        print(add(store), flush=True)


def command_hold(path: Path) -> None:
    """Another program that locks the file until told to stop."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    print("held", flush=True)
    sys.stdin.readline()
    connection.execute("ROLLBACK")
    print("{}")


def command_everything(path: Path) -> None:
    """Every method of a store, in a place where little works."""
    store = SqliteStore(path, after=0.2)
    counts = [add(store, patience=0.2) for _ in range(3)]
    for number in range(3):
        store.record(f"id-{number}", float(number), {"number": number})
    seen = {key: value.decode() for key, value in {**store.peek(["n", "old"]), **store.scan("n")}.items()}
    ids = [record["id"] for record in store.records(limit=10)]
    store.prune(1.0)
    left = [record["id"] for record in store.records(limit=10)]
    report(store, counts=counts, seen=seen, ids=ids, left=left)
    store.close()


def command_umask(path: Path, mask: str) -> None:
    """Report the permissions of all there is while the store is open."""
    os.umask(int(mask, 8))
    store = SqliteStore(path)
    add(store)
    modes = {name.name: oct(name.stat().st_mode & 0o777) for name in sorted(path.parent.iterdir())}
    report(store, folder=oct(path.parent.stat().st_mode & 0o777), modes=modes)


def command_fork(path: Path, children: str) -> None:
    """Fork while the store is open; every child counts and tells whether it holds locks of its own."""
    store = SqliteStore(path)
    add(store)
    pids = [_forked(store, path) for _ in range(int(children))]
    add(store)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    report(store, codes=codes, total=add(store))


def _forked(store: SqliteStore, path: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    for _ in range(20):
        add(store)
    os._exit(0 if _holds_a_lock(path) and not store.warnings else 1)


def _holds_a_lock(path: Path) -> bool:
    """In WAL every opener keeps a shared lock on the file; without it another may delete the log under us."""
    inode = path.stat().st_ino
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(f":{inode}" in " ".join(line) and str(os.getpid()) in line for line in lines)


def in_place(how: str) -> Callable[[], None]:
    places = {
        "nobody": _become_nobody,
        "full": _fill_the_disk,
        "no-locks": _refuse_flock,
        "no-posix-locks": _refuse_setlk,
    }
    return places[how]


def _become_nobody() -> None:
    """The super-user may do anything; permissions are met by somebody else only."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _fill_the_disk() -> None:
    """No file may grow beyond a kilobyte."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


def _refuse_flock() -> None:
    _refuse(_calls()["flock"], None)
    _refuse(_calls()["fcntl"], F_SETLK)


def _refuse_setlk() -> None:
    _refuse(_calls()["fcntl"], F_SETLK)


def _calls() -> dict[str, int]:
    return SYSTEM_CALLS[platform.machine()]


def _refuse(call: int, second_argument: int | None) -> None:
    """Have the kernel answer a system call with "no locks available", as a file system without them does (seccomp)."""
    load, equal, give = 0x20, 0x15, 0x06
    rules = [(load, 0, 0, 0), (equal, 0, 3 if second_argument is not None else 1, call)]
    if second_argument is not None:
        rules += [(load, 0, 0, 24), (equal, 0, 1, second_argument)]
    rules += [(give, 0, 0, 0x00050000 | errno.ENOLCK), (give, 0, 0, 0x7FFF0000)]
    code = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    held = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
    assert libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())


def main(command: str, path: str, *rest: str) -> None:
    name, _, how = command.partition("@")
    if how:
        in_place(how)()
    globals()[f"command_{name}"](Path(path), *rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
