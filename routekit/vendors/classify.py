"""Which failure is of which kind: a table of rows, read in order, by code and text first and by status last.

It imports no SDK and does no I/O; what follows from a kind is ``core.faults``. First match wins, so a row's place is
part of its meaning: what a vendor says exactly stands before what its words suggest, and money before the rate limits
it likes to dress as.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.faults import Fault, Scope
from ..core.value import Value
from . import limits
from .said import Said, listen, masked

_4XX = (400, 404, 405, 413, 415, 422)
#: statuses under which a vendor may be speaking of the request itself: ``None`` is an error inside a 200
ASKED = frozenset({None, *_4XX, 403, 500, 501})
#: a 500 that says "not supported" is a crash more often than a refusal
REFUSED = ASKED - {500}
MONEY = frozenset({None, 400, 402, 403, 429, 500, 503})
FAILED = frozenset({None, *range(500, 600)})


class Row(Value):
    """One kind of failure as vendors word it; every stated condition must hold. ``words`` is a pattern searched without
    regard to case; its group ``p`` names the refused parameter, else ``parameter`` does, else the body. ``quirk``: only
    for vendors with that quirk. ``waits``: a waiting time in the body belongs to this failure."""

    kind: str
    codes: frozenset[str] = frozenset()
    words: str = ""
    status: frozenset[int | None] = frozenset()
    scope: Scope | None = None
    parameter: str | None = None
    quirk: str | None = None
    page: bool = False
    pointed: bool = False
    waits: bool = True


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _both(first: str, second: str) -> str:
    """A pattern for texts that hold both, in either order."""
    return rf"^(?=.*(?:{first}))(?=.*(?:{second}))"


#: how vendors say that a model refuses something
_NO = (
    r"not support|n't support|unsupported|only supported|only supports|unavailable|not (?:available|allowed|permitted)"
    r"|unknown variant|no endpoints found that support|does not accept|is deprecated|no longer supported|not one of"
    r"|may only be set|only the default|may not be enabled|extra inputs|cannot both|requires --"
)
#: request parameters, where only their name tells them from a model's
_PARAMETERS = (
    "temperature|top_p|top_k|top_logprobs|min_p|stop_sequences|logprobs|logit_bias|presence_?penalty"
    "|frequency_?penalty|repetition_?penalty|max_completion_tokens|max_output_tokens|max_tokens|reasoning_?effort"
    "|reasoning_content|thinking|stream_options|parallel_tool_calls|tool_choice|response_format|service_tier"
    "|prompt_cache_key|prompt_cache_retention|safety_identifier|verbosity|cache_control|output_config"
    "|previous_response_id|function_call|context_management"
)
#: parameters whose names are everyday words count in quotes only
_EVERYDAY = "stop|seed|n|user|store|metadata|include|reasoning|effort|tools|functions|truncation|modalities|prediction"
_NAME = r"[`'\"]?(?P<p>[A-Za-z][\w.\[\]-]{0,80})[`'\"]?"
_KNOWN = (
    rf"[`'\"]?\b(?P<p>(?:{_PARAMETERS})(?:\.[\w.]{{1,60}})?|(?<=[`'\"])(?:{_EVERYDAY})(?:\.[\w.]{{1,60}})?(?=[`'\"]))\b"
    r"[`'\"]?"
)

_VENDOR_NUMBERS = (
    Row(kind="quota", codes=_codes("1113 1304 1308 1309 1310"), quirk="zai-codes"),
    Row(kind="rate_limit", codes=_codes("1302 1303 1305"), quirk="zai-codes"),
    Row(kind="auth", codes=_codes("1000 1001 1002 1003 1004 1112 1220"), quirk="zai-codes"),
    Row(kind="model_gone", codes=_codes("1211 1222"), quirk="zai-codes"),
    Row(kind="context", codes=_codes("1261"), quirk="zai-codes"),
    Row(kind="content_filter", codes=_codes("1301"), quirk="zai-codes"),
    Row(kind="request", codes=_codes("1210 1213 1214 1215"), quirk="zai-codes"),
    Row(kind="rate_limit", codes=_codes("1002 1039"), quirk="minimax-codes"),
    Row(kind="auth", codes=_codes("1004 2049"), quirk="minimax-codes"),
    Row(kind="quota", codes=_codes("1008 2056"), quirk="minimax-codes"),
    Row(kind="content_filter", codes=_codes("1026 1027"), quirk="minimax-codes"),
    Row(kind="context", codes=_codes("2013"), words="context window|too long", quirk="minimax-codes"),
    Row(kind="request", codes=_codes("2013"), quirk="minimax-codes"),
)

_EXACT = (
    Row(
        kind="region",
        codes=_codes("unsupported_country_region_territory unsupported_region region_not_supported"),
    ),
    # Gemini words every limit as "check your plan and billing details". A day's limit is one model's, and the wait
    # stated beside it is that of the minute.
    Row(kind="quota", codes=_codes("resource_exhausted"), words=r"prepa(?:id|y)|depleted|spend\w* (?:cap|limit)"),
    Row(kind="quota", codes=_codes("resource_exhausted"), status=frozenset({402})),
    Row(kind="quota", codes=_codes("resource_exhausted"), words="PerDay", scope="target", waits=False),
    Row(kind="rate_limit", codes=_codes("resource_exhausted")),
    Row(
        kind="quota",
        codes=_codes(
            """insufficient_quota credit_balance_exhausted organization_spend_limit_exceeded
            project_spend_limit_exceeded organization_usage_limit_exceeded billing_hard_limit_reached
            billing_not_active billing_error enforced_spend_limit_reached contract_spend_limit_reached
            linked_organization_spend_limit_reached linked_organization_billing_unavailable organization_on_hold
            user_profile_billing_not_authorized user_profile_not_billable exceeded_current_quota_error
            insufficient_balance insufficient_balance_error insufficient_credits usage_limit_reached quota_exceeded"""
        ),
    ),
    # Larger than the whole minute's allowance: waiting never helps, and the target is fine for smaller ones.
    Row(kind="rate_limit", words=r"request too large for .{0,200}(?:tokens per|\btpm\b)", scope="nobody", waits=False),
    Row(kind="rate_limit", codes=_codes("openrouter_in_flight_budget"), scope="credential"),
    Row(kind="rate_limit", codes=_codes("ramp_limit_exceeded slow_down")),
    Row(
        kind="context",
        codes=_codes(
            """context_length_exceeded exceed_context_size_error context_exceeded context_window_exceeded
            model_context_window_exceeded tokens_limit_reached"""
        ),
    ),
    Row(
        kind="content_filter",
        codes=_codes(
            """content_filter content_policy_violation responsibleaipolicyviolation invalid_prompt bio_policy
            misalignment_policy_violation image_content_policy_violation data_inspection_failed"""
        ),
    ),
    Row(
        kind="request",
        codes=_codes(
            """invalid_image invalid_image_format invalid_base64_image invalid_image_url image_too_large image_too_small
            image_parse_error invalid_image_mode image_file_too_large unsupported_image_media_type empty_image_file
            failed_to_download_image image_file_not_found image_dimensions_too_large string_above_max_length"""
        ),
    ),
    Row(kind="unsupported", codes=_codes("invalid_encrypted_content"), parameter="thinking"),
    Row(
        kind="auth",
        codes=_codes(
            """invalid_api_key incorrect_api_key expired_api_key api_key_invalid api_key_scope_missing
            invalid_authentication_error account_deactivated ip_not_authorized unauthenticated user_profile_required
            user_profile_not_found claude_code_key_creator_not_member organization_level_scoped_api_key_required"""
        ),
    ),
    Row(
        kind="model_gone",
        codes=_codes(
            """model_not_found model_not_available model_decommissioned model_deprecated model_not_active
            model_terms_required invalid_model model_not_supported deploymentnotfound operationnotsupported"""
        ),
    ),
    Row(
        kind="transient",
        codes=_codes(
            "server_is_overloaded overloaded_error engine_overloaded_error engine_overloaded unavailable_error"
        ),
    ),
    Row(kind="setup", codes=_codes("data_residency_mismatch")),
)

_WORDED = (
    # Before money: a refusal may add that "no credits were charged".
    Row(
        kind="content_filter",
        words=(
            r"content (?:management |usage |filtering |safety )?polic|content[ _]filter|safety system"
            r"|requires moderation|input was flagged|prompt was flagged|flagged as|guardrail"
            r"|violates? (?:our |the )?usage (?:guidelines|polic)"
            r"|content exists risk|sensitive content|new_sensitive|responsible ai"
        ),
        status=ASKED,
    ),
    Row(
        kind="rate_limit",
        words=r"rate.?limit (?:was |is |has been )?(?:exceeded|reached)|would exceed .{0,60}rate.?limit"
        r"|exceeded .{0,40}rate.?limit|too many (?:concurrent )?requests|free-models-per",
        status=frozenset({None, 400, 403, 413, 429, 503}),
    ),
    Row(
        kind="quota",
        words=(
            r"insufficient[ _](?:\w+ )?(?:balance|credits?|funds|quota)|credit balance"
            r"|exceeded your current \w*\s?quota"
            r"|\b(?:out of|not enough|any|enough|more|available|remaining|purchase|buy|add) (?:\w+ )?credits?\b"
            r"|spend(?:ing)?[ -](?:limit|cap)|usage limits?\b.{0,80}(?:reach|exceed|regain|hit)"
            r"|(?:reach|exceed|hit)\w* .{0,60}usage limits?|can only afford|payment required|recharge|\btop.?up\b"
            r"|billing (?:hard limit|details|is not|not active)|key limit exceeded|account is not active|in arrears"
            r"|余额不足|欠费|请充值"
        ),
        status=MONEY,
    ),
    Row(kind="rate_limit", words=r"rate.?limit|per[ _-]?(?:minute|second)|\b[rt]p[md]\b", status=frozenset({429})),
    Row(kind="quota", words=r"\b(?:credits?|balance|quota|billing)\b", status=frozenset({402, 403, 429})),
    Row(
        kind="region",
        words=(
            r"(?:country|region|territory|location)\b.{0,60}(?:not|n't|un)[ -]?(?:support|avail|allow)"
            r"|(?:not|n't|un)[ -]?(?:supported|available|allowed) (?:in|for) (?:your |this |the )?"
            r"(?:country|region|territory|location)"
        ),
        status=ASKED,
    ),
    Row(
        kind="context",
        words=(
            r"context[ _-]?(?:length|window|size|limit)|too many (?:input |prompt )?tokens"
            r"|maximum (?:context|prompt|input)|reduce the length of"
            r"|(?:prompt|inputs?|messages?|conversation|request) (?:is|are|was) too long"
            r"|model token limit|input token count|max_new_tokens[`'\"]? must be|prompt exceeds|range of input length"
            r"|max_tokens must be at least 1, got -|tokens? .{0,40}exceeds? (?:the )?max"
        ),
        status=ASKED,
    ),
)

_UNSUPPORTED = (
    # Reasoning another vendor or account signed: refused whatever its place, and cured by leaving it out.
    Row(
        kind="unsupported",
        words=r"signature\b.{0,60}\bthinking|thinking\b.{0,60}\bsignature|thought_signature|redacted_thinking"
        r"|encrypted (?:content|reasoning)",
        parameter="thinking",
        status=REFUSED,
    ),
    Row(
        kind="unsupported",
        words=r"\bprefill|must end with a user message|expected last role|last message must (?:be|have).{0,30}user",
        parameter="prefill",
        status=REFUSED,
    ),
    Row(kind="unsupported", words=r"stream_options", parameter="stream_options", status=REFUSED),
    Row(
        kind="unsupported",
        words=_both(
            r"\bimages?\b|image_url|\bvision\b|multimodal",
            "not support|n't support|only supported|unknown variant|no endpoints found that support|not a multimodal",
        ),
        parameter="images",
        status=ASKED,
    ),
    Row(
        kind="unsupported",
        words=_both(r"\bpdfs?\b|input_file|document (?:input|block)|file (?:input|content|part)", _NO),
        parameter="pdf",
        status=REFUSED,
    ),
    Row(kind="unsupported", codes=_codes("extra_forbidden value_error.extra"), pointed=True),
    Row(kind="unsupported", words=_NO, pointed=True, status=REFUSED),
    Row(
        kind="unsupported",
        words=rf"(?:unsupported|unknown|unrecognized|unexpected) (?:request )?(?:parameter|argument|field|name|property"
        rf"|keyword argument|value)s?(?: supplied)?:? {_NAME}",
        status=REFUSED,
    ),
    Row(
        kind="unsupported",
        words=rf"(?:property|parameter|argument|field) {_NAME} (?:is|are) (?:unsupported|not supported|not allowed)",
        status=REFUSED,
    ),
    Row(kind="unsupported", words=rf"argument not supported on this model:? {_NAME}", status=REFUSED),
    Row(kind="unsupported", words=rf"{_NAME}: extra (?:inputs|fields) (?:are )?not permitted", status=REFUSED),
    Row(kind="unsupported", words=rf"(?:not|n't) support (?:the )?parameter:? {_NAME}", status=REFUSED),
    Row(
        kind="unsupported",
        words=_both("tool_choice", _NO + "|forces tool use"),
        parameter="tool_choice",
        status=REFUSED,
    ),
    Row(
        kind="unsupported",
        words=_both(r"\btools?\b|\btool[ _](?:use|choice|calls?|calling)\b|function[ _]call", _NO),
        parameter="tools",
        status=REFUSED,
    ),
    Row(
        kind="unsupported",
        words=_both(r"response_format|json_schema|structured output|output_config\.format|text\.format", _NO),
        parameter="response_format",
        status=REFUSED,
    ),
    Row(
        kind="unsupported",
        words=_both(r"reasoning[ _.]?effort|\beffort\b", _NO),
        parameter="reasoning_effort",
        status=REFUSED,
    ),
    Row(
        kind="unsupported",
        words=_both(r"\bdeveloper\b", _NO + "|unknown|unexpected|invalid|must be one"),
        parameter="developer",
        status=REFUSED,
    ),
    Row(
        kind="unsupported",
        words=rf"{_KNOWN}:? (?:parameter )?(?:is|are|was|may|must|only|extra|does)? ?(?:{_NO}|be set to 1\b)",
        status=REFUSED,
    ),
    Row(kind="unsupported", words=rf"(?:not|n't) support (?:the )?{_KNOWN}(?: parameter)?\b", status=REFUSED),
    Row(
        kind="unsupported",
        words=r"\b(?P<p>max_(?:completion_|output_)?tokens)\b.{0,60}(?:too large|> \d|at most|exceeds|valid range)",
        status=REFUSED,
    ),
)

#: refused by code, and the words do not say what; the body may
_UNNAMED = (Row(kind="unsupported", codes=_codes("unsupported_parameter unsupported_value unknown_parameter")),)

_MODELS_AND_KEYS = (
    Row(
        kind="transient",
        words=r"overloaded|temporarily|at capacity|try again later|currently unavailable|loading model",
        status=FAILED,
    ),
    Row(
        kind="model_gone",
        words=(
            r"\b(?:model|deployment|engine)s?\b(?:(?!\. |; ).){0,100}?(?:not found|(?:does|do) ?n[o']t exist|not exist"
            r"|decommissioned|been deprecated|is deprecated|retired|shut ?down|no longer (?:available|supported))"
            r"|\bmodel [`'\"]?\S{1,120} (?:is|are) not (?:supported|available|enabled)"
            r"|no such model|unknown model|unsupported model|invalid model|unable to access (?:the )?model"
            r"|not found the model|not a chat model|not a valid model|(?:not have|no) access to (?:the |this )?model"
            r"|no endpoints found|no (?:available )?channel"
        ),
        status=ASKED | {410},
    ),
    Row(
        kind="auth",
        words=(
            r"(?:invalid|incorrect|wrong|missing|expired|revoked|disabled|no|malformed)(?: \w+){0,2} api[ _-]?key"
            r"|api[ _-]?key\b.{0,40}(?:invalid|incorrect|not valid|missing|expired|revoked|disabled|required|not found)"
            r"|invalid (?:x-api-key|bearer|authorization|credentials)|no auth credentials|invalid authentication"
            r"|authentication (?:failed|fails|required)|\bunauthori[sz]ed\b|not authori[sz]ed"
        ),
        status=ASKED,
    ),
)

#: codes so broad that words and the answer's own status go first
_BROAD = (
    Row(
        kind="rate_limit",
        codes=_codes(
            "rate_limit_error rate_limit_exceeded rate_limit_reached_error rate_limited too_many_requests throttled"
        ),
        status=frozenset({None, 429, 503}),
    ),
    Row(
        kind="auth",
        codes=_codes(
            "authentication_error permission_error permission_denied permission_denied_error forbidden unauthorized"
        ),
        status=frozenset({None, 400, 401, 403}),
    ),
    Row(kind="request", codes=_codes("request_too_large"), status=frozenset({None, 400, 413})),
    Row(
        kind="request",
        codes=_codes(
            "invalid_request_error invalid_request bad_request badrequesterror invalid_argument invalid_params"
            " validation_error"
        ),
        status=frozenset({None}),
    ),
    Row(kind="model_gone", codes=_codes("not_found_error"), status=frozenset({None})),
    # A page is a proxy's or a guard's word, not the vendor's: it says nothing of the key or the model.
    Row(kind="unknown", page=True, status=frozenset({403})),
    Row(kind="setup", page=True, status=frozenset({404, 405})),
    Row(
        kind="setup",
        words=r"^\W*(?:404 )?(?:page )?not found\W*$|invalid url|unknown (?:request )?(?:url|path|route)|no route"
        r"|route not found|cannot post|^\W*$",
        status=frozenset({404}),
    ),
)

ROWS: tuple[Row, ...] = (*_VENDOR_NUMBERS, *_EXACT, *_WORDED, *_UNSUPPORTED, *_UNNAMED, *_MODELS_AND_KEYS, *_BROAD)

STATUS: Mapping[int, str] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "model_gone",
    # the proxy of the user's own network asks for a login
    407: "setup",
    408: "transient",
    409: "transient",
    410: "model_gone",
    429: "rate_limit",
    529: "transient",
    **dict.fromkeys((400, 405, 406, 413, 414, 415, 422, 501), "request"),
    **dict.fromkeys((500, 502, 503, 504, *range(520, 531)), "transient"),
}
#: where a waiting time the vendor states is used
WAITS = frozenset({"transient", "timeout", "rate_limit", "quota", "unknown"})

#: an account's limit, not one model's
_ACCOUNT = re.compile(r"\b(?:account|organi[sz]ation|org|workspace|team|subscription|api[ _-]?key)\b", re.IGNORECASE)
_MODEL = re.compile(r"\bmodels?\b|\bdeployment\b|\bfor [`'\"]?\S{1,100} (?:in|on)\b", re.IGNORECASE)


def classify(
    *,
    status: int | None,
    body: object,
    headers: Mapping[str, str],
    in_stream: bool = False,
    now: float,
    quirks: Sequence[str] = (),
    hidden: Sequence[str] = (),
) -> Fault:
    """The fault an error answer stands for. ``body`` is what the vendor sent, decoded or not, whole or its inner error;
    ``in_stream`` marks an error frame of an answer that began well; ``hidden`` are secrets to mask before the words are
    cut to length. Never raises: whatever cannot be read is ``unknown``."""
    said = listen(status, body, hidden=hidden)
    if status is not None and 300 <= status < 400:
        return Fault(kind="setup", message=_redirect(status, headers), status=status, answered=True)
    row = next((row for row in ROWS if _fits(row, said, quirks)), None) or _by_status(said, status, in_stream)
    request_id = limits.request_id(headers) or _request_id(said.layers)
    return Fault(
        kind=row.kind,
        message=said.message or _wordless(status),
        status=status,
        code=said.code,
        hint=_hint(row, said, headers, now=now, quirks=quirks) if row.kind in WAITS else None,
        scope=_scope(row, said),
        parameter=_parameter(row, said) if row.kind == "unsupported" else None,
        request_id=masked(request_id, hidden) if request_id else None,
        answered=status is not None or in_stream,
    )


def _fits(row: Row, said: Said, quirks: Sequence[str]) -> bool:
    if row.codes and row.codes.isdisjoint(said.codes):
        return False
    if row.status and said.status not in row.status:
        return False
    # the words of a page are not the vendor's: only rows about pages, and its status, judge it
    if (row.quirk and row.quirk not in quirks) or row.page != said.page or (row.pointed and not said.param):
        return False
    return not row.words or _found(row.words, said.text) is not None


def _found(words: str, text: str) -> re.Match[str] | None:
    # compiled at the first error, not at start-up; re keeps what it has compiled
    return re.search(words, text, re.IGNORECASE | re.DOTALL)


def _by_status(said: Said, status: int | None, in_stream: bool) -> Row:
    code = said.status
    if code is None:
        # an error frame nobody can place, or a 2xx without an answer
        return Row(kind="transient" if in_stream or (status is not None and status >= 100) else "unknown")
    return Row(kind=STATUS.get(code) or ("client_error" if 400 <= code < 500 else "unknown"))


def _scope(row: Row, said: Said) -> Scope | None:
    if row.scope or row.kind != "rate_limit":
        return row.scope
    return "credential" if _ACCOUNT.search(said.text) and not _MODEL.search(said.text) else None


def _parameter(row: Row, said: Said) -> str | None:
    match = _found(row.words, said.text) if row.words else None
    named = match["p"] if match and "p" in match.re.groupindex else None
    return _top_level(named or row.parameter or said.param or "")


def _top_level(name: str) -> str | None:
    """The body parameter a vendor's name stands for: ``reasoningEffort`` → ``reasoning_effort``, ``thinking.type`` →
    ``thinking``. A place inside messages, input or tools stays whole: nothing may drop those in answer to it; so does
    one in ``output_config``, which holds more than one setting."""
    name = masked(name).strip("`'\". :")[:80]
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    head = re.split(r"[.\[]", name, maxsplit=1)[0]
    return (name if head in ("messages", "input", "tools", "contents", "output_config") else head) or None


def _request_id(layers: Sequence[Mapping[str, Any]]) -> str | None:
    found = (layer.get("request_id") for layer in layers)
    return next((text[:200] for text in found if isinstance(text, str) and text), None)


def _wordless(status: int | None) -> str:
    if status is None:
        return "an error without a word"
    return f"HTTP {status} without a word" if status >= 300 else f"HTTP {status} without an answer"


def _redirect(status: int, headers: Mapping[str, str]) -> str:
    """Names the host only: the rest of a location may carry what a login page was given."""
    match = re.match(r"(?:https?:)?//([^/?#\s]{1,253})", limits.lowered(headers).get("location", ""), re.IGNORECASE)
    host = f" to {masked(match[1].rpartition('@')[2])}" if match else ""
    return f"a redirect{host} (HTTP {status}): redirects are not followed, base_url must name the final address"


# -- waiting -----------------------------------------------------------------------------------------------------------

_SPAN = r"\d{1,9}(?:\.\d{1,12})?\s*(?:milliseconds?|ms|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|[smhd])"
_SPANS = re.compile(
    rf"\b(?:try again|retry\w*|wait\w*|resets?)\b[^.\n]{{0,30}}?\b(?:in|after|for|at least)\s+"
    rf"(?:about |approximately )?(?P<spans>{_SPAN}(?:(?:\s*,|\s+and)?\s*{_SPAN}){{0,3}})(?![a-z])",
    re.IGNORECASE,
)
_PIECES = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|mill|s|m|h|d)", re.IGNORECASE)
_SECONDS: Mapping[str, float] = {"ms": 0.001, "mill": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MOMENT = re.compile(
    r"\b(?:retry after|try again (?:at|after)|resets? at|until)\s+(\d{4}-\d\d-\d\dT\d\d:\d\d[\d:.]{0,16}"
    r"(?:Z|[+-]\d\d:?\d\d))",
    re.IGNORECASE,
)
_REGAIN = re.compile(r"regain access on (\d{4}-\d\d-\d\d)(?: at (\d\d:\d\d))?", re.IGNORECASE)
#: body fields that state a wait, and the seconds in one of their units
_WAIT_FIELDS: Mapping[str, float] = {
    "retryDelay": 1.0,
    "retry_after": 1.0,
    "retry_after_seconds": 1.0,
    "resets_in_seconds": 1.0,
    "retry_after_ms": 0.001,
}


def _hint(row: Row, said: Said, headers: Mapping[str, str], *, now: float, quirks: Sequence[str]) -> float | None:
    """The seconds the vendor asks to wait, as stated: by header, else in the body's fields, else in its words."""
    if not row.waits:
        return None
    asked = limits.parse_retry_after(headers, now=now)
    if row.kind == "rate_limit":
        # also until the limit that is used up starts afresh
        spent = limits.spent(limits.observe(headers, now=now, quirks=quirks))
        asked = max((wait for wait in (asked, *(window.reset_in for window in spent)) if wait), default=None)
    if row.kind == "quota":
        asked = asked or _regained(said, now)
    return asked or _stated_wait(said.layers, now=now, quirks=quirks) or _worded_wait(said.text, now)


