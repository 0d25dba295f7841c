"""Decisions, attempts and skips in words: one phrasing for every surface. It decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from .health import duration
from .record import Attempt, GroupDecision, RequestRecord, Skip

#: how a fault class is called where no vendor words say more
KINDS = {
    "transient": "failed",
    "timeout": "timed out",
    "rate_limit": "rate limit",
    "quota": "quota used up",
    "auth": "key refused",
    "region": "not served in this region",
    "model_gone": "no such model",
    "unsupported": "refuses a parameter",
    "context": "prompt too long",
    "content_filter": "refused by policy",
    "request": "request refused",
    "client_error": "refused",
    "setup": "set up wrongly",
    "truncated": "stream broke off",
    "cancelled": "cancelled",
    "unknown": "failed",
}


#: what is known of a key, as people read it: one word for one state, everywhere
KEY_STATES = {
    "present": "ok",
    "unknown": "none stored yet",
    "absent": "missing",
    "locked": "keyring locked",
    "silent": "not answering",
    "none": "no keyring",
    "refused": "refused by its vendor",
    "exposed": "readable by others",
    "unreadable": "cannot be read",
    "elsewhere": "stored for another host",
    "invalid": "unusable",
}

#: an attempt shorter than this (in seconds) failed at once
AT_ONCE = 0.1

#: why somebody is passed over, as machines write it: the plain words; ``{}`` is what stands in brackets
SKIPPED = {
    "hold": "on hold by its vendor",
    "its probe is out": "being tried by another request",
    "window too small": "the prompt is too long for it",
    "nobody ready": "nobody in it is ready",
    "credential absent": "no key",
    "credential locked": "its key is in a locked keyring",
    "credential silent": "its keyring does not answer",
    "credential none": "there is no keyring to hold its key",
    "credential refused": "its key was refused",
    "credential exposed": "its key file can be read by others",
    "credential unreadable": "its key file cannot be read",
    "credential elsewhere": "its key was stored for another host",
    "credential invalid": "its key cannot be a key",
    "credential window (auth)": "its key was refused",
    "credential window (quota)": "its account's quota is used up",
    "credential window (rate_limit)": "its account is limited",
}


def why_skipped(reason: str, said: str = "") -> str:
    """Why a candidate is passed over, in plain words: ``asleep after 503 overloaded``, ``on hold by its vendor``."""
    head, _, rest = reason.partition(" (")
    inside = rest.removesuffix(")")
    if head == "given up":
        return f"just now: {KINDS.get(inside, inside)}"
    if head == "target window":
        return f"asleep after {said}" if said else f"asleep ({KINDS.get(inside, inside)})"
    plain = SKIPPED.get(reason) or SKIPPED.get(head)
    if plain is None:
        return reason
    if reason in SKIPPED:
        return plain + (f": {said}" if said else "")
    return f"{plain} ({inside})" if inside else plain


def back_in(until: float | None, now: float) -> str:
    return f", back in {duration(until - now)}" if until is not None and until > now else ""


def cause(attempt: Attempt) -> str:
    """What went wrong in one attempt, ending in the window it earned: ``503 overloaded (sleep 30s)``."""
    return _what(attempt) + _sleep(attempt)


def _what(attempt: Attempt) -> str:
    status = str(attempt.status) if attempt.status and attempt.status >= 300 else ""
    kind = KINDS.get(attempt.kind or "", attempt.kind or "")
    said = attempt.message or ""
    if status and said.startswith(f"HTTP {status}"):
        # Where the vendor said nothing, the status is all there is, once.
        said = said.removeprefix(f"HTTP {status}").strip() or kind
    if said and attempt.kind in ("transient", "timeout", "unknown", "client_error"):
        # Here the vendor's own words say more than the class does.
        text = f"{status} {said}".strip()
    else:
        text = ": ".join(part for part in (f"{status} {kind}".strip(), said) if part)
    return text


def _sleep(attempt: Attempt) -> str:
    return f" (sleep {duration(attempt.window_s)})" if attempt.window_s else ""


def attempt_line(attempt: Attempt, *, times: int = 1, took: float | None = None) -> str:
    """One attempt, or ``times`` of them that failed alike, one after the other: ``a/m: 503 overloaded, twice (sleep
    30s)``. ``took``: how long they took together."""
    seconds = attempt.duration if took is None else took
    if attempt.outcome == "success":
        return f"{attempt.target}: answered in {duration(seconds)}"
    # What failed at once needs no length.
    after = f" after {duration(seconds)}" if seconds >= AT_ONCE else ""
    if attempt.outcome == "cancelled":
        return f"{attempt.target}: cancelled{after}"
    return f"{attempt.target}: {_what(attempt)}{_times(times)}{_sleep(attempt)}{after}"


def attempt_lines(attempts: Iterable[Attempt]) -> list[str]:
    """Every attempt, those that failed alike on one target told once."""
    return [run_line(run) for run in runs(attempts)]


def run_cause(run: Sequence[Attempt]) -> str:
    """``503 overloaded, twice (sleep 30s)``: as ``cause``, of attempts that failed alike."""
    return _what(run[-1]) + _times(len(run)) + _sleep(run[-1])


def _times(count: int) -> str:
    return "" if count == 1 else ", twice" if count == 2 else f", {count} times"


def run_line(run: Sequence[Attempt]) -> str:
    return attempt_line(run[-1], times=len(run), took=max(0.0, run[-1].end - run[0].start))


def runs(attempts: Iterable[Attempt]) -> list[list[Attempt]]:
    """The attempts, those together that failed alike on one target, one after the other."""
    found: list[list[Attempt]] = []
    for attempt in attempts:
        before = found[-1][-1] if found else None
        alike = before is not None and before.target == attempt.target and before.outcome == attempt.outcome == "failed"
        if before is not None and alike and _what(before) == _what(attempt):
            found[-1].append(attempt)
        else:
            found.append([attempt])
    return found


def skip_line(skip: Skip, now: float) -> str:
    return f"{skip.target}: skipped, {why_skipped(skip.reason, skip.said)}{back_in(skip.until, now)}"


def sleepers(rows: Iterable[tuple[str, float]]) -> str:
    """``sleeping: a/m 29.9s, b/n 1m0s``; empty for none."""
    listed = ", ".join(f"{label} {duration(left)}" for label, left in rows)
    return f"sleeping: {listed}" if listed else ""


def decision_line(decision: GroupDecision, now: float = float("inf")) -> str:
    """``chat (ordered) → openai-plan/m: ordered; passed over a/m (asleep after 503 overloaded)``; with ``now`` also
    when each is back."""
    passed = ", ".join(
        f"{skip.target} ({why_skipped(skip.reason, skip.said)}{back_in(skip.until, now)})" for skip in decision.excluded
    )
    tail = f"; passed over {passed}" if passed else ""
    return f"{decision.label} ({decision.algorithm}) → {decision.chosen}: {decision.reason}{tail}"


def served_line(record: RequestRecord) -> str:
    """The line that keeps a substitution from being silent: ``chat → b/m (a/m: 503 …)``; empty when there was none."""
    if record.served_by is None or record.why_not is None:
        return ""
    return f"{record.reference} → {record.served_by} ({record.first_choice}: {record.why_not})"


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def passed_over(count: int, word: str) -> str:
    """What is said of rows that cannot be read: ``1 record is damaged and left out``."""
    return f"{plural(count, word)} {'is' if count == 1 else 'are'} damaged and left out"


def ago(then: float, now: float) -> str:
    """How old something is: ``45s ago``, ``2h5m ago``, ``3d ago``."""
    age = max(0.0, now - then)
    if not isfinite(age):
        return "at no time that can be told"
    return f"{int(age // 86400)}d ago" if age >= 2 * 86400 else f"{duration(float(round(age)))} ago"


def usage_line(record: RequestRecord) -> str:
    """``chat → openai/m · 2.1s · 812→143 tok · $0.0031``: who served, how long, tokens in and out, money."""
    usage = record.usage
    about = "~" if usage and usage.estimated else ""
    parts = [
        f"{record.reference} → {record.served_by}",
        duration(record.duration_s),
        f"{about}{usage.input_tokens}→{usage.output_tokens} tok" if usage else "",
        f"{usage.cached_tokens} cached" if usage and usage.cached_tokens else "",
        f"${record.cost}" if record.cost is not None else "",
    ]
    return " · ".join(part for part in parts if part)
