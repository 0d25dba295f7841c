"""Many processes that ask at once over one state file. Run as a program; its lines are JSON, one per process.

    python spenders.py STATE COUNT CONFIG-TEXT [hang]

Each process is forked before anything is opened, waits for the common start, asks ``r`` once, and ends with the exit
code its error has. With ``hang`` the vendor says ``calling`` and then nothing, for ever.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from routekit.errors import RoutekitError
from routekit.router import Router
from routekit.state import open_store
from routekit.vendors import VendorCall
from routekit.vendors.scripted import Vendor


def said(**row: Any) -> None:
    # One write per line: lines of several processes do not mix.
    os.write(1, (json.dumps(row) + "\n").encode())


def ask(state: str, text: str, *, hang: bool) -> int:
    def step(call: VendorCall) -> Any:
        said(calling=os.getpid())
        return {"text": "hello", "first": 3600 if hang else 0.01}

    router = Router.from_toml(text, state=open_store(Path(state)), speakers={"scripted": Vendor(script=[step])})
    try:
        answer = router.ask("x", model="r")
    except RoutekitError as error:
        said(code=error.exit_code, message=error.message, warnings=router.store.warnings)
        return error.exit_code
    said(code=0, served_by=answer.record.served_by, warnings=router.store.warnings)
    return 0


def main(state: str, count: str, text: str, *more: str) -> None:
    ready, start = os.pipe()
    children = []
    for _ in range(int(count)):
        child = os.fork()
        if not child:
            os.close(start)
            os.read(ready, 1)  # until the parent lets go of the other end
            os._exit(ask(state, text, hang="hang" in more))
        children.append(child)
    os.close(start)
    for child in children:
        _, status = os.waitpid(child, 0)
        said(ended=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(*sys.argv[1:])
