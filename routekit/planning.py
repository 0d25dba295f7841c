"""Plans of references, each made once per configuration, and the catalogs they are made from. It calls no vendor and
reads no memory of health.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from .core import decide as heart
from .core.config import Catalog, Config, Provider
from .core.keyref import parse_ref
from .core.plan import NEAR, Plan, expand, named_models
from .core.select import Algorithm, Context, Registry
from .credentials import host_of, read_ledger
from .errors import UsageError
from .vendors.catalog import Catalogs
from .vendors.presets import PRESETS


class Planner:
    """``kept`` is what vendors said they offer; ``forget`` follows each change of it."""

    def __init__(self, registry: Registry, kept: Catalogs) -> None:
        self.registry, self.kept = registry, kept
        self._plans: dict[tuple[str, str], tuple[Plan, tuple[Algorithm, ...]]] = {}

    def forget(self) -> None:
        """Make every plan anew. Who uses one of the old plans keeps it."""
        self._plans = {}

    def catalogs(self, config: Config) -> dict[str, Catalog]:
        return {provider.id: self.kept.of(provider) for provider in config.providers.values()}

    def models(self, config: Config) -> list[str]:
        """Every reference that can be asked for by name: routes, aliases, synthetic models, catalog models."""
        catalogs, found = self.catalogs(config), [*config.routes, *config.aliases]
        for name in (*config.synthetic_providers, *config.providers):
            found += [f"{name}/{model}" for model in named_models(config, catalogs, name)]
        return found

    def plan(self, config: Config, asked: str) -> tuple[Plan, tuple[Algorithm, ...]]:
        """The plan of a reference, and its groups' selections. Raises ``UsageError`` for what does not exist."""
        plans, key = self._plans, (config.digest, asked)
        if key not in plans:
            plan = expand(config, self.catalogs(config), asked)
            plans[key] = (plan, self.selectors(plan))
        return plans[key]

    def selectors(self, plan: Plan) -> tuple[Algorithm, ...]:
        """The selections of a plan's groups, in their order."""
        return tuple(self._selector(plan, index) for index in range(len(plan.groups)))

    def _selector(self, plan: Plan, index: int) -> Algorithm:
        group = plan.groups[index]
        context = Context(
            group=group.id,
            members=tuple(child.label for child in group.children),
            weights=tuple(child.weight for child in group.children),
        )
        return self.registry.resolve(group.algorithm)(context)


def default_model(config: Config) -> str:
    """What is asked when nothing is named. Raises ``UsageError`` where nothing says."""
    if config.defaults.route:
        return config.defaults.route
    if len(config.routes) == 1:
        return next(iter(config.routes))
    if config.mode == "environment":
        for provider in config.providers.values():
            row = PRESETS.get(provider.preset or provider.id)
            if row is not None and row.example:
                return f"{provider.id}/{row.example}"
    raise UsageError(
        "no model was named and there is no default route",
        hints=["routekit default ROUTE", "routekit ask -m MODEL …", "routekit models list"],
    )


def check_only(plan: Plan, only: str | None, config: Config) -> None:
    """Raises ``UsageError`` where the one provider asked for does not exist, or has no target in this plan."""
    if only is None:
        return
    known = [*config.providers, *config.synthetic_providers]
    if only not in known:
        raise UsageError(f"unknown provider '{only}'; {_nearest(only, known)}", hints=["routekit providers list"])
    if len(heart.others_than(plan, only)) == len(plan.leaves):
        raise UsageError(f"{plan.reference} has no target of {only}", hints=[f"routekit routes show {plan.reference}"])


def with_key(config: Config, name: str, *, ledger: Path) -> Config:
    """The configuration with another credential for every provider whose host may be sent it."""
    owner = config.providers.get(name)
    ref = str(parse_ref(owner.key, entry=name)) if owner is not None else f"keyring:{name}"
    known = read_ledger(ledger).get(parse_ref(ref, entry=name).name)
    hosts = [host_of(owner.base_url)] if owner is not None else known.hosts if known is not None else []
    variable = owner.key_variable if owner is not None else None
    changed = {
        id: msgspec.structs.replace(provider, key=ref, key_variable=variable)
        for id, provider in config.providers.items()
        if host_of(provider.base_url) in hosts
    }
    providers: dict[str, Provider] = {**config.providers, **changed}
    return msgspec.structs.replace(config, providers=providers, digest=f"{config.digest} key {ref}")


def check_key(plan: Plan, name: str, *, before: Config, config: Config) -> None:
    """Raises ``UsageError`` where no target of the plan may be sent the credential asked for: ``before`` is the
    configuration without it, ``config`` the one ``with_key``."""
    owners = {leaf.provider for leaf in plan.leaves}
    if not any(id == name or config.providers[id].key != before.providers[id].key for id in owners):
        raise UsageError(
            f"no target of {plan.reference} may be sent the key {name}: it was stored for other hosts, or nowhere",
            hints=["routekit keys list", f"routekit routes show {plan.reference}"],
        )


def _nearest(name: str, known: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=NEAR)
    return f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
