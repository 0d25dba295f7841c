"""Listings with the real SDKs, against a vendor on this machine; what their shapes mean; the table where they are
silent."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routekit.core.config import ModelInfo, Price, Provider
from routekit.core.faults import Fault, VendorFault
from routekit.credentials import Secret
from routekit.vendors import prices, vendor_for
from routekit.vendors.catalog import SHIPPED, Catalogs, Listing, Row, Table, read_table, vendor_of
from routekit.vendors.listing import addresses, fetch, read_page
from tests.vendors.listings import Answer, Listings, listed

pytestmark = pytest.mark.xdist_group("sdks")

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-canary-0123456789"


@pytest.fixture(scope="module", autouse=True)
def sdks() -> None:
    # here, so that no test's limit pays for it
    for api in ("openai-chat", "anthropic-messages"):
        vendor_for(api).load()


@pytest.fixture
def server() -> Iterator[Listings]:
    with Listings() as running:
        yield running


def provider(api: str = "openai-chat", url: str = "http://127.0.0.1:9/v1", **more: Any) -> Provider:
    return Provider(**{"id": "p", "api": api, "base_url": url, "key": "env:KEY", **more})


def ask(one: Provider, *, seconds: float = 5.0, headers: Mapping[str, str] | None = None) -> Listing:
    return asyncio.run(fetch(one, secret=Secret(KEY), headers=headers or {}, seconds=seconds))


def fails(one: Provider, **more: Any) -> Fault:
    with pytest.raises(VendorFault) as caught:
        ask(one, **more)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None, "a context carries the SDK's exception, and that may carry the key"
    assert KEY not in caught.value.fault.message
    return caught.value.fault


# --- where it asks (behaviours.md C51–C54) ----------------------------------------------------------------------------

CHAT, MESSAGES = "openai-chat", "anthropic-messages"


@pytest.mark.parametrize(
    ("base", "api", "expected"),
    [
        # C51
        ("https://a.example/anthropic", MESSAGES, ("/anthropic/v1/models", "/v1/models", "/models")),
        ("https://a.example/api/anthropic", MESSAGES, ("/api/anthropic/v1/models", "/v1/models", "/models")),
        ("https://a.example/x/apps/claude", MESSAGES, ("/x/apps/claude/v1/models", "/x/v1/models", "/x/models")),
        ("https://a.example/step_plan/", MESSAGES, ("/step_plan/v1/models", "/v1/models", "/models")),
        ("https://a.example", MESSAGES, ("/v1/models", "/models")),
        ("https://a.example/misanthropic", MESSAGES, ("/misanthropic/v1/models", "/misanthropic/models")),
        ("https://a.example/v1", MESSAGES, ("/v1/models",)),
        # C52
        ("https://a.example/v1beta", CHAT, ("/v1beta/models",)),
        ("https://a.example/v1", CHAT, ("/v1/models",)),
        ("https://a.example/api", CHAT, ("/api/models", "/api/v1/models")),
        ("https://a.example/anthropic", CHAT, ("/anthropic/models", "/anthropic/v1/models")),
        ("https://a.example/x/models", CHAT, ("/x/models",)),
        # C53
        ("https://a.example/custom/chat/completions", CHAT, ("/custom/chat/v1/models",)),
        ("https://a.example/v1/chat/completions", CHAT, ("/v1/models",)),
        ("https://a.example/x/v1/messages", MESSAGES, ("/x/v1/models",)),
        ("https://a.example/messages", MESSAGES, ("/messages/v1/models", "/messages/models")),
    ],
)
def test_the_listing_is_looked_for_where_such_servers_have_it(base: str, api: str, expected: tuple[str, ...]) -> None:
    assert addresses(base, api=api) == tuple(f"https://a.example{path}" for path in expected)


def test_a_missing_page_moves_on_and_the_next_address_is_used(server: Listings) -> None:
    """C54, first half."""
    server.pages["/models"] = listed("m")
    found = ask(provider(MESSAGES, f"{server.url}/api/anthropic"))
    assert found.models == ("m",)
    assert found.address == f"{server.url}/models"
    assert server.paths == ["/api/anthropic/v1/models", "/v1/models", "/models"]


def test_a_refused_key_stops_the_search(server: Listings) -> None:
    """C54, second half."""
    server.pages["/api/models"] = Answer({"error": {"message": "bad key", "code": "invalid_api_key"}}, status=401)
    server.pages["/api/v1/models"] = listed("m")
    fault = fails(provider(url=f"{server.url}/api"))
    assert (fault.kind, fault.status) == ("auth", 401)
    assert server.paths == ["/api/models"]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=404),
        Answer(status=405),
        listed(),
        Answer({"data": None}),
        Answer(b"<html>welcome</html>", headers={"Content-Type": "text/html"}),
        Answer(b'{"data": [', headers={"Content-Type": "application/json"}),
        Answer({"hello": "world"}),
    ],
)
def test_only_what_is_no_listing_moves_on(answer: Answer, server: Listings) -> None:
    server.pages = {"/api/models": answer, "/api/v1/models": listed("m")}
    assert ask(provider(url=f"{server.url}/api")).models == ("m",)


@pytest.mark.parametrize("status", [400, 402, 403, 429, 500, 503, 529])
def test_any_other_answer_stops_the_search_and_is_asked_once(status: int, server: Listings) -> None:
    server.pages = {"/api/models": Answer({"error": {"message": "no"}}, status=status), "/api/v1/models": listed("m")}
    assert fails(provider(url=f"{server.url}/api")).status == status
    assert server.paths == ["/api/models"]


def test_an_error_in_a_200_is_that_error(server: Listings) -> None:
    server.pages["/v1/models"] = Answer({"error": {"message": "Insufficient credits", "code": 402}})
    assert fails(provider(url=f"{server.url}/v1", quirks=("errors-in-200",))).kind == "quota"


def test_where_no_address_has_it_the_first_is_blamed_and_all_are_named(server: Listings) -> None:
    fault = fails(provider(MESSAGES, f"{server.url}/anthropic"))
    assert fault.status == 404
    assert all(f"{server.url}{path}" in fault.message for path in ("/anthropic/v1/models", "/v1/models", "/models"))


def test_a_silent_server_costs_its_seconds_once(server: Listings) -> None:
    server.pages["/api/models"] = Answer(hang=20.0)
    begun = time.monotonic()
    fault = fails(provider(url=f"{server.url}/api"), seconds=0.3)
    assert time.monotonic() - begun < 10
    assert fault.kind == "timeout"
    assert server.paths == ["/api/models"]


def test_nobody_there_is_a_fault_that_names_the_address() -> None:
    fault = fails(provider(url="http://127.0.0.1:9/v1"))
    assert fault.kind == "transient"
    assert "http://127.0.0.1:9/v1/models" in fault.message


def test_a_redirect_is_not_followed(server: Listings) -> None:
    server.pages = {
        "/v1/models": Answer(status=307, headers={"Location": f"{server.url}/elsewhere"}),
        "/elsewhere": listed("m"),
    }
    assert fails(provider(url=f"{server.url}/v1")).kind == "setup"
    assert server.paths == ["/v1/models"]


# --- what it sends ----------------------------------------------------------------------------------------------------

HOSTILE = {
    "OPENAI_API_KEY": "sk-foreign",
    "OPENAI_ORG_ID": "org-foreign",
    "OPENAI_PROJECT_ID": "proj-foreign",
    "OPENAI_BASE_URL": "http://127.0.0.1:9",
    "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer foreign\nX-Foreign: 1",
    "ANTHROPIC_API_KEY": "sk-foreign",
    "ANTHROPIC_AUTH_TOKEN": "foreign",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    "ANTHROPIC_CUSTOM_HEADERS": "authorization: Bearer foreign\nX-Foreign: 1",
    "HTTP_PROXY": "http://127.0.0.1:9",
}


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_a_hostile_environment_changes_nothing_of_what_is_sent(
    api: str, server: Listings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    server.pages["/v1/models"] = listed("m")
    base = server.url if api == MESSAGES else f"{server.url}/v1"
    assert ask(provider(api, base), headers={"X-Team": "lab"}).models == ("m",)
    sent = server.asked[0].headers
    assert sent["authorization"] == f"Bearer {KEY}"
    assert sent["x-team"] == "lab"
    assert "foreign" not in json.dumps(sent).lower()


def test_the_key_goes_in_the_header_the_provider_names(server: Listings) -> None:
    server.pages["/v1/models"] = listed("m")
    ask(provider(MESSAGES, server.url, auth="x-api-key", anthropic_version="2023-06-01"))
    sent = server.asked[0].headers
    assert (sent["x-api-key"], sent["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in sent


def test_a_key_that_looks_like_none_is_still_taken_out_of_the_vendors_words(server: Listings) -> None:
    key = "correct horse battery".replace(" ", "-")
    server.pages["/v1/models"] = Answer({"error": {"message": f"{key} may not look here"}}, status=403)
    with pytest.raises(VendorFault) as caught:
        asyncio.run(fetch(provider(url=f"{server.url}/v1"), secret=Secret(key), headers={}))
    assert "may not look here" in caught.value.fault.message
    assert key not in caught.value.fault.message


# --- pages and shapes -------------------------------------------------------------------------------------------------


def test_anthropics_pages_are_read_to_the_last(server: Listings) -> None:
    def page(*ids: str, more: bool) -> Answer:
        return Answer({"data": [{"id": id, "type": "model"} for id in ids], "has_more": more, "last_id": ids[-1]})

    server.pages["/v1/models"] = [page("a", "b", more=True), page("b", "c", more=True), page("d", more=False)]
    assert ask(provider(MESSAGES, server.url)).models == ("a", "b", "c", "d")
    assert [one.query for one in server.asked] == [
        {"limit": "1000"},
        {"limit": "1000", "after_id": "b"},
        {"limit": "1000", "after_id": "c"},
    ]


def test_a_server_that_always_has_more_is_left_when_it_repeats_itself(server: Listings) -> None:
    server.pages["/v1/models"] = Answer({"data": [{"id": "a"}], "has_more": True, "last_id": "a"})
    assert ask(provider(MESSAGES, server.url)).models == ("a",)
    assert len(server.asked) == 2


def test_a_page_that_fails_leaves_no_half_listing(server: Listings) -> None:
    server.pages["/v1/models"] = [
        Answer({"data": [{"id": "a"}], "has_more": True, "last_id": "a"}),
        Answer({"type": "error", "error": {"type": "api_error", "message": "sorry"}}, status=500),
    ]
    assert fails(provider(MESSAGES, server.url)).status == 500


def test_a_long_listing_is_read_whole(server: Listings) -> None:
    ids = [f"model-{number:06}" for number in range(5000)]
    server.pages["/v1/models"] = listed(*ids)
    assert ask(provider(url=f"{server.url}/v1")).models == tuple(ids)


def test_openai_is_asked_for_no_pages(server: Listings) -> None:
    server.pages["/v1/models"] = listed("a", has_more=False)
    ask(provider(url=f"{server.url}/v1"))
    assert [one.query for one in server.asked] == [{}]


@pytest.mark.parametrize(
    ("body", "models"),
    [
        ({"object": "list", "data": [{"id": "b"}, {"id": "a"}, {"id": "b"}]}, ("b", "a")),
        ([{"id": "x/y"}, {"id": "z"}], ("x/y", "z")),
        (["a", "b", "a"], ("a", "b")),
        ({"models": [{"name": "models/gemini-x"}, {"name": "gemini-x"}, {"name": "models/y"}]}, ("gemini-x", "y")),
        ({"data": [{"id": "models/gemini-x"}]}, ("gemini-x",)),
        ({"data": None}, ()),
        ({"data": None, "models": [{"name": "ignored"}]}, ()),
        ({"models": [{"name": "llama:7b", "model": "llama:7b"}]}, ("llama:7b",)),
    ],
)
def test_every_shape_of_listing_is_read_in_its_order_without_repeats(body: Any, models: tuple[str, ...]) -> None:
    assert read_page(body).models == models


def test_names_that_no_reference_can_hold_are_counted_not_listed() -> None:
    page = read_page({"data": [{"id": "ok"}, {"id": ""}, {"id": "a b"}, {"id": "x\x1b[31m"}, {"id": "g*"}, 7, None]})
    assert page.models == ("ok",)
    assert page.left_out == 6


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                "data models id name capabilities effort supported high pricing prompt completion architecture "
                "input_modalities supported_parameters top_provider max_tokens context_length has_more last_id".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_at_all_gives_names_and_facts_or_nothing(body: Any) -> None:
    page = read_page(body)
    assert all(name.isprintable() and not set(name) & set(" *#") for name in page.models)
    assert set(page.info) <= set(page.models)
    assert msgspec.json.decode(msgspec.json.encode(page), type=type(page)) == page


def test_anthropics_capabilities_become_what_a_plan_needs_to_know() -> None:
    yes, no = {"supported": True}, {"supported": False}
    effort = {"supported": True, "low": yes, "medium": yes, "high": yes, "xhigh": yes, "max": no}
    entry = {
        "id": "claude-opus-9",
        "max_input_tokens": 1_000_000,
        "max_tokens": 128_000,
        "capabilities": {"image_input": yes, "pdf_input": no, "effort": effort, "thinking": yes},
    }
    assert read_page({"data": [entry]}).info == {
        "claude-opus-9": ModelInfo(
            context=1_000_000,
            output=128_000,
            images=True,
            pdf=False,
            reasons=True,
            efforts=("low", "medium", "high", "xhigh"),
        )
    }


def test_a_model_that_neither_thinks_nor_takes_effort_does_not_reason() -> None:
    no = {"supported": False}
    entry = {"id": "m", "capabilities": {"effort": {"supported": False, "low": no}, "thinking": no}}
    assert read_page([entry]).info["m"] == ModelInfo(reasons=False, efforts=())


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        # OpenRouter: prices per token, as text
        (
            {
                "context_length": 200_000,
                "pricing": {"prompt": "0.00000125", "completion": "0.00001", "input_cache_read": "0.000000125"},
                "top_provider": {"max_completion_tokens": 8192},
                "architecture": {"input_modalities": ["text", "image"]},
                "supported_parameters": ["tools", "max_tokens"],
            },
            ModelInfo(
                context=200_000,
                output=8192,
                images=True,
                tools=True,
                reasons=False,
                price=Price(input=1.25, output=10.0, cached=0.125),
            ),
        ),
        # it depends on where it is routed
        ({"pricing": {"prompt": "-1", "completion": "-1"}}, ModelInfo()),
        # Together: per million
        (
            {"context_length": 4096, "pricing": {"input": 0.2, "output": 0.6}},
            ModelInfo(context=4096, price=Price(input=0.2, output=0.6)),
        ),
        ({"max_model_len": 32768}, ModelInfo(context=32768)),  # vLLM
        ({"context_window": 131072, "max_completion_tokens": 65536}, ModelInfo(context=131072, output=65536)),  # Groq
        (
            {"max_context_length": 128000, "capabilities": {"vision": True, "function_calling": False}},
            ModelInfo(context=128000, images=True, tools=False),
        ),
        ({"context_length": True, "max_tokens": -5, "pricing": {"prompt": "free", "completion": None}}, ModelInfo()),
    ],
)
def test_what_other_vendors_say_of_their_models_is_understood(entry: dict[str, Any], expected: ModelInfo) -> None:
    assert read_page({"data": [{"id": "m", **entry}]}).info.get("m", ModelInfo()) == expected


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "catalog.json"


def test_a_listing_is_kept_private_and_found_again_with_its_age(file: Path) -> None:
    info = {"a": ModelInfo(context=10, variants={"x": {"k": 1}}, price=Price(input=1, output=2))}
    Catalogs(file).keep(provider(), Listing(models=("b", "a"), info=info), now=5.0)
    assert file.stat().st_mode & 0o777 == 0o600
    found = Catalogs(file).of(provider())
    assert (found.kind, found.models, found.fetched_at) == ("fetched", ("b", "a"), 5.0)
    assert found.info["a"] == info["a"]
    assert "b" not in found.info


@pytest.mark.parametrize(
    "change",
    [
        {"base_url": "http://127.0.0.1:9/v2"},
        {"key": "env:OTHER"},
        {"headers": {"OpenAI-Organization": "o"}},
        {"api": "openai-responses"},
        {"id": "q"},
    ],
)
def test_another_account_is_not_served_the_listing_of_the_first(change: dict[str, Any], file: Path) -> None:
    catalogs = Catalogs(file)
    catalogs.keep(provider(), Listing(models=("a",)), now=5.0)
    other = msgspec.structs.replace(provider(), **change)
    assert catalogs.of(other).kind == "open"
    catalogs.keep(other, Listing(models=("b",)), now=6.0)
    assert (catalogs.of(provider()).models, catalogs.of(other).models) == (("a",), ("b",))


def test_a_configured_catalog_wins_and_its_globs_list_what_was_fetched(file: Path) -> None:
    catalogs = Catalogs(file)
    one = provider(models=("x", "gpt-*"))
    assert catalogs.of(one).models == ("x", "gpt-*")
    catalogs.keep(one, Listing(models=("gpt-b", "o1", "gpt-a"), info={"gpt-a": ModelInfo(context=9)}), now=5.0)
    found = catalogs.of(one)
    assert (found.kind, found.models) == ("configured", ("x", "gpt-b", "gpt-a", "gpt-*"))
    assert found.info["gpt-a"].context == 9


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"listings": 3}', b"\xff"])
def test_a_damaged_cache_is_an_empty_one_and_is_replaced(content: bytes, file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    catalogs = Catalogs(file)
    assert catalogs.of(provider()).kind == "open"
    catalogs.keep(provider(), Listing(models=("a",)), now=5.0)
    assert Catalogs(file).of(provider()).models == ("a",)


def test_another_process_s_refresh_is_seen(file: Path) -> None:
    mine, theirs = Catalogs(file), Catalogs(file)
    assert mine.of(provider()).kind == "open"
    theirs.keep(provider(), Listing(models=("a",)), now=5.0)
    assert mine.of(provider()).models == ("a",)


KEEPER = """
import sys
from pathlib import Path
from routekit.core.config import Provider
from routekit.vendors.catalog import Catalogs, Listing
for number in range(20):
    one = Provider(id=f"{sys.argv[2]}{number}", api="openai-chat", base_url="http://h.example", key="none")
    Catalogs(Path(sys.argv[1])).keep(one, Listing(models=("m",)), now=1.0)
