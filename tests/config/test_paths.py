"""Where the files are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import platformdirs

from routekit.config.paths import find_paths


def test_routekit_home_holds_everything(tmp_path: Path) -> None:
    paths = find_paths(
        {"ROUTEKIT_HOME": str(tmp_path), "XDG_CONFIG_HOME": "/elsewhere", "XDG_STATE_HOME": "/elsewhere"}
    )
    assert {name: str(Path(file).relative_to(tmp_path)) for name, file in paths.listing().items()} == {
        "config": "config.toml",
        "profiles": "profiles",
        "state": "state.db",
        "conversations": "conversations.db",
        "catalog": "catalog.json",
        "history": "history",
        "keys": "keys.json",
    }


def test_xdg_variables_count_where_they_are_set() -> None:
    paths = find_paths({"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "HOME": "/h"})
    assert paths.config_file == "/c/routekit/config.toml"
    assert paths.state == "/s/routekit/state.db"


def test_relative_and_empty_xdg_variables_are_ignored() -> None:
    paths = find_paths({"XDG_CONFIG_HOME": "here", "XDG_STATE_HOME": "", "HOME": "/h"})
    assert paths == find_paths({"HOME": "/h"})


def test_without_variables_the_places_are_those_platformdirs_names(home: Path) -> None:
    paths = find_paths({"HOME": str(home)})
    assert paths.config_dir == platformdirs.user_config_dir("routekit", appauthor=False)
    assert paths.state_dir == platformdirs.user_state_dir("routekit", appauthor=False)


def test_the_config_option_beats_the_variable_and_both_are_named(tmp_path: Path) -> None:
    environ = {"ROUTEKIT_CONFIG": "/a/x.toml", "HOME": "/h"}
    assert find_paths(environ).config_file == "/a/x.toml"
    assert find_paths(environ).named
    assert find_paths(environ, config_file="~/y.toml").config_file == "/h/y.toml"
    assert not find_paths({"HOME": "/h"}).named


def test_profiles_lie_beside_the_config_file_wherever_it_is() -> None:
    assert find_paths({"ROUTEKIT_CONFIG": "/a/x.toml", "HOME": "/h"}).profile("lab") == "/a/profiles/lab.toml"


def test_stored_keys_never_lie_beside_the_config_file() -> None:
    paths = find_paths({"HOME": "/h"})
    assert not paths.keys.startswith(paths.config_dir)


def test_finding_the_paths_loads_no_platformdirs_on_this_system() -> None:
    code = (
        "import sys; from routekit.config.paths import find_paths; find_paths({}); print('platformdirs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
