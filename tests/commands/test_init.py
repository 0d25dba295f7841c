"""``routekit init``: from nothing to a first answer, by questions and by options; leaving early leaves no trace."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from routekit.commands.init import init
from routekit.commands.report import Context, Lines, Report
from routekit.credentials import read_ledger
from routekit.errors import CredentialError, RoutekitError, UsageError
from tests.commands.person import Person
from tests.conftest import Cli
from tests.keyring.rig import Session
from tests.loopback import Loopback, answer

CANARY = "sk-canary-0123456789abcdefghijklmnop"
#: a session that seems to have a keyring, and has none
BUS = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
Write = Callable[[str], Path]
Contexts = Callable[..., Context]


def person(context: Context) -> Person:
    assert isinstance(context.io, Person)
    return context.io


def written(place: Path) -> dict:
    return tomllib.loads((place / "config.toml").read_text())


def traces(place: Path) -> list[str]:
    """What is left of a run, apart from the memory, which every look at it makes."""
    return [name for name in os.listdir(place) if not name.startswith("state.db")]


def text(report: Report) -> str:
    return "\n".join(line for block in report.blocks if isinstance(block, Lines) for line in block.text)


# --- by questions


def test_a_key_in_the_environment_is_used_and_no_key_asked_for(context: Contexts, place: Path) -> None:
    here = context("", "", OPENAI_API_KEY=CANARY)
    init(here, no_question=True)
    assert "using OPENAI_API_KEY" in person(here).said
    assert person(here).asked == ["Vendor", "Model, as openai names it"]
    assert written(place)["providers"] == {"openai": {"preset": "openai", "key": "env:OPENAI_API_KEY"}}
    assert CANARY not in (place / "config.toml").read_text()


def test_the_first_question_is_answered_and_three_commands_follow(
    context: Contexts, place: Path, vendor: Loopback
) -> None:
    here = context("openai", "model-x", "say hi", MINE=CANARY)
    report = init(here, base_url=vendor.url(), key="env:MINE")
    assert text(report) == answer()
    assert [request.model for request in vendor.requests] == ["model-x"]
    assert vendor.requests[0].header("authorization") == [f"Bearer {CANARY}"]
    assert len(report.hints) == 3
    assert written(place)["routes"]["main"]["targets"] == ["openai/model-x"]
    assert any("Questions and answers are kept too" in line for line in person(here).said)


def test_the_log_can_be_declined(context: Contexts, place: Path) -> None:
    here = context("openai", "")
    init(here, key="env:HOME", no_question=True, no_log=True)
    assert written(place)["log"] == {"conversations": False}
    assert any("are not kept" in line for line in person(here).said)


def test_the_file_is_private_commented_and_clean(cli: Cli, context: Contexts, place: Path) -> None:
    init(context("openai", ""), key="env:HOME", no_question=True)
    file = place / "config.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().count("#") >= 6
    assert cli("config", "check").returncode == 0
    assert traces(place) == ["config.toml"]


@pytest.mark.parametrize("answered", range(3))
def test_leaving_at_any_question_leaves_everything_as_it_was(context: Contexts, place: Path, answered: int) -> None:
    answers = ["openai", "gpt-x", CANARY][:answered]
    with pytest.raises(UsageError):
        init(context(*answers, None))
    assert traces(place) == []


def test_leaving_when_the_keyring_is_of_no_use_leaves_no_key_behind(context: Contexts, place: Path) -> None:
    with pytest.raises(UsageError):
        init(context("openai", "gpt-x", CANARY, None, **BUS))
    assert traces(place) == []


@pytest.mark.parametrize(
    ("answers", "key"),
    [
        (("env", "MINE"), "env:MINE"),
        (("env", ""), "env:OPENAI_API_KEY"),
        (("cmd", "pass show openai"), "cmd:pass show openai"),
        (("file", CANARY), "keyring"),
    ],
)
def test_without_a_keyring_the_other_places_are_offered_before_a_key_is_typed(
    context: Contexts, place: Path, answers: tuple[str, ...], key: str
) -> None:
    here = context("openai", "gpt-x", *answers)
    init(here, no_question=True)
    offered = [line.split()[0] for line in person(here).said if line.startswith("  ")]
    assert offered == ["env", "cmd", "file"]
    assert written(place)["providers"]["openai"]["key"] == key
    assert list(read_ledger(place / "keys.json")) == (["openai"] if key == "keyring" else [])
    assert CANARY not in (place / "config.toml").read_text()


def test_a_key_typed_for_a_keyring_that_is_of_no_use_is_at_hand_for_a_file(context: Contexts, place: Path) -> None:
    here = context("openai", "gpt-x", CANARY, "", **BUS)
    init(here, no_question=True)
    assert (place / "keys" / "openai").read_text().strip() == CANARY
    assert (place / "keys" / "openai").stat().st_mode & 0o777 == 0o600
    assert any("takes the key you typed" in line for line in person(here).said)
    text = (place / "config.toml").read_text()
    assert "here in a plain file" in text
    assert "routekit keys set openai --store file" in text
    (place / "config.toml").unlink()
    other = context("groq", "gpt-x", CANARY, "env", "MINE", **BUS)
    init(other, no_question=True)
    assert "the key you typed is not kept" in person(other).said


@pytest.mark.parametrize(("said", "key"), [("", "env:OPENAI_API_KEY"), ("n", "env:MINE")])
def test_a_key_in_the_environment_is_offered_for_another_address_too(
    context: Contexts, place: Path, said: str, key: str
) -> None:
    answers = ["openai", "m", said] + (["env", "MINE"] if said else [])
    here = context(*answers, OPENAI_API_KEY=CANARY)
    init(here, base_url="https://gate.example/v1", no_question=True)
    assert "Use the key in OPENAI_API_KEY? It will be sent to gate.example" in person(here).asked
    assert written(place)["providers"]["openai"]["key"] == key


def test_a_piped_key_goes_into_a_file_where_that_is_said(cli: Cli, place: Path) -> None:
    words = ("--vendor", "groq", "--model", "m", "--no-question", "--store", "file")
    assert cli("init", *words, stdin=CANARY).returncode == 0
    assert cli("keys", "check").returncode == 0


def test_a_key_that_cannot_be_one_is_asked_for_again(context: Contexts, place: Path) -> None:
    here = context("openai", "gpt-x", "no key at all", CANARY, "file", **BUS)
    init(here, no_question=True)
    assert person(here).asked.count("Your key for openai") == 2
    (place / "config.toml").unlink()
    with pytest.raises(CredentialError):
        init(context("groq", "gpt-x", "a b", "a b", "a b", **BUS), no_question=True)


def test_another_vendor_at_hand_becomes_a_backup_only_if_the_person_says_so(context: Contexts, place: Path) -> None:
    keys = {"OPENAI_API_KEY": CANARY, "DEEPSEEK_API_KEY": CANARY}
    for said, targets in (("n", 1), ("y", 2)):
        init(context("openai", "gpt-x", said, **keys), no_question=True)
        assert len(written(place)["routes"]["main"]["targets"]) == targets
        (place / "config.toml").unlink()


def test_a_key_stored_before_is_used_and_not_asked_for(cli: Cli, context: Contexts, place: Path) -> None:
    assert cli("keys", "set", "openai", "--store", "file", stdin=CANARY).returncode == 0
    here = context("openai", "gpt-x")
    init(here, no_question=True)
    assert "using the key stored as openai …mnop" in person(here).said


def test_a_vendor_on_this_machine_needs_no_key(context: Contexts, place: Path) -> None:
    init(context("ollama", "llama"), no_question=True)
    assert written(place)["providers"]["ollama"]["key"] == "none"


def test_a_failed_first_question_leaves_the_config_and_says_so(
    context: Contexts, place: Path, vendor: Loopback
) -> None:
    vendor.script("*", {"status": 401})
    here = context("openai", "gpt-x", "", MINE=CANARY)
    with pytest.raises(RoutekitError) as caught:
        init(here, base_url=vendor.url(), key="env:MINE")
    assert caught.value.exit_code == 77
    assert any("The config is written" in line for line in person(here).said)
    assert (place / "config.toml").exists()


# --- where there is a config already

THERE = """
# mine
[defaults]
route = "chat"

