"""``models refresh``: what the vendors offer now, fetched and kept. One vendor's failure loses nothing of another's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.config import Config, Provider
from ..core.faults import FAULTS, Fault, VendorFault
from ..core.value import Value
from ..core.words import ago, plural
from ..errors import EX_NO, EX_OK, ConfigError, CredentialError, RoutekitError, StateError, UsageError
from ..router import Router
from .report import Context, Report, lines
from .shapes import iso

#: what helps against a failure, by its kind; for the others it is to try again
HINTS: Mapping[str, str] = {
    "auth": "routekit keys check {id}",
    "quota": "routekit keys check {id}",
    "region": "routekit providers show {id}",
    "setup": "routekit config check",
}
#: a server without a listing: its models can be written down instead
UNLISTED = "routekit config set providers.{id}.models '[\"MODEL\"]'"


class Outcome(Value):
    """How it went with one provider. ``kind`` is empty where it went well."""

    provider: str
    models: int = 0
    address: str = ""
    kind: str = ""
    message: str = ""
    hints: tuple[str, ...] = ()
    kept: float | None = None


def refresh(context: Context, *, provider: str | None = None, json: bool = False) -> Report:
    """All at the same time; each is told of as it ends. Exit code 1 where one failed."""
    from ..loop import run

    router = context.router
    asked = _asked(router.config, provider)
    if not asked:
        return lines("No provider has a vendor to ask.", data={"providers": [], "prices": None})
    with context.busy(f"asking {', '.join(row.id for row in asked)}"):
        found = run(_all(context, asked))
        prices = _prices(context)
    failed = [row for row in found if row.kind]
    well = sum(bool(row.address) for row in found)
    told = f"{plural(well, 'listing')} fetched" + (f", {len(failed)} failed" if failed else "")
    data = {"providers": [_data(row, router.now()) for row in found], "prices": prices or None}
    return lines(told, data=data, exit_code=EX_NO if failed else EX_OK)


def _asked(config: Config, named: str | None) -> list[Provider]:
    if named is None:
        return [row for row in config.providers.values() if row.enabled and row.api != "scripted"]
    if named in config.synthetic_providers:
        members = ", ".join(member.provider for member in config.synthetic_providers[named].members)
        raise UsageError(
            f"{named} is a synthetic provider: it offers what its members do ({members})",
            hints=["routekit models refresh"],
        )
    if named not in config.providers:
        from ..config.kinds import nearest

        near = nearest(named, list(config.providers), what="providers")
        raise UsageError(f"'{named}' is no provider; {near}", hints=["routekit providers list"])
    if config.providers[named].api == "scripted":
        raise UsageError(f"{named} is scripted: there is no vendor to ask")
    if not config.providers[named].enabled:
        raise ConfigError(f"provider {named} is switched off", hints=[f"routekit providers set {named} enabled true"])
    return [config.providers[named]]


def _prices(context: Context) -> str:
    try:
        version = context.router.fetch_prices()
    except StateError as error:
        # Each listing has met the same, and said so.
        context.io.say(f"windows and prices: {error.message}")
        return ""
    if version:
        context.io.say(f"windows and prices: {version}")
    return version


async def _all(context: Context, providers: list[Provider]) -> list[Outcome]:
    import asyncio

    async def one(provider: Provider) -> Outcome:
        outcome = await _fetched(context.router, provider)
        for line in _told(outcome, context.router.now()):
            context.io.say(line)
        return outcome

    # Before anybody's five seconds begin: an import holds up the loop for longer than that on a cold machine.
    for api in sorted({provider.api for provider in providers}):
        context.router.vendor(api).load()
    return await asyncio.gather(*(one(provider) for provider in providers))


async def _fetched(router: Router, provider: Provider) -> Outcome:
    before = router.catalog(provider).fetched_at
    try:
        listing = await router.fetch_models(provider)
    except VendorFault as failure:
        return _fault(router, provider, failure.fault, before)
    except RoutekitError as error:
        hints = error.hints or (f"routekit models refresh {provider.id}",)
        return Outcome(
            provider=provider.id,
            kind="auth" if isinstance(error, CredentialError) else error.kind,
            message=router.clean(error.message),
            hints=tuple(hints[:1]),
            kept=before,
        )
    left = f"{plural(listing.left_out, 'name')} left out: no reference can hold them" if listing.left_out else ""
    return Outcome(provider=provider.id, models=len(listing.models), address=listing.address, message=left)


def _fault(router: Router, provider: Provider, fault: Fault, before: float | None) -> Outcome:
    unlisted = fault.status in (404, 405) or (fault.status == 200 and fault.kind == "unknown")
    if unlisted and provider.models is not None:
        # Many write their models down for that very reason.
        return Outcome(provider=provider.id, message=f"{router.clean(fault.message)}; its configured models stay")
    form = UNLISTED if unlisted else HINTS.get(fault.kind, "routekit models refresh {id}")
    assert fault.kind in FAULTS
    return Outcome(
        provider=provider.id,
        kind=fault.kind,
        message=router.clean(fault.message) or f"status {fault.status}",
        hints=(form.format(id=provider.id),),
        kept=before,
    )


def _told(row: Outcome, now: float) -> list[str]:
    if not row.kind and not row.address:
        return [f"{row.provider}: {row.message}"]
    if not row.kind:
        also = f" ({row.message})" if row.message else ""
        return [f"{row.provider}: {plural(row.models, 'model')} from {row.address}{also}"]
    kept = f"; the listing fetched {ago(row.kept, now)} stays" if row.kept is not None else ""
    return [f"{row.provider}: {row.kind}: {row.message}{kept}", *(f"  try: {hint}" for hint in row.hints)]


def _data(row: Outcome, now: float) -> dict[str, Any]:
    error = {"class": row.kind, "message": row.message, "try": list(row.hints)} if row.kind else None
    return {
        "provider": row.provider,
        "models": row.models if row.address else None,
        "address": row.address or None,
        "fetched_at": iso(now if row.address else row.kept),
        "note": row.message or None if not row.kind else None,
        "error": error,
    }
