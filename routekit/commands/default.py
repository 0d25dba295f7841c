"""``default``: what is asked when nothing is named. Setting it edits one line of the config file and nothing else."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from ..router import Router
from .report import Context, Report, lines


def default(context: Context, *, id: str | None = None, json: bool = False) -> Report:
    return _set(context, id) if id is not None else _show(context.router)


def _show(router: Router) -> Report:
    chosen = router.default_model()
    served = [leaf.label for leaf in router.plan(chosen).leaves]
    said = router.config.defaults.route is not None
    why = "" if said else "  (nothing sets it: it is the only route, or the first vendor's suggestion)"
    return lines(f"{chosen}{why}", data={"default": chosen, "set": said, "targets": served})


def _set(context: Context, id: str) -> Report:
    router = context.router
    router.plan(id)
    if router.config.mode == "demo":
        raise UsageError("the demo has no file to keep a default in", hints=["routekit init"])
    file = router.paths.config_file
    changed = _found(router, id) if router.config.mode == "environment" else _edit(router, id)
    fresh = context.renew()
    notes = []
    if fresh.config.defaults.route != id:
        notes = [f"a profile or patch in force says {fresh.config.defaults.route}, which counts before the file"]
    return Report(blocks=lines(*changed).blocks, data={"default": id, "file": file}, notes=tuple(notes))


def _edit(router: Router, id: str) -> list[str]:
    from ..config.edit import edit_file, put

    edited = edit_file(router.paths.config_file, lambda _: [put(("defaults", "route"), id)], setting=router.setting())
    return edited.lines() or [f"{id} is the default already"]


def _found(router: Router, id: str) -> list[str]:
    """There is no file yet: the new one keeps what the environment gave until now, since it counts instead of it."""
    from ..config.edit import edit_file, put

    def plan(_: dict[str, Any]) -> list[Any]:
        entries = []
        for provider in router.config.providers.values():
            entry = {"preset": provider.preset, "key": "auto"}
            entry |= {"base_url": provider.base_url} if provider.origin == "environment" else {}
            entries.append(put(("providers", provider.id), entry))
        return [put(("defaults", "route"), id), *entries]

    edited = edit_file(router.paths.config_file, plan, setting=router.setting())
    return [f"wrote {edited.file}, with the providers of the environment:", *edited.after.rstrip("\n").split("\n")]