def _regained(said: Said, now: float) -> float | None:
    """Spend limits end on a date: the one named, or the first of next month."""
    match = _REGAIN.search(said.text)
    if match:
        return _until(f"{match[1]}T{match[2] or '00:00'}:00+00:00", now)
    if "enforced_spend_limit_reached" not in said.codes:
        return None
    today = datetime.datetime.fromtimestamp(now, datetime.UTC)
    year, month = divmod(today.year * 12 + today.month, 12)
    return datetime.datetime(year, month + 1, 1, tzinfo=datetime.UTC).timestamp() - now


def _until(text: str, now: float) -> float | None:
    when = limits.parse_time(text)
    return when - now if when is not None and when > now else None


def _stated_wait(layers: Sequence[Mapping[str, Any]], *, now: float, quirks: Sequence[str]) -> float | None:
    for layer in layers:
        for field, unit in _WAIT_FIELDS.items():
            value = layer.get(field)
            seconds = limits.parse_duration(str(value)[:40]) if isinstance(value, str | int | float) else None
            if seconds:
                return seconds * unit
        # OpenRouter repeats the upstream's headers in the body
        windows = limits.spent(limits.observe(_header_like(layer), now=now, quirks=quirks))
        waits = [window.reset_in for window in windows if window.reset_in]
        if waits:
            return max(waits)
    return None


