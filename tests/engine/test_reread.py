"""A process that lives on takes up its changed configuration, and keeps the last good one while the new one is bad."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from routekit.config.paths import find_paths
from routekit.config.watch import Watch
from routekit.errors import RoutekitError
from routekit.router import Router
from routekit.state import open_store
from routekit.vendors.scripted import Vendor

PROVIDERS = """\
version = 1
[providers.a]
api = "openai-chat"
base_url = "https://a.example/v1"
key = "env:KEY_A"
[providers.b]
api = "openai-chat"
base_url = "https://b.example/v1"
key = "env:KEY_B"
"""
A = PROVIDERS + '[routes.chat]\ntargets = ["a/m"]\n'
B = PROVIDERS + '[routes.chat]\ntargets = ["b/m"]\n'
KEYS = {
    "KEY_A": "sk-canary-aaaa-0000000000",
    "KEY_B": "sk-canary-bbbb-1111111111",
    "KEY_C": "sk-canary-cccc-2222222222",
}


class World:
    """One home folder, and routers over it that live as long as the test."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.file = home / "config.toml"
        self.environ = {"ROUTEKIT_HOME": str(home), **KEYS}
        self.vendor = Vendor(script={"*": ["fine"]})
        self._routers: list[Router] = []

    def write(self, text: str, *, file: Path | None = None) -> None:
        """As an editor does: a new file in the place of the old one."""
        place = file or self.file
        place.parent.mkdir(exist_ok=True)
        draft = place.with_suffix(".new")
        draft.write_text(text)
        draft.chmod(0o600)
        os.replace(draft, place)

    def age(self, *files: Path) -> None:
        """Files as they are when nobody has touched them for a while."""
        for file in files or (self.file,):
            os.utime(file, (time.time() - 100, time.time() - 100))

    def router(self, **more: Any) -> Router:
        environ = more.pop("environ", self.environ)
        router = Router(
            paths=find_paths(environ),
            environ=environ,
            speakers={"openai-chat": self.vendor, "openai-responses": self.vendor},
            state=open_store(None),
            **more,
        )
        self._routers.append(router)
        return router

    def close(self) -> None:
        for router in self._routers:
            router.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    home = tmp_path / "rk"
    home.mkdir(mode=0o700)
    found = World(home)
    yield found
    found.close()


def served(router: Router) -> str | None:
    return router.ask("hi").served_by


def test_the_next_request_after_an_edit_goes_by_the_new_file(world: World) -> None:
    world.write(A)
    router = world.router()
    assert served(router) == "a/m"
    world.write(B)
    assert served(router) == "b/m"
    assert router.take_notices() == []


def test_an_edit_in_place_that_keeps_size_and_modification_time_is_seen(world: World) -> None:
    world.write(A)
    world.age()
    router = world.router()
    assert served(router) == "a/m"
    times = os.stat(world.file)
    with world.file.open("r+") as file:
        file.write(B)
    os.utime(world.file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert served(router) == "b/m"


def test_two_edits_within_one_tick_of_the_clock_are_both_seen(world: World) -> None:
    world.write(A)
    ticking = os.stat(world.file)
    watch = Watch([str(world.file)], clock=lambda: ticking.st_mtime_ns / 1e9 + 0.001)
    watch.good(watch.look())
    assert watch.changed()
    settled = Watch([str(world.file)], clock=lambda: ticking.st_mtime_ns / 1e9 + 1)
    settled.good(settled.look())
    assert not settled.changed()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (B.replace('"b/m"]', '"b/m"'), "Unclosed array"),
        (B.replace("targets", "tragets"), "targets"),
        ("", "empty"),
        (None, "gone"),
    ],
    ids=["syntax", "meaning", "emptied", "deleted"],
)
def test_a_broken_version_never_replaces_the_last_good_one(world: World, text: str | None, word: str) -> None:
    world.write(A)
    router = world.router()
    assert served(router) == "a/m"
    good = router.live()
    if text is None:
        world.file.unlink()
    else:
        world.write(text)
    assert [served(router) for _ in range(3)] == ["a/m"] * 3
    (notice,) = router.take_notices()
    assert word in notice
    assert "stays in use" in notice
    assert served(router) == "a/m"
    assert router.take_notices() == []
    live = router.live()
    assert (live.digest, live.loaded_at) == (good.digest, good.loaded_at)
    assert word in live.rejected
    assert live.rejected_at is not None


def test_another_broken_version_is_said_anew_and_a_repaired_one_is_taken(world: World) -> None:
    world.write(A)
    router = world.router()
    served(router)
    world.write("version = 1\n[")
    served(router)
    world.write("version = 2\n")
    served(router)
    first, second = router.take_notices()
    assert first != second
    world.write(B)
    assert served(router) == "b/m"
    assert router.take_notices() == ["the configuration can be used again, and is"]
    assert router.live().rejected == ""


def test_a_file_taken_away_while_another_changes_is_still_no_reason_to_forget_it(world: World) -> None:
    patch = world.home / "patch.toml"
    world.write(A)
    world.write("", file=patch)
    patch.write_text("[limits]\nstall = '31s'\n")
    router = world.router(patches=[str(patch)])
    assert served(router) == "a/m"
    world.file.unlink()
    assert served(router) == "a/m"
    patch.write_text("[limits]\nstall = '32s'\n")
    assert served(router) == "a/m"
    assert "gone" in router.live().rejected


