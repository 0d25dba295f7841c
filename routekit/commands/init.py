"""``init``: from nothing to a first answer — a vendor, a key, a config file, a question. It overwrites no file, and
until everything has been asked it changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from ..core.config import Config
from ..core.ids import parse_reference
from ..core.keyref import CredentialRef, looks_like_key, parse_ref
from ..core.value import Value
from ..credentials import Secret, clean_key, host_allowed, host_of, read_ledger, status
from ..credentials import remove as remove_key
from ..credentials import store as store_key
from ..errors import ConfigError, CredentialError, RoutekitError, UsageError
from ..keychain import Seen
from ..router import Router
from ..vendors.presets import PRESETS, Preset
from .report import Context, Lines, Report

#: what is asked first, unless the person has something better
QUESTION = "Say hello in five words."
ROUTE = "main"
#: how often a key that cannot be one is asked for again
TRIES = 3
LOG_OFF = """[log]
conversations = false       # questions and answers are not kept

"""


class Setup(Value):
    """What was chosen. ``key`` is the reference the config will hold; ``secret`` is still to be stored under it.
    ``backups`` are further vendors whose keys the environment holds, tried after the first."""

    vendor: Preset
    base_url: str = ""
    model: str
    key: str
    secret: Secret | None = None
    #: ``file`` where it is to be kept in a plain file of our own
    store: str = "keyring"
    backups: tuple[Preset, ...] = ()
    log: bool = True

    @property
    def id(self) -> str:
        return self.vendor.name

    @property
    def reference(self) -> str:
        return f"{self.id}/{self.model}"

    @property
    def address(self) -> str:
        return self.base_url or self.vendor.base_url


def init(
    context: Context,
    *,
    vendor: str | None = None,
    base_url: str | None = None,
    model: str | None = None,
    key: str | None = None,
    no_question: bool = False,
    no_log: bool = False,
    store: str = "keyring",
    **more: str | None,
) -> Report:
    source = more.get("from")
    if source is not None:
        from .foreign import bring

        return bring(context, source, store=store, log=not no_log)
    router = context.router
    file = router.paths.config_file
    there = os.path.lexists(file)
    config = router.config if there else Config()
    if there and not _wants_more(context, vendor):
        return Report(hints=("routekit config check", "routekit ask 'your question'"))
    chosen = _choose(context, config, vendor=vendor, base_url=base_url, model=model, key=key, store=store)
    chosen = replace(chosen, log=not no_log)
    stored = chosen.secret is not None
    if stored:
        chosen = _keep(context, chosen)
    try:
        _extend(context, chosen, config) if there else write_new(router, file, toml_text(chosen))
    except RoutekitError:
        if stored and chosen.secret is not None:
            remove_key(_entry(chosen), place=router.key_place)
        raise
    context.io.say(f"wrote {file}" if not there else f"changed {file}")
    context.renew()
    context.io.say(f"routekit remembers who served each question and why. {_of_log(context.router)}")
    return _first_answer(context, chosen, model=chosen.reference if there else None, asks=not no_question)


def _of_log(router: Router) -> str:
    """What becomes of questions and answers, and how to change that."""
    if router.logging:
        return "Questions and answers are kept too, on this machine; see routekit logs, and routekit logs off to stop."
    return "Questions and answers are not kept: routekit logs status says why."


# --- choosing ---------------------------------------------------------------------------------------------------------


def _wants_more(context: Context, vendor: str | None) -> bool:
    """Whether a vendor is to be added to the config that is there. Raises ``UsageError`` where nobody can say."""
    file, names = context.router.paths.config_file, ", ".join(context.router.config.providers)
    if vendor is not None:
        return True
    if not context.io.interactive:
        raise UsageError(
            f"there is a config already: {file}; nothing was changed",
            hints=["routekit config check", "routekit init --vendor NAME", "routekit ask 'your question'"],
        )
    context.io.say(f"There is a config already: {file} (providers: {names or 'none'}). It will not be overwritten.")
    return context.io.confirm("Add another vendor to it?", default=False)


def _choose(
    context: Context,
    config: Config,
    *,
    vendor: str | None,
    base_url: str | None,
    model: str | None,
    key: str | None,
    store: str,
) -> Setup:
    """Every question, in the order a person can answer them; the key last, so that leaving early leaves no trace."""
    found = [row for row in detected(context) if row.name not in config.providers]
    for row in found:
        context.io.say(f"{row.key_variable} is set: {row.name} can be used as it is.")
    row = _vendor(context, vendor, found, taken=config.providers)
    address = _address(context, row, base_url)
    name = _model(context, row, model)
    backups = () if config.providers else _backups(context, row, found)
    draft = Setup(vendor=row, base_url=address, model=name, key="", backups=backups, store=store)
    return _key(context, draft, key)


def detected(context: Context) -> list[Preset]:
    """The vendors whose usual variable is set, one per variable."""
    rows: dict[str, Preset] = {}
    for row in PRESETS.values():
        if row.key_variable and row.base_url and context.environ.get(row.key_variable, "").strip():
            rows.setdefault(row.key_variable, row)
    return list(rows.values())


def _vendor(context: Context, said: str | None, found: Sequence[Preset], *, taken: Iterable[str]) -> Preset:
    names = [name for name in PRESETS if name not in taken]
    if said is None:
        said = _ask_vendor(context, names, found)
    if said in taken:
        raise UsageError(
            f"there is a provider {said} already; nothing was changed",
            hints=[f"routekit providers show {said}", f"routekit keys set {said}"],
        )
    if said not in PRESETS:
        from ..config.kinds import nearest

        raise UsageError(f"'{said}' is no known vendor; {nearest(said, names, what='known')}")
    return PRESETS[said]


def _ask_vendor(context: Context, names: Sequence[str], found: Sequence[Preset]) -> str:
    first = found[0].name if found else None
    if not context.io.interactive:
        if first is not None:
            return first
        raise UsageError(
            "nobody can answer here, and no vendor's key is in the environment: say which vendor",
            hints=["routekit init --vendor openai --key env:OPENAI_API_KEY"],
        )
    plain = [name for name in names if not name.endswith("-anthropic")]
    context.io.say(f"Known vendors: {', '.join(name for name in plain if not PRESETS[name].keyless)}")
    context.io.say(f"On this machine, without a key: {', '.join(name for name in plain if PRESETS[name].keyless)}")
    return context.io.ask("Vendor", default=first or plain[0], choices=names)


def _address(context: Context, row: Preset, said: str | None) -> str:
    """The address, where it is not the vendor's own."""
    if said is not None or row.base_url:
        return said or ""
    if not context.io.interactive:
        raise UsageError(
            f"the address of {row.name} is yours alone to know: {row.place}",
            hints=[f"routekit init --vendor {row.name} --base-url {row.place}"],
        )
    return context.io.ask(f"Address, like {row.place}")


