"""What a fetched listing means for plans: who offers what, who can, in which variant, at what price."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from routekit.core.config import ModelInfo, Price
from routekit.errors import ConfigError, UsageError
from routekit.router import Router
from routekit.vendors.catalog import Catalogs, Listing
from tests.vendors.listings import Answer, Listings

pytestmark = pytest.mark.xdist_group("sdks")

CONFIG = """
[providers.a]
api = "openai-chat"
base_url = "{url}/a/v1"
key = "none"

[providers.b]
api = "anthropic-messages"
base_url = "{url}/b"
key = "none"

[synthetic_providers.both]
providers = ["a", "b"]

[routes.all]
targets = ["both/x-*"]
"""
YES, NO = {"supported": True}, {"supported": False}


@pytest.fixture
def server() -> Iterator[Listings]:
    with Listings() as running:
        running.pages["/a/v1/models"] = Answer({"data": [{"id": "x-1", "max_model_len": 4000}, {"id": "x-2"}]})
        running.pages["/b/v1/models"] = Answer({"data": [{"id": "x-2"}, {"id": "x-3"}, {"id": "y"}]})
        yield running


@pytest.fixture
def router_of(server: Listings) -> Iterator[Callable[..., Router]]:
    made: list[Router] = []

    def make(more: str = "", text: str = CONFIG) -> Router:
        made.append(Router.from_toml(text.format(url=server.url) + more.format(url=server.url)))
        return made[-1]

    yield make
    for router in made:
        router.close()


def fetch(router: Router, *ids: str) -> None:
    for id in ids or tuple(router.config.providers):
        asyncio.run(router.fetch_models(router.config.providers[id]))


def leaves(router: Router, model: str) -> list[str]:
    return [leaf.label for leaf in router.plan(model).leaves]


def test_a_glob_means_what_the_vendors_list_model_by_model(router_of: Callable[..., Router]) -> None:
    router = router_of()
    with pytest.raises(ConfigError):
        router.plan("all")
    fetch(router)
    plan = router.plan("all")
    assert [group.label for group in plan.groups] == ["all", "both/x-1", "both/x-2", "both/x-3"]
    assert leaves(router, "all") == ["a/x-1", "a/x-2", "b/x-2", "b/x-3"]


def test_a_member_whose_listing_lacks_the_model_is_passed_over(router_of: Callable[..., Router]) -> None:
    router = router_of()
    assert leaves(router, "both/x-3") == ["a/x-3", "b/x-3"]
    fetch(router)
    assert leaves(router, "both/x-3") == ["b/x-3"]


def test_a_model_a_fetched_listing_lacks_is_tried_with_a_note_a_configured_one_is_refused(
    router_of: Callable[..., Router],
) -> None:
    router = router_of('[providers.c]\napi = "openai-chat"\nbase_url = "{url}/a/v1"\nkey = "none"\nmodels = ["x-1"]\n')
    fetch(router)
    assert leaves(router, "a/new") == ["a/new"]
    assert any("new" in note for note in router.plan("a/new").notes)
    with pytest.raises(UsageError):
        router.plan("c/x-2")


def test_configured_before_fetched_before_open(router_of: Callable[..., Router]) -> None:
    router = router_of('[providers.c]\napi = "openai-chat"\nbase_url = "{url}/a/v1"\nkey = "none"\nmodels = ["z"]\n')
    fetch(router, "a", "c")
    assert {id: catalog.kind for id, catalog in router.catalogs().items()} == {
        "a": "fetched",
        "b": "open",
        "c": "configured",
    }
    assert router.catalogs()["c"].models == ("z",)


def test_own_words_come_before_the_listings_and_those_before_the_tables(server: Listings) -> None:
    text = """
