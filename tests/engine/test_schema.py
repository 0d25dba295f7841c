"""Schemas: what may be asked for, how an answer is judged, and the one repair."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from routekit import RequestRefused, UsageError, testing
from routekit.schema import Shape, Unfit, from_shell, from_text, shape, shorthand
from routekit.vendors.translate import _is_strict
from tests.loopback import Loopback, loopback

__all__ = ["loopback"]

TOML = '[providers.a]\napi = "scripted"\n[defaults]\nroute = "a/m"\n'
DOG = '{"name": "Rex", "age": 3}'


class Model(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)


@dataclass
class Data:
    name: str
    age: int


class Struct(msgspec.Struct):
    name: str
    age: int


class Tree(msgspec.Struct):
    name: str
    children: list[Tree]


class Owner(msgspec.Struct):
    dog: Struct


def asking(*steps: Any) -> testing.TestRouter:
    return testing.router_from(TOML, scripts={"a": steps})


# -- what may be asked for ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Model, Data, Struct])
def test_data_comes_as_the_type_asked_for(kind: Any) -> None:
    assert shape(kind).read(DOG) == kind(name="Rex", age=3)


@pytest.mark.parametrize("kind", [Model, Data, Struct, Tree, Owner])
def test_the_schema_of_a_type_is_an_object_closed_as_strict_modes_demand(kind: Any) -> None:
    schema = shape(kind).schema
    assert schema["type"] == "object"
    assert _is_strict(schema), schema


def test_a_type_that_holds_itself_can_be_asked_for() -> None:
    tree = {"name": "a", "children": [{"name": "b", "children": []}]}
    assert shape(Tree).read(msgspec.json.encode(tree).decode()).children[0].name == "b"
    assert "Tree" in shape(Tree).schema["$defs"]


@pytest.mark.parametrize(
    ("said", "properties"),
    [
        ("name, age int", {"name": {"type": "string"}, "age": {"type": "integer"}}),
        ("ok bool, x float , s str", {"ok": {"type": "boolean"}, "x": {"type": "number"}, "s": {"type": "string"}}),
        ("bio: one line, age int", {"bio": {"type": "string", "description": "one line"}, "age": {"type": "integer"}}),
        (
            "a int: first, second\nb",
            {"a": {"type": "integer", "description": "first, second"}, "b": {"type": "string"}},
        ),
        ("größe int", {"größe": {"type": "integer"}}),
    ],
)
def test_the_shorthand_names_fields_types_and_descriptions(said: str, properties: Any) -> None:
    schema = shorthand(said)
    assert schema["properties"] == properties
    assert schema["required"] == list(properties)
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("said", ["", " , ", "age number", "two words int", "9lives", "a int int", "x-y"])
def test_a_shorthand_that_is_none_is_refused(said: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        shorthand(said)
    assert refused.value.exit_code == 65


def test_many_are_a_list_of_items() -> None:
    schema = from_text("name", multi=True)
    assert schema["properties"]["items"]["items"] == shorthand("name")


def test_the_shell_takes_json_a_file_or_the_shorthand(tmp_path: Path) -> None:
    file = tmp_path / "dog.json"
    file.write_text('\n {"type": "object"}')
    assert from_shell(str(file)) == from_shell('{"type": "object"}') == {"type": "object"}
    assert from_shell("name") == shorthand("name")
    with pytest.raises(UsageError, match=r"gone\.json cannot be read"):
        from_shell(str(tmp_path / "gone.json"))
    file.write_text("[1]")
    with pytest.raises(RequestRefused, match="holds no JSON object"):
        from_shell(str(file))


@pytest.mark.parametrize("said", ['{"type": ', '{"type": "nosuch"}', {"type": 5}, 7, object()])
def test_what_is_no_schema_is_refused_before_anybody_is_asked(said: Any) -> None:
    router = asking(DOG)
    with pytest.raises(RequestRefused):
        router.ask("a dog", schema=said)
    assert router.requests == []


# -- how an answer is judged -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [DOG, f" {DOG}\n", f"```json\n{DOG}\n```"])
def test_json_is_read_with_or_without_a_fence(text: str) -> None:
    assert shape("name, age int").read(text) == {"name": "Rex", "age": 3}


@pytest.mark.parametrize("kind", ["name, age int", Model, Data, Struct])
@pytest.mark.parametrize("text", ["A dog called Rex.", '{"name": "Rex"}', '{"name": "Rex", "age": "three"}', "[]", ""])
def test_what_does_not_fit_says_why(kind: Any, text: str) -> None:
    with pytest.raises(Unfit, match=r"\w+"):
        shape(kind).read(text)


def test_a_model_checks_what_a_schema_cannot_say() -> None:
    with pytest.raises(Unfit, match=r"\$\.age: .*greater than or equal to 0"):
        shape(Model).read('{"name": "Rex", "age": -1}')


def test_newer_words_of_json_schema_count() -> None:
    wanted = shape({"type": "array", "prefixItems": [{"type": "string"}], "items": False})
    assert wanted.read('["a"]') == ["a"]
    with pytest.raises(Unfit):
        wanted.read('["a", 1]')


def test_a_reference_to_elsewhere_is_never_fetched(loopback: Loopback) -> None:
    wanted: Shape = shape({"$ref": f"{loopback.url()}/schema.json"})
    with pytest.raises(RequestRefused, match="refers to something it does not hold"):
        wanted.read("{}")
    assert loopback.connections == 0


# -- the repair --------------------------------------------------------------------------------------------------------


def test_an_answer_that_fits_is_asked_for_once() -> None:
    router = asking(DOG)
    assert router.ask("a dog", schema=Data).data == Data(name="Rex", age=3)
    assert len(router.requests) == 1
    assert router.requests[0][1].schema == shape(Data).schema


def test_an_answer_that_does_not_fit_is_asked_for_once_more_with_the_reason() -> None:
    router = asking("A dog called Rex.", DOG)
    answer = router.ask("a dog", schema="name, age int")
    assert (answer.data, answer.text) == ({"name": "Rex", "age": 3}, DOG)
    asked = router.requests[1][1].messages
    assert [message.role for message in asked] == ["user", "assistant", "user"]
    assert asked[1].content == "A dog called Rex."
    assert "it is not JSON" in str(asked[2].content)
    assert '"age"' in str(asked[2].content)


def test_both_requests_are_recorded_and_the_first_says_what_was_wrong() -> None:
    router = asking('{"name": "Rex"}', DOG)
    router.ask("a dog", schema="name, age int")
    first, second = testing.records(router)
    assert first.notes == ("the answer did not fit the schema: $: 'age' is a required property",)
    assert second.notes == ()
    assert testing.attempts(router) == [("a/m", "success")] * 2


def test_two_answers_that_do_not_fit_are_an_error_with_both_reasons() -> None:
    router = asking("nonsense", '{"name": "Rex"}', DOG)
    with pytest.raises(RequestRefused) as refused:
        router.ask("a dog", schema="name, age int")
    assert len(router.requests) == 2
    assert (refused.value.exit_code, refused.value.kind) == (65, "schema")
    told = "\n".join(refused.value.lines())
    assert "not JSON" in told
    assert "'age' is a required property" in told
    assert f"routekit why {testing.records(router)[1].id}" in told


def test_a_reader_never_sees_an_answer_that_does_not_fit() -> None:
    router = asking("nonsense", DOG)
    assert "".join(delta.text for delta in router.stream("a dog", schema=Data)) == DOG


def test_a_call_of_a_tool_is_no_answer_to_mend() -> None:
    router = asking(testing.answers("", tool_calls=[{"id": "t", "name": "look", "arguments": "{}"}]))
    answer = router.ask("a dog", schema=Data, tools=[{"type": "function", "function": {"name": "look"}}])
    assert answer.data is None
    assert answer.tool_calls[0]["function"]["name"] == "look"
    assert len(router.requests) == 1
