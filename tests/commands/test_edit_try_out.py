"""``providers test``: one tiny question to one account, by the vendor's real SDK on loopback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from routekit.commands import providers
from routekit.commands.report import Context, Lines, Report
from routekit.errors import UsageError
from tests.loopback import Loopback

Make = Callable[..., Context]
Config = Callable[[str], Path]


def entry(vendor: Loopback, id: str, *, more: str = "") -> str:
    return f'[providers.{id}]\napi = "openai-chat"\nbase_url = "{vendor.url("openai-chat")}"\nkey = "env:KEY"\n{more}\n'


def shown(report: Report) -> list[str]:
    return [line for block in report.blocks if isinstance(block, Lines) for line in block.text]


def test_it_says_what_came_back_how_long_it_took_and_the_tokens(
    vendor: Loopback, context: Make, config: Config
) -> None:
    config(entry(vendor, "a", more='models = ["m", "n"]'))
    report = providers.try_out(context(KEY="sk-canary-aaaa"), id="a")
    (line,) = shown(report)
    assert line.startswith("a/m answers: ")
    assert "tokens in" in line
    assert "tokens out" in line
    assert report.exit_code == 0
    assert [request.model for request in vendor.requests] == ["m"]


def test_nobody_else_is_asked_and_the_exit_code_is_the_failures(
    vendor: Loopback, context: Make, config: Config
) -> None:
    config(entry(vendor, "a") + entry(vendor, "b") + '[routes.plan]\ntargets = ["a/x?status=401", "b/n"]\n')
    report = providers.try_out(context(KEY="sk-canary-aaaa"), id="a")
    assert report.exit_code == 77
    assert shown(report)[0].startswith("a/x?status=401 failed: 401")
    assert "sk-canary" not in "\n".join(shown(report))
    assert [request.model for request in vendor.requests] == ["x?status=401"]


def test_a_missing_key_is_exit_77_with_the_command_to_type(vendor: Loopback, context: Make, config: Config) -> None:
    config(entry(vendor, "a"))
    report = providers.try_out(context(), id="a", model="m")
    assert report.exit_code == 77
    assert "KEY" in "\n".join(shown(report))
    assert vendor.requests == []


def test_a_synthetic_provider_is_tested_member_by_member(vendor: Loopback, context: Make, config: Config) -> None:
    members = '{ provider = "a" }, { provider = "b" }, { provider = "c", enabled = false }'
    members = f"[synthetic_providers.s]\nmembers = [{members}]\n"
    config(entry(vendor, "a") + entry(vendor, "b") + entry(vendor, "c") + members)
    report = providers.try_out(context(KEY="sk-canary-aaaa"), id="s", model="m")
    assert [line.partition(" ")[0] for line in shown(report)] == ["a/m", "b/m"]


def test_without_a_model_to_ask_it_asks_for_one(vendor: Loopback, context: Make, config: Config) -> None:
    config(entry(vendor, "a"))
    with pytest.raises(UsageError) as caught:
        providers.try_out(context(KEY="sk-canary-aaaa"), id="a")
    assert caught.value.hints == ("routekit providers test a --model MODEL",)