[providers.openai]
api = "openai-responses"
key = "env:MINE"

[routes.chat]
targets = ["openai/gpt-x"]
"""


def test_a_config_is_never_overwritten(context: Contexts, config: Write) -> None:
    file = config(THERE)
    before = file.read_text()
    with pytest.raises(UsageError) as caught:
        init(context())
    assert caught.value.hints
    report = init(context("n"))
    assert (report.exit_code, bool(report.hints)) == (0, True)
    with pytest.raises(UsageError, match="there is a provider openai already"):
        init(context("y"), vendor="openai")
    assert file.read_text() == before


def test_another_vendor_is_added_with_everything_else_kept(context: Contexts, config: Write, place: Path) -> None:
    file = config(THERE)
    before = file.read_text()
    init(context("y", "deepseek", "", "y"), key="env:MINE", no_question=True)
    after = file.read_text()
    assert all(line in after for line in before.splitlines() if "targets" not in line)
    assert written(place)["routes"]["chat"]["targets"] == ["openai/gpt-x", "deepseek/deepseek-v4-flash"]
    assert written(place)["providers"]["deepseek"] == {"preset": "deepseek", "key": "env:MINE"}


def test_a_broken_config_is_not_added_to(cli: Cli, config: Write) -> None:
    file = config("[providers.openai]\nno = 1\n")
    before = file.read_text()
    assert cli("init", "--vendor", "deepseek", "--key", "env:X").returncode == 78
    assert file.read_text() == before


# --- by options


def test_options_alone_make_a_config_and_ask(cli: Cli, place: Path, vendor: Loopback) -> None:
    words = ("--vendor", "openai", "--base-url", vendor.url(), "--model", "m", "--key", "env:MINE")
    ran = cli("init", *words, env={"MINE": CANARY})
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == answer() + "\n"
    assert ran.stderr.count("  try: ") == 3
    assert CANARY not in ran.stdout + ran.stderr + (place / "config.toml").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say which vendor"),
        (("--vendor", "opnai"), "did you mean 'openai'?"),
        (("--vendor", "groq", "--key", "env:X"), "which model of groq?"),
        (("--vendor", "azure", "--key", "env:X", "--model", "m"), "the address of azure"),
        (("--vendor", "openai", "--key", CANARY), "looks like the key itself"),
    ],
)
def test_what_is_missing_or_wrong_is_a_usage_error_and_leaves_no_trace(
    cli: Cli, place: Path, words: tuple[str, ...], said: str
) -> None:
    ran = cli("init", *words)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert CANARY not in ran.stderr
    assert traces(place) == []


def test_a_key_may_be_piped_in_and_goes_to_the_keyring(unlocked_keyring: Session) -> None:
    routekit = [sys.executable, "-m", "routekit"]
    ran = unlocked_keyring.command(
        [*routekit, "init", "--vendor", "groq", "--model", "m", "--no-question"], stdin=CANARY
    )
    assert ran.code == 0, ran.stderr
    assert "stored the key in: keyring (Secret Service)" in ran.stderr
    assert unlocked_keyring.command([*routekit, "keys", "check"]).stdout == "groq  ok: keyring (Secret Service) …mnop\n"


def test_without_a_keyring_and_without_a_person_nothing_is_written(cli: Cli, place: Path) -> None:
    ran = cli("init", "--vendor", "groq", "--model", "m", stdin=CANARY)
    assert ran.returncode == 77
    assert "try: routekit init --vendor groq --key env:GROQ_API_KEY" in ran.stderr
    assert "try: routekit init --vendor groq --store file" in ran.stderr
    assert traces(place) == []


def test_a_folder_that_cannot_be_made_leaves_no_key_behind(cli: Cli, home: Path) -> None:
    (home / "file").touch()
    env = {"ROUTEKIT_CONFIG": str(home / "file" / "config.toml"), "ROUTEKIT_HOME": str(home / "rk")}
    ran = cli("init", "--vendor", "openai", "--key", "env:X", env=env)
    assert ran.returncode == 78
    assert "cannot be written" in ran.stderr


# --- on a real terminal


def test_a_typed_key_is_not_shown_and_ctrl_c_leaves_everything_as_it_was(place: Path) -> None:
    shell = pexpect.spawn(
        sys.executable,
        ["-m", "routekit", "init"],
        encoding="utf-8",
        timeout=20,
        dimensions=(50, 200),
        env={**os.environ, **BUS},
    )
    shell.expect("Vendor")
    shell.sendline("openai")
    shell.expect("Model")
    shell.sendline("")
    shell.expect("not shown")
    shell.send(CANARY)
    shell.sendintr()
    shell.expect(pexpect.EOF)
    shell.close()
    assert CANARY not in (shell.before or "")
    assert shell.signalstatus == 2
    assert traces(place) == []
