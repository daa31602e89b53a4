"""Doing something to a cage of which nothing runs meanwhile: `while_stopped`.

Every process is stopped by itself until no new one is found: one with SIGSTOP pending finishes no fork (fork(2)
restarts behind the signal). The host does it itself: cage-init may be waiting for a command whose first execve waits
for us, and a SIGSTOP that it sent after our SIGCONT would stop the cage for good.

A program can have itself woken (timer_create(2) with SIGCONT), at any moment after it was seen to stand still. So the
work is looked at afterwards: a thread that ran meanwhile has been switched away from the processor once more, or still
runs, and then the cage is stopped and the work is done once more. Who is still found to run when PATIENCE is over is
killed, and when even that does not leave a cage that stands still, all of it is: a cage is never taken to be stopped
because it did not stop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals, pidfd_send_signal

from pysandbox.events import UNSTOPPABLE, Event, Sink
from pysandbox.launch.live import Condemned, LiveInit
from pysandbox.launch.proctext import number
from pysandbox.supervise.tasks import below, parent_of, status_of, threads_of

PATIENCE = 2.0  # seconds until what goes on running is killed, and as long again until the whole cage is
EACH = 0.005  # ... and for each process; many share a processor, and each has to get there to stop
INTERVAL = 0.0005
FOUGHT = Condemned("cancelled", "restrict", "the cage went on running whenever it was stopped to be tightened "
                   "(SIGCONT?) and was ended")  # fmt: skip

Work = Callable[[Sequence[int]], int]
Switches = dict[int, int]  # how often each thread has left a processor


def while_stopped(live: LiveInit, sink: Sink, work: Work) -> int:
    """Calls `work` with the processes of the cage, again until none of them ran meanwhile; the sum of what it returns.
    Those that were stopped before stay so after."""
    stopping = _Stopping(live)
    done = 0
    try:
        while True:
            seen = stopping.stop()
            done += work(stopping.processes)
            if stopping.stood(seen):
                return done
    finally:
        stopping.release()
        if stopping.killed:
            sink(Event(UNSTOPPABLE.name, {"invocation_id": live.id, "pids": sorted(stopping.killed)}))


class _Stopping:
    def __init__(self, live: LiveInit) -> None:
        self._live = live
        self._began = time.monotonic()
        self._before: set[int] = set()
        self._signalled: set[int] = set()
        self.processes: list[int] = []
        self.killed: set[int] = set()

    def stop(self) -> Switches:
        """Returns when every process of the cage stands still, or is dead."""
        while True:
            self.processes = list(below(self._live.pid))
            seen = {pid: _still(pid) for pid in self.processes}
            running = [pid for pid, still in seen.items() if still is None]
            new = [pid for pid in self.processes if pid not in self._signalled]
            if not running and not new:
                return {tid: count for still in seen.values() for tid, count in (still or {}).items()}
            self._before |= {pid for pid in new if _is_stopped(pid)}
            self._press({*running, *new})
            if not new:
                time.sleep(INTERVAL)

    def stood(self, seen: Switches) -> bool:
        """Whether nothing has run since. Who has is killed once patience is over."""
        now = {pid: _still(pid) for pid in below(self._live.pid)}
        ran = {pid for pid, still in now.items() if still is None or any(seen.get(t) != n for t, n in still.items())}
        if ran and self._patience() < 0:
            self._press(ran)
        return not ran

    def _patience(self) -> float:
        return self._began + PATIENCE + EACH * len(self.processes) - time.monotonic()

    def _press(self, pids: set[int]) -> None:
        left = self._patience()
        if left < -PATIENCE:
            self._live.condemned = self._live.condemned or FOUGHT
            self._live.signal_at_once(SIGKILL)
        cage = {self._live.pid, *self.processes}
        for pid in pids:
            fighting = left < 0 and pid in self._signalled
            if _send(pid, SIGKILL if fighting else SIGSTOP, cage):
                self._signalled.add(pid)
                self.killed |= {pid} if fighting else set()

    def release(self) -> None:
        for pid in {*self.processes, *below(self._live.pid)}:
            if pid not in self._before:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, SIGCONT)


def _send(pid: int, signal: Signals, cage: set[int]) -> bool:
    """By a pidfd that is the process's whose parent was looked at: its number may belong to another one by now. False
    when it has a parent that is not of the cage, as far as that is known."""
    with suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            if parent_of(pid) not in cage:
                return False
            pidfd_send_signal(pidfd, signal)
        finally:
            os.close(pidfd)
    return True


def _is_stopped(pid: int) -> bool:
    return status_of(pid).get(b"State", b"Z")[:1] in b"Tt"


def _still(pid: int) -> Switches | None:
    """Of a process that is stopped, dead, or to be stopped as soon as it leaves the call in which it is held; None of
    one that runs."""
    switches: Switches = {}
    for tid in threads_of(pid):
        status = status_of(tid)
        if not _is_still_thread(status):
            return None
        switches[tid] = sum(number(status.get(b"%svoluntary_ctxt_switches" % non, b"")) for non in (b"", b"non"))
    return switches


def _is_still_thread(status: dict[bytes, bytes]) -> bool:
    state = status.get(b"State", b"Z")[:1]
    held = number(status.get(b"ShdPnd", b""), 16) | number(status.get(b"SigPnd", b""), 16)
    return state in b"TtZX" or (state == b"D" and bool(held & (1 << (SIGSTOP - 1) | 1 << (SIGKILL - 1))))
