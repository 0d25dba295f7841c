"""``routekit config path``, ``show`` and ``check``: what is said of a file in every state it can be in."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from routekit.commands import config as verbs
from routekit.commands.report import Context, Lines, Report
from tests.conftest import Cli

CANARY = "sk-canary-0123456789abcdefghijklmnop"
KEYLESS = '[providers.{}]\napi = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\nkey = "none"\nmodels = ["m", "n"]\n'
AB = KEYLESS.format("a") + KEYLESS.format("b")
Write = Callable[[str], Path]
Contexts = Callable[..., Context]


def told(report: Report) -> list[str]:
    return [line for block in report.blocks if isinstance(block, Lines) for line in block.text]


@pytest.fixture
def checked(context: Contexts, config: Write) -> Callable[[str], Report]:
    def check(text: str) -> Report:
        config(text)
        return verbs.check(context())

    return check


# --- path and show


@pytest.mark.parametrize("text", [None, "[providers.openai\n", "[providers.openai]\nno = 1\n", AB])
def test_the_files_are_listed_whatever_state_they_are_in(
    cli: Cli, config: Write, place: Path, text: str | None
) -> None:
    if text is not None:
        config(text)
    ran = cli("config", "path")
    assert (ran.returncode, ran.stderr) == (0, "")
    row = ran.stdout.splitlines()[0]
    assert str(place / "config.toml") in row
    assert ("not there yet" in row) == (text is None)
    assert json.loads(cli("config", "path", "--json").stdout)["state"] == str(place / "state.db")
    assert not (place / "state.db").exists()


def test_the_config_in_force_is_shown_with_what_is_laid_over_it(cli: Cli, config: Write, place: Path) -> None:
    config(AB + '[routes.r]\ntargets = ["a/m"]\n')
    patch = place / "patch.toml"
    patch.write_text('[routes.r]\ntargets = ["b/n"]\n')
    shown = tomllib.loads(cli("config", "show", "--patch", str(patch)).stdout)
    assert shown["routes"]["r"]["targets"] == ["b/n"]
    assert shown["providers"]["a"]["key"] == "none"


def test_what_the_environment_gives_is_shown_without_any_key(cli: Cli, place: Path) -> None:
    ran = cli("config", "show", env={"OPENAI_API_KEY": CANARY})
    assert list(tomllib.loads(ran.stdout)["providers"]) == ["openai"]
    assert "no config file" in ran.stderr
    assert CANARY not in ran.stdout + ran.stderr


# --- check: errors


def test_all_errors_come_at_once_with_file_and_line(cli: Cli, config: Write) -> None:
    file = config(
        f'[providers.a]\napi = "openai-chatt"\n[providers.b]\napi = "openai-chat"\nkey = "{CANARY}"\n'
        '[routes.x]\ntargets = ["route/y"]\n[routes.y]\ntargets = ["route/x"]\n'
    )
    ran = cli("config", "check")
    assert ran.returncode == 78
    errors = [line for line in ran.stdout.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in errors] == [f"{file}:{number}" for number in (3, 6, 8)]
    assert ran.stdout.splitlines()[-1].startswith("3 errors")
    assert CANARY not in ran.stdout + ran.stderr
    rows = json.loads(cli("config", "check", "--json").stdout)["problems"]
    assert [row["line"] for row in rows if row["severity"] == "error"] == [3, 6, 8]


def test_a_text_that_does_not_parse_is_an_error_with_its_line(cli: Cli, config: Write) -> None:
    file = config("[defaults]\nroute = \n")
    ran = cli("config", "check")
    assert ran.returncode == 78
    assert f"{file}:3" in ran.stdout


def test_nothing_to_check_is_exit_78_with_two_commands(cli: Cli, place: Path) -> None:
    ran = cli("config", "check")
    assert ran.returncode == 78
    assert ran.stderr.count("  try: ") == 2


# --- check: shares


def test_a_clean_config_is_exit_0_and_shows_who_gets_what(checked: Callable[[str], Report]) -> None:
    report = checked(AB + '[routes.r]\ntargets = ["a/m", "b/m"]\n')
    assert report.exit_code == 0
    assert told(report) == [
        "r: in order, the first that is ready",
        "  a/m   100%",
        "  b/m   backup",
        "no errors, no warnings",
    ]


@pytest.mark.parametrize(
    ("route", "shares"),
    [
        ('selection = "smooth"\ntargets = [{ target = "a/m", weight = 3 }, "b/m"]', {"a/m": 0.75, "b/m": 0.25}),
        ('selection = "weighted"\ntargets = [{ target = "a/m", weight = 9 }, "b/m"]', {"a/m": 0.9, "b/m": 0.1}),
        ('selection = "round-robin"\ntargets = ["a/m", "b/m"]', {"a/m": 0.5, "b/m": 0.5}),
        (
            'selection = "round-robin"\ntargets = ["a/m", { target = "b/m", weight = 2 }]',
            {"a/m": 0.0, "b/m": 1.0},
        ),
        (
            (
                'selection = "smooth"\ntargets = ["a/m", "route/s"]\n'
                '[routes.s]\nselection = "smooth"\ntargets = ["a/n", { target = "b/n", weight = 4 }]'
            ),
            {"a/m": 0.5, "a/n": 0.1, "b/n": 0.4},
        ),
        (
            'targets = ["route/s", "a/m"]\n[routes.s]\nselection = "round-robin"\ntargets = ["a/n", "b/n"]',
            {"a/n": 0.5, "b/n": 0.5, "a/m": 0.0},
        ),
    ],
)
def test_shares_are_those_of_the_whole_route(
    checked: Callable[[str], Report], route: str, shares: dict[str, float]
) -> None:
    report = checked(f"{AB}[routes.r]\n{route}\n")

    def leaves(node: dict) -> dict[str, float]:
        found: dict[str, float] = {}
        for child in node["children"]:
            found |= leaves(child) if "group" in child else {child["target"]: child["share"]}
        return found

    assert leaves(report.data["trees"]["r"]) == shares


def test_lower_tiers_are_said_to_be_backups(checked: Callable[[str], Report]) -> None:
    text = 'selection = "round-robin"\ntargets = ["a/m", { target = "b/m", weight = 2 }]\n'
    assert any(
        "a/m" in line and "backup, tier 2 (weight 1)" in line for line in told(checked(f"{AB}[routes.r]\n{text}"))
    )


def test_limits_that_are_not_everybodys_are_shown_with_the_target(checked: Callable[[str], Report]) -> None:
    text = f'{AB}[providers.a.model_info.m]\nlimits.first_output = "3s"\n[routes.r]\ntargets = ["a/m", "b/m"]\n'
    lines = told(checked(text + 'limits.stall = "5s"\n'))
    assert lines[1].endswith("first_output 3s, stall 5s")
    # a server on this machine is waited for as long as it usually is
    assert lines[2].endswith("backup, stall 5s")


def test_a_member_that_is_listed_earlier_is_told_where_its_group_stands(checked: Callable[[str], Report]) -> None:
    both = '[synthetic_providers.s]\nproviders = ["a", "b"]\nselection = "smooth"\n'
    report = checked(f'{AB}{both}[routes.r]\ntargets = [\n"a/m",\n"s/m",\n]\n')
    (problem,) = [row for row in report.data["problems"] if "rotates without it" in row["message"]]
    assert problem["key"] == "routes.r.targets[2]"


def test_a_synthetic_provider_is_expanded_for_every_model_and_told_once(checked: Callable[[str], Report]) -> None:
    report = checked(AB + '[synthetic_providers.s]\nproviders = ["a", "b"]\nselection = "smooth"\n')
    assert set(report.data["trees"]) == {"s/m", "s/n"}
    assert told(report)[0] == "s/m: in turn, by weight  (and 1 more like it: s/n)"
    assert sum("50%" in line for line in told(report)) == 2


# --- check: warnings


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (AB + '[routes.r]\ntargets = [\n  "a/m",\n  "bb/m",\n]\n', 15, "'bb/m' is dropped"),
        (AB + '[routes.r]\ntargets = [\n  "bb/m",\n  "a/m",\n  "b/x*",\n]\n', 16, "b/x* gives nothing: no model"),
        (AB + '[routes.r]\ntargets = [\n  "a/m",\n  "b/zzz",\n]\n', 15, "b/zzz gives nothing: not among the models"),
        (AB + '[routes.r]\ntargets = ["a/zzz"]\n', 12, "r gives no target to call: a/zzz"),
        (
            AB + '[routes.r]\nselection = "smooth"\ntargets = ["a/m", "b/m", "a/m"]\n',
            14,
            "a/m is listed earlier, so r rotates without it",
        ),
        (
            AB + '[routes.r]\ntargets = [\n  "a/m",\n  "s/m",\n]\n[synthetic_providers.s]\nproviders = ["a"]\n',
            15,
            "s/m gives nothing: a/m: listed earlier",
        ),
        (AB + '[routes.r]\nselection = "smooth"\nsticky = false\ntargets = ["a/m", "b/m"]\n', 14, "prompt cache"),
        ('[providers.x]\napi = "openai-chat"\nkey = "env:NOPE"\n', 4, "no key to use (env NOPE: missing)"),
        ('[providers.x]\napi = "openai-chat"\n', 2, "no key to use (keyring entry x: none stored yet)"),
        (f'{AB}# key = "{CANARY}"\n', 12, "what looks like a secret"),
    ],
)
def test_what_is_dead_or_risky_is_a_warning_with_its_line(
    checked: Callable[[str], Report], text: str, line: int, words: str
) -> None:
    report = checked(text)
    assert report.exit_code == 1
    found = [row for row in report.data["problems"] if words in row["message"]]
    assert [row["line"] for row in found] == [line], report.data["problems"]
    assert CANARY not in "\n".join(told(report))


@pytest.mark.parametrize(
    "text",
    [
        AB + '[routes.r]\ntargets = ["a/m", { target = "b/m", weight = 0 }, { target = "b/n", enabled = false }]\n',
        AB + '[routes.r]\ntargets = ["a/m"]\nenabled = false\n',
        AB + '[routes.r]\ntargets = ["a/m", "a/m"]\n',
        AB + '[synthetic_providers.s]\nproviders = ["a", "b"]\n[routes.r]\ntargets = ["s/m"]\n',
        '[providers.x]\napi = "openai-chat"\nkey = "env:NOPE"\nenabled = false\n',
        '[providers.x]\napi = "openai-chat"\nkey = "cmd:echo x"\n',
        '[providers.x]\npreset = "ollama"\n',
    ],
)
def test_what_somebody_meant_is_no_warning(checked: Callable[[str], Report], text: str) -> None:
    report = checked(text)
    assert (report.exit_code, report.data["problems"]) == (0, [])


def test_a_file_others_can_write_is_a_warning_with_the_command(cli: Cli, config: Write) -> None:
    file = config('[providers.x]\npreset = "ollama"\n')
    file.chmod(0o620)
    ran = cli("config", "check")
    assert ran.returncode == 1
    assert f"its group may write it; try: chmod go-w {file}" in ran.stdout


def test_the_check_touches_no_keyring_and_loads_no_sdk(cli: Cli, config: Write) -> None:
    config('[providers.x]\napi = "openai-chat"\nkey = "auto"\n')
    ran = cli("config", "check", python=("-X", "importtime"))
    assert ran.returncode == 1
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "routekit.router" in loaded
    assert not loaded & {"keyring", "asyncio", "openai", "anthropic", "rich"}


def test_a_route_may_be_named_as_an_alias_is(checked: Callable[[str], Report]) -> None:
    report = checked(AB + '[aliases]\nq = "a/m"\n[routes.r]\ntargets = ["b/m"]\n')
    assert list(report.data["trees"]) == ["r"]


def test_routes_that_double_at_every_level_are_checked_like_any(checked: Callable[[str], Report]) -> None:
    floors = [f'[routes.r{place}]\ntargets = ["route/r{place + 1}", "route/r{place + 1}"]\n' for place in range(39)]
    report = checked(AB + "".join(floors) + '[routes.r39]\ntargets = ["a/m"]\n')
    assert report.exit_code == 0, told(report)[-5:]


def test_a_chain_of_routes_that_is_too_deep_is_said_in_one_line(cli: Cli, config: Write) -> None:
    chain = "".join(f'[routes.r{place}]\ntargets = ["r{place + 1}"]\n' for place in range(500))
    config(AB + chain + '[routes.r500]\ntargets = ["a/m"]\n')
    for words in (("config", "check"), ("routes", "show", "r0"), ("ask", "-m", "r0", "hi")):
        ran = cli(*words)
        assert ran.returncode == 78
        assert (ran.stdout + ran.stderr).count("nests more than 64 routes deep") == 1
        assert "Traceback" not in ran.stderr
