"""What happened in this session's cells: what was typed, what came out, what went wrong. It keeps text, never objects.

A kept exception would keep its frames alive, and all that they hold.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ..core.value import Value

#: how many cells' errors are remembered
REMEMBERED = 100
#: lines of one traceback
LONGEST = 60


class Failure(Value):
    """An exception as text: its last line, its traceback in the user's own code, and the cell it came from."""

    head: str
    trace: str
    source: str = ""


class Cells:
    """Listens to a shell between ``attach`` and ``detach``."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._errors: OrderedDict[int, Failure] = OrderedDict()
        #: the running cell as it was typed
        self.typed = ""

    def attach(self) -> None:
        self._shell.events.register("pre_run_cell", self._before)
        self._shell.events.register("post_run_cell", self._after)

    def detach(self) -> None:
        for event, listener in (("pre_run_cell", self._before), ("post_run_cell", self._after)):
            if listener in self._shell.events.callbacks[event]:
                self._shell.events.unregister(event, listener)

    def _before(self, info: Any) -> None:
        self.typed = info.raw_cell or ""

    def _after(self, result: Any) -> None:
        error = result.error_before_exec or result.error_in_exec
        number = result.execution_count
        if isinstance(error, BaseException) and number is not None:
            source = result.info.raw_cell if result.info is not None else ""
            self._errors[number] = failure(error, source or "")
            while len(self._errors) > REMEMBERED:
                self._errors.popitem(last=False)

    def text(self, kind: str, number: int) -> str | None:
        """A cell's input, output or error; ``None`` where it has none."""
        if kind == "Err":
            return self._errors[number].trace if number in self._errors else None
        if kind == "In":
            typed = self._shell.history_manager.input_hist_raw
            return typed[number] if 0 < number < len(typed) else None
        outputs = self._shell.user_ns.get("Out", {})
        if number not in outputs:
            return None
        from .interpolate import write

        return write(outputs[number])

    def last_failure(self) -> Failure | None:
        """The last exception of this session, also one from before the extension was loaded."""
        import sys

        if self._errors:
            return next(reversed(self._errors.values()))
        error = getattr(sys, "last_value", None)
        return failure(error) if isinstance(error, BaseException) else None


def failure(error: BaseException, source: str = "") -> Failure:
    """An exception in words. One that shows itself in lines of its own is those lines."""
    import traceback

    head = "".join(traceback.format_exception_only(error)).strip()
    if hasattr(error, "_render_traceback_"):
        return Failure(head=head, trace="\n".join(error._render_traceback_()), source=source)
    lines = "".join(traceback.format_exception(type(error), error, _own_frames(error))).splitlines()
    if len(lines) > LONGEST:
        lines = [*lines[: LONGEST // 3], "  […]", *lines[-LONGEST * 2 // 3 :]]
    return Failure(head=head, trace="\n".join(lines), source=source)


def _own_frames(error: BaseException) -> Any:
    """The traceback without the shell's frames above the cell."""
    frames = error.__traceback__
    while frames is not None and "/IPython/core/" in frames.tb_frame.f_code.co_filename.replace("\\", "/"):
        frames = frames.tb_next
    return frames or error.__traceback__
