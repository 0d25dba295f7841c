"""Classification: error bodies of recorded shape, each with the kind, the scope and the wait it must give."""

# ruff: noqa: E501  a recorded body reads best on one line

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
import pytest

from routekit.core.faults import FAULTS, Fault
from routekit.vendors.classify import ROWS, STATUS, Row, _by_status, _fits, _parameter, _scope, classify
from routekit.vendors.presets import PRESETS
from routekit.vendors.said import listen

NOW = 1_795_953_600.0  # 2026-11-29T12:00:00Z
DAY = 86400.0


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """``hits`` is what cools; ``over`` whether another target is tried; both are written out, not looked up."""

    id: str
    status: int | None
    body: Any
    kind: str
    hits: str
    over: str = "yes"
    hint: float | None = None
    parameter: str | None = None
    headers: Mapping[str, str] = {}
    in_stream: bool = False
    preset: str = "openai"

    def judged(self) -> Fault:
        return classify(
            status=self.status,
            body=self.body,
            headers=self.headers,
            in_stream=self.in_stream,
            now=NOW,
            quirks=PRESETS[self.preset].quirks,
        )


def openai(message: str, code: Any = None, type: str | None = "invalid_request_error", param: Any = None) -> Any:
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


def claude(type: str, message: str, error_code: str | None = None) -> Any:
    error: dict[str, Any] = {"type": type, "message": message}
    if error_code:
        error["details"] = {"error_code": error_code}
    return {"type": "error", "error": error, "request_id": "req_011"}


def transient(id: str, status: int | None, body: Any, **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="transient", hits="target", **more)


def rate(id: str, status: int | None, body: Any, hits: str = "target", **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="rate_limit", hits=hits, **more)


def quota(id: str, status: int | None, body: Any, hits: str = "credential", **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="quota", hits=hits, **more)


def auth(id: str, status: int | None, body: Any, **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="auth", hits="credential", **more)


def gone(id: str, status: int | None, body: Any, **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="model_gone", hits="target", **more)


def region(id: str, status: int | None, body: Any, **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="region", hits="target", **more)


def refused(id: str, status: int | None, body: Any, parameter: str | None, **more: Any) -> Case:
    return Case(
        id=id, status=status, body=body, kind="unsupported", hits="nobody", over="able", parameter=parameter, **more
    )


def context(id: str, status: int | None, body: Any, **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="context", hits="nobody", over="larger", **more)


def policy(id: str, status: int | None, body: Any, **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="content_filter", hits="nobody", over="no", **more)


def request(id: str, status: int | None, body: Any, **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="request", hits="nobody", over="no", **more)


def client(id: str, status: int | None, body: Any, **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="client_error", hits="nobody", **more)


def setup(id: str, status: int | None, body: Any, **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="setup", hits="nobody", **more)


def unknown(id: str, status: int | None, body: Any, **more: Any) -> Case:
    return Case(id=id, status=status, body=body, kind="unknown", hits="target", **more)


FORTY = "You can find your API key at https://platform.openai.com/account/api-keys."
PLAN = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error,"
    " head to: https://ai.google.dev/gemini-api/docs/rate-limits."
)


def gemini_quota(quota_id: str, delay: str) -> Any:
    failure = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota_id}]}
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    return [{"error": {"code": 429, "message": PLAN, "status": "RESOURCE_EXHAUSTED", "details": [failure, wait]}}]


