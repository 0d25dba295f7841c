"""``init --from``: what another program's configuration says, as one of ours. Keys go into the keyring and never into
the file; what cannot be taken over is named. The other program's files are only read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ..core.value import Value
from ..credentials import Secret, Stored, host_of
from ..credentials import remove as remove_key
from ..credentials import store as store_key
from ..errors import ConfigError, CredentialError, RoutekitError, UsageError
from ..files import read_bounded
from ..keychain import Seen
from ..router import Router
from ..vendors.presets import PRESETS
from .report import Context, Lines, Report

#: how vendors are called elsewhere, where that is not their name here
CALLED: Mapping[str, str] = {
    "claude": "anthropic",
    "grok": "xai",
    "google": "gemini",
    "together_ai": "together",
    "ollama_chat": "ollama",
    "hosted_vllm": "vllm",
    "azure_ai": "azure",
}
#: whose model it is where only its name is said
BEGINNINGS = (
    (("gpt-", "chatgpt-", "o1", "o3", "o4", "codex-"), "openai"),
    (("claude-",), "anthropic"),
    (("gemini-",), "gemini"),
    (("deepseek-",), "deepseek"),
    (("grok-",), "xai"),
    (("mistral-", "codestral-", "magistral-", "ministral-"), "mistral"),
)


class Account(Value):
    """A provider to be: by ``preset``, or by what it speaks and where. ``key`` is the reference the file will hold, and
    ``secret`` what is to be stored under it."""

    id: str
    preset: str = ""
    api: str = ""
    base_url: str = ""
    key: str = "auto"
    secret: Secret | None = None
    model_info: Mapping[str, Mapping[str, Any]] = {}

    @property
    def address(self) -> str:
        return self.base_url or (PRESETS[self.preset].base_url if self.preset else "")

    def entry(self) -> dict[str, Any]:
        fields = ("preset", "api", "base_url", "key", "model_info")
        return {name: value for name in fields if (value := getattr(self, name))}


class Imported(Value):
    """``default`` is the reference that was asked where nothing was named; ``left`` names what was not taken over."""

    source: str
    accounts: tuple[Account, ...] = ()
    routes: Mapping[str, Mapping[str, Any]] = {}
    aliases: Mapping[str, str] = {}
    default: str | None = None
    log: bool = True
    left: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


def bring(context: Context, source: str, *, store: str, log: bool = True) -> Report:
    router = context.router
    file = router.paths.config_file
    if os.path.lexists(file):
        raise UsageError(
            f"there is a config already: {file}; nothing was changed",
            hints=["routekit config check", f"ROUTEKIT_HOME=DIRECTORY routekit init --from {source}"],
        )
    found = read(source, context.environ)
    found = replace(found, log=found.log and log)
    if not found.accounts:
        raise ConfigError(f"nothing in {found.source} can be taken over", details=found.left, hints=["routekit init"])
    from .init import write_new

    kept = _store(router, found.accounts, where=store, source=source)
    try:
        write_new(router, file, toml_text(found))
    except RoutekitError:
        _forget(router, kept)
        raise
    for id, stored in kept.items():
        seen = Seen(state="present", when=router.now(), last4=stored.last4, source=stored.source)
        router.key_changed(id, seen)
    context.renew()
    return _report(found, file, list(kept), where=store)


def read(source: str, environ: Mapping[str, str]) -> Imported:
    """``llm``, its directory, or a file of LiteLLM's proxy. Raises ``UsageError`` for what is none."""
    from . import foreign_litellm, foreign_llm

    if source == "llm" or os.path.isdir(source):
        return foreign_llm.read(foreign_llm.directory(environ) if source == "llm" else source, environ)
    if os.path.isfile(source):
        return foreign_litellm.read(source, environ)
    raise UsageError(
        f"--from takes 'llm', its directory, or a LiteLLM config: {source} is not there",
        hints=["routekit init --from llm", "routekit init --from litellm.yaml"],
    )


# --- keys -------------------------------------------------------------------------------------------------------------


def _store(router: Router, accounts: Sequence[Account], *, where: str, source: str) -> dict[str, Stored]:
    """Keep every secret, or none."""
    kept: dict[str, Stored] = {}
    for account in accounts:
        if account.secret is None:
            continue
        try:
            kept[account.id] = store_key(
                account.id,
                account.secret,
                place=router.key_place,
                now=router.now(),
                where="file" if where == "file" else "keyring",
                hosts=[host_of(account.address)],
            )
        except CredentialError as error:
            _forget(router, kept)
            ways = [f"routekit init --from {source} --store file"] if where != "file" else []
            error.hints = (*ways, *(hint for hint in error.hints if "--store file" not in hint))
            error.details = (*error.details, "nothing was stored or written")
            raise
    return kept


def _forget(router: Router, kept: Iterable[str]) -> None:
    for id in kept:
        remove_key(id, place=router.key_place)


# --- the file and the words -------------------------------------------------------------------------------------------


def toml_text(found: Imported) -> str:
    import tomli_w

    from .init import ROUTE

    routes = {name: dict(route) for name, route in found.routes.items()}
    default = found.default
    if default is not None and default not in routes:
        routes = {ROUTE: {"targets": [default]}, **routes}
        default = ROUTE
    document: dict[str, Any] = {
        "version": 1,
        **({"defaults": {"route": default}} if default else {}),
        **({} if found.log else {"log": {"conversations": False}}),
        "providers": {account.id: account.entry() for account in found.accounts},
        **({"routes": routes} if routes else {}),
        **({"aliases": dict(found.aliases)} if found.aliases else {}),
    }
    head = [f"# Taken over from {found.source}. Secrets never stand here: routekit keys list"]
    head += [f"# not taken over: {line}" for line in found.left]
    return "\n".join([*head, tomli_w.dumps(document)])


def _report(found: Imported, file: str, kept: Sequence[str], *, where: str) -> Report:
    names = ", ".join(account.id for account in found.accounts)
    told = [f"wrote {file}", f"providers: {names}"]
    told += [f"routes: {', '.join(found.routes)}"] if found.routes else []
    told += [f"aliases: {', '.join(found.aliases)}"] if found.aliases else []
    place = "plain-text files only you can read" if where == "file" else "the keyring"
    told += [f"keys now in {place}: {', '.join(kept)}"] if kept else []
    told += [f"not taken over: {line}" for line in found.left]
    told += found.told
    data = {
        "file": file,
        "providers": [account.id for account in found.accounts],
        "routes": list(found.routes),
        "aliases": dict(found.aliases),
        "keys": list(kept),
        "left": list(found.left),
    }
    hints = ("routekit config check", "routekit keys check", "routekit ask 'your question'")
    return Report(blocks=(Lines(text=tuple(told)),), data=data, hints=hints)


# --- names ------------------------------------------------------------------------------------------------------------


def vendor_of(model: str) -> tuple[str, str]:
    """(preset, the model's own name) of a name as other programs write it; empty where nobody here is meant."""
    head, slash, rest = model.partition("/")
    vendor = CALLED.get(head, head)
    if slash and vendor in PRESETS:
        return vendor, rest
    if slash:
        return "", model
    return next((name for begins, name in BEGINNINGS if model.startswith(begins)), ""), model


def as_id(text: str) -> str:
    """The nearest name that may be an id here."""
    import re

    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:100] or "imported"


def yaml_of(file: str) -> Any:
    """What a YAML file says. Raises ``ConfigError``; its words never repeat the file's, which may hold keys."""
    import yaml  # type: ignore[import-untyped]

    try:
        return yaml.safe_load(read_bounded(file).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{file} is not YAML{where}") from None
