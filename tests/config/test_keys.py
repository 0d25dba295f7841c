"""Every key of the design's table is a key of the file, and no other."""

from __future__ import annotations

import msgspec
import pytest

from routekit.config import tables
from routekit.core import config as typed

#: the table "Every key" of the design, row by row, and what its example and its prose add
PROVIDER = (
    "api base_url preset key auth anthropic_version headers params proxy max_parallel models model_info enabled budget "
    "limits health"
).split()
MODEL_INFO = "context output reasons images pdf tools variants price limits budget".split()
SYNTHETIC = "providers weights members selection enabled".split()
MEMBER = "provider weight enabled map".split()
TARGET = "target weight enabled variants default_variant map until".split()
POLICY = "fixed sticky last_resort attempts".split()
ROUTE = [*"selection targets name provider model enabled budget limits".split(), *POLICY]
DEFAULTS = ["route", "system", *POLICY]
BUDGET = ("requests_per_minute requests_per_day tokens_per_minute tokens_per_day usd_per_day usd_per_month").split()
LIMITS = "connect first_output stall deadline".split()
HEALTH = "first factor cap failures max_hint quota auth probe probe_every forget_after".split()
LOG = "conversations records_keep".split()
REPL = "keys toolbar history".split()
TOP = "version defaults aliases providers synthetic_providers routes limits health log repl".split()


@pytest.mark.parametrize(
    ("listed", "accepted"),
    [
        (PROVIDER, tables.PROVIDER),
        (MODEL_INFO, tables.MODEL_INFO.fields),
        (SYNTHETIC, tables.SYNTHETIC),
        (MEMBER, tables.MEMBER.fields),
        (TARGET, tables.TARGET.fields),
        (ROUTE, tables.ROUTE),
        (DEFAULTS, tables.DEFAULTS),
        (BUDGET, tables.BUDGET.fields),
        (LIMITS, tables.LIMITS.fields),
        (HEALTH, tables.HEALTH.fields),
        (LOG, tables.LOG.fields),
        (REPL, tables.REPL.fields),
        (TOP, tables.TOP),
        (["input", "output", "cached"], tables.PRICE.fields),
    ],
)
def test_the_file_accepts_exactly_the_listed_keys(listed, accepted) -> None:
    assert set(listed) == set(accepted)
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("struct", "keys", "beside"),
    [
        # ``beside``: what the typed value has and the file has not, or the file has and the value has not
        (typed.Provider, PROVIDER, {"id", "key_variable", "quirks", "origin"}),
        (typed.ModelInfo, MODEL_INFO, {"efforts"}),
        (typed.SyntheticProvider, SYNTHETIC, {"id", "providers", "weights"}),
        (typed.Member, MEMBER, set()),
        (typed.RouteTarget, TARGET, set()),
        (typed.Route, ROUTE, {"id"}),
        (typed.Defaults, DEFAULTS, set(POLICY)),
        (typed.Budget, BUDGET, set()),
        (typed.Limits, LIMITS, set()),
        (typed.Health, HEALTH, set()),
        (typed.Log, LOG, set()),
        (typed.Repl, REPL, set()),
        (typed.Config, TOP, {"version", "health", "warnings", "files", "digest", "mode"}),
    ],
)
def test_every_listed_key_has_its_place_in_the_typed_config(struct, keys, beside) -> None:
    assert set(struct.__struct_fields__) ^ set(keys) == beside


@pytest.mark.parametrize(
    ("value", "stated"),
    [
        (typed.DEFAULT_LIMITS, {"connect": 10, "first_output": 10, "stall": 30, "deadline": 600}),
        (
            typed.Health(),
            {
                "first": 30,
                "factor": 2,
                "cap": 8 * 3600,
                "failures": 1,
                "max_hint": 86400,
                "quota": 900,
                "auth": 1800,
                "probe": True,
                "probe_every": 30,
                "forget_after": 7 * 86400,
            },
        ),
        (typed.Log(), {"conversations": True, "records_keep": 90 * 86400}),
        (typed.Repl(), {"keys": "emacs", "toolbar": True, "history": True}),
    ],
)
def test_the_defaults_are_the_stated_ones(value, stated) -> None:
    assert msgspec.structs.asdict(value) == stated


def test_a_route_has_the_stated_defaults(config) -> None:
    route = config('providers.a = { preset = "openai" }\nroutes.r = { targets = ["a/m"] }').routes["r"]
    assert (route.selection, route.fixed, route.sticky, route.last_resort, route.attempts, route.enabled) == (
        "ordered",
        False,
        True,
        "guessed",
        None,
        True,
    )
