"""From a credential reference to a secret, under a deadline. It prints and logs none, and stores one only where asked.

core/keyref   where a key is kept, as a config writes it          ledger      what is remembered about stored keys
secret        a secret, and what one may look like                keeping     store, remove, status
sources       reference → Secret: variable, file, and             redact      secrets out of text
  command     … a command,
  os_keyring  … the keyring
"""

from __future__ import annotations

from ..core.keyref import CredentialRef, is_ref, looks_like_key, parse_ref
from .keeping import KeyStatus, Stored, remove, renewing, status, store
from .ledger import KeyPlace, KeyRecord, barred, host_allowed, host_of, not_for, own_entry, read_ledger, stored_hosts
from .os_keyring import KEYRING_DEADLINE
from .os_keyring import likely as keyring_likely
from .redact import Redactor
from .secret import Secret, clean_key, key_tag
from .sources import COMMAND_DEADLINE, resolve, resolve_async

__all__ = [
    "COMMAND_DEADLINE", "KEYRING_DEADLINE", "CredentialRef", "KeyPlace", "KeyRecord", "KeyStatus", "Redactor", "Secret",
    "Stored", "barred", "clean_key", "host_allowed", "host_of", "is_ref", "key_tag", "keyring_likely", "looks_like_key",
    "not_for", "own_entry", "parse_ref", "read_ledger", "remove", "renewing", "resolve", "resolve_async", "status",
    "store", "stored_hosts",
]  # fmt: skip
