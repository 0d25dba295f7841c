"""Fault classes: for each kind of failure, what follows from it. Which failure is of which kind is decided elsewhere.

The table is the contract of failover; a change here changes what users pay and wait.
"""

from __future__ import annotations

from typing import Literal

from ..errors import (
    EX_CONFIG,
    EX_CREDENTIAL,
    EX_DATA,
    EX_INTERRUPTED,
    EX_IO,
    EX_LATER,
    EX_UNAVAILABLE,
)
from .value import Value

Scope = Literal["target", "credential", "nobody"]
#: the same target again. ``once``: after 0.5 s × (0.5…1.5); ``hint``: once, if the vendor asks for at most 5 s;
#: ``adapt``: once, without the parameter
Again = Literal["never", "once", "hint", "adapt"]
#: another target. ``able``: one not known to lack it; ``larger``: one with a larger declared window; ``held``: only
#: while nothing was shown
Over = Literal["yes", "no", "able", "larger", "held"]


class FaultClass(Value):
    name: str
    scope: Scope
    again: Again = "never"
    over: Over = "yes"
    #: seconds of a fixed window; ``None``: the ladder (target) or the setting of that name (credential)
    window: float | None = None
    exit_code: int = EX_UNAVAILABLE


HOUR = 3600.0

FAULTS: dict[str, FaultClass] = {
    row.name: row
    for row in (
        FaultClass(name="transient", scope="target", again="once"),
        FaultClass(name="timeout", scope="target"),
        FaultClass(name="rate_limit", scope="target", again="hint", exit_code=EX_LATER),
        FaultClass(name="quota", scope="credential", exit_code=EX_LATER),
        FaultClass(name="auth", scope="credential", exit_code=EX_CREDENTIAL),
        FaultClass(name="region", scope="target", window=8 * HOUR),
        FaultClass(name="model_gone", scope="target", window=12 * HOUR),
        FaultClass(name="unsupported", scope="nobody", again="adapt", over="able", exit_code=EX_DATA),
        FaultClass(name="context", scope="nobody", over="larger", exit_code=EX_DATA),
        FaultClass(name="content_filter", scope="nobody", over="no", exit_code=EX_DATA),
        FaultClass(name="request", scope="nobody", over="no", exit_code=EX_DATA),
        FaultClass(name="client_error", scope="nobody"),
        FaultClass(name="setup", scope="nobody", exit_code=EX_CONFIG),
        FaultClass(name="truncated", scope="target", over="held", exit_code=EX_IO),
        FaultClass(name="cancelled", scope="nobody", over="no", exit_code=EX_INTERRUPTED),
        FaultClass(name="unknown", scope="target"),
    )
}


class Fault(Value):
    """One classified failure. ``message`` holds the vendor's own words, trimmed and without secrets; ``hint`` the
    seconds the vendor asked to wait, as stated (not yet clamped); ``scope`` overrides the class's where the vendor said
    which it is; ``delivered`` is False when the request certainly never reached the vendor; ``answered`` is True when
    any HTTP answer came."""

    kind: str
    message: str = ""
    status: int | None = None
    code: str | None = None
    hint: float | None = None
    scope: Scope | None = None
    parameter: str | None = None
    request_id: str | None = None
    delivered: bool = True
    answered: bool = False

    @property
    def row(self) -> FaultClass:
        return FAULTS[self.kind]

    @property
    def hits(self) -> Scope:
        return self.scope or self.row.scope


class VendorFault(Exception):
    """How a vendor module reports a failed attempt: always this, never an SDK's exception. Raised ``from None``, since
    causes carry keys."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.kind}: {fault.message}")
        self.fault = fault
