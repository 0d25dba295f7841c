"""What the input transformers change, and above all what they do not."""

from __future__ import annotations

import ast
import io
import sysconfig
import tokenize
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routekit.notebook import transform


def changed(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(transform.statements(transform.cell(lines)))


def prompts(text: str) -> list[str]:
    """The arguments of every call made for us, in order."""
    calls = [node for node in ast.walk(ast.parse(changed(text))) if isinstance(node, ast.Call)]
    rows = [call for call in calls if getattr(call.func, "attr", "") in ("run_line_magic", "run_cell_magic")]
    return [str(ast.literal_eval(row.args[-1])) for row in sorted(rows, key=lambda row: row.lineno)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%route what's this?\n", ["what's this?"]),
        ("ans = %route is 17 prime?\n", ["is 17 prime?"]),
        ("a = b = %route why??\n", ["why??"]),
        ("box.ans = %route why?\n", ["why?"]),
        ("box['k'] = %route why?\n", ["why?"]),
        ("n: int = %route why?\n", ["why?"]),
        ("if x:\n    %route a?\n    b = %route b?\n", ["a?", "b?"]),
        ("%routekit why?\n", ["why?"]),
        ("x = 1\n%route (a [b {c 'd \"e\ny = %route f?\n", ["(a [b {c 'd \"e", "f?"]),
        ("%route one \\\n  two?\nz = 1\n", ["one   two?"]),
        ("%route \\frac{a}{b} \\\\\nz = 1\n", ["\\frac{a}{b} \\\\"]),
        ("%route ends in \\\n", ["ends in \\"]),
        ("%route a\u2028b\x0cc?\nz = 1\n", ["a\u2028b\x0cc?"]),
        ("# it's\n%route a?\n", ["a?"]),
        ("x = 'it' + f\"{y}\" # '\n%route a?\n", ["a?"]),
        ("x = '\\''\n%route a?\n", ["a?"]),
        ("%%route chat\nbody?\n>>> x\n", ["body?\n>>> x\n"]),
        ("\n\n%%route\n\n\n  a\n\n", ["\n\n  a\n\n"]),
    ],
)
def test_a_prompt_becomes_the_argument_of_a_call(text: str, expected: list[str]) -> None:
    assert prompts(text) == expected


@pytest.mark.parametrize(
    "escaped", ["!echo it's\n", "%timeit it's\n", "x = !ls 'a\n", "?it's\n", ",f it's\n", "x = %ls 'a\n"]
)
def test_a_quote_in_another_ipython_line_does_not_hide_ours(escaped: str) -> None:
    assert changed(escaped + "%route a?\n") == escaped + "get_ipython().run_line_magic('route', 'a?')\n"


@pytest.mark.parametrize(
    "text",
    [
        "x = '''\n%route a?\n'''\n",
        'x = """\nans = %route a?\n"""\n%route?\n',
        "x = (5\n%route)\n",
        "x = 5 \\\n%route\n",
        "y = x %route\n",
        "%route?\n",
        "%route??\n",
        "%route\n",
        "%routes a?\n",
        "%routekitten a?\n",
        "%%route?\n",
        "%%routekit a\nb\n",
        "%%bash\n%route a?\n",
        "\n\n%%html\n%route a?\n",
        "print('%route a?')\n",
        "# %route a?\n",
        "!echo \\\n%route a?\n",
        "  %%bash\n  %route a?\n",
        "s = 'a\\\n%route b?'\n",
        "",
        "\n",
    ],
)
def test_what_is_not_ours_is_not_touched(text: str) -> None:
    assert changed(text) == text


#: one line for every kind of syntax that IPython has beside Python's
IPYTHON = r"""
%ls⏎%%bash|echo $HOME⏎a = %ls⏎!ls -l⏎a = !ls⏎files = !!ls⏎!!ls⏎?int⏎int?⏎int??⏎a.b?⏎%matplotlib?⏎%%time?⏎*int*?
,f 1 2⏎;f 1 2
/f 1 2⏎>>> a = 1|>>> b⏎In [1]: a = 1|   ...: b⏎    a = 1|    b = 2⏎%%time|a⏎a = f()|b = %foo \|  bar|g()
%timeit -n1 'it'
'|a
for a in range(5):|    %ls⏎a = !foo \|  bar⏎x = yy??⏎a|b?⏎%%capture out|print('%route')⏎"%route"
'''|%route?|'''⏎a %= 5
await f()⏎async for a in b:|    pass⏎def f():|  return '%route'⏎\⏎'⏎(⏎)⏎{⏎f"{a!r}"⏎a @ b⏎lambda: %x
@dec|def f(): ...⏎%⏎%%⏎!⏎?
"""


