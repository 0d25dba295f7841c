"""The shell's front: click over the verb table, one error boundary, and the way out. It knows no verb's business."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from ..version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the process's exit code."""
    # Until there is something to tidy up, an interrupt simply ends the process: no traceback out of an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["--version"]:
        print(f"routekit {__version__}")  # noqa: T201 - the shortest way to the shortest answer
        return 0
    from .boundary import run

    return run(words)
