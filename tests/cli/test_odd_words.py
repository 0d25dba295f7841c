"""Words of the command line and of the environment that nobody means: each an error in words, and JSON where asked."""

from __future__ import annotations

import json
import os
import resource
from typing import Any

import pytest

from routekit.credentials import host_of
from routekit.errors import ConfigError

LATIN = b"caf\xe9"


def _sound(done: Any) -> None:
    assert done.code != 70, done
    assert "bug" not in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("option", ["-m", "-s", "-q", "--cid", "--only", "--session", "--key", "--schema", "-f", "-a"])
@pytest.mark.parametrize("form", [(), ("--json",), ("--jsonl",)])
def test_words_that_are_no_utf_8_are_answered_in_words(machine: Any, option: str, form: tuple[str, ...]) -> None:
    machine.config("a/m")
    done = machine.ask(*form, option, LATIN, "hi")
    _sound(done)
    if form:
        json.loads(done.out.splitlines()[-1] if form == ("--jsonl",) else done.out)


@pytest.mark.parametrize("value", ["[" * 100_000, "[" * 60_000 + "]" * 60_000, "[" * 65 + "]" * 65])
def test_an_option_nested_too_deeply_is_refused(machine: Any, value: str) -> None:
    machine.config("a/m")
    for option in (("-o", "x", value), ("--schema", '{"a": ' + value + "}")):
        done = machine.ask(*option, "hi")
        _sound(done)
        assert done.code in (2, 65) or option[0] == "--schema"
    assert not machine.loopback.requests or len(value) < 200


@pytest.mark.parametrize("value", ["abc", "-5", "0", "1", "9" * 30, "\u00b2", "\u0663"])
def test_a_width_that_is_none_is_not_taken(machine: Any, value: str) -> None:
    machine.config("a/m")
    for arguments in (("ask", "--render", "always", "--color", "always", "hi"), ("--help",), ("models", "list")):
        done = machine.run(*arguments, env={"COLUMNS": value})
        assert done.code == 0, done
        assert done.out.strip()


@pytest.mark.parametrize("variable", ["ROUTEKIT_HOME", "HOME", "ROUTEKIT_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"])
def test_a_place_whose_name_is_no_utf_8_works_or_is_refused_in_words(machine: Any, variable: str) -> None:
    place = os.fsdecode(os.fsencode(machine.place) + b"/" + LATIN)
    env = {"ROUTEKIT_HOME": None, "OPENAI_API_KEY": None, variable: place}
    _sound(machine.run("config", "path", "--json", env=env))
    _sound(machine.run("init", "--vendor", "ollama", "--model", "m", "--no-question", env=env))
    for arguments in (("config", "path"), ("config", "check"), ("ask", "--json", "hi"), ("keys", "list")):
        _sound(machine.run(*arguments, env=env))


def test_a_current_directory_that_is_gone_is_said(machine: Any) -> None:
    machine.config("a/m")
    gone = machine.cwd / "gone"
    script = "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); os.execv(sys.executable, ["
    for words, env, code in (
        (["config", "path"], {"ROUTEKIT_HOME": "rel"}, 78),
        (["ask", "hi"], {"ROUTEKIT_CONFIG": "rel.toml"}, 78),
        (["--config", "rel.toml", "ask", "--json", "hi"], {}, 78),
        (["ask", "-f", "rel.txt", "hi"], {}, 65),
        (["ask", "hi"], {}, 0),
    ):
        call = script + f"sys.executable, '-m', 'routekit', *{words!r}])"
        done = machine.run(python=("-c", call), env=env)
        _sound(done)
        assert done.code == code, (words, done)
        assert not gone.exists()


@pytest.mark.parametrize("limit", [8, 9, 10])
def test_too_few_files_are_an_error_of_the_setup_or_no_hindrance(machine: Any, limit: int) -> None:
    machine.config("a/m")
    done = machine.ask("hi", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
    _sound(done)
    assert done.code in (0, 69, 78)
    assert done.code != 78 or "ulimit -n" in done.err


@pytest.mark.parametrize(
    "url", ["http://host:70000/v1", "http://host:0", "http://[", "http://[::1", "http://[zz]/", "http://[1:2]:80", "x"]
)
def test_an_address_that_is_none_is_an_error_of_the_config(machine: Any, url: str) -> None:
    machine.config("a/m", providers=f'[providers.a]\napi = "openai-chat"\nbase_url = "{url}"\nkey = "env:KEY_A"')
    for arguments in (("ask", "hi"), ("config", "check"), ("ask", "--json", "hi")):
        done = machine.run(*arguments)
        _sound(done)
        assert done.code == 78
        assert "base_url" in done.err + done.out
    done = machine.run("keys", "list")
    _sound(done)


@pytest.mark.parametrize("url", ["http://[", "http://host:70000", "http://host:x"])
def test_no_key_is_stored_for_an_address_that_is_none(machine: Any, url: str) -> None:
    with pytest.raises(ConfigError):
        host_of(url)
    done = machine.run("init", "--vendor", "azure", "--base-url", url, "--store", "file", stdin="sk-canary-eeee-444")
    _sound(done)
    assert done.code != 0
    assert not list(machine.home.rglob("azure"))
    _sound(machine.ask("-a", url + "/x.png", "hi"))


def test_no_model_and_no_conversation_are_said_to_be_none(machine: Any) -> None:
    machine.config("a/m")
    assert machine.ask("hi").code == 0
    done = machine.ask("-m", "", "hi")
    assert (done.code, "-m names no model" in done.err) == (2, True)
    done = machine.ask("--cid", "", "hi")
    assert (done.code, "no conversation is named" in done.err) == (2, True)


def test_a_redirect_is_said_whole(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"redirect": "http://127.0.0.2:9/v1"})
    done = machine.ask("hi")
    assert "a redirect to" in done.err
    assert ": ," not in done.err


def test_an_event_without_an_end_is_said() -> None:
    from routekit.vendors.classify import TRANSPORT
    from routekit.vendors.sse import TooLong

    assert TRANSPORT[TooLong.__name__].words == "an event of the stream never ended"
