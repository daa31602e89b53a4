"""What a cage was refused beyond what is told apart: counted by kind, and by the only command that it can be of.

The C half counts it for the whole cage. Whatever has been added since it was last asked is of those commands that may
have processes: when one ends and leaves none, it is asked before that one is forgotten (`Commands.close`).
"""

from __future__ import annotations

from pysandbox.denial import FURTHER, Denial
from pysandbox.live.commands import Commands

MOST = 512  # kinds and commands; then it is nobody's


class Further:
    """The caller holds its lock."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._counts: dict[tuple[str, str, int | None], int] = {}
        self._totals: dict[str, int] = {}

    def add(self, kind: str, target: str = FURTHER, count: int = 1) -> bool:
        """Whether it is the first."""
        key = (kind, target, self._commands.sole())
        if key not in self._counts and len(self._counts) >= MOST:
            key = (kind, target, None)
        self._counts[key] = self._counts.get(key, 0) + count
        return self._counts[key] == count

    def came_to(self, name: str, total: int, kind: str, target: str = FURTHER) -> None:
        """A count of the C half, of that name, as it is by now."""
        more = total - self._totals.get(name, 0)
        self._totals[name] = total
        if more > 0:
            self.add(kind, target, more)

    def denials(self) -> tuple[Denial, ...]:
        only = self._commands.only()
        return tuple(
            Denial(kind, target, "", "", count=count, command=command or only)
            for (kind, target, command), count in self._counts.items()
        )
