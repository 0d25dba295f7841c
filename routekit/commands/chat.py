"""``chat``: which conversation a person goes into, and how each of its questions is asked. It asks nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.value import Value
from ..session import Session
from . import ask
from .report import Context


class Talk(Value):
    """A conversation, the keywords of each of its questions (``Session.run``), and whether it was had before."""

    session: Session
    how: Mapping[str, Any]
    resumed: bool = False


def talk(
    context: Context, *, resume: bool = False, cid: str | None = None, log: bool | None = None, **asked: Any
) -> Talk:
    """``asked`` are options of ``ask``. Raises ``UsageError`` for a model, a provider or a conversation that does not
    exist, ``ConfigError`` where nothing is configured: before the first question, not at it."""
    router = context.router
    first = ask.question(context, prompt="?", **asked)
    how = dict(first.how)
    options, system = how.pop("options", {}), how.pop("system", None)
    if resume or cid is not None:
        session = ask.conversation(context, id=cid, question=first, log=log)
        session.options.update(options)
    else:
        here = ask.place(context)
        session = Session(router, model=first.model, system=system, options=options, log=log, place=here)
    session.model = session.model or router.default_model()
    router.preview(session.model, only=how.get("only"))
    return Talk(session=session, how=how, resumed=resume or cid is not None)
