"""Stopping all of a cage and letting it go on: by its cgroup's freezer where it has one, else by SIGSTOP and SIGCONT.

SIGSTOP to all is one kill(-1) of cage-init, which no fork escapes: the kernel restarts a fork that meets a signal. What
can still undo it is a SIGCONT that one process of the cage sends another before it is stopped itself, so the states
are read and the signal is repeated, until every thread stands still in AGREEING walks in a row. A thread in an
uninterruptible wait (D) counts as still: it stops before it gets back to its program. cage-init is never stopped: it
has to hear the host, and it keeps the wall time, which runs on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pysandbox.errors import UnstoppableError
from pysandbox.launch import descent

if TYPE_CHECKING:
    from pysandbox.launch.live import LiveInit

STILL = frozenset("TtDZX")
PATIENCE = 5.0  # seconds
FIRST_LOOK, LAST_LOOK = 0.0005, 0.02  # seconds between two walks, doubling
AGREEING = 3

Signal = Callable[[int], object]


def pause(live: LiveInit) -> None:
    """Returns when nothing of the cage runs. Raises UnstoppableError; what is stopped then stays so."""
    live.held = True
    if live.cgroup is not None:
        live.cgroup.freeze()
        return
    pidfd = live.pin()
    try:
        stop_below(live.id, live.pid, pidfd, lambda number: live.signal(0, number, "all"))
    finally:
        os.close(pidfd)


def resume(live: LiveInit) -> None:
    """Lets everything go on, also what one process of the cage had stopped in another. Idempotent."""
    if live.cgroup is not None:
        live.cgroup.thaw()
    live.signal(0, signal.SIGCONT, "all")
    pidfd = live.pin()
    try:
        descent.signal_below(live.pid, pidfd, signal.SIGCONT)  # what that did not reach, without a PID namespace
    finally:
        os.close(pidfd)
    live.held = False


def stop_below(cage_id: str, init: int, pidfd: int, all_at_once: Signal = lambda number: None) -> None:
    """SIGSTOP until every process below cage-init stands still. Without `all_at_once` (whoever does not hold the cage's
    control socket) they are stopped one by one, and a cage that forks fast may take several rounds."""
    deadline, interval, agreed, before = time.monotonic() + PATIENCE, FIRST_LOOK, 0, None
    all_at_once(signal.SIGSTOP)
    while agreed < AGREEING:
        tasks = descent.tasks(descent.descendants(init))
        running = moving(tasks)
        agreed = agreed + 1 if not running and (tasks == before or before is None) else 0
        before = tasks if not running else None
        if not running:
            continue
        if time.monotonic() > deadline:
            raise UnstoppableError(cage_id, running)
        all_at_once(signal.SIGSTOP)
        descent.signal_below(init, pidfd, signal.SIGSTOP, only=lambda pids: list(moving(descent.tasks(pids))))
        time.sleep(interval)
        interval = min(interval * 2, LAST_LOOK)


def moving(tasks: list[descent.Task]) -> tuple[int, ...]:
    """The processes of these threads that run, or will."""
    return tuple(sorted({task.pid for task in tasks if task.state not in STILL}))
