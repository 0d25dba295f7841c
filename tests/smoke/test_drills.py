"""The drills themselves: they hold here too, and each fails when what it tries is broken."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from routekit.commands.report import Context
from routekit.commands.smoke import local
from routekit.core.chat import Event, Finish
from routekit.core.faults import VendorFault
from routekit.core.select import Context as GroupContext
from routekit.core.select import Factory, GroupView, Pick, Registry, built_in
from routekit.credentials import Redactor
from routekit.loop import run
from routekit.smoke.drills import DRILLS, Drill, Verdict
from routekit.smoke.drills import run as run_drills
from routekit.smoke.stand import Failed, Parts, Stand
from routekit.state.memory import MemoryStore
from routekit.vendors import VendorCall, vendor_for
from tests.commands.person import Person


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.run.__name__)
def test_a_drill_passes(drill: Drill) -> None:
    stand = Stand(Parts())
    try:
        run(drill.run(stand))  # type: ignore[arg-type]
    finally:
        stand.close()


# --- broken on purpose ------------------------------------------------------------------------------------------------


class Last:
    """An algorithm that is none: always the last of those who are ready."""

    def __init__(self, context: GroupContext) -> None: ...

    def select(self, group: GroupView, state: Any, call: Pick) -> int | None:
        return max((at for at, child in enumerate(group.children) if child.ready), default=None)

    def on_dispatch(self, group: GroupView, state: Any, call: Pick, index: int) -> Any:
        return state


def registry_without(name: str, factory: Factory = Last) -> Callable[[], Registry]:
    def make() -> Registry:
        whole = built_in()
        return Registry({one: factory if one == name else whole.resolve(one) for one in whole.names()})

    return make


class Forgery(MemoryStore):
    """A memory that changes what is written about a target: health broken where all processes would see it."""

    def __init__(self, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
        super().__init__()
        self._change = change

    def transact(self, keys: Iterable[str], step: Any, *, patience: float = 1.0) -> Any:
        def forged(values: Mapping[str, bytes]) -> tuple[Any, Mapping[str, bytes | None]]:
            result, writes = step(values)
            return result, {key: self._forged(key, raw, values.get(key)) for key, raw in writes.items()}

        return super().transact(keys, forged, patience=patience)

    def _forged(self, key: str, raw: bytes | None, before: bytes | None) -> bytes | None:
        if raw is None or not key.startswith("target:"):
            return raw
        standing = msgspec.json.decode(raw)
        self._change(standing, msgspec.json.decode(before) if before else {})
        return msgspec.json.encode(standing)


def _one_rung(standing: dict[str, Any], before: dict[str, Any]) -> None:
    """The ladder has one rung: every window is the first one."""
    if standing.get("rung"):
        standing["rung"] = 0


def _no_reset(standing: dict[str, Any], before: dict[str, Any]) -> None:
    """A success changes nothing of the rung."""
    if before.get("rung") and not standing.get("rung"):
        standing["rung"] = before["rung"]


def _no_claim(standing: dict[str, Any], before: dict[str, Any]) -> None:
    """Whoever comes is let through."""
    standing.pop("claim", None)


class Blurred:
    """A vendor module that takes every failure for the same."""

    def __init__(self, api: str, kind: str, settings: Mapping[str, Any]) -> None:
        self._real, self._kind = vendor_for(api, **settings), kind

    def load(self) -> None:
        self._real.load()

    async def close(self) -> None:
        await self._real.close()

    async def stream(self, call: VendorCall) -> AsyncGenerator[Event, None]:
        try:
            async for event in self._real.stream(call):
                yield event
        except VendorFault as raised:
            raise VendorFault(msgspec.structs.replace(raised.fault, kind=self._kind)) from None


class Believing(Blurred):
    """A vendor module that takes any end of a stream for the end of the answer."""

    async def stream(self, call: VendorCall) -> AsyncGenerator[Event, None]:
        try:
            async for event in self._real.stream(call):
                yield event
        except VendorFault:
            yield Finish(reason="stop")


class Blind(Redactor):
    def clean(self, text: str) -> str:
        return text


MUTANTS: dict[str, tuple[Parts, str]] = {
    "ordered": (Parts(registry=registry_without("ordered")), "ordered asks"),
    "round-robin": (Parts(registry=registry_without("round-robin")), "round-robin alternates"),
    "weighted": (Parts(registry=registry_without("weighted")), "weighted draws"),
    "smooth": (Parts(registry=registry_without("smooth")), "smooth shares"),
    "smooth, by chance": (Parts(registry=registry_without("smooth", built_in().resolve("weighted"))), "smooth shares"),
    "ladder": (Parts(store=lambda: Forgery(_one_rung)), "windows escalate"),
    "reset": (Parts(store=lambda: Forgery(_no_reset)), "own success resets"),
    "claim": (Parts(store=lambda: Forgery(_no_claim)), "half-open lets one through"),
    "classifier": (
        Parts(vendor=lambda api, **settings: Blurred(api, "transient", settings)),
        "failures are told apart",
    ),
    "classifier, credentials": (
        Parts(vendor=lambda api, **settings: Blurred(api, "unknown", settings)),
        "a refused key spares",
    ),
    "end of a stream": (
        Parts(vendor=lambda api, **settings: Believing(api, "", settings)),
        "a cut stream is never a success",
    ),
    "redactor": (Parts(redactor=Blind), "no secret is printed"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_what_is_broken_fails_its_drill_and_exits_1(name: str) -> None:
    parts, drill = MUTANTS[name]
    person = Person([])
    report = local(Context(person, environ={}), parts=parts)
    failed = [line for line in person.shown if line.startswith("FAIL")]
    assert report.exit_code == 1
    assert [line for line in failed if line.startswith(f"FAIL  {drill}")], person.shown


def _verdicts(*drills: Drill) -> list[Verdict]:
    async def collected() -> list[Verdict]:
        return [verdict async for verdict in run_drills(drills=drills)]

    return run(collected())


def test_a_drill_that_raises_anything_has_failed_and_the_next_one_runs() -> None:
    async def broken(stand: Stand) -> None:
        raise ZeroDivisionError("by zero")

    async def wrong(stand: Stand) -> None:
        raise Failed("two instead of one")

    async def fine(stand: Stand) -> None: ...

    found = _verdicts(Drill(name="a", run=broken), Drill(name="b", run=wrong), Drill(name="c", run=fine))
    assert [(row.name, row.passed, row.detail) for row in found] == [
        ("a", False, "ZeroDivisionError: by zero"),
        ("b", False, "two instead of one"),
        ("c", True, ""),
    ]


def test_why_a_drill_failed_never_shows_what_looks_like_a_key() -> None:
    async def leaky(stand: Stand) -> None:
        raise Failed("answered with Authorization: Bearer sk-abcdefghijklmnopqrstuvwxyz0123456789")

    (found,) = _verdicts(Drill(name="a", run=leaky))
    assert "sk-abc" not in found.detail


# --- the command ------------------------------------------------------------------------------------------------------


def test_local_smoke_prints_a_line_a_drill_and_the_count_and_leaves_nothing_behind(cli: Any, home: Path) -> None:
    done = cli("smoke")
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, count = done.stdout.splitlines()
    assert lines == [f"PASS  {drill.name}" for drill in DRILLS]
    assert count == f"{len(DRILLS)}/{len(DRILLS)}"
    assert list(home.iterdir()) == []


#: any use of a network socket ends the program; a loop's own wake-up pair is no network
FORBIDDING = """
import socket, sys
def forbid(event, args):
    network = event == "socket.__new__" and args[1] not in (socket.AF_UNIX, -1)
    if network or event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"):
        sys.stderr.write(f"FORBIDDEN {event} {args}\\n")
        sys.stderr.flush()
        import os
        os._exit(99)
