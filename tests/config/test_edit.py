"""Edits by command: what they change, what they keep, what they refuse."""

# ruff: noqa: E501 -- one-line documents read best as one line

from __future__ import annotations

import copy
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from routekit.config import changes
from routekit.config.edit import Edited, drop, edit_file, edit_text, insert, move, put, rewrite
from routekit.errors import ConfigError, RoutekitError, UsageError

TEXT = """\
# my config
version = 1   # the first

[defaults]
route = "plan"

[providers.openai]   # mine
api = "openai-responses" # wire
key = "auto"

# the second account
[providers."openai.alternate"]
api = "openai-responses"

[providers.openai.model_info."gpt-6.1-terra"]
context = 1000

# relays
[synthetic_providers.both]
providers = ["openai.alternate", "openai"]
selection = "weighted"
weights = { openai = 2 }

[synthetic_providers.tabled]
members = [
  { provider = "openai", weight = 3 },   # heavy
  { provider = "openai.alternate" },
]

[routes.plan]
targets = [   # in this order
  "both/gpt-6.1-terra#high",   # first
  # the second
  { target = "openai/b", weight = 2 },  # second
  "openai/c",
]

# the other one
[routes.other]
targets = ["openai/a", "openai/b"]
"""


@pytest.fixture
def edit(setting):
    return lambda plan, text=TEXT: edit_text(text, plan, setting=setting)


def _lines(edited: Edited) -> list[str]:
    return edited.lines()


@pytest.mark.parametrize(
    ("plan", "changed"),
    [
        (changes.set_default("other"), ['- route = "plan"', '+ route = "other"']),
        (changes.set_alias("q", "openai/x"), ["+ ", "+ [aliases]", '+ q = "openai/x"']),
        (changes.set_value("providers.openai.max_parallel", "4"), ["+ max_parallel = 4"]),
        (changes.set_value("providers.openai.key", "env:X"), ['- key = "auto"', '+ key = "env:X"']),
        (changes.set_value("providers.openai.alternate.enabled", "false"), ["+ enabled = false"]),
        (changes.set_value("limits.stall", "2m"), ["+ ", "+ [limits]", '+ stall = "2m"']),
        (changes.set_value('providers.openai.model_info."gpt-6.1-terra".output', "5"), ["+ output = 5"]),
        (changes.unset("providers.openai.key"), ['- key = "auto"']),
        (changes.add_route("new", ["openai/x"]), ["+ ", "+ [routes.new]", '+ targets = ["openai/x"]']),
        (changes.add_route("other", ["openai/z", "openai/a"]), ['- targets = ["openai/a", "openai/b"]', '+ targets = ["openai/a", "openai/b", "openai/z"]']),
        (changes.add_route("plan", ["openai/d"]), ['+   "openai/d",']),
        (changes.remove_route("plan", "openai/b"), ['-   { target = "openai/b", weight = 2 },  # second']),
        (changes.move_target("plan", "both/gpt-6.1-terra#high", 2), ['-   "both/gpt-6.1-terra#high",   # first', '+   "both/gpt-6.1-terra#high",   # first']),
        (changes.set_route("plan", "selection", "smooth"), ['+ selection = "smooth"']),
        (changes.set_route("plan", "sticky", "false"), ["+ sticky = false"]),
        (changes.set_route("plan", "openai/b.weight", "5"), ['-   { target = "openai/b", weight = 2 },  # second', '+   { target = "openai/b", weight = 5 },  # second']),
        (changes.set_route("plan", "openai/c.enabled", "false"), ['-   "openai/c",', '+   { target = "openai/c", enabled = false },']),
        (changes.set_provider("both", "openai.weight", "7"), ["- weights = { openai = 2 }", "+ weights = { openai = 7 }"]),
        (changes.set_provider("both", "openai.alternate.weight", "7"), ["- weights = { openai = 2 }", '+ weights = { openai = 2, "openai.alternate" = 7 }']),
        (changes.set_provider("tabled", "openai.weight", "5"), ['-   { provider = "openai", weight = 3 },   # heavy', '+   { provider = "openai", weight = 5 },   # heavy']),
        (changes.set_provider("tabled", "openai.alternate.enabled", "false"), ['-   { provider = "openai.alternate" },', '+   { provider = "openai.alternate", enabled = false },']),
        (changes.move_member("tabled", "openai", 2), ['+   { provider = "openai.alternate" },', '-   { provider = "openai.alternate" },']),
        (changes.remove_provider("both", "openai"), ['- providers = ["openai.alternate", "openai"]', '+ providers = ["openai.alternate"]', "- weights = { openai = 2 }", "+ weights = {}"]),
        (changes.add_provider("claude", {"preset": "anthropic"}), ["+ ", "+ [providers.claude]", '+ preset = "anthropic"']),
        (changes.add_synthetic("s", ["openai"], selection="smooth"), ["+ ", "+ [synthetic_providers.s]", '+ providers = ["openai"]', '+ selection = "smooth"']),
    ],
)  # fmt: skip
def test_an_edit_changes_exactly_the_lines_it_names(edit, plan, changed: list[str]) -> None:
    def bare(lines: list[str]) -> list[str]:
        return sorted(line.replace(" }", "}").replace("{ ", "{").rstrip() for line in lines)

    assert bare(_lines(edit(plan))) == bare(changed)