def _header_like(layer: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: str(value)[:100]
        for key, value in layer.items()
        if key.lower().startswith(("x-ratelimit-", "retry-after")) and isinstance(value, str | float)
    }


def _worded_wait(text: str, now: float) -> float | None:
    match = _SPANS.search(text)
    if match:
        pieces = _PIECES.findall(match["spans"])
        return sum(float(count) * _SECONDS[unit.lower()] for count, unit in pieces) or None
    moment = _MOMENT.search(text)
    return _until(moment[1], now) if moment else None


# -- transport ---------------------------------------------------------------------------------------------------------


class Broken(Value):
    """What an exception's class name stands for. ``delivered`` is False where the request certainly never reached the
    vendor. ``wraps``: the name says little, a cause with a row of its own says more. ``private``: the exception's text
    may show a key and is never repeated."""

    kind: str
    words: str
    delivered: bool = True
    wraps: bool = False
    private: bool = False


#: how the words begin where no connection was made
UNCONNECTED = "no connection"


def _broken(kind: str, names: str, words: str, **more: bool) -> dict[str, Broken]:
    return dict.fromkeys(names.split(), Broken(kind=kind, words=words, **more))


#: by class name, so that no SDK is imported to judge its exceptions
TRANSPORT: Mapping[str, Broken] = {
    **_broken("cancelled", "CancelledError KeyboardInterrupt GeneratorExit", "cancelled"),
    **_broken("timeout", "ConnectTimeout", "no connection in time", delivered=False),
    **_broken("timeout", "PoolTimeout", "no free connection in time", delivered=False),
    **_broken("timeout", "ReadTimeout", "no answer in time"),
    **_broken("timeout", "WriteTimeout", "the request could not be sent in time"),
    **_broken(
        "transient",
        "ConnectError gaierror ConnectionRefusedError ConnectionNotAvailable",
        UNCONNECTED,
        delivered=False,
    ),
    **_broken("transient", "ProxyError", "the proxy made no connection", delivered=False),
    **_broken("transient", "ReadError ConnectionResetError ConnectionAbortedError", "the connection broke"),
    **_broken("transient", "WriteError CloseError BrokenPipeError", "the connection broke"),
    **_broken("transient", "RemoteProtocolError IncompleteRead", "the answer broke off or is no HTTP"),
    **_broken("transient", "DecodingError SSEError", "the answer cannot be decoded"),
    **_broken("transient", "JSONDecodeError DecodeError UnicodeDecodeError", "the answer is no JSON"),
    **_broken("transient", "APIResponseValidationError ValidationError", "the answer has no known shape"),
    **_broken("transient", "AssertionError StreamConsumed StreamClosed StreamError", "the stream ended without an end"),
    **_broken("transient", "ResponseNotRead StreamAlreadyConsumed", "the answer could not be read"),
    **_broken(
        "setup",
        "LocalProtocolError",
        "the request cannot be written as HTTP: most often a key or a header holds a line break or a space",
        delivered=False,
        private=True,
    ),
    **_broken(
        "setup",
        "UnicodeEncodeError",
        "the request cannot be written: most often a key or a header holds a character outside ASCII",
        delivered=False,
        private=True,
    ),
    **_broken("setup", "UnsupportedProtocol", "base_url is no http or https address", delivered=False, private=True),
    **_broken("setup", "InvalidURL", "base_url is no address", delivered=False, private=True),
    **_broken("setup", "TooManyRedirects", "base_url leads from one redirect to the next", private=True),
    **_broken("setup", "CookieConflict RequestNotRead", "the HTTP client was misused", delivered=False, private=True),
    **_broken(
        "setup",
        "SSLCertVerificationError",
        "the vendor's certificate cannot be verified: this machine's certificate roots are missing or a proxy"
        " replaces them",
        delivered=False,
    ),
    **_broken("transient", "SSLError SSLEOFError SSLZeroReturnError", "TLS broke", delivered=False, wraps=True),
    **_broken(
        "setup",
        "MissingDependencyError MutuallyExclusiveAuthError _AmbiguousModuleClientUsageError APIRemovedInV1"
        " MissingStreamClassError",
        "the SDK was set up wrongly",
        delivered=False,
        private=True,
    ),
    **_broken(
        "auth",
        "CredentialsError IdentityTokenFileError WorkloadIdentityError OAuthError SubjectTokenProviderError"
        " _TransientTokenExchangeError _NonObjectPayloadError",
        "the SDK could not obtain a credential",
        delivered=False,
        private=True,
    ),
    **_broken("transient", "RetryableError WebSocketConnectionClosedError WebSocketQueueFullError", "the stream broke"),
    # routekit's own reader of streams
    **_broken("transient", "TooLong", "an event of the stream never ended"),
    **_broken("timeout", "DeadlineExceededError", "no answer in time"),
    **_broken("truncated", "LengthFinishReasonError", "the answer was cut at its length limit"),
    **_broken("content_filter", "ContentFilterFinishReasonError", "the vendor's filter refused"),
    # Parts of the SDKs that routekit never calls; named so that a new exception is noticed.
    **_broken(
        "unknown",
        "APIWebhookValidationError InvalidWebhookSignatureError ToolError FileStoreError ToolsetUsageError"
        " AgentFilePreparationError AgentFileStagingError AgentOutputParseError AgentTurnResultError ComputerUseError"
        " HTTPXDeprecationWarning",
        "an exception of a part of the SDK that is not used",
    ),
    # Wrappers: a cause says more. An error with a status is judged by its body, never by its class.
    **_broken("timeout", "APITimeoutError TimeoutException TimeoutError", "no answer in time", wraps=True),
    **_broken("transient", "APIConnectionError NetworkError ConnectionError", "the connection failed", wraps=True),
    **_broken("transient", "ProtocolError TransportError RequestError", "the connection failed", wraps=True),
    **_broken("unknown", "APIStatusError HTTPStatusError HTTPError", "an error answer", wraps=True),
    **_broken("transient", "APIError", "an error of the vendor", wraps=True),
    **_broken("unknown", "OpenAIError AnthropicError", "an error of the SDK", wraps=True, private=True),
}
UNKNOWN = Broken(kind="unknown", words="an exception nobody expected", private=True)

