"""The clipboard, through whatever program this machine has for it; over a remote shell, through the terminal itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TextIO

from ..errors import UsageError

#: each is tried where its variable is set (if it names one) and its program is there
WRITERS: tuple[tuple[str, Sequence[str]], ...] = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("", ("clip.exe",)),
    ("", ("termux-clipboard-set",)),
)
READERS: tuple[tuple[str, Sequence[str]], ...] = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-o")),
    ("DISPLAY", ("xsel", "--clipboard", "--output")),
    ("", ("pbpaste",)),
    ("", ("powershell.exe", "-NoProfile", "-Command", "Get-Clipboard")),
    ("", ("termux-clipboard-get",)),
)
PICTURES: tuple[tuple[str, Sequence[str]], ...] = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-t", "image/png", "-o")),
    ("", ("pngpaste", "-")),
)
#: a program that holds the clipboard may never end; none takes longer than this, in seconds
PATIENCE = 3.0
#: terminals drop longer sequences
LONGEST = 74_000
PNG = b"\x89PNG\r\n\x1a\n"


def copy(text: str, *, environ: Mapping[str, str], terminal: TextIO) -> str:
    """Put a text on the clipboard; what took it. Raises ``UsageError`` where nothing can."""
    for command in _present(WRITERS, environ):
        if _run(command, environ, text.encode("utf-8", "replace")) is not None:
            return os.path.basename(command[0])
    import base64

    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
    if not terminal.isatty() or len(encoded) > LONGEST:
        raise UsageError("no program for the clipboard was found", hints=["install wl-clipboard, xclip or xsel"])
    # OSC 52: xterm, kitty, WezTerm, iTerm2, Windows Terminal, and tmux where set-clipboard is on
    terminal.write(f"\x1b]52;c;{encoded}\a")
    terminal.flush()
    return "the terminal"


def picture(environ: Mapping[str, str]) -> bytes | None:
    """The image on the clipboard as PNG, if there is one."""
    for command in _present(PICTURES, environ):
        found = _run(command, environ)
        if found is not None and found.startswith(PNG):
            return found
    return None


def text(environ: Mapping[str, str]) -> str:
    """Raises ``UsageError`` where it cannot be read."""
    commands = _present(READERS, environ)
    for command in commands:
        found = _run(command, environ)
        if found is not None:
            return found.decode("utf-8", "replace").replace("\r\n", "\n")
    if commands:
        raise UsageError("there is no text on the clipboard")
    raise UsageError(
        "no program to read the clipboard was found", hints=["install wl-clipboard, xclip or xsel", "paste as usual"]
    )


def _present(rows: Sequence[tuple[str, Sequence[str]]], environ: Mapping[str, str]) -> list[Sequence[str]]:
    from shutil import which

    path = environ.get("PATH")
    found = [(which(command[0], path=path), command) for needed, command in rows if not needed or environ.get(needed)]
    return [(program, *command[1:]) for program, command in found if program]


def _run(command: Sequence[str], environ: Mapping[str, str], given: bytes | None = None) -> bytes | None:
    """What it printed; ``None`` where it failed. One that goes on holding what it was given has done its work."""
    import subprocess

    try:
        # Output that nobody reads goes nowhere: a program that stays in the background would keep a pipe open.
        done = subprocess.run(
            command,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            stdout=subprocess.PIPE if given is None else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout or b"") if done.returncode == 0 else None