@pytest.mark.parametrize(
    "text", sorted({row.replace("|", "\n") for row in IPYTHON.strip().replace("\n", "⏎").split("⏎")})
)
def test_every_syntax_of_ipython_passes_untouched(text: str) -> None:
    from IPython.core.inputtransformer2 import TransformerManager

    plain, ours = TransformerManager(), TransformerManager()
    ours.cleanup_transforms[:0] = [transform.cell, transform.statements]
    ours.cleanup_transforms.append(transform.statements)
    assert ours.transform_cell(text) == plain.transform_cell(text)
    assert ours.check_complete(text) == plain.check_complete(text)


@pytest.mark.parametrize("pasted", [">>> %route a?", "In [3]: %route a?", "    %route a?", ">>> x = 1\n>>> %route a?"])
def test_a_pasted_line_is_ours_once_its_prompt_is_off(pasted: str) -> None:
    from IPython.core.inputtransformer2 import TransformerManager

    ours = TransformerManager()
    ours.cleanup_transforms[:0] = [transform.cell, transform.statements]
    ours.cleanup_transforms.append(transform.statements)
    assert ours.transform_cell(pasted).endswith("get_ipython().run_line_magic('route', 'a?')\n")


def test_the_cells_of_ipythons_own_tests_pass_untouched() -> None:
    """Where this IPython comes with its tests, every cell in them; their inputs are lists of lines, and texts."""
    import IPython.core

    folder = Path(IPython.core.__file__).parent / "tests"
    found = sorted(folder.glob("test_inputtransformer*.py"))
    for path in found:
        texts = [
            node.value
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert texts
        assert [text for text in texts if changed(text) != text] == []
    assert changed("%route a?") != "%route a?"


#: the odd things people ask about
WORDS = r"""
' " { } {} }{ {0} {"a":1} {{x}} {{·user·}} \ \\ \n ? ?? ! !ls % %% %route %s $HOME ` ``` \frac{a}{b} $x^2$ # #!/bin/sh
( ) [ ] é 😀 中文 · ·· -- --> -5 = == >>>· ...· In·[1]:· f'{x!r}' lambda:·0 {k:v·for·k·in·x} <b> &amp; ; a word \u2028
"""
RAW = ("\u2028", "\x0c", "\t", "\u200b", "\0", "'" * 3, '"' * 3)
PIECES = st.sampled_from([*(piece.replace("·", " ") for piece in WORDS.split()), *RAW])
LINE = st.lists(
    st.one_of(PIECES, st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8))
)
ODD = LINE.map("".join)
BLOCK = st.lists(ODD, min_size=1, max_size=6).map("\n".join)


@settings(max_examples=500)
@given(ODD.filter(str.strip))
def test_any_line_arrives_as_typed(prompt: str) -> None:
    for before in ("%route ", "ans = %route ", "if True:\n    %route ", "if True:\n    x.y = %route "):
        assert prompts(f"{before}{prompt}") == [prompt]


@settings(max_examples=500)
@given(BLOCK)
def test_any_body_arrives_as_typed(body: str) -> None:
    assert prompts(f"%%route chat\n{body}") == [body]


@settings(max_examples=300)
@given(BLOCK.filter(lambda text: "%route" not in text))
def test_a_cell_without_our_magics_is_the_same_afterwards(text: str) -> None:
    assert changed(text) == text


def _statement_starts(text: str) -> set[int]:
    """The lines at which a statement may begin, as Python's own tokenizer sees them."""
    starts, fresh = {1}, True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NEWLINE, tokenize.NL):
            if token.type == tokenize.NEWLINE or fresh:
                starts.add(token.start[0] + 1)
            fresh = fresh or token.type == tokenize.NEWLINE
        elif token.type not in (tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            fresh = False
    return starts


@pytest.mark.parametrize(
    "name", ["argparse.py", "tokenize.py", "re/_parser.py", "inspect.py", "textwrap.py", "turtle.py"]
)
def test_the_scanner_agrees_with_python_about_where_statements_begin(name: str) -> None:
    text = (Path(sysconfig.get_path("stdlib")) / name).read_text("utf-8")
    place = transform.Place()
    starts = set()
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if place.fresh:
            starts.add(number)
        place.pass_over(line)
    last = text.count("\n") + 1
    assert starts - {last} == _statement_starts(text) - {last}
