"""``smoke --routes``: a person's own routes with their targets failing, and the verb around drills and walks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from routekit.commands.report import Context, Report
from routekit.commands.smoke import local
from routekit.core.select import Context as GroupContext
from routekit.core.select import GroupView, Pick
from routekit.loop import run
from routekit.router import Router
from routekit.smoke import walks
from routekit.smoke.drills import DRILLS, Verdict
from routekit.smoke.stand import Parts
from routekit.state import open_store
from routekit.state.memory import MemoryStore
from tests.commands.person import Person

ACCOUNTS = "version = 1\n" + "".join(
    f'[providers.{id}]\napi = "openai-chat"\nbase_url = "https://{id}.invalid/v1"\nkey = "env:{id.upper()}"\n'
    for id in ("a", "b", "c")
)


def walked(text: str, **more: Any) -> list[Verdict]:
    router = Router.from_toml(ACCOUNTS + text, environ={}, **more)

    async def collected() -> list[Verdict]:
        return [verdict async for verdict in walks.run(router)]

    return run(collected())


def passed(found: Sequence[Verdict]) -> list[tuple[str, bool]]:
    return [(row.name, row.passed) for row in found]


BOTH = [("r: its first target fails", True), ("r: all targets fail", True)]


@pytest.mark.parametrize("selection", ["ordered", "round-robin", "weighted", "smooth"])
def test_a_route_is_walked_with_its_first_and_with_all_targets_failing(selection: str) -> None:
    targets = '{ target = "a/m", weight = 2 }, { target = "b/m", weight = 1 }, "c/m"'
    assert passed(walked(f'[routes.r]\ntargets = [{targets}]\nselection = "{selection}"\n')) == BOTH


@pytest.mark.parametrize(
    "text",
    [
        '[routes.r]\ntargets = ["a/m"]\n',
        '[routes.r]\ntargets = ["a/m", "b/m"]\nattempts = 1\n',
        '[routes.r]\ntargets = ["a/m", "b/m"]\nlast_resort = "wait"\n',
        '[routes.r]\ntargets = ["a/m", "b/m"]\nbudget = { requests_per_day = 1 }\n',
        '[health]\nfirst = "0s"\n[routes.r]\ntargets = ["a/m", "a/n"]\n',
        '[health]\nfailures = 5\n[routes.r]\ntargets = ["a/m", "b/m"]\n',
        '[routes.r]\ntargets = ["a/m", { target = "b/m", until = 2020-01-01T00:00:00Z }]\n',
        '[synthetic_providers.p]\nproviders = ["a", "b"]\n[routes.r]\ntargets = ["p/m", "c/m"]\n',
        '[routes.r]\ntargets = ["a/m", "b/m"]\nfixed = true\n',
    ],
    ids=["one target", "one attempt", "waits", "budget", "no windows", "patient", "expired", "synthetic", "fixed"],
)
def test_whatever_a_route_says_a_sound_one_passes(text: str) -> None:
    assert passed(walked(text)) == BOTH


def test_a_route_that_is_switched_off_is_left_out() -> None:
    assert walked('[routes.r]\ntargets = ["a/m"]\nenabled = false\n') == []


def test_a_route_with_nobody_to_call_fails() -> None:
    found = walked('[routes.r]\ntargets = [{ target = "a/m", enabled = false }]\n')
    assert [row.passed for row in found] == [False, False]
    assert "gives no target to call" in found[0].detail


class Stuck:
    """An algorithm of somebody's own that never goes on to the second."""

    def __init__(self, context: GroupContext) -> None: ...

    def select(self, group: GroupView, state: Any, call: Pick) -> int | None:
        return 0 if group.children[0].ready else None

    def on_dispatch(self, group: GroupView, state: Any, call: Pick, index: int) -> Any:
        return state


def test_an_algorithm_that_never_goes_on_is_found_out() -> None:
    found = walked('[routes.r]\ntargets = ["a/m", "b/m"]\nselection = "stuck"\n', algorithms={"stuck": Stuck})
    assert [row.passed for row in found] == [False, False]
    assert "nobody served, though only a/m failed" in found[0].detail
    assert "1 of 2 targets tried" in found[1].detail


def test_walks_read_and_change_nothing_that_is_remembered() -> None:
    store = open_store(None)
    text = '[routes.r]\ntargets = ["a/m", "b/m"]\n'
    assert passed(walked(text, state=store)) == BOTH
    assert store.scan("") == {}
    assert store.records(limit=9) == []


# --- the verb ---------------------------------------------------------------------------------------------------------

LOCAL = {
    "type": "object",
    "required": ["schema_version", "mode", "passed", "count", "failed", "results"],
    "properties": {
        "schema_version": {"const": 1},
        "mode": {"const": "local"},
        "passed": {"type": "boolean"},
        "count": {"type": "integer", "minimum": 1},
        "failed": {"type": "integer", "minimum": 0},
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "kind", "passed", "detail", "duration_ms"],
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"enum": ["drill", "route"]},
                    "passed": {"type": "boolean"},
                    "detail": {"type": ["string", "null"]},
                    "duration_ms": {"type": "integer", "minimum": 0},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}


def smoke(text: str, **how: Any) -> tuple[Report, list[str]]:
    person = Person([])
    router = Router.from_toml(ACCOUNTS + text, environ={}, algorithms={"stuck": Stuck})
    return local(Context(person, environ={}, router=router), routes=True, **how), person.shown


def test_routes_come_after_the_drills_and_count(tmp_path: Path) -> None:
    file = tmp_path / "smoke.xml"
    report, shown = smoke('[routes.r]\ntargets = ["a/m", "b/m"]\nselection = "stuck"\n', junit=str(file))
    assert report.exit_code == 1
    assert shown[len(DRILLS)].startswith("FAIL  r: its first target fails: nobody served")
    assert report.blocks[0].text == (f"{len(DRILLS)}/{len(DRILLS) + 2}",)  # type: ignore[union-attr]
    assert report.hints == ("routekit routes preview r",)
    jsonschema.validate(report.data, LOCAL)
    suite = ElementTree.parse(file).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == (str(len(DRILLS) + 2), "2")
    assert len(suite.findall("testcase/failure")) == 2


def test_with_json_the_data_alone_is_on_stdout(cli: Any) -> None:
    done = cli("--profile", "demo", "smoke", "--routes", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    jsonschema.validate(data, LOCAL)
    assert data["count"] == len(DRILLS) + 2


def test_it_runs_where_a_loop_runs_already() -> None:
    async def notebook() -> Report:
        return smoke('[routes.r]\ntargets = ["a/m", "b/m"]\n')[0]

    assert asyncio.run(notebook()).exit_code == 0


def test_each_verdict_is_shown_before_the_next_drill_begins() -> None:
    shown_at_start: list[int] = []
    person = Person([])

    def store() -> MemoryStore:
        shown_at_start.append(len(person.shown))
        return MemoryStore()

    local(Context(person, environ={}), parts=Parts(store=store))
    assert sorted(set(shown_at_start)) == list(range(len(DRILLS)))


def test_routes_without_a_configuration_say_what_is_missing(cli: Any) -> None:
    done = cli("smoke", "--routes")
    assert done.returncode == 78
    assert "routekit init" in done.stderr
    assert "PASS" not in done.stdout
