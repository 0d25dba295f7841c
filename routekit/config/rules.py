"""What must hold between entries: names that collide, references that lead nowhere, routes in a circle. It expands
nothing: what a catalog offers is judged when a route is expanded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from ..core.config import Member, Route, RouteTarget, SyntheticProvider
from ..core.ids import ROUTE, Reference, is_glob, parse_reference
from ..core.plan import DEEPEST, too_deep
from .convert import Draft
from .kinds import At, nearest
from .masks import masked, shown
from .tables import TOP

BUILT_IN = ("ordered", "priority", "round-robin", "weighted", "smooth")


class Judge:
    """The names of one document and what they lead to. ``settle`` gives the draft without what had to be dropped."""

    def __init__(
        self, draft: Draft, at: At, *, selections: Collection[str], document: Mapping[str, Any] | None = None
    ) -> None:
        self.document = document or {}
        # A table under a misspelled name is one fault: those who refer to what stands in it are none.
        declared = {table: names | _misspelled(self.document, table) for table, names in draft.declared.items()}
        self.draft = draft = msgspec.structs.replace(draft, declared=declared)
        self.at = at
        self.selections = selections
        self.concrete = draft.declared["providers"]
        self.synthetic = draft.declared["synthetic_providers"] - self._dropped()
        self.virtual = self._virtual()
        self.seen: dict[str, str | None] = {}

    def settle(self) -> Draft:
        self._reserved()
        self._advertised()
        synthetic = {
            id: self._synthetic(entry)
            for id, entry in self.draft.synthetic_providers.items()
            if self._keeps(id, self.at / "synthetic_providers" / id)
        }
        self._aliases()
        edges: dict[str, list[str]] = {}
        routes = {id: self._route(route, edges) for id, route in self.draft.routes.items()}
        self._cycles(edges)
        if self.draft.defaults.route is not None:
            self._must_resolve(self.draft.defaults.route, self.at / "defaults" / "route")
        return msgspec.structs.replace(self.draft, synthetic_providers=synthetic, routes=routes)

    # ---- names

    def _dropped(self) -> frozenset[str]:
        return frozenset(
            id
            for id in self.draft.declared["synthetic_providers"]
            if id in self.concrete or id == ROUTE or id in self.draft.declared["routes"]
        )

    def _keeps(self, id: str, at: At) -> bool:
        if id in self.concrete:
            at.warn(f"dropped: '{id}' is a provider of its own, which keeps the name")
        elif id == ROUTE:
            at.warn(f"dropped: '{ROUTE}' is reserved for references to routes")
        elif id in self.draft.declared["routes"]:
            at.warn(f"dropped: '{id}' is a route, which keeps the name")
        else:
            return True
        return False

    def _virtual(self) -> dict[str, dict[str, str]]:
        """Virtual provider → model → route id. A route merely named like a provider is reached by its bare name."""
        found: dict[str, dict[str, str]] = {}
        for id, route in self.draft.routes.items():
            owner = route.provider or id
            if owner not in self.concrete and owner not in self.synthetic and owner != ROUTE:
                found.setdefault(owner, {}).setdefault(route.model or id, id)
        return found

    def _reserved(self) -> None:
        if ROUTE in self.concrete:
            (self.at / "providers" / ROUTE).refuse(f"'{ROUTE}' is reserved ({ROUTE}/NAME names a route); rename it")
        for id in self.draft.routes:
            if id in self.concrete:
                (self.at / "routes" / id).warn(f"'{id}' is a provider too: '{id}' is the route, '{id}/…' the provider")

    def _advertised(self) -> None:
        taken: dict[tuple[str, str], str] = {}
        for id, route in self.draft.routes.items():
            at = self.at / "routes" / id
            if route.provider:
                self._explicit(route.provider, at / "provider")
            pair = (route.provider or id, route.model or id)
            other = taken.setdefault(pair, id)
            if other != id:
                listed = "/".join(pair)
                at.refuse(f"routes '{other}' and '{id}' both advertise {listed}; change provider or model of one")

    def _explicit(self, owner: str, at: At) -> None:
        kinds = (
            ("reserved", owner == ROUTE),
            ("a provider", owner in self.concrete),
            ("a synthetic provider", owner in self.synthetic),
        )
        for what, hit in kinds:
            if hit:
                at.refuse(f"'{owner}' is {what}: a route needs another name to be listed under")
                return

    # ---- entries

    def _synthetic(self, entry: SyntheticProvider) -> SyntheticProvider:
        at = self.at / "synthetic_providers" / entry.id
        self._selection(entry.selection, at / "selection")
        members: list[Member] = []
        for member in entry.members:
            reason = self._unfit(member.provider, members)
            if reason:
                at.warn(f"member '{member.provider}' is dropped: {reason}")
            else:
                members.append(member)
        if not members:
            at.warn(f"'{entry.id}' has no members left, so it serves nothing")
        return msgspec.structs.replace(entry, members=tuple(members))

    def _unfit(self, name: str, members: Iterable[Member]) -> str | None:
        if name in self.concrete:
            return "it is listed earlier" if any(member.provider == name for member in members) else None
        if name in self.synthetic:
            return "it is synthetic itself, and those do not nest"
        if name == ROUTE or name in self.virtual or name in self.draft.declared["routes"]:
            return "it stands for routes, not for an account"
        return f"no provider has this id; {nearest(name, self.concrete, what='providers')}"

    def _selection(self, name: str, at: At) -> None:
        if name not in BUILT_IN and name not in self.selections:
            known = dict.fromkeys([*BUILT_IN, *self.selections])
            at.refuse(f"{shown(name)} is no selection; {nearest(name, known)} (all: {', '.join(known)})")

    def _aliases(self) -> None:
        for name, text in self.draft.aliases.items():
            at = self.at / "aliases" / name
            if name in self.draft.declared["routes"]:
                at.warn(f"'{name}' is a route too, which keeps the name")
            reference = parse_reference(text)
            bare = reference.provider is None and not reference.route_only
            if bare and reference.model in self.draft.declared["aliases"] - self.draft.declared["routes"]:
                at.refuse(f"{shown(text)} is an alias itself; write the route or provider/model it stands for")
            else:
                self._must_resolve(text, at)

    def _route(self, route: Route, edges: dict[str, list[str]]) -> Route:
        at = self.at / "routes" / route.id
        self._selection(route.selection, at / "selection")
        kept: list[RouteTarget] = []
        refused = False
        for index, target in enumerate(route.targets):
            found = self._lookup(target.target)
            if isinstance(found, _Missing):
                place = at / "targets" / self._index(route, index)
                if not found.drops:
                    place.refuse(found.message)
                    refused = True
                    continue
                place.warn(f"target {shown_reference(target.target)} is dropped: {found.message}")
                continue
            kept.append(target)
            if found is not None and target.enabled and target.weight and route.enabled:
                edges.setdefault(route.id, []).append(found)
        if not kept and not refused:
            at.warn(f"'{route.id}' has no targets left, so it serves nothing")
        return route if len(kept) == len(route.targets) else msgspec.structs.replace(route, targets=tuple(kept))

    def _index(self, route: Route, index: int) -> int:
        """Where the target stands in the document, where targets that could not be read still count."""
        raw = self.document.get("routes", {}).get(route.id, {}).get("targets", ())
        texts = [each.get("target") if isinstance(each, dict) else each for each in raw]
        place = -1
        for target in route.targets[: index + 1]:
            place = next(
                (at for at in range(place + 1, len(texts)) if _is_text(texts[at], target.target)), max(place, index)
            )
        return place

    # ---- references

    def _must_resolve(self, text: str, at: At) -> None:
        found = self._lookup(text)
        if isinstance(found, _Missing):
            at.refuse(found.message)

    def _lookup(self, text: str) -> Any:
        """The route the text leads to, ``None`` for a concrete or synthetic target, or a ``_Missing``."""
        if text not in self.seen:
            self.seen[text] = self._resolve(parse_reference(text))
        return self.seen[text]

    def _resolve(self, reference: Reference, *, by_alias: bool = False) -> Any:
        name, owner = reference.model, reference.provider
        if owner is None:
            if name in self.draft.declared["routes"]:
                return name
            alias = None if reference.route_only or by_alias else self.draft.aliases.get(name)
            if alias is not None:
                return self._resolve(parse_reference(alias), by_alias=True)
            if name in self.draft.declared["aliases"] and not reference.route_only:
                return None  # an alias with a fault of its own
            return _Missing(self._no_name(name))
        if owner in self.concrete or owner in self.synthetic:
            return None
        if owner in self.virtual:
            return self._virtual_route(reference)
        if owner in self.draft.declared["routes"] - self.draft.routes.keys():
            return None  # a route with a fault of its own may be what lists it
        known = {*self.concrete, *self.synthetic}
        return _Missing(f"no provider is named '{owner}'; {nearest(owner, known, what='providers')}", drops=True)

    def _virtual_route(self, reference: Reference) -> Any:
        models = self.virtual[str(reference.provider)]
        if reference.model in models:
            return models[reference.model]
        names = [f"{reference.provider}/{model}" for model in models]
        wanted = f"{reference.provider}/{reference.model}"
        return _Missing(f"no route is listed as {shown_reference(wanted)}; {nearest(wanted, names)}")

    def _no_name(self, name: str) -> str:
        offers = [
            f"{owner.id}/{name}" for owner in self.draft.providers.values() if owner.models and name in owner.models
        ]
        if offers:
            return f"no route or alias is named {shown_reference(name)}; a model of that name: {', '.join(offers)}"
        if name in self.concrete or name in self.synthetic:
            return f"{shown_reference(name)} is a provider: write {name}/MODEL{self._such_as(name)}"
        known = {*self.draft.declared["routes"], *self.draft.aliases}
        return f"no route or alias is named {shown_reference(name)}; {nearest(name, known, what='routes and aliases')}"

    def _such_as(self, name: str) -> str:
        owner = self.draft.providers.get(name)
        models = [model for model in (owner.models if owner else None) or () if not is_glob(model)]
        return f", such as {name}/{models[0]}" if models else ""

    # ---- circles

    def _cycles(self, edges: Mapping[str, list[str]]) -> None:
        for chain in find_cycles(edges):
            at = self.at / "routes" / chain[0] / "targets"
            at.refuse(f"routes lead in a circle: {' → '.join(chain)}")
        deepest = deepest_chain(edges)
        if len(deepest) > DEEPEST:
            (self.at / "routes" / deepest[0] / "targets").refuse(too_deep(deepest))


class _Missing(msgspec.Struct, frozen=True):
    """A reference that leads nowhere; ``drops``: the rest of the entry goes on without it."""

    message: str
    drops: bool = False


def _misspelled(document: Mapping[str, Any], table: str) -> frozenset[str]:
    """The ids in a table whose name is nearly, and not quite, that one."""
    strangers = {name: entries for name, entries in document.items() if name not in TOP and isinstance(entries, dict)}
    if not strangers:
        return frozenset()
    from difflib import get_close_matches

    meant = [entries for name, entries in strangers.items() if get_close_matches(name[:100], TOP, n=1) == [table]]
    return frozenset(id for entries in meant for id in entries)


def _is_text(raw: Any, text: str) -> bool:
    return isinstance(raw, str) and raw.strip() == text


def shown_reference(text: str) -> str:
    """References are names, not secrets, however random a model id looks; only certain keys are hidden."""
    return f"'{masked(text)[:200]}'"


def deepest_chain(edges: Mapping[str, list[str]]) -> list[str]:
    """The longest chain of routes that stand in one another, outermost first; of circles no more than one turn. Without
    recursion, and every edge is followed once."""
    depth: dict[str, int] = {}
    below: dict[str, str | None] = {}
    for start in edges:
        pending = [] if start in depth else [(start, False)]
        while pending:
            route, walked = pending.pop()
            inner = list(dict.fromkeys(edges.get(route, ())))
            if walked:
                next_one = max((one for one in inner if one in depth), key=lambda one: depth[one], default=None)
                depth[route], below[route] = 1 + (depth[next_one] if next_one is not None else 0), next_one
            elif route not in below:
                below[route] = None
                pending.append((route, True))
                pending += [(one, False) for one in inner if one not in below]
    at: str | None = max(depth, key=lambda route: depth[route], default=None)
    chain: list[str] = []
    while at is not None:
        chain.append(at)
        at = below[at]
    return chain


def find_cycles(edges: Mapping[str, list[str]]) -> list[list[str]]:
    """One chain ``a, b, a`` per circle, found depth first without recursion: a chain of a thousand
    routes is a legal config."""
    done: set[str] = set()
    chains: list[list[str]] = []
    for start in edges:
        if start in done:
            continue
        path, pending = [start], [iter(edges[start])]
        on_path = {start}
        while path:
            step = next(pending[-1], None)
            if step is None:
                pending.pop()
                on_path.discard(path[-1])
                done.add(path.pop())
            elif step in on_path:
                chain = [*path[path.index(step) :], step]
                chains += [chain] if chain not in chains else []
            elif step not in done:
                path.append(step)
                on_path.add(step)
                pending.append(iter(edges.get(step, ())))
    return chains