def test_comments_stay_with_what_they_speak_of(edit) -> None:
    after = edit(changes.set_value("providers.openai.max_parallel", "4")).after
    assert 'key = "auto"\nmax_parallel = 4\n\n# the second account\n[providers."openai.alternate"]' in after
    after = edit(changes.remove_route("plan"), TEXT.replace('route = "plan"', 'route = "other"')).after
    assert "# the other one\n[routes.other]" in after
    after = edit(changes.move_target("plan", "openai/c", 1)).after
    assert '[   # in this order\n  "openai/c",\n  "both/gpt-6.1-terra#high",   # first\n  # the second\n' in after


def test_members_as_ids_become_tables_when_only_tables_can_say_it(edit) -> None:
    after = tomllib.loads(edit(changes.set_provider("both", "openai.enabled", "false")).after)
    assert after["synthetic_providers"]["both"] == {
        "selection": "weighted",
        "members": [{"provider": "openai.alternate"}, {"provider": "openai", "weight": 2, "enabled": False}],
    }


def test_removing_a_provider_removes_its_subtables_and_nothing_else(edit) -> None:
    text = (
        TEXT.replace('"both/gpt-6.1-terra#high",   # first', "")
        .replace('providers = ["openai.alternate", "openai"]', "providers = []")
        .replace("weights = { openai = 2 }\n", "")
    )
    before, after = tomllib.loads(text), tomllib.loads(edit(changes.remove_provider("openai"), text).after)
    del before["providers"]["openai"]
    assert after == before


def test_a_text_is_a_value_where_it_is_no_toml() -> None:
    for text, value in (
        ("2m", "2m"),
        ("smooth", "smooth"),
        ("5", 5),
        ("true", True),
        ('"5"', "5"),
        ("[1]", [1]),
        ("a\nb = 1", "a\nb = 1"),
    ):
        assert changes.read_value(text) == value


def test_a_number_is_text_where_the_key_wants_text(edit) -> None:
    assert 'name = "5"' in edit(changes.set_route("plan", "name", "5")).after


def test_an_edit_that_changes_nothing_is_no_edit(edit) -> None:
    for plan in (
        changes.set_default("plan"),
        changes.set_route("plan", "openai/b.weight", "2"),
        changes.move_target("plan", "openai/c", 3),
        changes.add_route("plan", ["openai/c"]),
        changes.unset("limits.stall"),
    ):
        assert not edit(plan).changed


@pytest.mark.parametrize(
    "plan",
    [
        changes.set_default("nope"),
        changes.set_value("limits.stall", "2"),
        changes.set_value("providers.openai.key", "sk-canary-0123456789abcdef"),
        changes.set_route("plan", "selection", "smoth"),
        changes.set_route("plan", "openai/b.weight", "true"),
        changes.add_route("a b", ["openai/x"]),
        changes.add_route("loop", ["loop"]),
        changes.remove_route("plan"),  # the default names it
        changes.add_provider("x", {"preset": "nobody"}),
    ],
)
def test_an_edit_that_adds_an_error_is_refused_with_it(edit, plan) -> None:
    with pytest.raises(ConfigError) as caught:
        edit(plan)
    assert caught.value.problems
    assert "canary" not in "\n".join(caught.value.lines())


def test_an_edit_is_not_refused_for_an_error_that_was_there(edit) -> None:
    text = TEXT + "\n[routes.bad]\ntargets = 3\ncolour = 1\n"
    with pytest.raises(ConfigError, match="repaired first"):
        edit(changes.set_default("other"), text)
    text = TEXT + '\n[routes.bad]\ntargets = ["nope"]\ncolour = 1\n'
    assert edit(changes.set_default("other"), text).changed
    assert edit(changes.remove_route("bad"), text).changed


def test_a_member_that_would_not_be_accepted_today_survives_an_edit(edit) -> None:
    text = TEXT.replace('{ provider = "openai.alternate" },', '{ provider = "openai.alternate", colour = 1 },')
    assert "colour = 1" in edit(changes.set_provider("tabled", "openai.weight", "5"), text).after


