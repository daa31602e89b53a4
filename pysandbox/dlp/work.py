"""The budget of a scan. Whatever is decoded or verified is taken from it first; what needs more is not scanned to its
end, and therefore refused."""

from __future__ import annotations

TIMES, MORE = 4, 1 << 20  # bytes of decoded text: so many times what is scanned, and so many besides


class Undecodable(Exception):
    """What cannot be looked at as a whole; says why."""


class Work:
    def __init__(self, size: int) -> None:
        self.left = TIMES * size + MORE

    def take(self, size: int) -> None:
        """Raises Undecodable when the budget is used up."""
        self.left -= size
        if self.left < 0:
            raise Undecodable("more is encoded in it, or more looks like a credential, than a scan can look at")
