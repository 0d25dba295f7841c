"""The terminal pictures of README, made from the demo profile: ``python .ci/pictures.py [NAME]...``.

Each is a real session on a real pseudo-terminal, drawn as it looked when it was over. Nothing here is edited by hand.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pexpect
import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "examples" / "pictures"
COLUMNS, ROWS = 104, 40
PROMPT = "\x1b[32m$\x1b[0m "


class Step(NamedTuple):
    """A command and what is typed while it runs, once its output shows ``after``."""

    command: str
    typed: tuple[tuple[str, str], ...] = ()


DEMO = "routekit --profile demo "
PICTURES: dict[str, tuple[Step, ...]] = {
    "init": (
        Step("routekit init --no-question", (("Vendor", "ollama\r"), ("Model", "llama3.2\r"))),
        Step("routekit routes"),
    ),
    "ask": (
        Step(DEMO + "ask 'Answer in **Markdown**: `code`, lists and all'"),
        Step(DEMO + "ask -u 'And now?'"),
    ),
    "failover": (Step(DEMO + "ask 'Is anybody there?'"), Step(DEMO + "health")),
    "preview": (Step(DEMO + "ask --quiet hello"), Step(DEMO + "ask --dry-run hello")),
    "why": (Step(DEMO + "ask --quiet hello"), Step(DEMO + "why")),
    "chat": (
        Step(
            DEMO + "chat",
            (("❯", "Is anybody there?\r"), ("demo-primary", "/why\r"), ("served by", "/usage\r"), ("together", "\x04")),
        ),
    ),
}


class Terminal:
    """What is shown, as a person would see it."""

    def __init__(self, home: str) -> None:
        self._home = home
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.Stream(self.screen)
        tools = Path(home) / "bin"
        tools.mkdir()
        command = tools / "routekit"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m routekit "$@"\n')
        command.chmod(0o755)
        kept = {name: os.environ[name] for name in ("LANG", "HOME") if name in os.environ}
        self._environ = {
            **kept,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "ROUTEKIT_HOME": str(Path(home) / ".config" / "routekit"),
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
        }

    def play(self, step: Step) -> None:
        self._stream.feed(f"{PROMPT}{step.command}\r\n")
        size = (ROWS, COLUMNS)
        child = pexpect.spawn("sh", ["-c", step.command], env=self._environ, dimensions=size, encoding="utf-8")
        shown = ""
        waiting = list(step.typed)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                piece = child.read_nonblocking(4096, timeout=0.3)
            except pexpect.TIMEOUT:
                piece = ""
            except pexpect.EOF:
                break
            piece = piece.replace(self._home, "~")
            shown += piece
            self._stream.feed(piece)
            if "\x1b[6n" in piece:
                # prompt-toolkit asks where the cursor is
                child.send(f"\x1b[{self.screen.cursor.y + 1};{self.screen.cursor.x + 1}R")
            if waiting and not piece and waiting[0][0] in shown:
                shown = ""
                child.send(waiting.pop(0)[1])
        child.close(force=True)
        if waiting:
            raise SystemExit(f"{step.command}: never showed {waiting[0][0]!r}")
        if self.screen.cursor.x:
            self._stream.feed("\r\n")

    def lines(self) -> list[Text]:
        rows = [self._line(row) for row in range(ROWS)]
        while rows and not rows[-1].plain.strip():
            rows.pop()
        return rows

    def _line(self, row: int) -> Text:
        line, skip = Text(), False
        for column in range(COLUMNS):
            cell = self.screen.buffer[row][column]
            if not skip:
                line.append(cell.data or " ", _style(cell))
            skip = not cell.data
        line.rstrip()
        return line


def _style(cell: pyte.screens.Char) -> Style:
    return Style(
        color=_colour(cell.fg), bgcolor=_colour(cell.bg), bold=cell.bold, italic=cell.italics, reverse=cell.reverse
    )


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    plain = {"brown": "yellow", "brightbrown": "bright_yellow"}.get(name, name)
    return re.sub(r"^bright(?=[a-z])", "bright_", plain)


def picture(name: str) -> str:
    with tempfile.TemporaryDirectory() as home:
        terminal = Terminal(home)
        for step in PICTURES[name]:
            terminal.play(step)
        lines = terminal.lines()
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        for line in lines:
            console.print(line, soft_wrap=True)
        return console.export_svg(title="routekit", unique_id=f"routekit-{name}")


def main(names: list[str]) -> None:
    PLACE.mkdir(exist_ok=True)
    for name in names or PICTURES:
        (PLACE / f"{name}.svg").write_text(picture(name), "utf-8")
        sys.stdout.write(f"{PLACE.relative_to(ROOT)}/{name}.svg\n")


if __name__ == "__main__":
    main(sys.argv[1:])
