"""``init --from``: another program's configuration taken over; its keys into the keyring, never into a file of ours."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from routekit.commands.init import init
from routekit.commands.report import Context, Report
from routekit.config.file import from_text
from routekit.credentials import read_ledger
from routekit.errors import ConfigError, CredentialError, UsageError
from tests.conftest import Cli
from tests.keyring.rig import Session
from tests.loopback import Loopback, answer

OPENAI, CLAUDE, LOCAL = "sk-canary-openai-0123456789ab", "sk-canary-claude-0123456789ab", "canary-local-0123456789"
Contexts = Callable[..., Context]


@pytest.fixture
def llm(home: Path) -> Path:
    """A directory as llm leaves it."""
    folder = home / ".config" / "io.datasette.llm"
    folder.mkdir(parents=True)
    keys = {
        "// Note": "This file stores secret API credentials.",
        "openai": OPENAI,
        "claude": CLAUDE,
        "pinecone": "x1y2",
    }
    (folder / "keys.json").write_text(json.dumps({**keys, "lan": LOCAL}))
    aliases = {"opus": "anthropic/claude-opus-5", "mini": "gpt-6.1-mini", "phi": "orca-mini", "near": "lan-model"}
    (folder / "aliases.json").write_text(json.dumps(aliases))
    (folder / "default_model.txt").write_text("claude-sonnet-5\n")
    (folder / "extra-openai-models.yaml").write_text(
        "- model_id: lan-model\n  model_name: qwen\n  api_base: http://lan.example:8000/v1\n  api_key_name: lan\n"
        "- model_id: new-gpt\n  model_name: gpt-7\n"
    )
    return folder


def written(place: Path) -> dict[str, Any]:
    return tomllib.loads((place / "config.toml").read_text())


def bring(context: Contexts, source: str, **more: Any) -> Report:
    return init(context(), **{"from": source, "store": "file", **more})


def test_keys_aliases_default_and_servers_of_llm_are_taken_over(context: Contexts, place: Path, llm: Path) -> None:
    report = bring(context, "llm")
    found = written(place)
    assert found["providers"] == {
        "openai": {"preset": "openai", "key": "keyring"},
        "anthropic": {"preset": "anthropic", "key": "keyring"},
        "lan": {"api": "openai-chat", "base_url": "http://lan.example:8000/v1", "key": "keyring"},
    }
    assert found["aliases"] == {
        "opus": "anthropic/claude-opus-5",
        "mini": "openai/gpt-6.1-mini",
        "near": "lan/qwen",
    }
    assert found["routes"] == {"main": {"targets": ["anthropic/claude-sonnet-5"]}}
    assert found["defaults"] == {"route": "main"}
    assert report.data["keys"] == ["openai", "anthropic", "lan"]
    assert len(report.data["left"]) == 2
    assert "pinecone" in report.data["left"][0]
    assert "orca-mini" in report.data["left"][1]


def test_no_key_is_in_a_file_of_ours_that_is_not_for_keys(context: Contexts, place: Path, llm: Path) -> None:
    before = (llm / "keys.json").read_bytes()
    bring(context, "llm")
    for file in place.iterdir():
        if file.is_file():
            assert b"canary" not in file.read_bytes(), file
    assert (place / "keys" / "openai").read_text().strip() == OPENAI
    assert (llm / "keys.json").read_bytes() == before


def test_a_stored_key_goes_only_to_its_own_host(context: Contexts, place: Path, llm: Path) -> None:
    bring(context, "llm")
    hosts = {name: record.hosts for name, record in read_ledger(place / "keys.json").items()}
    assert hosts["openai"] == ("api.openai.com",)
    assert hosts["lan"] == ("lan.example:8000",)


def test_the_keyring_takes_the_keys(llm: Path, unlocked_keyring: Session) -> None:
    env = {"LLM_USER_PATH": str(llm)}
    ran = unlocked_keyring.command([sys.executable, "-m", "routekit", "init", "--from", "llm"], env=env)
    assert (ran.code, "canary" in ran.stdout + ran.stderr) == (0, False), ran.stderr
    listed = unlocked_keyring.command([sys.executable, "-m", "routekit", "keys", "check"]).stdout
    assert listed.count("ok: keyring (Secret Service)") == 3
    ledger = unlocked_keyring.home / ".local" / "state" / "routekit" / "keys.json"
    assert {record.where for record in read_ledger(ledger).values()} == {"keyring"}


def test_without_a_keyring_nothing_is_written(
    context: Contexts, place: Path, llm: Path, absent_keyring: Session
) -> None:
    with pytest.raises(CredentialError) as raised:
        bring(context, "llm", store="keyring")
    assert raised.value.hints[0] == "routekit init --from llm --store file"
    assert not (place / "config.toml").exists()
    assert read_ledger(place / "keys.json") == {}


def test_logging_stays_off_where_it_was_off(context: Contexts, place: Path, llm: Path) -> None:
    (llm / "logs-off").touch()
    bring(context, "llm")
    assert written(place)["log"] == {"conversations": False}


def test_a_config_that_is_there_is_left_alone(context: Contexts, place: Path, llm: Path) -> None:
    (place / "config.toml").write_text("version = 1\n")
    with pytest.raises(UsageError, match="nothing was changed"):
        bring(context, "llm")
    assert (place / "config.toml").read_text() == "version = 1\n"
    assert not (place / "keys").exists()


@pytest.mark.parametrize("source", ["llm", "nosuch.yaml", "/nosuch/folder"])
def test_what_is_not_there_is_said_so(context: Contexts, source: str) -> None:
    with pytest.raises((UsageError, ConfigError)):
        bring(context, source)


def test_a_broken_file_is_named_and_not_quoted(context: Contexts, place: Path, llm: Path, tmp_path: Path) -> None:
    (llm / "keys.json").write_text(f'{{"openai": "{OPENAI}"')
    with pytest.raises(ConfigError) as raised:
        bring(context, "llm")
    assert "keys.json is not JSON" in raised.value.message
    file = tmp_path / "litellm.yaml"
    file.write_text(f"model_list:\n  - [api_key: {OPENAI}\n")
    with pytest.raises(ConfigError) as again:
        bring(context, str(file))
    assert "canary" not in "".join([*raised.value.lines(), *again.value.lines()])


# -- LiteLLM -----------------------------------------------------------------------------------------------------------

LITELLM = f"""
model_list:
  - model_name: gpt-4o
    litellm_params: {{model: azure/gpt-4o-eu, api_base: os.environ/AZ_BASE, api_key: os.environ/AZ_KEY, rpm: 6}}
  - model_name: gpt-4o
    litellm_params: {{model: openai/gpt-4o, api_key: {OPENAI}, weight: 3}}
  - model_name: claude
    litellm_params: {{model: anthropic/claude-opus-5, api_key: os.environ/ANTHROPIC_API_KEY}}
  - model_name: local/phi
    litellm_params: {{model: ollama/phi4}}
  - model_name: lan
    litellm_params: {{model: openai/qwen, api_base: "http://lan.example:8000/v1", api_key: {LOCAL}}}
  - model_name: bed
    litellm_params: {{model: bedrock/claude}}
  - model_name: all
    litellm_params: {{model: "openai/*"}}
