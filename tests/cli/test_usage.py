"""What does not exist is never asked for: exit 2, the nearest names, not one request."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["aks", "hi"], "ask"),
        (["modles"], "models"),
        (["routes", "shwo", "chat"], "show"),
        (["ask", "--modell", "chat", "hi"], "--model"),
        (["--profil", "demo", "ask", "hi"], "--profile"),
        (["routes", "list", "--jsn"], "--json"),
        (["ask", "-m", "chatt", "hi"], "chat"),
        (["ask", "-m", "aa/m", "hi"], "a"),
        (["ask", "-m", "c/only-thiss", "hi"], "only-this"),
        (["ask", "-m", "route/chta", "hi"], "chat"),
        (["ask", "--only", "bb", "hi"], "b"),
        (["health", "reset", "nobody"], "health list"),
        (["why", "ffffffff"], "why"),
    ],
    ids=" ".join,
)
def test_an_unknown_name_costs_nothing_and_names_its_neighbour(machine: Any, arguments: list[str], near: str) -> None:
    machine.config("a/m", "b/m", more='[providers.c2]\napi="openai-chat"\nbase_url="http://127.0.0.1:1"\nkey="none"')
    text = (machine.home / "config.toml").read_text()
    machine.write(text.replace('key = "env:KEY_C"', 'key = "env:KEY_C"\nmodels = ["only-this"]'))
    done = machine.run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert near in done.err
    assert "Traceback" not in done.err
    assert machine.loopback.requests == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--timeout", "soon"],
        ["--timeout", "0"],
        ["--timeout", "-3"],
        ["-o", "model", "other"],
        ["-o", "messages", "[]"],
        ["-o", "stream", "false"],
        ["-o", "api_key", "x"],
        ["-o", "lonely"],
        ["--only", "c"],
    ],
    ids=" ".join,
)
def test_an_option_that_makes_no_sense_asks_nobody(machine: Any, arguments: list[str]) -> None:
    machine.config("a/m", "b/m")
    done = machine.ask("hi", *arguments)
    assert (done.code, done.out) == (2, "")
    assert machine.loopback.requests == []


@pytest.mark.parametrize("words", [[], [""], ["   "], ["\n"], ["-"]], ids=repr)
def test_an_empty_prompt_asks_nobody(machine: Any, words: list[str]) -> None:
    machine.config("a/m")
    done = machine.ask(*words, stdin="")
    assert (done.code, done.out) == (2, "")
    assert "nothing to ask" in done.err
    assert machine.loopback.requests == []


def test_two_words_of_help_do_for_a_missing_default(machine: Any) -> None:
    machine.config(more='[routes.x]\ntargets = ["a/m"]\n[routes.y]\ntargets = ["a/m"]')
    done = machine.ask("hi")
    assert (done.code, done.out) == (2, "")
    assert "try: routekit default" in done.err


def test_without_config_and_key_two_commands_are_offered(machine: Any) -> None:
    done = machine.ask("hi")
    assert (done.code, done.out) == (78, "")
    lines = done.err.splitlines()
    assert len(lines) == 3
    assert [line.strip() for line in lines[1:]] == ["try: routekit init", "try: routekit --profile demo ask hello"]


@pytest.mark.parametrize("more", [[], ["-m", "openai/some-model"]], ids=["default", "named"])
def test_an_openai_key_in_the_environment_is_enough(machine: Any, more: list[str]) -> None:
    env = {"OPENAI_API_KEY": "canary-of-openai", "OPENAI_BASE_URL": machine.loopback.url("openai-responses")}
    done = machine.ask("hi", *more, env=env)
    assert done.code == 0, done.err
    assert done.out.startswith("word1 ")
    assert "routekit init" in done.err
    (request,) = machine.loopback.requests
    assert request.header("authorization") == ["Bearer canary-of-openai"]
    assert request.model == ("some-model" if more else request.model)


def test_an_anthropic_key_in_the_environment_is_enough(machine: Any) -> None:
    url = machine.loopback.url("anthropic-messages")
    done = machine.ask("hi", env={"ANTHROPIC_API_KEY": "canary-of-anthropic", "ANTHROPIC_BASE_URL": url})
    assert done.code == 0, done.err
    assert machine.loopback.requests[0].header("authorization") == ["Bearer canary-of-anthropic"]


def test_the_demo_answers_fails_over_and_explains_without_anything(machine: Any) -> None:
    done = machine.run("--profile", "demo", "ask", "hello")
    assert (done.code, done.out) == (0, "Hello from the demo. You asked: hello\n")
    assert "demo-backup" in done.err
    story = machine.run("--profile", "demo", "why")
    assert "demo-primary/model: 503 this demo provider is always overloaded" in story.out


def test_the_demo_leaves_no_trace_in_a_config_of_ones_own(machine: Any) -> None:
    machine.config("a/m")
    machine.run("--profile", "demo", "ask", "hello")
    assert machine.ask("hi").code == 0
    assert machine.models() == ["m"]


def test_a_config_warning_is_said_once(machine: Any) -> None:
    machine.config("a/m", "ghost/m")
    first, second = machine.ask("hi"), machine.ask("hi")
    assert (first.code, second.code) == (0, 0)
    assert "ghost" in first.err
    assert second.err == ""


def test_quiet_says_nothing_beside_the_answer(machine: Any) -> None:
    machine.config("a/m", "b/n", "ghost/m")
    machine.loopback.script("m", {"status": 503})
    done = machine.ask("hi", "--quiet")
    assert (done.code, done.err) == (0, "")
