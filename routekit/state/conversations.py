"""The conversation log: what was asked and answered, in a file of its own. It must never stand between a person and an
answer: whatever is wrong with the file costs one warning.

Attachments are kept once each, by their hash; what is removed is overwritten, not only forgotten.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..core.chat import Message, Usage
from ..core.value import DAMAGED, Value
from ..core.words import passed_over
from ..errors import UsageError
from .database import Database, Unusable, transaction

T = TypeVar("T")

#: append only, as in ``sqlite``
MIGRATIONS = (
    (
        (
            "CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, created REAL NOT NULL, used REAL NOT NULL, "
            "terminal TEXT, directory TEXT, surface TEXT NOT NULL)"
        ),
        "CREATE INDEX conversations_by_use ON conversations (used)",
        (
            "CREATE TABLE entries (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, conversation TEXT NOT NULL, "
            "time REAL NOT NULL, reference TEXT NOT NULL, served_by TEXT, undone INTEGER NOT NULL DEFAULT 0, "
            "prompt TEXT NOT NULL, answer TEXT NOT NULL, document BLOB NOT NULL, indexed INTEGER NOT NULL DEFAULT 0)"
        ),
        "CREATE INDEX entries_by_conversation ON entries (conversation, number)",
        "CREATE INDEX entries_by_time ON entries (time)",
        "CREATE INDEX entries_unindexed ON entries (number) WHERE indexed = 0",
        "CREATE TABLE attachments (hash TEXT PRIMARY KEY, content TEXT NOT NULL)",
        "CREATE TABLE attached (hash TEXT NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY (hash, entry)) WITHOUT ROWID",
        "CREATE INDEX attached_by_entry ON attached (entry)",
    ),
)
#: only where this SQLite has FTS5; another, that lacks it, must still be able to write the file: so no triggers
INDEX = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS entries_text USING fts5(prompt, answer, content='entries', "
    "content_rowid='number', detail='none', prefix='1 2 3', tokenize='unicode61 remove_diacritics 2')"
)
#: texts longer than this are kept apart when they are data: an image, a PDF
APART = 4096
MARK = "routekit-attachment:"
#: the last of all text that begins with a prefix, in the byte order of UTF-8
LAST = "\U0010ffff"
BY_ID = "WHERE id >= ? AND id < ? ORDER BY id = ? DESC, id LIMIT 2"
COLUMNS = "number, id, conversation, document, undone"
#: an answer is there already, so there is time; but nobody waits for a log longer than this, in seconds
PATIENCE = 5.0
#: what the model is told of an answer that broke off
CUT_SHORT = "[this answer was cut short]"


class Place(Value):
    """Where something was asked: what ``-c`` goes by."""

    terminal: str | None = None
    directory: str | None = None
    surface: str = "python"


class Conversation(Value):
    id: str
    name: str | None = None
    created: float
    used: float
    terminal: str | None = None
    directory: str | None = None
    surface: str = "python"
    entries: int = 0


class Entry(Value):
    """One question with its answer. ``prompt`` holds the messages that were new, not the history before them.
    ``thoughts`` is what the model thought aloud; ``reasoning`` is vendor material that only ``reasoning_from`` (a
    provider id) can read again. ``partial``: the answer broke off. ``undone``: taken back, no part of the history."""

    id: str
    conversation: str
    time: float
    reference: str
    served_by: str | None = None
    prompt: tuple[Message, ...]
    system: str | None = None
    answer: str = ""
    thoughts: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    reasoning: tuple[Mapping[str, Any], ...] = ()
    reasoning_from: str | None = None
    usage: Usage | None = None
    cost: str | None = None
    finish_reason: str | None = None
    partial: bool = False
    undone: bool = False
    options: Mapping[str, Any] = {}
    schema: Mapping[str, Any] | None = None

    @property
    def question(self) -> str:
        """The text of what was asked."""
        return "\n".join(text for message in self.prompt if message.role != "tool" for text in _texts(message))

    @property
    def reply(self) -> Message | None:
        """The answer as a later request repeats it; ``None`` where nothing was said. Of an answer that broke off only
        its text is worth repeating, marked: a call or a signature may not be whole."""
        if self.partial:
            text = f"{self.answer}\n\n{CUT_SHORT}"
            return Message(role="assistant", content=text) if self.answer else None
        if not (self.answer or self.tool_calls):
            return None
        return Message(
            role="assistant",
            content=self.answer or None,
            tool_calls=self.tool_calls,
            reasoning=self.reasoning,
            reasoning_from=self.reasoning_from,
        )


class Stats(Value):
    entries: int = 0
    conversations: int = 0
    bytes: int = 0
    oldest: float | None = None


def turns(entries: Iterable[Entry]) -> tuple[Message, ...]:
    """Entries as the messages of a conversation, oldest first; what was undone or never answered is left out."""
    found: list[Message] = []
    for entry in entries:
        reply = entry.reply
        if reply is not None and not entry.undone:
            found += [*entry.prompt, reply]
    return tuple(found)


class ConversationLog:
    """``append``, ``undo`` and looking never raise; ``warnings`` says what went wrong, once. ``show``, ``find`` and
    ``remove`` raise ``UsageError`` for what is not there, and ``Unusable`` where the file cannot be written."""

    def __init__(self, path: Path | None, *, warn: Callable[[str], None] | None = None, index: bool = True) -> None:
        """``None``: in memory. ``warn`` is told what goes wrong, beside ``warnings``. ``index=False``: search and write
        as on a SQLite without FTS5."""
        self.warnings: list[str] = []
        self._tell = warn
        self.path = path
        self._able: bool | None = None if index else False
        self._lock = threading.RLock()
        self._file = Database(path, MIGRATIONS, warn=self._warn) if path is not None else None
        self._memory: sqlite3.Connection | None = None

    # -- writing

    def append(self, entry: Entry, place: Place) -> bool:
        """Whether it was kept."""
        return self.extend([entry], place)

    def extend(self, entries: Sequence[Entry], place: Place) -> bool:
        """As ``append``, of all of them or none."""

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                self._check(connection)
                indexed = self._index(connection)
                for entry in entries:
                    _touch(connection, entry, place)
                    number = _insert(connection, entry)
                    if indexed:
                        _index_entry(connection, number)

        return self._try(work, f"the answer {', '.join(entry.id for entry in entries[:3])} is not in the log")

    def undo(self, id: str) -> bool:
        """Take an entry out of its conversation's history; the log still shows it."""

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                self._check(connection)
                connection.execute("UPDATE entries SET undone = 1 WHERE id = ?", (_clean(id),))

        return self._try(work, f"{id} could not be taken back in the log")

    def rename(self, conversation: str, name: str) -> None:
        """Give a conversation a name. Raises ``UsageError`` for an unknown conversation, or a name taken."""

        def work(connection: sqlite3.Connection) -> int:
            with transaction(connection):
                self._check(connection)
                query = "SELECT id FROM conversations WHERE name = ? AND id <> ?"
                if connection.execute(query, (_clean(name), _clean(conversation))).fetchone():
                    raise UsageError(f"another conversation is called '{name}'", hints=["routekit logs list"])
                query = "UPDATE conversations SET name = ? WHERE id = ?"
                return connection.execute(query, (_clean(name), _clean(conversation))).rowcount

        if not self._run(work):
            raise UsageError(f"there is no conversation {conversation} in the log", hints=["routekit logs list"])

    def remove(self, id: str | None = None, *, before: float | None = None) -> int:
        """Remove an entry or a whole conversation by its id (or a unique beginning of it), or everything older than a
        wall-clock time. Returns how many entries went."""
        where, values = self._condemned(id, before)

        def work(connection: sqlite3.Connection) -> int:
            connection.execute("PRAGMA secure_delete = ON")
            with transaction(connection):
                self._check(connection)
                return _remove(connection, where, values, indexed=self._index(connection))

        gone = self._run(work) if self._exists() else 0
        if gone:
            # the log of changes still holds what was overwritten
            with suppress(Unusable, sqlite3.Error):
                self._run(lambda connection: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
        return gone

    def _condemned(self, id: str | None, before: float | None) -> tuple[str, tuple[Any, ...]]:
        if id is None:
            return "time < ?", (before if before is not None else float("inf"),)

        # By what the row says, not its document: a damaged entry can be removed too.
        def work(connection: sqlite3.Connection) -> list[str]:
            return [str(row[0]) for row in connection.execute(f"SELECT id FROM entries {BY_ID}", _by_id(id))]

        nothing: list[str] = []
        named = self._look(work, nothing)
        with suppress(UsageError):
            return "id = ?", (_only(named[:1] if named[:1] == [_clean(id)] else named, id, "entry"),)
        return "conversation = ?", (self.find(id).id,)

    # -- looking

    def history(self, conversation: str) -> tuple[Message, ...]:
        """The conversation so far, as the messages of a request."""
        return turns(self.entries(conversation=conversation, whole=True))

    def entries(
        self,
        *,
        conversation: str | None = None,
        model: str | None = None,
        query: str | None = None,
        limit: int | None = None,
        whole: bool = False,
    ) -> list[Entry]:
        """Oldest first; with ``limit`` the newest that many. ``model``: a reference asked for, or a target that served.
        ``query``: every word must begin a word of the question or answer. ``whole``: with attachments' contents."""

        def work(connection: sqlite3.Connection) -> list[Entry]:
            where, values = _where(conversation, model)
            if query and query.strip():
                found, values = self._search(connection, query, values)
                where.append(found)
            condition = f"WHERE {' AND '.join(where)}" if where else ""
            sql = f"SELECT {COLUMNS} FROM entries {condition} ORDER BY number DESC"
            # One by one: a damaged row must not take the place of a whole one.
            with closing(self._whole(connection, connection.execute(sql, values), whole=whole)) as readable:
                return list(islice(readable, limit))[::-1]

        nothing: list[Entry] = []
        return self._look(work, nothing)

    def show(self, id: str) -> Entry:
        """An entry whole, by its id or a unique beginning of it."""

        def work(connection: sqlite3.Connection) -> list[Entry]:
            rows = connection.execute(f"SELECT {COLUMNS} FROM entries {BY_ID}", _by_id(id)).fetchall()
            return list(self._whole(connection, rows, whole=True))

        nothing: list[Entry] = []
        return _only(self._look(work, nothing), id, "entry")

    def conversations(self, *, limit: int | None = None) -> list[Conversation]:
        """Newest used first."""
        return self._conversations("", (), limit)

    def find(self, wanted: str) -> Conversation:
        """A conversation by its name, its id, or a unique beginning of that."""
        text = _clean(wanted)
        if not text.strip():
            # Every id begins with nothing.
            return _only([], wanted, "conversation")
        found = self._conversations("WHERE c.name = ?", (text,), 1)
        found = found or self._conversations("WHERE c.id = ?", (text,), 1)
        found = found or self._conversations("WHERE c.id >= ? AND c.id < ?", (text, text + LAST), 2)
        return _only(found, wanted, "conversation")

    def last(self, place: Place) -> Conversation | None:
        """The last conversation of this terminal, else of this directory; ``None`` where there is none."""
        for column, value in (("terminal", place.terminal), ("directory", place.directory)):
            found = self._conversations(f"WHERE c.{column} = ?", (_clean(value),), 1) if value else []
            if found:
                return found[0]
        return None

    def stats(self) -> Stats:
        def work(connection: sqlite3.Connection) -> Stats:
            entries, oldest = connection.execute("SELECT count(*), min(time) FROM entries").fetchone()
            oldest = oldest if isinstance(oldest, float) else None
            (conversations,) = connection.execute("SELECT count(*) FROM conversations").fetchone()
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (size,) = connection.execute("PRAGMA page_size").fetchone()
            return Stats(entries=entries, conversations=conversations, bytes=pages * size, oldest=oldest)

        return self._look(work, Stats())

    def close(self) -> None:
        """A closed log may be used again; it opens the file anew. In memory, nothing is left of it."""
        if self._file is not None:
            self._file.drop()
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    # -- the search

    def _search(
        self, connection: sqlite3.Connection, query: str, values: tuple[Any, ...]
    ) -> tuple[str, tuple[Any, ...]]:
        words = _clean(query).split()
        tokens = _tokens(query)
        if tokens and self._index(connection, create=False):
            _index_rest(connection)
            # In quotes nothing is an operator; a star lets each word be the beginning of one.
            match = " ".join(f'"{token}"*' for token in tokens)
            return "number IN (SELECT rowid FROM entries_text WHERE entries_text MATCH ?)", (*values, match)
        like = " AND ".join(["(prompt LIKE ? ESCAPE '\\' OR answer LIKE ? ESCAPE '\\')"] * len(words))
        patterns = [f"%{_escaped(word)}%" for word in words for _ in range(2)]
        return like, (*values, *patterns)

    def _index(self, connection: sqlite3.Connection, *, create: bool = True) -> bool:
        """Whether there is an index to search and to keep."""
        if self._able is None:
            query = "SELECT 1 FROM pragma_module_list WHERE name = 'fts5'"
            self._able = connection.execute(query).fetchone() is not None
        if self._able and create:
            connection.execute(INDEX)
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'entries_text'").fetchone()
        return self._able and known is not None

    def _whole(
        self, connection: sqlite3.Connection, rows: Iterable[Sequence[Any]], *, whole: bool
    ) -> Generator[Entry, None, None]:
        """The entries that can be read; of the others is said how many there are."""
        bad = 0
        try:
            for row in rows:
                try:
                    entry = _entry(connection, row, whole=whole)
                except DAMAGED:
                    bad += 1
                else:
                    yield entry
        finally:
            if bad:
                self._warn(passed_over(bad, "logged question"))

    # -- the file

    def _conversations(self, where: str, values: Sequence[Any], limit: int | None) -> list[Conversation]:
        def work(connection: sqlite3.Connection) -> list[Conversation]:
            sql = (
                "SELECT c.id, c.name, c.created, c.used, c.terminal, c.directory, c.surface, "
                "(SELECT count(*) FROM entries e WHERE e.conversation = c.id AND NOT e.undone) "
                f"FROM conversations c {where} ORDER BY c.used DESC, c.id DESC LIMIT ?"
            )
            names = ("id", "name", "created", "used", "terminal", "directory", "surface", "entries")
            rows = connection.execute(sql, (*values, -1 if limit is None else limit))
            found = [_conversation(dict(zip(names, row, strict=True))) for row in rows]
            kept = [conversation for conversation in found if conversation is not None]
            if len(kept) < len(found):
                self._warn(passed_over(len(found) - len(kept), "conversation"))
            return kept

        return self._look(work, [])

    def _exists(self) -> bool:
        return self._memory is not None if self._file is None else self._file.exists()

    def _check(self, connection: sqlite3.Connection) -> None:
        if self._file is not None:
            self._file.check_version(connection)

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._file is not None:
            return self._file.run(work, patience=PATIENCE)
        with self._lock:
            if self._memory is None:
                self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                for statement in (statement for migration in MIGRATIONS for statement in migration):
                    self._memory.execute(statement)
            return work(self._memory)

    def _look(self, work: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        if not self._exists():
            return nothing  # looking creates no file
        try:
            return self._run(work)
        except (Unusable, sqlite3.Error) as error:
            self._warn(f"the conversation log cannot be read: {_words(error)}")
            return nothing

    def _try(self, work: Callable[[sqlite3.Connection], None], loss: str) -> bool:
        try:
            self._run(work)
        except Exception as error:
            self._warn(f"{loss}: {_words(error)}")
            return False
        return True

    def _warn(self, text: str) -> None:
        # one a process: a disk that is full stays full, and a chat is long
        if not self.warnings:
            self.warnings.append(text)
            if self._tell is not None:
                self._tell(text)


def terminal_key(environ: Mapping[str, str]) -> str | None:
    """What tells this terminal from others for as long as it is open; ``None`` where there is none."""
    for name in ("TMUX_PANE", "TERM_SESSION_ID", "WT_SESSION", "WINDOWID"):
        if environ.get(name):
            # a pane's number is its server's own
            return f"{name}={environ[name]} {environ.get('TMUX', '') if name == 'TMUX_PANE' else ''}".strip()
    for descriptor in (0, 1, 2):
        with suppress(OSError, AttributeError):
            # names of terminals are used again; the session's leader tells one from the next
            return f"{os.ttyname(descriptor)} {os.getsid(0)}"
    return None


# -- rows --------------------------------------------------------------------------------------------------------------


def _touch(connection: sqlite3.Connection, entry: Entry, place: Place) -> None:
    connection.execute(
        "INSERT INTO conversations (id, created, used, terminal, directory, surface) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET used = excluded.used, terminal = coalesce(excluded.terminal, terminal), "
        "directory = coalesce(excluded.directory, directory)",
        (
            _clean(entry.conversation),
            *(entry.time, entry.time),
            *(_clean(value) if value else None for value in (place.terminal, place.directory)),
            place.surface,
        ),
    )


def _insert(connection: sqlite3.Connection, entry: Entry) -> int:
    blobs: dict[str, str] = {}
    lean = msgspec.structs.replace(entry, prompt=tuple(_put_apart(message, blobs) for message in entry.prompt))
    row = (
        *(_clean(text) for text in (entry.id, entry.conversation)),
        entry.time,
        _clean(entry.reference),
        entry.served_by,
        *(_clean(text) for text in (entry.question, entry.answer)),
        _document(lean),
    )
    sql = "INSERT INTO entries (id, conversation, time, reference, served_by, prompt, answer, document) "
    number = connection.execute(f"{sql} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row).lastrowid
    assert number is not None, "an inserted row has a number"
    connection.executemany("INSERT OR IGNORE INTO attachments VALUES (?, ?)", blobs.items())
    connection.executemany("INSERT OR IGNORE INTO attached VALUES (?, ?)", ((name, number) for name in blobs))
    return number


def _document(entry: Entry) -> bytes:
    try:
        return msgspec.json.encode(entry)
    except UnicodeEncodeError:
        # an argument with undecodable bytes: better a question mark than no entry
        import json

        return json.dumps(msgspec.to_builtins(entry), ensure_ascii=False).encode("utf-8", "replace")


def _conversation(row: Mapping[str, Any]) -> Conversation | None:
    try:
        return msgspec.convert(row, Conversation)
    except DAMAGED:
        return None


def _entry(connection: sqlite3.Connection, row: Sequence[Any], *, whole: bool) -> Entry:
    number, _, _, stored, undone = row
    document = stored if isinstance(stored, bytes) else str(stored).encode()
    entry = msgspec.json.decode(document, type=Entry)
    if undone:
        entry = msgspec.structs.replace(entry, undone=True)
    if not whole or MARK.encode() not in document:
        return entry
    sql = "SELECT a.hash, a.content FROM attachments a JOIN attached b ON a.hash = b.hash WHERE b.entry = ?"
    blobs = dict(connection.execute(sql, (number,)).fetchall())
    return msgspec.structs.replace(entry, prompt=tuple(_put_back(message, blobs) for message in entry.prompt))


def _index_entry(connection: sqlite3.Connection, number: int) -> None:
    sql = "INSERT INTO entries_text (rowid, prompt, answer) SELECT number, prompt, answer FROM entries WHERE number = ?"
    connection.execute(sql, (number,))
    connection.execute("UPDATE entries SET indexed = 1 WHERE number = ?", (number,))


def _index_rest(connection: sqlite3.Connection) -> None:
    """Entries of a program whose SQLite has no index."""
    rest = connection.execute("SELECT number FROM entries WHERE indexed = 0").fetchall()
    if rest:
        with transaction(connection):
            for (number,) in connection.execute("SELECT number FROM entries WHERE indexed = 0").fetchall():
                _index_entry(connection, number)


def _remove(connection: sqlite3.Connection, where: str, values: tuple[Any, ...], *, indexed: bool) -> int:
    if indexed:
        # an index over another table must be told what it held
        connection.execute(
            "INSERT INTO entries_text (entries_text, rowid, prompt, answer) "
            f"SELECT 'delete', number, prompt, answer FROM entries WHERE indexed = 1 AND {where}",
            values,
        )
    connection.execute(f"DELETE FROM attached WHERE entry IN (SELECT number FROM entries WHERE {where})", values)
    gone = connection.execute(f"DELETE FROM entries WHERE {where}", values).rowcount
    connection.execute("DELETE FROM attachments WHERE hash NOT IN (SELECT hash FROM attached)")
    connection.execute("DELETE FROM conversations WHERE id NOT IN (SELECT conversation FROM entries)")
    if indexed and gone:
        # until its parts are merged the index still holds the words
        connection.execute("INSERT INTO entries_text (entries_text) VALUES ('optimize')")
    return gone


def _where(conversation: str | None, model: str | None) -> tuple[list[str], tuple[Any, ...]]:
    where, values = list[str](), list[Any]()
    if conversation is not None:
        where.append("conversation = ?")
        values.append(_clean(conversation))
    if model is not None:
        where.append("(reference = ? OR served_by = ?)")
        values += [_clean(model)] * 2
    return where, tuple(values)


def _by_id(id: str) -> tuple[str, str, str]:
    """The values for ``BY_ID``: all that begin with an id, that one first."""
    return (_clean(id), _clean(id) + LAST, _clean(id))


def _only(found: list[T], wanted: str, kind: str) -> T:
    if not found:
        said = f"there is no {kind} {wanted} in the log" if wanted.strip() else f"no {kind} is named: its id is empty"
        raise UsageError(said, hints=["routekit logs list"])
    if len(found) > 1 and getattr(found[0], "id", None) != wanted:
        raise UsageError(f"more than one {kind} begins with {wanted}: say more of its id", hints=["routekit logs list"])
    return found[0]


# -- texts -------------------------------------------------------------------------------------------------------------


def _texts(message: Message) -> list[str]:
    if isinstance(message.content, str):
        return [message.content]
    return [str(part.get("text", "")) for part in message.content or () if part.get("type") == "text"]


def _put_apart(message: Message, blobs: dict[str, str]) -> Message:
    if not isinstance(message.content, tuple):
        return message

    def lean(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: lean(inner) for name, inner in value.items()}
        if isinstance(value, str) and len(value) > APART and value.startswith("data:"):
            import hashlib

            name = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
            blobs[name] = value
            return MARK + name
        return value

    return msgspec.structs.replace(message, content=tuple(lean(part) for part in message.content))


def _put_back(message: Message, blobs: Mapping[str, str]) -> Message:
    if not isinstance(message.content, tuple):
        return message

    def whole(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: whole(inner) for name, inner in value.items()}
        if isinstance(value, str) and value.startswith(MARK):
            return blobs.get(value.removeprefix(MARK), value)
        return value

    return msgspec.structs.replace(message, content=tuple(whole(part) for part in message.content))


def _clean(text: str) -> str:
    """SQLite stores no bytes that are no text."""
    return text.encode("utf-8", "replace").decode()


def _tokens(query: str) -> list[str]:
    """The words of a query as the index sees words: letters and digits, nothing between them."""
    import unicodedata

    whole = unicodedata.normalize("NFC", _clean(query))
    return "".join(letter if letter.isalnum() else " " for letter in whole).split()


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _words(error: Exception) -> str:
    return str(getattr(error, "message", "")) or str(error) or type(error).__name__
