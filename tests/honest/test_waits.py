"""What is waited for, and what is not: stated waits, slow answers, the rest of a credential that keeps failing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.honest.conftest import Make, fails, troubled, two
from tests.loopback import Loopback


def gaps(loopback: Loopback) -> list[float]:
    return [late.at - early.at for early, late in pairwise(loopback.requests)]


@pytest.mark.parametrize(
    ("status", "header"),
    [
        (503, {"retry-after": "1"}),
        (503, {"retry-after-ms": "900"}),
        (529, {"retry-after": "1"}),
        (429, {"retry-after": "1"}),
    ],
)
def test_a_short_stated_wait_is_kept_before_the_same_target_is_asked_again(
    status: int, header: dict[str, str], make: Make, loopback: Loopback
) -> None:
    loopback.script("m", {"status": status, "headers": header}, {})
    assert make(two(loopback, "openai-chat")).ask("hi", model="r").served_by == "a/m"
    assert gaps(loopback)[0] >= 0.85


@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_long_stated_wait_sends_the_request_to_another_at_once(status: int, make: Make, loopback: Loopback) -> None:
    loopback.script("m", {"status": status, "headers": {"retry-after": "60"}})
    router = make(two(loopback, "openai-chat"))
    assert router.ask("hi", model="r").served_by == "b/n"
    assert [request.model for request in loopback.requests] == ["m", "n"]
    row = next(row for row in router.health() if row.key == "a/m")
    assert row.until is not None
    assert 50 < row.until - row.last_failure <= 60


# -- slow, but answering: with the real numbers in tests/slow ----------------------------------------------------------


def test_an_only_target_is_waited_for_long_after_its_limit(api: str, make: Make, loopback: Loopback) -> None:
    loopback.script("m", {"hold": 1.5})
    text = two(loopback, api, limits='first_output = "500ms"\nstall = "20s"')
    router = make(text)
    assert router.ask("hi", model="a/m").served_by == "a/m"
    assert len(loopback.requests) == 1
    # the same target with a backup that is ready is left after it
    assert router.ask("hi", model="r").served_by == "b/n"
    assert troubled(router) == {"a/m": "asleep"}
    assert [request.model for request in loopback.requests] == ["m", "m", "n"]


def test_a_backup_that_is_no_use_makes_nobody_impatient(make: Make, loopback: Loopback) -> None:
    loopback.script("m", {"hold": 1.5})
    loopback.script("n", {"status": 429, "headers": {"retry-after": "600"}})
    router = make(two(loopback, "openai-chat", limits='first_output = "500ms"\nstall = "20s"'))
    fails(router, model="b/n")
    assert router.ask("hi", model="r").served_by == "a/m"
    assert [request.model for request in loopback.requests] == ["n", "m"]


@pytest.mark.parametrize(
    ("step", "credential", "asked"),
    [
        ({"status": 500}, "none", ["m1", "m1", "m2", "m2", "m3", "m3", "m4", "m4", "n"]),
        ({"status": 401}, "env:K", ["m1", "n"]),
        ({"status": 402}, "env:K", ["m1", "n"]),
    ],
    ids=["target", "auth", "quota"],
)
def test_a_fault_of_the_credential_spares_its_other_models_and_one_of_the_target_does_not(
    step: Any, credential: str, asked: list[str], make: Make, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K", "sk-canary-0123456789")
    for model in ("m1", "m2", "m3", "m4"):
        loopback.script(model, step)
    url = loopback.url()
    rows = f'[providers.a]\napi = "openai-chat"\nbase_url = "{url}"\nkey = "{credential}"\n'
    rows += f'[providers.b]\napi = "openai-chat"\nbase_url = "{url}"\nkey = "none"\n'
    listed = '"a/m1", "a/m2", "a/m3", "a/m4", "b/n"'
    assert make(f"{rows}[routes.r]\ntargets = [{listed}]\n").ask("hi", model="r").served_by == "b/n"
    assert [request.model for request in loopback.requests] == asked


def test_after_three_limits_of_one_account_its_other_models_are_left_out(
    make: Make, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The vendor says that the limit is the organisation's, and cool-downs are off: only the request itself remembers.
    monkeypatch.setenv("K", "sk-canary-0123456789")
    said = {"error": {"message": "Rate limit reached for your organization", "code": "rate_limit_exceeded"}}
    for model in ("m1", "m2", "m3", "m4", "m5"):
        loopback.script(model, {"status": 429, "body": said})
    url = loopback.url()
    rows = f'[providers.a]\napi = "openai-chat"\nbase_url = "{url}"\nkey = "env:K"\n'
    rows += f'[providers.b]\napi = "openai-chat"\nbase_url = "{url}"\nkey = "none"\n'
    listed = ", ".join(f'"a/m{number}"' for number in range(1, 6))
    router = make(f'[health]\nfirst = 0\n{rows}[routes.r]\ntargets = [{listed}, "b/n"]\n')
    answered = router.ask("hi", model="r")
    assert answered.served_by == "b/n"
    assert [request.model for request in loopback.requests] == ["m1", "m2", "m3", "n"]
