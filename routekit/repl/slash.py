"""The commands of the conversation, as rows: names, arguments, help, completion. What each does is in `acts`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ..core.value import Value
from ..errors import UsageError


class Command(Value):
    """``names`` are typed after a slash, the first being its own; ``function`` is in ``acts``. ``completes``: the kind
    of its first argument, of its second …, the last one standing for all further ones."""

    names: tuple[str, ...]
    help: str
    function: str
    arguments: str = ""
    completes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.arguments}".rstrip()


COMMANDS: tuple[Command, ...] = (
    Command(
        names=("model",),
        arguments="[ID]",
        help="Ask this route or model from now on; alone: which one it is.",
        function="model",
        completes=("references",),
    ),
    Command(
        names=("system",),
        arguments="[TEXT]",
        help="Set the system prompt ('-' for none); alone: show it.",
        function="system",
    ),
    Command(
        names=("set",),
        arguments="[OPTION [VALUE]]",
        help="Set a model option ('-' unsets it); alone: show all.",
        function="option",
        completes=("options", "values"),
    ),
    Command(names=("show",), help="Model, system prompt, options, files, log: everything in force.", function="show"),
    Command(
        names=("file", "fragment"),
        arguments="PATH...",
        help="Send these with the next message: text, images, PDFs.",
        function="file",
        completes=("files",),
    ),
    Command(
        names=("image",),
        arguments="PATH",
        help="Send this image (path or address) with the next message.",
        function="image",
        completes=("files",),
    ),
    Command(names=("paste",), help="Take what is on the clipboard: text to edit, or an image.", function="paste"),
    Command(
        names=("edit",),
        arguments="[TEXT]",
        help="Write the message in $VISUAL or $EDITOR; it is sent when the editor closes.",
        function="edit",
    ),
    Command(
        names=("retry",),
        arguments="[-m ID]",
        help="Ask the last question again, perhaps of another; the new answer takes the old one's place.",
        function="retry",
        completes=("flag -m", "references"),
    ),
    Command(names=("undo",), help="Take the last question and its answer back.", function="undo"),
    Command(names=("new",), help="Begin a new conversation, same model and settings.", function="new"),
    Command(
        names=("copy",),
        arguments="[code]",
        help="Copy the last answer, or its last fenced block, to the clipboard.",
        function="copy",
        completes=("word code",),
    ),
    Command(
        names=("why",),
        arguments="[ID]",
        help="Why the last question (or that request) was answered by whom it was.",
        function="why",
    ),
    Command(
        names=("preview",),
        arguments="[ID]",
        help="Who would be asked now, and why not the others.",
        function="preview",
        completes=("references",),
    ),
    Command(names=("health",), help="Who sleeps, why, and for how long.", function="health"),
    Command(names=("usage",), help="Tokens, time and money of this conversation.", function="usage"),
    Command(
        names=("budget",),
        arguments="[ID]",
        help="What is spent, reserved and left of each budget.",
        function="budget",
        completes=("budgets",),
    ),
    Command(
        names=("save",), arguments="[NAME]", help="Keep the conversation in the log, under a name.", function="save"
    ),
    Command(
        names=("load",),
        arguments="[NAME]",
        help="Go on with a conversation of the log; alone: list the latest.",
        function="load",
        completes=("conversations",),
    ),
    Command(
        names=("log",),
        arguments="[on|off]",
        help="Whether this conversation is kept in the log.",
        function="log",
        completes=("word on off",),
    ),
    Command(
        names=("multi",),
        arguments="[WORD]",
        help="Take lines as they are until !end [WORD].",
        function="multi",
    ),
    Command(
        names=("help", "?"),
        arguments="[COMMAND]",
        help="This list, and the keys; or one command.",
        function="help",
        completes=("commands",),
    ),
    Command(names=("quit", "exit", "q"), help="Leave. So does Ctrl-D.", function="quit"),
)

KEYS = (
    ("Enter", "send; after a backslash, or in an open ``` fence: a new line"),
    ("Alt-Enter, Ctrl-J", "a new line"),
    ("Ctrl-C", "stop the answer and keep what came; clear what is typed"),
    ("Ctrl-D", "leave"),
    ("Up, Ctrl-R", "history, search it"),
    ("Ctrl-X Ctrl-E", "edit what is typed in $VISUAL or $EDITOR"),
    ("Tab", "complete commands and their arguments"),
    ("//text", "send a text that begins with a slash"),
)


def names() -> list[str]:
    """Every name, the usual one of each command first."""
    return [*(row.name for row in COMMANDS), *(name for row in COMMANDS for name in row.names[1:])]


def find(name: str) -> Command:
    """Raises ``UsageError`` with the nearest names. A beginning is no name: what is not a command is never guessed."""
    for row in COMMANDS:
        if name in row.names:
            return row
    if not name:
        raise UsageError("which command? commands begin with a slash", hints=["/help"])
    raise UsageError(f"unknown command /{name}{_near(name, names())}", hints=[f"//{name} …  (to send it)", "/help"])


def _near(name: str, known: Sequence[str]) -> str:
    begin = [word for word in known if len(name) > 1 and word.startswith(name)]
    near = begin or difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(f'/{word}' for word in near)}?" if near else ""