OPENAI = (
    auth("openai-bad-key", 401, openai(f"Incorrect API key provided: sk-pr***abcd. {FORTY}", "invalid_api_key")),
    auth("openai-deactivated", 401, openai("The account was deactivated.", "account_deactivated")),
    auth("openai-not-a-member", 401, openai("You must be a member of an organization to use the API.")),
    auth("openai-ip", 401, openai("Your IP is not on the allow-list.", "ip_not_authorized")),
    auth("openai-scope", 403, openai("You have insufficient permissions for this operation. Missing scopes: model.request")),
    region("openai-country", 403, openai("Country, region, or territory not supported", "unsupported_country_region_territory")),
    gone("openai-no-model", 404, openai("The model `gpt-9` does not exist or you do not have access to it.", "model_not_found")),
    gone("openai-project-model", 403, openai("Project `p` does not have access to model `gpt-9`", "model_not_found")),
    gone("openai-not-chat", 404, openai("This is not a chat model and thus not supported in the v1/chat/completions endpoint.")),
    rate(
        "openai-tokens-per-minute", 429,
        openai("Rate limit reached for gpt-6.1-terra in organization org-x on tokens per min (TPM): Limit 30000,"
               " Used 29000, Requested 2000. Please try again in 2.1s.", "rate_limit_exceeded", "tokens"),
        hint=2.1,
    ),
    rate(
        "openai-minutes", 429, openai("Rate limit reached for m in organization o. Please try again in 6m0s.", "rate_limit_exceeded", "requests"),
        hint=360.0,
    ),
    rate(
        "openai-reset-beats-short-retry", 429, openai("Rate limit reached", "rate_limit_exceeded", "tokens"),
        headers={"retry-after": "2", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30s"}, hint=90.0,
    ),
    rate("openai-retry-after-ms", 429, openai("Slow", "rate_limit_exceeded"), headers={"retry-after-ms": "1500", "Retry-After": "60"}, hint=1.5),
    rate("openai-slow-down", 503, openai("Slow down", "slow_down", "server_error")),
    rate(
        "openai-larger-than-a-minute", 429,
        openai("Request too large for gpt-6.1-terra in organization org-x on tokens per min (TPM): Limit 30000,"
               " Requested 80000. The input or output tokens must be reduced.", "rate_limit_exceeded", "tokens"),
        hits="nobody",
    ),
    quota("openai-no-quota", 429, openai(PLAN, "insufficient_quota", "insufficient_quota")),
    quota("openai-no-quota-type-only", 429, openai(PLAN, None, "insufficient_quota")),
    quota("openai-credit", 429, openai("No credit.", "credit_balance_exhausted", "insufficient_quota")),
    quota("openai-project-limit", 429, openai("Limit.", "project_spend_limit_exceeded", "insufficient_quota")),
    quota("openai-inactive", 429, openai("Your account is not active, please check your billing details.", "billing_not_active", "billing_not_active")),
    quota("openai-hard-limit", 400, openai("Billing hard limit has been reached", "billing_hard_limit_reached")),
    transient("openai-overloaded", 503, openai("The server is overloaded or not ready yet", "server_is_overloaded", "server_error")),
    transient("openai-500", 500, openai("The server had an error processing your request.", None, "server_error")),
    context(
        "openai-context", 400,
        openai("This model's maximum context length is 128000 tokens. However, your messages resulted in 190000 tokens."
               " Please reduce the length of the messages.", "context_length_exceeded", param="messages"),
    ),
    refused("openai-max-tokens", 400,
            openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                   "unsupported_parameter", param="max_tokens"), "max_tokens"),
    refused("openai-temperature", 400,
            openai("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
                   "unsupported_value", param="temperature"), "temperature"),
    refused("openai-unknown-parameter", 400, openai("Unknown parameter: 'top_k'.", "unknown_parameter", param="top_k"), "top_k"),
    refused("openai-code-alone", 400, openai("That will not do.", "unsupported_value"), None),
    refused("openai-unrecognized", 400, openai("Unrecognized request argument supplied: thinking"), "thinking"),
    refused("openai-effort-with-tools", 400,
            openai("Function tools with reasoning_effort are not supported for gpt-6 in /v1/chat/completions. Please use /v1/responses instead.",
                   param="reasoning_effort"), "reasoning_effort"),
    refused("openai-role-in-messages", 400,
            openai("Unsupported value: 'messages[0].role' does not support 'system' with this model.", "unsupported_value",
                   param="messages[0].role"), "messages[0].role"),
    refused("openai-nested-effort", 400,
            openai("Unsupported value: 'none' is not supported with the 'm' model.", "unsupported_value", param="reasoning.effort"), "reasoning"),
    refused("openai-images", 400,
            openai("Invalid content type. image_url is only supported by certain models.", param="messages.[0].content.[1].type"), "images"),
    refused("openai-encrypted", 400, openai("The encrypted content gAAA could not be verified.", "invalid_encrypted_content"), "thinking"),
    refused("openai-output-too-large", 400,
            openai("max_tokens is too large: 100000. This model supports at most 16384 completion tokens.", param="max_tokens"), "max_tokens"),
    policy("openai-policy", 400, openai("Your request was rejected as a result of our safety system.", "content_policy_violation")),
    policy("openai-invalid-prompt", 400, openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "invalid_prompt")),
    policy("openai-bio", 400, openai("We've limited access to this content for safety reasons.", "bio_policy")),
    request("openai-400", 400, openai("Invalid type for 'messages': expected an array, but got a string.", "invalid_type", param="messages")),
    request("openai-too-long-string", 400, openai("Invalid 'messages[0].content': string too long.", "string_above_max_length")),
    request("openai-bad-image", 400, openai("You uploaded an unsupported image. Please make sure your image is valid.", "image_parse_error")),
    request("openai-422", 422, openai("Unprocessable")),
    setup("openai-wrong-path", 404, openai("Invalid URL (POST /v1/v1/chat/completions)")),
    quota("openai-quota-word", 403, openai("Billing must be enabled for this project.", "forbidden")),
    setup("openai-residency", 400, openai("Wrong host", "data_residency_mismatch")),
)  # fmt: skip

IN_STREAM = (
    transient("responses-failed", 200, {"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error", "message": "x"}}}, in_stream=True),
    rate("responses-rate", 200, {"type": "error", "code": "rate_limit_exceeded", "message": "Rate limit reached. Please try again in 1.5s."}, hint=1.5, in_stream=True),
    request("responses-image", 200, {"code": "invalid_image_url", "message": "no"}, in_stream=True),
    transient("claude-overloaded-in-stream", 200, claude("overloaded_error", "Overloaded"), in_stream=True),
    transient("claude-api-error-in-stream", 200, claude("api_error", "Internal server error"), in_stream=True),
    auth("claude-auth-in-stream", 200, claude("authentication_error", "invalid x-api-key"), in_stream=True),
    request("claude-bad-request-in-stream", 200, claude("invalid_request_error", "messages: at least one message is required"), in_stream=True),
    gone("claude-not-found-in-stream", 200, claude("not_found_error", "claude-9"), in_stream=True),
    request("claude-size-in-stream", 200, claude("request_too_large", "Request exceeds the maximum size"), in_stream=True),
    context("context-in-stream", 200, {"error": {"message": "Prompt is too long"}}, in_stream=True),
    rate("openrouter-429-in-stream", 200, {"id": "gen-1", "choices": [], "error": {"code": 429, "message": "Provider returned error"}}, in_stream=True, preset="openrouter"),
    transient("openrouter-502-in-stream", 200, {"error": {"code": 502, "message": "Provider disconnected"}}, in_stream=True, preset="openrouter"),
    transient("text-in-stream", 200, "upstream connect error", in_stream=True),
    transient("nothing-in-stream", 200, None, in_stream=True),
    client("499-in-stream", None, {"error": {"code": 499, "message": "Client closed"}}, in_stream=True),
)  # fmt: skip