def _model(context: Context, row: Preset, said: str | None) -> str:
    if said is None and not context.io.interactive:
        if row.example is None:
            raise UsageError(
                f"which model of {row.name}? there is none to suggest",
                hints=[f"routekit init --vendor {row.name} --model MODEL"],
            )
        said = row.example
    name = said or context.io.ask(f"Model, as {row.name} names it", default=row.example)
    name = name.removeprefix(f"{row.name}/")
    parse_reference(f"{row.name}/{name}")
    return name


def _backups(context: Context, row: Preset, found: Sequence[Preset]) -> tuple[Preset, ...]:
    """Other vendors at hand, if a person wants them: nobody pays a second vendor unasked."""
    others = [other for other in found if other.key_variable != row.key_variable and other.example]
    if not context.io.interactive:
        return ()
    return tuple(
        other for other in others if context.io.confirm(f"Try {other.name}/{other.example} when {row.name} fails?")
    )


# --- the key ----------------------------------------------------------------------------------------------------------


def _key(context: Context, draft: Setup, said: str | None) -> Setup:
    """With the key's reference, and the secret itself where it is to be stored."""
    row = draft.vendor
    if said is not None:
        if looks_like_key(said):
            raise UsageError(
                "--key names the place of a key (keyring, env:NAME, cmd:COMMAND, file:PATH), and this looks like the "
                "key itself; your shell's history holds it now, so have the vendor make a new one, and type that "
                "when asked",
                hints=[f"routekit init --vendor {row.name}"],
            )
        ref = parse_ref(said, entry=row.name)
        return replace(draft, key=said) if ref.kind != "keyring" else _from_keyring(context, draft, ref)
    if row.keyless:
        return replace(draft, key="none")
    if context.environ.get(row.key_variable or "", "").strip() and _may_use(context, draft):
        context.io.say(f"using {row.key_variable}")
        return replace(draft, key=f"env:{row.key_variable}")
    return _from_keyring(context, draft, CredentialRef(kind="keyring", name=row.name))


def _may_use(context: Context, draft: Setup) -> bool:
    """Whether the key in the vendor's usual variable is meant. At another address than the vendor's own, which would
    be sent it, that is the person's to say."""
    if not draft.base_url:
        return True
    question = f"Use the key in {draft.vendor.key_variable}? It will be sent to {host_of(draft.base_url)}"
    return context.io.interactive and context.io.confirm(question)


