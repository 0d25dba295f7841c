"""``keys``: credentials — stored, removed, listed, checked. Listing touches no keyring and runs no command."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from ..core.config import Config
from ..core.keyref import MASK, CredentialRef, is_ref, looks_like_key, parse_ref
from ..core.value import Value
from ..core.words import KEY_STATES, ago
from ..credentials import (
    KeyStatus,
    Secret,
    barred,
    host_of,
    read_ledger,
    status,
)
from ..credentials import remove as remove_key
from ..credentials import store as store_key
from ..errors import EX_CREDENTIAL, EX_OK, ConfigError, CredentialError, UsageError
from ..keychain import Seen
from ..router import Router
from ..vendors.presets import API_DEFAULTS, PRESETS, Preset
from .report import Context, Report, Table, lines
from .shapes import iso

#: kinds of references whose secret routekit keeps itself
KEPT = ("keyring", "auto")


class Holder(Value):
    """One place in a config that names a credential: a provider's key, or a header's value. ``host`` is where the
    secret would be sent; ``needed`` is False where the provider is switched off."""

    who: str
    provider: str
    ref: CredentialRef
    host: str = ""
    variable: str | None = None
    needed: bool = True
    header: str = ""


def holders(config: Config) -> Iterator[Holder]:
    for provider in config.providers.values():
        host = host_of(provider.base_url) if "://" in provider.base_url else ""
        more: dict[str, Any] = {"provider": provider.id, "host": host, "needed": provider.enabled}
        ref = parse_ref(provider.key, entry=provider.id)
        yield Holder(who=provider.id, ref=ref, variable=provider.key_variable, **more)
        for name, value in provider.headers.items():
            if is_ref(value):
                ref = parse_ref(value, entry=provider.id)
                yield Holder(who=f"{provider.id} {name}", ref=ref, header=name, **more)


# --- listing ----------------------------------------------------------------------------------------------------------


def listing(context: Context, *, json: bool = False) -> Report:
    router = context.router
    config = _config_in_force(router)
    found = [(holder, known(router, holder)) for holder in holders(config)]
    used = {holder.ref.name for holder, _ in found if holder.ref.kind in KEPT}
    refused = router.refused()
    rows = [_row(holder, key, router, refused=refused) for holder, key in found]
    rows += [
        (name, f"{record.where}: stored, no provider uses it", f"…{record.last4}", f"try: routekit keys rm {name}")
        for name, record in read_ledger(router.key_place.ledger).items()
        if name not in used
    ]
    table = Table(
        columns=("", "", "", ""),
        rows=tuple(rows),
        empty="No keys: there is no config file, and no vendor's key in the environment.",
    )
    hints = () if rows else ("routekit init", router.new_key("keyring:openai"))
    data = [_data(holder, key, router, refused=refused) for holder, key in found]
    return Report(blocks=(table,), data=data, hints=hints)


def _config_in_force(router: Router) -> Config:
    """The config; an empty one on a machine where nothing has been set up yet."""
    try:
        return router.config
    except ConfigError:
        if router.unconfigured:
            return Config()
        raise


def known(router: Router, holder: Holder) -> KeyStatus:
    """What can be said of a key without looking: variables and files, what was stored, what the last look found."""
    found = status(holder.ref, variable=holder.variable, environ=router.environ, place=router.key_place)
    memory = router.seen(str(holder.ref)) if holder.ref.kind in (*KEPT, "cmd") else None
    if holder.ref.kind in KEPT and found.state == "unknown":
        found = structs.replace(found, hint=router.new_key(str(holder.ref)))
    if memory is None or (found.state == "present" and found.source.startswith("env")):
        return found
    if memory.state == "present":
        return KeyStatus(source=memory.source, state="present", last4=memory.last4)
    hint = f"routekit keys check {holder.provider}"
    if memory.state in ("absent", "none"):
        hint = found.hint if holder.ref.kind == "cmd" else router.new_key(str(holder.ref))
    return KeyStatus(source=found.source, state=memory.state, hint=hint)


def _row(holder: Holder, key: KeyStatus, router: Router, *, refused: Mapping[str, float]) -> tuple[str, ...]:
    if holder.ref.kind == "none":
        return (holder.who, "no key needed", "", "")
    if key.state == "present":
        shown = f"…{key.last4}" if key.last4 else "present"
        if str(holder.ref) in refused:
            since = ago(refused[str(holder.ref)], router.now())
            what = f"{shown}, {KEY_STATES['refused']} {since}"
            return (holder.who, key.source, what, f"try: {router.new_key(str(holder.ref))}")
        return (holder.who, key.source, shown, "")
    if key.state == "unknown" and holder.ref.kind == "cmd":
        return (holder.who, key.source, "run only when needed", f"try: routekit keys check {holder.provider}")
    what = KEY_STATES[key.state]
    return (holder.who, key.source, what + _ago(holder, router), f"try: {key.hint}{_unused_variable(holder, router)}")


def _ago(holder: Holder, router: Router) -> str:
    memory = router.seen(str(holder.ref)) if holder.ref.kind in (*KEPT, "cmd") else None
    return f" ({ago(memory.when, router.now())})" if memory else ""


def _unused_variable(holder: Holder, router: Router) -> str:
    """A person who has set the usual variable should not have to guess why it does not count."""
    name = holder.variable or ""
    if holder.ref.kind != "keyring" or not router.environ.get(name, "").strip():
        return ""
    return f'   ({name} is set, and counts only with key = "auto" or "env:{name}")'


def _data(holder: Holder, key: KeyStatus, router: Router, *, refused: Container[str]) -> dict[str, Any]:
    memory = router.seen(str(holder.ref)) if holder.ref.kind in (*KEPT, "cmd") else None
    return {
        "provider": holder.provider,
        "header": holder.header or None,
        "credential": str(holder.ref),
        "source": key.source,
        "state": "refused" if str(holder.ref) in refused else key.state,
        "last4": key.last4 or None,
        "seen": iso(memory.when) if memory else None,
        "try": (router.new_key(str(holder.ref)) if str(holder.ref) in refused else key.hint) or None,
    }


# --- storing and removing ---------------------------------------------------------------------------------------------


def store(context: Context, *, id: str, store: str = "keyring") -> Report:
    """Typed without echo or piped in; read back; counts at once, also for a vendor that had refused the old key."""
    router = context.router
    _refuse_key_as_name(id)
    entry, hosts = _place(router, id)
    secret = Secret(context.io.secret(f"Key for {id}"), "the terminal" if context.io.interactive else "standard input")
    kept = store_key(
        entry,
        secret,
        place=router.key_place,
        now=router.now(),
        where="file" if store == "file" else "keyring",
        hosts=hosts,
    )
    seen = Seen(state="present", when=router.now(), last4=kept.last4, source=kept.source)
    router.key_changed(entry, seen)
    shown = f" …{kept.last4}" if kept.last4 else ""
    told = [f"stored the key of {entry}{shown} in: {kept.source}"]
    told += [f"it will be sent to {' and '.join(hosts)} only"] if hosts else []
    return Report(blocks=lines(*told).blocks, notes=(kept.note,) if kept.note else ())


def remove(context: Context, *, id: str) -> Report:
    router = context.router
    _refuse_key_as_name(id)
    stored = read_ledger(router.key_place.ledger)
    entry = id if id in stored else _place(router, id, also=stored)[0]
    try:
        where = remove_key(entry, place=router.key_place)
    except CredentialError as error:
        # Its own hints are for those who want to store one.
        error.hints = error.hints if error.state == "locked" else ("routekit keys list",)
        raise
    router.key_changed(entry, None)
    return lines(f"removed the key of {entry} from: {where}")


def _refuse_key_as_name(id: str) -> None:
    if looks_like_key(id):
        raise UsageError(
            f"'{MASK}' looks like the key itself: name the provider, then paste the key when asked; "
            "the key is now in your shell's history, so better replace it",
            hints=["routekit keys set PROVIDER"],
        )


def _place(router: Router, id: str, *, also: Iterable[str] = ()) -> tuple[str, tuple[str, ...]]:
    """The keyring entry an id stands for, and the hosts its key may be sent to. Works without a config (the known
    vendors) and with a broken one (its entries, as far as they can be read): both may be waiting for this very key."""
    found = list(_all_holders(router))
    named = [holder for holder in found if not holder.header and holder.provider == id]
    if named and named[0].ref.kind not in KEPT:
        raise _elsewhere(named[0])
    entry = named[0].ref.name if named else id
    users = [holder for holder in found if holder.ref.kind in KEPT and holder.ref.name == entry]
    if not users:
        raise _unknown(id, [*_names(found), *also])
    return entry, tuple(dict.fromkeys(holder.host for holder in users if holder.host))


def names(router: Router) -> list[str]:
    """What ``keys set`` takes: providers whose key routekit keeps, and the keyring entries named for them."""
    return _names(_all_holders(router))


def _names(found: Iterable[Holder]) -> list[str]:
    kept = [holder for holder in found if holder.ref.kind in KEPT]
    return list(dict.fromkeys([*(row.provider for row in kept if not row.header), *(row.ref.name for row in kept)]))


def _unknown(id: str, known: Iterable[str]) -> UsageError:
    from ..config.kinds import nearest

    return UsageError(
        f"'{id}' is no provider and no stored key; {nearest(id, known, what='known')}", hints=["routekit keys list"]
    )


def _elsewhere(holder: Holder) -> UsageError:
    if holder.ref.kind == "none":
        said, hint = f"{holder.who} needs no key (key = 'none')", "routekit providers show " + holder.provider
    else:
        said = f"{holder.who} takes its key from {holder.ref.source}, so a stored one would never be read"
        hint = f"routekit keys check {holder.provider}"
    return UsageError(
        said, details=[f'to store one, write key = "keyring" in [providers.{holder.provider}]'], hints=[hint]
    )


def _all_holders(router: Router) -> Iterable[Holder]:
    reading = router.inspect(stored=tuple(PRESETS))
    if reading.config is not None:
        return holders(reading.config)
    # A text that does not even parse names nobody; the vendors are known all the same.
    return list(_outline(router)) or [_of_preset(row) for row in PRESETS.values() if row.base_url]


def _of_preset(row: Preset) -> Holder:
    ref = CredentialRef(kind="keyring", name=row.name)
    return Holder(who=row.name, provider=row.name, ref=ref, host=host_of(row.base_url))


def _outline(router: Router) -> Iterator[Holder]:
    """The providers of files that do not load, read for their names, keys and addresses alone."""
    for id, entry in _tables(router.overlaid().document.get("providers")):
        if not isinstance(entry, dict):
            continue
        row = PRESETS.get(str(entry.get("preset"))) or PRESETS.get(API_DEFAULTS.get(entry.get("api", ""), ""))
        url = entry.get("base_url", row.base_url if row else "")
        host = host_of(url) if isinstance(url, str) and "://" in url else ""
        yield Holder(who=id, provider=id, host=host, ref=_ref_or_own(entry.get("key"), id))
        for name, value in _tables(entry.get("headers")):
            own = f"{id}-{name}".lower()
            ref = _ref_or_own(value, own) if is_ref(str(value)) else CredentialRef(kind="keyring", name=own)
            yield Holder(who=f"{id} {name}", provider=id, host=host, header=name, ref=ref)


def _tables(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, dict) else ()


def _ref_or_own(value: Any, entry: str) -> CredentialRef:
    try:
        return parse_ref(value if isinstance(value, str) else "keyring", entry=entry)
    except CredentialError:
        # The very fault that a stored key is to mend: a secret where its reference should be.
        return CredentialRef(kind="keyring", name=entry)


# --- checking ---------------------------------------------------------------------------------------------------------


class Checked(Value):
    who: str
    state: str
    source: str = ""
    last4: str = ""
    message: str = ""
    hint: str = ""


def check(context: Context, *, id: str | None = None, json: bool = False) -> Report:
    """Every credential is read from where it is, all at the same time, so that one silent keyring costs its deadline
    once."""
    from ..loop import run

    router = context.router
    rows = list(_asked_for(holders(router.config), id))
    found = run(_look(router, rows))
    width = max((len(row.who) for row in found), default=0)
    told = [line for row in found for line in _verdict(row, width)]
    bad = any(row.state != "present" for row in found)
    data = [
        {
            "id": row.who,
            "state": row.state,
            "source": row.source or None,
            "last4": row.last4 or None,
            "message": row.message or None,
            "try": row.hint or None,
        }
        for row in found
    ]
    return lines(*told or ["no key is needed"], data=data, exit_code=EX_CREDENTIAL if bad else EX_OK)


def _asked_for(rows: Iterable[Holder], id: str | None) -> Iterable[Holder]:
    if id is None:
        return [row for row in rows if row.needed]
    _refuse_key_as_name(id)
    rows = list(rows)
    found = [row for row in rows if id in (row.provider, row.ref.name if row.ref.kind in KEPT else None)]
    if not found:
        raise _unknown(id, [*(row.provider for row in rows), *_names(rows)])
    return found


async def _look(router: Router, rows: list[Holder]) -> list[Checked]:
    import asyncio

    shared: dict[str, list[Holder]] = {}
    for row in rows:
        shared.setdefault(str(row.ref), []).append(row)
    looks = [_look_at(router, group) for group in shared.values()]
    found = {row.who: row for group in await asyncio.gather(*looks) for row in group}
    return [found[row.who] for row in rows]


async def _look_at(router: Router, group: list[Holder]) -> list[Checked]:
    """One credential for all who share it: it is read once."""
    return [await _read(router, holder) for holder in group]


async def _read(router: Router, holder: Holder) -> Checked:
    provider = router.config.providers[holder.provider]
    try:
        why = barred(holder.ref, holder.host, place=router.key_place, environ=router.environ) if holder.header else ""
        if why:
            hint = router.new_key(str(holder.ref))
            return Checked(who=holder.who, state="elsewhere", message=f"{why}, not for {holder.host}", hint=hint)
        if holder.header:
            secret = await router.resolve(holder.ref, variable=None)
        else:
            secret = await router.secret(provider)
    except CredentialError as error:
        hint = error.hints[0] if error.hints else ""
        return Checked(who=holder.who, state=error.state, message=router.clean(error.message), hint=hint)
    if secret is None:
        return Checked(who=holder.who, state="present", source="no key needed")
    since = router.still_refused(str(holder.ref), secret)
    if since is not None:
        told = f"{secret.source}{f' …{secret.last4}' if secret.last4 else ''}, {ago(since, router.now())}"
        hint = router.new_key(str(holder.ref))
        return Checked(
            who=holder.who, state="refused", source=secret.source, last4=secret.last4, message=told, hint=hint
        )
    return Checked(who=holder.who, state="present", source=secret.source, last4=secret.last4)


def _verdict(row: Checked, width: int) -> Iterator[str]:
    if row.state == "present":
        yield f"{row.who:<{width}}  ok: {row.source} {f'…{row.last4}' if row.last4 else ''}".rstrip()
        return
    yield f"{row.who:<{width}}  {KEY_STATES[row.state]}: {row.message}"
    if row.hint:
        yield f"{'':<{width}}  try: {row.hint}"


# --- where ------------------------------------------------------------------------------------------------------------


def keyring_words(router: Router) -> tuple[str, str]:
    """The keyring as it is known without asking it: its name where a key was seen in it, or that there is none."""
    names = {look.source for look in router.keyring_looks() if look.source.startswith("keyring (")}
    if not router.keyring_there:
        return "none found on this machine", "keys go elsewhere: routekit keys set NAME --store file"
    name = sorted(names)[0].removeprefix("keyring (").removesuffix(")") if names else "the operating system's"
    return f"{name}, service 'routekit'", ""


def path(context: Context) -> Report:
    place = context.router.key_place
    rows = (
        ("keyring", "  ".join(filter(None, keyring_words(context.router)))),
        ("plain files", _there(place.files, "only for keys stored with --store file")),
        ("ledger", _there(place.ledger, "which keys are stored, and for which hosts; no key")),
    )
    data = {"keyring_service": "routekit", "files": str(place.files), "ledger": str(place.ledger)}
    return Report(blocks=(Table(columns=("", ""), rows=rows),), data=data)


def _there(path: Path, what: str) -> str:
    return f"{path}  ({what}{'' if os.path.lexists(path) else '; not there yet'})"
