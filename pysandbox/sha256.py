"""SHA-256, and HMAC with it (RFC 2104), without hashlib: that loads OpenSSL, which takes longer than a cage's start."""

from __future__ import annotations

try:
    from _sha2 import sha256  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        from hashlib import sha256

__all__ = ["hmac_sha256", "sha256"]

BLOCK = 64


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """The code of a message; `csrc/launcher/sha256.c` makes the same."""
    padded = (sha256(key).digest() if len(key) > BLOCK else key).ljust(BLOCK, b"\0")
    inner = sha256(bytes(each ^ 0x36 for each in padded) + message).digest()
    code: bytes = sha256(bytes(each ^ 0x5C for each in padded) + inner).digest()
    return code
