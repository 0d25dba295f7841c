"""How a magic's line is read: options first, the prompt as it stands, verbs as in the shell."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.commands.table import ASK, VERBS
from routekit.errors import UsageError
from routekit.notebook.complete import find
from routekit.notebook.options import read, read_verb, route_options, settle

ROWS = route_options()


def given_of(line: str) -> tuple[dict[str, Any], str]:
    found = read(line, ROWS)
    given = settle(found, ROWS)
    unset = settle(read("", ROWS), ROWS)
    return {name: value for name, value in given.items() if value != unset[name]}, found.rest


@pytest.mark.parametrize(
    ("line", "options", "rest"),
    [
        ("what's up?", {}, "what's up?"),
        ("-m chat is 17  prime? ", {"model": "chat"}, "is 17  prime? "),
        ("--model=chat -r x", {"model": "chat", "raw": True}, "x"),
        ("-s 'Be brief' don't", {"system": "Be brief"}, "don't"),
        ("-s don't 'x'", {"system": "don't"}, "'x'"),
        ("-o temperature 0.2 -o n 1 x", {"option": (("temperature", "0.2"), ("n", "1"))}, "x"),
        ("--timeout 2m x", {"timeout": 120.0}, "x"),
        ("--timeout 1.5 x", {"timeout": 1.5}, "x"),
        ("-f md -c --soft -i a x -f y", {"format": "md", "continue": True, "soft": True, "into": "a"}, "x -f y"),
        ("-- -m is an option", {}, "-m is an option"),
        ("-5 + 3?", {}, "-5 + 3?"),
        ("--> x", {}, "--> x"),
        ("- x", {}, "- x"),
        ("— x", {}, "— x"),
        ('-m "chat" "quoted" prompt', {"model": "chat"}, '"quoted" prompt'),
        ("-a x.png -a y.pdf look", {"attachment": ("x.png", "y.pdf")}, "look"),
    ],
)
def test_options_come_first_and_the_rest_is_the_prompt(line: str, options: dict[str, Any], rest: str) -> None:
    assert given_of(line) == (options, rest)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--fromat x", "unknown option --fromat; did you mean --format"),
        ("-z", "unknown option -z"),
        ("-m", "-m needs a value"),
        ("-o a", "-o needs KEY and VALUE"),
        ("-f pdf x", "--format 'pdf': one of markdown, md"),
        ("--timeout soon x", "--timeout 'soon' is no length of time"),
    ],
)
def test_what_cannot_be_meant_is_said(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        given_of(line)
    assert str(caught.value).startswith(message)


@given(st.text(), st.text())
def test_no_text_after_the_options_is_split_or_changed(before: str, text: str) -> None:
    prompt = f"x{before}{text}"
    assert given_of(f"-r -m chat {prompt}") == ({"raw": True, "model": "chat"}, prompt)


def test_every_option_of_ask_that_fits_a_cell_is_one_of_route() -> None:
    flags = {flag for row in ROWS for flag in row.flags}
    assert {"-m", "-s", "-o", "-u", "--explain", "--dry-run", "--timeout", "--max-cost", "--only", "--session"} <= flags
    assert len(flags) == sum(len(row.flags) for row in ROWS), "one flag, one meaning"
    names = {row.name for row in ROWS}
    left = {row.name for row in ASK.options} - names
    assert left <= set("stream json jsonl no_stdin edit render color verbose".split()), left


@pytest.mark.parametrize("verb", [verb for verb in VERBS if not verb.streams], ids=lambda verb: verb.name)
def test_every_documented_form_of_a_verb_is_read(verb: Any) -> None:
    for example in verb.examples:
        for part in example.split("|"):
            words = part.partition(" > ")[0].strip()
            if words.startswith("routekit "):
                found, given, _ = read_verb(words.removeprefix("routekit "))
                assert found.path == verb.path
                assert set(given) == {row.name for row in (*verb.options, *verb.arguments)}
    assert read_verb(f"{verb.name} {' '.join('x' for row in verb.arguments if row.required)}")[0] == verb


@pytest.mark.parametrize("line", ["models nonsense", "modles", "health reset a b", "routes show", "keys list --jsn"])
def test_a_mistyped_verb_is_an_error(line: str) -> None:
    with pytest.raises(UsageError):
        read_verb(line)


def test_global_options_may_stand_anywhere() -> None:
    for line in ("--profile demo routes list", "routes --profile demo list", "routes list --profile demo"):
        verb, given, said = read_verb(line)
        assert (verb.name, given, said["profile"]) == ("routes list", {"json": False}, "demo")


def names(kind: str) -> list[str]:
    return {"references": ["plan", "p/m-1"], "providers": ["p"], "routes": ["plan"]}.get(kind, [])


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("%route -m pl", ("pl", ["plan"])),
        ("%%route p/m", ("p/m", ["p/m-1"])),
        ("x = %route -m p/", ("p/", ["p/m-1"])),
        ("%route -f h", ("h", ["html"])),
        ("%route --forma", ("--forma", ["--format"])),
        ("%route --only ", ("", ["p"])),
        ("%route what is pl", None),
        ("%routekit heal", ("heal", ["health"])),
        ("%routekit routes sh", ("sh", ["show"])),
        ("%routekit routes show p", ("p", ["plan", "p/m-1"])),
        ("print(pl", None),
        ("%time pl", None),
    ],
)
def test_completion(before: str, expected: tuple[str, list[str]] | None) -> None:
    assert find(before, first_line=True, names=names) == expected


def test_the_body_of_a_cell_is_not_completed() -> None:
    assert find("%%route pl", first_line=False, names=names) is None
