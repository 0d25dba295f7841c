"""Every key of the config file and what it may hold, as tables. It judges one value at a time, never two together.

``config.md`` lists the same keys; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

from ..core.config import (
    WEIGHT_MAX,
    Budget,
    LastResort,
    Limits,
    Log,
    Member,
    ModelInfo,
    Price,
    Repl,
    RouteTarget,
)
from ..core.ids import ID as ID_PATTERN
from ..core.ids import ID_RULE, is_id, parse_reference
from ..core.keyref import REF_FORMS, is_ref, parse_ref
from ..errors import CredentialError, UsageError
from .kinds import (
    BAD,
    BOOLEAN,
    INSTANT,
    JSON,
    LABEL,
    LINE,
    STICKY,
    TEXT,
    At,
    Kind,
    dotted,
    duration,
    id_fault,
    integer,
    mapping,
    number,
    quoted,
    sequence,
    table,
    words,
)
from .masks import may_be_secret, shown

VERSION: Final = 1
SCRIPTED: Final = "scripted"
APIS: Final = ("openai-responses", "openai-chat", "anthropic-messages", SCRIPTED)

# ---- credentials and addresses


def _read_key(value: Any, at: At) -> Any:
    """The full form of a credential reference, so that two entries which name one secret come out equal."""
    owner = str(at.path[1])
    if not isinstance(value, str):
        return at.refuse(f"this is no reference to a key: write {REF_FORMS}")
    try:
        return str(parse_ref(value, entry=owner))
    except CredentialError as error:
        # the value is never repeated: a person may have pasted the secret itself
        return at.refuse("; ".join([error.message, *(f"try: {hint}" for hint in error.hints if "keys set" in hint)]))


KEY: Final = Kind(
    read=_read_key, schema={"type": "string", "pattern": r"^(keyring|auto|none|(keyring|auto|env|cmd|file):.+)$"}
)

_URL = re.compile(r"(https?|socks5h?)://(\[[0-9A-Fa-f:.]+\]|[^/?#@\s:\[\]]+)(:\d{1,5})?(/[^?#\s]*)?", re.ASCII)


def host_of(url: str) -> str:
    """Scheme, host and port of an address: where a key sent to it ends up."""
    found = _URL.fullmatch(url)
    return f"{found[1]}://{found[2]}{found[3] or ''}".lower() if found else url


def _odd(found: re.Match[str]) -> str:
    """What is wrong with an address that looks like one; empty for nothing."""
    host, port = found[2], found[3]
    if port and not 0 < int(port[1:]) < 65536:
        return f"{port[1:]} is no port; one is from 1 to 65535"
    if host.startswith("["):
        from ipaddress import AddressValueError, IPv6Address

        try:
            IPv6Address(host[1:-1])
        except AddressValueError:
            return f"{host} is no IPv6 address"
    return ""


def _url(*schemes: str) -> Kind:
    allowed = f"an address like {schemes[0]}://host/path, without user name, '?' or '#'"

    def read(value: Any, at: At) -> Any:
        found = _URL.fullmatch(value) if isinstance(value, str) else None
        if found is None or found[1] not in schemes:
            return at.refuse(f"{shown(value)} is not allowed here: {allowed}")
        odd = _odd(found)
        return at.refuse(f"{shown(value)} is not allowed here: {odd}") if odd else value.rstrip("/")

    return Kind(read=read, schema={"type": "string", "pattern": f"^({'|'.join(schemes)})://"})


def _read_base_url(value: Any, at: At) -> Any:
    return value if isinstance(value, str) and value.startswith(f"{SCRIPTED}:") else _HTTP.read(value, at)


_HTTP: Final = _url("https", "http")
BASE_URL: Final = Kind(read=_read_base_url, schema=_HTTP.schema)

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")


def _read_auth(value: Any, at: At) -> Any:
    if isinstance(value, str):
        scheme, colon, name = value.partition(":")
        if value in ("bearer", "x-api-key", "none") or (scheme == "header" and colon and _TOKEN.fullmatch(name)):
            return value
    return at.refuse(f"{shown(value)} is not allowed here: bearer, x-api-key, header:NAME or none")


AUTH: Final = Kind(read=_read_auth, schema={"type": "string", "pattern": r"^(bearer|x-api-key|none|header:\S+)$"})

_AUTH_HEADERS: Final = ("authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie")
_WIRE_HEADERS: Final = ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding")


def _header_fault(name: str) -> str | None:
    lower = name.lower()
    if lower in _AUTH_HEADERS:
        return "a header that carries the key is set by 'key' and 'auth', not here"
    if lower in _WIRE_HEADERS:
        return "this header belongs to the connection and cannot be set"
    if lower == "anthropic-version":
        return "write the key 'anthropic_version' of the provider instead"
    return None if _TOKEN.fullmatch(name) else f"{shown(name)} is no header name"


def _read_header(value: Any, at: At) -> Any:
    if not isinstance(value, str) or not value.isascii() or not (value == "" or value.isprintable()):
        return at.refuse(f"{shown(value)} is not allowed here: text in ASCII on one line, or a reference like env:NAME")
    owner, name = str(at.path[1]), str(at.path[-1])
    if is_ref(value):
        return _read_key(value, at)
    if may_be_secret(value):
        entry = f"{owner}-{name}".lower()
        return at.refuse(f'a secret stands in the file: write "keyring:{entry}" here; try: routekit keys set {entry}')
    return value


HEADERS: Final = mapping(Kind(read=_read_header, schema={"type": "string"}), keys=_header_fault)

_REFUSED_PARAMS: Final = {
    "model": "the model comes from the reference asked for",
    "stream": "routekit always streams on the wire and decides itself what to show",
    "messages": "the messages come from the question",
    "input": "the input comes from the question",
} | dict.fromkeys(
    ("key", "api_key", "apikey", "api-key", "authorization", "auth_token", "token"), "a key is named by 'key', not here"
)


def _read_params(value: Any, at: At) -> Any:
    return mapping(JSON, keys=lambda key: _REFUSED_PARAMS.get(key.lower()), nested=True).read(value, at)


PARAMS: Final = Kind(read=_read_params, schema={"type": "object"})

# ---- references


def _read_reference(value: Any, at: At) -> Any:
    if not isinstance(value, str):
        return at.refuse(f'{shown(value)} is not allowed here: a reference in quotes, as in "provider/model"')
    try:
        parse_reference(value)
    except UsageError:
        return at.refuse(f"{shown(value)} is no reference: write NAME or provider/model, either with #variant")
    return value.strip() if value.isprintable() else at.refuse(f"{shown(value)} holds control characters")


REFERENCE: Final = Kind(read=_read_reference, schema={"type": "string", "minLength": 1})


def _read_id(value: Any, at: At) -> Any:
    if isinstance(value, str) and is_id(value):
        return value
    return at.refuse(f"{shown(value)} is no id: {ID_RULE}")


ID: Final = Kind(read=_read_id, schema={"type": "string", "pattern": f"^{ID_PATTERN.pattern}$"})
MODEL_ID: Final = Kind(
    read=lambda value, at: (
        value
        if isinstance(value, str) and (value == "" or _is_model_id(value))
        else at.refuse(f"{shown(value)} is no model id: no spaces, no '*', no '#'")
    ),
    schema={"type": "string"},
)
VIRTUAL_PROVIDER: Final = Kind(
    read=lambda value, at: value if value == "" else ID.read(value, at), schema={"type": "string"}
)


def _is_model_id(text: str) -> bool:
    return text.isprintable() and not any(mark in text for mark in " *#")


#: 0 contributes nothing, as ``enabled = false`` does
WEIGHT: Final = integer(0, WEIGHT_MAX)
MAP: Final = mapping(LINE)

# ---- tables

_LENGTH, _SOME_LENGTH = duration(), duration(zero=False)

LIMITS: Final = table(
    {"connect": _SOME_LENGTH, "first_output": _SOME_LENGTH, "stall": _SOME_LENGTH, "deadline": _SOME_LENGTH}, Limits
)
BUDGET: Final = table(
    {
        "requests_per_minute": integer(0),
        "requests_per_day": integer(0),
        "tokens_per_minute": integer(0),
        "tokens_per_day": integer(0),
        "usd_per_day": number(0),
        "usd_per_month": number(0),
    },
    Budget,
)
#: read as plain settings, so that a provider's may be laid over the top-level ones
HEALTH: Final = table(
    {
        "first": _LENGTH,
        "factor": number(1),
        "cap": _SOME_LENGTH,
        "failures": integer(1, 1000),
        "max_hint": _SOME_LENGTH,
        "quota": _LENGTH,
        "auth": _LENGTH,
        "probe": BOOLEAN,
        "probe_every": _SOME_LENGTH,
        "forget_after": _SOME_LENGTH,
    },
    dict,
)
_MONEY = number(0)
PRICE: Final = table({"input": _MONEY, "output": _MONEY, "cached": _MONEY}, Price, required=("input", "output"))
MODEL_INFO: Final = table(
    {
        "context": integer(1),
        "output": integer(1),
        "reasons": BOOLEAN,
        "images": BOOLEAN,
        "pdf": BOOLEAN,
        "tools": BOOLEAN,
        "variants": mapping(PARAMS, nested=True),
        "price": PRICE,
        "limits": LIMITS,
        "budget": BUDGET,
    },
    ModelInfo,
)


def _read_model_infos(value: Any, at: At) -> Any:
    if not isinstance(value, dict):
        return at.refuse(f"{shown(value)} is not allowed here: a table per model id or glob")
    found = {}
    for glob, each in value.items():
        place = at / glob
        if isinstance(each, dict) and each and all(_is_cut_id(key, below) for key, below in each.items()):
            name = ".".join(dotted(glob, each, MODEL_INFO.fields))
            where = ".".join(quoted(part) for part in at.path)
            place.refuse(f'an id with a dot must be quoted: [{where}."{name}"]')
            continue
        result = MODEL_INFO.read(each, place)
        if result is not BAD:
            found[glob] = result
    return found


def _is_cut_id(key: str, below: Any) -> bool:
    return key not in MODEL_INFO.fields and isinstance(below, dict)


_WIRE_APIS: Final = words(*APIS[:3])
#: ``scripted`` passes here and is judged with the whole entry: only demos and tests may have it
API: Final = Kind(
    read=lambda value, at: value if value == SCRIPTED else _WIRE_APIS.read(value, at), schema=_WIRE_APIS.schema
)

PROVIDER: Final[Mapping[str, Kind]] = {
    "api": API,
    "preset": LINE,
    "base_url": BASE_URL,
    "key": KEY,
    "auth": AUTH,
    "anthropic_version": LINE,
    "headers": HEADERS,
    "params": PARAMS,
    "proxy": _url("http", "https", "socks5", "socks5h"),
    "max_parallel": integer(1, 10_000),
    "models": sequence(LINE),
    "model_info": Kind(
        read=_read_model_infos,
        schema={"type": "object", "additionalProperties": MODEL_INFO.schema},
        fields=MODEL_INFO.fields,
    ),
    "limits": LIMITS,
    "health": HEALTH,
    "budget": BUDGET,
    "enabled": BOOLEAN,
}
MEMBER: Final = table(
    {"provider": ID, "weight": WEIGHT, "enabled": BOOLEAN, "map": MAP}, Member, required=("provider",)
)
SYNTHETIC: Final[Mapping[str, Kind]] = {
    "providers": sequence(ID),
    "weights": mapping(WEIGHT),
    "members": sequence(MEMBER),
    "selection": LINE,
    "enabled": BOOLEAN,
}
_TARGET_TABLE: Final = table(
    {
        "target": REFERENCE,
        "weight": WEIGHT,
        "enabled": BOOLEAN,
        "variants": MAP,
        "default_variant": LINE,
        "map": MAP,
        "until": INSTANT,
    },
    RouteTarget,
    required=("target",),
)


def _read_target(value: Any, at: At) -> Any:
    if isinstance(value, dict):
        return _TARGET_TABLE.read(value, at)
    found = REFERENCE.read(value, at)
    return found if found is BAD else RouteTarget(target=found)


TARGET: Final = Kind(
    read=_read_target, schema={"anyOf": [REFERENCE.schema, _TARGET_TABLE.schema]}, fields=_TARGET_TABLE.fields
)
#: what a route and ``[defaults]`` both may say
POLICY: Final[Mapping[str, Kind]] = {
    "fixed": BOOLEAN,
    "sticky": STICKY,
    "last_resort": words(*get_args(LastResort)),
    "attempts": integer(1, 20),
}
ROUTE: Final[Mapping[str, Kind]] = {
    "targets": sequence(TARGET),
    "selection": LINE,
    "name": LABEL,
    "provider": VIRTUAL_PROVIDER,
    "model": MODEL_ID,
    "limits": LIMITS,
    "budget": BUDGET,
    "enabled": BOOLEAN,
    **POLICY,
}
DEFAULTS: Final[Mapping[str, Kind]] = {"route": REFERENCE, "system": TEXT, **POLICY}
ALIASES: Final = mapping(REFERENCE, keys=id_fault)
LOG: Final = table({"conversations": BOOLEAN, "records_keep": _SOME_LENGTH}, Log)
REPL: Final = table({"keys": words("emacs", "vi"), "toolbar": BOOLEAN, "history": BOOLEAN}, Repl)

#: tables of entries named by an id: an overlay replaces whole entries of these
ENTRIES: Final[Mapping[str, Mapping[str, Kind]]] = {
    "providers": PROVIDER,
    "synthetic_providers": SYNTHETIC,
    "routes": ROUTE,
}
#: the other tables: an overlay replaces single keys of these
SETTINGS: Final[Mapping[str, Kind]] = {
    "defaults": table(DEFAULTS, dict),
    "aliases": ALIASES,
    "limits": LIMITS,
    "health": HEALTH,
    "log": LOG,
    "repl": REPL,
}
TOP: Final = ("version", *ENTRIES, *SETTINGS)
