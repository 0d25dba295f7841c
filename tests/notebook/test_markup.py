"""What a notebook is given to show: nothing of it reaches out, nothing of it runs, nothing of it is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.notebook.markup import bundle, frame, safe_markdown

JOINER = "\u2060"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("![a](https://x.example/p.png)", "[a](https://x.example/p.png)"),
        ("![a](//x.example/p.png)", "[a](//x.example/p.png)"),
        ("![a](/logout)", "[a](/logout)"),
        ("![a [b] c](<https://x.example>)", "[a [b] c](<https://x.example>)"),
        ("[![a](https://x.example/p.png)](https://y.example)", "[[a](https://x.example/p.png)](https://y.example)"),
        ("![a][r]\n\n[r]: https://x.example/p.png", "[a][r]\n\n[r]: https://x.example/p.png"),
        ("![r]\n\n[r]: https://x.example/p.png", "[r]\n\n[r]: https://x.example/p.png"),
        ("![a](data:image/png;base64,AA==)", "![a](data:image/png;base64,AA==)"),
        ("<img src=https://x.example>", f"<{JOINER}img src=https://x.example>"),
        ("a <b>b</b><br> <https://x.example> 1 < 2", "a <b>b</b><br> <https://x.example> 1 < 2"),
        ('<b onclick="x">', f'<{JOINER}b onclick="x">'),
        ("```html\n<img src=x>\n```\n<img>", f"```html\n<img src=x>\n```\n<{JOINER}img>"),
        ("```a`b\n<img>", f"```a`b\n<{JOINER}img>"),
        (" ```\n<img>\n ```", f" ```\n<{JOINER}img>\n ```"),
        ("let v = vec![1, 2];", "let v = vec![1, 2];"),
        ("*a* $x_1$ `b`\n\n| a |\n| - |", "*a* $x_1$ `b`\n\n| a |\n| - |"),
    ],
)
def test_pictures_from_elsewhere_are_links_and_tags_are_text(text: str, expected: str) -> None:
    assert safe_markdown(text) == expected


@given(st.text(alphabet="![]()<>`~ \nabht/:\\"))
def test_nothing_is_lost_but_marks_that_would_fetch(text: str) -> None:
    """Without joiners and exclamation marks, the text is what it was."""
    assert safe_markdown(text).replace(JOINER, "").replace("!", "") == text.replace("!", "")


def test_a_frame_holds_the_whole_page_as_a_value() -> None:
    html = frame("""</iframe><script>alert("1")</script><p style='x'>&amp;</p>""")
    assert re.fullmatch(r'<iframe sandbox="" [^<>]*srcdoc="[^"<>]*"></iframe>', html)


@pytest.mark.parametrize("format", ["markdown", "text", "code", "last code", "json", "html", "math"])
@pytest.mark.parametrize(
    "text", ["", "a", "```", "```x\n1\n```", "{", '{"a": 1}', "3", "$x$", "```\n1\n```\n```\n2\n```\n"]
)
def test_every_bundle_has_plain_text(format: str, text: str) -> None:
    assert isinstance(bundle(text, format)["text/plain"], str)


def test_code_is_the_first_block_and_the_last_where_that_is_asked() -> None:
    text = "a\n```py\n1\n```\nb\n```\n2\n```\n"
    assert bundle(text, "code") == {"text/plain": "1\n", "text/markdown": "```py\n1\n```"}
    assert bundle(text, "last code")["text/plain"] == "2\n"
    assert bundle("no block", "code")["text/plain"] == "no block"
    assert bundle("```\na ``` b\n````\n", "code")["text/markdown"].startswith("````")


def test_json_that_is_none_stays_text() -> None:
    assert bundle("{oops", "json") == {"text/plain": "{oops"}
    assert bundle("3", "json") == {"text/plain": "3"}