"""


def test_refreshes_at_the_same_time_lose_nothing_of_each_other(file: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", KEEPER, str(file), name]) for name in ("a", "b", "c")]
    assert [one.wait(30) for one in running] == [0, 0, 0]
    assert len(json.loads(file.read_bytes())["listings"]) == 60


def test_an_id_keeps_its_latest_accounts_only(file: Path) -> None:
    catalogs = Catalogs(file)
    for number in range(7):
        catalogs.keep(provider(url=f"http://h.example/{number}"), Listing(models=("m",)), now=float(number))
    kept = [catalogs.of(provider(url=f"http://h.example/{number}")).kind for number in range(7)]
    assert kept == ["open"] * 3 + ["fetched"] * 4


def test_without_a_file_the_memory_is_its_own() -> None:
    catalogs = Catalogs(None)
    catalogs.keep(provider(), Listing(models=("a",)), now=5.0)
    assert catalogs.of(provider()).models == ("a",)


# --- the table --------------------------------------------------------------------------------------------------------

OPENAI = provider("openai-responses", "https://api.openai.com/v1", id="openai", preset="openai")


def test_the_shipped_table_knows_the_models_of_our_own_examples() -> None:
    found = Catalogs(None).of(OPENAI).info["gpt-6.1-terra"]
    assert found.context is not None
    assert found.context >= 400_000
    assert found.reasons is True
    assert found.price is not None
    assert 0 < found.price.input < found.price.output


def test_a_snapshot_is_the_model_it_is_of_and_a_stranger_is_unknown() -> None:
    info = Catalogs(None).of(OPENAI).info
    assert info["gpt-6.1-terra-2026-09-30"] == info["gpt-6.1-terra"]
    assert "gpt-6.1-terra-ultra" not in info
    assert "gpt-6.1" not in info


def test_the_listing_speaks_before_the_table_field_by_field() -> None:
    catalogs = Catalogs(None)
    before = catalogs.of(OPENAI).info["gpt-6.1-terra"]
    said = {"gpt-6.1-terra": ModelInfo(context=1234)}
    catalogs.keep(OPENAI, Listing(models=("gpt-6.1-terra",), info=said), now=5.0)
    assert catalogs.of(OPENAI).info["gpt-6.1-terra"] == msgspec.structs.replace(before, context=1234)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (OPENAI, ("openai", True)),
        (provider(CHAT, "https://api.openai.com/v1"), ("openai", True)),
        (provider(MESSAGES, "https://api.deepseek.com/anthropic", preset="deepseek-anthropic"), ("deepseek", True)),
        (provider(CHAT, "https://x.openai.azure.com/openai/v1", preset="azure"), ("openai", True)),
        (provider(CHAT, "https://relay.example/v1", preset="openai"), ("openai", False)),
        (provider(CHAT, "https://relay.example/v1"), ("", False)),
        (provider(CHAT, "https://api.openai.com.relay.example/v1"), ("", False)),
    ],
)
def test_whose_table_counts_is_judged_by_the_address(one: Provider, expected: tuple[str, bool]) -> None:
    assert vendor_of(one) == expected


def test_a_relay_has_the_vendors_windows_and_not_its_bill() -> None:
    relay = provider("openai-responses", "https://relay.example/v1", preset="openai")
    found = Catalogs(None).of(relay).info["gpt-6.1-terra"]
    assert found.context is not None
    assert found.price is None


def test_a_newer_table_replaces_the_shipped_one_and_an_older_does_not(file: Path) -> None:
    def rows(version: str) -> Table:
        own = {"openai": msgspec.Raw(b'{"gpt-6.1-terra":[5,null,1,2]}')}
        return Table(source="t", version=version, date="2027-01-01", vendors=own)

    catalogs = Catalogs(file)
    assert not catalogs.keep_table(rows("0.0.1"))
    assert not catalogs.keep_table(rows(read_table(SHIPPED).version))
    assert catalogs.of(OPENAI).info["gpt-6.1-terra"].context != 5
    assert catalogs.keep_table(rows("99.0"))
    for found in (catalogs, Catalogs(file)):
        assert found.of(OPENAI).info["gpt-6.1-terra"] == ModelInfo(context=5, price=Price(input=1, output=2))


def test_a_newer_table_counts_at_once_also_for_models_looked_up_before() -> None:
    catalogs = Catalogs(None)
    assert catalogs.of(OPENAI).info["gpt-6.1-terra"].context != 5
    catalogs.keep_table(Table(version="99", vendors={"openai": msgspec.Raw(b'{"gpt-6.1-terra":[5]}')}))
    assert catalogs.of(OPENAI).info["gpt-6.1-terra"].context == 5


def test_every_row_of_the_shipped_table_is_sound() -> None:
    table = read_table(SHIPPED)
    assert datetime.date.fromisoformat(table.date) <= datetime.datetime.now(datetime.UTC).date()
    assert set(table.vendors) == set(prices.VENDORS)
    for vendor, raw in table.vendors.items():
        rows = msgspec.json.decode(raw, type=dict[str, Row])
        assert rows, vendor
        for name, row in rows.items():
            assert name == name.lower()
            assert row.marks in ("", "r", "n")
            assert (row.input is None) == (row.out is None), (vendor, name)
            assert row.context is None or row.context > 0


def test_the_library_it_was_made_from_still_gives_the_shipped_table() -> None:
    shipped = read_table(SHIPPED)
    fresh = prices.table(datetime.date.fromisoformat(shipped.date))
    assert set(fresh.vendors) == set(shipped.vendors)
    if fresh.version != shipped.version:
        return  # the library moves on by itself; `python .ci/models_table.py --check` says when to follow
    for vendor, raw in fresh.vendors.items():
        assert json.loads(bytes(raw)) == json.loads(bytes(shipped.vendors[vendor])), vendor


def test_of_several_prices_the_one_in_force_counts_and_by_the_hour_the_dearest() -> None:
    day = datetime.date

    def cost(out: float, **constraint: Any) -> Any:
        price = SimpleNamespace(input_mtok=1, output_mtok=out)
        return SimpleNamespace(prices=price, constraint=SimpleNamespace(**constraint) if constraint else None)

    dated = [
        cost(1),
        cost(9, start_date=day(2027, 1, 1)),
        cost(3, start_date=day(2026, 3, 1)),
        cost(2, start_date=day(2026, 1, 1)),
    ]
    assert prices._price(dated, day(2026, 6, 1)).output_mtok == 3
    assert prices._price([cost(1), cost(7, start_time=0), cost(5, start_time=9)], day(2026, 6, 1)).output_mtok == 7


def test_reading_the_table_loads_no_price_library() -> None:
    code = (
        "import sys; from pathlib import Path; from routekit.core.config import Provider\n"
        "from routekit.vendors.catalog import Catalogs\n"
        "one = Provider(id='o', api='openai-chat', base_url='https://api.openai.com/v1', key='none')\n"
        "assert Catalogs(None).of(one).info['gpt-6.1-terra'].context\n"
        "print(sorted({'genai_prices', 'pydantic', 'openai', 'asyncio', 'routekit.vendors.prices'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout == "[]\n"
