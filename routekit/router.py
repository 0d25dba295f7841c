"""The one door: configuration, memory, vendors and credentials behind ``ask``, ``preview``, ``health`` and ``why``.

Every surface holds a ``Router`` and nothing below it.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from . import probe, vendors
from .config import demo
from .config import file as config_file
from .config.convert import Vendors
from .config.paths import Paths, find_paths
from .config.sources import Merged
from .config.watch import Live, Watch, can_be_read_again
from .core import budget
from .core import decide as heart
from .core import judge as judging
from .core.chat import Delta, Message, Request
from .core.config import Budget, Catalog, Config, Provider
from .core.health import Standing, demoted, held, sleeping
from .core.keyref import CredentialRef, is_ref, parse_ref, reference_of
from .core.plan import NEAR, Branch, Leaf, Plan, expand, model_info, named_models
from .core.record import RequestRecord, document, from_document
from .core.select import Algorithm, Context, Factory, Registry, built_in
from .core.value import Value
from .core.words import KEY_STATES
from .credentials import (
    KeyPlace,
    Redactor,
    Secret,
    barred,
    host_of,
    key_tag,
    keyring_likely,
    not_for,
    own_entry,
    read_ledger,
    renewing,
    resolve,
    resolve_async,
)
from .errors import ConfigError, CredentialError, RoutekitError, UsageError
from .plugins import Algorithms
from .state import StateStore, open_store
from .vendors.catalog import Catalogs, Listing
from .vendors.presets import API_DEFAULTS, PRESETS

if TYPE_CHECKING:
    import asyncio
    from typing import Unpack

    from .answer import Answer
    from .dispatch import Happening, Order
    from .keywords import How
    from .loop import Background
    from .schema import Shape
    from .state.conversations import ConversationLog, Entry, Place
    from .transcript import Keep

#: how long a failed look at a credential is believed by others, in seconds
BELIEVED = {"absent": 300.0, **dict.fromkeys(("locked", "silent", "none", "invalid"), 60.0)}
BELIEVED |= dict.fromkeys(("exposed", "unreadable", "elsewhere"), 60.0)
#: kinds of references that cost nothing to read
CHEAP = ("env:", "file:")
SALT_KEY = "salt"
LOG_SWITCH = "log:switch"
OFF = b'"off"'


class Seen(Value):
    """What the last look at a credential found: a ``CredentialError`` state, or ``present``."""

    state: str
    when: float
    last4: str = ""
    source: str = ""


class LeafView(Value):
    """One leaf in a preview. ``credential`` says what is known of its key without touching it."""

    target: str
    ready: bool
    reason: str = ""
    until: float | None = None
    said: str = ""
    demoted: bool = False
    serves: bool = False
    credential: str = ""


class GroupNode(Value):
    """A group in a preview; ``children`` keep the configured order. ``weight`` is its own in its parent."""

    group: str
    algorithm: str
    children: tuple[GroupNode | LeafView, ...]
    serves: bool = False


class Sleeper(Value):
    """One line of ``health``: a target or credential about which something is remembered."""

    key: str
    kind: str
    state: str
    until: float | None = None
    cause: str = ""
    #: the vendor's words at the time
    said: str = ""
    rung: int = 0
    last_failure: float = 0.0
    last_success: float = 0.0


class BudgetLine(Value):
    """One limit of a budget. ``unit`` is ``requests``, ``tokens`` or ``nanos`` (billionths of a US dollar);
    ``estimated`` are those of the spent tokens that no vendor has confirmed; ``frees_s`` the seconds until the first of
    what is spent or reserved leaves the window."""

    scope: str
    window: str
    unit: str
    spent: int
    reserved: int
    limit: int
    estimated: int = 0
    frees_s: float | None = None


class Router:
    """Everything a surface needs. Cheap to build: files, stores, SDKs and keyring are opened at their first use.

    ``now`` and ``random`` are the clock (wall-clock seconds) and the draw in [0, 1); ``speakers`` replaces the vendor
    of an API; ``state`` a store to use instead of the one in the user's state directory; ``registry`` the selections
    it begins with, instead of routekit's own; ``redactor`` what takes secrets out of texts."""

    def __init__(
        self,
        *,
        paths: Paths | None = None,
        environ: Mapping[str, str] | None = None,
        profile: str | None = None,
        patches: Sequence[str] = (),
        config: Config | None = None,
        state: StateStore | None = None,
        speakers: Mapping[str, vendors.Vendor] | None = None,
        algorithms: Mapping[str, Factory] | None = None,
        registry: Registry | None = None,
        redactor: Redactor | None = None,
        log: ConversationLog | None = None,
        now: Callable[[], float] = time.time,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.environ = os.environ if environ is None else environ
        self.paths = paths or find_paths(self.environ)
        self.profile, self.patches = profile, tuple(patches)
        self.interactive = False
        self.registry = Algorithms(registry or built_in())
        for name, factory in (algorithms or {}).items():
            self.registry.register(name, factory)
        self._config, self._store, self._log = config, state, log
        self._catalogs = Catalogs(Path(self.paths.catalog))
        self._speakers: dict[str, vendors.Vendor] = dict(speakers or {})
        self._now, self._draw = now, draw
        self._plans: dict[tuple[str, str], tuple[Plan, tuple[Algorithm, ...]]] = {}
        self._watch: Watch | None = None
        self._live = Live(digest=config.digest if config else "", loaded_at=now(), mode="given")
        self._notices: list[str] = []
        self._secrets: dict[str, Secret | None] = {}
        self._redactor = redactor or Redactor()
        self._probes: set[asyncio.Task[None]] = set()
        #: a REPL, a kernel, a server: it may load an SDK only to look after a sleeping target
        self.long_lived = False
        self._background: Background | None = None
        self._opening = threading.Lock()
        self._last: RequestRecord | None = None

    # --- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        config: str | Path | None = None,
        profile: str | None = None,
        state: str | Path | StateStore | None = None,
        *,
        patches: Sequence[str] = (),
        algorithms: Mapping[str, Factory] | None = None,
    ) -> Router:
        """A router over the user's configuration, or that of ``config``. ``state``: another state file, or a store.
        ``algorithms``: selections it may name, beside routekit's own and those of installed packages. The configuration
        is read here: raises ``ConfigError`` with every problem found."""
        paths = find_paths(os.environ, config_file=str(config) if config is not None else None)
        store = open_store(Path(state)) if isinstance(state, str | Path) else state
        router = cls(paths=paths, profile=profile, patches=patches, state=store, algorithms=algorithms)
        router.config  # noqa: B018 - read now, so that a broken file is known at once
        return router

    @classmethod
    def from_toml(cls, text: str, *, state: StateStore | None = None, **more: Any) -> Router:
        """A router over a configuration given as TOML text, with a memory of its own unless ``state`` is given, and a
        log of conversations of its own unless ``log`` is."""
        if "log" not in more:
            from .state.conversations import ConversationLog

            more["log"] = ConversationLog(None)
        router = cls(state=state or open_store(None), **more)
        router._config = config_file.from_text(text, setting=router.setting(allow_scripted=True))
        router._live = msgspec.structs.replace(router._live, digest=router._config.digest)
        if state is None:
            router._catalogs = Catalogs(None)
        return router

    def setting(self, *, allow_scripted: bool = False) -> config_file.Setting:
        """What a config of this router may name: its vendors and its selections."""
        return config_file.Setting(
            vendors=Vendors(presets=PRESETS, defaults=API_DEFAULTS),
            selections=self.registry,
            allow_scripted=allow_scripted,
        )

    @property
    def config(self) -> Config:
        """The configuration in force, read at the first use; ``refresh`` reads it again where its files changed."""
        if self._config is None:
            watch = Watch(self._watched())
            look = watch.look()
            self._config = config_file.checked(self.inspect(), own=self.paths.config_file)
            watch.good(look)
            self._watch = watch if can_be_read_again(watch.files) else None
            self._live = _live(self._config, self.now())
        return self._config

    def _watched(self) -> list[str]:
        """The files that make the configuration, also those that are not there yet: where there is no file, the ledger
        of keys says which vendors exist."""
        name = self.profile or self.environ.get("ROUTEKIT_PROFILE") or None
        named = [self.paths.profile(name)] if name else []
        own = [] if name == demo.NAME and not os.path.lexists(self.paths.profile(name)) else [self.paths.config_file]
        ledger = [self.paths.keys] if self.unconfigured else []
        return [*own, *named, *self.patches, *ledger]

    def refresh(self) -> Config:
        """As ``config``, but read again if one of its files changed since: what every request begins with. A version
        that is broken does not replace the one in force, and that is said once (``take_notices``, ``live``); requests
        under way keep what they began with. Raises ``ConfigError`` only where no configuration was ever in force."""
        before, watch = self.config, self._watch
        if watch is None or not watch.changed():
            return before
        look = watch.look()
        watch.seen(look)
        try:
            missing = watch.lost(before.files)
            if missing:
                raise ConfigError(missing, hints=["routekit config path"])
            fresh = config_file.checked(self.inspect(), own=self.paths.config_file)
        except RoutekitError as error:
            self._reject(error)
        else:
            watch.good(look)
            self._replace(before, fresh)
        return self.config

    def _replace(self, before: Config, fresh: Config) -> None:
        if self._live.rejected:
            self._notices.append("the configuration can be used again, and is")
        # A key that was read is good for those who still name it, and read it from the same place.
        sources = {(row.credential, row.key_variable) for row in before.providers.values()}
        kept = {row.credential for row in fresh.providers.values() if (row.credential, row.key_variable) in sources}
        self._secrets = {name: secret for name, secret in self._secrets.items() if name in kept}
        if fresh.digest != before.digest:
            self._plans = {}
            self._live = _live(fresh, self.now())
        else:
            self._live = _live(fresh, self._live.loaded_at)
        self._config = fresh

    def _reject(self, error: RoutekitError) -> None:
        words = "; ".join([error.message, *error.details])
        if words == self._live.rejected:
            return
        since = time.strftime("%H:%M:%S", time.localtime(self._live.loaded_at))
        told = error.details[0] if error.details else error.message
        self._notices.append(f"the version of {since} stays in use: {told}; try: routekit config check")
        self._live = msgspec.structs.replace(self._live, rejected=words, rejected_at=self.now())

    def live(self) -> Live:
        """Which version of the configuration is in force since when, and what is wrong with a newer one that is not."""
        self.refresh()
        return self._live

    def take_notices(self) -> list[str]:
        """What happened to the configuration since this was last asked; each is given once."""
        taken, self._notices = self._notices, []
        return taken

    def inspect(self, *, stored: Collection[str] | None = None) -> config_file.Reading:
        """The configuration with its problems as values, broken or not. Raises ``ConfigError`` where there is none.
        ``stored``: the keys to take as present where there is no file, instead of those known to be."""
        return config_file.inspect(
            self.paths,
            setting=self.setting(),
            environ=self.environ,
            profile=self.profile,
            patches=self.patches,
            stored=tuple(read_ledger(Path(self.paths.keys))) if stored is None else stored,
        )

    def files(self) -> list[str]:
        """The files in force, outermost last; the demo and the environment have none. Raises ``ConfigError`` where one
        that was named is not there."""
        name = self.profile or self.environ.get("ROUTEKIT_PROFILE") or None
        if name == demo.NAME and not os.path.lexists(self.paths.profile(name)):
            return list(self.patches)
        return config_file.files_in_force(self.paths, profile=name, patches=self.patches)

    def overlaid(self) -> Merged:
        """What the files in force say, not judged: for the little that must work with a broken configuration, and to
        find the lines of things."""
        return config_file.overlaid(self.files())

    @property
    def unconfigured(self) -> bool:
        """Whether no file, profile or patch says anything: the environment alone is the configuration."""
        asked = self.paths.named or self.profile or self.environ.get("ROUTEKIT_PROFILE") or self.patches
        return not asked and not os.path.lexists(self.paths.config_file)

    @property
    def store(self) -> StateStore:
        if self._store is None:
            self._store = open_store(Path(self.paths.state))
        return self._store

    @property
    def log(self) -> ConversationLog:
        """The conversation log. What goes wrong with it is said with the store's own warnings."""
        if self._log is None:
            from .state.conversations import ConversationLog

            self._log = ConversationLog(Path(self.paths.conversations), warn=self._warn_of_log)
        return self._log

    def _warn_of_log(self, text: str) -> None:
        # One folder that cannot be written is one trouble: where the memory has spoken of it, the log need not.
        if not self.store.warnings:
            self.store.warnings.append(text)

    @property
    def logging(self) -> bool:
        """Whether questions and answers are kept where the call does not say: ``log.conversations``, until
        ``switch_log(False)``."""
        return self.config.log.conversations and self.store.peek([LOG_SWITCH]).get(LOG_SWITCH) != OFF

    def switch_log(self, on: bool) -> None:
        """Keep no more questions and answers, for all processes, until switched on again. ``True`` does not override a
        configuration that says no."""
        self.store.transact([LOG_SWITCH], lambda _: (None, {LOG_SWITCH: None if on else OFF}), patience=5.0)

    @property
    def key_place(self) -> KeyPlace:
        return KeyPlace(files=Path(self.paths.state_dir) / "keys", ledger=Path(self.paths.keys))

    def close(self) -> None:
        """Close what was opened. The router must not be used afterwards."""
        if self._background is not None:
            self._background.close()
        if self._log is not None:
            self._log.close()
        if self._store is not None:
            self._store.close()

    # --- plans --------------------------------------------------------------------------------------------------------

    def catalog(self, provider: Provider) -> Catalog:
        """What a provider offers: as configured, else as its vendor listed it at the last ``fetch_models``."""
        return self._catalogs.of(provider)

    def catalogs(self, config: Config | None = None) -> dict[str, Catalog]:
        return {provider.id: self.catalog(provider) for provider in (config or self.config).providers.values()}

    async def fetch_models(self, provider: Provider) -> Listing:
        """Ask a provider's vendor what it offers, and keep that in place of what was kept. Raises ``VendorFault``,
        ``CredentialError``, ``StateError``; what was kept then stays, and nobody's health is touched."""
        from .vendors.listing import fetch

        secret = await self.secret(provider)
        listing = await fetch(provider, secret=secret, headers=await self.headers(provider))
        self._catalogs.keep(provider, listing, now=self.now())
        self._plans = {}
        return listing

    def fetch_prices(self) -> str:
        """Keep the table of windows and prices that the installed ``genai-prices`` gives, where it is newer than the
        one at hand. Returns its version; empty where it was not newer."""
        import datetime

        from .vendors.prices import table

        fresh = table(datetime.datetime.fromtimestamp(self.now(), datetime.UTC).date())
        if not self._catalogs.keep_table(fresh):
            return ""
        self._plans = {}
        return f"{fresh.source} {fresh.version}"

    def default_model(self) -> str:
        """What is asked when nothing is named. Raises ``UsageError`` where nothing says."""
        config = self.config
        if config.defaults.route:
            return config.defaults.route
        if len(config.routes) == 1:
            return next(iter(config.routes))
        if config.mode == "environment":
            for provider in config.providers.values():
                row = PRESETS.get(provider.preset or provider.id)
                if row is not None and row.example:
                    return f"{provider.id}/{row.example}"
        raise UsageError(
            "no model was named and there is no default route",
            hints=["routekit default ROUTE", "routekit ask -m MODEL …", "routekit models list"],
        )

    def plan(self, model: str | None = None) -> Plan:
        """The plan of a reference. Raises ``UsageError`` for what does not exist."""
        self.refresh()
        return self._planned(self.default_model() if model is None else model)[0]

    def _planned(self, asked: str, config: Config | None = None) -> tuple[Plan, tuple[Algorithm, ...]]:
        config = config or self.config
        plans, key = self._plans, (config.digest, asked)
        if key not in plans:
            plan = expand(config, self.catalogs(config), asked)
            plans[key] = (plan, tuple(self._selector(plan, index) for index in range(len(plan.groups))))
        return plans[key]

    def _check_only(self, plan: Plan, only: str | None) -> None:
        """Raises ``UsageError`` where the one provider asked for does not exist, or has no target in this plan."""
        if only is None:
            return
        known = [*self.config.providers, *self.config.synthetic_providers]
        if only not in known:
            raise UsageError(f"unknown provider '{only}'; {_nearest(only, known)}", hints=["routekit providers list"])
        if len(heart.others_than(plan, only)) == len(plan.leaves):
            raise UsageError(
                f"{plan.reference} has no target of {only}", hints=[f"routekit routes show {plan.reference}"]
            )

    def _with_key(self, config: Config, name: str) -> Config:
        """The configuration with another credential for every provider whose host may be sent it."""
        owner = config.providers.get(name)
        ref = str(parse_ref(owner.key, entry=name)) if owner is not None else f"keyring:{name}"
        known = read_ledger(Path(self.paths.keys)).get(parse_ref(ref, entry=name).name)
        hosts = [host_of(owner.base_url)] if owner is not None else known.hosts if known is not None else []
        variable = owner.key_variable if owner is not None else None
        changed = {
            id: msgspec.structs.replace(provider, key=ref, key_variable=variable)
            for id, provider in config.providers.items()
            if host_of(provider.base_url) in hosts
        }
        providers = {**config.providers, **changed}
        return msgspec.structs.replace(config, providers=providers, digest=f"{config.digest} key {ref}")

    def _check_key(self, plan: Plan, config: Config, name: str) -> None:
        """Raises ``UsageError`` where no target of the plan may be sent the credential asked for."""
        before = self.config.providers
        owners = {leaf.provider for leaf in plan.leaves}
        if not any(id == name or config.providers[id].key != before[id].key for id in owners):
            raise UsageError(
                f"no target of {plan.reference} may be sent the key {name}: it was stored for other hosts, or nowhere",
                hints=["routekit keys list", f"routekit routes show {plan.reference}"],
            )

    def _selector(self, plan: Plan, index: int) -> Algorithm:
        group = plan.groups[index]
        context = Context(
            group=group.id,
            members=tuple(child.label for child in group.children),
            weights=tuple(child.weight for child in group.children),
        )
        return self.registry.resolve(group.algorithm)(context)

    # --- what a dispatch stands on (``dispatch.Engine``) --------------------------------------------------------------

    def vendor(self, api: str) -> vendors.Vendor:
        if api not in self._speakers:
            self._speakers[api] = vendors.vendor_for(api)
        return self._speakers[api]

    async def secret(self, provider: Provider) -> Secret | None:
        """The provider's secret, read once per process. Raises ``CredentialError``; what was found is remembered."""
        ref = parse_ref(provider.key, entry=provider.id)
        # Also for a secret read before: another provider may share it and live elsewhere.
        self._check_host(provider, ref, self._secrets.get(provider.credential))
        if provider.credential in self._secrets:
            return self._secrets[provider.credential]
        try:
            secret = await self.resolve(ref, variable=provider.key_variable)
        except CredentialError as error:
            self._saw(provider.credential, Seen(state=error.state, when=self.now()))
            raise
        if secret is not None:
            self._saw(
                provider.credential,
                Seen(state="present", when=self.now(), last4=secret.last4, source=secret.source),
            )
        self._secrets[provider.credential] = secret
        self._check_host(provider, ref, secret)
        return secret

    async def resolve(self, ref: CredentialRef, *, variable: str | None) -> Secret | None:
        """The secret a reference names, known to the redactor from then on. Raises ``CredentialError``."""
        secret = await resolve_async(
            ref, variable=variable, environ=self.environ, interactive=self.interactive, place=self.key_place
        )
        if secret is not None:
            self._redactor.add(secret)
        return secret

    def _check_host(self, provider: Provider, ref: CredentialRef, secret: Secret | None = None) -> None:
        """A stored key goes only to the hosts it was stored for, by the ledger, or by what stands beside the key."""
        host = host_of(provider.base_url)
        why = barred(ref, host, place=self.key_place, environ=self.environ)
        if not why and secret is not None and secret.hosts is not None:
            why = not_for(ref.name, secret.hosts, host)
        if why:
            entry = own_entry(ref, self.key_place, self.environ) or ref.name
            raise CredentialError(
                f"{why}; {provider.id} would send it to {host}",
                state="elsewhere",
                hints=[self.new_key(f"keyring:{entry}")],
            )

    def _saw(self, credential: str, seen: Seen) -> None:
        key = f"seen:{credential}"

        def step(values: Mapping[str, bytes]) -> tuple[None, dict[str, bytes | None]]:
            old = read_seen(values.get(key))
            fresh = old is not None and old.state == seen.state == "present" and 0 <= seen.when - old.when < 60
            return None, {} if fresh else {key: msgspec.json.encode(seen)}

        self.store.transact([key], step)

    def seen(self, credential: str) -> Seen | None:
        """What the last look at a credential found; ``None`` where nobody has looked."""
        key = f"seen:{credential}"
        return read_seen(self.store.peek([key]).get(key))

    @property
    def keyring_there(self) -> bool:
        """Whether a keyring can be counted on: by what the last look at one found, and by what the session has."""
        if not keyring_likely(self.environ):
            return False
        last = max(self.keyring_looks(), key=lambda look: look.when, default=None)
        return last is None or last.state != "none"

    def keyring_looks(self) -> list[Seen]:
        """What looks at keys in the keyring have found. No memory is made by asking for it."""
        if self._store is None and not os.path.lexists(self.paths.state):
            return []
        rows = self.store.scan("seen:").items()
        looks = [read_seen(raw) for key, raw in rows if key.startswith(("seen:keyring:", "seen:auto:"))]
        return [look for look in looks if look is not None]

    def new_key(self, credential: str) -> str:
        """The command that puts a new key in the place of this one, on this machine; empty where none is needed."""
        ref = reference_of(credential)
        return renewing(ref, environ=self.environ, place=self.key_place, keyring=self.keyring_there)

    def refused(self) -> dict[str, float]:
        """The credentials whose vendor has refused them, and since when. One that was changed since is none of them;
        only variables and files are read for that."""
        found = {}
        for key, raw in self.store.scan("credential:").items():
            standing, credential = judging.read_standing(raw), key.partition(":")[2]
            window = sleeping(standing, self.now())
            if window is not None and window.cause == "auth" and not self._replaced(credential, standing):
                found[credential] = window.start
        return found

    def still_refused(self, credential: str, secret: Secret) -> float | None:
        """Since when this very key is refused by its vendor; ``None`` where it is not known to be."""
        key = f"credential:{credential}"
        standing = judging.read_standing(self.store.peek([key]).get(key, b""))
        window = sleeping(standing, self.now())
        if window is None or window.cause != "auth":
            return None
        return window.start if standing.key_tag in (None, self.key_tag(secret)) else None

    def _replaced(self, credential: str, standing: Standing) -> bool:
        """Whether another key stands now where the refused one stood, as far as that is cheap to tell."""
        if standing.key_tag is None or not credential.startswith(CHEAP):
            return False
        try:
            secret = resolve(reference_of(credential), variable=None, environ=self.environ, place=self.key_place)
        except CredentialError:
            return False
        return self.key_tag(secret) != standing.key_tag

    def key_changed(self, entry: str, seen: Seen | None) -> None:
        """A stored key was replaced or removed: what was seen of the old one is forgotten (``seen`` takes its place),
        and a window it earned by being refused ends, so that the new one counts at once."""
        credentials = [f"{kind}:{entry}" for kind in ("keyring", "auto")]
        keys = [f"{what}:{credential}" for what in ("seen", "credential") for credential in credentials]

        def step(values: Mapping[str, bytes]) -> tuple[None, dict[str, bytes | None]]:
            fresh = msgspec.json.encode(seen) if seen is not None else None
            writes: dict[str, bytes | None] = {f"seen:{credential}": fresh for credential in credentials}
            for credential in credentials:
                standing = judging.read_standing(values.get(f"credential:{credential}", b""))
                if standing.window is not None and standing.window.cause == "auth":
                    open_again = msgspec.structs.replace(standing, window=None, key_tag=None)
                    writes[f"credential:{credential}"] = msgspec.json.encode(open_again)
            return None, writes

        self.store.transact(keys, step, patience=5.0)

    async def headers(self, provider: Provider) -> Mapping[str, str]:
        """The provider's extra headers, references among their values resolved."""
        found: dict[str, str] = {}
        for name, value in provider.headers.items():
            if not is_ref(value):
                found[name] = value
                continue
            ref = parse_ref(value, entry=provider.id)
            self._check_host(provider, ref)
            secret = await self.resolve(ref, variable=None)
            self._check_host(provider, ref, secret)
            if secret is not None:
                found[name] = secret.reveal()
        return found

    def blocked(self, plan: Plan) -> Mapping[str, str]:
        """Credentials that a look just now, or a fresh memory of one, says cannot be had: credential → reason."""
        if len(plan.leaves) < 2:
            return {}
        credentials = dict.fromkeys(leaf.credential for leaf in plan.leaves)
        seen = self.store.peek([f"seen:{credential}" for credential in credentials])
        now = self.now()
        found: dict[str, str] = {}
        for credential in credentials:
            kind, _, name = credential.partition(":")
            memory = read_seen(seen.get(f"seen:{credential}"))
            if kind == "env" and not self.environ.get(name, "").strip():
                found[credential] = f"credential absent ({name} is not set)"
            elif kind != "none" and memory and 0 <= now - memory.when < BELIEVED.get(memory.state, 0.0):
                found[credential] = f"credential {memory.state}"
        return found

    def key_tag(self, secret: Secret | None) -> str | None:
        return key_tag(secret, self._salt()) if secret is not None else None

    async def tags(self, plan: Plan, *, deep: bool = False) -> Mapping[str, str]:
        """The present tags of credentials that sleep because their key was refused: a changed key wakes them at once.
        Only variables and files are read, unless ``deep``: then every source is."""
        keys = {leaf.credential_key: leaf.provider for leaf in plan.leaves}
        found: dict[str, str] = {}
        for key, raw in self.store.peek(keys).items():
            standing = judging.read_standing(raw)
            provider = self.config.providers.get(keys[key])
            if provider is None or standing.key_tag is None or sleeping(standing, self.now()) is None:
                continue
            if not deep and not provider.credential.startswith(CHEAP):
                continue
            # What this process has read before is what was refused: only a fresh look can tell of another one.
            self._secrets.pop(provider.credential, None)
            try:
                tag = self.key_tag(await self.secret(provider))
            except CredentialError:
                continue
            if tag is not None:
                found[provider.credential] = tag
        return found

    def _salt(self) -> bytes:
        fresh = os.urandom(16).hex()

        def step(values: Mapping[str, bytes]) -> tuple[str, dict[str, bytes | None]]:
            raw = values.get(SALT_KEY)
            if raw:
                return str(msgspec.json.decode(raw)), {}
            return fresh, {SALT_KEY: msgspec.json.encode(fresh)}

        return bytes.fromhex(self.store.transact([SALT_KEY], step))

    def clean(self, text: str) -> str:
        return self._redactor.clean(text)

    def now(self) -> float:
        return self._now()

    def random(self) -> float:
        return self._draw()

    def new_id(self) -> str:
        """Time first, so that ids sort as requests came; then chance."""
        return f"{int(self.now() * 1000):011x}{os.urandom(4).hex()}"

    # --- asking -------------------------------------------------------------------------------------------------------

    def last_record(self) -> RequestRecord | None:
        """The record of the request this router finished last, failed or not."""
        return self._last

    def remember(self, record: RequestRecord) -> None:
        """Keep a finished request's record. Never raises: a store out of order costs a warning, not an answer."""
        self._last = record
        self.store.record(record.id, record.time, document(record))

    def run(
        self,
        prompt: Any,
        *,
        model: str | None = None,
        history: Sequence[Message] = (),
        attachments: Sequence[Any] = (),
        schema: Any = None,
        key: str | None = None,
        log: bool | None = None,
        place: Place | None = None,
        keep: Keep | None = None,
        **how: Any,
    ) -> AsyncGenerator[Happening, None]:
        """Everything that happens while a question is answered, as it happens; ends with the ``RequestRecord``. Raises
        one error of the tree when it fails. The keywords are those of ``ask`` and the fields of ``dispatch.Order``.

        ``history`` are the messages before ``prompt``. ``log``: whether to keep question and answer in the log, with
        ``place``; unsaid, what people ask is kept as configured, and what programs ask (surface ``python``) is not.
        ``key`` names the credential to use wherever it may be sent (a provider's, or an entry of the keyring).
        ``keep`` is given the same entry, also when the answer broke off after some of it had been shown. With a
        ``schema`` the answer is held back until it fits."""
        from .dispatch import Order

        config = self.refresh() if key is None else self._with_key(self.refresh(), key)
        plan, selectors = self._planned(self.default_model() if model is None else model, config)
        self._check_only(plan, how.get("only"))
        for name in ("timeout", "max_cost"):
            _need_amount(name, how.get(name))
        if key is not None:
            self._check_key(plan, config, key)
        wanted = None if schema is None else _shape(schema)
        asked = {name: how.pop(name) for name in ("system", "options", "tools", "tool_choice") if name in how}
        new = messages(prompt, attachments)
        request = self.request((*history, *new), schema=wanted.schema if wanted else None, **asked)
        how["live"] = how.get("live", True) and wanted is None
        keepers = [keep] if keep is not None else []
        surface = how.get("surface", "python")
        if log or (log is None and surface != "python" and self.logging):
            keepers.append(self._logger(place, surface))
            how["conversation"] = how.get("conversation") or self.new_id()
        order = Order(request=request, plan=plan, config=config, **how)
        return self._told(order, selectors, wanted=wanted, new=new, keepers=keepers)

    def _told(
        self,
        order: Order,
        selectors: tuple[Algorithm, ...],
        *,
        wanted: Shape | None,
        new: Sequence[Message],
        keepers: Sequence[Keep],
    ) -> AsyncGenerator[Happening, None]:
        from .transcript import Transcript, transcribed

        transcript = Transcript(order, new, time=self.now())

        async def dispatched(order: Order) -> AsyncGenerator[Happening, None]:
            from contextlib import aclosing

            from .dispatch import Dispatch

            dispatch = Dispatch(self, order, selectors)
            transcript.id = dispatch.id
            async with aclosing(dispatch.run()) as happenings:
                async for happening in happenings:
                    yield happening

        if wanted is None:
            return transcribed(dispatched(order), transcript, keepers)
        from .schema import fitted

        return transcribed(fitted(wanted, order, run=dispatched, keep=self.remember), transcript, keepers)

    def _logger(self, place: Place | None, surface: str) -> Keep:
        from .state.conversations import Place

        where = place or Place(surface=surface)

        def keep(entry: Entry) -> None:
            self.log.append(entry, where)

        return keep

    def run_alone(self, leaf: Leaf, prompt: Any, **how: Any) -> AsyncGenerator[Happening, None]:
        """As ``run``, of one leaf of a plan and nobody else. It is asked though it sleeps, unless its vendor stated for
        how long. The keywords are the fields of ``dispatch.Order``."""
        from .dispatch import Dispatch, Order

        plan = msgspec.structs.replace(probe.alone(leaf), last_resort="guessed")
        selectors = tuple(self._selector(plan, index) for index in range(len(plan.groups)))
        order = Order(request=self.request(prompt), plan=plan, config=self.config, failover=False, **how)
        return Dispatch(self, order, selectors).run()

    def try_out(self, target: str, prompt: Any, *, timeout: float, surface: str = "python") -> Answer:
        """One question to one concrete target, though it sleeps, unless its vendor stated for how long; also with a key
        that was refused. What comes of it counts for its health; nothing is kept in the log. Raises
        ``RoutekitError``."""
        from .answer import gathered

        how: dict[str, Any] = {"failover": False, "live": False, "testing": True, "log": False}
        return self.background.call(gathered(self.run(prompt, model=target, timeout=timeout, surface=surface, **how)))

    def alongside(self, plan: Plan, serving: Leaf) -> None:
        """While ``serving`` answers: start the probe of one sleeping target that is due for one, if it costs nobody
        anything: its key is in hand, and its SDK loaded or this process long-lived. Never waits."""
        if len(plan.leaves) < 2:
            return
        values = self.store.peek([leaf.target_key for leaf in plan.leaves])
        ready = [leaf for leaf in probe.due(self.config, plan, values, self.now()) if self._may_probe(leaf, serving)]
        if ready:
            import asyncio

            task = asyncio.get_running_loop().create_task(self._probe(ready[0]))
            self._probes.add(task)
            task.add_done_callback(self._probes.discard)

    def _may_probe(self, leaf: Leaf, serving: Leaf) -> bool:
        provider, other = self.config.providers[leaf.provider], self.config.providers[serving.provider]
        in_hand = provider.credential in self._secrets or provider.credential.partition(":")[0] in ("env", "none")
        return in_hand and (self.long_lived or provider.api == other.api)

    async def _probe(self, leaf: Leaf) -> None:
        from contextlib import aclosing

        from .dispatch import Dispatch, Order

        plan, config = probe.alone(leaf), self.config
        selectors = tuple(self._selector(plan, index) for index in range(len(plan.groups)))
        request = probe.question(config, leaf)
        how: dict[str, Any] = {"live": False, "failover": False, "probe": True, "surface": "probe"}
        order = Order(request=request, plan=plan, config=config, **how)
        try:
            async with aclosing(Dispatch(self, order, selectors).run()) as steps:
                async for _ in steps:
                    pass
        except RoutekitError:
            # Its record says how it went; nobody waits for it.
            return

    async def end_probes(self, patience: float) -> None:
        """Let probes under way come to their verdict, at most ``patience`` seconds; then they are cancelled."""
        import asyncio

        under_way = list(self._probes)
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=patience)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def request(
        self,
        prompt: Any,
        *,
        system: str | None = None,
        options: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        tool_choice: Any = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Request:
        return Request(
            messages=messages(prompt),
            system=system if system is not None else self.config.defaults.system,
            options=dict(options or {}),
            tools=tuple(tools),
            tool_choice=tool_choice,
            schema=schema,
        )

    async def aask(self, prompt: Any, **how: Unpack[How]) -> Answer:
        """One whole answer. ``prompt`` is text, or messages in the OpenAI chat shape; the keywords are in ``keywords``.
        With ``schema`` the answer's ``data`` is checked, and an answer that does not fit is asked for once more. Raises
        ``RoutekitError``."""
        from .answer import gathered

        asked: dict[str, Any] = {**how, "live": False}
        wanted = asked["schema"] = _shape(how["schema"]) if how.get("schema") is not None else None
        return await gathered(self.run(prompt, **asked), wanted=wanted)

    def ask(self, prompt: Any, **how: Unpack[How]) -> Answer:
        """As ``aask``, blocking; also inside a running event loop, and from any thread."""
        return self.background.call(self.aask(prompt, **how))

    def astream(self, prompt: Any, **how: Unpack[How]) -> AsyncGenerator[Delta, None]:
        """The answer's pieces as they come. Leaving the loop early closes the upstream once the generator is closed."""
        return pieces(self.run(prompt, live=True, **how))

    def stream(self, prompt: Any, **how: Unpack[How]) -> Iterator[Delta]:
        """As ``astream``, blocking. Closing the iterator, or leaving the loop that holds the only one, closes the
        upstream."""
        return self.blocking(self.astream(prompt, **how))

    def blocking(self, source: AsyncGenerator[Delta, None]) -> Iterator[Delta]:
        """An asynchronous iterator as a plain one, played on the background loop."""
        background = self.background

        async def step() -> Delta | None:
            return await anext(source, None)

        try:
            while (delta := background.call(step())) is not None:
                yield delta
        finally:
            # Where an interrupted step still cleans up, the end of the iterator comes with its end.
            with suppress(RuntimeError):
                background.finish(source.aclose())

    @property
    def background(self) -> Background:
        """The loop that blocking calls run on."""
        with self._opening:
            if self._background is None:
                from .loop import Background

                self._background = Background()
            return self._background

    # --- looking ------------------------------------------------------------------------------------------------------

    def preview(self, model: str | None = None, *, only: str | None = None) -> GroupNode:
        """Who would be tried now, and why not the others. Reads the memory, moves and writes nothing, calls nobody."""
        self.refresh()
        plan, selectors = self._planned(self.default_model() if model is None else model)
        self._check_only(plan, only)
        now = self.now()
        values = self.store.peek(plan.keys())
        walk = judging.Walk(
            id="preview",
            draws=(0.5,) * len(plan.groups),
            given_up=heart.others_than(plan, only),
            blocked=self.blocked(plan),
        )
        outcome, _ = heart.decide(plan, selectors, values, walk=walk, now=now)
        chosen = outcome.leaf if isinstance(outcome, heart.Choice) else None
        view = judging.View(values, now)
        judged = [judging.judge(leaf, view, walk, now) for leaf in plan.leaves]
        chain = heart.chain_to(plan, chosen) if chosen is not None else []
        path = {group.index for group, _ in chain}
        seen = {leaf.credential: self._known_of(leaf.credential) for leaf in plan.leaves}

        def node(branch: Branch) -> GroupNode | LeafView:
            if branch.kind == "group":
                group = plan.groups[branch.index]
                return GroupNode(
                    group=group.label,
                    algorithm=group.algorithm,
                    children=tuple(node(child) for child in group.children),
                    serves=group.index in path,
                )
            leaf, verdict = plan.leaves[branch.index], judged[branch.index]
            return LeafView(
                target=leaf.label,
                ready=verdict.ready,
                reason=verdict.reason,
                until=verdict.until,
                said=verdict.said,
                demoted=verdict.demoted,
                serves=branch.index == chosen,
                credential=seen[leaf.credential],
            )

        top = node(Branch(kind="group", index=0, label=plan.root.label))
        assert isinstance(top, GroupNode)
        return top

    def _known_of(self, credential: str) -> str:
        """What is known of a key without touching it: ``present``, ``absent`` …, or empty."""
        kind, _, name = credential.partition(":")
        if kind == "none":
            return "no key needed"
        if kind == "env":
            return f"key in {name}" if self.environ.get(name, "").strip() else f"{name} is not set"
        memory = self.seen(credential)
        return f"key {KEY_STATES.get(memory.state, memory.state)}" if memory else "key not looked at yet"

    def health(self) -> list[Sleeper]:
        """Everything remembered of targets and credentials. A read: nothing changes by looking."""
        now = self.now()
        rows = []
        for kind in ("target", "credential"):
            for key, raw in sorted(self.store.scan(f"{kind}:").items()):
                standing, name = judging.read_standing(raw), key.partition(":")[2]
                row = _sleeper(name, kind, standing, now)
                if kind == "credential" and row.cause == "auth" and row.until and self._replaced(name, standing):
                    # The next question asks with the new key.
                    row = msgspec.structs.replace(row, state="key changed", until=None)
                rows.append(row)
        return rows

    def reset_health(self, name: str | None = None) -> list[str]:
        """End the windows of one target or credential by hand, or of all (``None``). A provider's name stands for its
        credential and all its targets, a target's for its credential too. Returns what was reset. Raises ``UsageError``
        for a name about which nothing is remembered."""
        keys = [key for kind in ("target", "credential") for key in self.store.scan(f"{kind}:")]
        wanted = keys if name is None else [key for key in keys if self._meant_by(name, key)]
        if not wanted and name is not None:
            raise UsageError(f"nothing is remembered of '{name}'", hints=["routekit health list"])
        self.store.transact(wanted, lambda values: (None, dict.fromkeys(values)), patience=5.0)
        return [key.partition(":")[2] for key in wanted]

    def _meant_by(self, name: str, key: str) -> bool:
        kind, _, rest = key.partition(":")
        if rest == name:
            return True
        try:
            provider = self.config.providers.get(name.partition("/")[0])
        except ConfigError:
            # What is remembered can be forgotten without a configuration.
            return False
        if provider is None:
            return False
        return rest == provider.credential if kind == "credential" else rest.startswith(f"{name}/")

    def budgets(self) -> list[BudgetLine]:
        """Every limit of every budget configured, with what is spent and reserved of it now. A read."""
        stored = self.store.scan(budget.PREFIX)
        books = budget.Books(stored, self.now())
        return [_budget_line(limit, books.ledger(limit), self.now()) for limit in budget.limits(self._budgeted(stored))]

    def _budgeted(self, stored: Iterable[str]) -> tuple[tuple[str, Budget], ...]:
        """(scope, budget) of providers, of targets, of routes. A glob's targets are those that have been asked."""
        config, catalogs = self.config, self.catalogs()
        found: list[tuple[str, Budget | None]] = []
        for provider in config.providers.values():
            found.append((f"provider:{provider.id}", provider.budget))
            place = f"target:{provider.id}/"
            asked = [key.rpartition("|")[0].removeprefix(budget.PREFIX) for key in stored]
            names = [scope.removeprefix(place) for scope in asked if scope.startswith(place)]
            names += [*provider.model_info, *catalogs[provider.id].models]
            for name in dict.fromkeys(name for name in names if "*" not in name):
                found.append((place + name, model_info(provider, catalogs[provider.id], name).budget))
        found += [(f"route:{route.id}", route.budget) for route in config.routes.values()]
        return tuple((scope, said) for scope, said in found if said is not None)

    def budget_scopes(self, name: str) -> list[str]:
        """The scopes a name means: the scope itself, or the provider, target or route of that id. Raises ``UsageError``
        for a name no budget has."""
        scopes = list(dict.fromkeys(scope for scope, _ in self._budgeted(self.store.scan(budget.PREFIX))))
        found = [scope for scope in scopes if name in (scope, scope.partition(":")[2])]
        if not found:
            known = f" (budgets: {', '.join(scopes)})" if scopes else ""
            raise UsageError(f"nothing named '{name}' has a budget{known}", hints=["routekit budget list"])
        return found

    def reset_budgets(self, name: str | None = None) -> list[str]:
        """Forget what was spent and reserved of one budget, or of all (``None``). Returns the scopes. Raises
        ``UsageError`` for a name no budget has."""
        wanted = None if name is None else self.budget_scopes(name)
        keys = [key for key in self.store.scan(budget.PREFIX) if wanted is None or _scope_of(key) in wanted]
        self.store.transact(keys, lambda values: (None, dict.fromkeys(values)), patience=5.0)
        return list(dict.fromkeys(map(_scope_of, keys))) if wanted is None else wanted

    def why(self, id: str | None = None) -> RequestRecord:
        """The record of the last request, or of that one (a unique beginning of its id will do)."""
        # Probes are nobody's question: only their own ids name them.
        recent = self.store.records(id=id, limit=1 if id else 50)
        found = recent if id else [row for row in recent if row.get("surface") != "probe"][:1]
        if not found:
            said = f"no request {id} is remembered" if id else "nothing has been asked yet"
            raise UsageError(said, hints=["routekit why"] if id else ["routekit ask 'your question'"])
        if len(found) > 1:
            raise UsageError(f"several requests begin with {id}: {', '.join(row['id'] for row in found[:5])} …")
        return from_document(found[0])

    def models(self) -> list[str]:
        """Every reference that can be asked for by name: routes, aliases, synthetic models, catalog models."""
        config = self.refresh()
        found = [*config.routes, *config.aliases]
        catalogs = self.catalogs()
        for name in (*config.synthetic_providers, *config.providers):
            found += [f"{name}/{model}" for model in named_models(config, catalogs, name)]
        return found

    def set_aside(self, error: RoutekitError) -> RoutekitError:
        """The same error with every secret this router has read taken out of its words."""
        error.message = self.clean(error.message)
        error.details = tuple(self.clean(detail) for detail in error.details)
        error.args = (error.message,)
        return error


def _live(config: Config, since: float) -> Live:
    return Live(digest=config.digest, loaded_at=since, files=config.files, mode=config.mode)


def _nearest(name: str, known: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=NEAR)
    return f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"


def _scope_of(key: str) -> str:
    return key.removeprefix(budget.PREFIX).rpartition("|")[0]


def _budget_line(limit: budget.Limit, ledger: budget.Ledger, now: float) -> BudgetLine:
    unit = limit.unit
    gone, taken = budget.spent(ledger, unit), budget.reserved(ledger, unit)
    frees = budget.frees(ledger, limit.length, unit=unit, wanted=1)
    return BudgetLine(
        scope=limit.scope,
        window=limit.window,
        unit=unit,
        spent=gone,
        reserved=taken,
        limit=limit.limit,
        estimated=budget.spent(ledger, "estimated") if unit == "tokens" else 0,
        frees_s=max(0.0, frees - now) if frees is not None else None,
    )


def read_seen(raw: bytes | None) -> Seen | None:
    try:
        return msgspec.json.decode(raw, type=Seen) if raw else None
    except msgspec.MsgspecError:
        return None


def _sleeper(key: str, kind: str, standing: Standing, now: float) -> Sleeper:
    window = sleeping(standing, now)
    hold = held(standing, now)
    if window is not None:
        state, until, cause = "asleep", now + window.left(now), window.cause
    elif hold is not None:
        state, until, cause = "on hold", now + hold.left(now), "hold"
    else:
        waiting = standing.window is not None and not standing.window.stated
        state = "half-open" if waiting else "demoted" if demoted(standing, now) else "well"
        until, cause = None, standing.window.cause if standing.window else ""
    return Sleeper(
        key=key,
        kind=kind,
        state=state,
        until=until,
        cause=cause,
        said=standing.window.said if standing.window else "",
        rung=standing.rung,
        last_failure=standing.last_failure,
        last_success=standing.last_success,
    )


async def pieces(happenings: AsyncGenerator[Happening, None]) -> AsyncGenerator[Delta, None]:
    """The answer alone, of everything that happens."""
    from contextlib import aclosing

    async with aclosing(happenings) as steps:
        async for step in steps:
            if isinstance(step, Delta):
                yield step


def _shape(said: Any) -> Shape:
    from .schema import shape

    return shape(said)


def messages(prompt: Any, attachments: Sequence[Any] = ()) -> tuple[Message, ...]:
    """A prompt as messages: text is one user message; a list holds messages in the OpenAI chat shape. ``attachments``
    (see ``attachments.attachment``; parts are taken as they are) go with the last of them. Raises ``UsageError`` for
    anything else, and for no message at all."""
    found = _messages(prompt)
    if not attachments:
        _need_words(found)
        return found
    from .attachments import attachment

    last, parts = found[-1], [one if isinstance(one, Mapping) else attachment(one) for one in attachments]
    text = ({"type": "text", "text": last.content},) if isinstance(last.content, str) else last.content or ()
    return (*found[:-1], msgspec.structs.replace(last, content=(*text, *parts)))


def _need_words(found: Sequence[Message]) -> None:
    last = found[-1]
    if last.role == "user" and isinstance(last.content, str) and not last.content.strip():
        raise UsageError("there is nothing to ask: the prompt is empty")


def _need_amount(name: str, value: Any) -> None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0):
        return
    raise UsageError(f"{name} is a number above 0, not {value!r}"[:200])


def _messages(prompt: Any) -> tuple[Message, ...]:
    if isinstance(prompt, str):
        return (Message(role="user", content=prompt),)
    if isinstance(prompt, Message):
        return (prompt,)
    try:
        found = tuple(row if isinstance(row, Message) else msgspec.convert(row, Message) for row in prompt)
    except (TypeError, msgspec.MsgspecError) as error:
        raise UsageError(f"a prompt is text or a list of chat messages: {error}") from None
    if not found:
        raise UsageError("there is nothing to ask: the prompt has no message")
    return found
