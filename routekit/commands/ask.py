"""``ask``: what was typed, as a question. It asks nothing itself: each surface shows an answer in its own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.chat import Message
from ..core.value import Value
from ..errors import RequestRefused, UsageError
from . import material
from .report import Context

if TYPE_CHECKING:
    from ..router import Router
    from ..session import Session
    from ..state.conversations import Conversation, Place

#: how many of other conversations are named where none can be continued
NAMED = 5


class Question(Value):
    """A prompt and the keywords of ``Router.run``. ``model`` is ``None`` for the default. A prompt of attachments
    alone is a message."""

    prompt: str | tuple[Message, ...]
    model: str | None
    how: Mapping[str, Any]


def question(
    context: Context,
    *,
    prompt: Sequence[str] | str,
    piped: str = "",
    stdin: bytes | None = None,
    model: str | None = None,
    query: Sequence[str] = (),
    system: str | None = None,
    sf: str | None = None,
    fragment: Sequence[str] = (),
    attachment: Sequence[str] = (),
    at: Sequence[tuple[str, str]] = (),
    schema: str | None = None,
    schema_multi: str | None = None,
    option: Sequence[tuple[str, str]] = (),
    timeout: float | None = None,
    max_cost: float | None = None,
    no_failover: bool = False,
    only: str | None = None,
    session: str | None = None,
    key: str | None = None,
) -> Question:
    """Fragments, piped text, the words, each on lines of its own. ``stdin`` is what an option that says ``-`` stands
    for. Raises ``UsageError`` when there is nothing to ask, and for options that are none; ``RequestRefused`` for files
    that cannot be read or attached."""
    text = _text(prompt, piped, [material.text(source, stdin) for source in fragment])
    parts = [material.part(source, stdin) for source in attachment]
    parts += [material.part(source, stdin, type=kind) for source, kind in at]
    if not (text.strip() or parts):
        raise UsageError("there is nothing to ask", hints=["routekit ask 'your question'"])
    how: dict[str, Any] = {
        "system": _system(system, sf, stdin),
        "options": dict(_option(name, value) for name, value in option),
        "attachments": parts if text.strip() and parts else None,
        "schema": _schema(schema, schema_multi),
        "timeout": timeout,
        "max_cost": _money(max_cost),
        "failover": not no_failover,
        "session": session,
        "surface": context.surface,
        "only": only,
        "key": key if key is None else _key(context.router, key),
    }
    alone = None if text.strip() else (Message(role="user", content=tuple(parts)),)
    return Question(
        prompt=alone or text,
        model=chosen(context.router, model, query),
        how={name: value for name, value in how.items() if value is not None},
    )


def _text(prompt: Sequence[str] | str, piped: str, fragments: Sequence[str]) -> str:
    words = prompt if isinstance(prompt, str) else " ".join(word for word in prompt if word != "-")
    parts = [*(fragment.rstrip("\n") for fragment in fragments), piped.rstrip("\n") if words else piped, words]
    return "\n".join(part for part in parts if part)


def _system(said: str | None, file: str | None, stdin: bytes | None) -> str | None:
    parts = [material.text(file, stdin).rstrip("\n")] if file is not None else []
    parts += [said] if said is not None else []
    return "\n".join(parts) if parts else None


def chosen(router: Router, model: str | None, query: Sequence[str]) -> str | None:
    """The model named, or the one whose name has every text of the query in it: the shortest, if it is alone. Raises
    ``UsageError`` for none and for several."""
    if model is not None and not model.strip():
        raise UsageError(
            "-m names no model; without it the default route is asked",
            hints=["routekit models list", "routekit default"],
        )
    if not query:
        return model
    if model is not None:
        raise UsageError("-m names a model and -q looks for one: give one of them", hints=["routekit ask --help"])
    wanted = [word.lower() for word in query]
    found = [name for name in dict.fromkeys(router.models()) if all(word in name.lower() for word in wanted)]
    said = " ".join(query)
    if not found:
        raise UsageError(f"no model has '{said}' in its name", hints=["routekit models list"])
    shortest = min(map(len, found))
    best = [name for name in found if len(name) == shortest]
    if len(best) > 1:
        raise UsageError(
            f"'{said}' could be {', '.join(best[:8])}{', …' if best[8:] else ''}",
            hints=[f"routekit ask -m {best[0]} …", f"routekit models list -q '{said}'"],
        )
    return best[0]


def _schema(one: str | None, many: str | None) -> Any:
    if one is None and many is None:
        return None
    if one is not None and many is not None:
        raise UsageError("--schema and --schema-multi: give one of them", hints=["routekit ask --help"])
    from ..schema import from_shell, shape

    try:
        return shape(from_shell(one if one is not None else many or "", multi=many is not None))
    except UsageError as error:  # a file that cannot be read
        raise RequestRefused(error.message, kind="input") from None


def _key(router: Router, name: str) -> str:
    """A credential's name: a provider, or an entry of the keyring. Raises ``UsageError``, which never repeats what may
    be a key."""
    from ..core.keyref import looks_like_key
    from .keys import names

    known = list(dict.fromkeys([*router.config.providers, *names(router)]))
    if name in known:
        return name
    if looks_like_key(name):
        raise UsageError(
            "--key takes a credential's name, never the key itself; your shell's history has it, so replace it",
            hints=["routekit keys set ID"],
        )
    from ..config.kinds import nearest

    raise UsageError(
        f"'{name}' is no credential's name; {nearest(name, known, what='known')}", hints=["routekit keys list"]
    )


# --- conversations ----------------------------------------------------------------------------------------------------


def place(context: Context) -> Place:
    """Where the person is: what ``-c`` goes by."""
    import os

    from ..state.conversations import Place, terminal_key

    try:
        directory = os.getcwd()
    except OSError:  # it has been removed under us
        directory = None
    return Place(terminal=terminal_key(context.environ), directory=directory, surface=context.surface)


def conversation(
    context: Context, *, id: str | None, question: Question | None = None, log: bool | None = None
) -> Session:
    """The conversation of that id, or the last one here. Raises ``UsageError``, with some others."""
    from ..session import Session

    router, here = context.router, place(context)
    found = router.log.find(id) if id is not None else router.log.last(here)
    if found is None:
        raise _nothing_here(router.log.conversations(limit=NAMED))
    asked = question or Question(prompt="", model=None, how={})
    return Session(router, id=found.id, model=asked.model, system=asked.how.get("system"), log=log, place=here)


def _nothing_here(others: Sequence[Conversation]) -> UsageError:
    hints = [f"routekit ask --cid {others[0].id} …"] if others else ["routekit ask 'your question'"]
    return UsageError(
        "no conversation was had in this terminal or this directory" + ("; elsewhere:" if others else ""),
        details=[one.name or one.id for one in others],
        hints=hints,
    )


def continuing(talk: Session) -> str:
    """Which conversation goes on, in one line: nobody should continue another than they think."""
    from ..core.words import ago, plural

    entries = talk.entries
    if not entries:
        return f"continuing {talk.id}"
    first = " ".join(entries[0].question.split())
    shown = first if len(first) <= 40 else first[:39] + "…"
    when = ago(entries[-1].time, talk.router.now())
    return f"continuing {talk.id}: '{shown}' ({plural(len(entries), 'answer')}, the last {when})"


# --- options ----------------------------------------------------------------------------------------------------------


def _money(amount: float | None) -> float | None:
    if amount is not None and not 0 <= amount < 1e9:
        raise UsageError("--max-cost takes US dollars, such as 0.05", hints=["routekit ask --help"])
    return amount


#: body fields a request owns; they are no model options
OWNED = frozenset({"model", "messages", "input", "stream", "system", "instructions", "tools", "api_key"})


def _option(key: str, value: str) -> tuple[str, Any]:
    """A model option as typed: JSON where it reads as JSON (numbers, booleans, lists), else text."""
    if key in OWNED or not key.replace("_", "").replace(".", "").isalnum():
        raise UsageError(f"'{key}' is no model option", hints=["routekit ask --help"])
    import msgspec

    try:
        read = msgspec.json.decode(value)
        # What is sent is written again, by programs that go less deep.
        deep = _is_deep(read)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return key, value
    except RecursionError:
        deep = True
    if deep:
        raise UsageError(f"the option '{key}' is nested too deeply", hints=["routekit ask --help"])
    return key, read


#: deeper than any vendor's option
DEEPEST = 64


def _is_deep(value: Any) -> bool:
    layer = [value]
    for _ in range(DEEPEST):
        inner = [one.values() if isinstance(one, dict) else one for one in layer if isinstance(one, dict | list)]
        layer = [each for part in inner for each in part]
    return bool(layer)
