"""How faults are told: all at once, each with its place, and nothing but faults."""

from __future__ import annotations

import string
import time
import tomllib

import hypothesis
import pytest
import tomli_w
from hypothesis import strategies as st

from routekit.config import tables
from routekit.config.file import from_text
from routekit.config.lines import find_lines
from routekit.core.config import Config
from routekit.errors import ConfigError


def test_all_faults_are_reported_at_once_each_with_its_line(errors) -> None:
    text = """\
version = 2
colour = 1

[providers.openai]
api = "openai"
limits = { connect = 30, stall = true }

[providers.other]
preset = "anthropic"

[routes.a]
targets = [
  "b",
  { target = "other/x", weight = true },
  { target = "nope" },
]

[routes.b]
selection = "orderd"
targets = ["a"]
"""
    assert [error.split(": ")[0] for error in errors(text)] == [
        "1 version",
        "2 colour",
        "5 providers.openai.api",
        "6 providers.openai.limits.connect",
        "6 providers.openai.limits.stall",
        "12 routes.a.targets",
        "14 routes.a.targets[2].weight",
        "15 routes.a.targets[3]",
        "19 routes.b.selection",
    ]


def test_a_config_error_carries_every_problem_and_exits_78(config) -> None:
    with pytest.raises(ConfigError) as caught:
        config("a = 1\nb = 2")
    assert caught.value.exit_code == 78
    assert len(caught.value.problems) == 2
    assert "(text):2: b: unknown key" in "\n".join(caught.value.lines())


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        ("[provider.a]", "provider", "providers"),
        ('[providers.a]\npreset = "openai"\nbaseurl = "x"', "providers.a.baseurl", "base_url"),
        ('[routes.r]\ntargets = []\ntarget = "x"', "routes.r.target", "targets"),
        ("[health]\nfrist = 1", "health.frist", "first"),
        ("[limits]\nstal = 1", "limits.stal", "stall"),
        ("[log]\nkeep = 1", "log.keep", "records_keep"),
        ("[repl]\nkey = 1", "repl.key", "keys"),
        ("[defaults]\nroutes = 1", "defaults.routes", "route"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest_known_one(errors, text: str, key: str, near: str) -> None:
    (error,) = errors(text)
    assert f" {key}: unknown key; " in error
    assert near in error


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (
            '[providers.openai]\npreset = "openai"\n[providers.openai.alternate]\napi = "openai-chat"',
            '"openai.alternate"',
        ),
        ('[providers.openai.alternate]\napi = "openai-chat"', '"openai.alternate"'),
        ('[providers.openai.alternate.eu]\napi = "openai-chat"', '"openai.alternate.eu"'),
        ('[providers.a]\npreset = "openai"\n[providers.a.model_info.gpt-6.1-terra]\ncontext = 1', '"gpt-6.1-terra"'),
        ("[routes.v1.5]\ntargets = []", '"v1.5"'),
        (
            '[providers.a]\npreset = "openai"\n[synthetic_providers.s]\nproviders = ["a"]\nweights = { a.b = 1 }',
            '"a.b"',
        ),
        ('[aliases]\ngpt.6 = "a/m"', '"gpt.6"'),
    ],
)
def test_an_unquoted_dotted_id_gets_the_hint_to_quote_it(errors, text: str, quoted: str) -> None:
    (error,) = errors(text)
    assert quoted in error
    assert "quoted" in error


def test_what_an_unquoted_id_was_meant_to_be_makes_no_second_problem(reading) -> None:
    found = reading('[providers.openai.alternate]\napi = "openai-chat"\n[routes.r]\ntargets = ["openai.alternate/m"]')
    assert len(found.problems) == 1


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("a = 1\nb = ", 2, "end of file"), ("a = 1\nb = ?\n", 2, "column 5"), ("a = 1\na = 2\n", 2, "column 6")],
)
def test_broken_toml_names_line_and_column(reading, text: str, line: int, column: str) -> None:
    (problem,) = reading(text).errors
    assert problem.line == line
    assert problem.message.startswith(column)


def test_text_that_does_not_parse_is_the_only_thing_reported(reading) -> None:
    found = reading("a = ", "colour = 1", "b = ")
    assert [problem.file for problem in found.problems] == ["0.toml", "2.toml"]


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000, "a = " + "[" * 100 + "]" * 100, "a" + ".a" * 3000 + " = 1", "a = 0x" + "f" * 9000,
             "a = " + "9" * 9000, "limits.stall = 0x" + "f" * 9000, "a = 2020-13-45", "a = '\x00'"]
)  # fmt: skip
def test_absurd_documents_are_config_errors(reading, text: str) -> None:
    assert reading(text).errors


