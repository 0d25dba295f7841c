"""``config edit``: the file in the person's own editor, on a copy. The live file is replaced only by one that loads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from ..config.edit import toml_value, unwritable, write_whole
from ..config.file import read
from ..config.sources import Source, other_writers, read_source
from ..core.config import Config, Problem
from ..errors import ConfigError, UsageError
from ..files import read_bounded
from ..router import Router
from .edits import environment_entry, in_force
from .report import Context, Report, lines

#: what a new file begins with
NEW = """\
# What routekit reads. Every key is explained by: routekit config schema
version = 1

# [defaults]
# route = "plan"                      # what is asked when nothing is named
#
# [providers.openai]                  # a vendor account
# preset = "openai"
# key = "env:OPENAI_API_KEY"          # or keyring, cmd:COMMAND, file:PATH
#
# [routes.plan]                       # a name of your own for models in an order
# targets = ["openai/gpt-6.1-terra", "anthropic/claude-opus-5"]
"""
#: looked for where neither VISUAL nor EDITOR is set
EDITORS = ("nano", "vim", "vi")
COLUMN = re.compile(r"^column (\d+): ")


def edit(context: Context) -> Report:
    """Open the file in ``$VISUAL`` or ``$EDITOR``; check it when the editor closes. Raises ``ConfigError`` where it has
    errors and nobody can be asked; the text is kept then."""
    router = context.router
    command = editor(context)
    file = os.path.realpath(router.paths.config_file)
    before = _text(file)
    copy = _copy(router, before or _begin(in_force(router)))
    given = _text(copy)
    while True:
        _run(command, copy, given=given)
        text = _text(copy)
        if text is None:
            raise UsageError(f"the editor {command[0]} left no text, so nothing was changed")
        if text == given:
            return _dropped(copy, "nothing changed")
        problems = _judge(router, copy, file)
        errors = [row for row in problems if row.severity == "error"]
        if not errors:
            break
        if not _again(context, copy, errors):
            return _dropped(copy, "discarded; the file is as it was")
    _put(copy, file, before=before, text=text)
    context.renew()
    warnings = [f"warning: {_placed(row, text)}" for row in problems]
    return msgspec.structs.replace(lines(f"saved {file}", data={"file": file}), notes=tuple(warnings))


def compose(context: Context, text: str) -> str:
    """What a person writes in their editor, beginning with ``text``. Nothing of it is kept in a file."""
    command = editor(context)
    copy = _copy(context.router, text, prefix="prompt-", suffix=".md")
    try:
        _run(command, copy, given=text, keeps=False)
        return (_text(copy) or "").rstrip("\n")
    finally:
        with suppress(OSError):
            os.unlink(copy)


def editor(context: Context) -> list[str]:
    """The words of the editor's command. Raises ``UsageError`` where there is none."""
    import shlex
    from shutil import which

    said = context.environ.get("VISUAL", "").strip() or context.environ.get("EDITOR", "").strip()
    try:
        words = shlex.split(said)
    except ValueError:
        raise UsageError(
            f"VISUAL or EDITOR is no command: {said}", hints=["EDITOR=nano routekit config edit"]
        ) from None
    if not words and not context.io.interactive:
        raise UsageError(
            "VISUAL or EDITOR does not say which editor to open", hints=["EDITOR=nano routekit config edit"]
        )
    words = words or [next((name for name in EDITORS if which(name)), "")]
    if not words[0] or which(words[0]) is None:
        missing = f"the editor '{words[0]}' was not found" if words[0] else "no editor was found"
        raise UsageError(f"{missing}: set VISUAL or EDITOR", hints=["EDITOR=nano routekit config edit"])
    return words


def _run(command: Sequence[str], copy: str, *, given: str | None, keeps: bool = True) -> None:
    """``keeps``: whether what somebody wrote outlives an editor that failed."""
    import signal
    import subprocess
    import threading

    main = threading.current_thread() is threading.main_thread()
    # Ctrl-C in an editor is the editor's: a handler, unlike ignoring it, is not handed down to it.
    old = signal.signal(signal.SIGINT, lambda *_: None) if main else None
    try:
        code = subprocess.run([*command, copy], check=False).returncode
    except OSError as error:
        _forget(copy)
        raise UsageError(
            f"{command[0]} cannot be started: {error.strerror}", hints=["EDITOR=nano routekit config edit"]
        ) from None
    finally:
        if main:
            signal.signal(signal.SIGINT, old)
    if code:
        kept = keeps and _text(copy) not in (given, None)
        if not kept:
            _forget(copy)
        raise UsageError(
            f"the editor {command[0]} ended with code {code}, so nothing was changed",
            details=[f"its text is kept in {copy}"] if kept else (),
        )


