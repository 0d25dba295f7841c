"""From files on disk to one valid ``Config``: found, read, overlaid, converted, judged. It reads no secret."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from ..core.config import Config, Health, Problem, Provider
from ..core.ids import ID_RULE, is_id
from ..core.value import Value
from ..errors import ConfigError
from . import demo
from .convert import Draft, PresetRow, Vendors, convert, is_loopback
from .kinds import At, Fault, nearest
from .paths import Paths, find_paths
from .rules import BUILT_IN, Judge
from .sources import Merged, Source, guarded, read_source
from .tables import BASE_URL

#: in the mode without a file the environment is the config, so these count there, and only there
BASE_URL_VARIABLES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
NOTHING_HINTS = ("routekit init", "routekit --profile demo ask hello")


class Reading(Value):
    """What came of reading: ``config`` is ``None`` exactly if one of ``problems`` is an error."""

    config: Config | None
    problems: tuple[Problem, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")


class Setting(Value):
    """What reading needs to know besides the text: known vendors, names of selections, and whether scripted vendors may
    appear."""

    vendors: Vendors
    selections: Collection[str] = BUILT_IN
    allow_scripted: bool = False


def load(
    paths: Paths,
    *,
    setting: Setting,
    environ: Mapping[str, str],
    profile: str | None = None,
    patches: Sequence[str] = (),
    stored: Collection[str] = (),
) -> Config:
    """The configuration in force. ``profile`` beats ``ROUTEKIT_PROFILE``. ``stored`` names the entries the keyring is
    known to hold; it counts only where there is no file. Raises ``ConfigError`` with every problem found."""
    reading = inspect(paths, setting=setting, environ=environ, profile=profile, patches=patches, stored=stored)
    return checked(reading, own=paths.config_file)


def checked(reading: Reading, *, own: str = "") -> Config:
    """The reading's config, or the ``ConfigError`` it calls for. ``own``: the file that ``config edit`` opens."""
    if reading.config is not None:
        return reading.config
    errors = reading.errors
    count = "an error" if len(errors) == 1 else f"{len(errors)} errors"
    raise ConfigError(f"the configuration has {count}", problems=errors, hints=_where_to_mend(errors, own))


def _where_to_mend(errors: Sequence[Problem], own: str) -> list[str]:
    files = dict.fromkeys(problem.file for problem in errors)
    others = [file for file in files if own and file != own and os.path.lexists(file)]
    edit = ["routekit config edit"] if len(others) < len(files) or not others else []
    return [*edit, *(f"${{EDITOR:-vi}} {_quoted(file)}" for file in others)]


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def inspect(
    paths: Paths,
    *,
    setting: Setting,
    environ: Mapping[str, str],
    profile: str | None = None,
    patches: Sequence[str] = (),
    stored: Collection[str] = (),
) -> Reading:
    """As ``load``, but faults of the text come back as values. Raises ``ConfigError`` only where there is nothing to
    read: a file or profile that was named does not exist, or there is neither a file nor a key."""
    name = profile or environ.get("ROUTEKIT_PROFILE") or None
    if name == demo.NAME and not os.path.lexists(paths.profile(name)):
        sources: list[Source | Problem] = [Source(name="(the built-in profile demo)", text=demo.TEXT)]
        sources += [read_source(patch) for patch in patches]
        return read(sources, setting=msgspec.structs.replace(setting, allow_scripted=True), mode="demo")
    files = files_in_force(paths, profile=name, patches=patches)
    if not files:
        return _from_environment(environ, setting=setting, stored=stored, missing=paths.config_file)
    return read([read_source(file) for file in files], setting=setting)


def overlaid(files: Iterable[str]) -> Merged:
    """What the files say, laid over one another and not judged: for the little that must work with a broken
    configuration, and to find places in it. A file that cannot be read or parsed says nothing."""
    sources = [read_source(file) for file in files]
    return Merged(one for one in sources if isinstance(one, Source) and one.parse() is None)


def from_text(text: str, *, setting: Setting, name: str = "(text)") -> Config:
    """A configuration from TOML text alone: for tests, scripts, and the file an editor has just closed."""
    return checked(read([Source(name=name, text=text)], setting=setting))


def read(sources: Iterable[Source | Problem], *, setting: Setting, mode: str = "file") -> Reading:
    """Parse, overlay, convert and judge. A text that does not parse is the only thing reported of all: without it, the
    faults of the others would be guesses."""
    good: list[Source] = []
    broken: list[Problem] = []
    for source in sources:
        problem = source if isinstance(source, Problem) else source.parse()
        if problem is None and isinstance(source, Source):
            good.append(source)
        elif problem is not None:
            broken.append(problem)
    if broken:
        return Reading(config=None, problems=tuple(broken))
    merged = Merged(good)
    faults: list[Fault] = []
    draft = convert(merged.document, At(faults), vendors=setting.vendors, allow_scripted=setting.allow_scripted)
    draft = Judge(draft, At(faults), selections=setting.selections, document=merged.document).settle()
    faults += guarded(merged, draft.providers)
    problems = tuple(merged.problems(faults))
    if any(problem.severity == "error" for problem in problems):
        return Reading(config=None, problems=problems)
    files = tuple(source.name for source in good)
    return Reading(config=_finished(draft, files=files, warnings=problems, mode=mode), problems=problems)


