"""The typed configuration: what a config file means once it has been read. It reads no file and judges no reference.

Durations are seconds (float), money is US dollars. ``None`` means "not said here", so that a narrower place can speak.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Literal

from .value import Value

Api = Literal["openai-chat", "openai-responses", "anthropic-messages", "scripted"]
Sticky = bool | Literal["cache"]
LastResort = Literal["guessed", "wait", "never"]

WEIGHT_MAX = 1000


class Limits(Value):
    connect: float | None = None
    first_output: float | None = None
    stall: float | None = None
    deadline: float | None = None


DEFAULT_LIMITS = Limits(connect=10.0, first_output=10.0, stall=30.0, deadline=600.0)
#: the first-output limit for models known to reason and for vendors on this machine
PATIENT_FIRST_OUTPUT = 120.0


class Health(Value):
    first: float = 30.0
    factor: float = 2.0
    cap: float = 8 * 3600.0
    failures: int = 1
    max_hint: float = 24 * 3600.0
    quota: float = 15 * 60.0
    auth: float = 30 * 60.0
    probe: bool = True
    probe_every: float = 30.0
    forget_after: float = 7 * 86400.0


class Budget(Value):
    requests_per_minute: int | None = None
    requests_per_day: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    usd_per_day: float | None = None
    usd_per_month: float | None = None


class Price(Value):
    """US dollars per million tokens. ``cached`` unset: cached input costs what input costs."""

    input: float
    output: float
    cached: float | None = None


class ModelInfo(Value):
    """What is known of a model. ``None`` is unknown, and unknown means able. ``variants`` maps a variant's name to the
    request parameters that produce it."""

    context: int | None = None
    output: int | None = None
    reasons: bool | None = None
    images: bool | None = None
    pdf: bool | None = None
    tools: bool | None = None
    variants: Mapping[str, Mapping[str, Any]] = {}
    #: the reasoning efforts its vendor lists for it, in place of those of its API; no config file says this
    efforts: tuple[str, ...] | None = None
    price: Price | None = None
    limits: Limits | None = None
    budget: Budget | None = None


class Provider(Value):
    """One vendor account. Every field is filled: preset and API defaults have been applied. ``key`` is a credential
    reference in its full form (``keyring:openai``, ``env:NAME``, ``auto:openai``, ``none`` …, see ``credentials``);
    ``key_variable`` is the vendor's usual variable, which only ``auto`` may read."""

    id: str
    api: Api
    base_url: str
    key: str
    key_variable: str | None = None
    preset: str | None = None
    auth: str = "bearer"
    anthropic_version: str | None = None
    headers: Mapping[str, str] = {}
    params: Mapping[str, Any] = {}
    proxy: str | None = None
    max_parallel: int | None = None
    models: tuple[str, ...] | None = None
    model_info: Mapping[str, ModelInfo] = {}
    limits: Limits = Limits()
    health: Health = Health()
    budget: Budget | None = None
    enabled: bool = True
    #: names of the vendor's departures from its API (rows of ``vendors.presets``)
    quirks: tuple[str, ...] = ()
    #: where ``base_url`` was said: ``preset``, ``config`` or ``environment``; a key goes to a new host only by consent
    origin: str = "config"

    @property
    def credential(self) -> str:
        """The name of this provider's credential in windows and records. Accounts that name one secret share it."""
        return self.key if self.key != "none" else f"none:{self.id}"


class Member(Value):
    provider: str
    weight: int = 1
    enabled: bool = True
    map: Mapping[str, str] = {}


class SyntheticProvider(Value):
    id: str
    members: tuple[Member, ...]
    selection: str = "ordered"
    enabled: bool = True


class RouteTarget(Value):
    target: str
    weight: int = 1
    enabled: bool = True
    variants: Mapping[str, str] = {}
    default_variant: str | None = None
    map: Mapping[str, str] = {}
    until: datetime.datetime | None = None


class Route(Value):
    id: str
    targets: tuple[RouteTarget, ...]
    name: str = ""
    #: the virtual ``provider/model`` this route advertises; both default to the id
    provider: str = ""
    model: str = ""
    selection: str = "ordered"
    fixed: bool = False
    sticky: Sticky = True
    last_resort: LastResort = "guessed"
    attempts: int | None = None
    limits: Limits = Limits()
    budget: Budget | None = None
    enabled: bool = True


class Log(Value):
    conversations: bool = True
    records_keep: float = 90 * 86400.0


class Repl(Value):
    keys: Literal["emacs", "vi"] = "emacs"
    toolbar: bool = True
    history: bool = True


class Defaults(Value):
    route: str | None = None
    system: str | None = None


class Problem(Value):
    """One fault of a configuration. ``line`` counts from 1; 0 where the place is a whole file or no file at all."""

    message: str
    file: str = ""
    line: int = 0
    key: str = ""
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        place = ":".join(part for part in (self.file, str(self.line) if self.line else "") if part)
        return ": ".join(part for part in (place, self.key, self.message) if part)


class Config(Value):
    """A whole, valid configuration. ``digest`` changes exactly when the meaning may have changed; ``files`` are the
    files it was read from, outermost last; ``mode`` is ``file``, ``environment`` (no file: presets whose keys are at
    hand) or ``demo``."""

    defaults: Defaults = Defaults()
    aliases: Mapping[str, str] = {}
    providers: Mapping[str, Provider] = {}
    synthetic_providers: Mapping[str, SyntheticProvider] = {}
    routes: Mapping[str, Route] = {}
    #: ``[limits]`` as said; the defaults come last, in the plan
    limits: Limits = Limits()
    log: Log = Log()
    repl: Repl = Repl()
    warnings: tuple[Problem, ...] = ()
    files: tuple[str, ...] = ()
    digest: str = ""
    mode: Literal["file", "environment", "demo"] = "file"


class Catalog(Value):
    """The models a provider offers. ``configured`` ids may be globs; ``open`` means nobody has said."""

    kind: Literal["configured", "fetched", "open"] = "open"
    models: tuple[str, ...] = ()
    info: Mapping[str, ModelInfo] = {}
    fetched_at: float | None = None
