"""`pysandbox.sha256` is what the standard library computes."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from pysandbox.sha256 import hmac_sha256, sha256


@pytest.mark.parametrize("size", [0, 1, 31, 32, 63, 64, 65, 200])
def test_the_code_of_a_message_is_the_standard_one(size: int) -> None:
    for key in (b"k" * size, bytes(range(size % 256))):
        assert hmac_sha256(key, b"m" * size) == hmac.digest(key, b"m" * size, "sha256")
    assert sha256(b"m" * size).digest() == hashlib.sha256(b"m" * size).digest()
