"""``doctor``: what works on this machine, group by group, and what to type where something does not. It repairs
nothing, sends no key and no prompt, and works with no config, a broken one, no network, or a read-only home."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from ..core.config import Config
from ..core.health import duration
from ..core.value import Value
from ..core.words import KEY_STATES, ago, plural
from ..errors import CredentialError, RoutekitError
from ..router import Router
from ..version import __version__
from .keys import KEPT, Holder, holders, known
from .report import Context, Lines, Report

#: the name under which a keyring is tried out; it is removed again
TRIED = "routekit-doctor"
#: a clock that is wrong by more than this makes vendors' waiting times wrong, in seconds
SKEW = 60.0
#: for one vendor's address to answer, in seconds
PATIENCE = 5.0


class Finding(Value):
    """One line. ``note`` is worth knowing and no failure; ``hint`` is the command to type."""

    group: str
    state: Literal["ok", "note", "fail"]
    text: str
    hint: str = ""


Look = Callable[[Context], Iterator[Finding]]


def doctor(context: Context, *, offline: bool = False, json: bool = False) -> Report:
    found: list[Finding] = []
    with context.busy("looking at this machine"):
        for group, look in (*LOOKS, *(() if offline else ONLINE)):
            found += _looked(group, look, context, offline=offline)
    failed = [row for row in found if row.state == "fail"]
    end = "all well" if not failed else f"{plural(len(failed), 'thing')} to mend"
    data = {"ok": not failed, "findings": [msgspec.to_builtins(row) for row in found]}
    return Report(blocks=(Lines(text=(*_told(found), end)),), data=data, exit_code=1 if failed else 0)


def _looked(group: str, look: Look, context: Context, *, offline: bool) -> list[Finding]:
    try:
        found = list((look if group != "keys" or offline else _keys_read)(context))
    except Exception as error:  # one part's trouble must not hide the others
        words = error.message if isinstance(error, RoutekitError) else type(error).__name__
        hint = error.hints[0] if isinstance(error, RoutekitError) and error.hints else "routekit doctor --debug"
        return [Finding(group=group, state="fail", text=words, hint=hint)]
    return found or [_ok(group, "none is needed")]


def _told(found: list[Finding]) -> Iterator[str]:
    before = ""
    for row in found:
        name = row.group if row.group != before else ""
        before = row.group
        yield f"{name:<11} {row.state if row.state != 'fail' else 'FAIL':<5} {row.text}".rstrip()
        if row.hint and row.state != "ok":
            yield f"{'':<17} try: {row.hint}"


# --- install, config --------------------------------------------------------------------------------------------------


def _install(context: Context) -> Iterator[Finding]:
    from importlib import metadata

    python = ".".join(map(str, sys.version_info[:3]))
    yield _ok("install", f"routekit {__version__}, Python {python}, {sys.platform}")
    try:
        wanted = metadata.requires("routekit") or []
    except metadata.PackageNotFoundError:
        yield _note("install", "run from a source tree, not installed", "pip install .")
        wanted = []
    missing = [name for name in map(_distribution, wanted) if name and not _is_there(metadata, name)]
    if missing:
        yield _fail("install", f"not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    if shutil.which("routekit", path=context.environ.get("PATH")) is None:
        yield _note("install", "no command 'routekit' is on the PATH", "python -m routekit --version")


def _distribution(requirement: str) -> str:
    import re

    return "" if "extra ==" in requirement else re.split(r"[^\w.-]", requirement)[0]


def _is_there(metadata: Any, name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _config(context: Context) -> Iterator[Finding]:
    router = context.router
    reading = router.inspect()
    errors = [row for row in reading.problems if row.severity == "error"]
    file = router.paths.config_file
    if errors or reading.config is None:
        yield _fail(
            "config", f"{file}: {plural(len(errors), 'error')}, the first: {errors[0]}", "routekit config check"
        )
        return
    config = reading.config
    where = {"environment": "no file; the environment", "demo": "the built-in demo"}.get(config.mode, file)
    counts = f"{plural(len(config.providers), 'provider')}, {plural(len(config.routes), 'route')}"
    yield _ok("config", f"{where}: {counts}")
    if reading.problems:
        yield _note("config", plural(len(reading.problems), "warning"), "routekit config check")
    if not config.providers:
        yield _fail("config", "no provider: nobody can be asked", "routekit init")


# --- keyring, keys ----------------------------------------------------------------------------------------------------


def _config_or_none(router: Router) -> Config | None:
    try:
        return router.inspect().config
    except RoutekitError:
        return None


def _keyring(context: Context) -> Iterator[Finding]:
    """Something is stored, read back and removed: the only proof that a keyring keeps what it is given."""
    from ..credentials import Secret
    from ..credentials.os_keyring import ask_keyring, delete, put

    def try_out() -> str:
        name = put(TRIED, Secret(os.urandom(12).hex(), "the doctor"), interactive=False)
        delete(TRIED, interactive=False)
        return name

    try:
        name = ask_keyring(try_out, entry=TRIED, deadline=PATIENCE, verb="kept")
    except CredentialError as error:
        config = _config_or_none(context.router)
        needed = config is not None and any(holder.ref.kind == "keyring" for holder in holders(config))
        words = error.message.partition(": ")[2] or error.message
        hint = next((hint for hint in error.hints if TRIED not in hint), "routekit keys set ID --store file")
        yield Finding(group="keyring", state="fail" if needed else "note", text=words, hint=hint)
    else:
        yield _ok("keyring", f"{name}: a test entry was kept, read back and removed")


def _keys(context: Context) -> Iterator[Finding]:
    """As far as can be told without reading a keyring or running a command."""
    refused = context.router.refused()
    for holder in _needed(context.router):
        found = known(context.router, holder)
        shown = f" …{found.last4}" if found.last4 else ""
        if str(holder.ref) in refused:
            yield _refused(context.router, holder, refused[str(holder.ref)])
        elif found.state == "present":
            yield _ok("keys", f"{holder.who}: {found.source}{shown}")
        elif found.state == "unknown" and holder.ref.kind not in KEPT:
            yield _ok("keys", f"{holder.who}: {found.source}, read only when needed")
        else:
            what = "none stored yet" if found.state == "unknown" else KEY_STATES[found.state]
            yield _fail("keys", f"{holder.who}: {found.source}: {what}", found.hint)


def _refused(router: Router, holder: Holder, since: float) -> Finding:
    text = f"{holder.who}: {holder.ref.source}: {KEY_STATES['refused']} {ago(since, router.now())}"
    return _fail("keys", text, router.new_key(str(holder.ref)))


def _needed(router: Router) -> Iterator[Holder]:
    config = _config_or_none(router)
    for holder in holders(config) if config is not None else ():
        if holder.needed and holder.ref.kind != "none":
            yield holder


def _keys_read(context: Context) -> Iterator[Finding]:
    """Each read from where it is, as a question would."""
    import asyncio

    from ..loop import run

    router = context.router
    wanted = list(_needed(router))

    async def read() -> list[Any]:
        looks = [router.resolve(holder.ref, variable=holder.variable) for holder in wanted]
        return await asyncio.gather(*looks, return_exceptions=True)

    for holder, found in zip(wanted, run(read()) if wanted else [], strict=True):
        if isinstance(found, CredentialError):
            yield _fail("keys", f"{holder.who}: {found.message}", next(iter(found.hints), "routekit keys list"))
        elif isinstance(found, BaseException):
            raise found
        elif found is not None and (since := router.still_refused(str(holder.ref), found)) is not None:
            yield _refused(router, holder, since)
        else:
            yield _ok("keys", f"{holder.who}: {found.source} …{found.last4}" if found else f"{holder.who}: none needed")


# --- files ------------------------------------------------------------------------------------------------------------


def _state(context: Context) -> Iterator[Finding]:
    paths = context.router.paths
    if not os.path.isdir(paths.state_dir):
        above = paths.state_dir
        while not os.path.isdir(above):
            above = os.path.dirname(above)
        able = os.access(above, os.W_OK)
        text = f"{paths.state_dir}: not there yet" + ("" if able else f", and {above} cannot be written")
        yield Finding(group="state", state="ok" if able else "fail", text=text, hint=f"ls -ld {above}")
        return
    yield from _private(paths.state_dir, (paths.state, paths.conversations, paths.keys))
    yield from _stores(context.router)


def _stores(router: Router) -> Iterator[Finding]:
    paths = router.paths
    if os.path.lexists(paths.state):
        mode = getattr(router.store, "mode", "memory")
        if mode == "memory":
            words = router.store.warnings[0] if router.store.warnings else f"{paths.state} cannot be written"
            yield _fail("state", words, f"ls -l {paths.state}")
        else:
            said = {"wal": "write-ahead log"}.get(mode, "rollback journal (a network file system)")
            yield _ok("state", f"{paths.state}: {said}, can be written, not locked")
    if os.path.lexists(paths.conversations):
        stats = router.log.stats()
        if router.log.warnings:
            yield _fail("state", router.log.warnings[0], f"ls -l {paths.conversations}")
        else:
            yield _ok("state", f"{paths.conversations}: {plural(stats.conversations, 'conversation')}")


def _private(folder: str, files: tuple[str, ...]) -> Iterator[Finding]:
    if os.name != "posix":
        return
    for path, wanted in ((folder, "700"), *((file, "600") for file in files)):
        try:
            mode = os.stat(path).st_mode & 0o777
        except OSError:
            continue
        if mode & 0o077:
            yield _fail("state", f"{path} can be read by others (mode {mode:o})", f"chmod {wanted} {path}")


# --- terminal, shell, notebook, clock ---------------------------------------------------------------------------------


def _terminal(context: Context) -> Iterator[Finding]:
    from ..terminal.look import look

    found = look(sys.stdout, context.environ)
    if not sys.stdout.isatty():
        yield _ok("terminal", "stdout is no terminal: answers are printed as they are, without colour")
    else:
        colour = "colour" if found.colour else "no colour"
        yield _ok("terminal", f"TERM={context.environ.get('TERM', '')}, {colour}, {found.width} columns")
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    if encoding != "utf8":
        yield _note("terminal", f"stdout takes {encoding or 'bytes'}, not UTF-8", "export PYTHONUTF8=1")


def _completion(context: Context) -> Iterator[Finding]:
    from .completion import SHELLS, installed

    shell = os.path.basename(context.environ.get("SHELL", ""))
    if shell not in SHELLS:
        yield _note("completion", f"{shell or 'no shell'}: there is none for it", "routekit completion bash")
        return
    file = installed(shell, context.environ)
    if file:
        yield _ok("completion", f"{shell}: {file}")
    else:
        yield _note("completion", f"{shell}: not installed", f"routekit completion {shell} --install")


def _notebook(context: Context) -> Iterator[Finding]:
    from importlib import metadata
    from importlib.util import find_spec

    if find_spec("IPython") is None or find_spec("routekit.notebook") is None:
        yield _fail("notebook", "%load_ext routekit cannot be loaded here: IPython is missing", "pip install ipython")
        return
    yield _ok("notebook", f"%load_ext routekit, IPython {metadata.version('ipython')}")


def _clock(context: Context) -> Iterator[Finding]:
    """A machine cannot be older than its own copy of routekit."""
    installed = os.stat(__file__).st_mtime
    if time.time() < installed - 86400:
        late = duration(installed - time.time())
        yield _fail("clock", f"it is {late} behind the installation of routekit", "date")
    else:
        yield _ok("clock", time.strftime("%Y-%m-%d %H:%M:%S %z"))


# --- network ----------------------------------------------------------------------------------------------------------


def _network(context: Context) -> Iterator[Finding]:
    """Whether each provider's address answers, and what it thinks the time is. No key is sent."""
    config = _config_or_none(context.router)
    found = config.providers.values() if config is not None else ()
    urls = {row.base_url: row.id for row in found if row.enabled and row.base_url.startswith("http")}
    if not urls:
        yield _note("network", "no provider with an address to try")
        return
    import asyncio

    from ..loop import run

    async def heads() -> list[Any]:
        return await asyncio.gather(*map(_head, urls), return_exceptions=True)

    for (url, id), head in zip(urls.items(), run(heads()), strict=True):
        if isinstance(head, BaseException):
            words = f"{id}: {url} does not answer ({type(head).__name__})"
            yield _fail("network", words, f"routekit providers test {id}")
        else:
            yield _ok("network", f"{id}: {url} answers")
            yield from _skew(head, id)


