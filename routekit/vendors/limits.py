"""What vendors say about their limits in response headers, read into windows and holds. It judges no error.

Names are compared in lower case. An empty header is absent, never zero; a value nobody can read is unknown.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from ..core.health import Hold
from ..core.value import Value

#: a hold lasts this long where the vendor states no reset, and never longer than a day
UNSTATED, LONGEST = 60.0, 86400.0
#: with one in so many left, or less, and a stated reset, the target is demoted, not excluded
NEARLY = 20
#: no reset is 31 years away: a plain number beyond these is a unix time, in seconds or milliseconds
EPOCH_S, EPOCH_MS = 1e9, 1e12

#: the name of the window that a wait stated for the whole answer becomes
RETRY_AFTER = "retry-after"

REQUEST_IDS = ("x-request-id", "request-id", "x-ms-request-id", "apim-request-id", "x-generation-id", "cf-ray")
_KEPT = (*REQUEST_IDS, "retry-after", "retry-after-ms", "x-should-retry")
_KEPT_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-", "ratelimit-")

#: which part of a header's name says what; the rest of the name is the dimension (``requests``, ``input-tokens`` …)
_NAMES = (
    re.compile(r"(?:x-)?ratelimit-(?P<part>limit|remaining|reset)(?:-(?P<name>.+))?"),
    re.compile(r"anthropic-ratelimit-(?P<name>.+)-(?P<part>limit|remaining|reset|status)"),
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DURATION = re.compile(r"(?:\d{1,15}(?:\.\d{1,15})?(?:ms|s|m|h|d))+")
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?")


class LimitWindow(Value):
    """One limit as the vendor states it. ``reset_in`` is in seconds from the response, 0 where it is past;
    ``None`` is unknown. ``retry-after`` appears as a window of its own name with nothing remaining."""

    name: str
    limit: float | None = None
    remaining: float | None = None
    reset_in: float | None = None


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers by lower-case name, without the empty ones; bytes and other odd values are dropped."""
    return {
        name.lower(): value.strip()
        for name, value in headers.items()
        if isinstance(name, str) and isinstance(value, str) and value.strip()
    }


def keep(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers worth keeping of an answer: limits, waiting times, request ids. Everything else is left behind."""
    return {
        name: value[:200]
        for name, value in lowered(headers).items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }


def request_id(headers: Mapping[str, str]) -> str | None:
    found = lowered(headers)
    return next((found[name][:200] for name in REQUEST_IDS if name in found), None)


def number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def parse_duration(text: str) -> float | None:
    """``1s``, ``250ms``, ``6m0s``, ``1h2m3.5s``, ``1d`` and bare seconds; ``None`` for anything else."""
    text = text.strip().lower()
    if _DURATION.fullmatch(text):
        return sum(float(count) * _UNITS[unit] for count, unit in _PIECE.findall(text))
    seconds = number(text)
    return seconds if seconds is not None and seconds >= 0 else None


def parse_time(text: str) -> float | None:
    """An RFC 3339 or HTTP date as a unix time; one without a zone is UTC."""
    when: datetime.datetime | None
    try:
        when = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        when = _http_date(text)
    if when is None:
        return None
    try:
        return (when if when.tzinfo else when.replace(tzinfo=datetime.UTC)).timestamp()
    except (OverflowError, ValueError):
        return None


def _http_date(text: str) -> datetime.datetime | None:
    from email.utils import parsedate_to_datetime  # here, because only such dates need it

    try:
        return parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def parse_reset(text: str, *, now: float, quirks: Sequence[str] = ()) -> float | None:
    """Seconds until a reset; 0 for a moment that is past, ``None`` for what cannot be read."""
    seconds = parse_duration(text)
    if seconds is None:
        when = parse_time(text) if "-" in text or ":" in text else None
        return None if when is None else max(0.0, when - now)
    if "reset-epoch-ms" in quirks or seconds >= EPOCH_MS:
        return max(0.0, seconds / 1000 - now)
    return max(0.0, seconds - now) if seconds >= EPOCH_S else seconds


def parse_retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """The wait a vendor asks for: ``retry-after-ms`` before ``retry-after`` (seconds or an HTTP date). Zero, negative,
    past and unreadable values are no wish at all."""
    found = lowered(headers)
    return _positive(number(found.get("retry-after-ms", "")), 0.001) or _retry_after(
        found.get("retry-after", ""), now=now
    )


def _retry_after(text: str, *, now: float) -> float | None:
    seconds = number(text)
    if seconds is None and text:
        when = parse_time(text)
        seconds = None if when is None else when - now
    return _positive(seconds)


def _positive(value: float | None, scale: float = 1.0) -> float | None:
    seconds = None if value is None else value * scale
    return seconds if seconds is not None and math.isfinite(seconds) and seconds > 0 else None


def observe(headers: Mapping[str, str], *, now: float, quirks: Sequence[str] = ()) -> list[LimitWindow]:
    """Every limit an answer states, in the order of first mention. ``quirks`` are those of the vendor's preset."""
    parts: dict[str, dict[str, str]] = {}
    for header, text in lowered(headers).items():
        match = next((found for pattern in _NAMES if (found := pattern.fullmatch(header))), None)
        if match:
            parts.setdefault(match["name"] or "all", {})[match["part"]] = text
    windows = [_window(name, said, now=now, quirks=quirks) for name, said in parts.items()]
    wait = parse_retry_after(headers, now=now)
    if wait is not None:
        windows.append(LimitWindow(name=RETRY_AFTER, remaining=0.0, reset_in=wait))
    return windows


def _window(name: str, said: Mapping[str, str], *, now: float, quirks: Sequence[str]) -> LimitWindow:
    remaining = _remaining(said, quirks)
    limit = number(said.get("limit", ""))
    return LimitWindow(
        name=name,
        limit=limit if limit is not None and limit > 0 else None,
        remaining=remaining,
        reset_in=parse_reset(said["reset"], now=now, quirks=quirks) if "reset" in said else None,
    )


def _remaining(said: Mapping[str, str], quirks: Sequence[str]) -> float | None:
    # Subscriptions state no count, only whether the next request would be let through.
    if said.get("status", "").lower() == "rejected":
        return 0.0
    remaining = number(said.get("remaining", ""))
    if remaining is None or remaining == -1:
        return None
    return None if remaining <= 0 and "unknown-limits" in quirks else remaining


def spent(windows: Iterable[LimitWindow]) -> list[LimitWindow]:
    """The windows with nothing left whose reset, where stated, is still to come."""
    return [
        window
        for window in windows
        if window.remaining is not None and window.remaining <= 0 and window.reset_in != 0.0
    ]


def hold(windows: Sequence[LimitWindow], now: float) -> Hold | None:
    """The hold these windows mean, counted from ``now``, the time of the response. Nothing remaining excludes until the
    latest reset; nearly nothing, with a stated reset, only demotes. ``None``: a healthy answer, which lifts a hold."""
    ends = [UNSTATED if window.reset_in is None else window.reset_in for window in spent(windows)]
    if ends:
        return Hold(start=now, end=now + min(max(ends), LONGEST))
    low = [window.reset_in for window in windows if window.reset_in and _nearly(window)]
    return Hold(start=now, end=now + min(max(low), LONGEST), demotes=True) if low else None


def _nearly(window: LimitWindow) -> bool:
    if window.remaining is None or window.limit is None:
        return False
    return 0 < window.remaining * NEARLY <= window.limit
