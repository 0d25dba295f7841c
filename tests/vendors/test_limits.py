"""Limit headers: what a vendor states, and the hold that follows."""

from __future__ import annotations

import datetime
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core.health import Hold
from routekit.vendors.limits import (
    LimitWindow,
    hold,
    keep,
    observe,
    parse_reset,
    parse_retry_after,
    request_id,
)
from routekit.vendors.presets import PRESETS

NOW = 1_795_953_600.0  # 2026-11-29T12:00:00Z


def iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(NOW + seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def http_date(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(NOW + seconds, datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("250ms", 0.25),
        ("12ms", 0.012),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3723.5),
        ("1d", 86400.0),
        ("30d", 30 * 86400.0),
        ("30", 30.0),
        ("0.5", 0.5),
        ("0", 0.0),
        ("0s", 0.0),
        (" 7.66s ", 7.66),
        (iso(90), 90.0),
        (iso(-90), 0.0),
        ("2026-11-29T13:00:00+01:00", 0.0),
        ("2026-11-29T13:00:00.500+00:00", 3600.5),
        ("2026-11-29T12:01:30", 90.0),
        (http_date(90), 90.0),
        (str(int(NOW) + 45), 45.0),
        (str((int(NOW) + 45) * 1000), 45.0),
        ("soon", None),
        ("5 minutes", None),
        ("", None),
        ("-5", None),
        ("-5s", None),
        ("nan", None),
        ("inf", None),
        ("1e400", None),
        ("s", None),
        ("10:30", None),
    ],
)
def test_a_reset_is_read_in_every_form_vendors_use(text: str, seconds: float | None) -> None:
    assert parse_reset(text, now=NOW) == (None if seconds is None else pytest.approx(seconds))


def test_a_unix_time_in_milliseconds_is_read_where_the_vendors_row_says_so() -> None:
    headers = {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW + 300) * 1000)}
    (window,) = observe(headers, now=NOW, quirks=PRESETS["openrouter"].quirks)
    assert window == LimitWindow(name="all", limit=50, remaining=0, reset_in=300.0)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"RETRY-AFTER": http_date(120)}, 120.0),
        ({"retry-after-ms": "1500", "retry-after": "60"}, 1.5),
        ({"retry-after-ms": "0", "retry-after": "60"}, 60.0),
        ({"retry-after-ms": "soon", "retry-after": "60"}, 60.0),
        ({"retry-after": "86400"}, 86400.0),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": http_date(-60)}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_retry_after_is_a_positive_wait_or_nothing(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers, now=NOW) == seconds


def held(**headers: str) -> Hold | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return hold(observe(named, now=NOW), NOW)


def test_nothing_remaining_excludes_until_the_reset() -> None:
    found = held(x_ratelimit_limit_requests="60", x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="20s")
    assert found == Hold(start=NOW, end=NOW + 20)


@pytest.mark.parametrize(("remaining", "demotes"), [("40", True), ("50", True), ("51", False), ("400", False)])
def test_five_per_cent_left_with_a_stated_reset_demotes(remaining: str, demotes: bool) -> None:
    found = held(
        x_ratelimit_limit_requests="1000", x_ratelimit_remaining_requests=remaining, x_ratelimit_reset_requests="6m0s"
    )
    assert found == (Hold(start=NOW, end=NOW + 360, demotes=True) if demotes else None)


def test_nothing_remaining_without_a_reset_excludes_for_a_minute() -> None:
    assert held(x_ratelimit_remaining_tokens="0") == Hold(start=NOW, end=NOW + 60)


def test_nearly_nothing_without_a_reset_is_no_hold() -> None:
    assert held(x_ratelimit_limit_tokens="100", x_ratelimit_remaining_tokens="3") is None


def test_the_latest_of_all_windows_and_retry_after_counts() -> None:
    found = held(
        x_ratelimit_remaining_requests="0",
        x_ratelimit_reset_requests="10s",
        x_ratelimit_remaining_tokens="0",
        x_ratelimit_reset_tokens="45s",
        retry_after="5",
    )
    assert found == Hold(start=NOW, end=NOW + 45)


def test_retry_after_alone_is_a_hold_so_that_other_processes_wait_too() -> None:
    assert held(retry_after="8") == Hold(start=NOW, end=NOW + 8)


def test_a_window_that_has_ended_holds_nobody() -> None:
    assert held(anthropic_ratelimit_requests_remaining="0", anthropic_ratelimit_requests_reset=iso(-20)) is None


def test_a_hold_lasts_a_day_at_most() -> None:
    found = held(x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="30d")
    assert found == Hold(start=NOW, end=NOW + 86400)


@pytest.mark.parametrize("remaining", ["lots", "", "  ", "nan", "1,000"])
def test_an_unreadable_or_empty_remaining_is_unknown_not_zero(remaining: str) -> None:
    assert held(x_ratelimit_limit_requests="60", x_ratelimit_remaining_requests=remaining) is None


