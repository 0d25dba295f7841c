"""Many processes that ask at once over one state file. Run as a program; its lines are JSON.

    python callers.py STATE PROCESSES TIMES CONFIG-TEXT

Each process is forked before anything is opened, waits for the common start, and asks ``r`` TIMES over with the clock
of this machine. Every call that reaches a vendor and every answer or error is one line, with its moment. The vendors'
steps are the first of their ``params.script``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import routekit.dispatch  # noqa: F401 - loaded before the fork, so that all begin at once
from routekit.errors import RoutekitError
from routekit.loop import run
from routekit.router import Router
from routekit.state import open_store
from routekit.vendors import VendorCall
from routekit.vendors.scripted import Vendor


def said(**row: Any) -> None:
    # One write per line: lines of several processes do not mix.
    os.write(1, (json.dumps({**row, "at": time.time(), "process": os.getpid()}) + "\n").encode())


def ask(state: str, times: int, text: str) -> None:
    def step(call: VendorCall) -> Any:
        said(called=f"{call.provider.id}/{call.model}")
        return dict(call.provider.params["script"][0])

    router = Router.from_toml(text, state=open_store(Path(state)), speakers={"scripted": Vendor(script=[step])})

    async def all_of_them() -> None:
        for _ in range(times):
            try:
                answer = await router.aask("x", model="r")
            except RoutekitError as error:
                said(code=error.exit_code, message=error.message)
            else:
                said(code=0, served=answer.served_by)

    run(all_of_them())
    said(warnings=router.store.warnings)
    router.store.close()


def main(state: str, processes: str, times: str, text: str) -> None:
    ready, start = os.pipe()
    for _ in range(int(processes)):
        if not os.fork():
            os.close(start)
            os.read(ready, 1)  # until the parent lets go of the other end
            ask(state, int(times), text)
            os._exit(0)
    os.close(start)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