@pytest.mark.parametrize("kind", ["profile", "patch"])
def test_an_overlay_is_watched_like_the_file_itself(world: World, kind: str) -> None:
    world.write(A)
    overlay = world.home / "profiles" / "work.toml" if kind == "profile" else world.home / "patch.toml"
    world.write('[routes.chat]\ntargets = ["b/m"]\n', file=overlay)
    router = world.router(profile="work") if kind == "profile" else world.router(patches=[str(overlay)])
    assert served(router) == "b/m"
    world.write('[routes.chat]\ntargets = ["a/m"]\n', file=overlay)
    assert served(router) == "a/m"


def test_a_file_that_appears_where_there_was_none_is_taken_up(world: World) -> None:
    environ = {"ROUTEKIT_HOME": str(world.home), "OPENAI_API_KEY": "sk-canary-dddd-3333333333", **KEYS}
    router = world.router(environ=environ)
    assert router.config.mode == "environment"
    world.write(A)
    assert served(router) == "a/m"
    assert router.live().mode == "file"


def test_what_is_remembered_outlives_a_change(world: World) -> None:
    world.write(A)
    world.vendor = Vendor(script={"*": [{"fault": "transient", "status": 503, "message": "busy"}]})
    router = world.router()
    with pytest.raises(RoutekitError):
        served(router)
    store, secrets = router.store, router.keys.in_hand()
    remembered = router.health()
    world.write(A + '[routes.other]\ntargets = ["b/m"]\n')
    assert "other" in router.models()
    assert router.store is store
    assert router.health() == remembered != []
    assert router.keys.in_hand() == secrets != frozenset()


def test_another_key_reference_means_another_key(world: World) -> None:
    world.write(A)
    router = world.router()
    served(router)
    world.write(A.replace("KEY_A", "KEY_C"))
    served(router)
    keys = [call.secret.reveal() for call in world.vendor.calls if call.secret is not None]
    assert keys == [KEYS["KEY_A"], KEYS["KEY_C"]]
    assert router.keys.in_hand() == {"env:KEY_C"}


def test_a_request_under_way_keeps_the_configuration_it_began_with(world: World) -> None:
    """Its second target is a provider that the new file does not know any more."""
    slow = PROVIDERS + '[routes.chat]\ntargets = ["a/slow", "b/m"]\n'
    world.write(slow)
    gate = asyncio.Event()
    refused = {"fault": "auth", "status": 401, "message": "no", "first": 1.0}

    async def sleep(seconds: float) -> None:
        await gate.wait()

    world.vendor = Vendor(script={"slow": [refused], "*": ["fine"]}, sleep=sleep)

    async def story(router: Router) -> str | None:
        asking = asyncio.create_task(router.aask("hi"))
        while not world.vendor.calls:
            await asyncio.sleep(0)
        world.write(
            'version = 1\n[providers.c]\napi = "openai-chat"\nbase_url = "https://c.example/v1"\nkey = "none"\n'
        )
        assert list(router.refresh().providers) == ["c"]
        gate.set()
        return (await asking).served_by

    assert asyncio.run(story(world.router())) == "b/m"


def test_a_change_of_layout_alone_is_no_new_version(world: World) -> None:
    world.write(A)
    router = world.router()
    before = router.live()
    world.write("# a comment\n" + A)
    after = router.live()
    assert (after.digest, after.loaded_at) == (before.digest, before.loaded_at)


def test_a_pipe_is_read_once(world: World) -> None:
    """``--patch <(…)`` has no second text to give."""
    world.write(A)
    end, other = os.pipe()
    os.write(other, b'[routes.chat]\ntargets = ["b/m"]\n')
    os.close(other)
    try:
        router = world.router(patches=[f"/dev/fd/{end}"])
        assert served(router) == "b/m"
        world.write(A + "# changed\n")
        assert served(router) == "b/m"
        assert router.take_notices() == []
    finally:
        os.close(end)


def test_a_file_nobody_touched_is_not_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(A)
    world.age()
    router = world.router()
    before = router.config
    assert all(router.refresh() is before for _ in range(3))


def test_a_configuration_given_by_the_program_is_not_replaced_by_a_file(world: World) -> None:
    world.write(B)
    router = Router.from_toml(
        A, environ=world.environ, paths=find_paths(world.environ), speakers={"openai-chat": world.vendor}
    )
    try:
        assert served(router) == "a/m"
        assert router.live().mode == "given"
        assert router.live().digest == router.config.digest
    finally:
        router.close()


def test_health_says_which_version_is_live_and_what_is_wrong_with_the_newer_one(
    world: World, health: Callable[..., Any]
) -> None:
    world.write(A)
    router = world.router()
    served(router)
    assert str(world.file) in health(router)[-1]
    assert router.config.digest[:8] in health(router)[-1]
    world.write("version = 1\n[")
    told = health(router)
    assert router.config.digest[:8] in told[-2]
    assert "in use for" in told[-2]
    assert "not in use" in told[-1]
    assert f"{world.file}:2" in told[-1]


@pytest.fixture
def health() -> Callable[..., list[str]]:
    from routekit.commands import health as verb
    from routekit.commands.report import Context, Lines

    def told(router: Router) -> list[str]:
        report = verb.listing(Context(None, environ={}, router=router, surface="notebook"))  # type: ignore[arg-type]
        return [line for block in report.blocks if isinstance(block, Lines) for line in block.text]

    return told
