"""``routekit default``: shown, set in the file with all else kept, and a first file made where there is none."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Cli

TEXT = """
# mine
[defaults]
system = "Be brief."   # always

[providers.a]
api = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
key = "none"
models = ["m"]

[routes.plan]
targets = ["a/m"]

[routes.chat]
targets = ["a/m"]
"""
Write = Callable[[str], Path]


def test_setting_changes_one_line_and_keeps_every_other(cli: Cli, config: Write) -> None:
    file = config(TEXT)
    before = file.read_text().splitlines()
    ran = cli("default", "chat")
    assert ran.returncode == 0, ran.stderr
    after = file.read_text().splitlines()
    assert [line for line in after if line not in before] == ['route = "chat"']
    assert [line for line in after if line in before] == before
    assert file.stat().st_mode & 0o777 == 0o600
    assert cli("default").stdout == "chat\n"
    assert json.loads(cli("default", "--json").stdout) == {"default": "chat", "set": True, "targets": ["a/m"]}


def test_setting_what_is_set_writes_nothing(cli: Cli, config: Write) -> None:
    file = config(TEXT + '[aliases]\nq = "a/m"\n')
    assert cli("default", "q").returncode == 0
    there = file.stat()
    assert "already" in cli("default", "q").stdout
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (there.st_ino, there.st_mtime_ns)


def test_an_unknown_reference_is_a_usage_error_and_changes_nothing(cli: Cli, config: Write) -> None:
    file = config(TEXT)
    before = file.read_text()
    for said, words in (("chatt", "did you mean chat?"), ("aa/m", "did you mean a?"), ("a/x", "offers no model 'x'")):
        ran = cli("default", said)
        assert ran.returncode == 2
        assert words in ran.stderr
    assert file.read_text() == before


def test_the_only_route_is_the_default_until_one_is_set(cli: Cli, config: Write) -> None:
    config(TEXT.replace('[routes.chat]\ntargets = ["a/m"]\n', ""))
    ran = cli("default")
    assert ran.stdout.startswith("plan  (nothing sets it")
    config(TEXT)
    ran = cli("default")
    assert ran.returncode == 2
    assert "try: routekit default ROUTE" in ran.stderr


def test_the_first_file_keeps_what_the_environment_gave(cli: Cli, place: Path) -> None:
    env = {"OPENAI_API_KEY": "key-for-a-test", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert cli("default", "openai/gpt-x", env=env).returncode == 0
    file = place / "config.toml"
    assert tomllib.loads(file.read_text()) == {
        "version": 1,
        "defaults": {"route": "openai/gpt-x"},
        "providers": {"openai": {"preset": "openai", "key": "auto", "base_url": "http://127.0.0.1:9/v1"}},
    }
    assert file.stat().st_mode & 0o777 == 0o600
    assert cli("default", env=env).stdout == "openai/gpt-x\n"


def test_a_profile_that_counts_before_the_file_is_named(cli: Cli, config: Write, place: Path) -> None:
    config(TEXT)
    (place / "profiles").mkdir()
    (place / "profiles" / "p.toml").write_text('[defaults]\nroute = "plan"\n')
    ran = cli("--profile", "p", "default", "chat")
    assert ran.returncode == 0
    assert "a profile or patch in force says plan" in ran.stderr


def test_the_demo_has_no_default_to_set(cli: Cli, place: Path) -> None:
    assert cli("--profile", "demo", "default", "demo").returncode == 2
    assert not (place / "config.toml").exists()
