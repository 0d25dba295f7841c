"""A key reaches its own vendor and nothing else: no other provider, no output, no file, whatever the vendor answers."""

from __future__ import annotations

import base64
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

#: they have no key's shape, so that only knowing them can keep them out
CANARIES = {"env": "kanarie-env-0a1b2c3d4e", "file": "kanarie file+/=%~5f6g7h", "cmd": 'kanarie-cmd-"8i9j0k"'}
CANARIES["file"] = CANARIES["file"].replace(" ", "-")
LOUD = ["--debug", "-v", "--explain", "-u"]


class Birds:
    """Three providers whose keys come from the three sources, and a search for the keys in everything left behind."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.said: list[bytes] = []
        secret = machine.place / "secret"
        secret.write_text(CANARIES["file"] + "\n")
        secret.chmod(0o600)
        script = machine.place / "print-key"
        script.write_text(f"#!/bin/sh\nprintf '%s\\n' '{CANARIES['cmd']}'\n")
        script.chmod(0o700)
        self.sources = {"a": "env:KEY_A", "b": f"file:{secret}", "c": f"cmd:{script}"}

    def config(self, *, api: str = "openai-chat", url: str | None = None, targets: str = "abc", **more: Any) -> None:
        rows = [
            f'[providers.{name}]\napi = "{api}"\nbase_url = "{url or self.machine.loopback.url(api)}"\n'
            f"key = '{source}'"
            for name, source in self.sources.items()
        ]
        self.machine.config(*(f"{name}/m{name}" for name in targets), providers="\n".join(rows), **more)

    def script(self, *steps: dict[str, Any]) -> None:
        """Each vendor plays these steps, with the key that it was sent."""
        for name, key in zip("abc", CANARIES.values(), strict=True):
            self.machine.loopback.script(f"m{name}", *(told({"headers": HEADERS, **step}, key) for step in steps))

    def run(self, *arguments: str, env: Any = None) -> Any:
        done = self.machine.run(*arguments, env={"KEY_A": CANARIES["env"], **(env or {})})
        self.said += [done.raw, done.err.encode()]
        return done

    def check(self) -> None:
        """Also what is told afterwards, and every file."""
        for arguments in (["why"], ["why", "--json"], ["health", "--json"]):
            self.run(*arguments)
        files = [path for path in self.machine.home.rglob("*") if path.is_file()]
        assert any(path.name == "state.db" for path in files)
        for where in [*self.said, *(path.read_bytes() for path in files)]:
            for form in forms():
                assert form not in where, (form, where[:4000])


def forms() -> list[bytes]:
    raw = [canary.encode() for canary in CANARIES.values()]
    return [*raw, *(base64.b64encode(one).rstrip(b"=")[:-1] for one in raw), *(one.hex().encode() for one in raw)]


@pytest.fixture
def birds(machine: Any) -> Birds:
    return Birds(machine)


#: in a step, what becomes the key that the vendor was sent
KEY = "THE-KEY"


def echo(message: str = "refused", **fields: Any) -> dict[str, Any]:
    said = f"{message}: {KEY}, Authorization: Bearer {KEY}, https://x:{KEY}@h.example/?key={KEY}"
    return {"error": {"message": said, "type": KEY, "param": KEY, **fields}}


HEADERS = {"x-request-id": KEY, "request-id": KEY, "WWW-Authenticate": f'Bearer token="{KEY}"'}
FAULTS: dict[str, dict[str, Any]] = {
    "transient": {"status": 503, "body": echo()},
    "timeout": {"hang": "headers"},
    "rate_limit": {"status": 429, "body": echo()},
    "quota": {"status": 429, "body": echo(code="insufficient_quota")},
    "auth": {"status": 401, "body": echo("Incorrect API key provided", code="invalid_api_key")},
    "region": {"status": 403, "body": echo("Country, region, or territory not supported")},
    "model_gone": {"status": 404, "body": echo(code="model_not_found")},
    "unsupported": {"status": 400, "body": echo("Unsupported parameter", code="unsupported_parameter")},
    "context": {"status": 400, "body": echo(code="context_length_exceeded")},
    "content_filter": {"status": 400, "body": echo(code="content_policy_violation")},
    "request": {"status": 422, "body": echo()},
    "client_error": {"status": 424, "body": echo()},
    "setup": {"redirect": f"http://u:{KEY}@127.0.0.1/?key={KEY}"},
    "truncated": {"cut_after": 3, "cut": "rst"},
    "in-stream": {"error_after": 0, "error": echo()["error"]},
    "in-stream-later": {"error_after": 2, "error": echo()["error"]},
    "html": {"status": 200, "body": f"<title>Log in as {KEY}</title>"},
    "json": {"status": 200, "body": echo()},
    "code": {"status": 400, "body": echo(code=KEY)},
    "garbage": {"raw": f"HTTP/1.1 {KEY}\r\n\r\n"},
    "not-http": {"raw": f"{KEY}\r\n\r\n"},
    "broken-event": {"sse": [f'data: {{"content": "{KEY}\n\n'], "end": "clean"},
}


def told(value: Any, key: str) -> Any:
    """The step as a vendor plays it that was sent this key."""
    if isinstance(value, str):
        return value.replace(KEY, key)
    if isinstance(value, dict):
        return {name: told(one, key) for name, one in value.items()}
    return [told(one, key) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("fault", FAULTS)
def test_no_key_is_told_on_any_error_path(birds: Birds, fault: str) -> None:
    birds.script(FAULTS[fault])
    if fault == "timeout":
        # The last one's silence is waited for until the deadline.
        birds.machine.loopback.script("ma", {"status": 503})
    birds.config(targets="bca", **({"limits": 'first_output = "400ms"'} if fault == "timeout" else {}))
    done = birds.run("ask", "hi", *LOUD, "--json")
    assert done.code not in (0, 2, 70)
    assert done.json["attempts"]
    birds.check()


@pytest.mark.parametrize("api", ["openai-responses", "anthropic-messages"])
def test_no_key_is_told_by_the_other_sdks_either(birds: Birds, api: str) -> None:
    birds.script({"status": 503, "body": echo()}, {"error_after": 0, "error": echo()["error"]})
    birds.config(api=api)
    assert birds.run("ask", "hi", *LOUD).code == 69
    birds.check()


def test_no_key_is_told_on_success(birds: Birds, api: str) -> None:
    birds.script({"model": KEY, "text": "fine"})
    birds.machine.loopback.script("mb", told({"status": 401, "body": echo()}, CANARIES["file"]))
    birds.config(api=api, targets="bca")
    assert birds.run("ask", "hi", *LOUD).code == 0
    assert birds.run("ask", "hi", *LOUD, "--json").code == 0
    birds.run("routes", "preview")
    birds.run("config", "show")
    birds.check()


def test_no_key_is_told_when_nobody_can_be_reached(birds: Birds) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        birds.config(url=f"http://127.0.0.1:{closed.getsockname()[1]}/v1")
    assert birds.run("ask", "hi", *LOUD).code == 69
    birds.check()


@pytest.mark.parametrize(
    "key",
    ["kanarie-env-0a1b2c3d4e\nx", "x\nkanarie-env-0a1b2c3d4e", "kanarie-env-0a1b2c3d4e\r\nX-Evil: 1", "kanarie-env-é"],
)
def test_a_key_no_header_can_hold_is_refused_untold(birds: Birds, key: str) -> None:
    birds.config(targets="a")
    done = birds.run("ask", "hi", *LOUD, env={"KEY_A": key})
    assert done.code in (77, 78)
    assert "KEY_A" in done.err
    assert birds.machine.loopback.requests == []
    birds.check()
    assert "X-Evil" not in done.err
    assert "kanarie" not in done.err


BROKEN = """
import os, sys
real = os.urandom
def urandom(count):
    if count == 16 and sys._getframe(1).f_globals["__name__"].startswith("routekit"):
        raise RuntimeError("no chance: " + os.environ["KEY_A"])
    return real(count)
