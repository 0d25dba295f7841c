"""What an answer must look like, and whether it does: from a JSON Schema, a type, or a line like ``name, age int``.

It asks nobody; ``fitted`` is given the way to ask again, once.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from .answer import fenced
from .core.chat import Delta, Finish, Message, Request
from .core.record import RequestRecord
from .errors import RequestRefused, UsageError
from .files import read_bounded

if TYPE_CHECKING:
    from .dispatch import Happening, Order

Json = dict[str, Any]

#: the words of the shorthand: as in ``llm``
KINDS = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
#: how much of an answer that did not fit is shown in an error
SHOWN = 200


class Unfit(ValueError):
    """An answer that is not what the schema asks for; its text says where and why."""


class Shape:
    """``schema`` goes to the vendor; ``read`` turns an answer's text into the data, or raises ``Unfit``."""

    def __init__(self, schema: Mapping[str, Any], check: Callable[[Any], Any]) -> None:
        self.schema = schema
        self._check = check

    def read(self, text: str) -> Any:
        try:
            data = msgspec.json.decode(bare(text))
        except (msgspec.DecodeError, RecursionError) as error:
            raise Unfit(f"it is not JSON: {error}") from None
        return self._check(data)


def shape(said: Any) -> Shape:
    """A JSON Schema as a mapping, a pydantic model, a dataclass, an ``msgspec.Struct``, or text as ``from_text`` reads
    it. Raises ``RequestRefused`` for what is none of these."""
    if isinstance(said, Shape):
        return said
    if isinstance(said, str):
        return _of_mapping(from_text(said))
    if isinstance(said, Mapping):
        return _of_mapping(said)
    if hasattr(said, "model_json_schema") and hasattr(said, "model_validate"):
        return _of_model(said)
    if hasattr(said, "__dataclass_fields__") or hasattr(said, "__struct_fields__"):
        return _of_type(said)
    raise RequestRefused(
        "schema= takes a JSON Schema, a pydantic model, a dataclass, an msgspec.Struct or a line like 'name, age int', "
        f"not {type(said).__name__}",
        kind="schema",
    )


def from_text(text: str, *, multi: bool = False) -> Json:
    """A JSON Schema from JSON, or from the shorthand. ``multi``: an object with a list of such ``items``."""
    schema = _json(text, "the schema") if text.lstrip().startswith("{") else shorthand(text)
    if not multi:
        return schema
    return _closed_object({"items": {"type": "array", "items": schema}})