def _from_keyring(context: Context, draft: Setup, ref: CredentialRef) -> Setup:
    text = "keyring" if ref.name == draft.id else str(ref)
    known = read_ledger(context.router.key_place.ledger).get(ref.name)
    if known is not None and host_allowed(known.hosts, host_of(draft.address)):
        context.io.say(f"using the key stored as {ref.name} …{known.last4}")
        return replace(draft, key=text)
    draft = replace(draft, key=text)
    if draft.store == "keyring" and context.io.interactive and not context.router.keyring_there:
        # Known before a key is typed: nobody types one for nothing.
        context.io.say("There is no keyring on this machine to keep a key in.")
        return _otherwise(context, draft)
    return replace(draft, secret=_typed(context, draft))


def _typed(context: Context, draft: Setup) -> Secret:
    name = draft.vendor.name
    hints = [f"routekit init --vendor {name} --key env:{draft.vendor.key_variable or 'NAME'}"]
    for left in reversed(range(TRIES)):
        secret = Secret(context.io.secret(f"Your key for {name}"), "the terminal")
        try:
            clean_key(secret.reveal())
            return secret
        except CredentialError as error:
            if not context.io.interactive or not left:
                raise CredentialError(error.message, state=error.state, hints=hints) from None
            context.io.say(f"{error.message}; once more")
    raise AssertionError("unreachable: the last try returns or raises")


def _entry(chosen: Setup) -> str:
    return parse_ref(chosen.key, entry=chosen.id).name


def _keep(context: Context, chosen: Setup) -> Setup:
    """Store the secret. Where the keyring cannot take it: the other places, the safest first."""
    assert chosen.secret is not None
    if chosen.store == "file":
        return _stored(context.router, chosen, where="file", io=context)
    try:
        return _stored(context.router, chosen, where="keyring", io=context)
    except CredentialError as error:
        if not context.io.interactive:
            variable = chosen.vendor.key_variable or "NAME"
            again = f"routekit init --vendor {chosen.id}"
            error.hints = (f"{again} --key env:{variable}", f"{again} --store file")
            raise
        context.io.say(f"{error.message}.")
    chosen = _otherwise(context, chosen)
    return _stored(context.router, chosen, where="file", io=context) if chosen.secret is not None else chosen


def _otherwise(context: Context, draft: Setup) -> Setup:
    """The places for a key beside the keyring. One that was typed already is at hand for a file."""
    context.io.say("  env   an environment variable, set where your shell starts")
    context.io.say("  cmd   the output of a command, such as a password manager's")
    at_hand = "; takes the key you typed" if draft.secret is not None else ""
    context.io.say(f"  file  a plain-text file (0600): only you can read it, and every program you run{at_hand}")
    usual = "env" if draft.secret is None else "file"
    way = context.io.ask("Where shall the key come from", default=usual, choices=("env", "cmd", "file"))
    if way == "file":
        return replace(draft, store="file", secret=draft.secret or _typed(context, draft))
    what = {"env": "Variable", "cmd": "Command"}[way]
    name = context.io.ask(what, default=draft.vendor.key_variable if way == "env" else f"pass show {draft.id}")
    ref = parse_ref(f"{way}:{name}", entry=draft.id)
    if draft.secret is not None:
        context.io.say("the key you typed is not kept")
    return replace(draft, key=str(ref), secret=None)


def _stored(router: Router, chosen: Setup, *, where: str, io: Context) -> Setup:
    assert chosen.secret is not None
    kept = store_key(
        _entry(chosen),
        chosen.secret,
        place=router.key_place,
        now=router.now(),
        where="file" if where == "file" else "keyring",
        hosts=[host_of(chosen.address)],
    )
    seen = Seen(state="present", when=router.now(), last4=kept.last4, source=kept.source)
    router.key_changed(_entry(chosen), seen)
    io.io.say(f"stored the key in: {kept.source}")
    return chosen


# --- writing ----------------------------------------------------------------------------------------------------------

_SAYS = {
    "keyring": "stored apart from here; to replace it: routekit keys set {id}",
    "env": "this environment variable",
    "cmd": "what this command prints",
    "file": "this file, which only you may read",
    "auto": "the system's keyring, else the vendor's usual variable",
    "none": "no key is needed",
    "own": "kept by routekit, here in a plain file (0600); to replace it: routekit keys set {id} --store file",
}


