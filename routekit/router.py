"""The one door: configuration, memory, vendors and credentials behind ``ask``, ``preview``, ``health`` and ``why``.

Every surface holds a ``Router`` and nothing below it. It puts the rooms together and decides nothing itself.
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

from . import asking, planning, probe, remembered, vendors, views
from .asking import messages, pieces
from .config import file as config_file
from .config.paths import Paths, find_paths
from .config.sources import Merged
from .config.watch import Live
from .core.chat import Delta, Message, Request
from .core.config import Budget, Catalog, Config, Provider
from .core.keyref import CredentialRef
from .core.plan import Leaf, Plan
from .core.record import RequestRecord, document
from .core.select import Algorithm, Factory, Registry, built_in
from .credentials import KeyPlace, Redactor, Secret
from .errors import RoutekitError
from .in_force import InForce
from .keychain import Keychain, Seen
from .plugins import Algorithms
from .state import StateStore, open_store
from .vendors.catalog import Catalogs, Listing
from .views import BudgetLine, GroupNode, Sleeper

if TYPE_CHECKING:
    from typing import Unpack

    from .answer import Answer
    from .dispatch import Happening
    from .keywords import How
    from .loop import Background
    from .state.conversations import ConversationLog, Place
    from .transcript import Keep

LOG_SWITCH = "log:switch"
OFF = b'"off"'


class Router:
    """Everything a surface needs. Cheap to build: files, stores, SDKs and keyring are opened at their first use.

    ``now`` and ``random`` are the clock (wall-clock seconds) and the draw in [0, 1); ``speakers`` replaces the vendor
    of an API; ``state`` a store to use instead of the one in the user's state directory; ``registry`` the selections
    it begins with, instead of routekit's own; ``redactor`` what takes secrets out of texts."""

    #: what its keys hang on
    keychain: type[Keychain] = Keychain

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
        #: a REPL, a kernel, a server: it may load an SDK only to look after a sleeping target
        self.long_lived = False
        self.registry = Algorithms(registry or built_in())
        for name, factory in (algorithms or {}).items():
            self.registry.register(name, factory)
        self._store, self._log = state, log
        self._speakers: dict[str, vendors.Vendor] = dict(speakers or {})
        self._now, self._draw = now, draw
        self.planner = planning.Planner(self.registry, Catalogs(Path(self.paths.catalog)))
        self.in_force = self._in_force(config)
        self.keys = self._keychain(redactor or Redactor())
        self._probes = probe.Probes(self, select=self.planner.selectors, may=self._may_probe)
        self._background: Background | None = None
        self._opening = threading.Lock()
        self._last: RequestRecord | None = None

    def _in_force(self, config: Config | None) -> InForce:
        return InForce(
            self.paths,
            environ=self.environ,
            profile=self.profile,
            patches=self.patches,
            selections=self.registry,
            replaced=self._replaced,
            now=self.now,
            config=config,
        )

    def _keychain(self, redactor: Redactor) -> Keychain:
        return self.keychain(
            self.key_place,
            environ=self.environ,
            store=lambda: self.store,
            begun=lambda: self._store is not None or os.path.lexists(self.paths.state),
            redactor=redactor,
            now=self.now,
        )

    def _replaced(self, before: Config, fresh: Config) -> None:
        self.keys.keep(before.providers.values(), fresh.providers.values())
        if fresh.digest != before.digest:
            self.planner.forget()

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
        router.in_force.give(config_file.from_text(text, setting=router.setting(allow_scripted=True)))
        if state is None:
            router.planner.kept = Catalogs(None)
        return router

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
        # One folder that cannot be written is one trouble: where the memory has named it with the same words, the log
        # need not. Whatever else the memory had to say is another matter.
        _, named, why = text.rpartition(f"{self.paths.conversations} ")
        same = f"{self.paths.state} {why}"
        if not any(said == text or (named and said.startswith(same)) for said in self.store.warnings):
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
    def background(self) -> Background:
        """The loop that blocking calls run on."""
        with self._opening:
            if self._background is None:
                from .loop import Background

                self._background = Background()
            return self._background

    def close(self) -> None:
        """Close what was opened. The router must not be used afterwards."""
        if self._background is not None:
            self._background.close()
        if self._log is not None:
            self._log.close()
        if self._store is not None:
            self._store.close()

    # --- the configuration (``in_force``) -----------------------------------------------------------------------------

    def setting(self, *, allow_scripted: bool = False) -> config_file.Setting:
        """What a config of this router may name: its vendors and its selections."""
        return self.in_force.setting(allow_scripted=allow_scripted)

    @property
    def config(self) -> Config:
        """The configuration in force, read at the first use; ``refresh`` reads it again where its files changed."""
        return self.in_force.config

    def refresh(self) -> Config:
        """As ``config``, but read again if one of its files changed since: what every request begins with. Requests
        under way keep what they began with."""
        return self.in_force.refresh()

    def live(self) -> Live:
        """Which version of the configuration is in force since when, and what is wrong with a newer one that is not."""
        return self.in_force.live()

    def take_notices(self) -> list[str]:
        """What happened to the configuration since this was last asked; each is given once."""
        return self.in_force.take_notices()

    def inspect(self, *, stored: Collection[str] | None = None) -> config_file.Reading:
        """The configuration with its problems as values, broken or not."""
        return self.in_force.inspect(stored=stored)

    def files(self) -> list[str]:
        """The files in force, outermost last."""
        return self.in_force.files()

    def overlaid(self) -> Merged:
        """What the files in force say, not judged."""
        return self.in_force.overlaid()

    @property
    def unconfigured(self) -> bool:
        """Whether the environment alone is the configuration."""
        return self.in_force.unconfigured

    # --- plans (``planning``) -----------------------------------------------------------------------------------------

    def catalog(self, provider: Provider) -> Catalog:
        """What a provider offers: as configured, else as its vendor listed it at the last ``fetch_models``."""
        return self.planner.kept.of(provider)

    def catalogs(self, config: Config | None = None) -> dict[str, Catalog]:
        return self.planner.catalogs(config or self.config)

    async def fetch_models(self, provider: Provider) -> Listing:
        """Ask a provider's vendor what it offers, and keep that in place of what was kept. Raises ``VendorFault``,
        ``CredentialError``, ``StateError``; what was kept then stays, and nobody's health is touched."""
        from .vendors.listing import fetch

        secret = await self.secret(provider)
        listing = await fetch(provider, secret=secret, headers=await self.headers(provider))
        self.planner.kept.keep(provider, listing, now=self.now())
        self.planner.forget()
        return listing

    def fetch_prices(self) -> str:
        """Keep the table of windows and prices that the installed ``genai-prices`` gives, where it is newer than the
        one at hand. Returns its version; empty where it was not newer."""
        import datetime

        from .vendors.prices import table

        fresh = table(datetime.datetime.fromtimestamp(self.now(), datetime.UTC).date())
        if not self.planner.kept.keep_table(fresh):
            return ""
        self.planner.forget()
        return f"{fresh.source} {fresh.version}"

    def default_model(self) -> str:
        """What is asked when nothing is named. Raises ``UsageError`` where nothing says."""
        return planning.default_model(self.config)

    def plan(self, model: str | None = None) -> Plan:
        """The plan of a reference. Raises ``UsageError`` for what does not exist."""
        self.refresh()
        return self._planned(model)[0]

    def _planned(self, model: str | None, config: Config | None = None) -> tuple[Plan, tuple[Algorithm, ...]]:
        return self.planner.plan(config or self.config, self.default_model() if model is None else model)

    def models(self) -> list[str]:
        """Every reference that can be asked for by name: routes, aliases, synthetic models, catalog models."""
        return self.planner.models(self.refresh())

    # --- keys (``keychain``) ------------------------------------------------------------------------------------------

    @property
    def interactive(self) -> bool:
        """Whether there is a person to unlock a keyring."""
        return self.keys.interactive

    @interactive.setter
    def interactive(self, there: bool) -> None:
        self.keys.interactive = there

    @property
    def key_place(self) -> KeyPlace:
        return KeyPlace(files=Path(self.paths.state_dir) / "keys", ledger=Path(self.paths.keys))

    async def resolve(self, ref: CredentialRef, *, variable: str | None) -> Secret | None:
        """The secret a reference names, known to the redactor from then on. Raises ``CredentialError``."""
        return await self.keys.resolve(ref, variable=variable)

    def seen(self, credential: str) -> Seen | None:
        """What the last look at a credential found; ``None`` where nobody has looked."""
        return self.keys.seen(credential)

    @property
    def keyring_there(self) -> bool:
        """Whether a keyring can be counted on: by what the last look at one found, and by what the session has."""
        return self.keys.keyring_there

    def keyring_looks(self) -> list[Seen]:
        """What looks at keys in the keyring have found. No memory is made by asking for it."""
        return self.keys.keyring_looks()

    def refused(self) -> dict[str, float]:
        """The credentials whose vendor has refused them, and since when."""
        return self.keys.refused()

    def still_refused(self, credential: str, secret: Secret) -> float | None:
        """Since when this very key is refused by its vendor; ``None`` where it is not known to be."""
        return self.keys.still_refused(credential, secret)

    def key_changed(self, entry: str, seen: Seen | None) -> None:
        """A stored key was replaced or removed; ``seen`` is what is known of the new one."""
        self.keys.key_changed(entry, seen)

    # --- what a dispatch stands on (``dispatch.Engine``) --------------------------------------------------------------

    def vendor(self, api: str) -> vendors.Vendor:
        if api not in self._speakers:
            self._speakers[api] = vendors.vendor_for(api)
        return self._speakers[api]

    async def secret(self, provider: Provider) -> Secret | None:
        """The provider's secret, read once per process. Raises ``CredentialError``; what was found is remembered."""
        return await self.keys.secret(provider)

    async def headers(self, provider: Provider) -> Mapping[str, str]:
        """The provider's extra headers, references among their values resolved."""
        return await self.keys.headers(provider)

    def blocked(self, plan: Plan) -> Mapping[str, str]:
        """Credentials that a look just now, or a fresh memory of one, says cannot be had: credential → reason."""
        return self.keys.blocked(plan)

    def key_tag(self, secret: Secret | None) -> str | None:
        return self.keys.key_tag(secret)

    def new_key(self, credential: str) -> str:
        """The command that puts a new key in the place of this one, on this machine; empty where none is needed."""
        return self.keys.new_key(credential)

    async def tags(self, plan: Plan, *, deep: bool = False) -> Mapping[str, str]:
        """The present tags of credentials that sleep because their key was refused: a changed key wakes them."""
        return await self.keys.tags(plan, self.config.providers, deep=deep)

    def clean(self, text: str) -> str:
        return self.keys.clean(text)

    def set_aside(self, error: RoutekitError) -> RoutekitError:
        """The same error with every secret this router has read taken out of its words."""
        error.message = self.clean(error.message)
        error.details = tuple(self.clean(detail) for detail in error.details)
        error.args = (error.message,)
        return error

    def now(self) -> float:
        return self._now()

    def random(self) -> float:
        return self._draw()

    def new_id(self) -> str:
        """Time first, so that ids sort as requests came; then chance."""
        return f"{int(self.now() * 1000):011x}{os.urandom(4).hex()}"

    def last_record(self) -> RequestRecord | None:
        """The record of the request this router finished last, failed or not."""
        return self._last

    def remember(self, record: RequestRecord) -> None:
        """Keep a finished request's record. Never raises: a store out of order costs a warning, not an answer."""
        self._last = record
        self.store.record(record.id, record.time, document(record))
        remembered.forget_old(self.store, keep=self.config.log.records_keep, now=self.now())

    def alongside(self, plan: Plan, serving: Leaf) -> None:
        """While ``serving`` answers: start the probe of one sleeping target that is due for one, if it costs nobody
        anything: its key is in hand, and its SDK loaded or this process long-lived. Never waits."""
        self._probes.start(plan, serving)

    def _may_probe(self, leaf: Leaf, serving: Leaf) -> bool:
        provider, other = self.config.providers[leaf.provider], self.config.providers[serving.provider]
        at_hand = provider.credential.partition(":")[0] in ("env", "none")
        return (at_hand or provider.credential in self.keys.in_hand()) and (
            self.long_lived or provider.api == other.api
        )

    async def end_probes(self, patience: float) -> None:
        """Let probes under way come to their verdict, at most ``patience`` seconds; then they are cancelled."""
        await self._probes.end(patience)

    # --- asking (``asking``) ------------------------------------------------------------------------------------------

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

        config, plan, selectors = self._chosen(model, key, how=how)
        wanted = asking.shape(schema)
        asked = {name: how.pop(name) for name in ("system", "options", "tools", "tool_choice") if name in how}
        new = messages(prompt, attachments)
        request = self.request((*history, *new), schema=wanted.schema if wanted else None, **asked)
        how["live"] = how.get("live", True) and wanted is None
        keepers = [keep] if keep is not None else []
        surface = how.get("surface", "python")
        if log or (log is None and surface != "python" and self.logging):
            keepers.append(asking.logger(lambda: self.log, place, surface=surface))
            how["conversation"] = how.get("conversation") or self.new_id()
        order = Order(request=request, plan=plan, config=config, **how)
        return asking.told(self, order, selectors, wanted=wanted, new=new, keepers=keepers)

    def _chosen(
        self, model: str | None, key: str | None, *, how: Mapping[str, Any]
    ) -> tuple[Config, Plan, tuple[Algorithm, ...]]:
        """The configuration and the plan of one question. Raises ``UsageError`` for keywords that do not fit them."""
        config = before = self.refresh()
        if key is not None:
            config = planning.with_key(before, key, ledger=Path(self.paths.keys))
        plan, selectors = self._planned(model, config)
        planning.check_only(plan, how.get("only"), before)
        asking.need_amounts(how)
        if key is not None:
            planning.check_key(plan, key, before=before, config=config)
        return config, plan, selectors

    def run_alone(self, leaf: Leaf, prompt: Any, **how: Any) -> AsyncGenerator[Happening, None]:
        """As ``run``, of one leaf of a plan and nobody else. It is asked though it sleeps, unless its vendor stated for
        how long. The keywords are the fields of ``dispatch.Order``."""
        from .dispatch import Dispatch, Order

        plan = msgspec.structs.replace(probe.alone(leaf), last_resort="guessed")
        order = Order(request=self.request(prompt), plan=plan, config=self.config, failover=False, **how)
        return Dispatch(self, order, self.planner.selectors(plan)).run()

    def try_out(self, target: str, prompt: Any, *, timeout: float, surface: str = "python") -> Answer:
        """One question to one concrete target, though it sleeps, unless its vendor stated for how long; also with a key
        that was refused. What comes of it counts for its health; nothing is kept in the log. Raises
        ``RoutekitError``."""
        from .answer import gathered

        how: dict[str, Any] = {"failover": False, "live": False, "testing": True, "log": False}
        return self.background.call(gathered(self.run(prompt, model=target, timeout=timeout, surface=surface, **how)))

    def request(self, prompt: Any, *, system: str | None = None, **more: Any) -> Request:
        """A prompt with all that goes to the vendor beside it (see ``asking.request``)."""
        return asking.request(prompt, system=system if system is not None else self.config.defaults.system, **more)

    async def aask(self, prompt: Any, **how: Unpack[How]) -> Answer:
        """One whole answer. ``prompt`` is text, or messages in the OpenAI chat shape; the keywords are in ``keywords``.
        With ``schema`` the answer's ``data`` is checked, and an answer that does not fit is asked for once more. Raises
        ``RoutekitError``."""
        from .answer import gathered

        wanted = asking.shape(how.get("schema"))
        asked: dict[str, Any] = {**how, "live": False, "schema": wanted}
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

    # --- looking (``views``) ------------------------------------------------------------------------------------------

    def preview(self, model: str | None = None, *, only: str | None = None) -> GroupNode:
        """Who would be tried now, and why not the others. Reads the memory, moves and writes nothing, calls nobody."""
        self.refresh()
        plan, selectors = self._planned(model)
        planning.check_only(plan, only, self.config)
        return views.preview(
            plan,
            selectors,
            self.store.peek(plan.keys()),
            only=only,
            blocked=self.blocked(plan),
            known={leaf.credential: self.keys.known(leaf.credential) for leaf in plan.leaves},
            now=self.now(),
        )

    def health(self) -> list[Sleeper]:
        """Everything remembered of targets and credentials. A read: nothing changes by looking."""
        return remembered.health(self.store, replaced=self.keys.replaced, now=self.now())

    def reset_health(self, name: str | None = None) -> list[str]:
        """End the windows of one target or credential by hand, or of all (``None``). A provider's name stands for its
        credential and all its targets, a target's for its credential too. Returns what was reset. Raises ``UsageError``
        for a name about which nothing is remembered."""
        return remembered.reset_health(self.store, name, lambda: self.config)

    def budgets(self) -> list[BudgetLine]:
        """Every limit of every budget configured, with what is spent and reserved of it now. A read."""
        return remembered.budgets(self.store, self._budgeted, self.now())

    def _budgeted(self, stored: Iterable[str]) -> tuple[tuple[str, Budget], ...]:
        return views.budgeted(self.config, self.catalogs(), stored)

    def budget_scopes(self, name: str) -> list[str]:
        """The scopes a name means: the scope itself, or the provider, target or route of that id. Raises ``UsageError``
        for a name no budget has."""
        return remembered.budget_scopes(self.store, self._budgeted, name)

    def reset_budgets(self, name: str | None = None) -> list[str]:
        """Forget what was spent and reserved of one budget, or of all (``None``). Returns the scopes. Raises
        ``UsageError`` for a name no budget has."""
        return remembered.reset_budgets(self.store, None if name is None else self.budget_scopes(name))

    def why(self, id: str | None = None) -> RequestRecord:
        """The record of the last request, or of that one (a unique beginning of its id will do)."""
        return remembered.why(self.store, id)
