"""From a refused key to an answer again, as a person meets it: every command says the same of the key, and what to
type."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import Loopback

REFUSED = {"status": 401, "body": {"error": {"message": "bad key", "code": "invalid_api_key"}}}
OLD, NEW = "sk-old-0123456789abcdef", "sk-new-0123456789abcdef"


@pytest.fixture
def key_file(machine: Any) -> Path:
    """Provider a with its key in a file, refused by its vendor just now."""
    file: Path = machine.place / "key"
    file.write_text(OLD)
    file.chmod(0o600)
    machine.loopback.script("m", REFUSED)
    url = machine.loopback.url("openai-chat")
    machine.write(
        f'version = 1\n[providers.a]\napi = "openai-chat"\nbase_url = "{url}"\nkey = "file:{file}"\n'
        '[routes.chat]\ntargets = ["a/m"]\n'
    )
    assert machine.ask("hi").code == 77
    return file


def test_every_command_says_that_the_key_was_refused_and_where_a_new_one_goes(machine: Any, key_file: Path) -> None:
    edit = f"try: ${{EDITOR:-vi}} {key_file}"
    listed, checked, health = machine.run("keys"), machine.run("keys", "check"), machine.run("health")
    assert ("…cdef, refused by its vendor" in listed.out, edit in listed.out) == (True, True)
    assert (checked.code, "refused by its vendor" in checked.out, edit in checked.out) == (77, True, True)
    assert ("401 bad key" in health.out, edit in health.err) == (True, True)
    assert "(refused by its vendor)" in machine.run("providers").out
    for more in ([], ["--offline"]):
        doctor = machine.run("doctor", *more).out
        assert ("refused by its vendor" in doctor, edit in doctor) == (True, True)
    again = machine.ask("hi")
    assert (again.code, "the key of a was refused" in again.err, edit in again.err) == (77, True, True)


def test_the_command_named_for_a_missing_key_file_makes_a_private_one(machine: Any, key_file: Path) -> None:
    key_file.unlink()
    hint = next(line for line in machine.run("keys", "check").out.splitlines() if "try: " in line).partition("try: ")[2]
    editor = machine.place / "editor"
    editor.write_text(f'#!/bin/sh\necho {NEW} > "$1"\n')
    editor.chmod(0o700)
    subprocess.run(["sh", "-c", hint], env={**os.environ, "EDITOR": str(editor)}, check=True)
    assert machine.run("keys", "check").code == 0


def test_a_changed_key_file_counts_at_once_and_nobody_calls_it_refused_any_more(machine: Any, key_file: Path) -> None:
    key_file.write_text(NEW)
    assert "refused" not in machine.run("keys").out
    assert machine.run("keys", "check").code == 0
    assert "key changed" in machine.run("health").out
    machine.loopback.script("m", {"text": "well"})
    assert machine.ask("hi").code == 0
    assert machine.loopback.requests[-1].header("authorization") == [f"Bearer {NEW}"]


def test_a_changed_key_file_counts_at_once_though_another_target_could_serve(machine: Any) -> None:
    file = machine.place / "key"
    file.write_text(OLD)
    file.chmod(0o600)
    machine.loopback.script("m", REFUSED)
    machine.config("a/m", "b/n", providers=machine.providers().replace("env:KEY_A", f"file:{file}"))
    assert "b/n" in machine.ask("hi").err
    file.write_text(NEW)
    machine.loopback.script("m", {"text": "well"})
    assert machine.ask("hi").out == "well\n"


def test_a_provider_can_be_tested_while_its_key_is_asleep_and_heals_by_it(machine: Any, key_file: Path) -> None:
    before = len(machine.loopback.requests)
    failed = machine.run("providers", "test", "a")
    assert (failed.code, len(machine.loopback.requests)) == (77, before + 1)
    assert f"try: ${{EDITOR:-vi}} {key_file}" in failed.err
    machine.loopback.script("m", {"text": "ready"})
    assert machine.run("providers", "test", "a").code == 0
    assert machine.run("keys", "check").code == 0
    assert machine.ask("hi").code == 0


def test_a_target_can_be_tested_while_it_sleeps_and_heals_by_it(machine: Any) -> None:
    machine.loopback.script("m", {"status": 503})
    machine.config("a/m", "b/n")
    machine.ask("hi")
    machine.loopback.script("m", {"text": "ready"})
    assert machine.run("providers", "test", "a", "--model", "m").code == 0
    assert machine.ask("hi").err == ""


@pytest.mark.parametrize("name", ["a", "a/m"])
def test_a_provider_or_target_wakes_with_its_credential(machine: Any, key_file: Path, name: str) -> None:
    machine.loopback.script("m", {"text": "well"})
    assert machine.ask("hi").code == 77
    done = machine.run("health", "reset", name)
    assert (done.code, done.out) == (0, f"reset file:{key_file}\n")
    assert machine.ask("hi").code == 0


def test_a_key_file_that_others_can_read_is_called_that_and_not_refused(machine: Any, key_file: Path) -> None:
    machine.run("health", "reset", "--all")
    os.chmod(key_file, 0o644)
    for done in (machine.ask("hi"), machine.run("keys", "check")):
        assert done.code == 77
        said = done.out + done.err
        assert "can be read by others (mode 0644)" in said
        assert "refused" not in said
        assert f"try: chmod 600 {key_file}" in said


def test_a_last_resort_is_never_silent(machine: Any) -> None:
    machine.loopback.script("m", {"status": 503})
    machine.loopback.script("n", {"status": 503})
    machine.config("a/m", "b/n")
    assert machine.ask("hi").code == 69
    machine.loopback.script("m", {"text": "back"})
    preview = machine.run("routes", "preview").out
    assert "← would serve as a last resort" in preview
    done = machine.ask("hi")
    assert (done.code, done.out) == (0, "back\n")
    assert done.err.startswith("routekit: everyone is asleep; trying a/m all the same\n")
    chosen = machine.run("why").out.splitlines()[1]
    assert "→ a/m: last-resort" in chosen
    assert "passed over a/m" not in chosen


def test_a_pinned_target_tried_though_it_sleeps_says_so(machine: Any, loopback: Loopback) -> None:
    loopback.script("m", {"status": 503}, {"status": 503}, {"text": "back"})
    machine.config("a/m")
    machine.ask("-m", "a/m", "hi")
    assert machine.ask("-m", "a/m", "hi").err == "routekit: a/m is asleep; trying it all the same\n"
