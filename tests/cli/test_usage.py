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


@pytest.mark.parametrize("words", [["What", "is", "the", "capital", "of", "France"], ["Why is it so?"], ["really?"]])
def test_a_question_without_ask_is_taken_for_one(machine: Any, words: list[str]) -> None:
    done = machine.run(*words)
    assert done.code == 2
    assert f"try: routekit ask '{' '.join(words)}'\n" in done.err


def test_a_mistyped_command_keeps_what_was_typed_with_it(machine: Any) -> None:
    done = machine.run("routs", "show", "my route", "--json")
    assert done.err.splitlines()[-1] == "  try: routekit routes show 'my route' --json"
    assert "did you mean" not in machine.run("frobnicate").err


def test_a_key_typed_as_a_command_is_not_said_again(machine: Any) -> None:
    key = "sk-canary-0123456789abcdefghijklmnop"
    for words in ([key], ["kesy", "set", key]):
        assert key not in machine.run(*words).err


@pytest.mark.parametrize(
    ("words", "help"),
    [
        (["ask", "-m"], "routekit ask --help"),
        (["keys", "set"], "routekit keys set --help"),
        (["--profile"], "routekit --help"),
    ],
)
def test_a_missing_value_names_the_help_of_its_command(machine: Any, words: list[str], help: str) -> None:
    assert f"try: {help}\n" in machine.run(*words).err


def test_only_near_options_are_guessed(machine: Any) -> None:
    assert machine.run("ask", "--modle", "x").err.startswith(
        "routekit: no such option '--modle'; did you mean --model?\n"
    )
    assert "did you mean" not in machine.run("ask", "--zzz").err


def test_an_empty_model_is_no_default(machine: Any) -> None:
    machine.config("a/m")
    assert machine.ask("-m", "", "hi").code == 2
    assert machine.loopback.requests == []


def test_a_fault_in_a_profile_names_the_profiles_file(machine: Any) -> None:
    machine.config("a/m")
    place = machine.home / "profiles"
    place.mkdir()
    (place / "p.toml").write_text('[routes.x]\ntargets = ["nope"]\n')
    done = machine.run("--profile", "p", "ask", "hi")
    assert (done.code, done.err.count("routes.x")) == (78, 1)
    assert f"try: ${{EDITOR:-vi}} {place / 'p.toml'}" in done.err
    machine.config("a/m", more="[routes.y]\ntargets = 5")
    assert "try: routekit config edit" in machine.run("ask", "hi").err


def test_where_most_candidates_have_no_key_all_keys_are_to_be_checked(machine: Any) -> None:
    machine.loopback.script("o", {"status": 500})
    machine.config("a/m", "b/n", "c/o")
    some = machine.ask("hi", env={"KEY_A": None, "KEY_B": None})
    assert (some.code, "try: routekit keys check\n" in some.err) == (69, True)
    none = machine.ask("hi", env={"KEY_A": None, "KEY_B": None, "KEY_C": None}, timeout=20)
    assert "b/n: skipped, no key (KEY_B is not set)" in none.err


def test_a_model_without_a_price_is_told_with_the_way_out_in_one_line(machine: Any) -> None:
    machine.config("a/m")
    done = machine.ask("--max-cost", "0.01", "hi")
    assert done.code == 80
    assert done.err.startswith(
        'routekit: chat: no price is known of a/m, so --max-cost cannot be kept; set providers.a.model_info."m".price\n'
    )


def test_an_attempt_that_never_began_is_told_so_and_short_times_are_no_zeros(machine: Any) -> None:
    machine.config("a/m")
    assert "within --timeout 1ms" in machine.ask("--timeout", "1ms", "hi").err
    assert "nothing was sent" in machine.run("why").out