def toml_text(chosen: Setup) -> str:
    """A first config, with comments for somebody who has never seen one."""
    from ..config.edit import toml_value

    targets = [chosen.reference, *(f"{row.name}/{row.example}" for row in chosen.backups)]
    entries = [_provider_text(chosen.id, chosen.key, chosen.base_url, store=chosen.store)]
    entries += [_provider_text(row.name, f"env:{row.key_variable}", "") for row in chosen.backups]
    other = "anthropic" if chosen.id != "anthropic" else "openai"
    log = "" if chosen.log else LOG_OFF
    return f"""\
# routekit's configuration. Secrets never stand here: `routekit keys list` shows where each key is.
# After a change: routekit config check
version = 1

[defaults]
route = "{ROUTE}"              # what is asked when nothing is named

{log}# A provider is one account at one vendor. Any number may stand here; another one would begin like this:
#   [providers.{other}]
#   preset = "{other}"
{chr(10).join(entries)}
# A route is a name of your own for models. Its targets are tried from first to last until one answers.
[routes.{ROUTE}]
targets = [
{"".join(f"  {toml_value(target)},{chr(10)}" for target in targets)}]
"""


def _provider_text(id: str, key: str, base_url: str, *, store: str = "keyring") -> str:
    from ..config.edit import toml_value

    kind = parse_ref(key, entry=id).kind
    address = f"base_url = {toml_value(base_url)}\n" if base_url else ""
    said = _SAYS["own" if kind == "keyring" and store == "file" else kind].format(id=id)
    return f"""[providers.{id}]
preset = "{id}"            # a vendor routekit knows: its address, its ways
{address}key = {toml_value(key)}            # {said}
"""


def write_new(router: Router, file: str, text: str) -> None:
    """A whole new file, or none: judged before it is written, and never over one that has appeared meanwhile."""
    from ..config.edit import write_whole
    from ..config.file import from_text

    from_text(text, setting=router.setting(), name=file)
    try:
        Path(file).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}", hints=["routekit config path"]) from None
    if os.path.lexists(file):
        raise ConfigError(f"{file} has appeared meanwhile; nothing was changed", hints=["routekit config check"])
    write_whole(file, text)


def _extend(context: Context, chosen: Setup, config: Config) -> None:
    """Add the provider to the file that is there; and to the default route, where a person says so."""
    from ..config.edit import edit_file, insert, put

    entry = {"preset": chosen.id, "key": chosen.key} | ({"base_url": chosen.base_url} if chosen.base_url else {})
    operations = [put(("providers", chosen.id), entry)]
    route = config.routes.get(config.defaults.route or "")
    asked = context.io.interactive and route is not None
    if route is not None and asked and context.io.confirm(f"Try {chosen.reference} when the rest of {route.id} fails?"):
        path = ("routes", route.id, "targets")
        operations.append(insert(path, len(route.targets), chosen.reference))
    edited = edit_file(context.router.paths.config_file, lambda _: operations, setting=context.router.setting())
    for line in edited.lines():
        context.io.say(f"  {line}")


# --- the first answer -------------------------------------------------------------------------------------------------


def _first_answer(context: Context, chosen: Setup, *, model: str | None, asks: bool) -> Report:
    router = context.renew()
    router.config  # noqa: B018 - what was written must load before anything is said of it
    named = f"-m {chosen.reference} " if model else ""
    hints = (f"routekit ask {named}'your question'", "routekit why", f"routekit routes preview {model or ''}".rstrip())
    missing = _missing(router, chosen)
    if missing is not None:
        return Report(
            notes=(f"the key is not there yet ({missing[0]}), so nothing was asked",), hints=(missing[1], *hints)
        )
    question = _question(context) if asks else None
    if question is None:
        return Report(hints=hints)
    context.io.say(f"asking {chosen.reference}: {question}")
    try:
        answer = router.ask(question, model=model, surface=context.surface)
    except RoutekitError as error:
        context.io.say("The config is written and loads; its first question failed:")
        raise router.set_aside(error) from None
    return Report(blocks=(Lines(text=tuple(answer.text.rstrip("\n").split("\n"))),), hints=hints)


def _missing(router: Router, chosen: Setup) -> tuple[str, str] | None:
    """Why the key cannot be had yet, and what to type, where that is known without asking for it."""
    ref = parse_ref(chosen.key, entry=chosen.id)
    if ref.kind not in ("env", "file"):
        return None
    found = status(ref, variable=None, environ=router.environ, place=router.key_place)
    return None if found.state == "present" else (found.source, found.hint)


def _question(context: Context) -> str | None:
    if not context.io.interactive:
        return QUESTION
    try:
        return context.io.ask("Your first question", default=QUESTION)
    except UsageError:
        # Ctrl-D: everything is written, and nothing needs to be asked.
        return None
