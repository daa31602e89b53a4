"""Names that were not told before. Any thread; cheap to import."""

from __future__ import annotations

from _thread import allocate_lock


class NewNames:
    """The names of one cage that somebody was told of already."""

    def __init__(self) -> None:
        self._told: frozenset[str] = frozenset()
        self._lock = allocate_lock()

    def not_told(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names that are new since this was asked last."""
        if not names:
            return ()
        with self._lock:
            new = tuple(name for name in names if name not in self._told)
            self._told |= frozenset(new)
        return new
