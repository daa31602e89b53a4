"""What a cage has in flight: bytes that were read of one side of its connections and not yet taken by the other.

It is bounded by reading later, never by a refusal. While a cage has more than its budget, each of its connections keeps
a little room in either direction: what is sent slowly gets through, and nobody waits for a connection of his own that
nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable

from pysandbox.gate.inspection.room import Room

MOST = 32 << 20  # bytes of one cage until it is crowded; with what its 1,024 connections may then have, 64 MiB
UNCROWDED = 3 * MOST // 4  # below which it is crowded no more
HIGH, LOW = 65536, 16384  # bytes that wait for one side, until no more is read of the other; when crowded
AT_ONCE, LITTLE = 65536, 8192  # bytes of one read


class InFlight:
    """The bytes of one cage, by connection."""

    def __init__(self) -> None:
        self.bytes, self.is_crowded = 0, False
        self.room = Room()  # for bodies that are looked at as a whole
        self._each: dict[object, int] = {}
        self._waiting: dict[object, Callable[[], object]] = {}

    def has(self, whose: object, count: int) -> None:
        """This connection has so much by now."""
        was_crowded = self.is_crowded
        self.bytes += count - self._each.get(whose, 0)
        self._each[whose] = count
        self.is_crowded = self.bytes >= (UNCROWDED if was_crowded else MOST)
        if was_crowded and not self.is_crowded:
            waiting, self._waiting = self._waiting, {}
            for goes_on in waiting.values():
                goes_on()

    def wait(self, whose: object, goes_on: Callable[[], object]) -> None:
        """Calls it once, when the cage is crowded no more."""
        self._waiting[whose] = goes_on

    def leave(self, whose: object) -> None:
        self._waiting.pop(whose, None)
        self.has(whose, 0)
        del self._each[whose]

    @property
    def is_used(self) -> bool:
        return bool(self._each)
