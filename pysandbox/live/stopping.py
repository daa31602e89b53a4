"""Signals to the processes of a cage, and stopping all of it: the one place that says why none escapes, and none of
another cage or of the host is meant.

**Never to a stranger.** A number that was found may be another process's by the time it is signalled. So pidfds are
opened first; then a second walk says which of these numbers are still below cage-init; and cage-init itself must not
have ended by then, or the whole walk was somebody else's. What a pidfd of that order names is of the cage.

**None escapes.** A process with SIGSTOP pending finishes no fork (fork(2) restarts behind the signal), so each is
stopped by itself until a walk finds none that is new or that runs. A thread in an uninterruptible wait (D) counts as
stopped where the signal is pending for it, or has stopped another thread of its process: it stops before it gets back
to its program. cage-init is never stopped: it has to hear the host, and it keeps the wall time, which runs on.

**None comes back unseen.** A program can have itself woken (SIGCONT of another process, or of a timer) at any moment
after it was seen to stand still. Whatever ran meanwhile has left a processor once more (its context switches are
counted), or still runs, or is new, or has ended: `stood` finds it, and everything is stopped again. Who is still found
to run when patience is over is for the caller to deal with: a cage is never taken to be stopped because it did not
stop, nor because it once did: who relies on a pause asks `stands_still` at the moment that counts.

With a cgroup, `pause` and `resume` are the kernel's freezer. `while_stopped` is not: it may be called while cage-init
waits for a command whose first execve waits for the host, and such a wait does not freeze. What is frozen when it is
called has SIGSTOP pending before it is thawed, so it stops without a step of its program, and is frozen again after.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from pysandbox.descriptors.polling import is_over
from pysandbox.errors import CageClosedError, UnstoppableError
from pysandbox.events import UNSTOPPABLE, Event, Sink
from pysandbox.launch.owner import Owner, owner_of
from pysandbox.launch.proctext import number
from pysandbox.live.kill_reason import KillReason
from pysandbox.live.processes import Standing, descendants, status_of, threads_of
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.live.init import CageInit

ROUNDS = 64  # of signalling a tree that goes on growing
PAUSE_PATIENCE = 5.0  # seconds until a pause is given up
PATIENCE = 2.0  # seconds until what goes on running is killed, and as long again until the whole cage is
EACH = 0.005  # ... and for each process; many share a processor, and each has to get there to stop
FIRST_LOOK, LAST_LOOK = 0.0005, 0.005  # seconds between two looks, doubling
AGREEING = 2  # looks in a row, after the first, at which a paused cage has stood still
FOUGHT = KillReason("cancelled", "restrict", "the cage went on running whenever it was stopped to be tightened "
                   "(SIGCONT?) and was ended")  # fmt: skip

Work = Callable[[Sequence[int]], int]
Switches = dict[int, int]  # how often each thread that is not dead has left a processor
Signal = Callable[[int], object]


# ---- signals --------------------------------------------------------------------------------------------------------


def signal_below(
    init: int, pidfd: int, number: int, *, only: Callable[[list[int]], Iterable[int]] = lambda pids: pids
) -> list[int]:
    """Sends a signal to every process below cage-init, whose pidfd is given; who got it. `only` leaves some out. Raises
    OSError, UnsupportedError."""
    done: set[int] = set()
    for _ in range(ROUNDS):
        fresh = [pid for pid in only(descendants(init)) if pid not in done]
        if not fresh or is_over(pidfd):
            break
        done |= signal_each(init, pidfd, fresh, number)
    return sorted(done)


def signal_each(init: int, pidfd: int, pids: Iterable[int], number: int) -> set[int]:
    """Sends a signal to those of these processes that are below cage-init, whose pidfd is given; who got it, or has
    ended since. Raises OSError, UnsupportedError."""
    with held_below(init, pidfd, pids) as pidfds:
        for fd in pidfds.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, number)
        return set(pidfds)


@contextmanager
def held_below(init: int, pidfd: int, pids: Iterable[int]) -> Iterator[dict[int, int]]:
    """A pidfd for each of these processes that is below cage-init, whose own is given. Raises OSError,
    UnsupportedError."""
    with ExitStack() as held:
        pidfds = {pid: fd for pid in pids if (fd := _hold(held, pid)) is not None}
        below = set(descendants(init))
        # Once it is over, its pid may be another's by now, and so may everything below it.
        yield {} if is_over(pidfd) else {pid: fd for pid, fd in pidfds.items() if pid in below}


def _hold(held: ExitStack, pid: int) -> int | None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    held.callback(os.close, fd)
    return fd


# ---- stopping -------------------------------------------------------------------------------------------------------


class Stopping:
    """The processes below one cage-init, whose pidfd is given and borrowed. Once `patience` is over, `over` is called
    for whatever still runs, again and again: with those that were signalled before, and with those that are new."""

    def __init__(self, init: int, pidfd: int, patience: float, over: Callable[[set[int], set[int]], None]) -> None:
        self._init, self._pidfd, self._over = init, pidfd, over
        self._patience, self._began = patience, time.monotonic()
        self._before: set[int] = set()
        self._signalled: set[int] = set()
        self.processes: list[int] = []

    @property
    def left(self) -> float:
        """Seconds of patience."""
        return self._began + self._patience + EACH * len(self.processes) - time.monotonic()

    def hold(self) -> None:
        """Signals all of it, where a freezer keeps it from heeding that for now. Raises as `stop`."""
        self._look()
        self._before |= {pid for pid in self.processes if is_stopped(pid)}
        self._press(set(self.processes))

    def stop(self) -> Switches:
        """Returns when every process of the cage stands still, or is dead. Raises OSError, UnsupportedError."""
        pause = FIRST_LOOK
        while True:
            seen = self._look()
            running = {pid for pid, still in seen.items() if still is None}
            new = [pid for pid in self.processes if pid not in self._signalled]
            if not running and not new:
                return {tid: count for still in seen.values() for tid, count in (still or {}).items()}
            self._before |= {pid for pid in new if is_stopped(pid)}
            self._press({*running, *new})
            if not new:
                time.sleep(pause)
                pause = min(2 * pause, LAST_LOOK)

    def stood(self, seen: Switches) -> bool:
        """Whether nothing has run since. Who has is dealt with once patience is over. Raises as `stop`."""
        now = {pid: _still(pid) for pid in descendants(self._init)}
        ran = {pid for pid, still in now.items() if still is None or any(seen.get(t) != n for t, n in still.items())}
        if ran and self.left < 0:
            self._press(ran)
        return not ran and seen.keys() <= {thread for still in now.values() for thread in still or ()}

    def release(self) -> None:
        """Lets go on what was not stopped before. Raises as `stop`."""
        signal_below(self._init, self._pidfd, signal.SIGCONT, only=lambda pids: set(pids) - self._before)

    def _look(self) -> dict[int, Switches | None]:
        self.processes = [] if is_over(self._pidfd) else descendants(self._init)
        return {pid: _still(pid) for pid in self.processes}

    def _press(self, pids: set[int]) -> None:
        fighting: set[int] = set()
        if self.left < 0:
            fighting = pids & self._signalled
            self._over(fighting, pids - fighting)
        self._signalled |= signal_each(self._init, self._pidfd, pids - fighting, signal.SIGSTOP)


def is_stopped(pid: int) -> bool:
    """By somebody else, or will be when it gets back to its program: not where a thread of ours traces it, because its
    exec is being judged, and lets it go on."""
    status = status_of(pid)
    state = status.get(b"State", b"Z")[:1]
    if state == b"t":
        return number(status.get(b"TracerPid", b"")) not in threads_of(os.getpid())
    return state == b"T" or (state == b"D" and _is_pending(status, signal.SIGSTOP))


def _still(pid: int) -> Switches | None:
    """How often each thread of a process has left a processor; None where one runs, or will. Empty when it is dead."""
    every = {tid: status for tid in threads_of(pid) if (status := status_of(tid))}
    stopped = any(status.get(b"State", b"")[:1] == b"T" for status in every.values())
    if not all(_is_still(status, stopped) for status in every.values()):
        return None
    return {
        tid: sum(number(status.get(b"%svoluntary_ctxt_switches" % non, b"")) for non in (b"", b"non"))
        for tid, status in every.items()
        if status.get(b"State", b"Z")[:1] not in b"ZX"
    }


def _is_still(status: dict[bytes, bytes], stopped: bool) -> bool:
    """`stopped`: a thread of the same process has been stopped by the signal, which is for all of them."""
    state = status.get(b"State", b"Z")[:1]
    pending = _is_pending(status, signal.SIGSTOP) or _is_pending(status, signal.SIGKILL)
    return state in b"TtZX" or (state == b"D" and (pending or stopped))


def _is_pending(status: dict[bytes, bytes], which: int) -> bool:
    held = number(status.get(b"ShdPnd", b""), 16) | number(status.get(b"SigPnd", b""), 16)
    return bool(held & 1 << (which - 1))


# ---- for a while ----------------------------------------------------------------------------------------------------


def while_stopped(live: CageInit, sink: Sink, work: Work) -> int:
    """Calls `work` with the processes of the cage, again until none of them ran meanwhile; the sum of what it returns.
    Those that were stopped before stay so after: one at a time, for each would take what the other has stopped for
    that. Raises OSError, UnsupportedError, and what `work` does."""
    killed: set[int] = set()
    try:
        with live.standing_still:
            return _while_stopped(live, killed, work)
    finally:
        if killed:  # told when others may stop it: whoever is told may tighten the cage further
            sink(Event(UNSTOPPABLE.name, {"invocation_id": live.id, "pids": sorted(killed)}))


def _while_stopped(live: CageInit, killed: set[int], work: Work) -> int:
    try:
        pidfd = live.pin()
    except CageClosedError:  # nothing of it is left, or in a moment
        live.await_end()
        return 0
    try:
        return _Tightening(live, pidfd, killed).run(work)
    finally:
        os.close(pidfd)


class _Tightening:
    """A cage that fights being stopped: who goes on running is killed, and when that does not help, all of it. Those
    that were are added to `killed`."""

    def __init__(self, live: CageInit, pidfd: int, killed: set[int]) -> None:
        self._live, self._pidfd, self._killed = live, pidfd, killed
        self._stopping = Stopping(live.pid, pidfd, PATIENCE, self._kill)

    def run(self, work: Work) -> int:
        done = 0
        try:
            with self._thawed():
                while True:
                    seen = self._stopping.stop()
                    done += work(self._stopping.processes)
                    if self._stopping.stood(seen):
                        return done
        finally:
            self._stopping.release()

    @contextmanager
    def _thawed(self) -> Iterator[None]:
        """Frozen, it would seem to go on running, since it does not heed a signal."""
        cgroup = self._live.cgroup
        if cgroup is None or not cgroup.is_frozen():
            yield
            return
        self._stopping.hold()
        cgroup.thaw()
        try:
            yield
        finally:
            cgroup.freeze()

    def _kill(self, fighting: set[int], _: set[int]) -> None:
        if self._stopping.left < -PATIENCE:
            self._live.kill_reason = self._live.kill_reason or FOUGHT
            self._live.signal_at_once(signal.SIGKILL)
        self._killed |= signal_each(self._live.pid, self._pidfd, fighting, signal.SIGKILL)


# ---- until further notice -------------------------------------------------------------------------------------------


def pause(live: CageInit) -> None:
    """Returns when nothing of the cage runs. Raises UnstoppableError; what is stopped then stays so. Not while it is
    stopped to be tightened: that would let it go on, or `resume` be forgotten."""
    with live.standing_still:
        _pause(live)


def _pause(live: CageInit) -> None:
    live.paused, live.stood = True, None
    if live.cgroup is not None:
        live.cgroup.freeze()
        live.stood = Standing(frozenset(), {})
        return
    pidfd = live.pin()
    try:
        seen = stop_below(live.id, live.pid, pidfd, lambda number: live.signal(0, number, "all"))
        live.stood = Standing(_owners(live.pid), seen)
    finally:
        os.close(pidfd)


def stands_still(live: CageInit) -> bool:
    """Whether it was paused, and nothing of it has run since. Raises OSError, UnsupportedError."""
    seen = live.stood
    if seen is None:
        return False
    if live.cgroup is not None:
        return live.cgroup.is_frozen()
    try:
        pidfd = live.pin()
    except CageClosedError:
        return False
    try:
        asked = Stopping(live.pid, pidfd, PAUSE_PATIENCE, lambda fighting, new: None)
        stood = asked.stood(seen.switches) and _owners(live.pid) == seen.owners
        return stood and not is_over(pidfd)  # whose number it was is known only now
    finally:
        os.close(pidfd)


def _owners(init: int) -> frozenset[Owner | None]:
    """None for those that are dead. Raises OSError, UnsupportedError."""
    return frozenset(map(owner_of, descendants(init))) - {None}


def resume(live: CageInit) -> None:
    """Lets everything go on, also what one process of the cage had stopped in another. Idempotent."""
    if live.cgroup is not None:
        live.cgroup.thaw()  # at once: a process that is frozen is not seen to be stopped by a signal
    with live.standing_still:
        _resume(live)


def _resume(live: CageInit) -> None:
    live.stood = None
    if live.cgroup is not None:
        live.cgroup.thaw()  # a pause may have come before
    live.signal(0, signal.SIGCONT, "all")
    pidfd = live.pin()
    try:
        signal_below(live.pid, pidfd, signal.SIGCONT)  # what that did not reach, without a PID namespace
    finally:
        os.close(pidfd)
    live.paused = False


def stop_below(cage_id: str, init: int, pidfd: int, all_at_once: Signal = lambda number: None) -> Switches:
    """SIGSTOP until every process below cage-init stands still; what `Stopping.stood` is asked with from then on.
    `all_at_once` is one kill(-1) of cage-init, which no fork escapes. Without it (whoever does not hold the cage's
    control socket) they are stopped one by one, and a cage that forks fast may take several rounds."""

    def over(fighting: set[int], new: set[int]) -> None:
        raise UnstoppableError(cage_id, tuple(sorted(fighting | new)))

    stopping = Stopping(init, pidfd, PAUSE_PATIENCE, over)
    agreed = 0
    seen: Switches = {}
    while agreed < AGREEING:
        all_at_once(signal.SIGSTOP)
        seen = stopping.stop()
        agreed = 0
        while agreed < AGREEING and stopping.stood(seen):
            agreed += 1
    return seen
