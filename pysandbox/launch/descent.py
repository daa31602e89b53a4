"""The processes of a cage as the host sees them: all that descend from its cage-init, and signals to them.

Found by /proc/PID/task/TID/children, so it costs by the size of the cage and not of the host. A walk is not a snapshot:
what must hold for every process (stopping them) is repeated until nothing changes. Signals go through pidfds, and only
to what a second walk still finds below a cage-init that has not ended meanwhile: never to a pid that came round.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NamedTuple

from pysandbox.errors import UnsupportedError
from pysandbox.launch.owner import Owner, owner_of, stat_fields
from pysandbox.launch.proctext import numbers

ROUNDS = 64  # of signalling a tree that goes on growing


class Task(NamedTuple):
    """One thread. `state` as in proc_pid_stat(5)."""

    pid: int
    tid: int
    state: str


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, without it, parents first. Raises UnsupportedError."""
    found: list[int] = []
    ahead, seen = [pid], {pid}
    while ahead:
        for child in children(ahead.pop()):
            if child not in seen:
                seen.add(child)
                found.append(child)
                ahead.append(child)
    return found


def children(pid: int) -> list[int]:
    """Of every thread of the process. Raises UnsupportedError."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return found
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += numbers(file.read())
        except ProcessLookupError:
            continue
        except FileNotFoundError:
            if os.path.exists(f"/proc/{pid}/task/{task}"):
                raise UnsupportedError(
                    "this kernel does not tell the children of a process",
                    feature="proc_children", fix="use a kernel with CONFIG_PROC_CHILDREN",
                ) from None  # fmt: skip
    return found


def tasks(pids: list[int]) -> list[Task]:
    """The threads of these processes; what has ended is left out."""
    found = []
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            for name in os.listdir(f"/proc/{pid}/task"):
                fields = stat_fields(pid, int(name))
                if fields is not None:
                    found.append(Task(pid, int(name), fields[0].decode()))
    return found


def pin(init: Owner) -> int | None:
    """A pidfd of this very process; None when it has ended."""
    try:
        fd = os.pidfd_open(init.pid)
    except ProcessLookupError:
        return None
    if owner_of(init.pid) == init:
        return fd
    os.close(fd)
    return None


def is_over(pidfd: int, seconds: float = 0) -> bool:
    """Whether the process has ended, or does within that time."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(seconds * 1000))


def signal_below(
    init: int, pidfd: int, number: int, *, only: Callable[[list[int]], list[int]] = lambda pids: pids
) -> list[int]:
    """Sends a signal to each process below cage-init, whose pidfd is given; who got it. `only` leaves some out."""
    done: set[int] = set()
    for _ in range(ROUNDS):
        fresh = [pid for pid in only(descendants(init)) if pid not in done]
        if not fresh:
            break
        with ExitStack() as held:
            pidfds = {pid: _hold(held, pid) for pid in fresh}
            still = set(descendants(init))
            if is_over(pidfd):  # its pid may be another's by now, and so may everything below it
                break
            for pid, fd in pidfds.items():
                if fd is not None and pid in still:
                    with suppress(ProcessLookupError):
                        signal.pidfd_send_signal(fd, number)
                    done.add(pid)
    return sorted(done)


def _hold(held: ExitStack, pid: int) -> int | None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    held.callback(os.close, fd)
    return fd
