"""Names of cages: a ULID (github.com/ulid/spec) each, sortable by time, and the host name that shows a part of it."""

from __future__ import annotations

import os
import time

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32


def new_id() -> str:
    """26 characters: 48 bits of milliseconds since the epoch, 80 bits of randomness."""
    number = (int(time.time() * 1000) << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join([ALPHABET[(number >> shift) & 31] for shift in range(125, -5, -5)])


def hostname(prefix: str, cage_id: str) -> str:
    return f"{prefix}{cage_id[-8:].lower()}"