async def _head(url: str) -> Mapping[str, str]:
    import httpx2

    async with httpx2.AsyncClient(timeout=PATIENCE) as client, client.stream("GET", url) as response:
        return dict(response.headers)


def _skew(headers: Mapping[str, str], id: str) -> Iterator[Finding]:
    from email.utils import parsedate_to_datetime

    try:
        theirs = parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return
    off = time.time() - theirs
    if abs(off) > SKEW:
        words = f"{duration(abs(off))} {'ahead of' if off > 0 else 'behind'} {id}'s"
        yield _fail("clock", words, "timedatectl" if sys.platform.startswith("linux") else "date")


def _ok(group: str, text: str) -> Finding:
    return Finding(group=group, state="ok", text=text)


def _note(group: str, text: str, hint: str = "") -> Finding:
    return Finding(group=group, state="note", text=text, hint=hint)


def _fail(group: str, text: str, hint: str) -> Finding:
    return Finding(group=group, state="fail", text=text, hint=hint)


LOOKS: tuple[tuple[str, Look], ...] = (
    ("install", _install),
    ("config", _config),
    ("keyring", _keyring),
    ("keys", _keys),
    ("state", _state),
    ("terminal", _terminal),
    ("completion", _completion),
    ("notebook", _notebook),
    ("clock", _clock),
)
ONLINE: tuple[tuple[str, Look], ...] = (("network", _network),)
