"""``routekit models``: what this config can be asked for, by name; nobody is called to find out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli

TEXT = """
[aliases]
q = "openai/gpt-a"
[providers.openai]
api = "openai-responses"
models = ["gpt-a", "gpt-b", "exp-*"]
[providers.other]
api = "openai-responses"
key = "keyring:other"
models = ["gpt-b"]
[providers.deepseek]
preset = "deepseek"
[synthetic_providers.plan]
members = [{ provider = "openai", map = { big = "gpt-a" } }, { provider = "other" }]
[routes.main]
name = "Everyday"
targets = ["plan/gpt-b"]
provider = "routed"
model = "strong"
"""
Write = Callable[[str], Path]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), "main q plan/gpt-a plan/gpt-b plan/big openai/gpt-a openai/gpt-b other/gpt-b"),
        (("--routes",), "main q"),
        (("--concrete",), "openai/gpt-a openai/gpt-b other/gpt-b"),
        (("-q", "GPT", "-q", "-b"), "plan/gpt-b openai/gpt-b other/gpt-b"),
        (("-q", "nothing"), ""),
    ],
)
def test_names_are_bare_and_filtered(cli: Cli, config: Write, options: tuple[str, ...], names: str) -> None:
    config(TEXT)
    ran = cli("models", "list", "--names", *options)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == names.split()


def test_the_list_says_what_each_name_is(cli: Cli, config: Write) -> None:
    config(TEXT)
    rows = {}
    for row in json.loads(cli("models", "list", "--json").stdout):
        rows[row["id"]] = row
    assert rows["main"] == {"id": "main", "kind": "route", "about": "Everyday, also routed/strong"}
    assert rows["q"]["about"] == "→ openai/gpt-a"
    assert rows["plan/gpt-b"] == {"id": "plan/gpt-b", "kind": "synthetic", "about": "openai, other"}
    assert rows["deepseek/deepseek-v4-flash"]["kind"] == "example"


def test_providers_that_take_any_model_are_named_so_that_the_list_does_not_look_complete(
    cli: Cli, config: Write
) -> None:
    config(TEXT)
    out = cli("models").stdout
    assert "deepseek/MODEL: any model of deepseek" in out
    assert "openai/MODEL: also any name that fits exp-*" in out


def test_with_a_key_in_the_environment_alone_there_is_a_name_to_begin_with(cli: Cli, place: Path) -> None:
    ran = cli("models", env={"OPENAI_API_KEY": "key-for-a-test"})
    assert ran.returncode == 0
    assert ran.stdout.startswith("openai/gpt-")


def test_a_filter_that_keeps_nothing_says_so(cli: Cli, config: Write) -> None:
    config(TEXT)
    assert "Nothing here has such a name." in cli("models", "list", "-q", "nothing").stdout
    assert cli("models", "list", "--routes", "--concrete").returncode == 2


def test_what_the_config_names_as_a_target_can_be_asked_and_is_listed(cli: Cli, config: Write) -> None:
    config(
        '[providers.a]\napi = "openai-chat"\nbase_url = "https://a.example"\nkey = "none"\n'
        '[providers.b]\napi = "openai-chat"\nbase_url = "https://b.example"\nkey = "none"\n'
        '[synthetic_providers.s]\nproviders = ["a", "b"]\n'
        '[routes.r]\ntargets = ["a/m", "s/x#high", "a/gpt-*"]\n'
    )
    names = cli("models", "list", "--names").stdout.split()
    assert names == ["r", "s/m", "s/x", "a/m"]
    rows = {row["id"]: row for row in json.loads(cli("models", "list", "--json").stdout)}
    assert (rows["a/m"]["kind"], rows["a/m"]["about"]) == ("model", "named in the config")
    assert (rows["s/x"]["kind"], rows["s/x"]["about"]) == ("synthetic", "a, b")


def test_a_provider_asked_for_without_a_model_is_called_one(cli: Cli, config: Write) -> None:
    config(
        '[providers.a]\napi = "openai-chat"\nbase_url = "https://a.example"\nkey = "none"\n'
        '[routes.r]\ntargets = ["a/m"]\n[aliases]\nx = "r"\n'
    )
    ran = cli("ask", "-m", "a", "hi")
    assert ran.returncode == 2
    assert "'a' is a provider: write a/MODEL, such as a/m" in ran.stderr
    far = cli("ask", "-m", "zzzz", "hi")
    assert "(routes: r; aliases: x)" in far.stderr
    assert "try: routekit models list" in far.stderr