#: a certificate that is itself bad is the vendor's fault, not this machine's
_BAD_CERTIFICATE = re.compile(r"has expired|hostname mismatch|not valid for|not yet valid", re.IGNORECASE)
_NO_ROOTS = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|issuer certificate|self[- ]signed certificate|certificate roots", re.IGNORECASE
)
_PROXY_LOGIN = re.compile(r"\b407\b|proxy authentication", re.IGNORECASE)


def transport(kind: str, message: str = "") -> Fault:
    """The fault an exception class of that name stands for; ``message`` is the exception's text, where it is known."""
    return _as_fault(TRANSPORT.get(kind, UNKNOWN), message)


def from_exception_name(names: Sequence[str], text: str = "") -> Fault:
    """The fault an exception stands for. ``names`` are the class names of its ancestry, then those of its causes',
    nearest first; a name that wraps yields to one that says more."""
    if "SSLCertVerificationError" in names or _NO_ROOTS.search(text):
        name = "SSLError" if _BAD_CERTIFICATE.search(text) else "SSLCertVerificationError"
        return transport(name, text)
    if "ProxyError" in names and _PROXY_LOGIN.search(text):
        return _as_fault(Broken(kind="setup", words="the proxy asks for a login", delivered=False), text)
    if "UnicodeEncodeError" in names and "surrogates" in text:
        return _as_fault(Broken(kind="request", words="the text holds half a character", delivered=False), "")
    rows = [TRANSPORT[name] for name in names if name in TRANSPORT]
    telling = [row for row in rows if not row.wraps]
    return _as_fault(next(iter([*telling, *rows]), UNKNOWN), text)


