"""``config edit``: real editors, as scripts; the live file changes only by a text that loads."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from routekit.commands import editor
from routekit.commands.report import Context
from routekit.errors import ConfigError, UsageError

GOOD = """
[providers.a]
api = "openai-chat"
base_url = "https://a.example/v1"
key = "none"

[routes.plan]
targets = ["a/m"]   # kept
"""
Make = Callable[..., Context]
Config = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """``script(one, two)``: an editor that does ``one`` when it is opened first, ``two`` the second time."""

    def make(*steps: str) -> str:
        place = tmp_path / "an editor"
        place.mkdir(exist_ok=True)
        for number, step in enumerate(steps, 1):
            (place / f"step{number}").write_text(step)
        file = place / "edit.sh"
        file.write_text(f'#!/bin/sh\ncd "{place}"\necho "$1" >> opened\n. ./step$(wc -l < opened | tr -d " ")\n')
        file.chmod(0o700)
        return f"'{file}'"

    return make


def copies(place: Path) -> list[Path]:
    return [path for path in place.iterdir() if path.name.startswith("config-")]


ADD = 'printf \'\\n[routes.more]\\ntargets = ["a/n"]\\n\' >> "$1"'
BREAK = "sed -i 's/^targets = /tragets = /' \"$1\""
MEND = "sed -i 's/^tragets = /targets = /' \"$1\"; " + ADD


def test_a_text_that_loads_takes_the_place_of_the_file(
    context: Make, config: Config, place: Path, script: Callable[..., str]
) -> None:
    file = config(GOOD)
    before = file.read_text()
    one = context(EDITOR=script(ADD))
    assert one.router.models() == ["plan", "a/m"]
    editor.edit(one)
    assert file.read_text() == before + '\n[routes.more]\ntargets = ["a/n"]\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert copies(place) == []
    assert one.router.models() == ["plan", "more", "a/m", "a/n"]


def test_visual_counts_before_editor_and_may_have_options(
    context: Make, config: Config, script: Callable[..., str], tmp_path: Path
) -> None:
    config(GOOD)
    editor.edit(context(VISUAL=f"{script(':')} --wait", EDITOR="false"))
    assert (tmp_path / "an editor" / "opened").read_text().strip() == "--wait"


def test_the_live_file_is_as_it_was_while_the_editor_is_open(
    context: Make, config: Config, script: Callable[..., str], tmp_path: Path
) -> None:
    file = config(GOOD)
    before = file.read_text()
    editor.edit(context(EDITOR=script(f"{ADD}; cp '{file}' seen")))
    assert (tmp_path / "an editor" / "seen").read_text() == before != file.read_text()


def test_a_link_stays_a_link(context: Make, config: Config, place: Path, script: Callable[..., str]) -> None:
    file = config(GOOD)
    real = place / "dotfiles.toml"
    os.rename(file, real)
    file.symlink_to(real)
    editor.edit(context(EDITOR=script(ADD)))
    assert file.is_symlink()
    assert "routes.more" in real.read_text()


def test_closing_without_a_change_changes_nothing(
    context: Make, config: Config, place: Path, script: Callable[..., str]
) -> None:
    file = config(GOOD)
    before = file.stat()
    report = editor.edit(context(EDITOR=script(":")))
    assert report.data == {"changed": False}
    assert file.stat().st_ino == before.st_ino
    assert copies(place) == []


def test_errors_are_shown_with_line_and_column_and_the_editor_opens_again(
    context: Make, config: Config, place: Path, script: Callable[..., str]
) -> None:
    file = config(GOOD)
    one = context("e", EDITOR=script(BREAK, MEND))
    editor.edit(one)
    said = one.io.said  # type: ignore[attr-defined]
    assert any(line.startswith("  9:1: routes.plan.tragets: unknown key") for line in said)
    assert "routes.more" in file.read_text()
    assert copies(place) == []


def test_a_mistake_of_syntax_has_its_column_too(context: Make, config: Config, script: Callable[..., str]) -> None:
    config(GOOD)
    one = context("d", EDITOR=script("echo 'x = ' >> \"$1\""))
    editor.edit(one)
    assert any(line.startswith("  10:5: ") for line in one.io.said)  # type: ignore[attr-defined]


def test_discarding_leaves_the_file_and_no_copy(
    context: Make, config: Config, place: Path, script: Callable[..., str]
) -> None:
    file = config(GOOD)
    before = file.read_bytes()
    editor.edit(context("d", EDITOR=script(BREAK)))
    assert file.read_bytes() == before
    assert copies(place) == []


def test_where_nobody_can_be_asked_the_text_is_kept_and_the_file_untouched(
    context: Make, config: Config, place: Path, script: Callable[..., str]
) -> None:
    file = config(GOOD)
    before = file.read_bytes()
    with pytest.raises(ConfigError) as caught:
        editor.edit(context(EDITOR=script(BREAK)))
    (copy,) = copies(place)
    assert "tragets" in copy.read_text()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    told = "\n".join(caught.value.lines())
    assert "9:1: routes.plan.tragets" in told
    assert str(copy) in told
    assert caught.value.exit_code == 78
    assert file.read_bytes() == before


def test_an_edit_by_somebody_else_meanwhile_is_not_overwritten(
    context: Make, config: Config, place: Path, script: Callable[..., str]
) -> None:
    file = config(GOOD)
    with pytest.raises(ConfigError, match="changed by somebody else"):
        editor.edit(context(EDITOR=script(f"{ADD}; echo '# theirs' >> '{file}'")))
    assert file.read_text().endswith("# theirs\n")
    (copy,) = copies(place)
    assert "routes.more" in copy.read_text()


def test_an_editor_that_fails_changes_nothing_and_loses_nothing(
    context: Make, config: Config, place: Path, script: Callable[..., str]
) -> None:
    file = config(GOOD)
    before = file.read_bytes()
    with pytest.raises(UsageError, match="code 3"):
        editor.edit(context(EDITOR=script(f"{ADD}; exit 3")))
    assert file.read_bytes() == before
    (copy,) = copies(place)
    assert "routes.more" in copy.read_text()


@pytest.mark.parametrize("said", ["nosucheditor", "'unclosed"])
def test_an_editor_that_is_none_is_named(said: str, context: Make, config: Config, place: Path) -> None:
    config(GOOD)
    with pytest.raises(UsageError) as caught:
        editor.edit(context(EDITOR=said))
    assert said in caught.value.message
    assert copies(place) == []


def test_without_an_editor_and_a_terminal_nothing_is_opened(context: Make, config: Config) -> None:
    config(GOOD)
    with pytest.raises(UsageError, match="VISUAL or EDITOR"):
        editor.edit(context())


@pytest.mark.parametrize("last", ['rm "$1"; exit 1', 'rm "$1"'])
def test_nothing_is_said_to_be_kept_that_is_gone(
    context: Make, config: Config, place: Path, script: Callable[..., str], last: str
) -> None:
    file = config(GOOD)
    before = file.read_text()
    with pytest.raises(UsageError, match="nothing was changed") as caught:
        editor.edit(context(EDITOR=script(f"{ADD}; {last}")))
    assert caught.value.details == ()
    assert copies(place) == []
    assert file.read_text() == before


def test_a_text_that_an_editor_left_behind_is_kept_where_it_is_said_to_be(
    context: Make, config: Config, place: Path, script: Callable[..., str]
) -> None:
    config(GOOD)
    with pytest.raises(UsageError) as caught:
        editor.edit(context(EDITOR=script(f"{ADD}; exit 1")))
    (kept,) = copies(place)
    assert caught.value.details == (f"its text is kept in {kept}",)
    assert "routes.more" in kept.read_text()


def test_of_a_prompt_nothing_is_kept_nor_said_to_be(context: Make, config: Config, script: Callable[..., str]) -> None:
    place = config(GOOD).parent
    with pytest.raises(UsageError) as caught:
        editor.compose(context(EDITOR=script('echo more >> "$1"; exit 1')), "begun")
    assert caught.value.details == ()
    assert [path for path in place.iterdir() if path.name.startswith("prompt-")] == []


def test_a_broken_file_can_be_repaired(context: Make, config: Config, script: Callable[..., str]) -> None:
    file = config(GOOD + "[")
    editor.edit(context(EDITOR=script("sed -i '$d' \"$1\"")))
    assert file.read_text() == "version = 1\n" + GOOD


def test_where_there_is_no_file_the_editor_starts_from_one_that_loads(
    context: Make, place: Path, script: Callable[..., str]
) -> None:
    editor.edit(context(EDITOR=script('printf \'[limits]\\nstall = "31s"\\n\' >> "$1"')))
    file = place / "config.toml"
    assert file.read_text().startswith("# What routekit reads.")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_where_the_environment_gives_the_config_the_editor_starts_from_it(
    context: Make, place: Path, script: Callable[..., str]
) -> None:
    editor.edit(context(ANTHROPIC_API_KEY="sk-ant-canary", EDITOR=script("echo '# mine' >> \"$1\"")))
    text = (place / "config.toml").read_text()
    assert '[providers.anthropic]\npreset = "anthropic"\nkey = "auto"\n' in text
    assert text.endswith("# mine\n")


def test_line_ends_and_marks_of_other_systems_survive(
    context: Make, config: Config, script: Callable[..., str]
) -> None:
    file = config(GOOD)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    before = file.read_bytes()
    editor.edit(context(EDITOR=script("printf '# mine\\r\\n' >> \"$1\"")))
    assert file.read_bytes() == before + b"# mine\r\n"
