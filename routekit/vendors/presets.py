"""Known vendors as rows: what fills a provider entry that says ``preset = "…"``. It holds facts, no behaviour.

A name without a suffix speaks the vendor's OpenAI-compatible API, ``NAME-anthropic`` its Anthropic-compatible one.
"""

from __future__ import annotations

from ..core.config import Api
from ..core.value import Value


class Preset(Value):
    """``base_url`` is empty where only the user can know it (``place`` then shows its form). ``keyless`` vendors answer
    without a key: an entry that names none has none."""

    name: str
    api: Api
    base_url: str
    key_variable: str | None
    auth: str = "bearer"
    anthropic_version: str | None = None
    quirks: tuple[str, ...] = ()
    #: a model to suggest at ``init`` and in examples
    example: str | None = None
    place: str | None = None
    keyless: bool = False


#: every departure from the API a preset may name, and what it means for whoever speaks to that vendor
QUIRKS: dict[str, str] = {
    "bare-model-list": "the model listing may be a bare JSON list, which the SDK's own method cannot read",
    "context-in-models": "the model listing states each model's context window (context_length or max_model_len)",
    "empty-choices": "chunks with empty choices (a filter report, the usage) are normal, not an empty answer",
    "errors-in-200": "errors may come with status 200, as the whole body or as an event of the stream",
    "fixed-output": "an unset output limit means a small one (4096), not the model's own",
    "flat-errors": "the error's fields stand at the top of the body, without an error object around them",
    "keep-alive-comments": "blank lines or comments are sent while a request is queued; they are life, not output",
    "list-errors": "an error body may be a list holding one error object",
    "loads-on-demand": "a 503 'Loading model' is normal while the server starts; a first answer may take minutes",
    "max-tokens": "knows max_tokens only, not max_completion_tokens",
    "minimax-codes": "errors carry the vendor's own numbers (1002 rate, 1008 balance …), at times in a 200",
    "model-ignored": "serves whatever is loaded, whichever model is asked for",
    "model-prefix": "the listing names models as models/NAME; both forms are accepted in requests",
    "no-betas": "refuses some anthropic-beta headers",
    "no-developer-role": "the developer role is refused: its messages go as system",
    "reasoning-content": "thinking arrives as delta.reasoning_content",
    "reasoning-field": "thinking arrives as delta.reasoning",
    "reset-epoch-ms": "x-ratelimit-reset is a unix time in milliseconds",
    "silent-model-map": "an unknown model is served by another one without a word: compare the model that answered",
    "stateless": "keeps nothing between calls: previous_response_id and stored items do not exist",
    "string-errors": "error may be a plain string, with the code beside it as a sentence",
    "temperature-0-1": "temperature runs from 0 to 1",
    "unknown-limits": "0 and -1 in limit headers mean unknown, not exhausted",
    "unsigned-thinking": "thinking blocks carry no signature; sent elsewhere they are refused",
    "usage-beside": "usage may also stand under x_groq, in the last chunk",
    "zai-codes": "errors carry the vendor's own numbers (1113 balance, 1302 concurrency, 1261 length …)",
}

#: what Anthropic-compatible servers of other vendors know; the SDK's own newer version is refused by some of them
_OLDER = "2023-06-01"


def _chat(name: str, base_url: str, variable: str | None, *quirks: str, example: str | None = None) -> Preset:
    return Preset(
        name=name, api="openai-chat", base_url=base_url, key_variable=variable, quirks=quirks, example=example
    )


def _messages(name: str, base_url: str, variable: str | None, *quirks: str) -> Preset:
    return Preset(
        name=name,
        api="anthropic-messages",
        base_url=base_url,
        key_variable=variable,
        anthropic_version=_OLDER,
        quirks=quirks,
    )


def _local(name: str, base_url: str, api: Api, *quirks: str) -> Preset:
    # auth "none": with a key of one's own, say auth = "bearer" beside it.
    version = _OLDER if api == "anthropic-messages" else None
    return Preset(
        name=name,
        api=api,
        base_url=base_url,
        key_variable=None,
        auth="none",
        anthropic_version=version,
        quirks=quirks,
        keyless=True,
    )