ANTHROPIC = (
    auth("claude-401", 401, claude("authentication_error", "invalid x-api-key")),
    auth("claude-403", 403, claude("permission_error", "Your API key does not have permission to use the specified resource.")),
    auth("claude-scope", 403, claude("permission_error", "no", "api_key_scope_missing")),
    quota("claude-402", 402, claude("billing_error", "Payment required")),
    quota("claude-linked", 402, claude("billing_error", "x", "linked_organization_spend_limit_reached")),
    quota("claude-credit-400", 400, claude("invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.")),
    quota(
        "claude-usage-limit-400", 400,
        claude("invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."),
        hint=1.5 * DAY,
    ),
    quota("claude-workspace-limit", 400, claude("invalid_request_error", "You have reached your specified workspace API usage limits. You will regain access on 2026-11-30 at 00:00 UTC."), hint=0.5 * DAY),
    quota("claude-enforced", 429, claude("rate_limit_error", "Spend limit reached.", "enforced_spend_limit_reached"), hint=1.5 * DAY),
    quota("claude-contract", 429, claude("rate_limit_error", "Limit.", "contract_spend_limit_reached")),
    quota("claude-on-hold", 400, claude("invalid_request_error", "This organization has been disabled.", "organization_on_hold")),
    gone("claude-404", 404, claude("not_found_error", "model: claude-9")),
    rate("claude-429-organization", 429, claude("rate_limit_error", "This request would exceed your organization's rate limit of 50,000 input tokens per minute."), hits="credential", headers={"retry-after": "12"}, hint=12.0),
    rate("claude-429-family", 429, claude("rate_limit_error", "This request would exceed the rate limit of 50,000 input tokens per minute (org: x, model: claude-opus-5).")),
    rate("claude-429-plain", 429, claude("rate_limit_error", "Number of requests has exceeded your limit"), headers={"retry-after": "2"}, hint=2.0),
    rate("claude-ramp", 429, claude("rate_limit_error", "Ramp.", "ramp_limit_exceeded"), headers={"retry-after": "5"}, hint=5.0),
    rate(
        "claude-429-reset", 429, claude("rate_limit_error", "Slow down, please."),
        headers={"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-11-29T12:00:40Z"}, hint=40.0,
    ),
    transient("claude-529", 529, claude("overloaded_error", "Overloaded")),
    transient("claude-500", 500, claude("api_error", "Internal server error")),
    transient("claude-504", 504, claude("timeout_error", "Request timed out")),
    transient("claude-409", 409, claude("conflict_error", "Conflict")),
    request("claude-413", 413, claude("request_too_large", "Request exceeds the maximum size")),
    context("claude-context", 400, claude("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")),
    context("claude-context-with-output", 400, claude("invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again")),
    refused("claude-temperature", 400, claude("invalid_request_error", "`temperature` is deprecated for this model."), "temperature"),
    refused("claude-two-samplers", 400, claude("invalid_request_error", "`temperature` and `top_p` cannot both be specified for this model. Please use only one."), "top_p"),
    refused("claude-temperature-thinking", 400, claude("invalid_request_error", "`temperature` may only be set to 1 when thinking is enabled."), "temperature"),
    refused("claude-extra-input", 400, claude("invalid_request_error", "reasoning_effort: Extra inputs are not permitted"), "reasoning_effort"),
    refused("claude-thinking-type", 400, claude("invalid_request_error", '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".'), "thinking"),
    refused("claude-effort", 400, claude("invalid_request_error", "This model does not support the effort parameter."), "reasoning_effort"),
    refused("claude-signature", 400, claude("invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"), "thinking"),
    refused("claude-signature-missing", 400, claude("invalid_request_error", "messages.1.content.0.thinking.signature: Field required"), "thinking"),
    refused("claude-expected-thinking", 400, claude("invalid_request_error", "messages.129.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`."), "thinking"),
    refused("claude-prefill", 400, claude("invalid_request_error", "This model does not support assistant message prefill. The conversation must end with a user message."), "prefill"),
    refused("claude-tool-choice", 400, claude("invalid_request_error", "Thinking may not be enabled when tool_choice forces tool use."), "tool_choice"),
    refused("claude-output-limit", 400, claude("invalid_request_error", "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-opus-5"), "max_tokens"),
    refused("claude-pdf", 400, claude("invalid_request_error", "This model does not support PDF input"), "pdf"),
    policy("claude-filter", 400, claude("invalid_request_error", "Output blocked by content filtering policy")),
    region("claude-region", 400, claude("invalid_request_error", "x", "unsupported_region")),
    request("claude-400", 400, claude("invalid_request_error", "messages: roles must alternate")),
)  # fmt: skip

