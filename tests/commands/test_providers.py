"""``routekit providers``: every provider with its address, its key's place and its models; nothing is called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Cli

CANARY = "sk-canary-0123456789abcdefghijklmnop"
TEXT = """
[providers.openai]
api = "openai-responses"
key = "env:MINE"
models = ["gpt-a", "gpt-b"]
limits.connect = "3s"
[providers.local]
preset = "ollama"
enabled = false
[synthetic_providers.plan]
selection = "smooth"
members = [{ provider = "openai", weight = 3, map = { big = "gpt-a" } }, { provider = "local" }]
"""
Write = Callable[[str], Path]


def test_concrete_and_synthetic_providers_are_listed(cli: Cli, config: Write) -> None:
    config(TEXT)
    ran = cli("providers", env={"MINE": CANARY})
    assert ran.returncode == 0
    rows = {line.split()[0]: line for line in ran.stdout.splitlines()[1:]}
    assert list(rows) == ["openai", "local", "plan"]
    assert "env MINE …mnop" in rows["openai"]
    assert rows["local"].endswith("off")
    assert "synthetic, smooth" in rows["plan"]
    assert "openai (weight 3), local" in rows["plan"]
    assert CANARY not in ran.stdout + ran.stderr


def test_the_json_has_what_the_list_has(cli: Cli, config: Write) -> None:
    config(TEXT)
    openai, _, plan = json.loads(cli("providers", "list", "--json").stdout)
    assert openai["key"] == {"source": "env MINE", "state": "absent", "last4": None}
    assert openai["models"] == ["gpt-a", "gpt-b"]
    assert plan["members"][0] == {"provider": "openai", "weight": 3, "enabled": True, "map": {"big": "gpt-a"}}


def test_one_provider_is_shown_with_all_that_was_said_of_it(cli: Cli, config: Write) -> None:
    config(TEXT)
    rows = dict(line.split("  ", 1) for line in cli("providers", "show", "openai").stdout.splitlines())
    rows = {name.strip(): value.strip() for name, value in rows.items()}
    assert rows["address"] == "https://api.openai.com/v1"
    assert rows["member of"] == "plan"
    assert rows["limits"] == "connect 3s"
    assert "big is sent as gpt-a" in cli("providers", "show", "plan").stdout


def test_an_unknown_provider_is_a_usage_error_with_the_nearest(cli: Cli, config: Write) -> None:
    config(TEXT)
    ran = cli("providers", "show", "opena")
    assert ran.returncode == 2
    assert "did you mean 'openai'?" in ran.stderr