def test_a_file_that_does_not_parse_is_not_edited(edit) -> None:
    with pytest.raises(ConfigError, match="repaired first"):
        edit(changes.set_default("other"), "a = ")


@pytest.mark.parametrize(
    ("plan", "near"),
    [
        (changes.set_value("providers.openai.max_paralel", "4"), "max_parallel"),
        (changes.set_value("limit.stall", "4s"), "limits"),
        (changes.set_value("health.frist", "4s"), "first"),
        (changes.set_route("plan", "selecton", "x"), "selection"),
        (changes.set_route("plam", "selection", "x"), "plan"),
        (changes.set_route("plan", "openai/b.wieght", "1"), "weight"),
        (changes.remove_route("plan", "openai/bb"), "openai/b"),
        (changes.remove_provider("opena"), "openai"),
        (changes.remove_provider("both", "opena"), "openai"),
        (changes.set_provider("tabled", "openai.wieght", "1"), "weight"),
        (changes.remove_alias("q"), "nothing"),
        (changes.move_target("plan", "openai/c", 9), "1 to 3"),
        (changes.move_target("plan", "openai/c", 0), "1 to 3"),
        (changes.add_provider("openai", {"preset": "openai"}), "already"),
        (changes.set_value("a b", "1"), "is no key"),
        (changes.set_value("a = 1\nb", "1"), "is no key"),
    ],
)
def test_a_mistyped_name_is_a_usage_error_with_the_nearest(edit, plan, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        edit(plan)
    assert near in caught.value.message
    assert caught.value.exit_code == 2


def test_removing_the_last_target_warns(edit) -> None:
    text = '[providers.a]\npreset = "openai"\n[routes.r]\ntargets = ["a/m"]\n'
    edited = edit(changes.remove_route("r", "a/m"), text)
    assert any("no targets left" in warning.message for warning in edited.warnings)


# ---- files


def _mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_a_file_is_replaced_for_its_owner_only_and_nothing_is_left_over(tmp_path: Path, setting) -> None:
    file = tmp_path / "place" / "config.toml"
    file.parent.mkdir()
    file.write_text(TEXT)
    file.chmod(0o644)
    before = file.stat().st_ino
    edited = edit_file(str(file), changes.set_default("other"), setting=setting)
    assert edited.changed
    assert tomllib.loads(file.read_text())["defaults"]["route"] == "other"
    assert (_mode(file), os.listdir(file.parent)) == (0o600, ["config.toml"])
    assert file.stat().st_ino != before  # replaced, never written in place


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path, setting) -> None:
    (tmp_path / "dotfiles").mkdir()
    real, link = tmp_path / "dotfiles" / "rk.toml", tmp_path / "config.toml"
    real.write_text(TEXT)
    link.symlink_to(real)
    edit_file(str(link), changes.set_default("other"), setting=setting)
    assert link.is_symlink()
    assert 'route = "other"' in real.read_text()


def test_an_edit_that_changes_nothing_writes_nothing(tmp_path: Path, setting) -> None:
    file = tmp_path / "config.toml"
    file.write_text(TEXT)
    before = file.stat()
    assert not edit_file(str(file), changes.set_default("plan"), setting=setting).changed
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_refused_edit_leaves_the_file_as_it_was(tmp_path: Path, setting) -> None:
    file = tmp_path / "place" / "config.toml"
    file.parent.mkdir()
    file.write_text(TEXT)
    with pytest.raises(ConfigError):
        edit_file(str(file), changes.set_default("nope"), setting=setting)
    assert (file.read_text(), os.listdir(file.parent)) == (TEXT, ["config.toml"])


def test_the_first_edit_makes_folder_and_file(tmp_path: Path, setting) -> None:
    file = tmp_path / "new" / "config.toml"
    edit_file(str(file), changes.add_provider("openai", {"preset": "openai"}), setting=setting)
    assert file.read_text() == 'version = 1\n\n[providers.openai]\npreset = "openai"\n'
    assert (_mode(file), _mode(file.parent)) == (0o600, 0o700)


def test_windows_line_ends_and_a_byte_order_mark_are_kept(tmp_path: Path, setting) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    edit_file(str(file), changes.set_value("providers.openai.max_parallel", "4"), setting=setting)
    data = file.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf# my config\r\n")
    assert b"max_parallel = 4\r\n" in data
    assert data.count(b"\n") == data.count(b"\r\n")


