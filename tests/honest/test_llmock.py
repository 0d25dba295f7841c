"""Judged by somebody else's fake vendor: ``llmock`` breaks on purpose, watches what its client does about it, and says
so. It knows attempts by their bodies: two accounts asked for one model are one call to it, two models are two calls.

``strict`` verdicts are free of warnings, too. Where a stated wait is longer than a person wants to sit through, and
another model answers instead, it would warn of ``gave_up``: there, its errors are what counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from routekit import Router
from tests.honest.conftest import Make, fails, live

PROMPT = "Tell me of the sea"
SAME, OTHER = ("m", "m"), ("m", "n")
QUICK = 'first_output = "700ms"\nstall = "700ms"'
PATIENT = 'first_output = "20s"\nstall = "20s"'


def router_for(make: Make, llmock: Any, api: str, models: tuple[str, str], *, limits: str = PATIENT) -> Router:
    url = llmock.base_url("anthropic" if api == "anthropic-messages" else "openai")
    rows = "".join(f'[providers.{name}]\napi = "{api}"\nbase_url = "{url}"\nkey = "none"\n' for name in "ab")
    first, second = models
    return make(f'{rows}[limits]\n{limits}\n[routes.r]\ntargets = ["a/{first}", "b/{second}"]\n')


def ask(router: Router, way: str) -> str:
    if way == "held":
        return router.ask(PROMPT, model="r").text
    text, error = live(router, PROMPT, model="r")
    if error is not None:
        raise error
    return text


@pytest.fixture(params=["held", "live"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Case(NamedTuple):
    fault: Callable[[Any], object]
    models: tuple[str, str]
    attempts: int
    limits: str = PATIENT
    strict: bool = True


#: faults before any output: the answer is whole whichever way it is read
BEFORE: dict[str, Case] = {
    "a 503, once": Case(lambda m: m.fail(503), OTHER, 2),
    "down": Case(lambda m: m.fail(503, times=None, model="m"), OTHER, 3),
    "a 500, once": Case(lambda m: m.fail(500), SAME, 2),
    "a 529, for ever": Case(lambda m: m.fail(529, times=None, model="m"), OTHER, 3),
    "a 429 that asks for a second": Case(lambda m: m.rate_limit(retry_after=1.0), OTHER, 2),
    "a 429 without a wait": Case(lambda m: m.fail(429), SAME, 2),
    "a 429 that asks for a minute": Case(
        lambda m: m.fail(429, times=None, retry_after=60, model="m"), OTHER, 2, strict=False
    ),
    "a key refused": Case(lambda m: m.fail(401, times=None, model="m"), OTHER, 2),
    "a model that is gone": Case(lambda m: m.fail(404, times=None, model="m"), OTHER, 2),
    "a prompt too long for the first": Case(
        lambda m: m.fail(400, model="m", code="context_length_exceeded", message="maximum context length"), OTHER, 2
    ),
    "cut before output": Case(lambda m: m.disconnect(after_chunks=1), SAME, 2),
    "ended before output": Case(lambda m: m.truncate(after_chunks=1), SAME, 2),
    "slow to begin": Case(lambda m: m.slow_first_token(4), SAME, 2, QUICK),
    "silent before output": Case(lambda m: m.stall(after_chunks=1, seconds=4), SAME, 2, QUICK),
}

#: faults in the middle: an answer that was held back begins anew elsewhere
AFTER: dict[str, Case] = {
    "cut": Case(lambda m: m.disconnect(after_chunks=6), SAME, 2),
    "ended early without a word": Case(lambda m: m.truncate(after_chunks=6), SAME, 2),
    # Its server does not notice a client that leaves, and would warn that this one read on.
    "a broken event": Case(lambda m: m.corrupt(after_chunks=6), SAME, 2, strict=False),
    "silent in the middle": Case(lambda m: m.stall(after_chunks=6, seconds=4), SAME, 2, QUICK),
}


def check(llmock: Any, case: Case, text: str, whole: str) -> None:
    assert text == whole
    assert len(llmock.requests) <= case.attempts
    llmock.assert_resilient(strict=case.strict)


WORDS = "The sea is wide, the sea is deep, and what it takes it likes to keep; so says the one who mends the net."


@pytest.mark.parametrize("name", BEFORE)
def test_a_fault_before_output_is_survived_with_a_clean_verdict(
    name: str, api: str, way: str, llmock: Any, make: Make
) -> None:
    case = BEFORE[name]
    llmock.reply(WORDS, times=None)
    case.fault(llmock)
    router = router_for(make, llmock, api, case.models, limits=case.limits)
    check(llmock, case, ask(router, way), WORDS)
    assert llmock.verdict().faults + (case.limits == QUICK) >= 1


@pytest.mark.parametrize("name", AFTER)
def test_a_fault_in_the_middle_of_a_held_back_answer_is_survived_with_a_clean_verdict(
    name: str, api: str, llmock: Any, make: Make
) -> None:
    case = AFTER[name]
    llmock.reply(WORDS, times=None)
    case.fault(llmock)
    router = router_for(make, llmock, api, case.models, limits=case.limits)
    # Responses tell the whole text once more: a lost event is made good in place.
    mended = name == "a broken event" and api == "openai-responses"
    check(llmock, case._replace(attempts=1 if mended else 2), ask(router, "held"), WORDS)
    record = router.last_record()
    assert record is not None
    assert [row.outcome for row in record.attempts] == (["success"] if mended else ["truncated", "success"])


@pytest.mark.parametrize("name", AFTER)
def test_a_live_answer_that_breaks_off_is_never_a_success(name: str, api: str, llmock: Any, make: Make) -> None:
    # It cannot see that its client raised an error: no verdict here, only what the reader is told.
    case = AFTER[name]
    llmock.reply(WORDS, times=None)
    case.fault(llmock)
    text, error = live(router_for(make, llmock, api, case.models, limits=case.limits), PROMPT, model="r")
    if error is None:
        # made good in place, as above
        assert (api, text) == ("openai-responses", WORDS)
        return
    assert error.exit_code == 74
    assert WORDS.startswith(text)
    assert 0 < len(text) < len(WORDS)
    assert len(llmock.requests) == 1


@pytest.mark.parametrize(("status", "code"), [(400, 65), (422, 65), (401, 77), (404, 69)])
def test_what_no_retry_can_mend_is_not_retried(
    status: int, code: int, api: str, way: str, llmock: Any, make: Make
) -> None:
    llmock.fail(status, times=None)
    router = router_for(make, llmock, api, OTHER)
    error = fails(router, PROMPT, model="r") if way == "held" else live(router, PROMPT, model="r")[1]
    assert error is not None
    assert error.exit_code == code
    assert len(llmock.requests) == (1 if code == 65 else 2)
    llmock.assert_resilient(strict=True)


def test_an_outage_of_everybody_is_bounded_and_no_storm(api: str, way: str, llmock: Any, make: Make) -> None:
    llmock.outage()
    router = router_for(make, llmock, api, OTHER)
    error = fails(router, PROMPT, model="r") if way == "held" else live(router, PROMPT, model="r")[1]
    assert error is not None
    assert error.exit_code == 69
    assert len(llmock.requests) == 4
    llmock.assert_resilient(strict=True)


def test_real_quotas_are_kept_by_asking_the_other_account(
    api: str, llmock: Any, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One request a minute for each key: the headers say that nothing is left, and the next question goes elsewhere.
    llmock.reply(WORDS, times=None).limits(rpm=1)
    monkeypatch.setenv("KEY_A", "sk-canary-aaaa")
    monkeypatch.setenv("KEY_B", "sk-canary-bbbb")
    url = llmock.base_url("anthropic" if api == "anthropic-messages" else "openai")
    rows = "".join(
        f'[providers.{name}]\napi = "{api}"\nbase_url = "{url}"\nkey = "env:KEY_{name.upper()}"\n' for name in "ab"
    )
    router = make(f'{rows}[routes.r]\ntargets = ["a/m", "b/m"]\n')
    assert [router.ask(f"{PROMPT} {number}", model="r").served_by for number in range(2)] == ["a/m", "b/m"]
    assert [record.status for record in llmock.requests] == [200, 200]
    assert fails(router, PROMPT, model="r").exit_code == 75
    assert len(llmock.requests) == 2
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
def test_a_tool_call_is_handed_over_as_the_vendor_said_it(kind: str, api: str, llmock: Any, make: Make) -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
    llmock.call_tool("weather", {"city": "Zürich"}, times=None)
    router = router_for(make, llmock, api, OTHER)
    whole = router.ask(PROMPT, model="r", tools=[tool]).tool_calls
    assert [call["function"]["name"] for call in whole] == ["weather"]
    assert json.loads(whole[0]["function"]["arguments"]) == {"city": "Zürich"}
    llmock.break_tool_call(kind)
    broken = router.ask(PROMPT, model="r", tools=[tool]).tool_calls
    assert len(broken) == 1
    assert broken != whole
    llmock.assert_resilient(strict=True)
