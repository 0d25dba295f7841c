"""What the memory holds, looked up for a person and forgotten at a person's word: health, budgets, records. It decides
nothing and calls nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from . import views
from .core import budget
from .core import judge as judging
from .core.config import Budget, Config
from .core.health import Standing
from .core.record import RequestRecord, from_document, is_record
from .errors import ConfigError, StateError, UsageError
from .state import StateStore
from .views import BudgetLine, Sleeper

#: when records were last pruned, and how often that is worth a look, in seconds
PRUNED_KEY, PRUNE_EVERY = "pruned", 86400.0
#: (scope, budget) of everything that has one, given what is stored
Budgeted = Callable[[Mapping[str, bytes]], tuple[tuple[str, Budget], ...]]


def forget_old(store: StateStore, *, keep: float, now: float) -> None:
    """Forget records older than ``keep`` seconds (``[log] records_keep``), at most once a day over all processes."""
    last = store.peek([PRUNED_KEY]).get(PRUNED_KEY)
    try:
        due = last is None or not 0 <= now - msgspec.json.decode(last, type=float) < PRUNE_EVERY
    except msgspec.MsgspecError:
        due = True
    if due:
        store.transact([PRUNED_KEY], lambda values: (None, {PRUNED_KEY: msgspec.json.encode(now)}))
        store.prune(now - keep)


def health(store: StateStore, *, replaced: Callable[[str, Standing], bool], now: float) -> list[Sleeper]:
    """Everything remembered of targets and credentials. ``replaced``: whether another key stands where the refused one
    stood."""
    rows = []
    for kind in ("target", "credential"):
        for key, raw in sorted(store.scan(f"{kind}:").items()):
            standing, name = judging.read_standing(raw), key.partition(":")[2]
            row = views.sleeper(name, kind, standing, now)
            if kind == "credential" and row.cause == "auth" and row.until and replaced(name, standing):
                # The next question asks with the new key.
                row = msgspec.structs.replace(row, state="key changed", until=None)
            rows.append(row)
    return rows


def reset_health(store: StateStore, name: str | None, config: Callable[[], Config]) -> list[str]:
    """End the windows that ``name`` stands for, or all (``None``). Returns what was reset."""
    keys = [key for kind in ("target", "credential") for key in store.scan(f"{kind}:")]
    wanted = keys if name is None else [key for key in keys if _meant_by(name, key, config)]
    if not wanted and name is not None:
        raise UsageError(f"nothing is remembered of '{name}'", hints=["routekit health list"])
    store.transact(wanted, lambda values: (None, dict.fromkeys(values)), patience=5.0)
    return [key.partition(":")[2] for key in wanted]


def _meant_by(name: str, key: str, config: Callable[[], Config]) -> bool:
    kind, _, rest = key.partition(":")
    if rest == name:
        return True
    try:
        provider = config().providers.get(name.partition("/")[0])
    except ConfigError:
        # What is remembered can be forgotten without a configuration.
        return False
    if provider is None:
        return False
    return rest == provider.credential if kind == "credential" else rest.startswith(f"{name}/")


def budgets(store: StateStore, budgeted: Budgeted, now: float) -> list[BudgetLine]:
    """Every limit of every budget, with what is spent and reserved of it."""
    stored = store.scan(budget.PREFIX)
    return views.budget_lines(budgeted(stored), stored, now)


def budget_scopes(store: StateStore, budgeted: Budgeted, name: str) -> list[str]:
    """The scopes a name means: the scope itself, or the provider, target or route of that id."""
    scopes = list(dict.fromkeys(scope for scope, _ in budgeted(store.scan(budget.PREFIX))))
    found = [scope for scope in scopes if name in (scope, scope.partition(":")[2])]
    if not found:
        known = f" (budgets: {', '.join(scopes)})" if scopes else ""
        raise UsageError(f"nothing named '{name}' has a budget{known}", hints=["routekit budget list"])
    return found


def reset_budgets(store: StateStore, wanted: list[str] | None) -> list[str]:
    """Forget what was spent and reserved in these scopes, or in all (``None``). Returns the scopes."""
    keys = [key for key in store.scan(budget.PREFIX) if wanted is None or views.scope_of(key) in wanted]
    store.transact(keys, lambda values: (None, dict.fromkeys(values)), patience=5.0)
    return list(dict.fromkeys(map(views.scope_of, keys))) if wanted is None else wanted


def why(store: StateStore, id: str | None) -> RequestRecord:
    """The record of the last request, or of the one whose id begins so."""
    # Probes are nobody's question: only their own ids name them.
    recent = store.records(id=id, limit=1 if id else 50)
    found: list[Any] = (
        list(recent) if id else [row for row in recent if row.get("surface") != "probe" and is_record(row)][:1]
    )
    if not found:
        said = f"no request {id} is remembered" if id else "nothing has been asked yet"
        raise UsageError(said, hints=["routekit why"] if id else ["routekit ask 'your question'"])
    if len(found) > 1:
        raise UsageError(f"several requests begin with {id}: {', '.join(row['id'] for row in found[:5])} …")
    if not is_record(found[0]):
        raise StateError(f"the record of request {found[0]['id']} is damaged", hints=["routekit why"])
    return from_document(found[0])
