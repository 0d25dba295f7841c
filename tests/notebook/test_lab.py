"""The example notebook in JupyterLab in a real browser: opened, run from top to bottom, looked at."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

#: a browser without a screen that asks nobody on the net anything
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1200,1000 --hide-scrollbars"
).split()
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
#: the last state of every output, as the page shows it
OUTPUTS = """
return [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')].map(cell => ({
  text: [...cell.querySelectorAll('.jp-OutputArea-output')].map(one => one.innerText).join('\\n'),
  pictures: [...cell.querySelectorAll('.jp-OutputArea-output svg, .jp-OutputArea-output img')]
    .filter(one => one.getBoundingClientRect().width > 100 && (one.tagName !== 'IMG' || one.naturalWidth > 0)).length,
  markdown: cell.querySelectorAll('.jp-RenderedMarkdown').length,
  failed: cell.querySelectorAll('.jp-RenderedText[data-mime-type$=error]').length,
  prompt: cell.querySelector('.jp-InputPrompt').innerText,
}));
"""


@pytest.fixture
def lab(tmp_path: Path, root: Path) -> Iterator[str]:
    """JupyterLab's address, over a copy of the example."""
    shutil.copy(root / "examples" / "notebook.ipynb", tmp_path / "notebook.ipynb")
    for name, said in SETTINGS.items():
        file = tmp_path / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(said), "utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = dict(os.environ) | {
        "ROUTEKIT_HOME": str(tmp_path / "rk"),
        "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(tmp_path / "workspaces"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    words = f"--no-browser --allow-root --ip=127.0.0.1 --port={port} --IdentityProvider.token= --expose-app-in-browser"
    command = [sys.executable, "-m", "jupyterlab", *words.split(), f"--ServerApp.root_dir={tmp_path}"]
    with (tmp_path / "lab.log").open("wb") as log:
        server = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        _until(lambda: _answers(f"http://127.0.0.1:{port}/api"), "JupyterLab", 40)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _until(true: Callable[[], Any], what: str, seconds: float) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = true()
        if found:
            return found
        time.sleep(0.2)
    return pytest.fail(f"waited {seconds} s for {what}")


@pytest.fixture
def browser(tmp_path: Path, need: Callable[..., str], absent: Callable[[str], None]) -> Iterator[Any]:
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        absent("selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = need("chromium")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'browser'}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(need("chromedriver", "chromium-driver")))
    yield driver
    driver.quit()


def _ran(browser: Any) -> list[dict[str, Any]]:
    """All code cells once the last has run or one has failed; empty before."""
    cells: list[dict[str, Any]] = browser.execute_script(OUTPUTS)
    numbered = [cell["prompt"].strip("[]: ").isdigit() for cell in cells]
    return cells if cells and (all(numbered) or any(cell["failed"] for cell in cells)) else []


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_the_example_runs_in_a_browser(
    lab: str, browser: Any, tmp_path: Path, original_environment: dict[str, str]
) -> None:
    browser.get(f"{lab}/lab/tree/notebook.ipynb")
    ready = "return !!document.querySelector('.jp-Notebook .jp-CodeCell') && !!window.jupyterapp"
    _until(lambda: browser.execute_script(ready), "the notebook", 60)
    browser.execute_script(
        "const panel = window.jupyterapp.shell.currentWidget;"
        "window.jupyterapp.commands.execute('application:toggle-left-area');"
        "panel.sessionContext.ready.then(() => window.jupyterapp.commands.execute('notebook:run-all-cells'));"
    )
    cells = _until(lambda: _ran(browser), "all cells to run", 60)
    assert [cell["text"] for cell in cells if cell["failed"]] == []
    streamed = next(cell for cell in cells if "what's" in cell["text"])
    assert streamed["markdown"] == 1
    assert """Hello from the demo. You asked: what's {"a": 1} in JSON, and is 17 prime?""" in streamed["text"]
    assert "demo → demo-backup/model · " in streamed["text"]
    assert "not demo-primary/model: 503" in streamed["text"]
    assert sum(cell["pictures"] for cell in cells) >= 5
    pictures = Path(original_environment.get("ROUTEKIT_SCREENSHOTS", tmp_path))
    for name, words in (("answer", "what's"), ("tree", "answered in"), ("chart", "median")):
        place = next(
            number
            for number, cell in enumerate(cells)
            if words in cell["text"] or (name == "tree" and cell["pictures"])
        )
        browser.execute_script(
            "document.querySelectorAll('.jp-Notebook .jp-CodeCell')[arguments[0]].scrollIntoView({block: 'center'})",
            place,
        )
        assert browser.save_screenshot(str(pictures / f"notebook-{name}.png"))
