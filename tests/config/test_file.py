"""Finding and overlaying files, the mode without a file, the demo."""

# ruff: noqa: E501 -- one-line documents read best as one line

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from routekit.config.file import load, profiles
from routekit.config.paths import find_paths
from routekit.config.sources import writers_of
from routekit.core.config import Config
from routekit.errors import ConfigError

BASE = """\
[defaults]
route = "r"
system = "Be brief."
[providers.a]
preset = "openai"
params = { store = false }
[providers.b]
preset = "anthropic"
[routes.r]
targets = ["a/m"]
selection = "smooth"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A home of routekit's own, readable and writable by its owner only."""
    folder = tmp_path / "routekit"
    (folder / "profiles").mkdir(parents=True)
    for each in (folder, folder / "profiles"):
        each.chmod(0o700)
    return folder


def _write(file: Path, text: str, mode: int = 0o600) -> Path:
    file.write_text(text, "utf-8")
    file.chmod(mode)
    return file


@pytest.fixture
def loaded(place: Path, setting):
    """``loaded(profile=…, environ={…})`` loads what lies in the place."""

    def run(environ: dict[str, str] | None = None, *, config_file: str | None = None, **more) -> Config:
        environ = {"ROUTEKIT_HOME": str(place), **(environ or {})}
        return load(find_paths(environ, config_file=config_file), setting=setting, environ=environ, **more)

    return run


def test_a_file_is_read_and_named(place: Path, loaded) -> None:
    file = _write(place / "config.toml", BASE)
    config = loaded()
    assert config.mode == "file"
    assert config.files == (str(file),)
    assert config.defaults.route == "r"


def test_a_profile_replaces_whole_entries_and_single_keys_of_the_other_tables(place: Path, loaded) -> None:
    _write(place / "config.toml", BASE)
    _write(
        place / "profiles" / "lab.toml",
        '[defaults]\nroute = "a/x"\n[providers.a]\npreset = "openai"\n[routes.s]\ntargets = ["r"]',
    )
    config = loaded(profile="lab")
    assert config.providers["a"].params == {}  # the whole entry
    assert (config.defaults.route, config.defaults.system) == ("a/x", "Be brief.")  # the single key
    assert set(config.routes) == {"r", "s"}
    assert [Path(file).name for file in config.files] == ["config.toml", "lab.toml"]
    assert loaded({"ROUTEKIT_PROFILE": "lab"}) == config
    assert loaded({"ROUTEKIT_PROFILE": ""}).files == loaded().files


def test_the_profile_option_beats_the_variable(place: Path, loaded) -> None:
    _write(place / "config.toml", BASE)
    _write(place / "profiles" / "lab.toml", "limits.stall = '1s'")
    _write(place / "profiles" / "home.toml", "limits.stall = '2s'")
    assert loaded({"ROUTEKIT_PROFILE": "lab"}, profile="home").limits.stall == 2


def test_patches_lie_on_top_in_order(place: Path, loaded, tmp_path: Path) -> None:
    _write(place / "config.toml", BASE)
    patches = [str(_write(tmp_path / f"{n}.toml", f"limits.stall = '{n}s'\nlimits.connect = '{n}s'")) for n in (3, 4)]
    _write(place / "profiles" / "lab.toml", "limits.stall = '1s'")
    assert loaded(profile="lab", patches=patches).limits.stall == 4


def test_an_error_in_an_overlay_names_the_overlay(place: Path, loaded) -> None:
    _write(place / "config.toml", BASE)
    file = _write(place / "profiles" / "lab.toml", '\n[routes.r]\ntargets = ["nope"]')
    with pytest.raises(ConfigError) as caught:
        loaded(profile="lab")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (str(file), 3)


def test_a_fault_that_an_overlay_replaces_is_none(place: Path, loaded) -> None:
    _write(place / "config.toml", BASE.replace('"smooth"', '"smoth"'))
    _write(place / "profiles" / "lab.toml", '[routes.r]\ntargets = ["a/m"]')
    assert loaded(profile="lab").routes["r"].selection == "ordered"


