"""``logs``: what was asked and answered, listed, searched, shown and removed. It asks nobody, and shows what the log
holds and no more."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from ..core.words import ago, plural
from ..errors import UsageError
from ..router import Router
from ..state.conversations import Conversation, Entry
from .ask import place
from .report import Context, Lines, Report, Table, lines
from .shapes import iso, moment, money

#: how many entries are listed unless said otherwise
LISTED = 20
#: how much of a question a list shows
SHOWN = 60


def listing(
    context: Context,
    *,
    query: str | None = None,
    model: str | None = None,
    count: int | None = None,
    conversation: bool = False,
    cid: str | None = None,
    response: bool = False,
    usage: bool = False,
    json: bool = False,
) -> Report:
    """The newest entries, the newest last. ``response``: the answers alone, only the last one unless a count is
    given."""
    if count is not None and count < 0:
        raise UsageError("-n takes how many entries to show; 0 shows all", hints=["routekit logs list -n 5"])
    router = context.router
    limit = count if count is not None else 1 if response else LISTED
    talk = _conversation(context, conversation, cid)
    with context.busy("searching") if query else nullcontext():
        found = router.log.entries(conversation=talk, model=model, query=query, limit=limit or None)
    data = [_data(entry) for entry in found]
    if response:
        return Report(blocks=(Lines(text=tuple(entry.answer for entry in found)),), data=data, notes=_told(router))
    columns = ("id", "when", "asked for", "served by", *(("tokens", "money") if usage else ()), "question")
    table = Table(
        columns=columns,
        rows=tuple(_row(entry, now=router.now(), usage=usage) for entry in found),
        empty="Nothing in the log fits." if query or model else "Nothing is in the log yet.",
    )
    return Report(blocks=(table,), data=data, notes=_told(router))


def _conversation(context: Context, last: bool, cid: str | None) -> str | None:
    if cid is not None:
        return context.router.log.find(cid).id
    if not last:
        return None
    found = context.router.log.last(place(context))
    if found is None:
        raise UsageError("no conversation was had in this terminal or this directory", hints=["routekit logs list"])
    return found.id


def _row(entry: Entry, *, now: float, usage: bool) -> tuple[str, ...]:
    question = " ".join(entry.question.split())
    marks = "".join(mark for mark, is_so in (("✂ ", entry.partial), ("↶ ", entry.undone)) if is_so)
    spent = (_tokens(entry), f"${entry.cost}" if entry.cost is not None else "") if usage else ()
    return (
        entry.id,
        ago(entry.time, now),
        entry.reference,
        entry.served_by or "",
        *spent,
        marks + (question if len(question) <= SHOWN else question[: SHOWN - 1] + "…"),
    )


def _tokens(entry: Entry) -> str:
    usage = entry.usage
    return f"{'~' if usage.estimated else ''}{usage.input_tokens}→{usage.output_tokens}" if usage else ""


def show(context: Context, *, id: str, response: bool = False, json: bool = False) -> Report:
    """One entry, or a whole conversation by its id or name."""
    entries = _found(context.router, id)
    data: Any = [_data(entry, whole=True) for entry in entries]
    if response:
        return Report(blocks=(Lines(text=tuple(entry.answer for entry in entries)),), data=data)
    text: list[str] = []
    for entry in entries:
        text += [*([""] if text else []), *_story(entry)]
    return Report(blocks=(Lines(text=tuple(text)),), data=data, notes=_told(context.router))


def _found(router: Router, id: str) -> list[Entry]:
    try:
        return [router.log.show(id)]
    except UsageError as error:
        try:
            conversation = router.log.find(id)
        except UsageError:
            raise error from None
        return router.log.entries(conversation=conversation.id)


def _story(entry: Entry) -> list[str]:
    parts = [
        entry.id,
        moment(entry.time),
        f"{entry.reference} → {entry.served_by}",
        f"{_tokens(entry)} tok" if entry.usage else "",
        f"${entry.cost}" if entry.cost is not None else "",
        "cut short" if entry.partial else "",
        "taken back" if entry.undone else "",
    ]
    system = [f"system: {entry.system}", ""] if entry.system else []
    head = f"# {' · '.join(part for part in parts if part)}"
    return [head, f"  conversation {entry.conversation}", "", *system, *_asked(entry), "", entry.answer.rstrip("\n")]


def _asked(entry: Entry) -> list[str]:
    attached = sum(part.get("type") != "text" for message in entry.prompt for part in _parts(message.content))
    text = [f"> {line}".rstrip() for line in entry.question.split("\n")]
    return [*text, *([f"> [{plural(attached, 'attachment')}]"] if attached else [])]


def _parts(content: Any) -> Sequence[Any]:
    return content if isinstance(content, tuple) else ()


def _data(entry: Entry, *, whole: bool = False) -> dict[str, Any]:
    """``llm``'s field names where the meaning is the same."""
    usage = entry.usage
    data = {
        "id": entry.id,
        "conversation_id": entry.conversation,
        "datetime_utc": iso(entry.time),
        "model": entry.reference,
        "served_by": entry.served_by,
        "prompt": entry.question,
        "system": entry.system,
        "response": entry.answer,
        "finish_reason": entry.finish_reason,
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cost": money(entry.cost),
        "partial": entry.partial,
        "undone": entry.undone,
    }
    more = {"reasoning": entry.thoughts or None, "options_json": dict(entry.options), "schema": entry.schema}
    return {**data, **more} if whole else data


