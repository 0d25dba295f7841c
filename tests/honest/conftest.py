"""A router over real SDKs and a vendor on this machine: whole questions, from the Python call to the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from routekit import RoutekitError, Router
from tests.loopback import PREFIXES, Loopback, loopback

__all__ = ["loopback"]

#: for tests in which no limit plays a part: long enough for any machine
PATIENT = 'first_output = "20s"\nstall = "20s"'

Make = Callable[..., Router]


@pytest.fixture
def make() -> Iterator[Make]:
    """``make("toml")`` is a router that is closed when the test ends."""
    made: list[Router] = []

    def new(text: str, **more: Any) -> Router:
        made.append(Router.from_toml("version = 1\n" + text, **more))
        return made[-1]

    yield new
    for router in made:
        router.close()


@pytest.fixture(params=sorted(PREFIXES))
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def two(loopback: Loopback, api: str, *, limits: str = PATIENT, more: str = "") -> str:
    """Two accounts of one API on loopback, and the route ``r`` over ``a/m`` and ``b/n``."""
    rows = "".join(
        f'[providers.{name}]\napi = "{api}"\nbase_url = "{loopback.url(api)}"\nkey = "none"\n' for name in "ab"
    )
    return f'{rows}[limits]\n{limits}\n[routes.r]\ntargets = ["a/m", "b/n"]\n{more}'


def fails(router: Router, prompt: Any = "hi", **how: Any) -> RoutekitError:
    try:
        answer = router.ask(prompt, **how)
    except RoutekitError as error:
        return error
    raise AssertionError(f"it was answered: {answer}")


def live(router: Router, prompt: Any = "hi", **how: Any) -> tuple[str, RoutekitError | None]:
    """What the reader of a live answer was shown, and the error it ended with."""
    shown: list[str] = []
    try:
        for delta in router.stream(prompt, **how):
            shown.append(delta.text)
    except RoutekitError as error:
        return "".join(shown), error
    return "".join(shown), None


def troubled(router: Router) -> dict[str, str]:
    """Everything that is not well, by its key."""
    return {row.key: row.state for row in router.health() if row.state != "well"}
