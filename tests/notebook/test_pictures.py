"""Trees and charts: they say in words what they draw, and are well-formed whatever the names."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from routekit.commands.report import Context
from routekit.commands.stats import stats
from routekit.errors import RoutekitError
from routekit.notebook.pictures import chart_svg, of_preview, of_record, tree_lines, tree_svg
from routekit.router import Router
from routekit.testing import Clock, answers, fails, router_from

TOML = """
version = 1
[providers.a]
api = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
key = "none"
models = ["m"]
[providers.b]
api = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
key = "none"
models = ["m"]
[providers.c]
api = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
key = "none"
models = ["m<&>"]
[synthetic_providers.both]
providers = ["a", "b"]
selection = "ordered"
[routes.plan]
targets = ["both/m", "c/m<&>"]
"""


def router(**scripts: Any) -> Router:
    return router_from(TOML, scripts=scripts, clock=Clock())


def words(svg: str) -> str:
    return " ".join(text for text in ElementTree.fromstring(svg).itertext())


def test_a_record_shows_who_failed_who_served_and_who_was_not_needed() -> None:
    there = router(a=[fails("transient", status=503, message="down")], b=["fine"], c=["fine"])
    there.ask("hi")
    top = of_record(there.why())
    assert [line.split()[:2] for line in tree_lines(top)] == [
        ["▸", "plan"],
        ["▸", "both/m"],
        ["✕", "a/m"],
        ["●", "b/m"],
        ["·", "c/m<&>"],
    ]
    assert "503 down" in words(tree_svg(top))
    assert "not needed" in words(tree_svg(top))


def test_a_sleeper_is_shown_with_its_time() -> None:
    there = router(a=[fails("transient")], b=["fine"], c=["fine"])
    there.ask("hi")
    there.ask("again")
    assert any("◌ a/m" in line and "back in" in line for line in tree_lines(of_record(there.why())))
    preview = of_preview(there.preview(), there.now())
    assert any("◌ a/m" in line and "back in" in line for line in tree_lines(preview))
    assert any("● b/m" in line and "would serve" in line for line in tree_lines(preview))
    assert "m<&>" in words(tree_svg(preview))


def test_a_request_that_nobody_served_is_drawn_too() -> None:
    there = router(a=[fails("auth")], b=[fails("auth")], c=[fails("auth")])
    with pytest.raises(RoutekitError):
        there.ask("hi")
    lines = tree_lines(of_record(there.why()))
    assert sum("✕" in line for line in lines) == 3


def test_the_sums_of_stats_are_those_of_the_attempts() -> None:
    usage = {"input_tokens": 10, "output_tokens": 3}
    there = router(a=[fails("transient"), fails("transient")], b=[answers("x", usage=usage)], c=["y"])
    there.ask("hi")
    there.ask("hi")
    report = stats(Context(None, environ={}, router=there))  # type: ignore[arg-type]
    rows = {row["target"]: row for row in report.data["targets"]}
    assert (rows["b/m"]["attempts"], rows["b/m"]["ok"], rows["b/m"]["failed"]) == (2, 2, 0)
    assert (rows["b/m"]["input_tokens"], rows["b/m"]["output_tokens"]) == (20, 6)
    assert rows["a/m"]["failed"] == rows["a/m"]["attempts"] >= 1
    for row in rows.values():
        assert sum(span["attempts"] for span in row["over_time"]) == row["attempts"]
    svg = chart_svg(report.data["targets"])
    assert "a/m" in words(svg)
    assert svg.count("#cf222e") == 1


def test_nothing_asked_is_said() -> None:
    report = stats(Context(None, environ={}, router=router(a=["x"])))  # type: ignore[arg-type]
    assert report.data["targets"] == []
    assert "Nothing was asked" in report.blocks[0].empty  # type: ignore[union-attr]
