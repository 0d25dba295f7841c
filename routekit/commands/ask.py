"""``ask``: what was typed, as a question. It asks nothing itself: each surface shows an answer in its own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.value import Value
from ..errors import UsageError
from .report import Context


class Question(Value):
    """A prompt and the keywords of ``Router.run``. ``model`` is ``None`` for the default."""

    prompt: str
    model: str | None
    how: Mapping[str, Any]


def question(
    context: Context,
    *,
    prompt: Sequence[str] | str,
    piped: str = "",
    model: str | None = None,
    system: str | None = None,
    option: Sequence[tuple[str, str]] = (),
    timeout: float | None = None,
    max_cost: float | None = None,
    no_failover: bool = False,
    only: str | None = None,
    session: str | None = None,
) -> Question:
    """Piped text, a newline, the words. Raises ``UsageError`` when there is neither, and for options that are none."""
    words = prompt if isinstance(prompt, str) else " ".join(word for word in prompt if word != "-")
    text = "\n".join(part for part in (piped.rstrip("\n") if words else piped, words) if part)
    if not text.strip():
        raise UsageError("there is nothing to ask", hints=["routekit ask 'your question'"])
    how: dict[str, Any] = {
        "system": system,
        "options": dict(_option(key, value) for key, value in option),
        "timeout": timeout,
        "max_cost": _money(max_cost),
        "failover": not no_failover,
        "session": session,
        "surface": context.surface,
        "only": only,
    }
    return Question(prompt=text, model=model, how={key: value for key, value in how.items() if value is not None})


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
        return key, msgspec.json.decode(value)
    except msgspec.MsgspecError:
        return key, value
