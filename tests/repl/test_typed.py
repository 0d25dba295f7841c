"""What was typed, read: message, command, or not whole yet. And what may stand where the cursor is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from routekit.errors import UsageError
from routekit.repl import acts, slash, typed
from routekit.repl.complete import find

PUBLISHED = """
/model /system /set /show /file /image /paste /edit /retry /undo /new /copy /why /preview /health /usage /budget
/save /load /log /help /quit
""".split()


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_command_is_there_and_has_its_function(name: str) -> None:
    assert callable(getattr(acts, slash.find(name[1:]).function))


def test_no_two_commands_share_a_name() -> None:
    names = slash.names()
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("text", "name", "rest"),
    [
        ("/model chat", "model", "chat"),
        ("  /model  chat ", "model", "chat"),
        ("/system be brief\nand kind", "system", "be brief\nand kind"),
        ("/", "", ""),
        ("/ model", "", "model"),
        ("/modle", "modle", ""),
        ("exit", "quit", ""),
        ("quit", "quit", ""),
        ("!multi", "multi", ""),
        ("!multi END", "multi", "END"),
        ("!edit", "edit", ""),
        ("!fragment a b", "file", "a b"),
    ],
)
def test_what_looks_like_a_command_is_one(text: str, name: str, rest: str) -> None:
    said = typed.read(text)
    assert (said.kind, said.name, said.rest) == ("command", name, rest)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("//etc is what?", "/etc is what?"),
        ("///", "//"),
        ("exit the loop how?", "exit the loop how?"),
        ("quit smoking", "quit smoking"),
        ("exit\nquit", "exit\nquit"),
        ("!important", "!important"),
        (" a space ", " a space "),
    ],
)
def test_everything_else_is_a_message_as_typed(text: str, message: str) -> None:
    assert typed.read(text) == typed.Typed(kind="message", text=message)


@pytest.mark.parametrize(
    ("name", "near"), [("modle", "/model"), ("modl", "/model"), ("hist", ""), ("prev", "/preview"), ("MODEL", "/model")]
)
def test_an_unknown_command_names_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        slash.find(name)
    assert f"unknown command /{name}" in caught.value.message
    assert near in caught.value.message


@pytest.mark.parametrize(
    ("text", "open_"),
    [
        ("```", True),
        ("a\n```python\nx", True),
        ("```\nx\n```", False),
        ("````\n```\n", True),
        ("````\n```\n````", False),
        ("~~~\n```\n~~~", False),
        ("use ```x``` here", False),
        ("```x``` alone", False),
        ("  ```", True),
    ],
)
def test_a_fence_is_open_until_its_own_marks_close_it(text: str, open_: bool) -> None:
    assert typed.in_fence(text) is open_


# --- completion -------------------------------------------------------------------------------------------------------

KNOWN = {
    "references": ["chat", "cheap", "openai/gpt"],
    "files": ["notes.md", "my file.txt", "my folder/"],
    "conversations": ["holiday"],
    "budgets": ["provider:openai"],
}


def _names(kind: str, text: str) -> Sequence[str]:
    return KNOWN[kind]


def _found(before: str) -> list[str]:
    return [before[: len(before) - one.length] + one.text for one in find(before, _names)]


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        ("/mod", ["/model"]),
        ("/s", ["/system", "/set", "/show", "/save"]),
        ("/ex", ["/quit"]),
        ("/model ch", ["/model chat", "/model cheap"]),
        ("/model op", ["/model openai/gpt"]),
        ("/model chat ", []),
        ("/retry ", ["/retry -m"]),
        ("/retry -m che", ["/retry -m cheap"]),
        ("/set temp", ["/set temperature"]),
        ("/set verbosity ", ["/set verbosity low", "/set verbosity medium", "/set verbosity high"]),
        ("/set reasoning_effort mi", ["/set reasoning_effort minimal"]),
        ("/file no", ["/file notes.md"]),
        ("/file notes.md no", ["/file notes.md notes.md"]),
        ("/file my", ['/file "my file.txt"', '/file "my folder/']),
        ('/file "my f', ['/file "my file.txt"', '/file "my folder/']),
        ("/load h", ["/load holiday"]),
        ("/budget p", ["/budget provider:openai"]),
        ("/log o", ["/log on", "/log off"]),
        ("/copy ", ["/copy code"]),
        ("/help und", ["/help undo"]),
        ("/nothing ", []),
        ("//mod", []),
        ("what of /mod", []),
        ("", []),
        ("text\n/mod", []),
    ],
)
def test_commands_are_completed_and_then_their_arguments(before: str, lines: list[str]) -> None:
    assert _found(before) == lines
