"""One answer while it happens: its text to stdout, everything that is said about it to stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..answer import gather_calls
from ..commands.report import Context
from ..commands.shapes import attempt_json, decision_json, error_json, record_json, usage_json
from ..core import words
from ..core.chat import Delta
from ..core.decide import Choice
from ..core.record import Attempt, RequestRecord
from ..errors import RoutekitError
from ..terminal.waiting import Waiting
from . import render
from .manner import Manner
from .papers import paper

#: the fields that ``--json`` begins with, before the answer
HEAD = ("schema_version", "id", "conversation_id", "model", "served_by")


class Screen:
    """``asked`` is the reference asked for, named while it is waited for."""

    def __init__(self, how: Manner, asked: str = "") -> None:
        self.how, self.asked = how, asked
        self.text: list[str] = []
        #: pieces of calls of tools
        self.called: list[Delta] = []
        self.record: RequestRecord | None = None
        self.waiting = Waiting(sys.stderr, how.err, asked)
        self.waiting.on = how.waits_visibly
        self.paper = paper(how, before=self.waiting.wipe)
        self._thinking = self._writing = False

    def take(self, step: Any) -> None:
        if isinstance(step, Delta):
            self._delta(step)
        elif isinstance(step, Choice):
            self._choice(step)
        elif isinstance(step, Attempt):
            self._attempt(step)
        elif isinstance(step, RequestRecord):
            self._end(step)
        else:
            self._note(step)

    # --- the answer -------------------------------------------------------------------------------------------------

    def _delta(self, delta: Delta) -> None:
        self._event("delta", {"kind": delta.kind, "text": delta.text, **_call(delta)})
        if delta.kind == "reasoning":
            self._think(delta.text)
        elif delta.kind == "tool":
            self.called.append(delta)
        elif delta.text:
            self._stop_thinking()
            self.text.append(delta.text)
            self.paper.feed(delta.text)
            self._told_growing()

    def _told_growing(self) -> None:
        """While a block grows that will be shown later, a line says so. Text that is shown at once needs none."""
        if not self.how.live or not self.waiting.on:
            return
        if not self.how.rendered:
            self.waiting.stop()
        elif not self._writing:
            self._writing = True
            self.waiting.restart("writing…")
        if not self.paper.growing:
            self.waiting.wipe()

    def _think(self, text: str) -> None:
        """Reasoning, where somebody sees it: dim, and on lines of its own."""
        if self.how.hide_reasoning or self.how.quiet or not (sys.stderr.isatty() and self.how.live):
            return
        if self.how.events:
            return
        self.waiting.stop()
        self._thinking = True
        render.dim(text, colour=self.how.err.colour)

    def _stop_thinking(self) -> None:
        if self._thinking:
            self._thinking = False
            render.complain("")
            self.waiting.on = self.how.waits_visibly

    # --- what is said about it ----------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        self.waiting.wipe()
        render.note(text)

    def _note(self, step: Any) -> None:
        """What happens besides. That a key could not be read is said by the line that names who served instead."""
        text = getattr(step, "text", "")
        if not text:
            return
        self._event("note", {"kind": step.kind, "text": text})
        if not self.how.quiet and (step.kind != "credential" or self.how.verbose):
            self.say(text)

    def _choice(self, choice: Choice) -> None:
        self.waiting.what = f"{self.asked} → {choice.path[-1].chosen}" if choice.path else self.asked
        for row in choice.path:
            self._event("decision", decision_json(row))
            if self.how.explain:
                self.say(words.decision_line(row))

    def _attempt(self, attempt: Attempt) -> None:
        self._event("attempt", attempt_json(attempt))
        if self.how.verbose or self.how.explain:
            self.pause()
            self.say(words.attempt_line(attempt))

    def pause(self) -> None:
        """Whatever was being shown ends its line, and what was kept back is shown."""
        self._stop_thinking()
        self.waiting.wipe()
        self.paper.rest()

    def _end(self, record: RequestRecord) -> None:
        self.record = record
        self._stop_thinking()
        self.waiting.stop()
        self.paper.end()
        if self.how.json:
            render.write(render.dumps(self._whole(record)) + "\n")
        calls = gather_calls(self.called)
        self._event("usage", usage_json(record))
        self._event("done", {**record_json(record), **({"tool_calls": calls} if calls else {})})
        if self.how.quiet:
            return
        for call in calls:
            render.note(call_line(call))
        line = words.served_line(record)
        for text in [*([line] if line else []), *record.notes]:
            render.note(text)
        if self.how.usage:
            render.complain(words.usage_line(record))

    def _whole(self, record: RequestRecord) -> dict[str, Any]:
        body = record_json(record)
        head = {key: body.pop(key) for key in HEAD}
        calls = gather_calls(self.called)
        said = {"response": "".join(self.text), **({"tool_calls": calls} if calls else {})}
        return {**head, **said, **self._data(), **body}

    def _data(self) -> dict[str, Any]:
        """What a schema asked for, read: the answer fits it, or would not be here. A refusal holds none."""
        if not self.how.data:
            return {}
        import msgspec

        from ..schema import bare

        try:
            return {"data": msgspec.json.decode(bare("".join(self.text)))}
        except (msgspec.DecodeError, RecursionError):
            return {"data": None}

    def _event(self, event: str, fields: Mapping[str, Any]) -> None:
        """``fields`` is one mapping: what a vendor calls its own may be called as any parameter here."""
        if self.how.events:
            self.waiting.stop()
            render.write(render.line({"event": event, **fields}) + "\n")

    # --- failure ------------------------------------------------------------------------------------------------------

    def failed(self, context: Context, error: RoutekitError) -> None:
        """The failed request, where JSON was asked for."""
        body = self._failure(context, error)
        if self.how.events:
            body.pop("response", None)
            self._event("done", body)
        else:
            render.write(render.dumps(body) + "\n")

    def _failure(self, context: Context, error: RoutekitError) -> dict[str, Any]:
        """Its record, or the error alone when it never came to one."""
        alone = error_json(error)
        record = context.router.last_record()
        if record is None or record.error is None:
            return alone
        response = "".join(self.text) or alone["response"]
        return {**record_json(record), "response": response, "error": alone["error"]}


def _call(delta: Delta) -> dict[str, Any]:
    if delta.kind != "tool":
        return {}
    return {"index": delta.index, "id": delta.id, "name": delta.name}


#: how much of a call's arguments is worth a person's line
SHOWN = 200


def call_line(call: Mapping[str, Any]) -> str:
    """A call of a tool in one line: its arguments as they came, which need not be JSON."""
    name, arguments = call["function"]["name"], " ".join(call["function"]["arguments"].split())
    arguments = arguments if len(arguments) <= SHOWN else arguments[: SHOWN - 1] + "…"
    return f"the model calls the tool {name or '(unnamed)'}: {arguments}"
