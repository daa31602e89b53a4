"""How much of what one side of an inspected connection sends in TLS is content, and what is read of it at once. Pure.

A key update, an empty record or a ticket costs its sender next to nothing and its reader some 25 us, and says nothing.
So who sends many of them for little content is hung up on; and as long as little of what comes is content, little is
read in one turn, so that no other cage waits for it.
"""

from __future__ import annotations

from pysandbox.gate.inspection.in_flight import AT_ONCE

RECORD = 17408  # bytes: no record is longer, and none is content until it is whole
HEAD = 5  # bytes: type, version, and the length of what follows (RFC 8446, 5.1)
LEAST = 2048  # bytes of one read, of a side that says little; doubled with each read that is content for the most part
ALLOWED = 65536  # bytes that are no content, until it is too much: tickets, and a record that is not whole yet
PER_BYTE = 96  # more of them for each byte of content: a byte in a record of its own takes 23 to 85


class Broken(Exception):
    """The connection is gone, in the middle of something."""


class RecordMeter:
    """`most`: bytes to be read at once."""

    def __init__(self) -> None:
        self.most, self._left, self._silent = AT_ONCE // 2, ALLOWED, 0

    def took(self, came: int, content: int) -> None:
        """So many bytes were read, and brought so much content. Raises Broken."""
        self._left = min(ALLOWED, self._left - came + PER_BYTE * content)
        if self._left < 0:
            raise Broken("too many records of TLS that say nothing")
        self._silent = 0 if content else self._silent + came
        if content and 2 * content >= came:
            self.most = min(AT_ONCE, 2 * self.most)
        elif content or self._silent > RECORD:
            self.most = LEAST


class RecordEnds:
    """Follows where records end in what is received, by their heads alone."""

    def __init__(self) -> None:
        self._missing, self._begun = 0, b""  # of a record; of its head
        self.is_whole = True  # what was received ends where a record does

    def came(self, said: bytes) -> int:
        """How many records end in it."""
        at, size = self._missing, len(said)
        if self._begun:
            said, size = self._begun + said, len(self._begun) + size
        ends = 1 if 0 < at <= size else 0
        while at + HEAD <= size:
            at += HEAD + (said[at + 3] << 8 | said[at + 4])
            ends += at <= size
        self._missing, self._begun = (at - size, b"") if at >= size else (0, said[at:])
        self.is_whole = at == size
        return ends
