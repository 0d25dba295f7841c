"""A reference expanded: the tree of groups and leaves one walk goes through. It reads only configuration and catalogs.

Expansion is depth first in configured order; node 0 is what was asked. Readiness is not judged here, with one
exception: what is switched off or cannot produce the asked model or variant contributes no leaf at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ..errors import ConfigError, UsageError
from . import budget
from .config import (
    DEFAULT_LIMITS,
    PATIENT_FIRST_OUTPUT,
    Api,
    Budget,
    Catalog,
    Config,
    Limits,
    Member,
    ModelInfo,
    Provider,
    Route,
    RouteTarget,
    Sticky,
    SyntheticProvider,
)
from .ids import Reference, is_glob, matches, parse_reference
from .value import Value

#: efforts every model of an API takes as a variant unless it is known not to reason
EFFORTS: Mapping[Api, tuple[str, ...]] = {
    "openai-chat": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "openai-responses": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "anthropic-messages": ("low", "medium", "high", "max"),
    "scripted": ("low", "medium", "high"),
}


#: why a target that stands twice in a tree is not tried twice
LISTED_EARLIER = "listed earlier"
#: so many routes may stand in one another: what walks a tree does so by recursion
DEEPEST = 64
#: so many targets one request may choose among
MOST_LEAVES = 2_000
#: how the reason begins where a target cannot give what was asked for
UNABLE = "cannot produce variant"


class Leaf(Value):
    """One end of a plan: a call that can be made. ``wire_id`` is the model name really sent; ``label`` is unique in the
    plan (``provider/wire-id[#variant]``)."""

    index: int
    label: str
    provider: str
    model: str
    wire_id: str
    variant: str | None = None
    params: Mapping[str, Any] = {}
    credential: str = ""
    until: float | None = None
    info: ModelInfo = ModelInfo()
    limits: Limits = DEFAULT_LIMITS
    local: bool = False
    #: every budget on the path: (its scope, such as ``provider:openai``; the limits)
    budgets: tuple[tuple[str, Budget], ...] = ()
    #: the same, limit by limit, and the store's keys of what is counted against them
    budget_limits: budget.Limits = ()
    budget_keys: tuple[str, ...] = ()
    fixed: bool = False
    target_key: str = ""
    credential_key: str = ""

    @property
    def target(self) -> str:
        return f"{self.provider}/{self.wire_id}"


class Branch(Value):
    """A group's child: a leaf or another group, by its index in the plan."""

    kind: Literal["leaf", "group"]
    index: int
    label: str
    weight: int = 1


class Group(Value):
    index: int
    id: str
    label: str
    algorithm: str
    children: tuple[Branch, ...]
    sticky: Sticky = True
    fixed: bool = False
    synthetic: bool = False
    turn_key: str = ""


class Dropped(Value):
    """A listed target or member that gave no leaf, and why."""

    group: str
    label: str
    reason: str


class Unpriced(ConfigError):
    """A budget in US dollars over a model without a price: it would limit nothing."""


class Plan(Value):
    """``pinned``: one concrete target was asked for, and nothing else may serve."""

    reference: str
    groups: tuple[Group, ...]
    leaves: tuple[Leaf, ...]
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    pinned: bool = False
    last_resort: str = "guessed"
    attempts: int = 1
    variant: str | None = None

    @property
    def root(self) -> Group:
        return self.groups[0]

    def keys(self, session: str | None = None) -> tuple[str, ...]:
        """Every key of the store a decision over this plan reads."""
        found = dict.fromkeys(key for leaf in self.leaves for key in (leaf.target_key, leaf.credential_key))
        found.update(dict.fromkeys(key for leaf in self.leaves for key in leaf.budget_keys))
        found.update(dict.fromkeys(group.turn_key for group in self.groups))
        if session is not None:
            found.update(dict.fromkeys(sticky_key(group, session) for group in self.groups))
        return tuple(found)


def sticky_key(group: Group, session: str) -> str:
    return f"sticky:{session}|{group.turn_key}"


def expand(config: Config, catalogs: Mapping[str, Catalog], asked: str) -> Plan:
    """The plan of a reference. Raises ``UsageError`` for what does not exist (with the nearest names), ``ConfigError``
    for a route that gives no leaf at all, saying why each of its targets gave none."""
    reference = resolve_alias(config, parse_reference(asked))
    plan = _Expansion(config, catalogs, asked.strip()).run(reference)
    if not plan.leaves:
        why = "; ".join(f"{drop.label}: {drop.reason}" for drop in plan.dropped) or "it lists no target"
        error: type[UsageError] | type[ConfigError] = UsageError if plan.variant else ConfigError
        raise error(f"{asked} gives no target to call: {why}", hints=["routekit config check"])
    _check_prices(plan)
    return plan


def _check_prices(plan: Plan) -> None:
    for leaf in plan.leaves:
        money = [limit.scope for limit in leaf.budget_limits if limit.unit == "nanos"]
        if money and leaf.info.price is None:
            raise Unpriced(
                f"{leaf.target} has no known price, so the usd budget of {money[0]} cannot be kept; "
                f'set providers.{leaf.provider}.model_info."{leaf.wire_id}".price',
                hints=["routekit config check"],
            )


def resolve_alias(config: Config, reference: Reference) -> Reference:
    """A bare name that is no route but an alias stands for the alias's reference; a variant typed with it wins."""
    bare = reference.provider is None and not reference.route_only
    if not bare or reference.model in config.routes or reference.model not in config.aliases:
        return reference
    meant = parse_reference(config.aliases[reference.model])
    return msgspec.structs.replace(meant, variant=reference.variant) if reference.variant else meant


def find_route(config: Config, reference: Reference) -> Route | None:
    """The route a reference names: by id, or by the virtual ``provider/model`` it advertises."""
    if reference.provider is None:
        return config.routes.get(reference.model)
    if reference.provider in config.providers or reference.provider in config.synthetic_providers:
        return None
    wanted = (reference.provider, reference.model)
    return next((route for route in config.routes.values() if advertised(route) == wanted), None)


def too_deep(chain: Sequence[str]) -> str:
    """What is said of routes that stand in one another too deeply, outermost first."""
    shown = [*chain[:2], "…", chain[-1]]
    return f"route {chain[0]} nests more than {DEEPEST} routes deep: {' → '.join(shown)}"


def advertised(route: Route) -> tuple[str, str]:
    return route.provider or route.id, route.model or route.id


def model_info(provider: Provider, catalog: Catalog, model: str) -> ModelInfo:
    """All that is known of a model: its own entry, then matching globs in order, then what the catalog said."""
    rows = [info for pattern, info in provider.model_info.items() if pattern == model]
    rows += [info for pattern, info in provider.model_info.items() if pattern != model and matches(pattern, model)]
    rows += [catalog.info[model]] if model in catalog.info else []
    if len(rows) <= 1:
        return rows[0] if rows else ModelInfo()
    merged: dict[str, Any] = {}
    for row in reversed(rows):
        for field in ModelInfo.__struct_fields__:
            value = getattr(row, field)
            if value is None or value == {}:
                continue
            merged[field] = {**merged.get(field, {}), **value} if field == "variants" else value
    return ModelInfo(**merged)


def offers(catalog: Catalog, model: str) -> bool | None:
    """Whether a catalog lists a model; ``None`` where it cannot tell (an open catalog)."""
    if catalog.kind == "open":
        return None
    return any(matches(entry, model) for entry in catalog.models)


def mapped(table: Mapping[str, str], model: str) -> str:
    """A map's answer for a model: the exact key, then the key without one trailing ``[1m]``, else the model itself."""
    if model in table:
        return table[model]
    trimmed = model.rstrip()
    bare = trimmed[:-4] if trimmed.lower().endswith("[1m]") else trimmed
    return table.get(bare, model)


def takes(table: Mapping[str, str], catalog: Catalog, model: str) -> bool:
    """Whether a target can be asked for a model: its map knows it, or its catalog lists it or cannot tell."""
    return model in table or mapped(table, model) != model or offers(catalog, model) is not False


class _Trail(Value):
    """Where an expansion stands: what the outer places hand down. ``asked``: the variant is the one that was asked for,
    not one that a listed target names on the way."""

    variant: str | None = None
    asked: bool = False
    until: float | None = None
    routes: tuple[str, ...] = ()
    limits: tuple[Limits, ...] = ()
    budgets: tuple[tuple[str, Budget], ...] = ()
    fixed: bool = False
    group: str = ""
    sticky: Sticky = True


class _Ask(Value):
    """One target to turn into leaves: the entry that listed it, and the parts it was made from."""

    entry: RouteTarget
    reference: Reference
    trail: _Trail

    @property
    def variants(self) -> tuple[str, ...]:
        """What to try to produce, best first: the target's own variant, else what the inherited one means here (by the
        target's table, or as it is), else the target's default. Only an inherited one is remapped."""
        inherited = self.trail.variant
        if self.reference.variant:
            return (self.reference.variant,)
        if inherited:
            return tuple(dict.fromkeys((self.entry.variants.get(inherited, inherited), inherited)))
        return (self.entry.default_variant,) if self.entry.default_variant else ()

    @property
    def until(self) -> float | None:
        """The earliest end of the target itself and of every route it stands in."""
        own = self.entry.until.timestamp() if self.entry.until else None
        ends = [end for end in (own, self.trail.until) if end is not None]
        return min(ends, default=None)

    @property
    def inherits(self) -> bool:
        """Whether what is tried is the variant that was asked for."""
        return self.trail.asked and not self.reference.variant


class _Expansion:
    """The builder of one plan; it lives for one call of ``expand``."""

    def __init__(self, config: Config, catalogs: Mapping[str, Catalog], reference: str) -> None:
        self.config, self.catalogs, self.reference = config, catalogs, reference
        self.leaves: list[Leaf] = []
        self.groups: list[Group | None] = []
        self.labels: set[str] = set()
        #: routes expanded, each with the variant it was handed: all their leaves have been listed
        self.done: set[tuple[str, str | None, bool]] = set()
        self.dropped: list[Dropped] = []
        self.notes: list[str] = []
        #: the variants the leaves could give, and whether any gives the one that was asked for
        self.asked: str | None = None
        self.offered: dict[str, None] = {}
        self.given = False

    def run(self, reference: Reference) -> Plan:
        self.asked = reference.variant
        route = find_route(self.config, reference)
        if route is not None:
            self._root_route(route, reference)
            return self._plan(route.last_resort, route.attempts, variant=reference.variant)
        if reference.provider is None:
            message = unknown_name(self.config, self.catalogs, reference.model)
            raise UsageError(*message, hints=["routekit models list"])
        if reference.provider in self.config.synthetic_providers:
            return self._root_synthetic(reference)
        if reference.provider not in self.config.providers:
            raise UsageError(*unknown_provider(self.config, reference), hints=["routekit providers list"])
        return self._pin(reference)

    def _plan(self, last_resort: str, attempts: int | None, *, variant: str | None, pinned: bool = False) -> Plan:
        # Groups that stayed empty are unused nodes: close the gaps their indexes leave.
        kept = [group for group in self.groups if group is not None]
        place = {group.index: at for at, group in enumerate(kept)}
        groups = tuple(
            msgspec.structs.replace(group, index=place[group.index], children=_moved(group.children, place))
            for group in kept
        )
        return Plan(
            reference=self.reference,
            groups=groups,
            leaves=tuple(self.leaves),
            dropped=tuple(self.dropped),
            notes=tuple(self.notes),
            pinned=pinned,
            last_resort=last_resort,
            attempts=attempts or max(1, min(20, 2 * len(self.leaves))),
            variant=variant,
        )

    def _root_route(self, route: Route, reference: Reference) -> None:
        if not route.enabled:
            raise ConfigError(
                f"route {route.id} is switched off", hints=[f"routekit routes set {route.id} enabled true"]
            )
        branch = self._route(route, _Trail(variant=reference.variant, asked=reference.variant is not None))
        if branch is None:
            self.groups = []
        self._must_give(f"route {route.id}", reference.variant)

    def _must_give(self, what: str, variant: str | None) -> None:
        unable = any(drop.reason.startswith(UNABLE) for drop in self.dropped)
        if variant in (None, "default") or self.given or not (self.leaves or unable):
            return
        offered = ", ".join(self.offered)
        raise UsageError(f"{what} has no variant '{variant}': {f'it offers {offered}' if offered else 'it has none'}")

    def _root_synthetic(self, reference: Reference) -> Plan:
        entry = RouteTarget(target=str(reference))
        ask = _Ask(entry=entry, reference=reference, trail=_Trail(group=str(reference)))
        branches = list(self._synthetic(ask, self.config.synthetic_providers[reference.provider or ""]))
        self._must_give(f"{reference.provider}/{reference.model}", reference.variant)
        if len(branches) > 1:
            raise UsageError(f"{reference} names {len(branches)} models; ask for one")
        return self._plan("guessed", None, variant=reference.variant)

    def _pin(self, reference: Reference) -> Plan:
        provider = self.config.providers[reference.provider or ""]
        catalog = self._catalog(provider.id)
        if is_glob(reference.model):
            raise UsageError(f"{reference} is a pattern; ask for one model", hints=["routekit models list"])
        if not provider.enabled:
            raise ConfigError(
                f"provider {provider.id} is switched off", hints=[f"routekit providers set {provider.id} enabled true"]
            )
        if catalog.kind == "configured" and not offers(catalog, reference.model):
            raise UsageError(
                *unknown_model(provider, catalog, reference.model), hints=[f"routekit models list -q {provider.id}/"]
            )
        index = self._open()
        ask = _Ask(entry=RouteTarget(target=str(reference)), reference=reference, trail=_Trail(group=str(reference)))
        branches = list(self._concrete(ask, provider))
        self._must_give(f"{reference.provider}/{reference.model}", reference.variant)
        self._close(index, str(reference), children=branches)
        return self._plan("guessed", None, variant=reference.variant, pinned=True)

    # --- groups -----------------------------------------------------------------------------------------------------

    def _open(self) -> int:
        self.groups.append(None)
        return len(self.groups) - 1

    def _close(self, index: int, id: str, *, children: list[Branch], label: str = "", **more: Any) -> Branch | None:
        """Fill an opened group; a group without children is not attached."""
        if not children:
            return None
        algorithm = more.pop("algorithm", "ordered")
        shape = [algorithm, [(child.label, child.weight) for child in children]]
        mark = hashlib.sha256(msgspec.json.encode(shape)).hexdigest()[:12]
        group = Group(
            index=index,
            id=id,
            label=label or id,
            algorithm=algorithm,
            children=tuple(children),
            turn_key=f"turn:{label or id}|{mark}",
            **more,
        )
        self.groups[index] = group
        return Branch(kind="group", index=index, label=group.label)

    def _route(self, route: Route, trail: _Trail) -> Branch | None:
        if route.id in trail.routes:
            chain = " → ".join((*trail.routes[trail.routes.index(route.id) :], route.id))
            raise ConfigError(f"routes form a cycle: {chain}", hints=["routekit config check"])
        if len(trail.routes) >= DEEPEST:
            raise ConfigError(too_deep((*trail.routes, route.id)), hints=["routekit config check"])
        budgets = ((f"route:{route.id}", route.budget),) if route.budget else ()
        inner = msgspec.structs.replace(
            trail,
            routes=(*trail.routes, route.id),
            limits=(*trail.limits, route.limits),
            budgets=(*trail.budgets, *budgets),
            fixed=route.fixed,
            group=route.id,
            sticky=route.sticky,
        )
        index = self._open()
        children = [branch for entry in route.targets for branch in self._entry(entry, inner)]
        if route.fixed:
            children = [msgspec.structs.replace(child, weight=1) for child in children]
        return self._close(
            index,
            route.id,
            children=children,
            algorithm="ordered" if route.fixed else route.selection,
            sticky=not route.fixed and route.sticky,
            fixed=route.fixed,
        )

    def _entry(self, entry: RouteTarget, trail: _Trail) -> Iterator[Branch]:
        """The branches one listed target gives: none, one, or one per matched model."""
        if not entry.enabled or entry.weight == 0:
            self._drop(trail, entry.target, "weight 0" if entry.enabled else "switched off")
            return
        reference = resolve_alias(self.config, parse_reference(entry.target))
        ask = _Ask(entry=entry, reference=reference, trail=trail)
        for branch in self._branches(ask):
            yield msgspec.structs.replace(branch, weight=entry.weight)

    def _branches(self, ask: _Ask) -> Iterator[Branch]:
        reference = ask.reference
        route = find_route(self.config, reference)
        provider = self.config.providers.get(reference.provider or "")
        synthetic = self.config.synthetic_providers.get(reference.provider or "")
        if route is not None:
            yield from self._nested(route, ask)
        elif provider is not None:
            yield from self._concrete(ask, provider)
        elif synthetic is not None:
            yield from self._synthetic(ask, synthetic)
        else:
            self._drop(ask.trail, str(reference), "no such provider" if reference.provider else "no such route")

    def _nested(self, route: Route, ask: _Ask) -> Iterator[Branch]:
        if not route.enabled:
            self._drop(ask.trail, ask.entry.target, "switched off")
            return
        variant = next(iter(ask.variants), None)
        # What a route's leaves are called depends on nothing else that is handed down, and a leaf is listed once. One
        # that is still being expanded leads in a circle, which is said elsewhere.
        mark = (route.id, variant, ask.inherits)
        if mark in self.done and route.id not in ask.trail.routes:
            self._drop(ask.trail, ask.entry.target, LISTED_EARLIER)
            return
        self.done.add(mark)
        inner = msgspec.structs.replace(ask.trail, variant=variant, asked=ask.inherits, until=ask.until)
        branch = self._route(route, inner)
        if branch is not None:
            yield branch

    def _drop(self, trail: _Trail, label: str, reason: str) -> None:
        self.dropped.append(Dropped(group=trail.group, label=label, reason=reason))

    # --- synthetic providers ----------------------------------------------------------------------------------------

    def _synthetic(self, ask: _Ask, synthetic: SyntheticProvider) -> Iterator[Branch]:
        if not synthetic.enabled:
            self._drop(ask.trail, str(ask.reference), "switched off")
            return
        members = [member for member in synthetic.members if self._takes_part(ask, member)]
        yield from self._synthetic_groups(ask, synthetic, members)

    def _takes_part(self, ask: _Ask, member: Member) -> bool:
        off = (
            (not member.enabled, "switched off"),
            (member.weight == 0, "weight 0"),
            (not self.config.providers[member.provider].enabled, f"provider {member.provider} is switched off"),
        )
        reason = next((words for hit, words in off if hit), None)
        if reason is not None:
            self._drop(ask.trail, f"{member.provider}/{ask.reference.model}", reason)
        return reason is None

    def _synthetic_groups(self, ask: _Ask, synthetic: SyntheticProvider, members: list[Member]) -> Iterator[Branch]:
        model = ask.reference.model
        found = [model] if not is_glob(model) else self._fan_out(members, model)
        if not found:
            self._drop(ask.trail, str(ask.reference), "no member lists a matching model")
        fixed = ask.trail.fixed
        for one in found:
            label = f"{synthetic.id}/{one}"
            index = self._open()
            trail = msgspec.structs.replace(ask.trail, group=label)
            children = list(self._members(msgspec.structs.replace(ask, trail=trail), members, one))
            branch = self._close(
                index,
                synthetic.id,
                children=[msgspec.structs.replace(child, weight=1) for child in children] if fixed else children,
                label=label,
                algorithm="ordered" if fixed else synthetic.selection,
                sticky=not fixed and ask.trail.sticky,
                fixed=fixed,
                synthetic=True,
            )
            if branch is not None:
                yield branch

    def _fan_out(self, members: list[Member], pattern: str) -> list[str]:
        """The models a pattern matches: first seen over the members in configured order, each in its own order."""
        listed = (
            model
            for member in members
            for model in (*self._catalog(member.provider).models, *member.map)
            if not is_glob(model) and matches(pattern, model)
        )
        return list(dict.fromkeys(listed))

    def _members(self, ask: _Ask, members: list[Member], model: str) -> Iterator[Branch]:
        for member in members:
            provider = self.config.providers[member.provider]
            wire = mapped(member.map, model)
            if not takes(member.map, self._catalog(provider.id), model):
                self._drop(ask.trail, f"{provider.id}/{model}", "model not offered")
                continue
            for branch in self._leaf(ask, provider, model=model, wire_id=wire):
                yield msgspec.structs.replace(branch, weight=member.weight)

    # --- leaves -----------------------------------------------------------------------------------------------------

    def _catalog(self, provider: str) -> Catalog:
        return self.catalogs.get(provider) or configured_catalog(self.config.providers[provider])

    def _concrete(self, ask: _Ask, provider: Provider) -> Iterator[Branch]:
        if not provider.enabled:
            self._drop(ask.trail, str(ask.reference), f"provider {provider.id} is switched off")
            return
        catalog, model = self._catalog(provider.id), ask.reference.model
        found = [model]
        if is_glob(model):
            found = [entry for entry in catalog.models if not is_glob(entry) and matches(model, entry)]
            if not found:
                self._drop(ask.trail, str(ask.reference), "no model of its catalog matches")
        elif takes(ask.entry.map, catalog, model):
            pass
        elif catalog.kind == "configured":
            self._drop(ask.trail, str(ask.reference), f"not among the models of {provider.id}")
            return
        else:
            self.notes.append(f"{model} is not in the fetched list of {provider.id}; tried all the same")
        for one in found:
            yield from self._leaf(ask, provider, model=one, wire_id=mapped(ask.entry.map, one))

    def _leaf(self, ask: _Ask, provider: Provider, *, model: str, wire_id: str) -> Iterator[Branch]:
        catalog = self._catalog(provider.id)
        made = self._produced(ask, provider, wire_id)
        if made is None:
            self._drop(ask.trail, f"{provider.id}/{model}", f"{UNABLE} {ask.variants[0]}")
            return
        label = f"{provider.id}/{made.wire_id}" + (f"#{made.variant}" if made.variant else "")
        if label in self.labels:
            self._drop(ask.trail, label, LISTED_EARLIER)
            return
        if len(self.labels) >= MOST_LEAVES:
            raise ConfigError(
                f"{self.reference} leads to more than {MOST_LEAVES} targets (in {ask.trail.group}); narrow a pattern",
                hints=["routekit config check"],
            )
        self.labels.add(label)
        info = model_info(provider, catalog, made.wire_id)
        budgets = _budgets(provider, info, ask.trail, made.wire_id)
        counted = budget.limits(budgets)
        leaf = Leaf(
            index=len(self.leaves),
            label=label,
            provider=provider.id,
            model=model,
            wire_id=made.wire_id,
            variant=made.variant,
            params=made.params,
            credential=provider.credential,
            until=ask.until,
            info=info,
            limits=leaf_limits(self.config, provider, info, ask.trail.limits),
            local=is_local(provider.base_url),
            budgets=budgets,
            budget_limits=counted,
            budget_keys=budget.keys(counted, f"{provider.id}/{made.wire_id}"),
            fixed=ask.trail.fixed,
            target_key=f"target:{provider.id}/{made.wire_id}",
            credential_key=f"credential:{provider.credential}",
        )
        self.leaves.append(leaf)
        yield Branch(kind="leaf", index=leaf.index, label=label)

    def _produced(self, ask: _Ask, provider: Provider, wire_id: str) -> Produced | None:
        catalog = self._catalog(provider.id)
        names = ask.variants
        tries = (produce(name, provider=provider, catalog=catalog, wire_id=wire_id) for name in names)
        made = next((found for found in tries if found is not None), None)
        wanted = bool(ask.reference.variant or ask.trail.variant)
        if ask.inherits or (self.asked and ask.reference.variant == self.asked):
            self._offer(ask, provider, wire_id)
            self.given = self.given or made is not None
        # Where only the target's own default cannot be produced, the target stays without it.
        return made if made is not None or wanted else Produced(wire_id=wire_id)

    def _offer(self, ask: _Ask, provider: Provider, wire_id: str) -> None:
        catalog = self._catalog(provider.id)
        native = variants_of(provider, model_info(provider, catalog, wire_id))
        suffixed = [
            model[len(wire_id) + 1 :] for model in catalog.models if model.startswith((f"{wire_id}-", f"{wire_id}:"))
        ]
        self.offered.update(dict.fromkeys((*native, *ask.entry.variants, *suffixed)))


class Produced(Value):
    """A variant a leaf can give: the model name to send, the parameters that make it, its name (none if in the id)."""

    wire_id: str
    variant: str | None = None
    params: Mapping[str, Any] = {}


def produce(variant: str, *, provider: Provider, catalog: Catalog, wire_id: str) -> Produced | None:
    """How a model gives a variant: natively, or as a suffixed id its catalog lists. ``None`` when it cannot. The name
    ``default`` means none."""
    if variant == "default":
        return Produced(wire_id=wire_id)
    native = variants_of(provider, model_info(provider, catalog, wire_id))
    if variant in native:
        return Produced(wire_id=wire_id, variant=variant, params=native[variant])
    suffixed = (f"{wire_id}-{variant}", f"{wire_id}:{variant}")
    return next((Produced(wire_id=model) for model in suffixed if model in catalog.models), None)


def variants_of(provider: Provider, info: ModelInfo) -> dict[str, Mapping[str, Any]]:
    """The native variants of a model: the reasoning efforts its vendor lists, else its API's (unless it is known not to
    reason), then its own."""
    listed = EFFORTS[provider.api] if info.efforts is None else info.efforts
    efforts = () if info.reasons is False else listed
    return {**{name: {"reasoning_effort": name} for name in efforts}, **info.variants}


def configured_catalog(provider: Provider) -> Catalog:
    """The catalog a provider entry itself states; open where it states none."""
    return Catalog(kind="configured", models=provider.models) if provider.models is not None else Catalog()


def leaf_limits(config: Config, provider: Provider, info: ModelInfo, routes: tuple[Limits, ...]) -> Limits:
    """Model before route (innermost first) before provider before ``[limits]``; the patient first-output limit where
    nobody set one and the model reasons or the vendor is on this machine."""
    places = [info.limits or Limits(), *reversed(routes), provider.limits, config.limits]
    said = {
        field: next((getattr(place, field) for place in places if getattr(place, field) is not None), None)
        for field in Limits.__struct_fields__
    }
    if said["first_output"] is None and (info.reasons or is_local(provider.base_url)):
        said["first_output"] = PATIENT_FIRST_OUTPUT
    return Limits(**{field: DEFAULTS[field] if value is None else value for field, value in said.items()})


DEFAULTS: Mapping[str, float] = msgspec.structs.asdict(DEFAULT_LIMITS)


def is_local(base_url: str) -> bool:
    """Whether a base URL points at this machine. The whole host name counts: ``localhost.example`` is elsewhere."""
    host = base_url.partition("://")[2].partition("/")[0].rpartition("@")[2].lower()
    host = f"{host.partition(']')[0]}]" if host.startswith("[") else host.partition(":")[0]
    return host in ("localhost", "[::1]") or (host.startswith("127.") and host.replace(".", "").isdigit())


def host_of(base_url: str) -> str:
    return base_url.partition("://")[2].partition("/")[0].rpartition("@")[2].lower()


def _moved(children: tuple[Branch, ...], place: Mapping[int, int]) -> tuple[Branch, ...]:
    return tuple(
        msgspec.structs.replace(child, index=place[child.index]) if child.kind == "group" else child
        for child in children
    )


def _budgets(provider: Provider, info: ModelInfo, trail: _Trail, wire_id: str) -> tuple[tuple[str, Budget], ...]:
    rows = [(f"provider:{provider.id}", provider.budget), (f"target:{provider.id}/{wire_id}", info.budget)]
    return (*((scope, budget) for scope, budget in rows if budget), *trail.budgets)


# --- what was probably meant ------------------------------------------------------------------------------------------


#: names less alike than this are no guess worth making
NEAR = 0.6
#: so many names are listed before that helps nobody
LISTED = 12


def _near(name: str, names: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, names, n=3, cutoff=NEAR)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def unknown_name(config: Config, catalogs: Mapping[str, Catalog], name: str) -> tuple[str]:
    offering = [
        f"{provider.id}/{model}"
        for provider in config.providers.values()
        for model in (catalogs.get(provider.id) or configured_catalog(provider)).models
        if model == name
    ]
    if offering:
        return (f"'{name}' is no route; a model of that name is offered as {', '.join(offering)}",)
    if name in config.providers or name in config.synthetic_providers:
        return (f"'{name}' is a provider: write {name}/MODEL{_models_of(config, catalogs, name)}",)
    names = [*config.routes, *config.aliases]
    kinds = [("routes", [*config.routes]), ("aliases", [*config.aliases])]
    listed = "; ".join(f"{what}: {', '.join(ids)}" for what, ids in kinds if ids)
    known = f" ({listed})" if 0 < len(names) <= LISTED else ""
    return (f"unknown route or model '{name}'{_near(name, names) or known}",)


def _models_of(config: Config, catalogs: Mapping[str, Catalog], name: str) -> str:
    found = [f"{name}/{model}" for model in named_models(config, catalogs, name)][:5]
    return f", such as {', '.join(found)}" if found else ""


def named_models(config: Config, catalogs: Mapping[str, Catalog], name: str) -> list[str]:
    """The models of a provider, concrete or synthetic, that the configuration names or its catalog lists: in its
    catalog, in the map of a member, or in a target."""
    synthetic = config.synthetic_providers.get(name)
    members = synthetic.members if synthetic else ()
    owners = [member.provider for member in members] if synthetic else [name]
    listed = [
        model
        for owner in owners
        if owner in config.providers
        for model in (catalogs.get(owner) or configured_catalog(config.providers[owner])).models
    ]
    targets = [entry.target for route in config.routes.values() for entry in route.targets]
    asked = [parse_reference(text) for text in (*targets, *config.aliases.values())]
    said = [reference.model for reference in asked if reference.provider in ((name, *owners) if synthetic else (name,))]
    mapped_models = [model for member in members for model in member.map]
    return [model for model in dict.fromkeys([*listed, *mapped_models, *said]) if not is_glob(model)]


def unknown_provider(config: Config, reference: Reference) -> tuple[str]:
    names = [*config.providers, *config.synthetic_providers]
    virtual = [advertised(route)[0] for route in config.routes.values()]
    near = _near(reference.provider or "", [*dict.fromkeys([*names, *virtual])])
    known = f" (providers: {', '.join(names)})" if 0 < len(names) <= LISTED else ""
    return (f"unknown provider '{reference.provider}' in '{reference}'{near or known}",)


def unknown_model(provider: Provider, catalog: Catalog, model: str) -> tuple[str]:
    return (f"provider {provider.id} offers no model '{model}'{_near(model, list(catalog.models))}",)
