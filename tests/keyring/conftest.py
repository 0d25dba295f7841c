"""The keyring sessions, for the tests beside this file."""

from __future__ import annotations

from tests.keyring.rig import (
    absent_keyring,
    dead_keyring,
    fresh_keyring,
    locked_keyring,
    silent_keyring,
    stopped_keyring,
    unlocked_keyring,
)

__all__ = [
    "absent_keyring",
    "dead_keyring",
    "fresh_keyring",
    "locked_keyring",
    "silent_keyring",
    "stopped_keyring",
    "unlocked_keyring",
]
