"""Handles: opaque numbers, each of one owner and one kind, never issued twice.

The number is a keyed permutation of a counter: nobody guesses a live one, two are never alike, and the same key gives
the same numbers. What a number stands for is known in two places that check each other: the runtime's side table
(`SideTable`, before a call) and the kernel's own (`kernel.owned.OwnedHandles`, in it).
"""

from __future__ import annotations

import hashlib
import os

from pysandbox.shapes import NamedTuple

HALF = 26  # bits; a number has twice as many below its highest one, and is exact in a double
MASK = (1 << HALF) - 1
ROUNDS = 4


class Numbers:
    """The numbers of one kernel. `key` None: of the system's randomness."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = os.urandom(16) if key is None else key
        self._count = 0

    def next(self) -> int:
        self._count += 1
        left, right = self._count >> HALF & MASK, self._count & MASK
        for each in range(ROUNDS):
            left, right = right, left ^ self._mixed(each, right)
        return 1 << 2 * HALF | left << HALF | right

    def _mixed(self, number: int, half: int) -> int:
        text = bytes((number, *half.to_bytes(4, "little")))
        return int.from_bytes(hashlib.blake2s(text, key=self._key, digest_size=4).digest(), "little") & MASK


class Constant(int):
    """A number that stands where a handle belongs: in the log a number, in the side table never an entry, whose numbers
    are of the type int itself."""


class Entry(NamedTuple):
    owner: str
    kind: str


class SideTable:
    """What the runtime knows of live handles. One table serves every app of a kernel."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}

    def find(self, number: object) -> Entry | None:
        """None for what is no number of a live handle; True and 1.0 are none, although they are equal to one."""
        return self._entries.get(number) if type(number) is int else None

    def hold(self, number: int, owner: str, kind: str) -> bool:
        """False when the number is live already: a kernel that issues one twice is not believed."""
        return self._entries.setdefault(number, entry := Entry(owner, kind)) is entry

    def free(self, number: int) -> None:
        self._entries.pop(number, None)

    def forget(self, owner: str) -> None:
        self._entries = {number: each for number, each in self._entries.items() if each.owner != owner}
