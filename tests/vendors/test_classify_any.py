"""Whatever a vendor answers, classification gives a fault: bounded, and never an exception."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core.faults import FAULTS, Fault
from routekit.vendors.classify import ROWS, classify, from_exception_name
from routekit.vendors.presets import PRESETS
from routekit.vendors.said import listen, masked

NOW = 1_795_953_600.0

KEYS = st.one_of(
    st.sampled_from(
        "error message code type status param detail details loc msg metadata raw headers innererror base_resp"
        " status_code status_msg retryDelay retry_after request_id reason errors X-RateLimit-Reset response".split()
    ),
    st.text(max_size=8),
)
CODES = st.sampled_from(sorted({code for row in ROWS for code in row.codes}))
WORDS = st.sampled_from(
    [
        "Rate limit exceeded, try again in 1h2m",
        "insufficient balance",
        "model `x` not found",
        "`temperature` is not supported",
        "You will regain access on 9999-99-99 at 99:99 UTC",
        "retry after 0001-01-01T00:00:00Z",
        '{"error": {"code": 429}}',
        "[" * 5000,
        "<html><title>x</title>",
        "Bearer " + "s" * 40,
    ]
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=60), CODES, WORDS, st.binary(max_size=40)
)
BODIES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=20,
)
HEADERS = st.dictionaries(
    st.one_of(
        st.sampled_from(["Retry-After", "retry-after-ms", "location", "x-request-id", "x-ratelimit-remaining-tokens"]),
        st.text(max_size=12),
    ),
    st.one_of(st.text(max_size=40), WORDS, st.integers().map(str), st.floats().map(str)),
    max_size=4,
)


def judged(status: int | None, body: Any, headers: dict[str, str], in_stream: bool, preset: str) -> Fault:
    quirks = PRESETS[preset].quirks
    return classify(status=status, body=body, headers=headers, in_stream=in_stream, now=NOW, quirks=quirks)


def check(fault: Fault) -> None:
    assert fault.kind in FAULTS
    assert 0 < len(fault.message) <= 300
    assert fault.message == " ".join(fault.message.split())
    assert fault.hint is None or (math.isfinite(fault.hint) and fault.hint > 0)
    assert fault.code is None or len(fault.code) <= 80
    assert fault.parameter is None or (fault.kind == "unsupported" and 0 < len(fault.parameter) <= 90)
    # a fault is kept in records: it must survive the way there and back
    assert msgspec.json.decode(msgspec.json.encode(fault), type=Fault) == fault


@given(
    status=st.one_of(st.none(), st.integers(), st.integers(min_value=100, max_value=600)),
    body=BODIES,
    headers=HEADERS,
    in_stream=st.booleans(),
    preset=st.sampled_from(sorted(PRESETS)),
)
def test_any_json_with_any_status_and_headers_gives_a_bounded_fault(
    status: int | None, body: Any, headers: dict[str, str], in_stream: bool, preset: str
) -> None:
    check(judged(status, body, headers, in_stream, preset))


@given(status=st.sampled_from([None, 200, 302, 400, 404, 429, 503]), body=st.binary(max_size=400), text=st.booleans())
def test_any_bytes_or_text_give_a_bounded_fault(status: int | None, body: bytes, text: bool) -> None:
    check(judged(status, body.decode("utf-8", "replace") if text else body, {}, False, "openrouter"))


@given(status=st.integers(min_value=400, max_value=599), text=st.text(max_size=200))
def test_the_fault_of_a_text_does_not_depend_on_how_its_whitespace_is_laid_out(status: int, text: str) -> None:
    spread = text.replace(" ", " \n\t ")
    assert judged(status, {"message": spread}, {}, False, "openai") == judged(
        status, {"message": text}, {}, False, "openai"
    )


@given(names=st.lists(st.text(max_size=20), max_size=6), text=st.text(max_size=400))
def test_any_exception_names_give_a_bounded_fault(names: list[str], text: str) -> None:
    fault = from_exception_name(names, text)
    assert fault.kind in FAULTS
    assert 0 < len(fault.message) <= 300


@given(secret=st.text(min_size=4, max_size=30), before=st.text(max_size=320), after=st.text(max_size=20))
def test_a_secret_that_was_named_is_nowhere_in_the_masked_text(secret: str, before: str, after: str) -> None:
    visible = " ".join(secret.split())
    shown = masked(f"{before}{secret}{after}", (secret,))
    # what surrounds a secret may itself spell it
    assert not visible or visible not in shown or visible in masked(f"{before}•••{after}")


def nested(depth: int) -> Any:
    body: Any = {"message": "deep"}
    for _ in range(depth):
        body = {"error": body}
    return body


HUGE = {
    "one-word": "a" * 2_000_000,
    "words": "model image tool `x` is not " * 50_000,
    "dots": "a." * 500_000,
    "tags": "<html>" + "<p" * 500_000,
    "scripts": "<html>" + "<script>" * 200_000,
    "brackets": "[" * 1_000_000,
    "deep": nested(900),
    "wide": {"error": [{"message": "x" * 300, "code": "y"}] * 20_000},
    "digits": {"error": {"message": "try again in " + "1" * 100_000 + " seconds"}},
    "spans": {"message": "try again " + "in 1s " * 50_000},
    "quotes": {"message": "'" * 200_000 + " is not supported"},
    "long-int": b'{"code": ' + b"9" * 50_000 + b"}",
    "access": {"message": "access model " * 20_000},
    "signature": {"message": "signature thinking " * 20_000},
}


@pytest.mark.timeout(20)  # it takes milliseconds; a pattern gone wrong takes for ever
@pytest.mark.parametrize("name", sorted(HUGE))
@pytest.mark.parametrize("status", [None, 400, 429])
def test_a_huge_or_hostile_body_ends_at_all(name: str, status: int | None) -> None:
    check(judged(status, HUGE[name], {}, False, "openrouter"))


def test_only_so_much_of_a_body_is_read() -> None:
    said = listen(400, HUGE["wide"])
    assert len(said.layers) <= 40
    assert len(said.text) <= 8192
