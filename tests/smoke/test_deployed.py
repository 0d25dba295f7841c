"""``smoke deployed`` against vendors on this machine: what is asked, what counts as a failure, how it is told."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from routekit.commands.report import Context
from routekit.commands.smoke import deployed
from routekit.errors import UsageError
from routekit.loop import run as play
from routekit.notebook.options import read_verb
from routekit.router import Router
from routekit.smoke.deployed import Asked, errand
from routekit.smoke.deployed import run as ask_all
from routekit.state import open_store
from routekit.vendors.scripted import Vendor
from tests.commands.person import Person
from tests.loopback import Loopback
from tests.smoke.conftest import Run

Write = Callable[..., Path]
Smoke = Callable[..., Run]
KEY = "canary-Thistle-31-orchard"


def account(id: str, vendor: Loopback, *, key: str = "none", more: str = "") -> str:
    return f'[providers.{id}]\napi = "openai-chat"\nbase_url = "{vendor.url()}"\nkey = "{key}"\n{more}\n'


@pytest.fixture
def config(vendor: Loopback, write: Write) -> Loopback:
    """Two accounts and two routes; each model is the vendor's to be scripted."""
    write(
        '[defaults]\nroute = "plan"\n'
        + account("a", vendor)
        + account("b", vendor)
        + '[routes.plan]\ntargets = ["a/first", "b/second"]\n[routes.cheap]\ntargets = ["b/third"]\n'
    )
    vendor.script("*", {"text": "ready"})
    return vendor


def test_all_well_is_a_line_a_route_and_exit_0(config: Loopback, smoke: Smoke) -> None:
    done = smoke("default")
    assert done.code == 0
    assert [line.partition(" · ")[0] for line in done.verdicts] == ["PASS  plan → a/first", "PASS  cheap → b/third"]
    assert all("first output" in line and "tok" in line and "'ready'" in line for line in done.verdicts)
    assert done.report.blocks[0].text == ("2/2",)  # type: ignore[union-attr]
    assert [request.model for request in config.requests] == ["first", "third"]


def test_the_composition_and_the_number_of_calls_are_told_before_the_first(config: Loopback, smoke: Smoke) -> None:
    lines = smoke("default").person.shown
    first = next(at for at, line in enumerate(lines) if line.startswith("PASS"))
    before = "\n".join(lines[:first])
    for said in (
        "plan (ordered)",
        "a/first",
        "b/second",
        "key of a: no key needed",
        "default: plan",
        "2 routes: 2 calls",
    ):
        assert said in before, said


def test_an_empty_answer_fails(config: Loopback, smoke: Smoke) -> None:
    config.script("third", {"text": ""})
    done = smoke("default")
    assert done.code == 1
    assert done.verdicts[1].startswith("FAIL  cheap: the answer of b/third is empty")


def test_a_vendor_that_hangs_fails_after_the_timeout(config: Loopback, smoke: Smoke) -> None:
    config.script("third", {"hang": "accept"})
    done = smoke("default", "cheap", timeout=0.5)
    assert done.code == 1
    assert done.verdicts == ["FAIL  cheap: no answer within --timeout 0.5s"]


def test_the_timeout_may_come_from_the_environment(config: Loopback, smoke: Smoke) -> None:
    config.script("third", {"hang": "accept"})
    done = smoke("default", "cheap", env={"SMOKE_TIMEOUT_S": "0.4"})
    assert done.verdicts == ["FAIL  cheap: no answer within --timeout 0.4s"]


def test_a_timeout_in_the_environment_that_is_none_is_a_usage_error(config: Loopback, smoke: Smoke) -> None:
    with pytest.raises(UsageError, match="SMOKE_TIMEOUT_S"):
        smoke("default", env={"SMOKE_TIMEOUT_S": "soon"})
    assert config.requests == []


def test_another_model_than_asked_fails(config: Loopback, smoke: Smoke) -> None:
    config.script("third", {"text": "ready", "model": "something-smaller"})
    done = smoke("default", "cheap")
    assert done.code == 1
    assert done.verdicts == ["FAIL  cheap: b/third answered as something-smaller"]


def test_a_dated_name_of_the_same_model_passes(config: Loopback, smoke: Smoke) -> None:
    config.script("third", {"text": "ready", "model": "third-2026-01-31"})
    assert smoke("default", "cheap").code == 0


def test_a_refused_key_fails_even_where_a_backup_serves(config: Loopback, smoke: Smoke) -> None:
    config.script("first", {"status": 401, "body": {"error": {"code": "invalid_api_key", "message": "no such key"}}})
    done = smoke("default", "plan")
    assert done.code == 1
    assert done.verdicts[0].startswith("FAIL  plan: credential problem: a/first: 401")
    assert "routekit keys check" in done.report.hints


