"""Decisions, attempts and skips in words: one phrasing for every surface. It decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

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


def cause(attempt: Attempt) -> str:
    """What went wrong in one attempt, ending in the window it earned: ``503 overloaded (sleep 30s)``."""
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
    return text + (f" (sleep {duration(attempt.window_s)})" if attempt.window_s else "")


def attempt_line(attempt: Attempt) -> str:
    took = duration(attempt.duration)
    if attempt.outcome == "success":
        return f"{attempt.target}: answered in {took}"
    if attempt.outcome == "cancelled":
        return f"{attempt.target}: cancelled after {took}"
    return f"{attempt.target}: {cause(attempt)} after {took}"


def skip_line(skip: Skip, now: float) -> str:
    left = f", back in {duration(skip.until - now)}" if skip.until is not None and skip.until > now else ""
    return f"{skip.target}: skipped, {skip.reason}{left}"


def sleepers(rows: Iterable[tuple[str, float]]) -> str:
    """``sleeping: a/m 29.9s, b/n 1m0s``; empty for none."""
    listed = ", ".join(f"{label} {duration(left)}" for label, left in rows)
    return f"sleeping: {listed}" if listed else ""


def decision_line(decision: GroupDecision) -> str:
    """``chat (ordered) → openai-plan/m: ordered; passed over a/m (target window)``."""
    passed = ", ".join(f"{skip.target} ({skip.reason})" for skip in decision.excluded)
    tail = f"; passed over {passed}" if passed else ""
    return f"{decision.label} ({decision.algorithm}) → {decision.chosen}: {decision.reason}{tail}"


def served_line(record: RequestRecord) -> str:
    """The line that keeps a substitution from being silent: ``chat → b/m (a/m: 503 …)``; empty when there was none."""
    if record.served_by is None or record.why_not is None:
        return ""
    return f"{record.reference} → {record.served_by} ({record.first_choice}: {record.why_not})"


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def ago(then: float, now: float) -> str:
    """How old something is: ``45s ago``, ``2h5m ago``, ``3d ago``."""
    age = max(0.0, now - then)
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
