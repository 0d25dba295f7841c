"""How an answer is to be shown: the options that are no part of the question, and what the streams can do. It shows
nothing."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..terminal.look import Look, look


class Manner:
    """Takes its own options out of what was given."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.json: bool = given.pop("json")
        self.events: bool = given.pop("jsonl")
        self.usage: bool = given.pop("usage")
        self.explain: bool = given.pop("explain")
        self.quiet: bool = given.pop("quiet")
        self.verbose: bool = given.pop("verbose")
        self.hide_reasoning: bool = given.pop("hide_reasoning")
        #: which fenced block to print alone: ``first``, ``last``, or none
        self.extract = _extract(first=given.pop("extract"), last=given.pop("extract_last"))
        #: whether data is asked for: its JSON is printed as it is
        self.data: bool = bool(given["schema"] or given["schema_multi"])
        said: dict[str, str] = {"colour": given.pop("color"), "render": given.pop("render")}
        self.out: Look = look(sys.stdout, os.environ, **said)
        self.err: Look = look(sys.stderr, os.environ, colour=said["colour"])
        stream: bool | None = given.pop("stream")
        self.live = self._live(stream)

    def _live(self, stream: bool | None) -> bool:
        """Whether the answer is shown as it comes, and so cannot begin again elsewhere."""
        if self.json or self.extract or self.data:
            return False
        return (self.events or sys.stdout.isatty()) if stream is None else stream

    @property
    def rendered(self) -> bool:
        return self.out.render and not (self.json or self.events or self.extract or self.data)

    @property
    def waits_visibly(self) -> bool:
        return self.err.moves and not self.quiet


def _extract(*, first: bool, last: bool) -> str:
    return "last" if last else "first" if first else ""
