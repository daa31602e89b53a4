"""One attempt to run a program is one refusal, however many directories of PATH lead to the program.

A shell, and execvp(3), try each directory in turn, and where /bin is a link to /usr/bin the kernel refuses the same
file twice. Those calls come from one thread and differ in spelling; a spelling that comes again is another attempt.
"""

from __future__ import annotations

MOST = 256  # threads that are remembered


class Walks:
    def __init__(self) -> None:
        self._spellings: dict[tuple[int, str], set[int]] = {}

    def begins(self, tid: int, real: str, spelling: int) -> bool:
        """Whether this refusal of a program is the first of an attempt."""
        key = tid, real
        known = self._spellings.pop(key, None)
        goes_on = known is not None and spelling not in known
        while len(self._spellings) >= MOST:
            del self._spellings[next(iter(self._spellings))]
        self._spellings[key] = {*(known or ()), spelling} if goes_on else {spelling}
        return not goes_on
