"""The machine of the shell's tests, for those that really wait."""

from __future__ import annotations

from tests.cli.conftest import loopback, machine

__all__ = ["loopback", "machine"]