def from_shell(text: str, *, multi: bool = False) -> Json:
    """As ``from_text``; also the name of a file with a JSON Schema in it. Raises ``UsageError`` for a file that cannot
    be read."""
    if text.lstrip().startswith("{") or not (os.path.isfile(text) or text.endswith(".json")):
        return from_text(text, multi=multi)
    try:
        found = read_bounded(text, opened=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the schema {text} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return from_text("{" + found.lstrip()[1:] if found.lstrip().startswith("{") else _not_json(text), multi=multi)


def _not_json(name: str) -> str:
    raise RequestRefused(f"the schema {name} holds no JSON object", kind="schema")


def shorthand(text: str) -> Json:
    """``name, age int, bio: one line`` as a JSON Schema: fields parted by commas (or lines, which a description with
    commas needs), each a name, perhaps a type (``str`` if none: int, float, bool), perhaps a description."""
    parts = [part.strip() for part in text.split("\n" if "\n" in text.strip() else ",")]
    fields = [_field(part) for part in parts if part]
    if not fields:
        raise RequestRefused("the schema names no field; one looks like 'name, age int'", kind="schema")
    return _closed_object(dict(fields))


def _field(part: str) -> tuple[str, Json]:
    head, _, description = part.partition(":")
    name, *kind = head.split()
    if len(kind) > 1 or (kind and kind[0] not in KINDS) or not re.fullmatch(r"[^\W\d]\w*", name):
        raise RequestRefused(
            f"'{part.strip()}' is no field of a schema: a name, then one of {', '.join(KINDS)}",
            kind="schema",
            hints=["routekit ask --schema 'name, age int, bio: one line' 'invent a dog'"],
        )
    said = {"description": description.strip()} if description.strip() else {}
    return name, {"type": KINDS[kind[0]] if kind else "string", **said}


def _closed_object(properties: Json) -> Json:
    # closed, and all of it required: what the vendors' strict modes demand
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _json(text: str, what: str) -> Json:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise RequestRefused(f"{what} is not JSON: {error}", kind="schema") from None
    if not isinstance(found, dict):
        raise RequestRefused(f"{what} is not a JSON object", kind="schema")
    return found


# -- kinds of shapes ---------------------------------------------------------------------------------------------------


def _of_mapping(schema: Mapping[str, Any]) -> Shape:
    import jsonschema  # type: ignore[import-untyped]
    import referencing

    made = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        made.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise RequestRefused(f"the schema is not valid: {error.message}", kind="schema") from None
    # With a registry of its own, a reference to elsewhere is an error: nothing is ever fetched.
    validator = made(schema, registry=referencing.Registry())

    def check(data: Any) -> Any:
        try:
            error = jsonschema.exceptions.best_match(validator.iter_errors(data))
        except referencing.exceptions.Unresolvable as unknown:
            raise RequestRefused(f"the schema refers to something it does not hold: {unknown}", kind="schema") from None
        if error is not None:
            raise Unfit(f"{error.json_path}: {error.message}")
        return data

    return Shape(schema, check)


def _of_model(model: Any) -> Shape:
    def check(data: Any) -> Any:
        try:
            return model.model_validate(data)
        except ValueError as error:  # pydantic's ValidationError is one
            raise Unfit(_first_errors(error)) from None

    return Shape(_closed(model.model_json_schema()), check)


def _first_errors(error: Any) -> str:
    rows = error.errors(include_url=False)[:3] if hasattr(error, "errors") else []
    places = ["$" + "".join(f".{step}" for step in row["loc"]) + f": {row['msg']}" for row in rows]
    return "; ".join(places) or str(error)


def _of_type(kind: Any) -> Shape:
    kind = kind if isinstance(kind, type) else type(kind)
    try:
        found = msgspec.json.schema(kind)
    except TypeError as error:
        raise RequestRefused(f"{kind.__name__} cannot be a schema: {error}", kind="schema") from None
    root = found.pop("$ref", "").rpartition("/")[2]
    # vendors want an object at the root, not a reference to one
    schema = {**found.get("$defs", {}).get(root, {}), **found}
    if not _refers(found["$defs"], root) if root else False:
        schema["$defs"] = {name: inner for name, inner in found["$defs"].items() if name != root}
    if not schema.get("$defs"):
        schema.pop("$defs", None)

    def check(data: Any) -> Any:
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            raise Unfit(str(error)) from None

    return Shape(_closed(schema), check)


def _refers(value: Any, name: str) -> bool:
    """Whether something refers to that definition: a type that holds itself."""
    if isinstance(value, Mapping):
        return value.get("$ref") == f"#/$defs/{name}" or any(_refers(inner, name) for inner in value.values())
    return isinstance(value, list | tuple) and any(_refers(inner, name) for inner in value)


def _closed(schema: Any) -> Any:
    """The schema with every object closed that does not say otherwise: what the vendors' strict modes demand."""
    if isinstance(schema, Mapping):
        inner = {name: _closed(value) for name, value in schema.items()}
        return {**inner, "additionalProperties": False} if _is_open(schema) else inner
    return [_closed(value) for value in schema] if isinstance(schema, list) else schema


def _is_open(schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties")
    return schema.get("type") == "object" and isinstance(properties, Mapping) and "additionalProperties" not in schema


def bare(text: str) -> str:
    """The JSON in an answer: all of it, or the one fenced block it consists of."""
    text = text.strip()
    blocks = fenced(text) if text.startswith("```") else []
    return blocks[0] if len(blocks) == 1 else text


# -- one more try ------------------------------------------------------------------------------------------------------

Run = Callable[["Order"], AsyncGenerator["Happening", None]]


async def fitted(
    wanted: Shape, order: Order, *, run: Run, keep: Callable[[RequestRecord], None]
) -> AsyncGenerator[Happening, None]:
    """Everything that happens until an answer fits. One that does not is never shown: the model is told what is wrong
    and asked once more, as a request of its own. Raises ``RequestRefused`` when that does not fit either."""
    first: Unfit | None = None
    while True:
        held: list[Delta | Finish | RequestRecord] = []
        async with aclosing(run(order)) as happenings:
            async for happening in happenings:
                if isinstance(happening, Delta | Finish | RequestRecord):
                    held.append(happening)
                else:
                    yield happening
        try:
            _judge(wanted, held)
            break
        except Unfit as error:
            record = _marked(held[-1], error)
            keep(record)
            if first is not None:
                raise _refusal(record, first, error, _said(held)) from None
            first = error
            order = msgspec.structs.replace(order, request=_once_more(order.request, _said(held), wanted, str(error)))
    if first is not None:
        yield _note(f"the first answer did not fit the schema ({first}); asked once more")
    for kept in held:
        yield kept


def _marked(last: Any, error: Unfit) -> RequestRecord:
    assert isinstance(last, RequestRecord), "a dispatch ends with its record"
    return msgspec.structs.replace(last, notes=(*last.notes, f"the answer did not fit the schema: {error}"))


def _refusal(record: RequestRecord, first: Unfit, second: Unfit, answer: str) -> RequestRefused:
    return RequestRefused(
        "the answer did not fit the schema, twice",
        kind="schema",
        details=[*dict.fromkeys((str(first), str(second))), f"the last answer began: {answer[:SHOWN]!r}"],
        attempts=record.attempts,
        skipped=record.skipped,
        hints=[f"routekit why {record.id}"],
    )


def _judge(wanted: Shape, held: Sequence[Happening]) -> None:
    """A call of a tool and a refusal are no data, and nothing to mend."""
    deltas = [happening for happening in held if isinstance(happening, Delta)]
    if not any(delta.kind in ("tool", "refusal") for delta in deltas):
        wanted.read(_said(held))


def _said(held: Sequence[Happening]) -> str:
    return "".join(one.text for one in held if isinstance(one, Delta) and one.kind == "text")


def _once_more(request: Request, answer: str, wanted: Shape, reason: str) -> Request:
    schema = msgspec.json.encode(wanted.schema).decode()
    told = (
        f"That does not fit the schema: {reason}\n\nAnswer again, with JSON for this schema and nothing else:\n{schema}"
    )
    said = [Message(role="assistant", content=answer)] if answer.strip() else []
    return msgspec.structs.replace(request, messages=(*request.messages, *said, Message(role="user", content=told)))


def _note(text: str) -> Happening:
    from .dispatch import Note

    return Note(text=text, kind="repair")
