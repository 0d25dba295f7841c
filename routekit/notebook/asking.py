"""One question from a cell: its line read, its names replaced, played, shown, kept. Routing is none of its business."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from typing import Any

from ..answer import Answer
from ..commands import ask as command
from ..core.chat import Delta
from ..errors import RoutekitError, TruncatedAnswer, UsageError
from . import options
from .display import Output, Screen, Shown, footer
from .interpolate import Filled, fill
from .play import Interrupted, play

ABOUT_ERROR = "Explain this error and how to fix it."
#: formats that are only good when whole: a broken answer may start again elsewhere
HELD = ("json", "html", "math")


class Asking:
    """What one magic call asks. It lives for that call."""

    def __init__(self, companion: Any, line: str, cell: str | None, local: Mapping[str, Any]) -> None:
        self.companion, self.shell = companion, companion.shell
        self.output = Output(self.shell)
        self.look = companion.namespace(local)
        rows = options.route_options()
        read = options.read(line, rows)
        self.raw = any(row.name == "raw" for row, _ in read.options)
        self.given = options.settle(read, rows, lambda text: self._filled(text).text)
        self.prompt = read.rest
        if cell is not None:
            self._cell(read.rest, cell)

    def _cell(self, rest: str, cell: str) -> None:
        """``%%route [MODEL] [options]``, in any order; the prompt is below."""
        named, rest = (*rest.split(None, 1), "", "")[:2]
        if rest:
            rows = options.route_options()
            more = options.read(rest, rows)
            if more.rest:
                raise UsageError(
                    f"%%route takes one model, and the prompt below it; '{more.rest}' is neither",
                    hints=["%route your question   (one line, one percent sign)"],
                )
            self.raw = self.raw or any(row.name == "raw" for row, _ in more.options)
            later = options.settle(more, rows, lambda text: self._filled(text).text)
            unset = options.settle(options.Line(), rows)
            self.given |= {name: value for name, value in later.items() if value != unset[name]}
        if named:
            self.given["model"] = self._filled(named).text
        self.prompt = self.companion.typed_body(cell)

    def _filled(self, text: str) -> Filled:
        return Filled(text=text) if self.raw else fill(text, self.look)

    # --- asking -------------------------------------------------------------------------------------------------------

    def run(self) -> Any:
        given = self.given
        into = given["into"]
        if into and (not into.isidentifier() or keyword.iskeyword(into)):
            raise UsageError(f"--into '{into}' is no name for a variable")
        context = self.companion.context()
        filled = self._with_error() if given["error"] else self._filled(self.prompt)
        asked = {name: value for name, value in given.items() if name not in options.SHOWN}
        if given["dry_run"]:
            return self._preview(context)
        question = command.question(context, prompt=filled.text, **asked)
        answer = self._answer(context, question, filled)
        if into:
            self.shell.user_ns[into] = answer
        return answer

    def _with_error(self) -> Filled:
        """The last exception, the cell it came from, and what is asked about it."""
        found = self.companion.cells.last_failure()
        if found is None:
            raise UsageError("nothing has failed in this session", hints=["%route your question"])
        asked = self._filled(self.prompt)
        parts = [asked.text.strip() or ABOUT_ERROR, f"```\n{found.trace}\n```"]
        parts += [f"The cell:\n\n```python\n{found.source.rstrip()}\n```"] if found.source else []
        text = self.companion.router().clean("\n\n".join(parts))
        return Filled(text=text, used=(*asked.used, f"the last error ({found.head[:80]})"), left=asked.left)

    def _preview(self, context: Any) -> None:
        from ..commands.routes import preview
        from .reports import show

        given = {"id": self.given["model"], "only": self.given.get("only")}
        show(self.output, preview(context, **given), path=("routes", "preview"), context=context, given=given)

    def _format(self) -> str:
        """As said; else what other options mean; else Markdown, or plain text on a terminal."""
        meant = (("schema", "json"), ("schema_multi", "json"), ("extract_last", "last code"), ("extract", "code"))
        chosen = self.given["format"] or next((format for name, format in meant if self.given.get(name)), "")
        chosen = chosen or ("markdown" if self.output.rich else "text")
        return "markdown" if chosen == "md" else str(chosen)

    def _happenings(self, router: Any, question: command.Question, *, live: bool) -> tuple[str, Any]:
        """What is asked, and how it goes: within the notebook's conversation, or alone."""
        from ..state.conversations import Place

        how = dict(question.how) | {"live": live, "log": self.given.get("log")}
        if self.given["continue"] or self.given.get("cid"):
            session = self.companion.session(self.given.get("cid"))
            session.model = question.model or session.model
            model = session.model or router.default_model()
            return model, session.run(question.prompt, **how | {"model": model})
        model = question.model or router.default_model()
        how |= {"keep": self._keep, "place": Place(surface="notebook")}
        return model, router.run(question.prompt, model=model, **how)

    def _keep(self, entry: Any) -> None:
        self.companion.alone = entry

    def _answer(self, context: Any, question: command.Question, filled: Filled) -> Answer:
        given, router = self.given, context.router
        format, quiet = self._format(), bool(given["quiet"])
        if not quiet:
            self.output.lines(self.companion.notices())
        wanted = question.how.get("schema")
        live = not quiet and format not in HELD
        model, happenings = self._happenings(router, question, live=live)
        screen = Screen(self.output, asked=model, format=format, quiet=quiet)
        try:
            play(happenings, background=router.background, screen=screen)
        except Interrupted:
            screen.break_off("interrupted", route=model)
            raise
        except RoutekitError as error:
            screen.break_off("cut off" if isinstance(error, TruncatedAnswer) else "failed", route=model)
            raise
        data = wanted.read(screen.text) if wanted is not None and _is_text(screen.deltas) else None
        return self._shown(screen, filled, format=format, data=data)

    def _shown(self, screen: Screen, filled: Filled, *, format: str, data: Any) -> Answer:
        record = screen.record
        if record is None:
            raise RoutekitError("the request ended without its record")
        quiet = bool(self.given["quiet"])
        answer = Shown(record, screen, format=format, output=self.output, shown=not quiet, data=data)
        screen.finish(answer)
        steps = screen.steps if self.given["explain"] else []
        if not quiet or self.given["usage"]:
            small = footer(record, used=filled.used, left=filled.left)
            self.output.lines([*steps, *small, *(line for line in screen.told if line not in small)])
        return answer


def _is_text(deltas: Sequence[Delta]) -> bool:
    return not any(delta.kind in ("tool", "refusal") for delta in deltas)