sys.addaudithook(forbid)
from routekit.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_local_smoke_opens_no_socket() -> None:
    watched = [sys.executable, "-c", FORBIDDING]
    done = subprocess.run([*watched, "smoke"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_watch_for_sockets_sees_one(home: Path) -> None:
    folder = home / ".config" / "routekit"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        'version = 1\n[providers.here]\napi = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\nkey = "none"\n'
    )
    watched = [sys.executable, "-c", FORBIDDING, "ask", "-m", "here/m", "hi"]
    done = subprocess.run(watched, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 99, done.stderr


def test_local_smoke_passes_without_a_network(need: Callable[[str], str]) -> None:
    alone = [need("unshare"), "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        alone = [need("unshare"), "--net"]
    done = subprocess.run(
        [*alone, sys.executable, "-m", "routekit", "smoke"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(DRILLS)}/{len(DRILLS)}" in done.stdout


def test_a_hostile_environment_changes_no_drill(cli: Any) -> None:
    env = {
        "OPENAI_API_KEY": "wrong",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "ALL_PROXY": "socks5://127.0.0.1:9",
        "SSL_CERT_FILE": "/nowhere",
        "ROUTEKIT_CONFIG": "/nowhere/config.toml",
        "ROUTEKIT_PROFILE": "nobody",
    }
    done = cli("smoke", env=env)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_drill_depends_on_an_assert_which_python_may_leave_out(root: Path) -> None:
    files = sorted((root / "routekit" / "smoke").glob("*.py"))
    assert len(files) > 5
    trees = {file.name: ast.parse(file.read_text("utf-8")) for file in files}
    assert [name for name, tree in trees.items() if any(isinstance(node, ast.Assert) for node in ast.walk(tree))] == []
