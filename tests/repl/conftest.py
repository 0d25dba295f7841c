"""A conversation in a test: typed through prompt-toolkit's pipe, shown on a desk that remembers, answered by script."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from routekit.commands.report import Context, Lines, Report
from routekit.commands.table import CHAT
from routekit.config.paths import find_paths
from routekit.core.chat import Delta
from routekit.errors import RoutekitError
from routekit.repl.shell import start
from routekit.router import Router
from routekit.vendors.scripted import Vendor
from tests.commands.person import Person
from tests.loopback import loopback

__all__ = ["loopback"]

CONFIG = """
version = 1
[defaults]
route = "chat"
[providers.a]
api = "scripted"
models = ["one", "two"]
[providers.b]
api = "scripted"
models = ["one"]
[routes.chat]
targets = ["a/one", "b/one"]
[routes.other]
targets = ["a/two"]
"""
ENTER, ALT_ENTER, CTRL_J, CTRL_C, CTRL_D = "\r", "\x1b\r", "\n", "\x03", "\x04"


def pasted(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


class Drawn(DummyOutput):
    """Counts the prompts that have been drawn: what is typed ahead of one is read before its history is there."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._prompts = self._drawn = 0

    def enable_bracketed_paste(self) -> None:
        self._prompts += 1

    def flush(self) -> None:
        with self._change:
            self._drawn = self._prompts
            self._change.notify_all()

    def wait(self, prompts: int) -> None:
        with self._change:
            assert self._change.wait_for(lambda: self._drawn >= prompts, 20)


class Sheet:
    def __init__(self) -> None:
        self.text = ""

    def take(self, step: Any) -> None:
        self.text += step.text if isinstance(step, Delta) and step.kind == "text" else ""

    def tick(self) -> float:
        return 0.05

    def pause(self) -> None:
        return


class Desk:
    """What the shell lends, as a test sees it."""

    def __init__(self, *, interactive: bool = True) -> None:
        self.live, self.interactive = True, interactive
        self.notes: list[str] = []
        self.said: list[str] = []
        self.reports: list[Report] = []
        self.failures: list[RoutekitError] = []
        self.sheets: list[Sheet] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def say(self, text: str) -> None:
        self.said.append(text)

    def report(self, report: Report) -> None:
        self.reports.append(report)

    def failure(self, error: RoutekitError) -> None:
        self.failures.append(error)

    def bug(self, error: Exception) -> int:
        raise error

    def busy(self) -> AbstractContextManager[None]:
        return nullcontext()

    def screen(self, asked: str) -> Sheet:
        self.sheets.append(Sheet())
        return self.sheets[-1]

    @property
    def answers(self) -> list[str]:
        return [sheet.text for sheet in self.sheets]

    def rows(self, at: int = -1) -> list[str]:
        """A report's lines: cells of a table with blanks between them."""
        found: list[str] = []
        for block in self.reports[at].blocks:
            found += block.text if isinstance(block, Lines) else [" ".join(row) for row in block.rows]
        return found


class Talk:
    """``type`` is one whole conversation, from greeting to farewell; the memory lasts over several."""

    def __init__(self, place: Path, config: str = CONFIG, script: Any = None, environ: Mapping[str, str] | None = None):
        self.desk = Desk()
        self.environ = {**os.environ, "ROUTEKIT_HOME": str(place), **(environ or {})}
        self.vendor = Vendor(script=script or {"*": ["answer"]})
        self.router = Router.from_toml(
            config, speakers={"scripted": self.vendor}, paths=find_paths(self.environ), environ=self.environ
        )
        self.code: int | None = None

    def type(self, *keys: str | int, options: Mapping[str, Any] | None = None, leave: bool = True) -> Desk:
        """A number among the keys waits until so many prompts have been drawn."""
        self.desk.sheets.clear()
        given = {row.name: () if row.many else False if row.kind == "flag" else row.default for row in CHAT.options}
        for surface in ("stream", "render", "color", "usage", "hide_reasoning", "verbose"):
            given.pop(surface)
        context = Context(Person(["y"]), environ=self.environ, router=self.router)
        with create_pipe_input() as pipe:
            output = Drawn()

            def play() -> None:
                for key in (*keys, *([ENTER, CTRL_D] if leave else [])):
                    if isinstance(key, int):
                        output.wait(key)
                    else:
                        pipe.send_text(key)

            typist = threading.Thread(target=play, daemon=True)
            typist.start()
            self.code = start(context, {**given, **(options or {})}, terminal=self.desk, input=pipe, output=output)
            typist.join(20)
        return self.desk

    @property
    def asked(self) -> list[str]:
        """The last message of every request, as the vendor got it."""
        return [_text(call.request.messages[-1].content) for call in self.vendor.calls]

    def history(self, call: int = -1) -> list[str]:
        return [f"{one.role}: {_text(one.content)}" for one in self.vendor.calls[call].request.messages]


def _text(content: str | Sequence[Mapping[str, Any]] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(str(part.get("text", part["type"])) for part in content)


@pytest.fixture
def place(home: Path) -> Path:
    folder = home / "rk"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def talks(place: Path) -> Iterator[Callable[..., Talk]]:
    made: list[Talk] = []

    def make(**more: Any) -> Talk:
        made.append(Talk(place, **more))
        return made[-1]

    yield make
    for one in made:
        one.router.close()


@pytest.fixture
def talk(talks: Callable[..., Talk]) -> Talk:
    return talks()
