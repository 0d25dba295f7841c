"""`routekit chat`: reads what a person types, or what is piped in, and has it asked or done until they leave.

It knows no key (`line`), no command (`acts`) and no vendor."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..commands.chat import Talk, talk
from ..commands.complete import candidates
from ..commands.report import Context
from ..errors import EX_OK, RoutekitError
from . import acts, complete, slash, typed
from .bottom import Bottom
from .chat import Chat, Terminal
from .line import Given, Line

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

Read = Callable[[str, str], Given]
HINT = "nothing to stop; Ctrl-D or /quit leaves"


def start(
    context: Context,
    given: Mapping[str, Any],
    *,
    terminal: Terminal,
    input: Input | None = None,
    output: Output | None = None,
) -> int:
    """The whole conversation; its exit code: 0 for a person who leaves, for a pipe how its last
    question or command went. ``input``
    and ``output`` are prompt-toolkit's, where they are not the process's own."""
    asked = dict(given)
    asked["resume"] = asked.pop("continue")
    keep, first = not asked.pop("no_history"), [*asked.pop("fragment"), *asked.pop("attachment")]
    router = context.router
    router.long_lived = True
    lent = Context(context.io, environ=context.environ, router=router, surface="repl")
    begun = talk(lent, **asked)
    chat = Chat(lent, begun.session, terminal, how=begun.how)
    shell = Shell(chat)
    if first:
        acts.file(chat, " ".join(f'"{path}"' for path in first))
    read = _pipe(sys.stdin) if not terminal.interactive else _person(chat, keep=keep, input=input, output=output)
    if terminal.interactive:
        _greet(chat, begun)
    try:
        shell.run(read)
    finally:
        chat.settle()
    return EX_OK if terminal.interactive else chat.failed


def _greet(chat: Chat, begun: Talk) -> None:
    if begun.resumed:
        acts.resumed(chat)
    else:
        chat.terminal.say(f"{acts.greeting(chat)} · /help")


class Shell:
    """The loop: one line, one deed. Nothing but leaving ends it."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        #: lines of ``!multi``, and the word that ends them
        self._lines: list[str] | None = None
        self._end = "!end"

    def run(self, read: Read) -> None:
        while not self.chat.left:
            try:
                draft, self.chat.draft = self.chat.draft, ""
                given = read(self._prompt(), draft)
            except EOFError:
                if self._lines is None:
                    return
                self._give_up("!multi was not ended; nothing was sent")
            except KeyboardInterrupt:
                if not self.chat.terminal.interactive:
                    raise
                self._give_up(HINT)
            else:
                self._guarded(given)

    def _give_up(self, words: str) -> None:
        was, self._lines = self._lines, None
        self.chat.terminal.note("!multi was left; nothing was sent" if was is not None else words)

    def _prompt(self) -> str:
        if self._lines is not None:
            return "… "
        return f"{self.chat.session.model or ''} {'❯' if _utf8() else '>'} "

    def _guarded(self, given: Given) -> None:
        """Whatever goes wrong, the person is back at the prompt with words for it."""
        try:
            self._take(given)
        except RoutekitError as error:
            self.chat.fail(error)
        except BrokenPipeError:
            raise
        except Exception as error:
            # A bug of ours must not cost the conversation.
            self.chat.failed = self.chat.terminal.bug(error)
        except KeyboardInterrupt:
            if not self.chat.terminal.interactive:
                raise
            self.chat.terminal.note("stopped")

    def _take(self, given: Given) -> None:
        if self._lines is not None:
            self._collect(given.text)
        elif given.to_editor:
            self.chat.draft = acts.edited(self.chat, given.text)
        else:
            self._do(typed.read(given.text, literal=given.literal))

    def _do(self, said: typed.Typed) -> None:
        if said.kind == "message":
            self.chat.ask(said.text)
        elif said.kind == "command":
            row = slash.find(said.name)
            if row.function == "multi":
                self._lines, self._end = [], f"!end {said.rest}".strip()
                return
            report = getattr(acts, row.function)(self.chat, said.rest.strip())
            if report is not None:
                self.chat.terminal.report(report)

    def _collect(self, text: str) -> None:
        assert self._lines is not None, "only while lines are taken"
        if text.strip() != self._end:
            self._lines.append(text)
            return
        whole, self._lines = "\n".join(self._lines), None
        if whole.strip():
            self.chat.ask(whole)


def _utf8() -> bool:
    return "utf" in (getattr(sys.stdout, "encoding", "") or "").lower()


# --- where lines come from --------------------------------------------------------------------------------------------


def _person(chat: Chat, *, keep: bool, input: Input | None, output: Output | None) -> Read:
    """Lines typed at a terminal: with keys, history and completion where it can move its cursor, else one by one."""
    if input is None and chat.context.environ.get("TERM", "") in ("dumb", "unknown"):
        return _plain(chat)
    wished = chat.router.config.repl
    line = Line(
        vi=wished.keys == "vi",
        history=chat.router.paths.history if keep and wished.history else None,
        complete=lambda before: complete.find(before, lambda kind, text: _names(chat, kind, text)),
        below=Bottom(chat).text if wished.toolbar else None,
        input=input,
        output=output,
    )
    return lambda prompt, draft: line.read(prompt, draft=draft)


def _plain(chat: Chat) -> Read:
    def read(prompt: str, draft: str) -> Given:
        if draft:
            chat.terminal.say(draft)
        sys.stderr.write(prompt)
        sys.stderr.flush()
        text = _joined(lambda first: input())
        return Given(text="\n".join(part for part in (draft, text) if part))

    return read


def _pipe(stream: Any) -> Read:
    """Lines of a pipe or a file: no prompt, no keys."""

    def line(first: bool) -> str:
        raw = stream.buffer.readline() if stream is not None else b""
        if not raw:
            raise EOFError
        return str(raw.decode("utf-8", "replace")).removesuffix("\n").removesuffix("\r")

    return lambda prompt, draft: Given(text="\n".join(part for part in (draft, _joined(line)) if part))


def _joined(line: Callable[[bool], str]) -> str:
    """One message: its lines, as long as it goes on. What the end of input breaks off is sent as it is."""
    text = line(True)
    while typed.goes_on(text):
        try:
            text = f"{typed.joined(text)}\n{line(False)}"
        except EOFError:
            return typed.joined(text)
    return text


# --- completion -------------------------------------------------------------------------------------------------------


def _names(chat: Chat, kind: str, text: str) -> Sequence[str]:
    """Names of a kind, for completion: whatever is wrong, there is just nothing to offer."""
    try:
        return NAMES[kind](chat, text) if kind in NAMES else candidates(chat.context, kind, text)
    except (RoutekitError, OSError):
        return ()


def _files(chat: Chat, text: str) -> list[str]:
    folder, begin = os.path.split(text)
    found = []
    for one in sorted(Path(os.path.expanduser(folder) or ".").iterdir()):
        if one.name.startswith(begin) and (begin.startswith(".") or not one.name.startswith(".")):
            found.append(os.path.join(folder, one.name) + ("/" if one.is_dir() else ""))
    return found


def _conversations(chat: Chat, text: str) -> list[str]:
    return [row.name or row.id for row in chat.router.log.conversations(limit=50)]


def _budgets(chat: Chat, text: str) -> list[str]:
    return list(dict.fromkeys(row.scope for row in chat.router.budgets()))


NAMES: Mapping[str, Callable[[Chat, str], Sequence[str]]] = {
    "files": _files,
    "conversations": _conversations,
    "budgets": _budgets,
}
