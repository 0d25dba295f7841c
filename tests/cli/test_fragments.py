"""Files, addresses and the pipe as part of a question: fragments, system prompts from files, a model by its letters."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest


def sent(machine: Any) -> Any:
    return machine.loopback.requests[-1].body["messages"]


@pytest.fixture
def site() -> Iterator[str]:
    """A web server with one text on it."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/notes.txt"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(b"from the web\n" if found else b"")

        def log_message(self, *_: Any) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_fragments_come_first_then_the_pipe_then_the_words(machine: Any, site: str) -> None:
    machine.config("a/m")
    (machine.cwd / "a.txt").write_text("from a file\n\n")
    done = machine.ask("-f", "a.txt", "-f", f"{site}/notes.txt", "and?", stdin="piped\n")
    assert (done.code, done.err) == (0, "")
    assert sent(machine)[-1]["content"] == "from a file\nfrom the web\npiped\nand?"


def test_the_pipe_can_be_a_fragment_or_a_system_prompt(machine: Any) -> None:
    machine.config("a/m")
    assert machine.ask("-f", "-", "and?", stdin="piped\n").code == 0
    assert sent(machine)[-1]["content"] == "piped\nand?"
    assert machine.ask("--sf", "-", "-s", "Brief.", "and?", stdin="Be kind.\n").code == 0
    assert [row["content"] for row in sent(machine)] == ["Be kind.\nBrief.", "and?"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-f", "nosuch.txt"], "nosuch.txt cannot be read: No such file or directory"),
        (["-f", "binary"], "binary is not text in UTF-8"),
        (["-f", "SITE/gone"], "cannot be fetched: HTTP 404"),
        (["--sf", "."], "cannot be read: Is a directory"),
        (["--schema", "nosuch.json"], "cannot be read"),
        (["-a", "nosuch.png"], "nosuch.png cannot be read: No such file or directory"),
        (["-a", "a.txt"], "is neither an image"),
        (["--at", "a.txt", "text/plain"], "text/plain cannot be attached"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_read_asks_nobody_and_exits_with_65(
    machine: Any, site: str, arguments: list[str], words: str
) -> None:
    machine.config("a/m")
    (machine.cwd / "binary").write_bytes(b"\xff\xfe\x00")
    (machine.cwd / "a.txt").write_text("plain")
    done = machine.ask(*(word.replace("SITE", site) for word in arguments), "hi")
    assert (done.code, done.out) == (65, "")
    assert words in done.err
    assert machine.loopback.requests == []


def test_standard_input_can_be_named_once(machine: Any) -> None:
    machine.config("a/m")
    done = machine.ask("-f", "-", "-a", "-", "hi", stdin="x")
    assert done.code == 2
    assert "only one option can say '-'" in done.err


def test_a_query_takes_the_shortest_model_and_names_several(machine: Any) -> None:
    providers = machine.providers().replace('key = "env:KEY_C"', 'key = "env:KEY_C"\nmodels = ["terra", "terra-mini"]')
    machine.config("a/m", providers=providers.replace('"env:KEY_B"', '"env:KEY_B"\nmodels = ["sol-1", "sol-2"]'))
    assert machine.ask("-q", "TERRA", "hi").code == 0
    assert machine.models() == ["terra"]
    assert machine.ask("-q", "mini", "-q", "c/", "hi").code == 0
    assert machine.models() == ["terra", "terra-mini"]
    several = machine.ask("-q", "sol", "hi")
    assert several.code == 2
    assert "'sol' could be b/sol-1, b/sol-2" in several.err
    assert machine.ask("-q", "nosuch", "hi").code == 2
    assert machine.ask("-q", "terra", "-m", "a/m", "hi").code == 2
    assert len(machine.models()) == 2


def test_a_prompt_is_written_in_the_editor_and_leaves_no_file(machine: Any) -> None:
    machine.config("a/m")
    editor = machine.place / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s, edited\\n" "$(cat "$1")" > "$1"\n')
    editor.chmod(0o755)
    done = machine.ask("--edit", "draft", env={"EDITOR": str(editor)})
    assert (done.code, done.err) == (0, "")
    assert sent(machine)[-1]["content"] == "draft, edited"
    assert list(machine.home.glob("prompt-*")) == []
    editor.write_text('#!/bin/sh\n: > "$1"\n')
    emptied = machine.ask("--edit", "draft", env={"EDITOR": str(editor)})
    assert (emptied.code, "nothing to ask" in emptied.err) == (2, True)


# -- --key -------------------------------------------------------------------------------------------------------------


def keys(machine: Any) -> list[str]:
    return [request.header("authorization")[0] for request in machine.loopback.requests]


def test_another_accounts_key_is_used_by_its_name(machine: Any) -> None:
    machine.config("a/m")
    assert machine.ask("--key", "b", "hi").code == 0
    assert machine.ask("hi").code == 0
    assert [key.split("-")[2] for key in keys(machine)] == ["bbbb", "aaaa"]


def test_a_key_is_never_taken_for_its_name(machine: Any) -> None:
    machine.config("a/m")
    secret = "sk-canary-dddd-3333333333"
    done = machine.ask("--key", secret, "hi", "--debug")
    assert done.code == 2
    assert "never the key itself" in done.err
    assert secret not in done.err + done.out
    assert machine.ask("--key", "nobody", "hi").code == 2
    assert machine.loopback.requests == []


def test_a_key_is_sent_to_no_host_that_it_is_not_for(machine: Any) -> None:
    other = '[providers.d]\napi = "openai-chat"\nbase_url = "http://localhost:1/v1"\nkey = "env:KEY_B"'
    machine.config("a/m", more=other)
    done = machine.ask("--key", "d", "hi")
    assert done.code == 2
    assert "may be sent the key d" in done.err
    assert machine.loopback.requests == []