PRESETS: dict[str, Preset] = {
    row.name: row
    for row in (
        Preset(
            name="openai",
            api="openai-responses",
            base_url="https://api.openai.com/v1",
            key_variable="OPENAI_API_KEY",
            example="gpt-6.1-terra",
        ),
        Preset(
            name="anthropic",
            api="anthropic-messages",
            base_url="https://api.anthropic.com",
            key_variable="ANTHROPIC_API_KEY",
            example="claude-opus-5",
        ),
        Preset(
            name="azure",
            api="openai-chat",
            base_url="",
            key_variable="AZURE_OPENAI_API_KEY",
            auth="header:api-key",
            quirks=("empty-choices", "unknown-limits"),
            place="https://RESOURCE.openai.azure.com/openai/v1/",
        ),
        Preset(
            name="azure-anthropic",
            api="anthropic-messages",
            base_url="",
            key_variable="AZURE_OPENAI_API_KEY",
            anthropic_version=_OLDER,
            quirks=("unknown-limits",),
            place="https://RESOURCE.services.ai.azure.com/anthropic",
        ),
        _chat(
            "deepseek",
            "https://api.deepseek.com/v1",
            "DEEPSEEK_API_KEY",
            "max-tokens",
            "no-developer-role",
            "reasoning-content",
            "keep-alive-comments",
            example="deepseek-v4-flash",
        ),
        _messages(
            "deepseek-anthropic",
            "https://api.deepseek.com/anthropic",
            "DEEPSEEK_API_KEY",
            "silent-model-map",
            "unsigned-thinking",
        ),
        _chat(
            "openrouter",
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            "max-tokens",
            "errors-in-200",
            "keep-alive-comments",
            "reasoning-field",
            "reset-epoch-ms",
            "context-in-models",
        ),
        _messages("openrouter-anthropic", "https://openrouter.ai/api", "OPENROUTER_API_KEY", "reset-epoch-ms"),
        _chat(
            "groq",
            "https://api.groq.com/openai/v1",
            "GROQ_API_KEY",
            "reasoning-field",
            "usage-beside",
        ),
        _chat(
            "together",
            "https://api.together.xyz/v1",
            "TOGETHER_API_KEY",
            "max-tokens",
            "no-developer-role",
            "bare-model-list",
        ),
        _chat(
            "mistral",
            "https://api.mistral.ai/v1",
            "MISTRAL_API_KEY",
            "max-tokens",
            "no-developer-role",
            "flat-errors",
            "temperature-0-1",
        ),
        _chat(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai/",
            "GEMINI_API_KEY",
            "max-tokens",
            "list-errors",
            "model-prefix",
        ),
        _chat("xai", "https://api.x.ai/v1", "XAI_API_KEY", "reasoning-content", "string-errors"),
        _chat(
            "moonshot",
            "https://api.moonshot.ai/v1",
            "MOONSHOT_API_KEY",
            "max-tokens",
            "no-developer-role",
            "reasoning-content",
        ),
        _messages("moonshot-anthropic", "https://api.moonshot.ai/anthropic", "MOONSHOT_API_KEY", "unsigned-thinking"),
        _chat(
            "zai",
            "https://api.z.ai/api/paas/v4",
            "ZAI_API_KEY",
            "max-tokens",
            "no-developer-role",
            "reasoning-content",
            "zai-codes",
        ),
        _messages("zai-anthropic", "https://api.z.ai/api/anthropic", "ZAI_API_KEY", "unsigned-thinking", "zai-codes"),
        _chat(
            "minimax",
            "https://api.minimax.io/v1",
            "MINIMAX_API_KEY",
            "max-tokens",
            "no-developer-role",
            "minimax-codes",
            "errors-in-200",
        ),
        _messages(
            "minimax-anthropic",
            "https://api.minimax.io/anthropic",
            "MINIMAX_API_KEY",
            "unsigned-thinking",
            "no-betas",
            "minimax-codes",
        ),
        _local(
            "ollama",
            "http://localhost:11434/v1/",
            "openai-chat",
            "max-tokens",
            "no-developer-role",
            "reasoning-field",
            "loads-on-demand",
            "stateless",
        ),
        _local(
            "ollama-anthropic",
            "http://localhost:11434",
            "anthropic-messages",
            "unsigned-thinking",
            "no-betas",
            "loads-on-demand",
        ),
        _local(
            "llamacpp",
            "http://localhost:8080/v1",
            "openai-chat",
            "max-tokens",
            "no-developer-role",
            "reasoning-content",
            "model-ignored",
            "loads-on-demand",
        ),
        _local(
            "llamacpp-anthropic",
            "http://localhost:8080",
            "anthropic-messages",
            "model-ignored",
            "unsigned-thinking",
            "fixed-output",
            "loads-on-demand",
        ),
        _local(
            "vllm",
            "http://localhost:8000/v1",
            "openai-chat",
            "max-tokens",
            "reasoning-content",
            "reasoning-field",
            "flat-errors",
            "context-in-models",
        ),
        _local("vllm-anthropic", "http://localhost:8000", "anthropic-messages", "unsigned-thinking"),
    )
}

#: what a provider entry with an ``api`` and no ``base_url`` means
API_DEFAULTS: dict[Api, str] = {
    "openai-responses": "openai",
    "openai-chat": "openai",
    "anthropic-messages": "anthropic",
}