os.urandom = urandom
from routekit.cli import main
sys.exit(main())
"""


def test_a_bugs_traceback_tells_no_key(birds: Birds) -> None:
    """The salt is drawn when a key was refused: a moment at which the key has been read."""
    birds.script(FAULTS["auth"])
    birds.config(targets="a")
    child = birds.machine.start("ask", "hi", "--debug", python=("-c", BROKEN), env={"KEY_A": CANARIES["env"]})
    done = birds.machine.finish(child)
    assert done.code == 70
    assert "RuntimeError: no chance: •••" in done.err
    assert CANARIES["env"] not in done.err


def test_a_key_with_a_stray_newline_at_its_end_just_works(birds: Birds) -> None:
    birds.config(targets="a")
    assert birds.run("ask", "hi", env={"KEY_A": CANARIES["env"] + "\n"}).code == 0
    assert birds.machine.loopback.requests[0].header("authorization") == [f"Bearer {CANARIES['env']}"]


def test_a_command_that_prints_the_key_and_fails_is_quoted_without_it(birds: Birds) -> None:
    script = Path(birds.sources["c"].partition(":")[2])
    script.write_text(f"#!/bin/sh\necho '{CANARIES['cmd']}'\necho 'the vault is sealed' >&2\nexit 3\n")
    birds.config(targets="c")
    done = birds.run("ask", "hi", *LOUD)
    assert done.code == 77
    assert "the vault is sealed" in done.err
    birds.check()


def test_no_key_is_an_argument_of_any_process(birds: Birds) -> None:
    birds.script({"hang": "headers"})
    birds.config(targets="c", limits='stall = "30s"')
    child = birds.machine.start("ask", "hi")
    birds.machine.until(lambda: birds.machine.loopback.requests)
    listed = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    assert any(str(child.args[-1]).encode() in line for line in listed)
    assert not any(form in line for line in listed for form in forms())


# -- hermetic clients --------------------------------------------------------------------------------------------------

HOSTILE = {
    "OPENAI_API_KEY": "evil-openai-key",
    "OPENAI_ADMIN_KEY": "evil-admin-key",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/evil",
    "OPENAI_ORG_ID": "evil-org",
    "OPENAI_PROJECT_ID": "evil-project",
    "OPENAI_WEBHOOK_SECRET": "evil-webhook",
    "OPENAI_CUSTOM_HEADERS": (
        "Authorization: Bearer evil-1\nauthorization: Bearer evil-2\nAUTHORIZATION: evil-3\n"
        "X-Evil: evil-4\nContent-Type: evil/5\nUser-Agent: evil-6\nOpenAI-Organization: evil-7\nx-api-key: evil-8"
    ),
    "OPENAI_LOG": "debug",
    "ANTHROPIC_API_KEY": "evil-anthropic-key",
    "ANTHROPIC_AUTH_TOKEN": "evil-token",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/evil",
    "ANTHROPIC_PROFILE": "evil-profile",
    "ANTHROPIC_CUSTOM_HEADERS": (
        "Authorization: Bearer evil-1\nauthorization: Bearer evil-2\nX-Api-Key: evil-3\nx-api-key: evil-4\n"
        "anthropic-version: evil-5\nX-Evil: evil-6\nanthropic-beta: evil-7"
    ),
    "ANTHROPIC_LOG": "debug",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "ALL_PROXY": "http://127.0.0.1:9",
}


def test_a_hostile_environment_reaches_no_vendor(machine: Any, api: str) -> None:
    folder = machine.place / "anthropic"
    folder.mkdir()
    (folder / "evil-profile.json").write_text(json.dumps({"api_key": "evil-file", "base_url": "http://127.0.0.1:9"}))
    machine.config("a/m", "b/n", "c/o", api=api)
    machine.loopback.script("m", {"status": 500})
    machine.loopback.script("n", {"status": 500})
    done = machine.ask("hi", env={**HOSTILE, "ANTHROPIC_CONFIG_DIR": str(folder)})
    assert done.code == 0, done.err
    assert machine.models() == ["m", "m", "n", "n", "o"]
    for request in machine.loopback.requests:
        mine = machine.environ()[f"KEY_{'ABC'['mno'.index(request.model)]}"]
        assert request.header("authorization") == [f"Bearer {mine}"]
        assert request.header("x-api-key") == []
        rest = [(name, value) for name, value in request.headers if name.lower() != "authorization"]
        assert "evil" not in repr(rest).lower()
        assert "canary" not in repr(rest)
        assert request.header("content-type") == ["application/json"]
    assert done.raw.startswith(b"word1 ")
    assert "evil" not in done.err


def test_a_named_accounts_key_is_never_replaced_by_the_vendors_usual_variable(machine: Any) -> None:
    machine.config("a/m", api="openai-responses")
    done = machine.ask("hi", env={"KEY_A": None, "OPENAI_API_KEY": "evil-openai-key"})
    assert done.code == 77
    assert machine.loopback.requests == []


def test_a_redirect_is_not_followed(machine: Any, api: str) -> None:
    machine.config("a/m", api=api)
    machine.loopback.script("m", {"redirect": f"{machine.loopback.url(api)}/elsewhere"})
    assert machine.ask("hi").code == 78
    assert len(machine.loopback.requests) == 1
