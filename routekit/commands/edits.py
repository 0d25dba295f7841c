"""What all verbs that edit the config file have in common: one edit, shown as changed lines, judged by what became of
the routes. It decides no edit itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ..config.edit import Edited, Operation, Plan, edit_file, put
from ..core.config import Config
from ..core.ids import ID_RULE, is_glob, is_id, parse_reference
from ..core.plan import expand, find_route, resolve_alias, unknown_provider
from ..errors import ConfigError, RoutekitError, UsageError
from ..router import Router
from ..vendors.presets import PRESETS
from .report import Context, Report, lines


def edit(context: Context, plan: Plan, *, entry: tuple[str, str] | None = None, fresh: str = "") -> Report:
    """Edit the config file and show the changed lines. ``entry``: the table and id the edit is about; ``fresh``: the
    provider it adds. Raises ``UsageError`` for what does not exist, ``ConfigError`` where the file would be worse."""
    router = context.router
    before = in_force(router)
    if before.mode == "demo":
        raise UsageError("the built-in demo cannot be edited", hints=["routekit init"])
    if before.mode == "environment":
        plan = _after_environment(plan, before, without=fresh)
    file = router.paths.config_file
    try:
        edited = edit_file(file, plan, setting=router.setting())
    except UsageError as error:
        raise _elsewhere(router, entry) or error from None
    except ConfigError as error:
        error.hints = (*error.hints, *_ways_out(error))
        raise
    if not edited.changed:
        return lines("nothing changed: the file says so already", data=_data(edited, ()))
    after = in_force(context.renew())
    warned = [*(str(problem) for problem in edited.warnings), *_emptied(context.router, before, after, edited)]
    notes = [f"changed {file}", *_founded(before), *_hidden(context.router, before, after)]
    report = lines(*(line for line in edited.lines() if line[2:].strip()), data=_data(edited, warned))
    return msgspec.structs.replace(report, notes=(*notes, *(f"warning: {text}" for text in warned)))


def _ways_out(error: ConfigError) -> Iterator[str]:
    """What to do about names that others still use."""
    for problem in error.problems:
        if problem.key == "defaults.route":
            yield "routekit default ROUTE"
        elif problem.key.startswith("aliases."):
            yield f"routekit aliases rm {problem.key.partition('.')[2]}"


def _data(edited: Edited, warnings: Sequence[str]) -> dict[str, Any]:
    changed = edited.lines() if edited.changed else []
    return {"file": edited.file, "changed": edited.changed, "lines": changed, "warnings": list(warnings)}


def in_force(router: Router) -> Config:
    """The configuration in force; one without anything in it where there is none, or a broken one."""
    try:
        return router.inspect().config or Config()
    except ConfigError:
        return Config()


# --- without a file ---------------------------------------------------------------------------------------------------


def _after_environment(plan: Plan, config: Config, *, without: str) -> Plan:
    """A new file counts instead of the environment: what that gave is kept, or it would be lost by the first edit."""
    given = [row for row in config.providers.values() if row.id != without]
    entries = {row.id: environment_entry(config, row.id) for row in given}

    def both(document: dict[str, Any]) -> list[Operation]:
        if document.get("providers"):
            return list(plan(document))
        operations = [put(("providers", id), entry) for id, entry in entries.items()]
        return [*operations, *plan({**document, "providers": entries})]

    return both


def environment_entry(config: Config, id: str) -> dict[str, Any]:
    """The provider the environment gives, as a file says it."""
    row = config.providers[id]
    moved = {"base_url": row.base_url} if row.origin == "environment" else {}
    return {"preset": row.preset, "key": "auto", **moved}


def _founded(before: Config) -> Iterator[str]:
    if before.mode == "environment":
        yield f"from now on the file counts; {', '.join(before.providers)} had been used from the environment"


# --- beside the file --------------------------------------------------------------------------------------------------


def _elsewhere(router: Router, entry: tuple[str, str] | None) -> UsageError | None:
    """The error for an entry that a profile or patch has, and the config file has not."""
    if entry is None:
        return None
    merged = router.overlaid()
    owner = merged.owners.get(entry)
    if owner is None or owner.name == router.paths.config_file:
        return None
    return UsageError(
        f"'{entry[1]}' stands in {owner.name}; commands edit {router.paths.config_file} only",
        hints=[f"edit {owner.name}"],
    )


def _hidden(router: Router, before: Config, after: Config) -> Iterator[str]:
    if before.digest and after.digest == before.digest and len(after.files) > 1:
        yield f"it makes no difference now: {', '.join(after.files[1:])} lies over it"


# --- what became of the routes ----------------------------------------------------------------------------------------


def _emptied(router: Router, before: Config, after: Config, edited: Edited) -> Iterator[str]:
    """Routes, the default and aliases that led somewhere before and lead nowhere now."""
    told = {problem.key for problem in edited.warnings}
    asked = [id for id, route in after.routes.items() if route.enabled and id in before.routes]
    used = [*([after.defaults.route] if after.defaults.route else []), *after.aliases.values()]
    for reference in dict.fromkeys([*asked, *used]):
        if f"routes.{reference}" in told or _fault(router, before, reference):
            continue
        fault = _fault(router, after, reference)
        if fault:
            default = "; it is what is asked when nothing is named" if reference == after.defaults.route else ""
            yield f"{fault}{default}"


def _fault(router: Router, config: Config, reference: str) -> str:
    """Why the reference leads nowhere; empty where it leads somewhere."""
    try:
        expand(config, router.catalogs(config), reference)
    except RoutekitError as error:
        return error.message
    return ""


# --- names that are new to the file -----------------------------------------------------------------------------------


def need_id(id: str, *, what: str) -> None:
    if not is_id(id):
        raise UsageError(f"'{id}' is no name for {what}: {ID_RULE}")


def once(names: Sequence[str], *, what: str) -> None:
    """Raises ``UsageError`` for a name given twice, by its place counted from 1."""
    for place, name in enumerate(names):
        if names.index(name) != place:
            raise UsageError(f"{what} {place + 1} is {what} {names.index(name) + 1} again: {name}")


def need_reference(router: Router, text: str) -> None:
    """Raises ``UsageError`` with the nearest names for a reference that leads nowhere: a mistyped command."""
    config = in_force(router)
    reference = resolve_alias(config, parse_reference(text))
    known = reference.provider in config.providers or reference.provider in config.synthetic_providers
    if reference.provider and not known and not find_route(config, reference):
        preset = reference.provider in PRESETS
        raise UsageError(
            *unknown_provider(config, reference),
            hints=[f"routekit providers add {reference.provider}" if preset else "routekit providers list"],
        )
    if is_glob(reference.model):
        return
    try:
        expand(config, router.catalogs(config), text)
    except ConfigError:
        return  # it exists; what keeps it from serving is told by the warnings
    except UsageError as error:
        error.hints = error.hints or ("routekit models list",)
        raise
