"""Records are kept as long as ``[log] records_keep`` says."""

from __future__ import annotations

from routekit import testing

DAY = 86400.0
TOML = """
version = 1
[providers.a]
api = "scripted"
[log]
records_keep = "7d"
"""


def test_records_older_than_records_keep_are_forgotten_with_a_later_request() -> None:
    clock = testing.Clock()
    router = testing.router_from(TOML, scripts={"a": ["yes"]}, clock=clock)
    router.ask("old", model="a/m")
    clock.advance(6 * DAY)
    router.ask("young", model="a/m")
    clock.advance(2 * DAY)
    router.ask("new", model="a/m")
    assert [clock() - record.time for record in testing.records(router)] == [2 * DAY, 0.0]


def test_old_records_are_looked_for_once_a_day_at_most() -> None:
    clock = testing.Clock()
    router = testing.router_from(TOML, scripts={"a": ["yes"]}, clock=clock)
    router.ask("old", model="a/m")
    clock.advance(7 * DAY - 60.0)
    router.ask("just before", model="a/m")
    clock.advance(3600.0)
    router.ask("within the day", model="a/m")
    assert len(testing.records(router)) == 3
