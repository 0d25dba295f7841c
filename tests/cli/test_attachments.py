"""Images and PDFs: each API gets its own form, and a target that cannot read one is passed over, aloud."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n"


@pytest.fixture
def files(machine: Any) -> Any:
    (machine.cwd / "dot.png").write_bytes(PNG)
    (machine.cwd / "paper.pdf").write_bytes(PDF)
    return machine


FORMS = {
    "openai-chat": ('"type": "image_url"', '"type": "file"'),
    "openai-responses": ('"type": "input_image"', '"type": "input_file"'),
    "anthropic-messages": ('"type": "image"', '"type": "document"'),
}


def test_each_api_is_sent_its_own_form(files: Any, api: str) -> None:
    files.config("a/m", api=api)
    done = files.ask("-a", "dot.png", "-a", "paper.pdf", "What disagrees?")
    assert done.code == 0, done.err
    body = json.dumps(files.loopback.requests[-1].body)
    for form in FORMS[api]:
        assert form in body
    assert base64.b64encode(PNG).decode() in body
    assert base64.b64encode(PDF).decode() in body
    assert "What disagrees?" in body


def test_an_attachment_comes_through_the_pipe_or_alone(files: Any) -> None:
    files.config("a/m")
    assert files.ask("-a", "-", "What is it?", stdin=PNG).code == 0
    kinds = [part["type"] for part in files.loopback.requests[-1].body["messages"][-1]["content"]]
    assert kinds == ["text", "image_url"]
    assert files.ask("--at", "dot.png", "image/webp").code == 0
    (part,) = files.loopback.requests[-1].body["messages"][-1]["content"]
    assert part["image_url"]["url"].startswith("data:image/webp;base64,")


def test_a_target_that_cannot_read_it_is_passed_over_and_named(files: Any) -> None:
    providers = files.providers(names="ab")
    files.config("a/m", "b/n", providers=f"{providers}\n[providers.a.model_info.m]\npdf = false\n")
    done = files.ask("-a", "paper.pdf", "hi")
    assert (done.code, files.models()) == (0, ["n"])
    assert "chat → b/n (a/m: " in done.err
    assert "pdf" in done.err.lower()


def test_where_nobody_can_read_it_the_input_is_refused(files: Any) -> None:
    providers = files.providers(names="a")
    files.config("a/m", providers=f"{providers}\n[providers.a.model_info.m]\nimages = false\n")
    done = files.ask("-a", "dot.png", "hi")
    assert (done.code, done.out) == (65, "")
    assert files.loopback.requests == []


def test_an_image_of_an_earlier_question_goes_along_with_the_next(files: Any) -> None:
    files.config("a/m")
    assert files.ask("-a", "dot.png", "What is it?").code == 0
    assert files.ask("-c", "Sure?").code == 0
    first = files.loopback.requests[-1].body["messages"][0]["content"]
    assert base64.b64encode(PNG).decode() in json.dumps(first)
    shown = files.run("logs", "list", "--json").json
    assert [row["prompt"] for row in shown] == ["What is it?", "Sure?"]
