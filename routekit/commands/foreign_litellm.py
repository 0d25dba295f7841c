"""The configuration of LiteLLM's proxy: deployments, their keys, groups, weights, fallbacks. Only read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.ids import is_id
from ..credentials import Secret
from ..errors import ConfigError
from ..vendors.presets import PRESETS
from .foreign import Account, Imported, as_id, vendor_of, yaml_of

VARIABLE = "os.environ/"
#: where a whole group's targets stand when the group itself falls back to others
POOL = ".pool"


def read(file: str, environ: Mapping[str, str]) -> Imported:
    document = yaml_of(file)
    rows = document.get("model_list") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise ConfigError(f"{file} has no model_list: it is no LiteLLM config", hints=["routekit init"])
    return _Reading(file, document, environ).imported(rows)


class _Reading:
    """One file, read once. ``groups`` are the deployments of each public name, as targets."""

    def __init__(self, file: str, document: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self.file, self.document, self.environ = file, document, environ
        self.accounts: dict[str, Account] = {}
        self.places: dict[tuple[str, str, str], str] = {}
        self.groups: dict[str, list[dict[str, Any]]] = {}
        self.left: list[str] = []

    def imported(self, rows: list[Any]) -> Imported:
        for row in rows:
            if isinstance(row, dict) and isinstance(row.get("litellm_params"), dict):
                self._deployment(str(row.get("model_name") or ""), row["litellm_params"])
        names = self._names()
        routes = self._routes(names)
        return Imported(
            source=self.file,
            accounts=tuple(self.accounts.values()),
            routes=routes,
            aliases=self._aliases(names),
            default=next(iter(routes), None),
            left=tuple(dict.fromkeys(self.left)),
        )

    def _section(self, name: str) -> Mapping[str, Any]:
        found = self.document.get(name)
        return found if isinstance(found, dict) else {}

    # --- deployments ------------------------------------------------------------------------------------------------

    def _deployment(self, name: str, said: Mapping[str, Any]) -> None:
        model = self._value(said.get("model")) or ""
        base = self._value(said.get("api_base") or said.get("base_url")) or ""
        vendor, own = vendor_of(model)
        base = _completed(vendor, base)
        if base and vendor in ("", "openai") and base != PRESETS["openai"].base_url:
            # whoever copies OpenAI's API copies the older one
            vendor, own = "", own if vendor else model.partition("/")[2] or model
        if "*" in own or "*" in name:
            self.left.append(f"{name}: {model} stands for many models; ask for them as PROVIDER/MODEL")
            return
        if not vendor and not base:
            self.left.append(f"{name}: {model} is of no vendor known here")
            return
        if vendor and not (base or PRESETS[vendor].base_url):
            self.left.append(f"{name}: {vendor} needs an address (api_base)")
            return
        id = self._account(vendor, base, said.get("api_key"))
        self._limits(id, own, said)
        weight = said.get("weight")
        target: dict[str, Any] = {"target": f"{id}/{own}"}
        if isinstance(weight, int) and weight > 0:
            target["weight"] = weight
        self.groups.setdefault(name or own, []).append(target)

    def _value(self, said: Any) -> str | None:
        """Text, or the variable it names; nothing where that is not set."""
        if not isinstance(said, str):
            return None
        if said.startswith(VARIABLE):
            return self.environ.get(said.removeprefix(VARIABLE), "").strip() or None
        return said.strip()

    def _account(self, vendor: str, base: str, key: Any) -> str:
        """The provider of one vendor, address and key: several deployments share it."""
        said = key if isinstance(key, str) else ""
        place = (vendor, base, said)
        if place not in self.places:
            id = self._id(vendor, base)
            self.places[place] = id
            ref, secret = self._key(vendor, said)
            own = bool(vendor) and base in ("", PRESETS[vendor].base_url)
            self.accounts[id] = Account(
                id=id,
                preset=vendor,
                api="" if vendor else "openai-chat",
                base_url="" if own else base,
                key=ref,
                secret=secret,
            )
        return self.places[place]

    def _id(self, vendor: str, base: str) -> str:
        from ..credentials import host_of

        wanted = vendor or as_id(host_of(base).partition(":")[0])
        id, number = wanted, 2
        while id in self.accounts or id == "route":
            id, number = f"{wanted}-{number}", number + 1
        return id

    def _key(self, vendor: str, said: str) -> tuple[str, Secret | None]:
        if said.startswith(VARIABLE):
            return f"env:{said.removeprefix(VARIABLE)}", None
        if said:
            return "keyring", Secret(said, "LiteLLM's config")
        row = PRESETS.get(vendor)
        return ("auto" if row is not None and not row.keyless else "none"), None

    def _limits(self, id: str, model: str, said: Mapping[str, Any]) -> None:
        names = {"rpm": "requests_per_minute", "tpm": "tokens_per_minute"}
        budget = {ours: said[theirs] for theirs, ours in names.items() if isinstance(said.get(theirs), int)}
        if budget:
            from msgspec.structs import replace

            account = self.accounts[id]
            info = {**account.model_info, model: {"budget": budget}}
            self.accounts[id] = replace(account, model_info=info)

    # --- groups -----------------------------------------------------------------------------------------------------

    def _names(self) -> dict[str, str]:
        """Each public name as an id of ours."""
        found: dict[str, str] = {}
        for name in self.groups:
            id, number = as_id(name), 2
            wanted = id
            while id in found.values() or id in self.accounts or id == "route":
                id, number = f"{wanted}-{number}", number + 1
            found[name] = id
            if id != name:
                self.left.append(f"the name {name}: it is {id} here")
        return found

    def _routes(self, names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        fallbacks = self._fallbacks()
        routes: dict[str, dict[str, Any]] = {}
        for name, targets in self.groups.items():
            id = names[name]
            others = [f"route/{names[other]}" for other in fallbacks.get(name, ()) if other in names and other != name]
            if not others:
                routes[id] = _route(targets)
            elif len(targets) == 1:
                routes[id] = {"targets": [targets[0]["target"], *others]}
            else:
                routes[id] = {"targets": [f"route/{id}{POOL}", *others]}
                routes[id + POOL] = _route(targets)
        return self._without_circles(routes)

    def _without_circles(self, routes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Two groups that fall back to each other are a circle here: the later one keeps to itself."""
        decided: dict[str, dict[str, Any]] = {}
        for id, route in routes.items():
            kept = [target for target in route["targets"] if not _leads_back(target, id, decided)]
            if len(kept) < len(route["targets"]):
                self.left.append(f"{id}: a fallback that leads back to it")
            decided[id] = {**route, "targets": kept}
        return decided

    def _fallbacks(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for section in ("litellm_settings", "router_settings"):
            for row in self._section(section).get("fallbacks") or ():
                for name, others in row.items() if isinstance(row, dict) else ():
                    found.setdefault(str(name), []).extend(map(str, others or ()))
            if self._section(section).get("context_window_fallbacks"):
                self.left.append("context_window_fallbacks: a prompt too long for one target goes to a larger one here")
        strategy = self._section("router_settings").get("routing_strategy")
        if strategy not in (None, "simple-shuffle"):
            self.left.append(f"routing_strategy {strategy}: groups share by chance and weight here")
        return found

    def _aliases(self, names: Mapping[str, str]) -> dict[str, str]:
        said = self._section("router_settings").get("model_group_alias")
        found: dict[str, str] = {}
        for name, group in (said if isinstance(said, dict) else {}).items():
            meant = str(group.get("model") if isinstance(group, dict) else group)
            if meant in names and is_id(str(name)) and name not in (*names.values(), *self.accounts):
                found[str(name)] = names[meant]
            else:
                self.left.append(f"the alias {name}")
        return found


#: what an address as LiteLLM takes it lacks of ours
ENDINGS = {"azure": "/openai/v1/", "ollama": "/v1/", "vllm": "/v1"}


def _completed(vendor: str, base: str) -> str:
    ending = ENDINGS.get(vendor, "")
    return base.rstrip("/") + ending if base and ending and "/v1" not in base else base


def _route(targets: list[dict[str, Any]]) -> dict[str, Any]:
    if len(targets) == 1:
        return {"targets": [targets[0]["target"]]}
    rows = [row if "weight" in row else row["target"] for row in targets]
    return {"selection": "weighted", "targets": rows}


def _leads_back(target: Any, id: str, routes: Mapping[str, Mapping[str, Any]]) -> bool:
    seen: set[str] = set()
    waiting = [target]
    while waiting:
        name = waiting.pop()
        if not isinstance(name, str) or not name.startswith("route/"):
            continue
        other = name.removeprefix("route/")
        if other == id:
            return True
        if other not in seen and other in routes:
            seen.add(other)
            waiting += routes[other]["targets"]
    return False