def test_minus_one_is_unknown_everywhere() -> None:
    assert held(x_ratelimit_limit_tokens="-1", x_ratelimit_remaining_tokens="-1") is None


def test_a_zero_is_unknown_where_the_vendors_row_says_so() -> None:
    headers = {"x-ratelimit-limit-tokens": "0", "x-ratelimit-remaining-tokens": "0"}
    assert hold(observe(headers, now=NOW, quirks=PRESETS["azure"].quirks), NOW) is None
    assert hold(observe(headers, now=NOW), NOW) is not None


def test_an_exclusion_outranks_a_demotion() -> None:
    found = held(
        x_ratelimit_limit_requests="100",
        x_ratelimit_remaining_requests="2",
        x_ratelimit_reset_requests="1h",
        x_ratelimit_remaining_tokens="0",
        x_ratelimit_reset_tokens="10s",
    )
    assert found == Hold(start=NOW, end=NOW + 10)


def test_anthropic_names_the_dimension_before_the_part() -> None:
    windows = observe(
        {
            "anthropic-ratelimit-input-tokens-limit": "50000",
            "anthropic-ratelimit-input-tokens-remaining": "1000",
            "anthropic-ratelimit-input-tokens-reset": iso(30),
        },
        now=NOW,
    )
    assert windows == [LimitWindow(name="input-tokens", limit=50000, remaining=1000, reset_in=30.0)]
    assert hold(windows, NOW) == Hold(start=NOW, end=NOW + 30, demotes=True)


def test_a_subscription_that_rejects_is_spent_until_its_unix_time() -> None:
    found = held(anthropic_ratelimit_unified_status="rejected", anthropic_ratelimit_unified_reset=str(int(NOW) + 7200))
    assert found == Hold(start=NOW, end=NOW + 7200)
    assert held(anthropic_ratelimit_unified_status="allowed", anthropic_ratelimit_unified_reset="1795953700") is None


def test_only_limits_waits_and_ids_are_kept_of_the_headers() -> None:
    kept = keep(
        {
            "X-Request-Id": "req_1",
            "Retry-After": "3",
            "x-ratelimit-limit-requests": "60",
            "anthropic-ratelimit-tokens-reset": "x" * 900,
            "x-ratelimit-remaining-requests": "",
            "Set-Cookie": "secret",
            "Authorization": "Bearer sk-secret",
            "Content-Type": "text/html",
            "openai-organization": "org-private",
        }
    )
    assert kept == {
        "x-request-id": "req_1",
        "retry-after": "3",
        "x-ratelimit-limit-requests": "60",
        "anthropic-ratelimit-tokens-reset": "x" * 200,
    }


def test_what_is_kept_means_the_same_hold() -> None:
    headers = {
        "X-RateLimit-Remaining-Requests": "0",
        "X-RateLimit-Reset-Requests": "20s",
        "Date": http_date(0),
        "Retry-After-Ms": "900",
    }
    assert observe(keep(headers), now=NOW) == observe(headers, now=NOW)


@pytest.mark.parametrize("name", ["x-request-id", "Request-Id", "apim-request-id"])
def test_the_vendors_request_id_is_found_under_any_of_its_names(name: str) -> None:
    assert request_id({name: "abc", "date": "x"}) == "abc"


HEADERS = st.dictionaries(
    st.one_of(
        st.sampled_from(
            [
                "retry-after",
                "retry-after-ms",
                "x-ratelimit-limit-requests",
                "x-ratelimit-remaining-requests",
                "x-ratelimit-reset-requests",
                "x-ratelimit-reset",
                "anthropic-ratelimit-unified-status",
                "anthropic-ratelimit-tokens-reset",
                "anthropic-ratelimit-tokens-remaining",
            ]
        ),
        st.text(max_size=20),
    ),
    st.one_of(
        st.text(max_size=40),
        st.integers().map(str),
        st.floats().map(str),
        st.datetimes().map(lambda when: when.isoformat()),
        st.datetimes().map(lambda when: when.strftime("%a, %d %b %Y %H:%M:%S GMT")),
    ),
)


@given(headers=HEADERS, quirks=st.sampled_from([(), ("reset-epoch-ms",), ("unknown-limits",)]))
def test_any_headers_at_all_give_a_finite_hold_of_at_most_a_day_or_none(
    headers: dict[str, str], quirks: tuple[str, ...]
) -> None:
    windows = observe(headers, now=NOW, quirks=quirks)
    found = hold(windows, NOW)
    assert all(window.reset_in is None or window.reset_in >= 0 for window in windows)
    assert found is None or (math.isfinite(found.end) and NOW <= found.end <= NOW + 86400)