def test_a_key_that_is_missing_fails_before_any_call(vendor: Loopback, write: Write, smoke: Smoke) -> None:
    write(account("a", vendor, key="env:NOT_THERE") + '[routes.plan]\ntargets = ["a/m"]\n')
    done = smoke("default")
    assert done.code == 1
    assert done.verdicts[0].startswith("FAIL  plan: credential problem:")
    assert "NOT_THERE" in done.verdicts[0]
    assert vendor.requests == []


def test_a_failover_passes_and_is_told(config: Loopback, smoke: Smoke) -> None:
    config.script("first", {"status": 429, "body": {"error": {"message": "slow down"}}})
    done = smoke("default", "plan")
    assert done.code == 0
    assert done.verdicts[0].startswith("PASS  plan → b/second")
    assert any("not its first choice a/first: 429" in line for line in done.person.shown)


def test_what_was_learned_is_remembered(config: Loopback, smoke: Smoke) -> None:
    config.script("first", {"status": 429, "body": {"error": {"message": "slow down"}}})
    smoke("default", "plan")
    router = Router()
    assert [(row.key, row.state) for row in router.health() if row.state == "asleep"] == [("a/first", "asleep")]
    assert router.why().surface == "smoke"
    router.close()


def test_a_dead_backup_is_found_by_asking_each_target(config: Loopback, smoke: Smoke) -> None:
    config.script("second", {"status": 404, "body": {"error": {"code": "model_not_found", "message": "gone"}}})
    assert smoke("default").code == 0
    done = smoke("default", each_target=True)
    assert done.code == 1
    assert [line.partition(" · ")[0] for line in done.verdicts] == [
        "PASS  plan → a/first",
        "PASS  cheap → b/third",
        "PASS  target a/first",
        "PASS  target b/third",
        "FAIL  target b/second: 404 no such model: gone (sleep 12h0m)",
    ]
    assert done.report.data["calls"] == {"fewest": 3, "most": 4, "worst": 9}


def test_each_target_is_asked_once(config: Loopback, smoke: Smoke) -> None:
    assert smoke("default", each_target=True).code == 0
    assert sorted(request.model for request in config.requests) == ["first", "second", "third"]


def test_a_backup_asleep_by_our_own_guess_is_asked_and_so_woken(config: Loopback, smoke: Smoke) -> None:
    config.script("second", {"status": 404, "body": {"error": {"code": "model_not_found", "message": "gone"}}}, {})
    assert smoke("default", each_target=True).code == 1
    assert smoke("default", each_target=True).code == 0


def test_budgets_are_respected(vendor: Loopback, write: Write, smoke: Smoke) -> None:
    budget = "budget = { requests_per_day = 1 }"
    routes = '[routes.one]\ntargets = ["a/m"]\n[routes.two]\ntargets = ["a/n"]\n'
    write(account("a", vendor, more=budget) + routes)
    done = smoke("default", each_target=True)
    assert done.code == 1
    assert len(vendor.requests) == 1
    assert "budget" in done.verdicts[1]


# --- the profile ------------------------------------------------------------------------------------------------------


def test_an_unknown_profile_is_a_usage_error_that_names_those_there_are(
    config: Loopback, write: Write, smoke: Smoke
) -> None:
    write("", "profiles/work.toml")
    with pytest.raises(UsageError, match="no profile 'wrok'; there are default, work, demo") as caught:
        smoke("wrok")
    assert caught.value.exit_code == 2


def test_an_unknown_mode_and_a_missing_profile_are_usage_errors(cli: Any) -> None:
    wrong, missing = cli("smoke", "somewhere"), cli("smoke", "deployed")
    assert (wrong.returncode, missing.returncode) == (2, 2)
    assert "local, deployed" in wrong.stderr
    assert "PROFILE" in missing.stderr


def test_an_unknown_route_is_a_usage_error_before_any_call(config: Loopback, smoke: Smoke) -> None:
    with pytest.raises(UsageError, match="unknown route or model 'plam'"):
        smoke("default", "plan", "plam")
    assert config.requests == []


def test_a_profile_lies_over_the_config_and_patches_over_both(
    config: Loopback, write: Write, smoke: Smoke, tmp_path: Path
) -> None:
    write('[routes.worked]\ntargets = ["a/worked"]\n', "profiles/work.toml")
    patch = tmp_path / "overlay.toml"
    patch.write_text('version = 1\n[routes.patched]\ntargets = ["a/patched"]\n')
    assert len(smoke("default").verdicts) == 2
    done = smoke("work", patches=(str(patch),))
    names = [line.split()[1] for line in done.verdicts]
    assert names == ["plan", "cheap", "worked", "patched"]


