"""Markdown cut into blocks as it comes, and blocks as lines: nothing twice, nothing lost, nothing padded."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.terminal.blocks import Blocks
from routekit.terminal.look import Look
from routekit.terminal.page import Page

SAMPLE = """\
# Title
A line of text
- one
- two

  continued

- three
1. first

2. second

Here:
```python
x = 1

y = 2
```
After.
"""
CUT = [
    "# Title",
    "A line of text",
    "- one\n- two\n\n  continued",
    "- three\n1. first",
    "2. second",
    "Here:",
    "```python\nx = 1\n\ny = 2\n```",
    "After.",
]
PIECES = st.lists(st.sampled_from(["a", "# h", "- i", "1. n", "```", "~~~py", "  in", "\n", "\n\n", " ", "| t |", "`"]))


def cut(text: str, size: int = 1) -> list[str]:
    blocks = Blocks()
    found = [block for at in range(0, len(text), size) for block in blocks.feed(text[at : at + size])]
    return [*found, *blocks.end()]


def shown(text: str, look: Look = Look(render=True, width=40), size: int = 5) -> str:  # noqa: B008 - a value
    out: list[str] = []
    page = Page(out.append, look)
    for at in range(0, len(text), size):
        page.feed(text[at : at + size])
    page.end()
    return "".join(out)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_an_answer_is_cut_alike_however_it_comes(size: int) -> None:
    assert cut(SAMPLE, size) == CUT


@given(PIECES, st.integers(1, 7))
def test_cutting_loses_no_line_but_blank_ones(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    lines = [line for line in text.split("\n") if line.strip()]
    assert [line for block in cut(text, size) for line in block.split("\n") if line.strip()] == lines


def test_a_block_is_given_out_as_soon_as_it_is_complete() -> None:
    blocks = Blocks()
    assert blocks.feed("one\n") == []
    assert blocks.growing
    assert blocks.feed("\n") == ["one"]
    assert not blocks.growing
    assert blocks.feed("# Head\n") == ["# Head"]
    assert blocks.feed("```\ncode\n\n") == []
    assert blocks.feed("```\n") == ["```\ncode\n\n```"]


def test_a_fence_holds_longer_fences_and_other_marks() -> None:
    text = "````md\n```\ninner\n```\n~~~\n````\nafter"
    assert cut(text) == ["````md\n```\ninner\n```\n~~~\n````", "after"]


def test_without_colour_no_escape_sequence_is_written() -> None:
    assert "\x1b" not in shown(SAMPLE)
    assert "\x1b[" in shown(SAMPLE, Look(render=True, colour=True, width=40))


def test_no_line_is_padded_and_no_code_is_wrapped() -> None:
    code = "x = '" + "long " * 30 + "'"
    lines = shown(f"text\n\n```python\n{code}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n").splitlines()
    assert code in lines
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_model_cannot_send_escape_sequences() -> None:
    evil = "\x1b]0;title\x07\x1b[2J\x9b31m`a\x1b[1mb`\n\n```\n\x1b]52;c;aGk=\x07\n```\n[x](\x1b]8;;http://e\x07)\n"
    for look in (Look(render=True, width=60), Look(render=True, colour=True, width=60)):
        text = re.sub(r"\x1b\[[\d;]*m", "", shown(evil, look))
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)


def test_a_picture_is_shown_as_a_link() -> None:
    text = shown("See ![a chart](https://example.com/c.png) here.", Look(render=True, width=100))
    assert text == "See a chart (https://example.com/c.png) here.\n"


def test_the_end_of_a_line_is_kept() -> None:
    assert shown("Roses are red,\nviolets are blue.\n\nNext") == "Roses are red,\nviolets are blue.\n\nNext\n"


def test_words_in_brackets_and_colons_are_text() -> None:
    assert shown("[bold]x[/bold] :smile: [/nothing]") == "[bold]x[/bold] :smile: [/nothing]\n"


def test_an_answer_that_ends_within_a_fence_is_shown_whole() -> None:
    assert shown("```python\nx = 1\ny =") == "```python\nx = 1\ny =\n"


def test_lists_keep_their_numbers_across_blocks() -> None:
    assert re.findall(r"^ (\d) (\w+)", shown("1. one\n\n2. two\n\n3. three\n"), re.MULTILINE) == [
        ("1", "one"),
        ("2", "two"),
        ("3", "three"),
    ]


@given(PIECES)
def test_any_text_can_be_shown(pieces: list[str]) -> None:
    text = shown("".join(pieces))
    assert text.endswith("\n") or not "".join(pieces).strip()
