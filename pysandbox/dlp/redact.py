"""What may be told of a credential: how it begins, and a fingerprint by which two finds can be told to be of one.

The fingerprint is keyed: without the key, which is made anew for each process, it confirms no guess."""

from __future__ import annotations

import hashlib

PREFIX = 4
DIGEST = 4  # bytes


def fingerprint(value: bytes, key: bytes) -> str:
    """ghp_...#9f3a1c02"""
    begins = value[:PREFIX].decode("ascii", "backslashreplace")
    return f"{begins}...#{hashlib.blake2b(value, key=key, digest_size=DIGEST).hexdigest()}"
