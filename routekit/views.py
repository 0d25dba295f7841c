"""What a person is shown of plans, health and budgets: the values, and the pure functions that make them from verdicts,
standings and ledgers. It opens no store and asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .core import budget
from .core import decide as heart
from .core import judge as judging
from .core.config import Budget, Catalog, Config
from .core.health import Standing, demoted, held, sleeping
from .core.plan import Branch, Plan, model_info
from .core.select import Algorithm
from .core.value import Value


class LeafView(Value):
    """One leaf in a preview. ``credential`` says what is known of its key without touching it."""

    target: str
    ready: bool
    reason: str = ""
    until: float | None = None
    said: str = ""
    demoted: bool = False
    serves: bool = False
    credential: str = ""


class GroupNode(Value):
    """A group in a preview; ``children`` keep the configured order. ``weight`` is its own in its parent."""

    group: str
    algorithm: str
    children: tuple[GroupNode | LeafView, ...]
    serves: bool = False


class Sleeper(Value):
    """One line of ``health``: a target or credential about which something is remembered."""

    key: str
    kind: str
    state: str
    until: float | None = None
    cause: str = ""
    #: the vendor's words at the time
    said: str = ""
    rung: int = 0
    last_failure: float = 0.0
    last_success: float = 0.0


class BudgetLine(Value):
    """One limit of a budget. ``unit`` is ``requests``, ``tokens`` or ``nanos`` (billionths of a US dollar);
    ``estimated`` are those of the spent tokens that no vendor has confirmed; ``frees_s`` the seconds until the first of
    what is spent or reserved leaves the window."""

    scope: str
    window: str
    unit: str
    spent: int
    reserved: int
    limit: int
    estimated: int = 0
    frees_s: float | None = None


# --- previews ---------------------------------------------------------------------------------------------------------


def preview(
    plan: Plan,
    selectors: Sequence[Algorithm],
    values: judging.Values,
    *,
    only: str | None,
    blocked: Mapping[str, str],
    known: Mapping[str, str],
    now: float,
) -> GroupNode:
    """Who of a plan would be tried now, and why not the others; ``known`` is what is known of each credential."""
    given_up = heart.others_than(plan, only)
    walk = judging.Walk(id="preview", draws=(0.5,) * len(plan.groups), given_up=given_up, blocked=blocked)
    outcome, _ = heart.decide(plan, selectors, values, walk=walk, now=now)
    chosen = outcome.leaf if isinstance(outcome, heart.Choice) else None
    view = judging.View(values, now)
    judged = [judging.judge(leaf, view, walk, now) for leaf in plan.leaves]
    return tree(plan, judged, chosen=chosen, known=known)


def tree(plan: Plan, judged: Sequence[judging.Verdict], *, chosen: int | None, known: Mapping[str, str]) -> GroupNode:
    """A plan with the verdict on each of its leaves; ``judged`` runs parallel to ``plan.leaves``."""
    chain = heart.chain_to(plan, chosen) if chosen is not None else []
    path = {group.index for group, _ in chain}

    def node(branch: Branch) -> GroupNode | LeafView:
        if branch.kind == "group":
            group = plan.groups[branch.index]
            return GroupNode(
                group=group.label,
                algorithm=group.algorithm,
                children=tuple(node(child) for child in group.children),
                serves=group.index in path,
            )
        leaf, verdict = plan.leaves[branch.index], judged[branch.index]
        return LeafView(
            target=leaf.label,
            ready=verdict.ready,
            reason=verdict.reason,
            until=verdict.until,
            said=verdict.said,
            demoted=verdict.demoted,
            serves=branch.index == chosen,
            credential=known[leaf.credential],
        )

    top = node(Branch(kind="group", index=0, label=plan.root.label))
    assert isinstance(top, GroupNode)
    return top


# --- health -----------------------------------------------------------------------------------------------------------


def sleeper(key: str, kind: str, standing: Standing, now: float) -> Sleeper:
    """The line of one target or credential (``kind``)."""
    window = sleeping(standing, now)
    hold = held(standing, now)
    if window is not None:
        state, until, cause = "asleep", now + window.left(now), window.cause
    elif hold is not None:
        state, until, cause = "on hold", now + hold.left(now), "hold"
    else:
        waiting = standing.window is not None and not standing.window.stated
        state = "half-open" if waiting else "demoted" if demoted(standing, now) else "well"
        until, cause = None, standing.window.cause if standing.window else ""
    return Sleeper(
        key=key,
        kind=kind,
        state=state,
        until=until,
        cause=cause,
        said=standing.window.said if standing.window else "",
        rung=standing.rung,
        last_failure=standing.last_failure,
        last_success=standing.last_success,
    )


# --- budgets ----------------------------------------------------------------------------------------------------------


def budgeted(config: Config, catalogs: Mapping[str, Catalog], stored: Iterable[str]) -> tuple[tuple[str, Budget], ...]:
    """(scope, budget) of providers, of targets, of routes. A glob's targets are those that have been asked: ``stored``
    are the keys of the ledgers."""
    found: list[tuple[str, Budget | None]] = []
    asked = [scope_of(key) for key in stored]
    for provider in config.providers.values():
        found.append((f"provider:{provider.id}", provider.budget))
        place = f"target:{provider.id}/"
        names = [scope.removeprefix(place) for scope in asked if scope.startswith(place)]
        names += [*provider.model_info, *catalogs[provider.id].models]
        for name in dict.fromkeys(name for name in names if "*" not in name):
            found.append((place + name, model_info(provider, catalogs[provider.id], name).budget))
    found += [(f"route:{route.id}", route.budget) for route in config.routes.values()]
    return tuple((scope, said) for scope, said in found if said is not None)


def budget_lines(scopes: tuple[tuple[str, Budget], ...], stored: Mapping[str, bytes], now: float) -> list[BudgetLine]:
    """Every limit of these budgets, with what the stored ledgers say of it."""
    books = budget.Books(stored, now)
    return [_budget_line(limit, books.ledger(limit), now) for limit in budget.limits(scopes)]


def _budget_line(limit: budget.Limit, ledger: budget.Ledger, now: float) -> BudgetLine:
    unit = limit.unit
    gone, taken = budget.spent(ledger, unit), budget.reserved(ledger, unit)
    frees = budget.frees(ledger, limit.length, unit=unit, wanted=1)
    return BudgetLine(
        scope=limit.scope,
        window=limit.window,
        unit=unit,
        spent=gone,
        reserved=taken,
        limit=limit.limit,
        estimated=budget.spent(ledger, "estimated") if unit == "tokens" else 0,
        frees_s=max(0.0, frees - now) if frees is not None else None,
    )


def scope_of(key: str) -> str:
    """The scope of the budget that a stored ledger belongs to."""
    return key.removeprefix(budget.PREFIX).rpartition("|")[0]
