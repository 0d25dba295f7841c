"""The line a person types at a terminal: keys, history, completion, the line below. It alone knows prompt-toolkit, and
loads it when it is made. It sends nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.value import Value
from ..errors import RoutekitError
from ..files import read_bounded, replaceable
from . import typed
from .complete import Choice

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.output import Output

#: a longer text is not kept in the history file
LONGEST = 20_000
#: beyond this many bytes the older half of the history file is let go
LARGEST = 2_000_000


class Given(Value):
    """``literal``: a paste of several lines, a message whatever it looks like. ``to_editor``: the person wants to go on
    in their editor."""

    text: str
    literal: bool = False
    to_editor: bool = False


class Line:
    """``read`` gives what was typed; raises ``EOFError`` for Ctrl-D and ``KeyboardInterrupt`` for Ctrl-C on an empty
    line. ``complete`` gives the choices for what stands before the cursor; ``below`` the text of the bottom line."""

    def __init__(
        self,
        *,
        vi: bool,
        history: str | None,
        complete: Callable[[str], Sequence[Choice]],
        below: Callable[[], str] | None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.enums import EditingMode
        from prompt_toolkit.output.defaults import create_output
        from prompt_toolkit.styles import Style

        #: the last paste, where it began the line: its text, and whether a fence was open before it
        self._pasted: tuple[str, bool] | None = None
        self._session: PromptSession[Given] = PromptSession(
            multiline=True,
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            history=_history(history),
            completer=_completer(complete),
            complete_while_typing=False,
            key_bindings=self._keys(),
            bottom_toolbar=below,
            prompt_continuation=lambda width, number, wrapped: " " * width,
            style=Style.from_dict({"bottom-toolbar": "noreverse fg:ansibrightblack", "prompt": "bold"}),
            input=input,
            # with an answer that goes elsewhere the terminal is stderr
            output=output or create_output(always_prefer_tty=True),
        )

    def read(self, prompt: str, *, draft: str = "") -> Given:
        self._pasted = None
        self._session.app.erase_when_done = False
        return self._session.prompt([("class:prompt", prompt)], default=draft)

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        from prompt_toolkit.filters import has_focus
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.keys import Keys

        keys = KeyBindings()
        typing = has_focus("DEFAULT_BUFFER")
        for names, act in (
            (("enter",), self._enter),
            (("escape", "enter"), _new_line),
            (("c-j",), _new_line),
            (("c-c",), _clear),
            (("<sigint>",), _clear),
            (("c-x", "c-e"), self._to_editor),
            ((Keys.BracketedPaste,), self._paste),
        ):
            keys.add(*names, filter=typing)(act)
        return keys

    def _enter(self, event: Any) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            # with the menu open Enter takes what is marked, and sends nothing yet
            buffer.complete_state = None
            return
        if self._goes_on(buffer):
            text = typed.joined(buffer.text)
            if text != buffer.text:
                buffer.delete_before_cursor(1)
            buffer.insert_text("\n")
            return
        self._give(event, to_editor=False)

    def _goes_on(self, buffer: Any) -> bool:
        if buffer.document.text_after_cursor.strip():
            return typed.in_fence(buffer.document.text_before_cursor)
        text = buffer.text
        if self._pasted is not None and text.endswith(self._pasted[0]):
            # What ends with a paste is whole: its backslash and its fences are its own.
            return self._pasted[1]
        return typed.goes_on(text)

    def _give(self, event: Any, *, to_editor: bool) -> None:
        buffer = event.current_buffer
        text = buffer.text
        pasted = self._pasted[0] if self._pasted else ""
        literal = "\n" in pasted and text.startswith(pasted)
        if not to_editor and text.strip() and not text.startswith(" "):
            buffer.append_to_history()
        event.app.erase_when_done = to_editor
        event.app.exit(result=Given(text=text, literal=literal, to_editor=to_editor))

    def _to_editor(self, event: Any) -> None:
        self._give(event, to_editor=True)

    def _paste(self, event: Any) -> None:
        buffer = event.current_buffer
        data = event.data.replace("\r\n", "\n").replace("\r", "\n")
        before = buffer.document.text_before_cursor
        self._pasted = (data, typed.in_fence(before))
        buffer.insert_text(data)


def _new_line(event: Any) -> None:
    event.current_buffer.insert_text("\n")


def _clear(event: Any) -> None:
    """What is typed is cleared; on an empty line the reader is told."""
    if event.current_buffer.text:
        event.current_buffer.reset()
    else:
        event.app.exit(exception=KeyboardInterrupt)


# --- history ----------------------------------------------------------------------------------------------------------


def _history(file: str | None) -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class Kept(FileHistory):
        """The file is its owner's alone; commands and lines that begin with a space stay out of it."""

        def load_history_strings(self) -> Any:
            return super().load_history_strings() if file is not None and os.access(file, os.R_OK) else []

        def store_string(self, string: str) -> None:
            if file is not None and typed.remembered(string) and len(string) <= LONGEST and _touch(file):
                super().store_string(string)

    if file is None:
        return InMemoryHistory()
    _shorten(file)
    return Kept(file)


def _touch(file: str) -> bool:
    """Whether the file can be added to. A history that cannot costs nobody a question."""
    try:
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        os.close(os.open(replaceable(file), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return False
    return True


def _shorten(file: str) -> None:
    """Let the older half of a long file go, and have it be its owner's alone."""
    from ..credentials.ledger import write_private

    try:
        if os.path.getsize(file) > LARGEST:
            content = read_bounded(file)
            half = content.find(b"\n# ", len(content) // 2)
            write_private(Path(file), content[half:] if half >= 0 else b"")
        os.chmod(file, 0o600)
    except (OSError, RoutekitError):
        # There may be none yet, or one that is not ours to change.
        return


def _completer(find: Callable[[str], Sequence[Choice]]) -> Completer:
    from prompt_toolkit.completion import Completer, Completion

    class Found(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:
            for choice in find(document.text_before_cursor):
                yield Completion(choice.text, start_position=-choice.length, display_meta=choice.help)

    return Found()
