"""`models refresh` with the real SDKs, against vendors on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from routekit.commands import models, refresh
from routekit.commands.report import Context, Lines
from routekit.errors import ConfigError, UsageError
from tests.vendors.listings import Answer, Listings, listed

pytestmark = pytest.mark.xdist_group("sdks")

KEY = "sk-canary-0123456789"
CONFIG = """
[providers.chat]
api = "openai-chat"
base_url = "{url}/chat/v1"
key = "env:KEY"

[providers.messages]
api = "anthropic-messages"
base_url = "{url}/messages"
key = "env:KEY"
"""


@pytest.fixture
def server() -> Iterator[Listings]:
    with Listings() as running:
        running.pages = {"/chat/v1/models": listed("c1", "c2"), "/messages/v1/models": listed("m1")}
        yield running


@pytest.fixture
def made(context: Callable[..., Context], config: Callable[[str], Path], server: Listings) -> Callable[..., Context]:
    """``made(more, url=…)``: a context over ``CONFIG`` and more TOML."""

    def make(more: str = "", text: str = CONFIG) -> Context:
        config(text.format(url=server.url) + more.format(url=server.url))
        return context(KEY=KEY)

    return make


def said(context: Context) -> list[str]:
    return context.io.said  # type: ignore[attr-defined,no-any-return]


def shown(report: Any) -> str:
    return "\n".join(
        line
        for block in report.blocks
        for line in (block.text if isinstance(block, Lines) else [" ".join(row).rstrip() for row in block.rows])
    )


def test_every_vendor_is_asked_and_its_models_can_be_listed(made: Callable[..., Context], server: Listings) -> None:
    context = made()
    report = refresh.refresh(context)
    assert report.exit_code == 0
    assert shown(report) == "2 listings fetched"
    assert sorted(said(context)) == [
        f"chat: 2 models from {server.url}/chat/v1/models",
        f"messages: 1 model from {server.url}/messages/v1/models",
    ]
    assert context.router.models() == ["chat/c1", "chat/c2", "messages/m1"]


def test_one_provider_can_be_named(made: Callable[..., Context], server: Listings) -> None:
    context = made()
    assert refresh.refresh(context, provider="messages").exit_code == 0
    assert server.paths == ["/messages/v1/models"]
    assert context.router.models() == ["messages/m1"]


def test_the_age_of_a_listing_is_shown(made: Callable[..., Context], place: Path) -> None:
    context = made()
    refresh.refresh(context, provider="chat")
    file = place / "catalog.json"
    book = json.loads(file.read_bytes())
    (kept,) = book["listings"].values()
    kept["fetched_at"] -= 3 * 86400 + 60
    file.write_text(json.dumps(book))
    told = shown(models.listing(context))
    assert "chat: listed by its vendor 3d ago   (routekit models refresh chat)" in told
    assert "messages/MODEL: any model of messages" in told
    assert "listed by its vendor" not in shown(models.listing(context, routes=True))


def test_a_failure_is_told_with_a_way_out_and_loses_nothing(made: Callable[..., Context], server: Listings) -> None:
    context = made()
    refresh.refresh(context)
    said(context).clear()
    server.pages["/chat/v1/models"] = Answer({"error": {"message": f"bad key {KEY}", "code": "invalid_api_key"}}, 401)
    server.pages["/messages/v1/models"] = listed("m2")
    report = refresh.refresh(context)
    assert report.exit_code == 1
    assert shown(report) == "1 listing fetched, 1 failed"
    (line,) = [line for line in said(context) if line.startswith("chat: ")]
    assert line.startswith("chat: auth: ")
    assert line.endswith(" ago stays")
    assert KEY not in line
    assert "  try: routekit keys check chat" in said(context)
    assert context.router.models() == ["chat/c1", "chat/c2", "messages/m2"]


def test_a_failed_listing_is_nobodys_illness(made: Callable[..., Context], server: Listings) -> None:
    context = made()
    server.pages = {
        "/chat/v1/models": Answer({"error": {"message": "wait"}}, 429, {"Retry-After": "600"}),
        "/messages/v1/models": Answer({"error": {"message": "no", "type": "authentication_error"}}, 401),
    }
    assert refresh.refresh(context).exit_code == 1
    assert context.router.health() == []


@pytest.mark.parametrize(
    ("status", "word", "hint"),
    [
        (401, "auth", "routekit keys check chat"),
        (402, "quota", "routekit keys check chat"),
        (500, "transient", "routekit models refresh chat"),
        (307, "setup", "routekit config check"),
        (404, "unsupported", "routekit config set providers.chat.models '[\"MODEL\"]'"),
    ],
)
def test_each_kind_of_failure_names_the_command_that_helps(
    status: int, word: str, hint: str, made: Callable[..., Context], server: Listings
) -> None:
    context = made()
    server.pages["/chat/v1/models"] = Answer({"error": {"message": "no"}}, status)
    report = refresh.refresh(context, provider="chat")
    assert report.exit_code == 1
    (line, tip) = said(context)
    assert line.startswith(f"chat: {word}")
    assert tip == f"  try: {hint}"
    (row,) = report.data["providers"]
    assert row["error"]["try"] == [hint]


def test_a_missing_key_is_one_providers_failure(made: Callable[..., Context], server: Listings) -> None:
    context = made('[providers.poor]\napi = "openai-chat"\nbase_url = "{url}/poor/v1"\nkey = "env:NOT_SET"\n')
    assert refresh.refresh(context).exit_code == 1
    assert "/poor/v1/models" not in server.paths
    (line,) = [line for line in said(context) if line.startswith("poor: ")]
    assert "NOT_SET is not set" in line
    assert context.router.models() == ["chat/c1", "chat/c2", "messages/m1"]


def test_a_server_without_a_listing_is_no_failure_where_the_models_are_written_down(
    made: Callable[..., Context],
) -> None:
    text = '[providers.own]\napi = "openai-chat"\nbase_url = "{url}/own/v1"\nkey = "env:KEY"\nmodels = ["a"]\n'
    context = made(text=text)
    report = refresh.refresh(context)
    assert report.exit_code == 0
    (line,) = said(context)
    assert line.endswith("; its configured models stay")
    assert context.router.models() == ["own/a"]


def test_what_is_switched_off_is_not_asked(made: Callable[..., Context], server: Listings) -> None:
    context = made(
        '[providers.off]\napi = "openai-chat"\nbase_url = "{url}/off/v1"\nkey = "env:KEY"\nenabled = false\n'
    )
    assert refresh.refresh(context).exit_code == 0
    assert not [path for path in server.paths if "off" in path]
    with pytest.raises(ConfigError, match="off is switched off"):
        refresh.refresh(context, provider="off")


def test_a_name_that_is_no_provider_is_refused_with_the_nearest(made: Callable[..., Context]) -> None:
    context = made('[synthetic_providers.both]\nproviders = ["chat", "messages"]\n')
    with pytest.raises(UsageError, match="chat"):
        refresh.refresh(context, provider="chta")
    with pytest.raises(UsageError, match=r"its members do \(chat, messages\)"):
        refresh.refresh(context, provider="both")


def test_the_data_says_how_it_went_with_each(made: Callable[..., Context], server: Listings) -> None:
    context = made()
    server.pages["/messages/v1/models"] = Answer({"type": "error", "error": {"message": "down"}}, 503)
    report = refresh.refresh(context)
    chat, messages = report.data["providers"]
    assert (chat["provider"], chat["models"], chat["error"]) == ("chat", 2, None)
    assert chat["address"] == f"{server.url}/chat/v1/models"
    assert chat["fetched_at"] is not None
    assert (messages["provider"], messages["models"], messages["fetched_at"]) == ("messages", None, None)
    assert messages["error"]["class"] == "transient"


def test_a_place_that_cannot_be_written_is_every_providers_failure(made: Callable[..., Context], place: Path) -> None:
    context = made()
    (place / "catalog.json").mkdir()
    report = refresh.refresh(context)
    assert report.exit_code == 1
    assert any("catalog.json could not be written" in line for line in said(context))


def test_the_shell_shows_progress_on_stderr_and_the_data_on_stdout(
    cli: Any, config: Callable[[str], Path], server: Listings
) -> None:
    config(CONFIG.format(url=server.url))
    server.pages["/messages/v1/models"] = Answer({"error": {"message": "down"}}, 503)
    done = cli("models", "refresh", "--json", env={"KEY": KEY})
    assert done.returncode == 1, done.stderr
    assert {row["provider"]: row["models"] for row in json.loads(done.stdout)["providers"]} == {
        "chat": 2,
        "messages": None,
    }
    assert "chat: 2 models from" in done.stderr
    assert "  try: routekit models refresh messages" in done.stderr
    assert KEY not in done.stdout + done.stderr
    names = cli("models", "list", "--names", env={"KEY": KEY})
    assert names.stdout.split() == ["chat/c1", "chat/c2"]
    assert os.stat(os.path.join(os.environ["ROUTEKIT_HOME"], "catalog.json")).st_mode & 0o777 == 0o600


def test_with_nobody_to_ask_it_says_so(cli: Any) -> None:
    done = cli("--profile", "demo", "models", "refresh")
    assert done.returncode == 0, done.stderr
    assert "No provider has a vendor to ask" in done.stdout
