"""A machine without a network, for as long as this process lives; on demand with one vendor that can be reached.

    unshare --net python -m tests.honest.island '{"config": "…", "commands": [["ask", "hi"], …], "answers": {…}}'

``answers`` is a script of ``tests.loopback``: with it the vendor stands at 198.51.100.1, an address that is not this
machine's own as far as anybody can tell; ``{url}`` in the config becomes its address. Prints what the commands did.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.loopback import Loopback

HOST = "198.51.100.1"
#: linux/sockios.h and linux/if.h
SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP, IFF_RUNNING = 0x8914, 0x8916, 0x1, 0x40


def raise_address(host: str) -> None:
    """Give the namespace's own loopback device an address, and switch it on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        address = struct.pack("16sH2s4s8s", b"lo", socket.AF_INET, b"", socket.inet_aton(host), b"")
        fcntl.ioctl(sock, SIOCSIFADDR, address)
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", IFF_UP | IFF_RUNNING, b""))


def run(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "routekit", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def main() -> None:
    asked = json.loads(sys.argv[1])
    assert Path("/proc/net/route").read_text().splitlines()[1:] == [], "this machine has a network"
    with contextlib.ExitStack() as stack:
        url = ""
        if "answers" in asked:
            raise_address(HOST)
            url = stack.enter_context(Loopback(scripts=asked["answers"], host=HOST)).url()
        config = Path(os.environ["ROUTEKIT_HOME"]) / "config.toml"
        config.write_text(asked["config"].replace("{url}", url))
        config.chmod(0o600)
        print(json.dumps([run(arguments) for arguments in asked["commands"]]))


if __name__ == "__main__":
    main()