def test_lines_are_found_through_every_form_of_toml() -> None:
    text = '''\
# [not.this]
top = 1
"quoted key" = """
[also.not]
x = 1 \\" """
'lit' = \'\'\'
a = 1\'\'\'

[a."b.c" . d]
x.y = 1
list = [
  1, # one
  [2,
   3],
  { k = 4, l = { m = 5 } },
]
inline = { p = 1, q = [ "]", '}' ] }
[[many]]
v = 1
[[many]]
v = 2
[many.sub]
w = 3
'''
    lines = find_lines(text)
    expected = {
        ("top",): 2,
        ("quoted key",): 3,
        ("lit",): 6,
        ("a", "b.c", "d"): 9,
        ("a", "b.c", "d", "x", "y"): 10,
        ("a", "b.c", "d", "list", 0): 12,
        ("a", "b.c", "d", "list", 1): 13,
        ("a", "b.c", "d", "list", 1, 1): 14,
        ("a", "b.c", "d", "list", 2): 15,
        ("a", "b.c", "d", "list", 2, "l", "m"): 15,
        ("a", "b.c", "d", "inline", "q"): 17,
        ("many", 0, "v"): 19,
        ("many", 1, "v"): 21,
        ("many", 1, "sub", "w"): 23,
    }
    assert {path: lines.get(path) for path in expected} == expected
    assert all(path[0] != "also" for path in lines)


def _paths(value, path=()):
    if path:
        yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _paths(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _paths(each, (*path, index))


def _known_words() -> list[str]:
    named = [
        tables.PROVIDER,
        tables.SYNTHETIC,
        tables.ROUTE,
        tables.DEFAULTS,
        tables.TARGET.fields,
        tables.MEMBER.fields,
    ]
    named += [tables.MODEL_INFO.fields, tables.HEALTH.fields, tables.LIMITS.fields, tables.BUDGET.fields]
    return sorted({*tables.TOP, *(key for fields in named for key in fields), "a", "b", "a.b", "route", ""})


_words = st.sampled_from(_known_words())
_texts = st.one_of(
    st.text(max_size=8),
    st.text(alphabet=string.printable, max_size=8),
    st.sampled_from(
        ["a", "b", "a/m", "b/*", "route/a", "a#high", "30s", "openai", "anthropic", "openai-chat", "smooth", "keyring",
         "env:X", "cmd:x", "https://h/v1", "scripted", "scripted:", "cache", "none", "", "sk-abcdefgh12345678"]
    ),
)  # fmt: skip
_scalars = st.one_of(
    _texts,
    st.booleans(),
    st.integers(),
    st.floats(),
    st.datetimes(),
    st.datetimes(timezones=st.just(None)),
    st.dates(),
    st.times(),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words | _texts, inner, max_size=4),
    max_leaves=12,
)


def _table(fields):
    """Tables mostly of known keys with values mostly of the right shape, so that deep places are reached."""
    likely = {
        "targets": st.lists(_texts | st.dictionaries(_words, _values, max_size=3), max_size=3),
        "members": st.lists(st.dictionaries(_words, _values, max_size=3), max_size=3),
        "providers": st.lists(_texts, max_size=3),
        "api": st.sampled_from(tables.APIS),
    }
    keys = st.sampled_from(sorted(fields))
    return st.lists(keys, unique=True, max_size=5).flatmap(
        lambda chosen: st.fixed_dictionaries({key: likely.get(key, _values) | _values for key in chosen})
    )


_documents = st.fixed_dictionaries(
    {},
    optional={
        **{
            name: st.dictionaries(_words, _table(fields) | _values, max_size=3)
            for name, fields in tables.ENTRIES.items()
        },
        **{name: _table(kind.fields) | _values for name, kind in tables.SETTINGS.items() if kind.fields},
        "aliases": st.dictionaries(_texts, _texts | _values, max_size=3),
        "version": _values,
    },
)


def _outcome(text: str, setting) -> Config | ConfigError:
    try:
        return from_text(text, setting=setting)
    except ConfigError as error:
        return error


@hypothesis.settings(max_examples=150, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(document=_documents)
def test_any_toml_document_gives_a_config_or_a_config_error(document, setting) -> None:
    """Whatever stands in the file, reading ends in a ``Config`` or in a ``ConfigError`` whose problems have a place."""
    text = tomli_w.dumps(document)
    outcome = _outcome(text, setting)
    if isinstance(outcome, ConfigError):
        assert outcome.problems
        assert all(1 <= problem.line <= text.count("\n") + 1 for problem in outcome.problems)


@hypothesis.settings(max_examples=150, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(text=st.text(alphabet="ab.=\"'[]{},#\n\\ 1", max_size=40))
def test_any_text_gives_a_config_or_a_config_error(text, setting) -> None:
    """No text, however broken, ends in any other exception."""
    outcome = _outcome(text, setting)
    assert isinstance(outcome, Config) or outcome.problems


@hypothesis.settings(max_examples=150, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(document=_documents)
def test_every_key_of_any_document_has_a_line(document) -> None:
    """The line scanner knows each key and list element that the parser knows."""
    text = tomli_w.dumps(document)
    lines = find_lines(text)
    assert [path for path in _paths(tomllib.loads(text)) if path not in lines] == []


def test_a_thousand_routes_of_fifty_targets_are_read_within_a_second(setting) -> None:
    routes = "".join(
        f"[routes.r{route}]\ntargets = [" + "".join(f'"a/m-{route}-{target}",' for target in range(50)) + "]\n"
        for route in range(1000)
    )
    before = time.process_time()
    read = from_text('[providers.a]\npreset = "openai"\n' + routes, setting=setting)
    spent = time.process_time() - before
    assert len(read.routes) == 1000
    # CPU of this process; measured 0.34 s, and a quadratic step would take minutes
    assert spent < 3
