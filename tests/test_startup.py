"""What a command loads before it answers. Modules are counted, not seconds: tests/bench has the seconds."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

SDKS = ("openai", "anthropic")
DEAR = (*SDKS, "httpx2", "pydantic", "keyring", "rich", "prompt_toolkit", "IPython")

#: command → what it must not load
COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "version": (("--version",), (*DEAR, "asyncio")),
    "help": (("--help",), (*DEAR, "asyncio")),
    "ask --help": (("ask", "--help"), (*DEAR, "asyncio")),
    "routes list": (("--profile", "demo", "routes", "list"), (*DEAR, "asyncio")),
    "routes preview": (("--profile", "demo", "routes", "preview", "demo"), (*DEAR, "asyncio")),
    "models": (("--profile", "demo", "models", "--names"), (*DEAR, "asyncio")),
    "providers": (("--profile", "demo", "providers", "list"), (*DEAR, "asyncio")),
    "health": (("--profile", "demo", "health"), (*DEAR, "asyncio")),
    "why": (("--profile", "demo", "why"), (*DEAR, "asyncio")),
    "logs": (("--profile", "demo", "logs"), (*DEAR, "asyncio")),
    "completion": (("completion", "zsh"), (*DEAR, "asyncio")),
    "ask --dry-run": (("--profile", "demo", "ask", "--dry-run", "hello"), DEAR),
    # an answer that no vendor gives needs no vendor's SDK
    "ask": (("--profile", "demo", "ask", "hello"), DEAR),
}
IMPORTED = re.compile(r"^import time:\s+\d+ \|\s+\d+ \|\s*(\S+)$", re.MULTILINE)


def _loaded(stderr: str) -> set[str]:
    return {name.split(".")[0] for name in IMPORTED.findall(stderr)}


def _run(cli: Any, *arguments: str, env: dict[str, str] | None = None) -> tuple[Any, set[str]]:
    # The interpreter's own report, since a command may end its process without running exit hooks.
    done = cli(*arguments, python=("-X", "importtime"), env=env)
    loaded = _loaded(done.stderr)
    assert "routekit" in loaded, done.stderr[-2000:]
    return done, loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_loads_only_what_it_needs(name: str, cli: Any) -> None:
    arguments, dear = COMMANDS[name]
    if name == "why":
        assert cli("--profile", "demo", "ask", "hello").returncode == 0
    done, loaded = _run(cli, *arguments)
    assert done.returncode == 0, IMPORTED.sub("", done.stderr).strip()
    assert done.stdout
    assert not loaded & set(dear)


@pytest.mark.parametrize(("line", "offered"), [("routekit rou", "routes"), ("routekit ask -m de", "demo")])
def test_completion_loads_only_what_it_needs(cli: Any, line: str, offered: str) -> None:
    env = {"_ROUTEKIT_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    done, loaded = _run(cli, env={**env, "ROUTEKIT_PROFILE": "demo"})
    assert offered in done.stdout
    assert not loaded & {*DEAR, "asyncio"}


def test_importing_the_package_loads_none_of_its_parts() -> None:
    code = "import sys, routekit; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert [name for name in loaded if name.startswith("routekit.")] == []
    assert not {name.split(".")[0] for name in loaded} & {*DEAR, "asyncio", "click", "msgspec"}