def test_default_is_the_plain_config_whatever_the_environment_says(
    config: Loopback, write: Write, smoke: Smoke
) -> None:
    write('[routes.worked]\ntargets = ["a/worked"]\n', "profiles/work.toml")
    assert len(smoke("default", env={"ROUTEKIT_PROFILE": "work"}).verdicts) == 2


def test_a_default_that_is_no_route_is_a_note_and_no_failure(vendor: Loopback, write: Write, smoke: Smoke) -> None:
    write('[defaults]\nroute = "a/m"\n' + account("a", vendor) + '[routes.plan]\ntargets = ["a/m"]\n')
    done = smoke("default")
    assert done.code == 0
    assert "note: the default, a/m, is not one of the routes" in done.person.shown


def test_dump_only_asks_nobody(config: Loopback, smoke: Smoke) -> None:
    done = smoke("default", dump_only=True)
    assert done.code == 0
    assert "plan (ordered)" in done.person.shown
    assert done.verdicts == []
    assert config.requests == []


def test_a_route_without_a_target_to_call_fails_and_the_others_are_asked(
    vendor: Loopback, write: Write, smoke: Smoke
) -> None:
    off = '[routes.off]\ntargets = [{ target = "a/m", enabled = false }]\n'
    write(account("a", vendor) + off + '[routes.plan]\ntargets = ["a/m"]\n')
    done = smoke("default")
    assert done.code == 1
    assert [line.split()[:2] for line in done.verdicts] == [["FAIL", "off:"], ["PASS", "plan"]]


def test_without_routes_the_default_is_asked(vendor: Loopback, write: Write, smoke: Smoke) -> None:
    write('[defaults]\nroute = "a/m"\n' + account("a", vendor))
    done = smoke("default")
    assert [line.partition(" · ")[0] for line in done.verdicts] == ["PASS  a/m"]


def test_more_is_shown_where_the_environment_asks_for_it(config: Loopback, smoke: Smoke) -> None:
    config.script("third", {"text": "\n".join(f"line {number}" for number in range(9))})
    assert not any("|" in line for line in smoke("default", "cheap").person.shown)
    more = smoke("default", "cheap", env={"SMOKE_VERBOSE": "1"}).person.shown
    assert [line.strip() for line in more if line.strip().startswith("|")] == [f"| line {n}" for n in range(6)]
    assert any(line.strip().startswith("b/third: answered in") for line in more)


def test_no_key_is_shown_in_any_form(vendor: Loopback, write: Write, smoke: Smoke, tmp_path: Path) -> None:
    write(
        account("a", vendor, key="env:SMOKE_KEY")
        + '[routes.plan]\ntargets = ["a/m"]\n[routes.two]\ntargets = ["a/n"]\n'
    )
    vendor.script("m", {"status": 401, "body": {"error": {"message": f"Incorrect API key provided: {KEY}"}}})
    file = tmp_path / "out.xml"
    done = smoke("default", env={"SMOKE_KEY": KEY, "SMOKE_VERBOSE": "1"}, junit=str(file), each_target=True)
    assert done.code == 1
    assert "key of a: env SMOKE_KEY" in done.text
    for shown in (done.text, file.read_text(), repr(done.report)):
        assert KEY not in shown


# --- machines ---------------------------------------------------------------------------------------------------------

NULLABLE = {"type": ["string", "null"]}
COUNT = {"type": ["integer", "null"], "minimum": 0}
RESULT = {
    "type": "object",
    "required": ["name", "kind", "passed", "detail", "served_by", "duration_ms", "first_output_ms", "attempts", "cost"],
    "properties": {
        "name": {"type": "string"},
        "kind": {"enum": ["route", "target"]},
        "passed": {"type": "boolean"},
        "detail": NULLABLE,
        "note": NULLABLE,
        "served_by": NULLABLE,
        "answer": NULLABLE,
        "duration_ms": COUNT,
        "first_output_ms": COUNT,
        "input_tokens": COUNT,
        "output_tokens": COUNT,
        "cost": {"type": ["object", "null"]},
        "attempts": {"type": "array", "items": {"type": "object", "required": ["target", "outcome", "class"]}},
        "id": NULLABLE,
    },
    "additionalProperties": False,
}
DEPLOYED = {
    "type": "object",
    "required": ["schema_version", "mode", "profile", "passed", "count", "failed", "composition", "notes", "results"],
    "properties": {
        "schema_version": {"const": 1},
        "mode": {"const": "deployed"},
        "profile": {"type": "string"},
        "passed": {"type": "boolean"},
        "count": {"type": "integer"},
        "failed": {"type": "integer"},
        "composition": {"type": "object", "required": ["files", "routes", "synthetic_providers", "keys", "default"]},
        "notes": {"type": "array", "items": {"type": "string"}},
        "calls": {"type": ["object", "null"]},
        "results": {"type": "array", "items": RESULT},
    },
    "additionalProperties": False,
}


