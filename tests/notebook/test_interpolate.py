"""Which braces are names, and how values are written into prompts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.errors import UsageError
from routekit.notebook.interpolate import TABLE, Filled, fill, namespace, write

CELLS = {("In", 3): "x = 1", ("Out", 3): "42", ("Err", 3): "NameError: y"}


def filled(text: str, hidden: tuple[str, ...] = (), **names: Any) -> Filled:
    return fill(text, namespace(names, lambda kind, number: CELLS.get((kind, number)), hidden=hidden))


@pytest.mark.parametrize(
    "text",
    """{"a": 1}|{k: v for k in x}|{}|}{|{0}|{ x }|{x!r}|{x.y}|{x:>3}|{{ x }}|{% if x %}|{1, 2}|{unbound}|{{unbound}}
    |{Out[9]}|{Out[x]}|{In}|{Err[-1]}|{|}|\\{unbound\\}|{print}|{x[0]}""".split("|"),
)
def test_what_is_no_bound_name_is_text(text: str) -> None:
    assert filled(text, x=5).text == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("say {x}", "say 5"),
        ("{x}{x}", "55"),
        ("{{x}}", "{x}"),
        ("{{{x}}}", "{{x}}"),
        ('{x} and {"a": 1} and {y}', '5 and {"a": 1} and {y}'),
        ("{In[3]} → {Out[3]}, {Err[3]}", "x = 1 → 42, NameError: y"),
        ("{{Out[3]}}", "{Out[3]}"),
        ("{größe}", "7"),
        ("{holds}", "{x}"),
    ],
)
def test_bound_names_are_replaced_once(text: str, expected: str) -> None:
    assert filled(text, x=5, größe=7, holds="{x}").text == expected


def test_what_was_used_and_what_was_left_is_said() -> None:
    done = filled("{x} {name} {gone} {x.real} {Out[8]} {{x}}", x=5, name="héllo")
    assert done.used == ("x (int, 1 B)", "name (str, 6 B)")
    assert done.left == ("{gone}", "{Out[8]}", "{x.real}")


def test_names_the_shell_put_there_are_no_names() -> None:
    assert filled("{exit} {_}", hidden=("exit",), exit=1, _=2).text == "{exit} 2"


def test_a_value_whose_own_code_fails_is_named() -> None:
    class Bad:
        def __str__(self) -> str:
            raise ValueError("a secret perhaps")

    with pytest.raises(UsageError, match=r"\{bad\} cannot be written as text: ValueError") as caught:
        filled("{bad}", bad=Bad())
    assert "secret" not in str(caught.value)


@given(st.text())
def test_no_text_raises_and_without_names_none_changes(text: str) -> None:
    assert filled(text).text == text


def test_a_small_table_is_whole() -> None:
    import pandas

    frame = pandas.DataFrame({"name": ["a|b", "c"], "n": [1, 2]})
    assert write(frame) == "| name | n |\n| --- | --- |\n| a\\|b | 1 |\n| c | 2 |"
    assert filled("{df}", df=frame).used == ("df (DataFrame 2×2, 49 B)",)


def test_an_index_with_a_meaning_is_shown() -> None:
    import pandas

    frame = pandas.DataFrame({"n": [1]}, index=pandas.Index(["mon"], name="day"))
    assert write(frame).splitlines()[0] == "| day | n |"
    assert write(frame["n"]).splitlines()[-1] == "| mon | 1 |"


def test_a_large_table_is_cut_and_says_so() -> None:
    import pandas

    frame = pandas.DataFrame({f"column{number}": range(500) for number in range(40)})
    text = write(frame)
    assert len(text) < TABLE + 100
    assert text.splitlines()[-1].endswith("of 500 rows, first 30 of 40 columns)")
    assert text.splitlines()[-1].startswith("(first ")