def test_an_unknown_profile_lists_the_known_ones(place: Path, loaded) -> None:
    _write(place / "config.toml", BASE)
    _write(place / "profiles" / "lab.toml", "")
    with pytest.raises(ConfigError, match="did you mean 'lab'"):
        loaded(profile="lba")
    assert profiles(find_paths({"ROUTEKIT_HOME": str(place)})) == ["lab", "demo"]


@pytest.mark.parametrize("name", ["../config", "/etc/passwd", "a/b", ".hidden", ""])
def test_a_profile_is_a_name_and_never_a_path(place: Path, loaded, name: str) -> None:
    _write(place / "config.toml", BASE)
    if name:
        with pytest.raises(ConfigError, match="no profile name"):
            loaded(profile=name)
    else:
        assert len(loaded(profile=name).files) == 1


def test_a_file_that_was_named_must_exist(loaded, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no configuration file .*gone\.toml"):
        loaded({"OPENAI_API_KEY": "x"}, config_file=str(tmp_path / "gone.toml"))
    with pytest.raises(ConfigError, match=r"no file .*patch\.toml"):
        loaded({"OPENAI_API_KEY": "x"}, patches=[str(tmp_path / "patch.toml")])


@pytest.mark.parametrize("kind", ["text", "folder", "link", "encoding", "unreadable"])
def test_a_broken_file_never_becomes_an_empty_config(place: Path, loaded, kind: str) -> None:
    file = place / "config.toml"
    if kind == "text":
        _write(file, "a = ")
    elif kind == "folder":
        file.mkdir()
    elif kind == "link":
        file.symlink_to(place / "nowhere")
    elif kind == "encoding":
        file.write_bytes('a = 1\nb = "\u00e9"'.encode("latin-1"))
    else:
        file.symlink_to(file)
    with pytest.raises(ConfigError) as caught:
        loaded({"OPENAI_API_KEY": "x"})
    assert caught.value.problems[0].file == str(file)


def test_a_byte_order_mark_and_windows_line_ends_are_read(place: Path, loaded) -> None:
    (place / "config.toml").write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert loaded().defaults.route == "r"


# ---- digest


def test_the_digest_changes_with_the_meaning_and_not_with_the_layout(config) -> None:
    same = config("# a comment\n" + BASE.replace("[defaults]", "\n[defaults]   # more"))
    assert config(BASE).digest == same.digest
    for old, new in (("smooth", "ordered"), ("false", "true"), ("brief", "long"), ('["a/m"]', '["a/m", "b/m"]')):
        assert config(BASE.replace(old, new)).digest != same.digest


def test_the_digest_is_the_same_in_every_process(config) -> None:
    code = (
        "import sys\nfrom routekit.config.convert import Vendors\nfrom routekit.config.file import Setting, from_text\n"
        "from routekit.vendors.presets import API_DEFAULTS, PRESETS\n"
        "s = Setting(vendors=Vendors(presets=PRESETS, defaults=API_DEFAULTS))\nprint(from_text(sys.stdin.read(), setting=s).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=BASE,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert done.stdout.strip() == config(BASE).digest


# ---- no file at all


def test_without_a_file_each_vendor_whose_variable_is_set_is_a_provider(loaded) -> None:
    config = loaded({"OPENAI_API_KEY": "x"})
    assert config.mode == "environment"
    assert list(config.providers) == ["openai"]
    provider = config.providers["openai"]
    assert (provider.key, provider.key_variable, provider.origin) == ("auto:openai", "OPENAI_API_KEY", "preset")


def test_without_a_file_a_vendor_whose_address_only_the_user_knows_is_none(loaded) -> None:
    assert list(loaded({"OPENAI_API_KEY": "x", "AZURE_OPENAI_API_KEY": "y"}).providers) == ["openai"]


def test_without_a_file_keys_known_to_be_stored_count_too(loaded) -> None:
    assert list(loaded(stored=["anthropic", "stranger"]).providers) == ["anthropic"]


def test_without_a_file_the_usual_address_variables_count(loaded) -> None:
    environ = {
        "OPENAI_API_KEY": "x",
        "ANTHROPIC_API_KEY": "y",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1/",
        "ANTHROPIC_BASE_URL": "https://relay.example",
    }
    config = loaded(environ)
    assert config.providers["openai"].base_url == "http://127.0.0.1:9/v1"
    assert config.providers["anthropic"].base_url == "https://relay.example"
    assert {provider.origin for provider in config.providers.values()} == {"environment"}


def test_with_a_file_the_address_variables_count_for_nothing(place: Path, loaded) -> None:
    _write(place / "config.toml", BASE)
    config = loaded({"OPENAI_BASE_URL": "https://evil.example", "ANTHROPIC_BASE_URL": "https://evil.example"})
    assert "evil" not in repr(config)


def test_an_empty_file_is_a_file(place: Path, loaded) -> None:
    _write(place / "config.toml", "")
    config = loaded({"OPENAI_API_KEY": "x"})
    assert (config.mode, config.providers) == ("file", {})


@pytest.mark.parametrize("url", ["nonsense", "ftp://h", "https://me:hunter22@h"])
def test_a_broken_address_variable_is_named_and_a_password_in_it_not_repeated(loaded, url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded({"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": url})
    lines = "\n".join(caught.value.lines())
    assert "OPENAI_BASE_URL" in lines
    assert "hunter22" not in lines


def test_with_nothing_at_all_three_lines_say_what_to_type(loaded) -> None:
    for environ in ({}, {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "http://127.0.0.1:9"}):
        with pytest.raises(ConfigError) as caught:
            loaded(environ)
        assert caught.value.exit_code == 78
        first, *rest = caught.value.lines()
        assert "(looked for OPENAI_API_KEY, ANTHROPIC_API_KEY, DEEPSEEK_API_KEY and" in first
        assert rest == ["  try: routekit init", "  try: routekit --profile demo ask hello"]


def test_a_vendor_whose_address_is_not_known_does_not_exist_by_its_key_alone(loaded) -> None:
    with pytest.raises(ConfigError):
        loaded({"AZURE_OPENAI_API_KEY": "key-for-a-test"})
    config = loaded({"AZURE_OPENAI_API_KEY": "key-for-a-test", "GROQ_API_KEY": "key-for-a-test"})
    assert list(config.providers) == ["groq"]


# ---- the demo


def test_the_demo_needs_no_file_and_fails_over(loaded) -> None:
    config = loaded(profile="demo")
    assert config.mode == "demo"
    assert config.defaults.route in config.routes
    targets = [target.target.split("/")[0] for target in config.routes["demo"].targets]
    first, second = (config.providers[id] for id in targets)
    assert (first.api, second.api) == ("scripted", "scripted")
    assert first.params["script"][0]["status"] == 503
    assert config.warnings == ()


def test_the_demo_stands_apart_from_the_file(place: Path, loaded) -> None:
    _write(place / "config.toml", "broken = ")
    assert set(loaded(profile="demo").routes) == {"demo"}


def test_the_demo_is_never_used_unasked(place: Path, loaded) -> None:
    with pytest.raises(ConfigError):
        loaded()
    _write(place / "config.toml", BASE)
    assert "demo" not in loaded().routes


def test_a_profile_of_ones_own_named_demo_beats_the_built_in_one(place: Path, loaded) -> None:
    _write(place / "config.toml", BASE)
    _write(place / "profiles" / "demo.toml", "limits.stall = '3s'")
    config = loaded(profile="demo")
    assert (config.mode, config.limits.stall) == ("file", 3)


# ---- files others can write

DANGERS = {
    "key": 'preset = "openai"\nkey = "cmd:pass show x"',
    "headers.X": 'preset = "openai"\nheaders = { X = "cmd:pass show x" }',
    "base_url": 'preset = "openai"\nbase_url = "https://relay.example/v1"',
    "proxy": 'preset = "openai"\nproxy = "http://proxy.example:3128"',
}


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
@pytest.mark.parametrize("key", DANGERS)
def test_commands_and_new_addresses_are_not_taken_from_a_file_others_can_write(
    place: Path, loaded, key: str, mode: int
) -> None:
    file = _write(place / "config.toml", f"[providers.a]\n{DANGERS[key]}", mode)
    with pytest.raises(ConfigError) as caught:
        loaded()
    (problem,) = caught.value.problems
    assert problem.key == f"providers.a.{key}"
    assert f"chmod go-w {file}" in problem.message
    file.chmod(0o644)
    loaded()


def test_a_folder_open_to_everyone_counts_like_a_file_open_to_everyone(place: Path, loaded) -> None:
    _write(place / "config.toml", f"[providers.a]\n{DANGERS['key']}")
    place.chmod(0o777)
    with pytest.raises(ConfigError, match="an error"):
        loaded()
    place.chmod(0o1777)  # as /tmp: only the owner may replace the file
    loaded()


@pytest.mark.parametrize(
    ("file", "folder", "words"),
    [
        ((1000, 0o600), (1000, 0o700), ""),
        ((0, 0o644), (0, 0o755), ""),
        ((1000, 0o600), (0, 0o1777), ""),
        ((1001, 0o600), (1000, 0o700), "it belongs to another user"),
        ((1000, 0o600), (1001, 0o700), "its folder belongs to another user"),
        ((1000, 0o620), (1000, 0o700), "its group may write it"),
        ((1000, 0o602), (1000, 0o700), "everyone may write it"),
        ((1000, 0o600), (1000, 0o777), "its folder is open to everyone"),
    ],
)
def test_a_file_is_trusted_if_only_its_reader_and_root_can_change_it(file, folder, words: str) -> None:
    def status(owner: int, mode: int) -> os.stat_result:
        return os.stat_result((mode, 0, 0, 1, owner, 0, 0, 0, 0, 0))

    assert writers_of(status(*file), status(*folder), user=1000) == words


def test_harmless_entries_are_taken_from_any_file(place: Path, loaded) -> None:
    _write(place / "config.toml", BASE, 0o666)
    assert loaded().warnings == ()


def test_only_the_overlay_that_says_it_is_judged(place: Path, loaded) -> None:
    _write(place / "config.toml", f"[providers.a]\n{DANGERS['key']}")
    _write(place / "profiles" / "lab.toml", "limits.stall = '1s'", 0o666)
    loaded(profile="lab")
    _write(place / "profiles" / "lab.toml", f"[providers.b]\n{DANGERS['key']}", 0o666)
    with pytest.raises(ConfigError) as caught:
        loaded(profile="lab")
    assert [problem.key for problem in caught.value.problems] == ["providers.b.key"]


# ---- cost


def test_loading_a_config_imports_nothing_heavy(place: Path) -> None:
    _write(place / "config.toml", BASE)
    code = (
        "import sys\nfrom routekit.config.file import Setting, load\nfrom routekit.config.convert import Vendors\n"
        "from routekit.config.paths import find_paths\nenviron = {'ROUTEKIT_HOME': sys.argv[1]}\n"
        "class Row:\n name='openai'; api='openai-responses'; base_url='https://h'; key_variable=None; auth='bearer'; anthropic_version=None; quirks=(); place=None\n"
        "rows = {'openai': Row, 'anthropic': Row}\n"
        "load(find_paths(environ), setting=Setting(vendors=Vendors(presets=rows, defaults={})), environ=environ)\n"
        "print([name for name in ('tomlkit', 'tomli_w', 'platformdirs', 'difflib', 'pathlib', 'dataclasses', 'logging') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(place)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
