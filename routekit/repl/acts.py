"""What each command of the conversation does. What exists as a verb of the shell is that verb; nothing is asked here
but through the chat."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from typing import Any

from ..answer import fenced
from ..attachments import attachment
from ..commands import budget as budgets
from ..commands import health as healths
from ..commands import routes
from ..commands import why as whys
from ..commands.ask import question
from ..commands.report import Lines, Report, Table, lines
from ..core.words import ago, plural
from ..errors import UsageError
from ..files import read_bounded
from ..session import Session
from . import clipboard, slash
from .chat import Chat, Spent
from .typed import words

#: how much of a text is shown where it is only named
SHOWN = 60
#: the largest text that goes with a message, in bytes
LARGEST = 4 * 1024 * 1024
LATEST = 10


# --- what is asked, and how -------------------------------------------------------------------------------------------


def model(chat: Chat, rest: str) -> Report | None:
    if not rest:
        return lines(greeting(chat), hints=("/model ID", "routekit models list"))
    named = _one(rest, "model")
    chat.router.plan(named)
    chat.session.model = named
    chat.terminal.say(greeting(chat))
    return None


def greeting(chat: Chat) -> str:
    """``chat · ordered over 3 candidates``; a pinned target is its own name."""
    plan = chat.router.plan(chat.model)
    count = len(plan.leaves)
    how = f"{plan.root.algorithm} over {plural(count, 'candidate')}" if count > 1 else plan.leaves[0].label
    return chat.model if how == chat.model else f"{chat.model} · {how}"


def system(chat: Chat, rest: str) -> Report | None:
    if rest:
        chat.session.system = None if rest == "-" else rest
        chat.terminal.say("system prompt set" if rest != "-" else f"system prompt: {_system(chat)}")
        return None
    return lines(_system(chat))


def _system(chat: Chat) -> str:
    if chat.session.system is not None:
        return chat.session.system
    default = chat.router.config.defaults.system
    return f"{default}  (of the config)" if default else "none"


def option(chat: Chat, rest: str) -> Report | None:
    name, _, value = rest.partition(" ")
    value = value.strip()
    if not name:
        return _options(chat.session.options)
    if not value:
        return _options({key: said for key, said in chat.session.options.items() if key == name})
    if value == "-":
        chat.session.options.pop(name, None)
        return None
    read = question(chat.context, prompt="?", option=[(name, value)])
    chat.session.options.update(read.how["options"])
    return None


def _options(found: Mapping[str, Any]) -> Report:
    rows = tuple((name, str(value)) for name, value in found.items())
    return Report(blocks=(Table(columns=("", ""), rows=rows, empty="No option is set."),))


def show(chat: Chat, rest: str) -> Report:
    session = chat.session
    count = len(session.entries)
    rows = [
        ("model", greeting(chat)),
        ("system prompt", _short(_system(chat))),
        *((f"option {name}", str(value)) for name, value in session.options.items()),
        ("next message", f"with {', '.join(chat.pending)}" if chat.pending else ""),
        ("conversation", f"{session.id}, {plural(count, 'question')}"),
        ("log", "on" if session.logging else "off"),
    ]
    return Report(blocks=(Table(columns=("", ""), rows=tuple(row for row in rows if row[1])),))


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN else flat[: SHOWN - 1] + "…"


# --- what goes with the next message ----------------------------------------------------------------------------------


def file(chat: Chat, rest: str) -> None:
    """Text goes before the message under its name, images and PDFs beside it."""
    named = words(rest)
    if not named:
        raise UsageError("/file needs a path", hints=["/file PATH..."])
    found = [path for word in named for path in _paths(word)]
    texts, parts = [], []
    for path in found:
        content = _text(path)
        if content is None:
            parts.append((path, attachment(path)))
        else:
            texts.append((path, _framed(path, content)))
    chat.texts += texts
    chat.parts += parts
    _say_pending(chat)


def _paths(word: str) -> list[str]:
    if word.startswith(("http://", "https://")):
        return [word]
    path = os.path.expanduser(word)
    return sorted(glob.glob(path, recursive=True)) or [path] if glob.has_magic(path) else [path]


def _text(path: str) -> str | None:
    """A file's text; ``None`` for what is none. Raises ``UsageError`` for what cannot be read."""
    if path.startswith(("http://", "https://")):
        return None
    try:
        if os.path.isdir(path):
            raise UsageError(f"{path} is a folder", hints=[f"/file {path.rstrip('/')}/*"])
        content = read_bounded(path, opened=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if b"\0" in content[:4096] or content.startswith(b"%PDF-"):
        return None
    if len(content) > LARGEST:
        raise UsageError(f"{path} is larger than {LARGEST // 1024 // 1024} MB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _framed(path: str, content: str) -> str:
    """The text in a fence longer than any in it, under its file's name."""
    longest = max((len(line) - len(line.lstrip("`")) for line in content.split("\n")), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{path}:\n{fence}\n{content.rstrip()}\n{fence}"


def image(chat: Chat, rest: str) -> None:
    path = _one(rest, "image")
    part = attachment(os.path.expanduser(path) if "://" not in path else path)
    if part["type"] != "image_url":
        raise UsageError(f"{path} is no image", hints=[f"/file {path}"])
    chat.parts.append((path, part))
    _say_pending(chat)


def paste(chat: Chat, rest: str) -> None:
    environ = chat.context.environ
    found = clipboard.picture(environ)
    if found is not None:
        chat.parts.append(("an image of the clipboard", attachment(found)))
        _say_pending(chat)
        return
    chat.draft = clipboard.text(environ)


def _say_pending(chat: Chat) -> None:
    chat.terminal.say(f"with the next message: {', '.join(chat.pending)}")


def edit(chat: Chat, rest: str) -> None:
    """What the editor leaves is sent; an empty file sends nothing."""
    text = edited(chat, rest)
    if not text.strip():
        chat.terminal.say("nothing was written, so nothing is sent")
        return
    if chat.terminal.interactive:
        chat.terminal.say(text)
    chat.ask(text)


def edited(chat: Chat, text: str) -> str:
    """A text as the person's editor leaves it. Raises ``UsageError``."""
    from ..commands.editor import compose

    return compose(chat.context, text)


# --- the conversation -------------------------------------------------------------------------------------------------


def retry(chat: Chat, rest: str) -> None:
    named = words(rest)
    flags = ("-m", "--model")
    if named and (len(named) != 2 or named[0] not in flags):
        raise UsageError("/retry takes -m ID, or nothing", hints=["/retry -m ID"])
    chat.retry(named[1] if named else None)


def undo(chat: Chat, rest: str) -> None:
    chat.settle()
    gone = chat.session.undo()
    chat.terminal.say(f"taken back: {_short(gone.question)}")


def new(chat: Chat, rest: str) -> None:
    chat.renew(chat.another())
    chat.texts, chat.parts = [], []
    chat.terminal.say(f"a new conversation · {greeting(chat)}")


def copy(chat: Chat, rest: str) -> None:
    import sys

    if rest not in ("", "code"):
        raise UsageError("/copy takes 'code', or nothing", hints=["/copy code"])
    last = chat.last
    if last is None or not last.answer:
        raise UsageError("there is no answer to copy yet")
    blocks = fenced(last.answer)
    if rest and not blocks:
        raise UsageError("the last answer has no fenced block", hints=["/copy"])
    text = blocks[-1] if rest else last.answer
    by = clipboard.copy(text, environ=chat.context.environ, terminal=sys.stderr)
    chat.terminal.say(f"copied {plural(len(text), 'character')} ({by})")


def why(chat: Chat, rest: str) -> Report:
    if rest:
        return whys.why(chat.context, id=_one(rest, "why"))
    if chat.record is None:
        raise UsageError("nothing has been asked in this conversation yet", hints=["routekit why"])
    return whys.why(chat.context, id=chat.record.id)


def preview(chat: Chat, rest: str) -> Report:
    return routes.preview(chat.context, id=_one(rest, "preview") if rest else chat.model)


def health(chat: Chat, rest: str) -> Report:
    return healths.listing(chat.context)


def budget(chat: Chat, rest: str) -> Report:
    return budgets.show(chat.context, id=_one(rest, "budget")) if rest else budgets.listing(chat.context)


def usage(chat: Chat, rest: str) -> Report:
    """Answer by answer what was used, and the sum. What was taken back was used as well."""
    chat.settle()
    rows = tuple(_used(row) for row in chat.spent.values())
    columns = ("answered by", "in", "out", "cached", "money")
    table = Table(columns=columns, rows=rows, empty="Nothing has been answered yet.")
    together = " · ".join(part for part in (chat.tokens, chat.money) if part)
    return Report(blocks=(table, Lines(text=(f"together: {together}",))) if rows else (table,))


def _used(row: Spent) -> tuple[str, ...]:
    money = f"${row.cost}" if row.cost is not None else ""
    used = row.usage
    if used is None:
        return (row.who, "?", "?", "", money)
    about = "~" if used.estimated else ""
    return (
        row.who,
        f"{about}{used.input_tokens}",
        f"{about}{used.output_tokens}",
        str(used.cached_tokens or ""),
        money,
    )


def save(chat: Chat, rest: str) -> None:
    chat.settle()
    if not chat.session.entries:
        raise UsageError("there is nothing to save: nothing has been answered yet")
    id = chat.session.save(rest or None)
    chat.terminal.say(f"kept in the log as {rest or id}")


def load(chat: Chat, rest: str) -> Report | None:
    chat.settle()
    if not rest:
        return _conversations(chat)
    now = chat.session
    chat.renew(Session.load(chat.router, rest, options=now.options, log=now.log, place=now.place))
    resumed(chat)
    return None


def resumed(chat: Chat) -> None:
    """Where an older conversation stands: its last question, and who answered."""
    last = chat.session.last
    count = plural(len(chat.session.entries), "question")
    chat.terminal.say(f"going on with {chat.session.id} · {count} · {greeting(chat)}")
    if last is not None:
        chat.terminal.say(f"  last asked {ago(last.time, chat.router.now())}: {_short(last.question)}")


def _conversations(chat: Chat) -> Report:
    now = chat.router.now()
    found = chat.router.log.conversations(limit=LATEST)
    rows = tuple(
        (row.name or row.id, ago(row.used, now), plural(row.entries, "question"), _first(chat, row.id)) for row in found
    )
    return Report(blocks=(Table(columns=("", "", "", ""), rows=rows, empty="The log holds no conversation."),))


def _first(chat: Chat, id: str) -> str:
    entries = chat.router.log.entries(conversation=id, limit=1)
    return _short(entries[0].question) if entries else ""


def log(chat: Chat, rest: str) -> None:
    if rest not in ("", "on", "off"):
        raise UsageError("/log takes on or off", hints=["/log off"])
    if rest:
        chat.session.log = rest == "on"
    chat.terminal.say(f"this conversation is {'kept' if chat.session.logging else 'not kept'} in the log from here on")


# --- about this place -------------------------------------------------------------------------------------------------


def multi(chat: Chat, rest: str) -> None:
    raise UsageError("/multi is for lines typed one by one", hints=["Alt-Enter begins a new line"])


def help(chat: Chat, rest: str) -> Report:
    if rest:
        row = slash.find(rest.lstrip("/"))
        also = f"  (also {', '.join(f'/{name}' for name in row.names[1:])})" if row.names[1:] else ""
        return lines(row.usage + also, f"  {row.help}")
    commands = Table(columns=("", ""), rows=tuple((row.usage, row.help) for row in slash.COMMANDS))
    keys = Table(columns=("", ""), rows=slash.KEYS)
    return Report(blocks=(commands, Lines(text=("",)), keys))


def quit(chat: Chat, rest: str) -> None:
    chat.left = True


def _one(rest: str, name: str) -> str:
    found = words(rest)
    if len(found) != 1:
        wanted = slash.find(name).arguments.strip("[]")
        raise UsageError(f"/{name} takes one {wanted}", hints=[f"/help {name}"])
    return found[0]