router_settings:
  routing_strategy: least-busy
  model_group_alias: {{best: claude, other: nosuch}}
litellm_settings:
  fallbacks: [{{gpt-4o: [claude]}}, {{claude: [gpt-4o]}}]
general_settings: {{master_key: sk-1234}}
"""


@pytest.fixture
def litellm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AZ_BASE", "https://mine.openai.azure.com/")
    file = tmp_path / "litellm.yaml"
    file.write_text(LITELLM)
    return file


def test_deployments_groups_and_fallbacks_of_litellm_are_taken_over(
    context: Contexts, place: Path, litellm: Path
) -> None:
    report = bring(context, str(litellm))
    found = written(place)
    assert found["providers"] == {
        "azure": {
            "preset": "azure",
            "base_url": "https://mine.openai.azure.com/openai/v1/",
            "key": "env:AZ_KEY",
            "model_info": {"gpt-4o-eu": {"budget": {"requests_per_minute": 6}}},
        },
        "openai": {"preset": "openai", "key": "keyring"},
        "anthropic": {"preset": "anthropic", "key": "env:ANTHROPIC_API_KEY"},
        "ollama": {"preset": "ollama", "key": "none"},
        "lan.example": {"api": "openai-chat", "base_url": "http://lan.example:8000/v1", "key": "keyring"},
    }
    assert found["routes"]["gpt-4o"] == {"targets": ["route/gpt-4o.pool", "route/claude"]}
    assert found["routes"]["gpt-4o.pool"] == {
        "selection": "weighted",
        "targets": ["azure/gpt-4o-eu", {"target": "openai/gpt-4o", "weight": 3}],
    }
    assert found["routes"]["claude"] == {"targets": ["anthropic/claude-opus-5"]}
    assert found["routes"]["local-phi"] == {"targets": ["ollama/phi4"]}
    assert found["aliases"] == {"best": "claude"}
    assert found["defaults"] == {"route": "gpt-4o"}
    left = " ".join(report.data["left"])
    for word in ("bedrock", "openai/*", "least-busy", "local/phi", "leads back", "the alias other"):
        assert word in left
    assert "canary" not in (place / "config.toml").read_text()


def test_what_was_written_is_clean_and_works_at_once(
    context: Contexts, place: Path, cli: Cli, vendor: Loopback, tmp_path: Path
) -> None:
    file = tmp_path / "proxy.yml"
    params = f'{{model: openai/m, api_base: "{vendor.url()}", api_key: {LOCAL}}}'
    file.write_text(f"model_list:\n  - model_name: chat\n    litellm_params: {params}\n")
    done = cli("init", "--from", str(file), "--store", "file")
    assert (done.returncode, done.stderr.count("try:")) == (0, 3)
    assert "canary" not in done.stdout + done.stderr
    from_text((place / "config.toml").read_text(), setting=context().router.setting())
    assert cli("ask", "hi").stdout.strip() == answer()
    assert vendor.requests[0].header("authorization") == [f"Bearer {LOCAL}"]
    assert os.stat(place / "config.toml").st_mode & 0o777 == 0o600