def remove(
    context: Context,
    *,
    id: str | None = None,
    older_than: float | None = None,
    all: bool = False,
    json: bool = False,
) -> Report:
    """Entries, a conversation, or all that is old enough: overwritten, not only forgotten."""
    said = [what for what, given in (("ID", id is not None), ("--older-than", older_than), ("--all", all)) if given]
    if len(said) != 1:
        what = "say what to remove" if not said else f"{' and '.join(said)}: give one of them"
        raise UsageError(what, hints=["routekit logs rm ID", "routekit logs rm --older-than 30d"])
    log = context.router.log
    before = None if older_than is None else context.router.now() - older_than
    gone = log.remove(id, before=before)
    return lines(
        f"removed {_entries(gone)}",
        data={"removed": gone},
    )


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def switch_on(context: Context) -> Report:
    router = context.router
    router.switch_log(True)
    if router.config.log.conversations:
        return lines("questions and answers are kept from now on", data={"on": True})
    return lines(
        "the configuration says that questions and answers are not kept",
        data={"on": False},
        exit_code=1,
        hints=["routekit config set log.conversations true"],
    )


def switch_off(context: Context) -> Report:
    context.router.switch_log(False)
    return lines(
        "questions and answers are no longer kept; what is in the log stays",
        data={"on": False},
        hints=["routekit logs rm --all"],
    )


def status(context: Context, *, json: bool = False) -> Report:
    router = context.router
    stats = router.log.stats()
    on = router.logging
    why = "" if on else " (by configuration)" if not router.config.log.conversations else " (by routekit logs off)"
    text = [
        f"logging is {'on' if on else 'off'}{why}",
        f"{router.paths.conversations}: {_entries(stats.entries)} in {plural(stats.conversations, 'conversation')}, "
        f"{stats.bytes / 1e6:.1f} MB" + (f", the oldest {ago(stats.oldest, router.now())}" if stats.oldest else ""),
    ]
    data = {
        "on": on,
        "file": str(router.paths.conversations),
        "entries": stats.entries,
        "conversations": stats.conversations,
        "bytes": stats.bytes,
        "oldest": iso(stats.oldest),
    }
    return Report(blocks=(Lines(text=tuple(text)),), data=data, notes=_told(router))


def path(context: Context) -> Report:
    file = str(context.router.paths.conversations)
    return lines(file, data={"file": file})


def _told(router: Router) -> tuple[str, ...]:
    """What is wrong with the log's file: looking never fails, but should not lie."""
    return tuple(router.log.warnings)


def known(router: Router, *, limit: int = 50) -> list[str]:
    """Ids to complete: entries, and conversations by name and id."""
    found = [entry.id for entry in reversed(router.log.entries(limit=limit))]
    return [*found, *conversations(router, limit=limit)]


def conversations(router: Router, *, limit: int = 50) -> list[str]:
    rows: list[Conversation] = router.log.conversations(limit=limit)
    return [name for row in rows for name in (row.name, row.id) if name]