def test_edits_by_several_processes_at_once_are_all_kept(tmp_path: Path, setting) -> None:
    file = tmp_path / "config.toml"
    file.write_text(TEXT)
    code = (
        "import sys\nfrom routekit.config.convert import Vendors\nfrom routekit.config.file import Setting\n"
        "from routekit.config import changes\nfrom routekit.config.edit import edit_file\n"
        "from routekit.vendors.presets import API_DEFAULTS, PRESETS\n"
        "s = Setting(vendors=Vendors(presets=PRESETS, defaults=API_DEFAULTS))\n"
        "for n in range(3): edit_file(sys.argv[1], changes.set_alias(f'q{sys.argv[2]}-{n}', 'openai/x'), setting=s)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(file), str(n)]) for n in range(3)]
    assert [process.wait(30) for process in running] == [0, 0, 0]
    assert len(tomllib.loads(file.read_text())["aliases"]) == 9


# ---- every layout

LAYOUTS = (
    TEXT,
    'version = 1\nroutes = { plan = { targets = ["a", "b", "c"] }, other = { targets = [] } }\nproviders.openai.key = "x"\n',
    '[routes]\nplan.targets = ["a", "b",\n"c"]\nplan.selection = "x"\nother = { targets = ["a"] } # c\n[providers]\nopenai = { key = "x" }',
    "[routes.plan]\ntargets = [\n  'a', 'b',\n  '''c''' # end\n]\n[providers.openai]\nkey = 'x'\n[routes.other]\ntargets = []\n# the end",
    '[routes.plan]\n  # inner\n  targets = ["a", # a\n    "b", # b\n    "c", # c\n  ]\n\n\n[providers.openai]\n\tkey = "x"\n[routes.other.limits]\nstall = "1s"\n[routes.other]\ntargets = ["a"]\n',
)

_leaves = st.sampled_from(["text", 'quo"te', "é\\", 3, True, 1.5, ["a", 1], {"a": 1, "b c": "x"}, [], {}])


@st.composite
def _operations(draw):
    text = draw(st.sampled_from(LAYOUTS))
    document = tomllib.loads(text)
    targets = ("routes", "plan", "targets")
    count = len(document["routes"]["plan"]["targets"])
    kind = draw(st.sampled_from(["set", "drop", "insert", "move", "take"]))
    if kind == "insert":
        return text, insert(targets, draw(st.integers(0, count)), draw(_leaves))
    if kind == "move":
        return text, move(targets, draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1)))
    if kind == "take":
        return text, drop((*targets, draw(st.integers(0, count - 1))))
    if kind == "drop":
        known = [
            ("routes", "plan"),
            ("routes", "other"),
            ("providers", "openai"),
            ("providers", "openai", "key"),
            ("routes", "plan", "targets"),
        ]
        return text, drop(draw(st.sampled_from(known)))
    paths = [
        ("routes", "plan", "selection"),
        ("routes", "new"),
        ("routes", "other", "name"),
        ("providers", "openai", "key"),
        ("limits", "stall"),
        ("aliases", "a.b"),
        ("providers", "openai", "params"),
    ]
    path = draw(st.sampled_from(paths))
    value = draw(_leaves if path != ("routes", "new") else st.just({"targets": ["a", "b"], "selection": "x"}))
    return text, put(path, value)


def _without_empty(value):
    """An empty table and no table mean the same to a config."""
    if not isinstance(value, dict):
        return value
    inner = {key: _without_empty(each) for key, each in value.items()}
    return {key: each for key, each in inner.items() if each != {}}


@hypothesis.settings(max_examples=300)
@hypothesis.given(case=_operations())
def test_in_every_layout_an_operation_does_what_it_says_and_loses_no_comment(case) -> None:
    """Whatever the layout, the text after an operation parses to the document after it, and comments outside stay."""
    text, operation = case
    after = rewrite(text, [operation])
    wanted = copy.deepcopy(tomllib.loads(text))
    place = wanted
    for part in operation.path[:-1]:
        place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
    last = operation.path[-1]
    if operation.kind == "set":
        place[last] = operation.value
    elif operation.kind == "drop":
        del place[last]
    elif operation.kind == "insert":
        place[last].insert(operation.index, operation.value)
    else:
        place[last].insert(operation.to, place[last].pop(operation.index))
    found = tomllib.loads(after)
    for table in ("routes", "providers"):
        assert _without_empty(found.get(table, {})) == _without_empty(wanted.get(table, {}))
    for comment in ("# my config", "# the second account", "# relays", "# the other one", "# the end"):
        assert after.count(comment) == text.count(comment)


def test_what_cannot_be_written_is_said_and_not_guessed() -> None:
    with pytest.raises(RoutekitError, match="cannot be edited"):
        rewrite('[routes.plan]\ntargets = ["a"]\n', [put(("routes", "plan", "name"), float("nan"))])