# --- the copy ---------------------------------------------------------------------------------------------------------


def _copy(router: Router, text: str, *, prefix: str = "config-", suffix: str = ".toml") -> str:
    """A file of one's own, where nothing is published; its name tells editors what it is."""
    import tempfile

    folder = router.paths.state_dir
    with unwritable(os.path.join(folder, f"{prefix}…{suffix}")):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle, copy = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=folder)
        with open(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
    return copy


def _text(file: str) -> str | None:
    try:
        return read_bounded(file).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", hints=["routekit config path"]) from None


def _begin(config: Config) -> str:
    """The text a new file starts with: what the environment gives is kept."""
    if config.mode != "environment":
        return NEW
    entries = [
        "\n".join(
            [
                f"[providers.{id}]",
                *(f"{key} = {toml_value(value)}" for key, value in environment_entry(config, id).items()),
            ]
        )
        for id in config.providers
    ]
    return "\n\n".join(["version = 1", *entries]) + "\n"


def _put(copy: str, file: str, *, before: str | None, text: str) -> None:
    if _text(file) != before:
        raise ConfigError(
            f"{file} was changed by somebody else while you edited it; nothing was written",
            details=[f"your text is kept in {copy}"],
            hints=[f"diff {file} {copy}"],
        )
    with unwritable(file):
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    write_whole(file, text)
    _forget(copy)


def _forget(copy: str) -> None:
    with suppress(OSError):
        os.unlink(copy)


def _dropped(copy: str, words: str) -> Report:
    _forget(copy)
    return lines(words, data={"changed": False})


# --- judging ----------------------------------------------------------------------------------------------------------


def _judge(router: Router, copy: str, file: str) -> list[Problem]:
    source = read_source(copy)
    if isinstance(source, Problem):
        return [msgspec.structs.replace(source, file=file)]
    writers = other_writers(file, os.stat(file)) if os.path.exists(file) else ""
    return list(read([Source(name=file, text=source.text, writers=writers)], setting=router.setting()).problems)


def _again(context: Context, copy: str, errors: Sequence[Problem]) -> bool:
    """Whether the person wants the editor once more. Where nobody can be asked, the text is kept and the errors
    told."""
    shown = [_placed(row, _text(copy) or "") for row in errors]
    if not context.io.interactive:
        error = ConfigError(
            "what was saved has errors, so the config file is as it was",
            hints=[f"routekit --config {copy} config check"],
        )
        error.details = (*shown, f"the text is kept in {copy}")
        error.problems = tuple(errors)
        raise error
    context.io.say("what was saved does not load:")
    for line in shown:
        context.io.say(f"  {line}")
    try:
        return context.io.ask("e: edit again, d: discard", default="e", choices=("e", "d")) == "e"
    except (UsageError, KeyboardInterrupt):
        context.io.say(f"the text is kept in {copy}")
        raise


def _placed(problem: Problem, text: str) -> str:
    """``LINE:COLUMN: key: message``; the column is where the key stands."""
    found = COLUMN.match(problem.message)
    message = problem.message[found.end() :] if found else problem.message
    column = int(found[1]) if found else next(_columns(problem, text.splitlines()), 0)
    place = ":".join(str(part) for part in (problem.line, column) if part)
    return ": ".join(part for part in (place, problem.key, message) if part)


def _columns(problem: Problem, rows: Sequence[str]) -> Iterator[int]:
    if not 0 < problem.line <= len(rows):
        return
    row = rows[problem.line - 1]
    for word in reversed(re.findall(r"[A-Za-z0-9_-]+", problem.key)):
        if word in row and not word.isdigit():
            yield row.index(word) + 1
    yield len(row) - len(row.lstrip()) + 1
