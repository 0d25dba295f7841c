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


def test_an_api_without_an_address_binds_nobodys_key_to_a_vendor_that_was_not_named(cli: Cli, config: Write) -> None:
    file = config(TEXT)
    before = file.read_text()
    ran = cli("providers", "add", "beta", "--api", "openai-chat")
    assert (ran.returncode, file.read_text()) == (2, before)
    assert "says how beta speaks, not where it is" in ran.stderr
    assert "try: routekit providers add beta --api openai-chat --base-url https://…" in ran.stderr
    assert "try: routekit providers add beta --preset openai" in ran.stderr
    words = ("--api", "openai-chat", "--base-url", "https://beta.example/v1")
    assert cli("providers", "add", "beta", *words).returncode == 0


def test_a_vendors_own_name_needs_no_address(cli: Cli, config: Write) -> None:
    config("")
    assert cli("providers", "add", "openai", "--api", "openai-chat").returncode == 0


def test_adding_a_provider_that_is_there_names_the_command_that_changes_it(cli: Cli, config: Write) -> None:
    file = config(TEXT)
    before = file.read_text()
    ran = cli("providers", "add", "openai", "--api", "openai-chat", "--base-url", "https://gate.example/v1")
    assert (ran.returncode, file.read_text()) == (2, before)
    assert "try: routekit providers set openai base_url https://gate.example/v1" in ran.stderr


def test_a_route_is_not_listed_among_providers_and_called_what_it_is(cli: Cli, config: Write) -> None:
    config(TEXT + '[routes.chat]\ntargets = ["openai/gpt-a"]\n')
    ran = cli("providers", "show", "chat")
    assert (ran.returncode, "'chat' is a route" in ran.stderr) == (2, True)
    far = cli("ask", "-m", "zzz/m", "hi")
    assert far.returncode == 2
    assert "chat" not in far.stderr