COMPATIBLE = (
    quota("deepseek-402", 402, openai("Insufficient Balance", "invalid_request_error", "unknown_error"), preset="deepseek"),
    gone("deepseek-model", 400, openai("Model Not Exist"), preset="deepseek"),
    auth("deepseek-401", 401, openai("Authentication Fails (no such user)", "invalid_request_error", "authentication_error"), preset="deepseek"),
    policy("deepseek-risk", 400, openai("Content Exists Risk", "invalid_request_error"), preset="deepseek"),
    refused("deepseek-max-tokens", 400, openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"), "max_tokens", preset="deepseek"),
    refused("deepseek-image", 400, openai("Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text` at line 1 column 80"), "images", preset="deepseek"),
    refused("deepseek-developer", 422, "Failed to deserialize the JSON body: messages[0].role: unknown variant `developer`, expected one of `system`, `user`", "developer", preset="deepseek"),
    refused("deepseek-format", 400, openai("This response_format type is unavailable now"), "response_format", preset="deepseek"),
    transient("deepseek-503", 503, openai("Service is too busy. We advise users to temporarily switch to alternative LLM API service providers."), preset="deepseek"),
    quota("openrouter-402", 402, {"error": {"code": 402, "message": "This request requires more credits, or fewer max_tokens. You requested up to 8192 tokens, but can only afford 100."}}, preset="openrouter"),
    rate(
        "openrouter-in-flight", 402,
        {"error": {"code": 402, "message": "In-flight budget", "metadata": {"limit_source": "openrouter_in_flight_budget"}}},
        hits="credential", headers={"retry-after": "4"}, hint=4.0, preset="openrouter",
    ),
    policy(
        "openrouter-moderation", 403,
        {"error": {"code": 403, "message": 'Your chosen model requires moderation and your input was flagged for "violence". No credits were charged.', "metadata": {"reasons": ["violence"]}}},
        preset="openrouter",
    ),
    quota("openrouter-key-limit", 403, {"error": {"code": 403, "message": "Key limit exceeded (total limit). Manage it at https://openrouter.ai/settings/keys"}}, preset="openrouter"),
    auth("openrouter-401", 401, {"error": {"code": 401, "message": "No auth credentials found"}}, preset="openrouter"),
    gone("openrouter-404", 404, {"error": {"code": 404, "message": "No endpoints found for x/y."}}, preset="openrouter"),
    gone("openrouter-bad-id", 400, {"error": {"code": 400, "message": "x/y is not a valid model ID"}}, preset="openrouter"),
    refused("openrouter-tools", 404, {"error": {"code": 404, "message": "No endpoints found that support tool use."}}, "tools", preset="openrouter"),
    refused("openrouter-images", 404, {"error": {"code": 404, "message": "No endpoints found that support image input"}}, "images", preset="openrouter"),
    transient("openrouter-408", 408, {"error": {"code": 408, "message": "Request timed out"}}, preset="openrouter"),
    transient("openrouter-502", 502, {"error": {"code": 502, "message": "Provider returned error", "metadata": {"raw": "upstream reset", "provider_name": "P"}}}, preset="openrouter"),
    transient("openrouter-503", 503, {"error": {"code": 503, "message": "There is no available model provider that meets your routing requirements"}}, preset="openrouter"),
    rate(
        "openrouter-free-day", 429,
        {"error": {"code": 429, "message": "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day",
                   "metadata": {"headers": {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW + 7200) * 1000)}}}},
        hint=7200.0, preset="openrouter",
    ),
    rate("openrouter-200-body", 200, {"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "m is temporarily rate-limited upstream. Please retry shortly."}}}, preset="openrouter"),
    context("openrouter-raw-json", 400, {"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": '{"error":{"message":"too long","code":"context_length_exceeded"}}'}}}, preset="openrouter"),
    rate(
        "groq-429", 429,
        openai("Rate limit reached for model `m` in organization `org_1` service tier `on_demand` on tokens per minute (TPM): Limit 6000,"
               " Used 5900. Please try again in 7.66s. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing",
               "rate_limit_exceeded", "tokens"),
        hint=7.66, preset="groq",
    ),
    rate("groq-413", 413, openai("Request too large for model `m` in organization `org_1` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size", "rate_limit_exceeded", "tokens"), hits="nobody", preset="groq"),
    client("groq-498", 498, openai("Flex tier capacity exceeded", "capacity_exceeded", "flex"), preset="groq"),
    client("groq-424", 424, openai("Failed dependency"), preset="groq"),
    client("groq-499", 499, openai("Request cancelled"), preset="groq"),
    gone("groq-decommissioned", 400, openai("The model `m` has been decommissioned and is no longer supported.", "model_decommissioned"), preset="groq"),
    refused("groq-property", 400, openai("'messages.0' : for 'role:assistant' the following must be satisfied[('messages.0' : property 'reasoning_content' is unsupported)]"), "reasoning_content", preset="groq"),
    refused("groq-logprobs", 400, openai("`logprobs` is not supported with this model"), "logprobs", preset="groq"),
    request("groq-422", 422, openai("The model hallucinated a tool", "tool_use_failed"), preset="groq"),
    gone("together-404", 404, openai("Unable to access model m. Please visit https://api.together.ai/models to see the list"), preset="together"),
    context("together-422", 422, openai("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097."), preset="together"),
    gone("mistral-model", 400, {"object": "error", "message": "Invalid model: m", "type": "invalid_model", "param": None, "code": "1500"}, preset="mistral"),
    context("mistral-context", 400, {"object": "error", "message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length", "type": "invalid_request_error", "param": None, "code": "3051"}, preset="mistral"),
    rate("mistral-429", 429, {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited", "param": None, "code": "1300"}, preset="mistral"),
    auth("mistral-401", 401, {"detail": "Unauthorized"}, preset="mistral"),
    refused("mistral-422", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "reasoning_effort"], "msg": "Extra inputs are not permitted", "input": "high"}]}, "reasoning_effort", preset="mistral"),
    refused("mistral-prefill", 400, {"object": "error", "message": "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant", "type": "invalid_request_error", "code": "3230"}, "prefill", preset="mistral"),
    request("fastapi-422", 422, {"detail": [{"loc": ["body", "messages", 0, "content"], "msg": "field required", "type": "value_error.missing"}]}),
    setup("fastapi-404", 404, {"detail": "Not Found"}),
    rate("gemini-minute", 429, gemini_quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "17.3s"), hint=17.3, preset="gemini"),
    quota("gemini-day", 429, gemini_quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "17.3s"), hits="target", preset="gemini"),
    rate("gemini-text-wait", 429, [{"error": {"code": 429, "message": f"{PLAN}\n* Quota exceeded for metric: m, limit: 5\nPlease retry in 17.30897372s.", "status": "RESOURCE_EXHAUSTED"}}], hint=17.30897372, preset="gemini"),
    rate("gemini-relayed", 429, {"error": {"message": '{\n  "error": {\n    "code": 429,\n    "message": "Resource has been exhausted (e.g. check quota).",\n    "status": "RESOURCE_EXHAUSTED"\n  }\n}\n', "code": 429}}, preset="gemini"),
    quota("gemini-402", 402, [{"error": {"code": 402, "message": "Billing.", "status": "RESOURCE_EXHAUSTED"}}], preset="gemini"),
    quota("gemini-prepaid", 429, [{"error": {"code": 429, "message": "Your prepayment credits are depleted.", "status": "RESOURCE_EXHAUSTED"}}], preset="gemini"),
    auth("gemini-key", 400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}], preset="gemini"),
    auth("gemini-403", 403, [{"error": {"code": 403, "message": "The caller does not have permission", "status": "PERMISSION_DENIED"}}], preset="gemini"),
    region("gemini-location", 400, [{"error": {"code": 400, "message": "User location is not supported for the API use.", "status": "FAILED_PRECONDITION"}}], preset="gemini"),
    gone("gemini-404", 404, [{"error": {"code": 404, "message": "models/gemini-9 is not found for API version v1main, or is not supported for generateContent.", "status": "NOT_FOUND"}}], preset="gemini"),
    context("gemini-context", 400, [{"error": {"code": 400, "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}], preset="gemini"),
    refused("gemini-unknown-name", 400, [{"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "store": Cannot find field.', "status": "INVALID_ARGUMENT"}}], "store", preset="gemini"),
    refused("gemini-thought-signature", 400, [{"error": {"code": 400, "message": "Function call is missing a thought_signature in functionCall parts.", "status": "INVALID_ARGUMENT"}}], "thinking", preset="gemini"),
    transient("gemini-503", 503, [{"error": {"code": 503, "message": "The model is overloaded. Please try again later.", "status": "UNAVAILABLE"}}], preset="gemini"),
    auth("xai-key-400", 400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: gs***tF. You can obtain an API key from https://console.x.ai."}, preset="xai"),
    quota("xai-credits", 429, {"code": "Some resource has been exhausted", "error": "Your team 16f2 has either used all available credits or reached its monthly spending limit."}, preset="xai"),
    quota("xai-no-credits-yet", 403, {"code": "The caller does not have permission to execute the specified operation", "error": "Your newly created team doesn't have any credits yet."}, preset="xai"),
    policy("xai-safety", 403, {"code": "The caller does not have permission", "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_DATA_LEAKAGE"}, preset="xai"),
    gone("xai-404", 404, {"code": "Some requested entity was not found", "error": "The model grok-9 does not exist or your team 16f2 does not have access to it."}, preset="xai"),
    refused("xai-argument", 400, {"code": "Client specified an invalid argument", "error": "Argument not supported on this model: reasoningEffort"}, "reasoning_effort", preset="xai"),
    refused("xai-parameter", 400, {"code": "Client specified an invalid argument", "error": "Model grok-4 does not support parameter presencePenalty."}, "presence_penalty", preset="xai"),
    context("xai-context", 400, {"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 131072 but the request contains 200000 tokens."}, preset="xai"),
    rate("moonshot-organization", 429, openai("Your account org-1<ak-2> request reached organization max RPM: 3, please try again after 1 seconds", None, "rate_limit_reached_error"), hits="credential", hint=1.0, preset="moonshot"),
    quota("moonshot-balance", 429, openai("Your account org-1 is suspended due to insufficient balance, please recharge your account.", None, "exceeded_current_quota_error"), preset="moonshot"),
    transient("moonshot-engine", 429, openai("The engine is currently overloaded, please try again later", None, "engine_overloaded_error"), preset="moonshot"),
    context("moonshot-context", 400, openai("Invalid request: Your request exceeded model token limit: 262144"), preset="moonshot"),
    gone("moonshot-404", 404, openai("Not found the model kimi-9 or Permission denied", None, "resource_not_found_error"), preset="moonshot"),
    auth("moonshot-401", 401, openai("Invalid Authentication", None, "invalid_authentication_error"), preset="moonshot"),
    quota("zai-balance", 429, claude("rate_limit_error", "[1113][Insufficient balance or no resource package. Please recharge.]"), preset="zai-anthropic"),
    quota("zai-balance-code", 429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}, preset="zai"),
    quota("zai-balance-without-the-row", 429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}),
    rate("zai-concurrency", 429, {"error": {"code": "1302", "message": "High concurrency usage of this API"}}, preset="zai"),
    auth("zai-auth", 401, {"error": {"code": "1000", "message": "Authentication Failed"}}, preset="zai"),
    gone("zai-model", 400, {"error": {"code": "1211", "message": "?"}}, preset="zai"),
    context("zai-context", 400, {"error": {"code": "1261", "message": "Prompt"}}, preset="zai"),
    policy("zai-policy", 400, {"error": {"code": "1301", "message": "System detected potentially unsafe content"}}, preset="zai"),
    request("zai-400", 400, {"error": {"code": "1214", "message": "Incorrect messages parameter"}}, preset="zai"),
    quota("minimax-500", 500, claude("api_error", "insufficient balance (1008)"), preset="minimax-anthropic"),
    quota("minimax-200", 200, {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "no money"}}, preset="minimax"),
    rate("minimax-rate", 200, {"base_resp": {"status_code": 1002, "status_msg": "rate"}}, preset="minimax"),
    auth("minimax-key", 200, {"base_resp": {"status_code": 2049, "status_msg": "key"}}, preset="minimax"),
    policy("minimax-policy", 200, {"base_resp": {"status_code": 1026, "status_msg": "input"}}, preset="minimax"),
    transient("minimax-1013", 200, {"base_resp": {"status_code": 1013, "status_msg": "inner"}}, preset="minimax"),
    context("minimax-context", 200, {"base_resp": {"status_code": 2013, "status_msg": "invalid params, context window exceeds limit"}}, preset="minimax"),
    request("minimax-params", 200, {"base_resp": {"status_code": 2013, "status_msg": "invalid params"}}, preset="minimax"),
    gone("ollama-404", 404, openai('model "llama9" not found, try pulling it first', None, "api_error"), preset="ollama"),
    refused("ollama-tools", 400, openai("registry.ollama.ai/library/gemma:2b does not support tools", None, "api_error"), "tools", preset="ollama"),
    refused("ollama-thinking", 400, openai('"gemma" does not support thinking', None, "api_error"), "thinking", preset="ollama"),
    transient("llamacpp-loading", 503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, preset="llamacpp"),
    context("llamacpp-context", 400, {"error": {"code": 400, "message": "the request exceeds the available context size.", "type": "exceed_context_size_error", "n_prompt_tokens": 1407, "n_ctx": 256}}, preset="llamacpp"),
    context("llamacpp-context-500", 500, {"error": {"code": 500, "message": "?", "type": "exceed_context_size_error"}}, preset="llamacpp"),
    refused("llamacpp-image", 500, {"error": {"code": 500, "message": "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "type": "server_error"}}, "images", preset="llamacpp"),
    context("vllm-context", 400, {"object": "error", "message": "This model's maximum context length is 6048 tokens. However, you requested 6616 tokens (568 in the messages, 6048 in the completion).", "type": "BadRequestError", "param": None, "code": 400}, preset="vllm"),
    context("vllm-nothing-left", 400, {"object": "error", "message": "max_tokens must be at least 1, got -186.", "type": "BadRequestError", "param": None, "code": 400}, preset="vllm"),
    gone("vllm-404", 404, {"object": "error", "message": "The model `m` does not exist.", "type": "NotFoundError", "param": None, "code": 404}, preset="vllm"),
    refused("vllm-tools", 400, {"object": "error", "message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "type": "BadRequestError", "code": 400}, "tools", preset="vllm"),
    policy(
        "azure-filter", 400,
        {"error": {"message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", "type": None, "param": "prompt",
                   "code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}}},
        preset="azure",
    ),
    rate(
        "azure-429", 429,
        {"error": {"code": "429", "message": "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2026-05-01 have exceeded token rate limit of your current"
                   " AIServices S0 pricing tier. Please retry after 86400 seconds. Please go here: https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit."}},
        hint=DAY, preset="azure",
    ),
    rate("azure-429-ms", 429, {"error": {"code": "429", "message": "Rate limit is exceeded. Try again in 2 seconds."}}, headers={"retry-after-ms": "1234"}, hint=1.234, preset="azure"),
    gone("azure-deployment", 404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}}, preset="azure"),
    auth("azure-401", 401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key or wrong API endpoint."}}, preset="azure"),
    refused("stream-options", 400, {"error": "stream_options.include_usage: unknown field"}, "stream_options"),
    refused("stream-options-extra", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}, "stream_options"),
    gone("relay-no-channel", 503, openai("No available channel for model m under group default", "model_not_found", "new_api_error")),
    refused("relay-nested-signature", 400, {"error": {"code": 400, "message": '{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}', "status": "INVALID_ARGUMENT"}}, "thinking"),
    refused("relay-upstream-signature", 400, {"type": "error", "error": {"type": "request_fail", "upstream_error": {"error": {"message": "Invalid `signature` in `thinking` block"}}}}, "thinking"),
    auth("string-error", 400, {"error": "Invalid API key"}),
)  # fmt: skip

PAGE = "<!DOCTYPE html>\n<html><head><title>502 Bad\n Gateway</title></head><body><h1>Bad</h1></body></html>"

BARE = (
    request("bare-400", 400, None),
    auth("bare-401", 401, ""),
    quota("bare-402", 402, ""),
    auth("bare-403", 403, ""),
    setup("bare-404", 404, ""),
    gone("json-404", 404, {"error": {"message": "Nothing by that name"}}),
    request("bare-405", 405, ""),
    request("bare-406", 406, ""),
    setup("bare-407", 407, ""),
    transient("bare-408", 408, ""),
    transient("bare-409", 409, ""),
    gone("bare-410", 410, ""),
    client("bare-412", 412, ""),
    request("page-413", 413, "<html><head><title>413 Request Entity Too Large</title></head></html>"),
    request("bare-414", 414, ""),
    request("bare-415", 415, ""),
    client("bare-418", 418, ""),
    request("bare-422", 422, ""),
    client("bare-425", 425, ""),
    client("bare-431", 431, ""),
    client("bare-451", 451, ""),
    rate("bare-429", 429, ""),
    rate("bare-429-date", 429, "", headers={"Retry-After": "Sun, 29 Nov 2026 12:00:30 GMT"}, hint=30.0),
    rate("bare-429-zero", 429, "", headers={"Retry-After": "0"}),
    transient("bare-500", 500, b""),
    request("bare-501", 501, ""),
    transient("page-502", 502, PAGE),
    transient("bare-503", 503, "", headers={"retry-after": "30"}, hint=30.0),
    transient("bare-504", 504, "upstream request timeout"),
    transient("bare-520", 520, ""),
    transient("bare-525", 525, ""),
    transient("bare-530", 530, ""),
    unknown("bare-505", 505, ""),
    unknown("bare-599", 599, ""),
    unknown("bare-700", 700, ""),
    unknown("bare-0", 0, ""),
    unknown("nothing", None, None),
    setup("page-404", 404, "<html><head><title>404 Not Found</title></head></html>"),
    setup("text-404", 404, "404 page not found"),
    unknown("page-403", 403, "<html><head><title>Attention Required! | Cloudflare</title></head></html>"),
    transient("page-200", 200, "<html><title>Sign in</title></html>"),
    transient("empty-200", 200, ""),
    transient("json-200", 200, {"id": "x", "choices": []}),
    transient("null-200", 200, None),
    transient("list-200", 200, [1]),
    transient("none-204", 204, None),
    transient("status-101", 101, None),
    setup("redirect-301", 301, "", headers={"Location": "https://user:pw@login.example.com/x?token=secret"}),
    setup("redirect-307", 307, "<html>moved</html>", headers={"location": "/elsewhere"}),
    setup("status-304", 304, ""),
)

#: one body for each row that other rows would hide: nothing else in it tells the kind
ALONE = (
    quota("alone-zai-day", 429, {"error": {"code": "1304", "message": "Daily"}}, preset="zai"),
    rate("alone-zai-rate", 200, {"error": {"code": "1302", "message": "x"}}, preset="zai"),
    auth("alone-zai-auth", 200, {"error": {"code": "1000", "message": "x"}}, preset="zai"),
    request("alone-zai-request", 200, {"error": {"code": "1214", "message": "x"}}, preset="zai"),
    refused("alone-encrypted", 400, openai("It could not be verified.", "invalid_encrypted_content"), "thinking"),
    auth("alone-profile", 400, claude("invalid_request_error", "x", "user_profile_required")),
    rate("alone-minute", 429, {"error": {"message": "You have used your quota of tokens per minute."}}),
    refused("alone-coded-param", 400, openai("Nope.", "unsupported_value", param="seed"), "seed"),
    refused("alone-extra", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "no"}]}, "seed"),
    refused("alone-property", 400, openai("property 'foo_bar' is unsupported"), "foo_bar"),
    refused("alone-argument", 400, {"error": "Argument not supported on this model: logitBias"}, "logit_bias"),
    refused("alone-extra-input", 400, claude("invalid_request_error", "foo: Extra inputs are not permitted"), "foo"),
    refused("alone-nested-extra", 400, claude("x", "tools.0.custom.strict: Extra inputs are not permitted"), "tools.0.custom.strict"),
    transient("alone-later", 500, openai("The model m was not found on any worker, please try again later.")),
    rate("alone-rate-code", 200, {"type": "error", "code": "rate_limit_exceeded", "message": "x"}, in_stream=True),
    auth("alone-permission", 200, claude("permission_error", "x"), in_stream=True),
)  # fmt: skip

CASES = (*ALONE, *OPENAI, *IN_STREAM, *ANTHROPIC, *COMPATIBLE, *BARE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_error_body_gives_its_kind_scope_wait_and_failover(case: Case) -> None:
    fault = case.judged()
    assert (fault.kind, fault.hits, fault.row.over, fault.parameter) == (
        case.kind,
        case.hits,
        case.over,
        case.parameter,
    )
    assert fault.hint == (None if case.hint is None else pytest.approx(case.hint))
    assert fault.delivered
    assert fault.answered == (case.status is not None or case.in_stream)


def _inner(body: Any) -> Any:
    """What the OpenAI SDK hands on: the inner error object, where there is one."""
    return body["error"] if isinstance(body, dict) and isinstance(body.get("error"), dict | str) else body


@pytest.mark.parametrize(
    "case", [case for case in CASES if _inner(case.body) is not case.body], ids=lambda case: case.id
)
def test_the_inner_error_alone_is_judged_as_the_whole_body(case: Case) -> None:
    fault = msgspec.structs.replace(case, body=_inner(case.body)).judged()
    assert (fault.kind, fault.hits, fault.parameter) == (case.kind, case.hits, case.parameter)


@pytest.mark.parametrize(
    "case", [case for case in CASES if isinstance(case.body, dict | list)], ids=lambda case: case.id
)
def test_undecoded_text_and_bytes_are_judged_as_the_decoded_body(case: Case) -> None:
    raw = msgspec.json.encode(case.body)
    for body in (raw, raw.decode()):
        assert msgspec.structs.replace(case, body=body).judged() == case.judged()


#: errors of the caller that mention what other kinds are known by
INNOCENT = (
    "Invalid schema for response_format 'x': 'additionalProperties' is required to be supplied and to be false.",
    "Invalid 'tools[0].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.",
    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
    "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum: 7000000 bytes > 5242880 bytes",
    "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.",
    "temperature: range: 0..1",
    "max_tokens: must be greater than or equal to 1",
    "tools.0.custom.input_schema: JSON schema is invalid",
    "Error while downloading the image from the given url",
    "messages: at least one message is required",
    "Could not parse the JSON body of your request",
    "'messages' is a required property",
    "The user is not allowed to end the conversation",
    "you must provide a model parameter",
)


@pytest.mark.parametrize("message", INNOCENT)
def test_a_mistake_of_the_caller_cools_nobody_and_is_returned_at_once(message: str) -> None:
    for body in (openai(message), claude("invalid_request_error", message)):
        assert judged(400, body).kind == "request"


@pytest.mark.parametrize(
    "message",
    [
        "Internal error: tool call result unavailable",
        "image decoder crashed: unsupported operand",
        "temperature is not supported by this worker build",
        "llama runner process no longer running",
    ],
)
def test_a_500_that_sounds_like_a_refusal_is_still_the_vendors_failure(message: str) -> None:
    assert judged(500, openai(message, None, "server_error")).kind == "transient"


def test_a_403_without_access_to_more_than_a_model_is_of_the_key() -> None:
    assert (
        judged(403, claude("permission_error", "Your organization does not have access to this feature.")).kind
        == "auth"
    )
    assert judged(403, openai("User is not allowed to sample.")).kind == "auth"


def test_the_words_of_a_page_judge_nothing() -> None:
    page = "<html><head><title>{}</title></head></html>"
    assert judged(403, page.format("Unauthorized: invalid API key")).kind == "unknown"
    assert judged(503, page.format("Rate limit exceeded, quota, billing")).kind == "transient"
    assert judged(200, page.format("model not found")).kind == "transient"


def test_case_ids_are_unique_and_the_matrix_is_large() -> None:
    assert len({case.id for case in CASES}) == len(CASES) >= 200


def _verdict(case: Case, rows: tuple[Row, ...]) -> tuple[str, Any, Any, bool]:
    said = listen(case.status, case.body)
    row = next((row for row in rows if _fits(row, said, PRESETS[case.preset].quirks)), None)
    row = row or _by_status(said, case.status, case.in_stream)
    return row.kind, _scope(row, said), _parameter(row, said) if row.kind == "unsupported" else None, row.waits


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_without_any_one_row_some_recorded_body_is_judged_otherwise(place: int) -> None:
    rest = ROWS[:place] + ROWS[place + 1 :]
    decided = _decided().get(place, [])
    assert any(_verdict(case, ROWS) != _verdict(case, rest) for case in decided), ROWS[place]


@cache
def _decided() -> Mapping[int, list[Case]]:
    """The cases by the place of the row that decides them."""
    found: dict[int, list[Case]] = {}
    for case in CASES:
        said = listen(case.status, case.body)
        quirks = PRESETS[case.preset].quirks
        place = next((place for place, row in enumerate(ROWS) if _fits(row, said, quirks)), -1)
        found.setdefault(place, []).append(case)
    return found


def test_every_kind_that_a_row_or_status_names_exists() -> None:
    assert {row.kind for row in ROWS} | set(STATUS.values()) <= set(FAULTS)


def test_every_quirk_a_row_asks_for_is_some_presets() -> None:
    assert {row.quirk for row in ROWS if row.quirk} <= {quirk for row in PRESETS.values() for quirk in row.quirks}


def test_the_matrix_reaches_every_kind_a_vendor_can_cause() -> None:
    assert {case.kind for case in CASES} == set(FAULTS) - {"timeout", "truncated", "cancelled"}


# -- words -------------------------------------------------------------------------------------------------------------


def judged(status: int | None, body: Any, *, headers: Mapping[str, str] = {}, hidden: tuple[str, ...] = ()) -> Fault:
    return classify(status=status, body=body, headers=headers, now=NOW, hidden=hidden)


def test_the_vendors_words_are_kept_with_whitespace_collapsed_and_cut_at_300() -> None:
    fault = judged(400, {"error": {"message": "  bad\n\n  thing\t" + "x" * 900}})
    assert fault.message.startswith("bad thing xxx")
    assert len(fault.message) == 300


def test_of_a_page_only_its_title_is_kept() -> None:
    assert judged(502, PAGE).message == "502 Bad Gateway"


def test_of_a_page_without_a_title_its_first_words_are_kept() -> None:
    page = (
        "<html><style>p {x: y}</style><script>var a = '<b>'</script><body><p>Blocked by <b>policy</b></p></body></html>"
    )
    assert judged(502, page).message == "Blocked by policy"


def test_the_upstreams_words_are_shown_where_a_relay_says_nothing() -> None:
    body = {"error": {"message": "Provider returned error", "metadata": {"raw": "m is rate-limited upstream"}}}
    assert judged(429, body).message == "m is rate-limited upstream"


def test_a_fault_without_words_says_its_status() -> None:
    assert judged(503, "").message == "HTTP 503 without a word"
    assert judged(200, "").message == "HTTP 200 without an answer"


def test_a_validators_message_names_the_place() -> None:
    body = {"detail": [{"loc": ["body", "messages", 0], "msg": "field required", "type": "missing"}]}
    assert judged(422, body).message == "messages.0: field required"


def test_a_redirect_names_the_host_and_nothing_else_of_the_location() -> None:
    location = {"Location": "https://user:pw@login.example.com:8443/x?token=secret"}
    message = judged(302, "moved", headers=location).message
    assert "login.example.com:8443" in message
    assert not any(word in message for word in ("user", "pw", "secret", "moved"))


def test_the_most_telling_code_is_kept() -> None:
    assert judged(429, openai("x", "insufficient_quota", "other")).code == "insufficient_quota"
    assert judged(429, claude("rate_limit_error", "x", "ramp_limit_exceeded")).code == "ramp_limit_exceeded"
    assert judged(529, claude("overloaded_error", "x")).code == "overloaded_error"
    assert judged(429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}).code == "RESOURCE_EXHAUSTED"
    assert judged(429, {"error": {"code": 429, "message": "x"}}).code is None
    assert judged(400, {"error": {"code": "1214", "message": "x"}}).code == "1214"


def test_the_request_id_comes_from_a_header_else_from_the_body() -> None:
    assert judged(500, claude("api_error", "x"), headers={"Request-Id": "req_9"}).request_id == "req_9"
    assert judged(500, claude("api_error", "x")).request_id == "req_011"


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcdefgh12345678",
        "sk-ant-api03-abcdefgh-12345678",
        "xai-abcdefgh12345678",
        "gsk_abcdefgh12345678",
        "AIzaSyA-abcdefghijklmnop12345678",
        "Bearer abcdefgh12345678",
        "api_key=abcdefgh12345678",
    ],
)
def test_what_looks_like_a_key_is_masked(key: str) -> None:
    for body in (
        f"bad {key} given",
        {"error": {"message": f"bad {key} given", "code": f"{key}"}},
        [key],
        {"error": key},
    ):
        fault = judged(400, body, headers={"x-request-id": key})
        assert "12345678" not in repr(fault)


def test_a_known_secret_is_masked_before_the_words_are_cut() -> None:
    secret = "correct-horse-battery-staple"
    body = {"error": {"message": "x" * 285 + " " + secret, "code": secret, "param": secret}, "request_id": secret}
    fault = judged(400, body, hidden=(secret, ""))
    assert "correct" not in repr(fault)


# -- waiting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Please try again in 45 seconds", 45.0),
        ("Please try again in 6m0s.", 360.0),
        ("try again in 20ms", 0.02),
        ("try again in 1h2m3.5s", 3723.5),
        ("Please retry after 86400 seconds.", 86400.0),
        ("please try again after 1 seconds", 1.0),
        ("Please retry in 17.3s.", 17.3),
        ("Try again in 2 minutes", 120.0),
        ("try again in 1 hour and 5 minutes", 3900.0),
        ("Please wait for 10 seconds", 10.0),
        ("retrying in about 3 hrs", 10800.0),
        ("retry after 2026-11-29T12:01:30Z", 90.0),
        ("Try again at 2026-11-29T14:00:00+01:00.", 3600.0),
        ("retry after 2026-11-29T11:00:00Z", None),
        ("try again in 0 seconds", None),
        ("try again soon", None),
        ("try again in 5 maids", None),
        ("the model handles 30 seconds of audio", None),
        ("try again in a while. It took 30 seconds", None),
    ],
)
def test_a_wait_is_read_from_the_words(words: str, seconds: float | None) -> None:
    hint = judged(429, {"error": {"message": f"Slow down; {words}"}}).hint
    assert hint == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("value", ["0", "-5", "nan", "inf", "Sun, 29 Nov 2026 11:00:00 GMT", "soon", ""])
def test_a_header_that_states_no_real_wait_gives_none(value: str) -> None:
    assert judged(429, "", headers={"retry-after": value}).hint is None


def test_a_header_goes_before_the_words() -> None:
    body = {"error": {"message": "try again in 45 seconds"}}
    assert judged(429, body, headers={"Retry-After": "7"}).hint == 7.0


def test_a_wait_means_nothing_where_waiting_does_not_help() -> None:
    assert judged(400, "bad", headers={"retry-after": "7"}).hint is None


@pytest.mark.parametrize(
    ("today", "seconds"), [("2026-12-31T23:00:00+00:00", 3600.0), ("2027-01-31T00:00:00+00:00", DAY)]
)
def test_an_enforced_spend_limit_ends_on_the_first_of_next_month(today: str, seconds: float) -> None:
    now = datetime.datetime.fromisoformat(today).timestamp()
    body = claude("rate_limit_error", "x", "enforced_spend_limit_reached")
    assert classify(status=429, body=body, headers={}, now=now).hint == seconds
