"""The processes of a cage that cannot be asked, and which of them may be silent.

Not every process can be looked into at every moment. One that ends has nothing to show any more; a command that has
not got to its execve shares cage-init's memory, which nobody may look into. Whoever cannot be asked and is neither of
these may be hiding what a limit counts (PR_SET_DUMPABLE): a moment of that is chance (an execve, threads that end one
by one), and more of it is an error. A start is excused only when the host has ordered one, so no program can pass for
one at will.
"""

from __future__ import annotations

import time

from pysandbox.launch.proctext import after_name, field, numbers, read_below

FLAGS, THREADS = 6, 17  # of /proc/PID/stat, counted from the state
PF_EXITING, PF_FORKNOEXEC = 0x4, 0x40  # <linux/sched.h>
SHAPE = (0, 3, 5)  # of /proc/PID/statm: size, text, data
HIDDEN_MOST = 0.3  # seconds that processes may be hidden, all together
GLIMPSE = 0.05  # seconds that one counts for which was not hidden at the last look
FORGIVEN = 0.01  # the part of the time by which that is forgotten
LONGEST_START = 5.0  # seconds until a command that starts counts as hidden
LONGEST_ORDER = 15.0  # seconds after an order that a start is believed: a loaded host is slow
LONGEST_END = 0.5  # seconds that the threads of a process may outlive its first


class Unreadable:
    """The processes of one cage that one file of /proc/PID cannot be read of. `proc` is an open /proc; the caller
    closes it."""

    def __init__(self, proc: int, init: str) -> None:
        self._proc, self._init = proc, init
        self._owed, self._looked = 0.0, time.monotonic()
        self._starts_until = 0.0
        self._hidden: set[str] = set()
        self._hidden_before: set[str] = set()
        self._since: dict[str, float] = {}  # when each was first seen that could not be asked, and need not yet
        self._since_before: dict[str, float] = {}
        self._one_starts = False

    def ordered(self, at: float) -> None:
        """The host has ordered a command at that time (time.monotonic())."""
        self._starts_until = at + LONGEST_ORDER

    def begin(self) -> None:
        """A look begins."""
        self._since_before, self._since = self._since, {}
        self._hidden_before, self._hidden = self._hidden, set()
        self._one_starts = False

    def saw(self, place: str) -> None:
        """A process, PID or PID/task/TID below /proc, that cannot be asked."""
        if not self._is_excused(place):
            self._hidden.add(place)

    def check(self, what: str) -> bool:
        """The look is over: whether somebody hid. Raises PermissionError, saying `what`, when that is no chance."""
        elapsed, self._looked = time.monotonic() - self._looked, time.monotonic()
        hid = sum(elapsed if place in self._hidden_before else GLIMPSE for place in self._hidden)
        self._owed = max(0.0, self._owed + hid - FORGIVEN * elapsed)
        if self._owed > HIDDEN_MOST:
            raise PermissionError(f"a process of the cage {what}")
        return bool(self._hidden)

    def _is_excused(self, place: str) -> bool:
        fields = after_name(self._text(f"{place}/stat"))
        flags = field(fields, FLAGS)
        if not fields:
            return True
        if flags & PF_EXITING:
            return "/" in place or field(fields, THREADS) < 2 or self._lasts(place) < LONGEST_END
        return bool(flags & PF_FORKNOEXEC) and self._starts(place) and self._lasts(place) < LONGEST_START

    def _starts(self, place: str) -> bool:
        """Whether it was ordered, its memory is cage-init's by the look of it, and no other one's is so yet."""
        if self._one_starts or time.monotonic() > self._starts_until:
            return False
        own, init = (numbers(self._text(f"{name}/statm")) for name in (place, self._init))
        self._one_starts = len(own) == len(init) == 7 and [own[at] for at in SHAPE] == [init[at] for at in SHAPE]
        return self._one_starts

    def _lasts(self, place: str) -> float:
        now = time.monotonic()
        self._since[place] = self._since_before.get(place, now)
        return now - self._since[place]

    def _text(self, path: str) -> bytes:
        return read_below(self._proc, path) or b""
