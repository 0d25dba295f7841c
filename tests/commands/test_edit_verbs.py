"""Editing by command: what each verb changes, what it says of it, what it refuses."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from routekit.commands import aliases, providers, routes, settings
from routekit.commands.report import Context, Lines, Report
from routekit.errors import ConfigError, UsageError

ACCOUNTS = """
[providers.a]
api = "openai-chat"
base_url = "https://a.example/v1"   # mine
key = "none"
models = ["m", "n"]

[providers."b.alt"]
api = "openai-chat"
base_url = "https://b.example/v1"
key = "none"
"""
BOTH = """
# both accounts
[synthetic_providers.both]
members = [
  { provider = "a", weight = 5 },   # heavy
  { provider = "b.alt" },
]
"""
PLAN = """
[routes.plan]
targets = [
  "a/m",      # first
  "b.alt/x",  # second
]
"""
WHOLE = ACCOUNTS + BOTH + PLAN

Make = Callable[..., Context]
Config = Callable[[str], Path]


def shown(report: Report) -> list[str]:
    return [line for block in report.blocks if isinstance(block, Lines) for line in block.text]


def warned(report: Report) -> list[str]:
    return [note for note in report.notes if note.startswith("warning: ")]


def of(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())


# --- what each changes and shows --------------------------------------------------------------------------------------

EDITS: dict[str, tuple[Callable[[Context], Report], list[str]]] = {
    "a route": (
        lambda context: routes.add(context, id="new", targets=["a/n", "both/m"], selection="smooth"),
        ["+ [routes.new]", '+ targets = ["a/n", "both/m"]', '+ selection = "smooth"'],
    ),
    "a target more": (lambda context: routes.add(context, id="plan", targets=["a/n"]), ['+   "a/n",']),
    "a target less": (lambda context: routes.remove(context, id="plan", target="a/m"), ['-   "a/m",      # first']),
    "a target's weight": (
        lambda context: routes.change(context, id="plan", key="b.alt/x.weight", value="3"),
        ['-   "b.alt/x",  # second', '+   { target = "b.alt/x", weight = 3 },  # second'],
    ),
    "a route's selection": (
        lambda context: routes.change(context, id="plan", key="selection", value="smooth"),
        ['+ selection = "smooth"'],
    ),
    "a member's weight": (
        lambda context: providers.change(context, id="both", key="b.alt.weight", value="2"),
        ['-   { provider = "b.alt" },', '+   { provider = "b.alt", weight = 2 },'],
    ),
    "a member less": (
        lambda context: providers.remove(context, id="both", member="a"),
        ['-   { provider = "a", weight = 5 },   # heavy'],
    ),
    "a provider's key": (
        lambda context: providers.change(context, id="a", key="key", value="env:A"),
        ['- key = "none"', '+ key = "env:A"'],
    ),
    "an account": (
        lambda context: providers.add(context, id="openai", key="env:K"),
        ["+ [providers.openai]", '+ preset = "openai"', '+ key = "env:K"'],
    ),
    "a synthetic provider": (
        lambda context: providers.add(context, id="more", members="b.alt,a", selection="round-robin"),
        ["+ [synthetic_providers.more]", '+ providers = ["b.alt", "a"]', '+ selection = "round-robin"'],
    ),
    "an alias": (lambda context: aliases.store(context, name="q", reference="a/n"), ["+ [aliases]", '+ q = "a/n"']),
    "any key": (
        lambda context: settings.change(context, key="limits.stall", value="45s"),
        ["+ [limits]", '+ stall = "45s"'],
    ),
    "a key no more": (
        lambda context: settings.unset(context, key="providers.b.alt.key"),
        ['- key = "none"'],
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_shows_the_lines_it_changed_and_changes_no_others(name: str, context: Make, config: Config) -> None:
    file = config(WHOLE)
    before = file.read_text().splitlines()
    edit, lines = EDITS[name]
    report = edit(context())
    assert shown(report) == lines
    assert report.exit_code == 0
    assert report.notes[0] == f"changed {file}"
    after = file.read_text().splitlines()
    gone, come = (Counter(line[2:] for line in lines if line.startswith(mark)) for mark in ("- ", "+ "))
    assert Counter(filter(None, before)) - gone + come == Counter(filter(None, after))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_moved_target_takes_its_comment_along(context: Make, config: Config) -> None:
    file = config(WHOLE)
    routes.move(context(), id="plan", target="b.alt/x", position=1)
    assert 'targets = [\n  "b.alt/x",  # second\n  "a/m",      # first\n]' in file.read_text()


def test_a_moved_member_takes_its_comment_along(context: Make, config: Config) -> None:
    file = config(WHOLE)
    providers.move(context(), id="both", member="b.alt", position=1)
    assert '{ provider = "b.alt" },\n  { provider = "a", weight = 5 },   # heavy' in file.read_text()


@pytest.mark.parametrize(
    "edit",
    [
        lambda context: providers.change(context, id="both", key="a.weight", value="5"),
        lambda context: routes.add(context, id="plan", targets=["a/m"]),
        lambda context: routes.move(context, id="plan", target="a/m", position=1),
        lambda context: providers.add(context, id="both", members="a"),
        lambda context: settings.unset(context, key="limits.stall"),
    ],
    ids=["weight", "target", "place", "member", "unset"],
)
def test_an_edit_that_changes_nothing_writes_nothing(
    edit: Callable[[Context], Report], context: Make, config: Config
) -> None:
    """C56: a weight of 5 entered again."""
    file = config(WHOLE)
    before = file.stat()
    report = edit(context())
    assert "nothing changed" in shown(report)[0]
    assert report.data["changed"] is False
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_off_and_on_again_leaves_members_as_they_were_byte_for_byte(context: Make, config: Config) -> None:
    """C24, trap 68: also a member that would not be accepted today."""
    dangling = WHOLE.replace('{ provider = "b.alt" }', '{ provider = "gone" , weight=2}')
    file = config(dangling)
    members = file.read_text().partition("members = [")[2].partition("]")[0]
    for value in ("false", "true", "false"):
        providers.change(context(), id="both", key="enabled", value=value)
        assert file.read_text().partition("members = [")[2].partition("]")[0] == members
        assert of(file)["synthetic_providers"]["both"]["enabled"] is (value == "true")


def test_the_next_question_goes_by_the_edited_weights(context: Make, config: Config) -> None:
    """C20."""
    config(WHOLE)
    one = context()
    assert [branch.weight for branch in one.router.plan("both/m").groups[0].children] == [5, 1]
    providers.change(one, id="both", key="b.alt.weight", value="7")
    assert [branch.weight for branch in one.router.plan("both/m").groups[0].children] == [5, 7]


# --- refused ----------------------------------------------------------------------------------------------------------

MISTYPED: dict[str, tuple[Callable[[Context], Report], str]] = {
    "route": (lambda context: routes.move(context, id="plam", target="a/m", position=1), "'plan'"),
    "target": (lambda context: routes.remove(context, id="plan", target="a/mm"), "'a/m'"),
    "position": (lambda context: routes.move(context, id="plan", target="a/m", position=3), "1 to 2"),
    "route's key": (lambda context: routes.change(context, id="plan", key="selecton", value="x"), "'selection'"),
    "target's key": (lambda context: routes.change(context, id="plan", key="a/m.wieght", value="1"), "'weight'"),
    "target of a key": (lambda context: routes.change(context, id="plan", key="a/mm.weight", value="1"), "'a/m'"),
    "provider": (lambda context: providers.change(context, id="boht", key="selection", value="x"), "'both'"),
    "member": (lambda context: providers.remove(context, id="both", member="b.atl"), "'b.alt'"),
    "member of a key": (lambda context: providers.change(context, id="both", key="b.atl.weight", value="1"), "'b.alt'"),
    "new member": (lambda context: providers.add(context, id="new", members="a,b.atl"), "'b.alt'"),
    "new target's provider": (lambda context: routes.add(context, id="plan", targets=["b.atl/x"]), "b.alt"),
    "new target's model": (lambda context: routes.add(context, id="plan", targets=["a/mm"]), "m"),
    "new target's route": (lambda context: routes.add(context, id="new", targets=["plam"]), "plan"),
    "preset": (lambda context: providers.add(context, id="x", preset="opnai"), "'openai'"),
    "vendor": (lambda context: providers.add(context, id="opnai"), "'openai'"),
    "alias": (lambda context: aliases.remove(context, name="q"), "nothing"),
    "alias's reference": (lambda context: aliases.store(context, name="q", reference="plam"), "plan"),
    "key": (lambda context: settings.change(context, key="limts.stall", value="1s"), "'limits'"),
    "id": (lambda context: routes.add(context, id="my plan", targets=["a/m"]), "letter or digit"),
    "taken id": (lambda context: providers.add(context, id="a", preset="openai"), "already"),
    "nested": (lambda context: providers.add(context, id="new", members="both"), "do not nest"),
    "twice": (lambda context: providers.add(context, id="new", members="a,b.alt,a"), "member 3 is member 1 again"),
    "a target twice": (lambda context: routes.add(context, id="new", targets=["a/m", "a/m"]), "target 2"),
}


@pytest.mark.parametrize("what", MISTYPED)
def test_a_mistyped_name_is_a_usage_error_that_names_the_nearest(what: str, context: Make, config: Config) -> None:
    """C23: what is new must exist; C57: doubles are named by their place, counted from 1."""
    file = config(WHOLE)
    before = file.read_text()
    edit, words = MISTYPED[what]
    with pytest.raises(UsageError) as caught:
        edit(context())
    assert words in "\n".join(caught.value.lines())
    assert file.read_text() == before


REFUSED: dict[str, tuple[Callable[[Context], Report], str]] = {
    "weight": (lambda context: providers.change(context, id="both", key="a.weight", value="1001"), "1001"),
    "selection": (lambda context: routes.change(context, id="plan", key="selection", value="smoth"), "'smooth'"),
    "unit": (lambda context: settings.change(context, key="limits.stall", value="45"), "unit"),
    "cycle": (lambda context: routes.add(context, id="plan", targets=["route/plan"]), "circle"),
    "alias in use": (lambda context: routes.remove(context, id="plan"), "aliases.q"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_edit_that_would_add_an_error_is_refused_and_leaves_the_file(
    what: str, context: Make, config: Config
) -> None:
    """C22 and kin: exit 78, nothing written."""
    file = config(WHOLE + '\n[aliases]\nq = "plan"\n')
    before = file.read_bytes()
    edit, words = REFUSED[what]
    with pytest.raises(ConfigError) as caught:
        edit(context())
    assert words in "\n".join(caught.value.lines())
    assert "nothing was written" in caught.value.message
    assert file.read_bytes() == before


def test_a_key_typed_where_a_reference_belongs_is_refused_and_never_shown(context: Make, config: Config) -> None:
    file = config(WHOLE)
    secret = "sk-proj-canaryabcdefghijklmnopqrstuvwxyz0123456789"
    with pytest.raises(ConfigError) as caught:
        providers.add(context(), id="x", preset="openai", key=secret)
    assert secret not in "\n".join(caught.value.lines())
    assert "routekit keys set x" in "\n".join(caught.value.lines())
    assert secret not in file.read_text()


def test_what_the_file_had_wrong_before_stands_in_nobodys_way(context: Make, config: Config) -> None:
    """An edit is refused only for errors it adds."""
    file = config(WHOLE.replace('key = "none"\nmodels', 'key = "none"\nmaxparallel = 3\nmodels'))
    report = routes.change(context(), id="plan", key="selection", value="smooth")
    assert shown(report) == ['+ selection = "smooth"']
    assert of(file)["routes"]["plan"]["selection"] == "smooth"


def test_a_file_that_does_not_parse_is_not_edited(context: Make, config: Config) -> None:
    file = config(WHOLE + "[")
    with pytest.raises(ConfigError, match="must be repaired first") as caught:
        routes.change(context(), id="plan", key="selection", value="smooth")
    assert caught.value.hints == ("routekit config edit",)
    assert file.read_text().endswith("[")


# --- warned -----------------------------------------------------------------------------------------------------------

ONE = (
    ACCOUNTS
    + '\n[defaults]\nroute = "solo"\n[routes.solo]\ntargets = ["a/m"]\n[routes.outer]\ntargets = ["route/solo"]\n'
)


@pytest.mark.parametrize(
    "edit",
    [
        lambda context: routes.change(context, id="solo", key="a/m.enabled", value="false"),
        lambda context: routes.change(context, id="solo", key="a/m.weight", value="0"),
        lambda context: providers.change(context, id="a", key="enabled", value="false"),
        lambda context: routes.change(context, id="solo", key="enabled", value="false"),
    ],
    ids=["target", "weight", "provider", "route"],
)
def test_who_switches_off_the_last_target_of_a_route_in_use_is_warned(
    edit: Callable[[Context], Report], context: Make, config: Config
) -> None:
    """C58, by ``config.md``: warned, not refused."""
    config(ONE)
    report = edit(context())
    told = "\n".join(warned(report))
    assert "solo" in told
    assert "outer gives no target to call" in told
    assert "asked when nothing is named" in told
    assert report.exit_code == 0


def test_who_removes_the_last_member_of_a_synthetic_provider_in_use_is_warned(context: Make, config: Config) -> None:
    config(ACCOUNTS + '[synthetic_providers.s]\nproviders = ["a"]\n[routes.plan]\ntargets = ["s/m"]\n')
    told = "\n".join(warned(providers.remove(context(), id="s", member="a")))
    assert "no members left" in told
    assert "plan gives no target to call" in told


def test_a_member_of_several_goes_without_a_word(context: Make, config: Config) -> None:
    config(WHOLE)
    assert warned(providers.remove(context(), id="both", member="b.alt")) == []
    assert warned(routes.remove(context(), id="plan", target="b.alt/x")) == []


def test_removing_a_provider_names_the_targets_it_leaves_dead(context: Make, config: Config) -> None:
    config(WHOLE)
    told = "\n".join(warned(providers.remove(context(), id="b.alt")))
    assert "routes.plan.targets[2]" in told
    assert "b.alt" in told


# --- which file -------------------------------------------------------------------------------------------------------


def test_where_there_is_no_file_the_first_edit_makes_one_for_its_owner_alone(context: Make, place: Path) -> None:
    report = providers.add(context(), id="relay", api="openai-chat", base_url="http://127.0.0.1:1/v1", key="none")
    file = place / "config.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert of(file)["providers"] == {
        "relay": {"api": "openai-chat", "base_url": "http://127.0.0.1:1/v1", "key": "none"}
    }
    assert report.hints == ("routekit providers test relay",)
    assert [path.name for path in place.iterdir() if path.name.startswith(".")] == []


def test_a_first_edit_keeps_what_the_environment_gave(context: Make, place: Path) -> None:
    """The file counts instead of the environment: without this, the first edit would lose the vendor."""
    one = context(
        ANTHROPIC_API_KEY="sk-ant-canary", OPENAI_API_KEY="sk-canary", OPENAI_BASE_URL="https://gate.example/v1"
    )
    report = routes.add(one, id="fast", targets=["anthropic/claude-opus-5"])
    assert of(place / "config.toml")["providers"] == {
        "openai": {"preset": "openai", "key": "auto", "base_url": "https://gate.example/v1"},
        "anthropic": {"preset": "anthropic", "key": "auto"},
    }
    assert any("from the environment" in note for note in report.notes)
    assert [leaf.label for leaf in one.router.plan("fast").leaves] == ["anthropic/claude-opus-5"]


def test_a_vendor_of_the_environment_can_be_added_by_name(context: Make, place: Path) -> None:
    one = context(OPENAI_API_KEY="sk-canary")
    report = providers.add(one, id="openai")
    assert of(place / "config.toml")["providers"] == {"openai": {"preset": "openai"}}
    assert "routekit providers set openai key env:OPENAI_API_KEY" in report.hints


def test_an_edit_is_for_the_config_file_never_for_a_profile(context: Make, config: Config, place: Path) -> None:
    file = config(WHOLE)
    overlay = place / "profiles" / "work.toml"
    overlay.parent.mkdir()
    overlay.write_text('[routes.plan]\ntargets = ["a/n"]\n[routes.only]\ntargets = ["a/n"]\n')
    before = overlay.read_text()
    one = context()
    one.profile = "work"
    report = routes.change(one, id="plan", key="selection", value="smooth")
    assert of(file)["routes"]["plan"]["selection"] == "smooth"
    assert any("makes no difference" in note and str(overlay) in note for note in report.notes)
    with pytest.raises(UsageError, match=r"'only' stands in .*work\.toml"):
        routes.remove(one, id="only")
    assert overlay.read_text() == before


def test_the_demo_is_not_edited(context: Make, place: Path) -> None:
    one = context()
    one.profile = "demo"
    with pytest.raises(UsageError, match="demo cannot be edited"):
        routes.add(one, id="x", targets=["demo-backup/m"])
    assert not (place / "config.toml").exists()


# --- typed ------------------------------------------------------------------------------------------------------------


def test_typed_verbs_show_lines_on_stdout_and_the_rest_beside_it(cli: Any, config: Config) -> None:
    file = config(WHOLE)
    done = cli("routes", "set", "plan", "a/m.weight", "3")
    assert done.returncode == 0
    assert done.stdout.splitlines() == ['-   "a/m",      # first', '+   { target = "a/m", weight = 3 },      # first']
    assert f"changed {file}" in done.stderr
    done = cli("routes", "move", "plan", "a/m", "first")
    assert (done.returncode, done.stdout) == (2, "")
    done = cli("routes", "set", "plan", "attempts", "-1")
    assert done.returncode == 2
    done = cli("routes", "set", "plan", "attempts", "99")
    assert done.returncode == 78
    done = cli("aliases", "set", "q", "plan", "--json")
    assert json.loads(done.stdout)["lines"] == ["+ ", "+ [aliases]", '+ q = "plan"']
    assert cli("aliases").stdout.split() == ["q", "→", "plan"]


def test_the_schema_is_json_and_accepts_a_real_config(cli: Any, config: Config) -> None:
    schema = json.loads(cli("config", "schema").stdout)
    assert set(of(config(WHOLE))) <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_a_verb_in_a_process_that_lives_on_leaves_the_router_open_and_up_to_date(context: Make, config: Config) -> None:
    config(WHOLE)
    router = context().router
    lent = Context(context().io, environ={}, router=router, surface="notebook")
    routes.add(lent, id="more", targets=["a/n"])
    assert lent.router is router
    assert "more" in router.models()
    lent.close()
    assert router.health() == []


def test_a_process_that_lives_on_goes_by_what_another_edits(cli: Any, config: Config, place: Path) -> None:
    """A kernel asks, a shell edits, the kernel's next question goes elsewhere."""
    config(WHOLE)
    program = (
        "import sys\nfrom routekit.router import Router\nrouter = Router()\n"
        "for line in sys.stdin:\n    print(router.plan('plan').leaves[0].label, router.live().digest, flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None

        def ask() -> list[str]:
            print("?", file=child.stdin, flush=True)
            return child.stdout.readline().split()  # type: ignore[union-attr]

        first, digest = ask()
        assert first == "a/m"
        assert cli("routes", "move", "plan", "b.alt/x", "1").returncode == 0
        second, moved = ask()
        assert second == "b.alt/x"
        assert moved != digest
    finally:
        child.kill()
        child.communicate()
