"""The keys of one process: read once, sent only where they may go, and what is remembered of looks at them. It never
says a secret, and chooses no target.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import msgspec

from .core import judge as judging
from .core.config import Provider
from .core.health import Standing, sleeping
from .core.keyref import CredentialRef, is_ref, parse_ref, reference_of
from .core.plan import Plan
from .core.value import DAMAGED, Value
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
    renewing,
    resolve,
    resolve_async,
)
from .errors import CredentialError
from .state import StateStore

#: how long a failed look at a credential is believed by others, in seconds
BELIEVED = {"absent": 300.0, **dict.fromkeys(("locked", "silent", "none", "invalid"), 60.0)}
BELIEVED |= dict.fromkeys(("exposed", "unreadable", "elsewhere"), 60.0)
#: kinds of references that cost nothing to read
CHEAP = ("env:", "file:")
SALT_KEY = "salt"

Writes = dict[str, bytes | None]


class Seen(Value):
    """What the last look at a credential found: a ``CredentialError`` state, or ``present``."""

    state: str
    when: float
    last4: str = ""
    source: str = ""


def read_seen(raw: bytes | None) -> Seen | None:
    try:
        return msgspec.json.decode(raw, type=Seen) if raw else None
    except DAMAGED:
        return None


class Keychain:
    """``store`` opens the memory; ``begun`` tells whether there is one yet. ``interactive``: a person may be asked to
    unlock a keyring."""

    def __init__(
        self,
        place: KeyPlace,
        *,
        environ: Mapping[str, str],
        store: Callable[[], StateStore],
        begun: Callable[[], bool],
        redactor: Redactor,
        now: Callable[[], float],
    ) -> None:
        self.place, self.interactive = place, False
        self._environ, self._store, self._begun = environ, store, begun
        self._redactor, self._now = redactor, now
        self._secrets: dict[str, Secret | None] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

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
            self._saw(provider.credential, Seen(state=error.state, when=self._now()))
            raise
        if secret is not None:
            seen = Seen(state="present", when=self._now(), last4=secret.last4, source=secret.source)
            self._saw(provider.credential, seen)
        self._secrets[provider.credential] = secret
        self._check_host(provider, ref, secret)
        return secret

    async def resolve(self, ref: CredentialRef, *, variable: str | None) -> Secret | None:
        """The secret a reference names, known to the redactor from then on. Raises ``CredentialError``."""
        secret = await resolve_async(
            ref, variable=variable, environ=self._environ, interactive=self.interactive, place=self.place
        )
        if secret is not None:
            self._redactor.add(secret)
        return secret

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

    def _check_host(self, provider: Provider, ref: CredentialRef, secret: Secret | None = None) -> None:
        """A stored key goes only to the hosts it was stored for, by the ledger, or by what stands beside the key."""
        host = host_of(provider.base_url)
        why = barred(ref, host, place=self.place, environ=self._environ)
        if not why and secret is not None and secret.hosts is not None:
            why = not_for(ref.name, secret.hosts, host)
        if why:
            entry = own_entry(ref, self.place, self._environ) or ref.name
            raise CredentialError(
                f"{why}; {provider.id} would send it to {host}",
                state="elsewhere",
                hints=[self.new_key(f"keyring:{entry}")],
            )

    def in_hand(self) -> frozenset[str]:
        """The credentials that have been read."""
        return frozenset(self._secrets)

    def keep(self, before: Iterable[Provider], after: Iterable[Provider]) -> None:
        """The providers have changed: a key that was read is good for those who still name it, and read it from the
        same place."""
        sources = {(row.credential, row.key_variable) for row in before}
        kept = {row.credential for row in after if (row.credential, row.key_variable) in sources}
        self._secrets = {name: secret for name, secret in self._secrets.items() if name in kept}

    def clean(self, text: str) -> str:
        """A text with every secret that was read taken out of it."""
        return self._redactor.clean(text)

    # --- what looks have found ----------------------------------------------------------------------------------------

    def _saw(self, credential: str, seen: Seen) -> None:
        key = f"seen:{credential}"

        def step(values: Mapping[str, bytes]) -> tuple[None, Writes]:
            old = read_seen(values.get(key))
            fresh = old is not None and old.state == seen.state == "present" and 0 <= seen.when - old.when < 60
            return None, {} if fresh else {key: msgspec.json.encode(seen)}

        self._store().transact([key], step)

    def seen(self, credential: str) -> Seen | None:
        """What the last look at a credential found; ``None`` where nobody has looked."""
        key = f"seen:{credential}"
        return read_seen(self._store().peek([key]).get(key))

    def known(self, credential: str) -> str:
        """In words, what is known of a key without touching it."""
        kind, _, name = credential.partition(":")
        if kind == "none":
            return "no key needed"
        if kind == "env":
            return f"key in {name}" if self._environ.get(name, "").strip() else f"{name} is not set"
        memory = self.seen(credential)
        return f"key {KEY_STATES.get(memory.state, memory.state)}" if memory else "key not looked at yet"

    @property
    def keyring_there(self) -> bool:
        """Whether a keyring can be counted on: by what the last look at one found, and by what the session has."""
        if not keyring_likely(self._environ):
            return False
        last = max(self.keyring_looks(), key=lambda look: look.when, default=None)
        return last is None or last.state != "none"

    def keyring_looks(self) -> list[Seen]:
        """What looks at keys in the keyring have found. No memory is made by asking for it."""
        if not self._begun():
            return []
        rows = self._store().scan("seen:").items()
        looks = [read_seen(raw) for key, raw in rows if key.startswith(("seen:keyring:", "seen:auto:"))]
        return [look for look in looks if look is not None]

    def blocked(self, plan: Plan) -> Mapping[str, str]:
        """Credentials that a look just now, or a fresh memory of one, says cannot be had: credential → reason."""
        if len(plan.leaves) < 2:
            return {}
        credentials = dict.fromkeys(leaf.credential for leaf in plan.leaves)
        seen = self._store().peek([f"seen:{credential}" for credential in credentials])
        now = self._now()
        found: dict[str, str] = {}
        for credential in credentials:
            kind, _, name = credential.partition(":")
            memory = read_seen(seen.get(f"seen:{credential}"))
            if kind == "env" and not self._environ.get(name, "").strip():
                found[credential] = f"credential absent ({name} is not set)"
            elif kind != "none" and memory and 0 <= now - memory.when < BELIEVED.get(memory.state, 0.0):
                found[credential] = f"credential {memory.state}"
        return found

    # --- keys that were refused, and those that take their place ------------------------------------------------------

    def new_key(self, credential: str) -> str:
        """The command that puts a new key in the place of this one, on this machine; empty where none is needed."""
        ref = reference_of(credential)
        return renewing(ref, environ=self._environ, place=self.place, keyring=self.keyring_there)

    def refused(self) -> dict[str, float]:
        """The credentials whose vendor has refused them, and since when. One that was changed since is none of them;
        only variables and files are read for that."""
        found = {}
        for key, raw in self._store().scan("credential:").items():
            standing, credential = judging.read_standing(raw), key.partition(":")[2]
            window = sleeping(standing, self._now())
            if window is not None and window.cause == "auth" and not self.replaced(credential, standing):
                found[credential] = window.start
        return found

    def still_refused(self, credential: str, secret: Secret) -> float | None:
        """Since when this very key is refused by its vendor; ``None`` where it is not known to be."""
        key = f"credential:{credential}"
        standing = judging.read_standing(self._store().peek([key]).get(key, b""))
        window = sleeping(standing, self._now())
        if window is None or window.cause != "auth":
            return None
        return window.start if standing.key_tag in (None, self.key_tag(secret)) else None

    def replaced(self, credential: str, standing: Standing) -> bool:
        """Whether another key stands now where the refused one stood, as far as that is cheap to tell."""
        if standing.key_tag is None or not credential.startswith(CHEAP):
            return False
        try:
            secret = resolve(reference_of(credential), variable=None, environ=self._environ, place=self.place)
        except CredentialError:
            return False
        return self.key_tag(secret) != standing.key_tag

    def key_changed(self, entry: str, seen: Seen | None) -> None:
        """A stored key was replaced or removed: what was seen of the old one is forgotten (``seen`` takes its place),
        and a window it earned by being refused ends, so that the new one counts at once."""
        credentials = [f"{kind}:{entry}" for kind in ("keyring", "auto")]
        keys = [f"{what}:{credential}" for what in ("seen", "credential") for credential in credentials]

        def step(values: Mapping[str, bytes]) -> tuple[None, Writes]:
            fresh = msgspec.json.encode(seen) if seen is not None else None
            writes: Writes = {f"seen:{credential}": fresh for credential in credentials}
            for credential in credentials:
                standing = judging.read_standing(values.get(f"credential:{credential}", b""))
                if standing.window is not None and standing.window.cause == "auth":
                    open_again = msgspec.structs.replace(standing, window=None, key_tag=None)
                    writes[f"credential:{credential}"] = msgspec.json.encode(open_again)
            return None, writes

        self._store().transact(keys, step, patience=5.0)

    async def tags(self, plan: Plan, providers: Mapping[str, Provider], *, deep: bool = False) -> Mapping[str, str]:
        """The present tags of credentials that sleep because their key was refused: a changed key wakes them at once.
        Only variables and files are read, unless ``deep``: then every source is."""
        keys = {leaf.credential_key: leaf.provider for leaf in plan.leaves}
        found: dict[str, str] = {}
        for key, raw in self._store().peek(keys).items():
            standing = judging.read_standing(raw)
            provider = providers.get(keys[key])
            if provider is None or standing.key_tag is None or sleeping(standing, self._now()) is None:
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

    def key_tag(self, secret: Secret | None) -> str | None:
        """What tells one key from another without saying either; ``None`` for no key."""
        return key_tag(secret, self._salt()) if secret is not None else None

    def _salt(self) -> bytes:
        fresh = os.urandom(16).hex()

        def step(values: Mapping[str, bytes]) -> tuple[str, Writes]:
            raw = values.get(SALT_KEY)
            if raw:
                # Of a damaged one the marks made with it are lost, nothing else.
                with suppress(*DAMAGED, ValueError):
                    return bytes.fromhex(msgspec.json.decode(raw, type=str)).hex(), {}
            return fresh, {SALT_KEY: msgspec.json.encode(fresh)}

        return bytes.fromhex(self._store().transact([SALT_KEY], step))
