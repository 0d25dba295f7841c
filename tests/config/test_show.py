"""What ``config show``, ``config schema`` and ``config check`` say."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from routekit.config import tables
from routekit.config.check import check, check_files, exit_code
from routekit.config.file import from_text
from routekit.config.show import duration_text, schema, show
from routekit.core.config import Config, Problem

#: the design's example, with the entries it takes for granted
EXAMPLE = """
version = 1

[defaults]
route = "plan"
system = "Answer briefly."
sticky = "cache"

[aliases]
q = "deepseek/deepseek-v4-flash"

[providers.openai]
api = "openai-responses"
headers = { "X-Team" = "lab", "X-Gate" = "env:GATE" }
params = { store = false }
models = ["gpt-6.1-*"]
max_parallel = 4
budget = { usd_per_day = 2.5 }
health = { first = 0, probe_every = "45s" }

[providers."openai.alternate"]
api = "openai-responses"
key = "cmd:pass show openai"

[providers.openai.model_info."gpt-6.1-terra"]
context = 400_000
reasons = true
variants.high = { reasoning_effort = "high" }
limits.first_output = "60s"
price = { input = 1.25, output = 10.0, cached = 0.125 }

[providers.relay-a]
api = "openai-chat"
base_url = "https://relay-a.example/v1"
auth = "header:X-Key"

[providers.relay-b]
api = "anthropic-messages"
base_url = "https://relay-b.example"
anthropic_version = "2023-06-01"
enabled = false

[providers.deepseek]
api = "openai-chat"
base_url = "https://api.deepseek.com"
limits.stall = "1500ms"

[providers.anthropic]
preset = "anthropic"

[synthetic_providers.openai-plan]
providers = ["openai.alternate", "openai"]
selection = "weighted"
weights = { openai = 2 }

[synthetic_providers.relays]
selection = "smooth"
members = [
  { provider = "relay-a", weight = 3, map = { "claude-opus-5" = "opus-5-fast" } },
  { provider = "relay-b", weight = 1, enabled = false },
]

[routes.plan]
name = "Everyday"
provider = "routed"
attempts = 4
targets = [
  "openai-plan/gpt-6.1-terra#high",
  { target = "anthropic/claude-opus-5", default_variant = "high", variants = { high = "max" }, weight = 1 },
  { target = "deepseek/deepseek-v4-*", until = 2026-12-31T00:00:00Z },
  "route/cheap",
]

[routes.cheap]
targets = ["q", { target = "relays/claude-opus-5", weight = 0 }]
sticky = false
last_resort = "wait"

[limits]
stall = "90s"

[health]
cap = "4h"

[log]
conversations = false
records_keep = "30d"