def _finished(draft: Draft, *, files: tuple[str, ...], warnings: tuple[Problem, ...], mode: str) -> Config:
    config = Config(
        defaults=draft.defaults,
        aliases=draft.aliases,
        providers=draft.providers,
        synthetic_providers=draft.synthetic_providers,
        routes=draft.routes,
        limits=draft.limits,
        log=draft.log,
        repl=draft.repl,
        mode="demo" if mode == "demo" else "environment" if mode == "environment" else "file",
    )
    # The digest is of the meaning: comments and layout do not change it, a preset's new address does.
    return msgspec.structs.replace(config, digest=_digest(config), files=files, warnings=warnings)


def _digest(config: Config) -> str:
    from hashlib import blake2b

    return blake2b(msgspec.json.encode(config), digest_size=12).hexdigest()


# ---- finding


def files_in_force(paths: Paths, *, profile: str | None, patches: Sequence[str]) -> list[str]:
    """The files to read, in order: the config file, the profile's, the patches. Named files must exist."""
    files = []
    # A link that leads nowhere is a broken file, not an absent one.
    if os.path.lexists(paths.config_file):
        files.append(paths.config_file)
    elif paths.named:
        raise ConfigError(f"there is no configuration file {paths.config_file}", hints=["routekit init"])
    if profile is not None:
        files.append(_profile_file(paths, profile))
    for patch in patches:
        if not os.path.lexists(patch):
            raise ConfigError(f"there is no file {patch} to lay over the configuration (--patch)")
    return [*files, *patches]


def _profile_file(paths: Paths, name: str) -> str:
    if not is_id(name):
        raise ConfigError(f"'{name}' is no profile name: {ID_RULE}")
    file = paths.profile(name)
    if not os.path.lexists(file):
        known = profiles(paths)
        raise ConfigError(
            f"there is no profile '{name}' ({file}); {nearest(name, known, what='profiles')}",
            hints=[f"routekit --profile {known[0]} config check"],
        )
    return file


def profiles(paths: Paths) -> list[str]:
    """The names of all profiles, the built-in one last."""
    try:
        found = sorted(name[:-5] for name in os.listdir(paths.profiles_dir) if name.endswith(".toml"))
    except OSError:
        found = []
    return [*[name for name in found if is_id(name)], *([] if demo.NAME in found else [demo.NAME])]


# ---- no file at all


def _from_environment(
    environ: Mapping[str, str], *, setting: Setting, stored: Collection[str], missing: str
) -> Reading:
    faults: list[Fault] = []
    rows: list[PresetRow] = list(setting.vendors.presets.values())
    # A vendor whose address only the user knows cannot exist by its key alone.
    known = [row for row in rows if row.base_url]
    usable = [row for row in known if (row.key_variable and environ.get(row.key_variable)) or row.name in stored]
    if not usable:
        variables = list(dict.fromkeys(row.key_variable for row in known if row.key_variable))
        raise ConfigError(
            f"no configuration ({missing}) and no vendor's key found (looked for {_few(variables)})",
            hints=NOTHING_HINTS,
        )
    found = {row.name: _environment_provider(row, environ, faults) for row in usable}
    problems = tuple(Problem(file="the environment", key=str(fault.path[0]), message=fault.message) for fault in faults)
    if problems:
        return Reading(config=None, problems=problems)
    empty = convert({}, At(faults), vendors=setting.vendors)
    draft = msgspec.structs.replace(empty, providers=found)
    return Reading(config=_finished(draft, files=(), warnings=(), mode="environment"))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _environment_provider(row: PresetRow, environ: Mapping[str, str], faults: list[Fault]) -> Provider:
    variable = BASE_URL_VARIABLES.get(row.name, "")
    said = environ.get(variable) if variable else None
    url = BASE_URL.read(said, At(faults, (variable,))) if said else row.base_url
    moved = isinstance(url, str) and url.rstrip("/") != row.base_url.rstrip("/")
    return Provider(
        id=row.name,
        api=row.api,
        base_url=url.rstrip("/") if isinstance(url, str) else "",
        key=f"auto:{row.name}",
        key_variable=row.key_variable,
        preset=row.name,
        auth=row.auth,
        anthropic_version=row.anthropic_version,
        health=Health(),
        quirks=tuple(row.quirks),
        origin="environment" if moved else "preset",
    )


__all__ = [
    "Paths",
    "Reading",
    "Setting",
    "checked",
    "files_in_force",
    "find_paths",
    "from_text",
    "inspect",
    "is_loopback",
    "load",
    "overlaid",
    "profiles",
    "read",
]
