"""One answer on the screen of a notebook or of a terminal IPython: as it comes, when it is whole, when it breaks off.

It asks nothing; it publishes through the shell's own display publisher, so that captures and front ends see all of it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..answer import Answer
from ..core import words
from ..core.chat import Delta, Finish
from ..core.decide import Choice
from ..core.record import Attempt, RequestRecord
from ..terminal.look import stripped
from . import markup

#: seconds between two updates of one output: each carries the whole text
PACE = 0.1
#: how long nobody needs to be told that an answer is awaited
PATIENCE = 1.0


class Output:
    """Where a shell's outputs go. ``rich``: a front end that shows bundles and can replace them."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.rich = hasattr(shell, "kernel")
        #: what is captured keeps every state apart: it is given the last one only
        self.live = self.rich and "Captur" not in type(shell.display_pub).__name__

    def show(
        self,
        data: Mapping[str, Any],
        *,
        id: str | None = None,
        update: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        transient = {"display_id": id} if id else {}
        self.shell.display_pub.publish(
            data=dict(data), metadata=dict(metadata or {}), transient=transient, update=update
        )

    def write(self, text: str) -> None:
        """Text on a terminal, without what could steer it."""
        sys.stdout.write(stripped(text))
        sys.stdout.flush()

    def lines(self, text: Sequence[str]) -> None:
        """Small print: grey in a notebook, plain on a terminal."""
        if not text:
            return
        if not self.rich:
            self.write("\n".join(text) + "\n")
            return
        style = "color:#888;font-size:85%"
        html = "".join(f'<div style="{style}">{markup.escape(line)}</div>' for line in text)
        self.show({"text/plain": "\n".join(text), "text/html": html})

    def insert(self, code: str) -> None:
        """Offer code as the next cell, where the front end does that."""
        self.shell.set_next_input(code)


class Screen:
    """What is shown of one answer: nothing before its first words but, after a second, that it is awaited."""

    def __init__(self, output: Output, *, asked: str, format: str, quiet: bool) -> None:
        self._output, self._asked, self._format, self._quiet = output, asked, format, quiet
        self._began = self._published = time.monotonic()
        self._waited = 0
        self._id: str | None = None
        self._dirty = False
        self._thinking = False
        self.deltas: list[Delta] = []
        self.record: RequestRecord | None = None
        self.steps: list[str] = []
        self.told: list[str] = []
        self.ending: Finish | None = None

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas if delta.kind in ("text", "refusal"))

    def take(self, step: Any) -> None:
        if isinstance(step, Delta):
            self.deltas.append(step)
            self._delta(step)
        elif isinstance(step, Choice):
            self.steps += [words.decision_line(row) for row in step.path]
        elif isinstance(step, Attempt):
            self.steps.append(f"  {words.attempt_line(step)}")
        elif isinstance(step, Finish):
            self.ending = step
        elif isinstance(step, RequestRecord):
            self.record = step
        else:
            self.told.append(step.text)

    def _delta(self, delta: Delta) -> None:
        self._thinking = delta.kind == "reasoning"
        if self._quiet or delta.kind not in ("text", "refusal") or not delta.text:
            return
        if not self._output.rich:
            if self._format in ("text", "markdown"):
                self._output.write(delta.text)
            return
        self._dirty = True

    def tick(self) -> float:
        """Show what is due; the seconds until something may be due again."""
        now = time.monotonic()
        if not self._output.live or self._quiet:
            return 0.5
        if self._dirty and (self._id is None or now - self._published >= PACE):
            self._publish(markup.growing(self.text, self._format))
        elif not self._dirty and not self.text and now - self._began >= PATIENCE + self._waited:
            self._wait(int(now - self._began))
        return max(0.01, PACE - (now - self._published)) if self._dirty else 0.25

    def _publish(self, data: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:
        known = self._id
        self._id = known or f"routekit-{os.urandom(8).hex()}"
        self._output.show(data, id=self._id, update=known is not None, metadata=metadata)
        self._published, self._dirty = time.monotonic(), False

    def _wait(self, seconds: int) -> None:
        self._waited = seconds
        line = (
            f"{self._asked} is thinking… {seconds} s" if self._thinking else f"waiting for {self._asked}… {seconds} s"
        )
        grey = f'<span style="color:#888">{markup.escape(line)}</span>'
        self._publish({"text/plain": line, "text/html": grey})

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self, answer: Answer) -> None:
        """The whole answer, in its format."""
        if self._quiet:
            return
        data = markup.bundle(answer.text, self._format)
        if self._output.rich:
            if answer.text or self._id:
                self._publish(data, {"routekit": tag(answer.record)})
        elif self._format not in ("text", "markdown"):
            self._output.write(_ended(data["text/plain"]))
        else:
            self._output.write("" if answer.text.endswith("\n") else "\n")
        if self._format == "code":
            self._output.insert(data["text/plain"])

    def break_off(self, mark: str, *, route: str) -> None:
        """The answer stays as far as it came, and says that it ends there."""
        if self._quiet:
            return
        text = self.text
        if not self._output.rich:
            self._output.write(f"{'' if not text or text.endswith(chr(10)) else chr(10)}({mark})\n" if text else "")
        elif text:
            ends = {"text/markdown": f"\n\n*({mark})*"}
            growing = markup.growing(text, self._format)
            data = {kind: said + ends.get(kind, f"\n({mark})") for kind, said in growing.items()}
            self._publish(data, {"routekit": {"route": route, "ended": mark}})
        elif self._id:
            self._publish({"text/plain": "", "text/html": ""})


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def tag(record: RequestRecord) -> dict[str, Any]:
    """What a saved notebook tells of an answer: who gave it, in which request."""
    return {"route": record.reference, "served_by": record.served_by, "id": record.id}


def footer(record: RequestRecord, *, used: Sequence[str] = (), left: Sequence[str] = ()) -> list[str]:
    """Who answered, how long it took, what it cost; who else was meant to; what was put into the prompt."""
    passed = len(record.skipped)
    lines = [words.usage_line(record) + (f" · {passed} skipped" if passed else "")]
    if record.served_by is not None and record.why_not is not None:
        lines.append(f"not {record.first_choice}: {record.why_not}")
    lines += [f"used: {', '.join(used)}"] if used else []
    lines += [f"left as text: {_some(left)}"] if left else []
    return [*lines, *record.notes]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def as_magic(hint: str) -> str:
    """A shell command as it is typed in a cell."""
    head, _, rest = hint.partition(" ")
    if head == "export":
        # A variable of the kernel, not of a shell below it.
        return f"%env {rest}"
    if head != "routekit":
        return hint
    verb, _, tail = rest.partition(" ")
    return f"%route {tail}" if verb == "ask" else f"%{hint}"


class Shown(Answer):
    """An answer that a cell has shown already: it stays silent as that cell's value, and is itself later on."""

    def __init__(
        self, record: RequestRecord, screen: Screen, *, format: str, output: Output, shown: bool, data: Any
    ) -> None:
        super().__init__(record, screen.deltas, finish=screen.ending, data=data)
        self._format, self._output = format, output
        self._shown_in = output.shell.execution_count if shown else None

    def _ipython_display_(self) -> None:
        if self._shown_in is None or self._shown_in != self._output.shell.execution_count:
            # Not here: IPython goes on to the bundle below.
            raise NotImplementedError
        if not self._output.rich:
            # The output's number is on the terminal already: it is taken back where that can be done.
            sys.stdout.write("\r\x1b[K" if sys.stdout.isatty() else "(shown above)\n")

    def _repr_mimebundle_(self, **how: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return markup.bundle(self.text, self._format), {"routekit": tag(self.record)}
