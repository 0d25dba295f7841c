"""``config set``, ``unset`` and ``schema``: any key of the file by its path. What a key may hold it does not know."""

from __future__ import annotations

from .edits import edit
from .report import Context, Report, lines


def change(context: Context, *, key: str, value: str, json: bool = False) -> Report:
    from ..config.changes import set_value

    return edit(context, set_value(key, value))


def unset(context: Context, *, key: str, json: bool = False) -> Report:
    """Take a key away, so that its default counts again."""
    from ..config import changes

    return edit(context, changes.unset(key))


def schema(context: Context) -> Report:
    """The JSON Schema of the config file, for editors."""
    import msgspec

    from ..config.show import schema as of_file

    found = of_file()
    text = msgspec.json.format(msgspec.json.encode(found), indent=2).decode()
    return lines(*text.split("\n"), data=found)
