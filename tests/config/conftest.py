"""Reading configurations in tests: from text, with the real table of vendors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from routekit.config.convert import Vendors
from routekit.config.file import Reading, Setting, from_text, read
from routekit.config.sources import Source
from routekit.core.config import Config
from routekit.vendors.presets import API_DEFAULTS, PRESETS

SETTING = Setting(vendors=Vendors(presets=PRESETS, defaults=API_DEFAULTS))


@pytest.fixture
def setting() -> Setting:
    return SETTING


@pytest.fixture
def config() -> Callable[[str], Config]:
    """The configuration a text means; fails the test where it has errors."""
    return lambda text: from_text(text, setting=SETTING)


@pytest.fixture
def reading() -> Callable[..., Reading]:
    """The reading of one or more texts, laid over one another in order."""

    def run(*texts: str, setting: Setting = SETTING) -> Reading:
        return read([Source(name=f"{place}.toml", text=text) for place, text in enumerate(texts)], setting=setting)

    return run


@pytest.fixture
def errors(reading: Callable[..., Reading]) -> Callable[..., list[str]]:
    """Every error of a text, as ``LINE KEY: MESSAGE``."""

    def run(*texts: str) -> list[str]:
        return [f"{problem.line} {problem.key}: {problem.message}" for problem in reading(*texts).errors]

    return run


@pytest.fixture
def warnings(config: Callable[[str], Config]) -> Callable[[str], list[str]]:
    """Every warning of a text without errors, as ``LINE KEY: MESSAGE``."""

    def run(text: str) -> list[str]:
        return [f"{problem.line} {problem.key}: {problem.message}" for problem in config(text).warnings]

    return run