def test_the_data_has_its_shape_well_or_not(config: Loopback, smoke: Smoke) -> None:
    config.script("third", {"status": 400, "body": {"error": {"message": "no"}}})
    done = smoke("default", json=True, each_target=True)
    jsonschema.validate(done.report.data, DEPLOYED)
    assert (done.report.data["count"], done.report.data["failed"], done.report.data["passed"]) == (5, 2, False)
    jsonschema.validate(smoke("default", json=True, dump_only=True).report.data, DEPLOYED)


def test_with_json_nothing_but_json_is_on_stdout(config: Loopback, cli: Any) -> None:
    import json

    done = cli("smoke", "deployed", "default", "cheap", "--json", "--timeout", "20")
    assert done.returncode == 0, done.stderr
    jsonschema.validate(json.loads(done.stdout), DEPLOYED)
    assert "asking 1 route: 1 call" in done.stderr


def test_junit_is_read_by_a_parser(config: Loopback, smoke: Smoke, tmp_path: Path) -> None:
    file = tmp_path / "smoke.xml"
    config.script("third", {"status": 400, "body": {"error": {"message": "no \x1b[31m<&>\x00 such thing"}}})
    assert smoke("default", junit=str(file)).code == 1
    suite = ElementTree.parse(file).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == (
        "routekit smoke deployed default",
        "2",
        "1",
    )
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["route plan", "route cheap"]
    assert [case.find("failure") is None for case in cases] == [True, False]
    failure = cases[1].find("failure")
    assert failure is not None
    assert "<&>" in (failure.get("message") or "")


def test_a_report_that_cannot_be_written_is_told_before_any_call(
    config: Loopback, smoke: Smoke, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        smoke("default", junit=str(tmp_path / "nowhere" / "smoke.xml"))
    assert config.requests == []


# --- together ---------------------------------------------------------------------------------------------------------


def _asked(parallel: int, seconds: float) -> list[Asked]:
    """Two routes whose vendors answer only once both have been asked."""
    both = asyncio.Event()
    waiting: list[object] = []

    async def sleep(_: float) -> None:
        waiting.append(None)
        if len(waiting) == 2:
            both.set()
        await both.wait()

    routes = '[routes.one]\ntargets = ["a/m"]\n[routes.two]\ntargets = ["a/n"]\n'
    text = 'version = 1\n[providers.a]\napi = "scripted"\n' + routes
    speaker = Vendor(script=[{"first": 1, "text": "ready"}], sleep=sleep)
    router = Router.from_toml(text, state=open_store(None), speakers={"scripted": speaker}, environ={})

    async def collected() -> list[Asked]:
        task = errand(router, (), parallel=parallel, timeout=seconds)
        return [asked async for asked in ask_all(router, task)]

    return play(collected())


def test_so_many_are_asked_at_a_time() -> None:
    assert [row.passed for row in _asked(parallel=2, seconds=20.0)] == [True, True]
    assert not _asked(parallel=1, seconds=0.2)[0].passed


def test_parallel_is_at_least_one(config: Loopback, smoke: Smoke) -> None:
    with pytest.raises(UsageError, match="--parallel"):
        smoke("default", parallel=0)


def test_an_interrupt_ends_it_at_once_and_is_nobodys_fault(config: Loopback, tmp_path: Path) -> None:
    config.script("first", {"hang": "accept"})
    child = subprocess.Popen(
        [sys.executable, "-m", "routekit", "smoke", "deployed", "default", "plan"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        cwd=tmp_path,
    )
    assert config.wait_for(lambda server: server.count("first") == 1, 30)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert child.returncode == -signal.SIGINT, out + err
    assert "Traceback" not in err
    router = Router()
    assert [row.outcome for row in router.why().attempts] == ["cancelled"]
    assert [row.key for row in router.health() if row.state != "well"] == []
    router.close()


def test_a_notebook_asks_a_profile_with_the_same_words(config: Loopback, place: Path) -> None:
    person = Person([])
    verb, given, _ = read_verb("smoke deployed default cheap --timeout 20s")
    assert verb.path == ("smoke", "deployed")
    assert deployed(Context(person, environ=os.environ), **given).exit_code == 0
    assert [line.partition(" · ")[0] for line in person.shown if line.startswith("PASS")] == ["PASS  cheap → b/third"]