[providers.openai]
preset = "openai"
key = "none"
[providers.openai.model_info."gpt-6.1-terra"]
output = 7
"""
    router = Router.from_toml(text)
    provider = router.config.providers["openai"]
    shipped = router.plan("openai/gpt-6.1-terra").leaves[0].info
    assert shipped.output == 7
    assert shipped.context is not None
    assert shipped.price is not None
    said = {"gpt-6.1-terra": ModelInfo(context=5000, output=6000, price=Price(input=9, output=9))}
    router.planner.kept.keep(provider, Listing(models=("gpt-6.1-terra",), info=said), now=1.0)
    router.planner.forget()
    found = router.plan("openai/gpt-6.1-terra").leaves[0].info
    assert (found.context, found.output, found.price) == (5000, 7, Price(input=9, output=9))
    assert found.reasons is shipped.reasons
    router.close()


def test_a_budget_in_money_can_be_kept_by_the_shipped_prices_and_not_without_any() -> None:
    text = '[providers.{id}]\n{who}\nkey = "none"\nbudget = {{ usd_per_day = 1.0 }}\n'
    known = Router.from_toml(text.format(id="openai", who='preset = "openai"'))
    assert known.plan("openai/gpt-6.1-terra").leaves[0].info.price is not None
    relay = 'api = "openai-chat"\nbase_url = "https://relay.example/v1"'
    unknown = Router.from_toml(text.format(id="relay", who=relay))
    with pytest.raises(ConfigError, match="no known price"):
        unknown.plan("relay/gpt-6.1-terra")


def test_the_efforts_a_vendor_lists_are_the_variants_on_offer(
    router_of: Callable[..., Router], server: Listings
) -> None:
    effort = {"supported": True, "low": YES, "high": YES, "xhigh": YES, "medium": NO, "max": NO}
    server.pages["/b/v1/models"] = Answer(
        {
            "data": [
                {"id": "thinks", "capabilities": {"effort": effort, "thinking": YES}},
                {"id": "plain", "capabilities": {"effort": {"supported": False}, "thinking": NO}},
            ]
        }
    )
    router = router_of()
    assert router.plan("b/thinks#max").leaves[0].params == {"reasoning_effort": "max"}
    fetch(router, "b")
    assert router.plan("b/thinks#xhigh").leaves[0].params == {"reasoning_effort": "xhigh"}
    with pytest.raises(UsageError, match="it offers low, high, xhigh"):
        router.plan("b/thinks#max")
    with pytest.raises(UsageError, match="no variant"):
        router.plan("b/plain#high")


def test_a_suffixed_id_in_the_listing_is_a_variant(router_of: Callable[..., Router], server: Listings) -> None:
    server.pages["/a/v1/models"] = Answer({"data": [{"id": "m"}, {"id": "m-turbo"}]})
    router = router_of()
    with pytest.raises(UsageError):
        router.plan("a/m#turbo")
    fetch(router, "a")
    assert leaves(router, "a/m#turbo") == ["a/m-turbo"]


def test_a_refresh_counts_for_the_very_next_question(router_of: Callable[..., Router], server: Listings) -> None:
    router = router_of()
    fetch(router)
    assert router.plan("a/x-1").leaves[0].info.context == 4000
    server.pages["/a/v1/models"] = Answer({"data": [{"id": "x-1", "max_model_len": 8000}]})
    fetch(router)
    assert router.plan("a/x-1").leaves[0].info.context == 8000


def test_a_router_from_text_keeps_its_listings_to_itself(
    router_of: Callable[..., Router], home: Path, server: Listings
) -> None:
    fetch(router_of())
    assert [path for path in home.rglob("*") if path.name.startswith("catalog")] == []
    assert router_of().catalogs()["a"].kind == "open"


def test_a_listing_is_found_again_by_the_next_process(
    home: Path, monkeypatch: pytest.MonkeyPatch, server: Listings
) -> None:
    place = home / "rk"
    place.mkdir()
    monkeypatch.setenv("ROUTEKIT_HOME", str(place))
    (place / "config.toml").write_text("version = 1\n" + CONFIG.format(url=server.url))
    first = Router()
    fetch(first)
    first.close()
    second = Router()
    assert leaves(second, "all") == ["a/x-1", "a/x-2", "b/x-2", "b/x-3"]
    second.close()


def test_a_thousand_listed_models_cost_a_plan_only_what_it_uses(tmp_path: Path) -> None:
    info = {f"m{number}": ModelInfo(context=number + 1) for number in range(1000)}
    router = Router.from_toml('[providers.a]\napi = "openai-chat"\nbase_url = "http://h.example/v1"\nkey = "none"\n')
    router.planner.kept = Catalogs(tmp_path / "catalog.json")
    router.planner.kept.keep(router.config.providers["a"], Listing(models=tuple(info), info=info), now=1.0)
    calls = 0

    def count(frame: object, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        plan = router.plan("a/m500")
    finally:
        sys.setprofile(before)
    assert plan.leaves[0].info.context == 501
    assert calls < 2000, "a plan of one model looked at them all"
