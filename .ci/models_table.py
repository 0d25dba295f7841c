"""Write routekit/data/models.json anew from the installed genai-prices: python .ci/models_table.py [--check]

With ``--check`` nothing is written, and the exit code is 1 where the file is older than the installed library."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main(arguments: list[str]) -> int:
    import msgspec

    from routekit.vendors.catalog import SHIPPED, read_table
    from routekit.vendors.prices import table

    fresh = table(datetime.datetime.now(datetime.UTC).date())
    if "--check" in arguments:
        shipped = read_table(SHIPPED)
        sys.stdout.write(f"shipped: {shipped.source} {shipped.version}; installed: {fresh.version}\n")
        return int(shipped.version != fresh.version)
    # One vendor a line: a difference stays readable, and the file small.
    vendors = ",\n".join(f'"{name}":{bytes(rows).decode()}' for name, rows in fresh.vendors.items())
    head = msgspec.json.encode({"source": fresh.source, "version": fresh.version, "date": fresh.date}).decode()
    SHIPPED.write_text(f'{head[:-1]},"vendors":{{\n{vendors}\n}}}}\n', "utf-8")
    sys.stdout.write(f"{SHIPPED.relative_to(ROOT)}: {SHIPPED.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
