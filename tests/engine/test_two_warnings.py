"""What goes wrong with the log is said though something else went wrong with the memory; the same trouble only once."""

from __future__ import annotations

from pathlib import Path

import pytest

from routekit.router import Router

CONFIG = """
version = 1
[providers.a]
preset = "openai"
key = "env:KEY_A"
"""


def _router(place: Path, monkeypatch: pytest.MonkeyPatch) -> Router:
    monkeypatch.setenv("ROUTEKIT_HOME", str(place))
    file = place / "config.toml"
    file.write_text(CONFIG)
    file.chmod(0o600)
    return Router.open(file)


def test_a_warning_of_the_memory_does_not_silence_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    router = _router(tmp_path, monkeypatch)
    router.store.warnings.append("state.db was damaged: it is now aside, and routekit began a new one")
    for _ in range(2):
        router._warn_of_log(f"an answer is not in the log: {router.paths.conversations} cannot be used: a folder")
    assert len(router.store.warnings) == 2
    assert "conversations.db" in router.store.warnings[1]
    router.close()


def test_one_trouble_of_both_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    router = _router(tmp_path, monkeypatch)
    router.store.warnings.append(f"{router.paths.state} cannot be used: Permission denied; routekit goes on")
    router._warn_of_log(f"an answer is not in the log: {router.paths.conversations} cannot be used: Permission denied")
    assert len(router.store.warnings) == 1
    router.close()
