"""Ids, references and globs: how they are read, printed and matched (semantics §2.1, §2.2, §3.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core.ids import Reference, is_id, matches, parse_reference
from routekit.errors import UsageError


@pytest.mark.parametrize("text", ["a", "9", "openai.alternate", "gpt-6_1", "A" * 128])
def test_an_id_begins_alphanumeric_and_has_up_to_128_of_a_small_alphabet(text: str) -> None:
    assert is_id(text)


@pytest.mark.parametrize("text", ["", ".a", "-a", "_a", "a b", "a/b", "é", "a\n", "A" * 129, "a#b"])
def test_anything_else_is_no_id(text: str) -> None:
    assert not is_id(text)


def test_the_first_slash_splits_and_the_model_may_hold_more() -> None:
    assert parse_reference("openrouter/meta/llama-4") == Reference(provider="openrouter", model="meta/llama-4")


def test_a_variant_stands_behind_the_last_hash() -> None:
    assert parse_reference("a/m#x#high") == Reference(provider="a", model="m#x", variant="high")


def test_a_bare_name_has_no_provider() -> None:
    assert parse_reference(" plan#high ") == Reference(model="plan", variant="high")


def test_route_slash_name_names_a_route_only() -> None:
    assert parse_reference("route/plan") == Reference(model="plan", route_only=True)


@pytest.mark.parametrize("text", ["", "#", "a/", "/m", "a/m#", "#high", "a b", "é/m"])
def test_a_reference_with_an_empty_or_impossible_part_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a model reference"):
        parse_reference(text)


_ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True)
_models = st.from_regex(r"[a-z0-9:._*/-]{1,12}", fullmatch=True)


@given(_ids, _models, st.one_of(st.none(), _ids))
def test_what_is_printed_reads_as_the_same_reference(provider: str, model: str, variant: str | None) -> None:
    reference = parse_reference(f"{provider}/{model}" + (f"#{variant}" if variant else ""))
    assert parse_reference(str(reference)) == reference
    assert reference.variant == variant


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("gpt-*", "gpt-6", True),
        ("gpt-*", "GPT-6", False),
        ("gpt-*", "my-gpt-6", False),
        ("*-mini", "gpt-mini-2", False),
        ("g*6*", "gpt-6.1", True),
        ("gpt-?", "gpt-6", False),
        ("gpt-[56]", "gpt-6", False),
        ("a.c", "abc", False),
        ("*", "anything/at:all", True),
        ("m", "m", True),
    ],
)
def test_a_glob_knows_the_star_only_is_anchored_and_minds_case(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits
