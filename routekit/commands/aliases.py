"""``aliases``: short names for references — listed, set, removed. An alias of an alias there is not."""

from __future__ import annotations

from .edits import edit, need_id, need_reference
from .report import Context, Report, Table


def listing(context: Context, *, json: bool = False) -> Report:
    aliases = context.router.config.aliases
    rows = tuple((name, f"→ {meant}") for name, meant in aliases.items())
    hints = () if rows else ("routekit aliases set q ROUTE",)
    table = Table(columns=("", ""), rows=rows, empty="No aliases yet.")
    return Report(blocks=(table,), data=dict(aliases), hints=hints)


def store(context: Context, *, name: str, reference: str, json: bool = False) -> Report:
    from ..config.changes import set_alias

    need_id(name, what="an alias")
    need_reference(context.router, reference)
    return edit(context, set_alias(name, reference))


def remove(context: Context, *, name: str, json: bool = False) -> Report:
    from ..config.changes import remove_alias

    return edit(context, remove_alias(name), entry=("aliases", name))
