"""Ctrl-C ends a question at once, whatever it is waiting for, and lets go of the vendor."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import answer

#: how long a process may take to end after Ctrl-C here; the promise of 0.2 s is for a machine that is not busy
SOON = 1.0

#: runs the command line after replacing one function of the standard library by one that hangs, as a bad day does
HANGING = """
import sys, time, {module}
def hang(*args, **more):
    sys.stderr.write("hanging\\n"); sys.stderr.flush()
    time.sleep(3600)
{module}.{function} = hang
from routekit.cli import main
sys.exit(main())
"""


def gone(machine: Any) -> None:
    """The vendor has noticed that its client left."""
    machine.until(lambda: machine.loopback.requests[-1].closed_by == "client", 1.0)


def interrupted(machine: Any, child: Any) -> Any:
    done, took = machine.interrupt(child)
    assert done.code == -signal.SIGINT
    assert took < SOON
    assert "Traceback" not in done.err
    return done


@pytest.mark.parametrize("hang", ["accept", "headers"])
def test_ctrl_c_before_the_first_byte_lets_go_of_the_vendor(machine: Any, api: str, hang: str) -> None:
    machine.config("a/m", api=api)
    machine.loopback.script("m", {"hang": hang})
    child = machine.start("ask", "hi")
    machine.until(lambda: machine.loopback.requests)
    done = interrupted(machine, child)
    gone(machine)
    assert (done.raw, done.err) == (b"", "routekit: interrupted\n")


def test_ctrl_c_during_the_answer_keeps_what_came(machine: Any, api: str) -> None:
    machine.config("a/m", api=api)
    machine.loopback.script("m", {"tokens": 400, "delay": 0.05})
    child = machine.start("ask", "--stream", "hi")
    assert machine.read(child, 12) == b"word1 word2 "
    done = interrupted(machine, child)
    gone(machine)
    assert (b"word1 word2 " + done.raw).decode().startswith(answer(3))
    assert done.raw.endswith(b"\n")
    assert done.err == "routekit: interrupted\n"
    record = machine.why()
    assert record["error"] == {"class": "cancelled", "message": "interrupted", "exit_code": 130}
    assert [row["outcome"] for row in record["attempts"]] == ["cancelled"]
    assert machine.run("health", "--json").json == []


def test_ctrl_c_of_a_held_back_answer_shows_nothing(machine: Any) -> None:
    machine.config("a/m", "b/n")
    machine.loopback.script("m", {"tokens": 400, "delay": 0.05})
    child = machine.start("ask", "hi")
    machine.until(lambda: machine.loopback.requests and machine.loopback.requests[0].sent > 3)
    done = interrupted(machine, child)
    assert done.raw == b""
    assert machine.models() == ["m"]


def test_ctrl_c_during_a_wait_between_attempts(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"status": 429, "headers": {"Retry-After": "4"}})
    child = machine.start("ask", "hi")
    machine.until(lambda: machine.loopback.requests and machine.loopback.requests[0].closed_by)
    interrupted(machine, child)
    assert machine.loopback.count("m") == 1


@pytest.mark.parametrize(
    ("module", "function"), [("socket", "getaddrinfo"), ("subprocess", "Popen")], ids=["name-lookup", "key-command"]
)
def test_ctrl_c_while_something_hangs(machine: Any, module: str, function: str) -> None:
    url = "https://vendor.invalid/v1" if module == "socket" else machine.loopback.url()
    key = "cmd:some-command" if module == "subprocess" else "env:KEY_A"
    machine.config("a/m", providers=f'[providers.a]\napi = "openai-chat"\nbase_url = "{url}"\nkey = "{key}"')
    code = HANGING.format(module=module, function=function)
    child = machine.start("ask", "hi", python=("-c", code))
    assert child.stderr.readline() == b"hanging\n"
    interrupted(machine, child)


def test_ctrl_c_while_the_keyring_hangs(machine: Any, tmp_path: Any) -> None:
    (tmp_path / "stuck.py").write_text(
        "import sys, time\nfrom keyring.backend import KeyringBackend\n"
        "class Keyring(KeyringBackend):\n    priority = 1\n"
        "    def get_password(self, service, name):\n"
        "        sys.stderr.write('hanging\\n'); sys.stderr.flush(); time.sleep(3600)\n"
        "    set_password = delete_password = get_password\n"
    )
    url = machine.loopback.url()
    machine.config("a/m", providers=f'[providers.a]\napi = "openai-chat"\nbase_url = "{url}"\nkey = "keyring"')
    path = f"{tmp_path}:{machine.environ()['PYTHONPATH']}"
    env = {"PYTHON_KEYRING_BACKEND": "stuck.Keyring", "PYTHONPATH": path}
    child = machine.start("ask", "hi", env=env)
    assert child.stderr.readline() == b"hanging\n"
    interrupted(machine, child)


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_ctrl_c_while_an_sdk_is_being_imported(machine: Any, tmp_path: Any, sdk: str) -> None:
    package = tmp_path / "early" / sdk
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import sys, time\nsys.stderr.write('hanging\\n'); sys.stderr.flush()\ntime.sleep(3600)\n"
    )
    machine.config("a/m", api="openai-chat" if sdk == "openai" else "anthropic-messages")
    child = machine.start("ask", "hi", env={"PYTHONPATH": f"{package.parent}:{machine.environ()['PYTHONPATH']}"})
    assert child.stderr.readline() == b"hanging\n"
    interrupted(machine, child)
    assert machine.loopback.requests == []


def begun(child: Any) -> None:
    """Wait for the command line to begin: the moment at which it takes Python's own handler of Ctrl-C away. A machine
    too busy to let us see that moment is past it a second later."""
    began, caught = time.monotonic(), False
    while time.monotonic() < began + (1 if caught else 30):
        status = Path(f"/proc/{child.pid}/status").read_text()
        mask = int(status.partition("SigCgt:")[2].split()[0], 16)
        if caught and not mask & 2:
            return
        caught = caught or bool(mask & 2)
        time.sleep(0.001)


@pytest.mark.parametrize("after", [0.0, 0.03, 0.06, 0.1, 0.2, 0.4])
def test_ctrl_c_at_any_moment_ends_without_a_traceback(machine: Any, after: float) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"hang": "headers"})
    child = machine.start("ask", "hi")
    begun(child)
    time.sleep(after)
    interrupted(machine, child)


def test_ctrl_c_while_standard_input_is_read(machine: Any) -> None:
    machine.config("a/m")
    child = machine.start("ask", "hi", stdin=-1)
    assert b"waiting for standard input" in child.stderr.readline()
    interrupted(machine, child)
    assert machine.loopback.requests == []


def test_a_second_ctrl_c_ends_it_even_while_it_tidies_up(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"hang": "headers"})
    child = machine.start("ask", "hi")
    machine.until(lambda: machine.loopback.requests)
    child.send_signal(signal.SIGINT)
    time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=SOON) == -signal.SIGINT
    assert "Traceback" not in machine.finish(child).err


def test_an_interrupted_question_cools_nobody_and_goes_to_nobody_else(machine: Any) -> None:
    machine.config("a/m", "b/n")
    machine.loopback.script("m", {"hang": "headers"})
    machine.config("a/m", "b/n", limits='first_output = "30s"\nstall = "30s"')
    child = machine.start("ask", "hi")
    machine.until(lambda: machine.loopback.requests)
    interrupted(machine, child)
    assert machine.models() == ["m"]
    assert machine.run("health", "--json").json == []


def test_a_shell_sees_130(machine: Any) -> None:
    machine.config("a/m")
    machine.loopback.script("m", {"hang": "headers"})
    code = (
        "import subprocess, sys, signal, time\n"
        f"child = subprocess.Popen([{sys.executable!r}, '-m', 'routekit', 'ask', 'hi'], stdin=subprocess.DEVNULL)\n"
        "sys.stdin.readline()\nchild.send_signal(signal.SIGINT)\nsys.exit(128 - child.wait())\n"
    )
    outer = machine.start(python=("-c", code), stdin=-1)
    machine.until(lambda: machine.loopback.requests)
    assert machine.finish(outer, data=b"now\n").code == 130
