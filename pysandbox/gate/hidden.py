"""Refusals that are told without what was asked for, because a credential is in it: what each is told as, by a keyed
hash of what was asked for. So who asks for the same again costs a look into a table, and nothing of it is kept.
"""

from __future__ import annotations

import os
from hashlib import blake2b

from pysandbox.denial import Denial


class HiddenDenials:
    """What one cage was refused so. The ledger bounds it. Any thread may call it."""

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._told: dict[bytes, Denial] = {}

    def __len__(self) -> int:
        return len(self._told)

    def told(self, asked: Denial) -> Denial:
        """What a refusal is told as, as far as that is known: as it is, where nothing was hidden of it."""
        return self._told.get(self._digest(asked), asked) if self._told else asked

    def keep(self, asked: Denial, told: Denial) -> None:
        self._told[self._digest(asked)] = told

    def _digest(self, asked: Denial) -> bytes:
        return digest(self._key, f"{asked.kind}\0{asked.target}\0{asked.rule}\0{asked.command}")


def digest(key: bytes, text: str) -> bytes:
    """Tells two texts apart, and says nothing of them to who has not the key."""
    return blake2b(text.encode("utf-8", "replace"), key=key, digest_size=16).digest()
