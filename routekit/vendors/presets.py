"""Known vendors as rows: what fills a provider entry that says ``preset = "…"``. It holds facts, no behaviour."""

from __future__ import annotations

from ..core.config import Api
from ..core.value import Value


class Preset(Value):
    name: str
    api: Api
    base_url: str
    key_variable: str | None
    auth: str = "bearer"
    anthropic_version: str | None = None
    quirks: tuple[str, ...] = ()
    #: a model to suggest at ``init`` and in examples
    example: str | None = None


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
    )
}

#: what a provider entry with an ``api`` and no ``base_url`` means
API_DEFAULTS: dict[Api, str] = {
    "openai-responses": "openai",
    "openai-chat": "openai",
    "anthropic-messages": "anthropic",
}