#: what operating systems say of a connection, and what it means
PLAIN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"connect call failed|connection refused|errno (111|61)\b|winerror 10061", "nobody listens there"),
        (r"name or service not known|nodename nor servname|getaddrinfo failed", "there is no host of that name"),
        (r"temporary failure in name resolution|no address associated", "its name cannot be looked up"),
        (r"network is unreachable", "the network cannot be reached"),
        (r"no route to host|host is down", "the host cannot be reached"),
        (r"connection reset", "the other side reset it"),
    )
)
#: what SDKs say at length of a connection that ended too soon: here the words say all
ENDED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"peer closed connection|incomplete chunked read|IncompleteRead"), "its vendor hung up in the middle"),
    (re.compile(r"disconnected without sending a response", re.IGNORECASE), "its vendor hung up without an answer"),
)
_ERRNO = re.compile(r"\[Errno -?\d+\]\s*")


def plainly(text: str) -> str:
    """An operating system's words for a broken connection, without numbers and tuples."""
    found = next((words for pattern, words in PLAIN if pattern.search(text)), None)
    return found or _ERRNO.sub("", text)


def _as_fault(row: Broken, text: str) -> Fault:
    said = "" if row.private else plainly(masked(text))
    ended = next((words for pattern, words in ENDED if pattern.search(said)), None)
    message = ended or (f"{row.words}: {said}" if said and said.lower() not in row.words else row.words)
    return Fault(kind=row.kind, message=message[:300], delivered=row.delivered)
