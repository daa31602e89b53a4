"""The commands of one cage by number, and which of them a process belongs to: so that the right one is blamed.

A process cannot choose whom it descends from. The session that it is in (setsid(2)) is its command's, or one that was
made below it; the eldest of its ancestors below cage-init is its command's first process, or an orphan of one. Both are
compared with the numbers, in the cage, of the first processes, which cage-init reports. A process that has left its
session and its ancestors alike (daemon(3)) is nobody's, unless one command alone can have processes: `sole`.

A first process is known by its number as soon as cage-init has reported it, of a quiet command at its end; so what was
refused is attributed when somebody asks, not when it happens. Cheap to import: every cage has these.
"""

from __future__ import annotations

import time
from _thread import allocate_lock

TYPE_CHECKING = False  # as typing's own: the command line starts without it
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

KEPT = 4096  # commands of a session whose refusals are still told apart


class Asker:
    """Who asked for what was refused: a process of the host's number (None: it cannot be told), what it was started
    with, and the numbers in the cage of which its command's first process has one, if any."""

    __slots__ = ("argv", "leaders", "pid", "when")

    def __init__(self, pid: int | None = None, argv: tuple[str, ...] = (), leaders: tuple[int, ...] = ()) -> None:
        self.pid, self.argv, self.leaders, self.when = pid, argv, leaders, time.monotonic()


class _KnownCommand:
    __slots__ = ("began", "ended", "number", "pid")

    def __init__(self, number: int) -> None:
        self.number, self.pid, self.began = number, 0, time.monotonic()
        self.ended: float | None = None


class Commands:
    """Any thread may call any method. `since`: when the first was about to be ordered (time.time_ns()), which is what
    the times of files are compared with; 0 before that."""

    def __init__(self) -> None:
        self.since = 0
        self._lock = allocate_lock()
        self._last = 0
        self._known: dict[int, _KnownCommand] = {}
        self._open: dict[int, _KnownCommand] = {}  # which may have processes still

    def begin(self) -> int:
        """The number of a command that is about to be ordered."""
        with self._lock:
            self.since = self.since or time.time_ns()
            self._last += 1
            self._known[self._last] = self._open[self._last] = _KnownCommand(self._last)
            if len(self._known) > KEPT:
                del self._known[next(iter(self._known))]
            if len(self._open) > KEPT:
                del self._open[next(iter(self._open))]
            return self._last

    def leads(self, number: int, pid: int) -> None:
        """The first process of a command, by its number in the cage."""
        if (command := self._known.get(number)) is not None:
            command.pid = pid

    def end(self, number: int, pid: int = 0) -> None:
        """The first process has ended, which had this number in the cage, where that is known; others of the command
        may run on in a session."""
        if (command := self._known.get(number)) is not None:
            command.pid = pid or command.pid
            command.ended = command.ended or time.monotonic()

    def sole(self) -> int | None:
        """The only command that can have asked for anything since the last `close`."""
        with self._lock:
            return next(iter(self._open)) if len(self._open) == 1 else None

    def running(self) -> tuple[int, ...]:
        """The commands that may have processes still."""
        with self._lock:
            return tuple(self._open)

    def only(self) -> int | None:
        """The only one that there ever was."""
        return 1 if self._last == 1 else None

    def of(self, asker: Asker) -> int | None:
        """The command of a process; None where it is nobody's, or is not known yet."""
        if self._last == 1:
            return 1
        with self._lock:
            for command in reversed(self._known.values()):
                if command.pid and command.pid in asker.leaders and command.began <= asker.when:
                    return command.number
        return None

    def gone(self, children: Iterable[int]) -> Collection[int]:
        """The commands of which no process is left, when these are all the children of cage-init, by their numbers in
        the cage: whoever loses its parent becomes one of them."""
        with self._lock:
            running = {command.pid for command in self._open.values() if command.ended is None}
            ended = [command.number for command in self._open.values() if command.ended is not None]
        return ended if ended and running.issuperset(children) else ()

    def close(self, gone: Collection[int]) -> None:
        """What they were refused is recorded: nothing that is recorded from now on is theirs."""
        with self._lock:
            for number in gone:
                self._open.pop(number, None)

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: another thread may have held the lock at the fork."""
        self._lock = allocate_lock()