[repl]
keys = "vi"
"""


def _meaning(config: Config) -> Config:
    return msgspec.structs.replace(config, files=(), warnings=(), digest="")


def test_the_example_is_read_without_a_word(config) -> None:
    assert config(EXAMPLE).warnings == ()


@pytest.mark.parametrize("text", [EXAMPLE, "", "version = 1\n[routes.r]\ntargets = []"])
def test_what_is_shown_reads_as_the_same_configuration(config, text: str) -> None:
    read = config(text)
    again = config(show(read))
    assert _meaning(again) == _meaning(read)
    assert again.digest == read.digest


def test_defaults_are_not_shown(config) -> None:
    assert tomllib.loads(show(config('[providers.a]\npreset = "openai"'))) == {
        "version": 1,
        "providers": {
            "a": {
                "api": "openai-responses",
                "base_url": "https://api.openai.com/v1",
                "key": "keyring:a",
                "preset": "openai",
            }
        },
    }


def test_a_secret_would_be_masked_even_if_one_were_there(config) -> None:
    read = config('[providers.a]\npreset = "openai"')
    secret = "sk-canary-0123456789abcdef"
    provider = msgspec.structs.replace(read.providers["a"], params={"x": [secret]}, headers={"Y": secret})
    assert secret not in show(msgspec.structs.replace(read, providers={"a": provider}))


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (30, "30s"),
        (60, "1m"),
        (90, "90s"),
        (0.25, "250ms"),
        (1.5, "1500ms"),
        (86400, "1d"),
        (28800, "8h"),
        (0, "0s"),
        (0.0005, "0.0005s"),
    ],
)
def test_a_duration_is_shown_in_its_largest_exact_unit(length: float, text: str) -> None:
    assert duration_text(length) == text


# ---- schema


def _resolve(place: dict, key: str) -> dict | None:
    found = place.get("properties", {}).get(key)
    if found is None and isinstance(place.get("additionalProperties"), dict):
        found = place["additionalProperties"]
    return found


def _undescribed(value, place: dict | None, path: str = "") -> list[str]:
    if place is None:
        return [path]
    if isinstance(value, dict):
        options = [each for each in place.get("anyOf", [place]) if each.get("type") == "object" or not each]
        if not options:
            return [f"{path} is no table"]
        if "properties" not in options[0] and "additionalProperties" not in options[0]:
            return []
        return [
            fault
            for key, each in value.items()
            for fault in _undescribed(each, _resolve(options[0], key), f"{path}.{key}")
        ]
    if isinstance(value, list):
        return [fault for each in value for fault in _undescribed(each, place.get("items", {}), f"{path}[]")]
    pattern = place.get("pattern")
    if pattern and isinstance(value, str) and not re.search(pattern, value):
        return [f"{path} {value} does not fit {pattern}"]
    if "enum" in place and value not in place["enum"]:
        return [f"{path} {value} is not in {place['enum']}"]
    return []


def test_the_schema_describes_the_example() -> None:
    assert _undescribed(tomllib.loads(EXAMPLE), schema()) == []


def test_the_schema_does_not_describe_what_the_file_refuses() -> None:
    for text in (
        "colour = 1",
        '[providers.a]\nbaseurl = "x"',
        '[limits]\nstall = "5 minutes"',
        '[routes.r]\nlast_resort = "no"',
    ):
        assert _undescribed(tomllib.loads(text), schema()), text


def test_the_schema_lists_every_key_of_every_entry() -> None:
    found = schema()["properties"]
    assert set(found) == set(tables.TOP)
    for name, fields in tables.ENTRIES.items():
        assert set(found[name]["additionalProperties"]["properties"]) == set(fields)


def test_the_schema_is_json() -> None:
    assert json.loads(json.dumps(schema())) == schema()


# ---- check


def _problem(severity: str) -> Problem:
    return msgspec.structs.replace(Problem(message="x"), severity=severity)


def test_the_exit_code_of_a_check_is_0_clean_1_warnings_78_errors() -> None:
    assert exit_code([]) == 0
    assert exit_code([_problem("warning")]) == 1
    assert exit_code([_problem("warning"), _problem("error")]) == 78


def test_a_check_puts_errors_first_and_says_nothing_twice() -> None:
    warning, error = _problem("warning"), _problem("error")
    assert check([warning, error, warning], files=[], more=[error]) == [error, warning]


def test_a_check_names_files_others_can_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    file = tmp_path / "config.toml"
    file.write_text("")
    file.chmod(0o600)
    assert check_files([str(file)]) == []
    file.chmod(0o660)
    (problem,) = check_files([str(file)])
    assert problem.severity == "warning"
    assert f"chmod go-w {file}" in problem.message


def test_a_check_finds_secrets_in_plain_text_even_in_comments_and_does_not_repeat_them(tmp_path: Path, setting) -> None:
    tmp_path.chmod(0o700)
    file = tmp_path / "config.toml"
    secret = "sk-canary-0123456789abcdef"
    file.write_text(f"version = 1\n# old: {secret}\n")
    file.chmod(0o600)
    from_text(file.read_text(), setting=setting)  # it does load
    (problem,) = check_files([str(file)])
    assert problem.line == 2
    assert secret not in str(problem)


def test_a_check_of_files_that_are_gone_says_nothing(tmp_path: Path) -> None:
    assert check_files([str(tmp_path / "gone")]) == []
