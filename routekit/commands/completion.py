"""``completion``: the scripts that make TAB work, printed or put where the shell looks. It computes no completion."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ..core.value import Value
from ..errors import ConfigError, UsageError
from ..files import read_bounded, replaceable
from .report import Context, Report, lines

SHELLS = ("bash", "zsh", "fish")
#: the line by which a block of ours in somebody's file is known again
MARK = "# routekit completion"


class Place(Value):
    """Where a shell finds the script by itself; ``start`` is its start file and ``block`` what that must say, where the
    place alone is not enough."""

    script: str
    start: str = ""
    block: str = ""


def completion(context: Context, *, shell: str, install: bool = False) -> Report:
    if shell not in SHELLS:
        from ..config.kinds import nearest

        raise UsageError(
            f"'{shell}' is no shell known here; {nearest(shell, SHELLS, what='known')}",
            hints=["routekit completion bash --install"],
        )
    text = script(shell)
    if not install:
        return lines(*text.rstrip("\n").split("\n"), data={"shell": shell, "script": text})
    return _install(shell, text, context.environ)


def script(shell: str) -> str:
    return (Path(__file__).parent.parent / "data" / "completion" / shell).read_text("utf-8")


def place(shell: str, environ: Mapping[str, str]) -> Place:
    return PLACES[shell](environ)


def installed(shell: str, environ: Mapping[str, str]) -> str | None:
    """The script's file where the shell finds it; ``None`` where there is none."""
    found = place(shell, environ)
    own = os.path.isfile(found.script) and (not found.block or _says(found.start, MARK))
    shared = [os.path.join(root, "share", SHARED[shell]) for root in ("/usr", "/usr/local")]
    return found.script if own else next(filter(os.path.isfile, shared), None)


def _install(shell: str, text: str, environ: Mapping[str, str]) -> Report:
    found = place(shell, environ)
    told = [f"wrote {found.script}"]
    try:
        Path(found.script).parent.mkdir(parents=True, exist_ok=True)
        Path(replaceable(found.script)).write_text(text, "utf-8")
        if found.block and not _says(found.start, MARK):
            Path(found.start).parent.mkdir(parents=True, exist_ok=True)
            with open(replaceable(found.start), "a", encoding="utf-8") as file:
                file.write(found.block)
            told.append(f"added two lines to the end of {found.start}")
    except OSError as error:
        raise ConfigError(
            f"{error.filename} cannot be written: {error.strerror}", hints=[f"routekit completion {shell}"]
        ) from None
    told.append("a new shell completes routekit with TAB")
    return lines(*told, data={"shell": shell, "file": found.script, "start": found.start or None})


def _says(file: str, text: str) -> bool:
    try:
        return text in read_bounded(file).decode("utf-8", "replace")
    except OSError:
        return False


# --- where each shell looks -------------------------------------------------------------------------------------------


def _bash(environ: Mapping[str, str]) -> Place:
    user = environ.get("BASH_COMPLETION_USER_DIR") or os.path.join(_data(environ), "bash-completion")
    file = os.path.join(user, "completions", "routekit")
    # Without the package of that name nobody looks there.
    if any(map(os.path.isfile, BASH_COMPLETION)):
        return Place(script=file)
    return Place(script=file, start=os.path.join(_home(environ), ".bashrc"), block=f"\n{MARK}\n. {_quoted(file)}\n")


BASH_COMPLETION = (
    "/usr/share/bash-completion/bash_completion",
    "/usr/local/share/bash-completion/bash_completion",
    "/opt/homebrew/etc/profile.d/bash_completion.sh",
    "/usr/local/etc/profile.d/bash_completion.sh",
)


def _zsh(environ: Mapping[str, str]) -> Place:
    file = os.path.join(_data(environ), "zsh", "site-functions", "_routekit")
    start = os.path.join(environ.get("ZDOTDIR") or _home(environ), ".zshrc")
    load = f"(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit; }}; . {_quoted(file)}"
    return Place(script=file, start=start, block=f"\n{MARK}\n{load}\n")


def _fish(environ: Mapping[str, str]) -> Place:
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(_home(environ), ".config")
    return Place(script=os.path.join(config, "fish", "completions", "routekit.fish"))


PLACES: Mapping[str, Callable[[Mapping[str, str]], Place]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
#: where the system's packages put it
SHARED = {
    "bash": "bash-completion/completions/routekit",
    "zsh": "zsh/site-functions/_routekit",
    "fish": "fish/vendor_completions.d/routekit.fish",
}


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def _data(environ: Mapping[str, str]) -> str:
    return environ.get("XDG_DATA_HOME") or os.path.join(_home(environ), ".local", "share")


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)
