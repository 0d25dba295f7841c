"""The shell's front: click over the verb table, one error boundary, and the way out. It knows no verb's business."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from ..version import __version__
from .streams import prepare


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the process's exit code."""
    # Until there is something to tidy up, an interrupt simply ends the process: no traceback out of an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    words = list(sys.argv[1:] if argv is None else argv)
    prepare()
    if words == ["--version"] and _said(f"routekit {__version__}\n"):
        return 0
    from .boundary import run

    return run(words)


def _said(text: str) -> bool:
    """The shortest way to the shortest answer; where it cannot be written, the longer way knows what to say."""
    try:
        # Past the buffer: what could not be written is not to be tried again.
        os.write(sys.stdout.fileno(), text.encode())
    except (OSError, ValueError):
        return False
    return True
