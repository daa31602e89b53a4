"""The processes of a cage as the host sees them (proc(5)): which there are, what they do, who they are.

They are found by /proc/PID/task/TID/children, so that a walk costs by the size of the cage and not of the host. What
has ended meanwhile is left out; whatever else keeps the host from looking (no descriptor left, a mount that hides
processes) raises OSError, and a kernel that does not tell the children UnsupportedError: who limits or stops a cage
must not take silence for an answer. What is read is bytes, whatever a process calls itself (launch/proctext.py).

A walk is not a snapshot. A process that is found may have ended, and its number may be another's; one whose parent ends
during the walk may be missed. `stopping` says what to do about that.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from contextlib import suppress

from pysandbox.errors import UnsupportedError
from pysandbox.launch.owner import Owner, owner_of, stat_fields
from pysandbox.launch.proctext import lines, names_below, numbers, read_below
from pysandbox.shapes import NamedTuple

FAMILY = re.compile(rb"\nTgid:\t(\d+)\n.*?\nPPid:\t(\d+)\n", re.DOTALL)
STILL = frozenset("TtDZX")  # states of a thread that runs none of its program


class Task(NamedTuple):
    """One thread. `state` as in proc_pid_stat(5)."""

    pid: int
    tid: int
    state: str


class Standing(NamedTuple):
    """What stood still when a cage was paused. `owners`: its processes, each with its start, since a program that wakes
    itself may fork until another one has its number. `switches`: how often each thread had left a processor."""

    owners: frozenset[Owner | None]
    switches: dict[int, int]


# ---- which there are ------------------------------------------------------------------------------------------------


def descendants(pid: int, proc: int | None = None) -> list[int]:
    """Every process below `pid`, without it, parents first. `proc`: an open /proc, whose numbers are meant; None for
    the host's own. Raises OSError, UnsupportedError."""
    return [line[0] for line in lineages(pid, proc) if line is not None]


def lineages(pid: int, proc: int | None = None) -> Iterator[tuple[int, int] | None]:
    """Every process below `pid`, with that child of it which it descends from: no walk upwards is needed. None for each
    thread that was looked at besides, so that whoever has little time can end it. Raises OSError, UnsupportedError."""
    ahead, seen = [(pid, 0)], {pid}
    while ahead:
        parent, eldest = ahead.pop()
        for found in _children_by_thread(parent, proc):
            yield None
            for child in found:
                if child not in seen:
                    seen.add(child)
                    line = child, eldest or child
                    ahead.append(line)
                    yield line


def children(pid: int, proc: int | None = None) -> list[int]:
    """The children of every thread of a process. Raises OSError, UnsupportedError."""
    return [child for found in _children_by_thread(pid, proc) for child in found]


def _children_by_thread(pid: int, proc: int | None) -> Iterator[list[int]]:
    if not _kernel_tells_children():
        raise UnsupportedError(
            "this kernel does not tell the children of a process",
            feature="proc_children", fix="use a kernel with CONFIG_PROC_CHILDREN",
        )  # fmt: skip
    for tid in threads_of(pid, proc):
        yield numbers(_read(f"{pid}/task/{tid}/children", proc))


@functools.cache
def _kernel_tells_children() -> bool:
    return os.path.exists("/proc/thread-self/children")


def threads_of(pid: int, proc: int | None = None) -> list[int]:
    """Empty when it is gone. Raises OSError."""
    names = names_below(proc, _place(f"{pid}/task", proc))
    if names is None:
        raise PermissionError(f"process {pid} is not shown")
    return [int(name) for name in names]


def _read(path: str, proc: int | None) -> bytes:
    """b"" of what is gone. Raises OSError."""
    text = read_below(proc, _place(path, proc))
    if text is None:
        raise PermissionError(f"/proc/{path} is not shown")
    return text


def _place(path: str, proc: int | None) -> str:
    return path if proc is not None else f"/proc/{path}"


# ---- what they do ---------------------------------------------------------------------------------------------------


def tasks(pids: list[int]) -> list[Task]:
    """The threads of these processes. Raises OSError."""
    found = []
    for pid in pids:
        for tid in threads_of(pid):
            fields = stat_fields(pid, tid)
            if fields is not None:
                found.append(Task(pid, tid, fields[0].decode()))
    return found


def moving(tasks: list[Task]) -> tuple[int, ...]:
    """The processes of these threads that run, or will."""
    return tuple(sorted({task.pid for task in tasks if task.state not in STILL}))


def status_of(pid: int) -> dict[bytes, bytes]:
    """The lines of /proc/PID/status; empty when it is gone. Raises OSError."""
    rows = (line.partition(b":") for line in lines(_read(f"{pid}/status", None)))
    return {key: value.strip() for key, _, value in rows if key}


# ---- who they are ---------------------------------------------------------------------------------------------------


def family_of(tid: int) -> tuple[int, int]:
    """(the process of a thread, that process's parent); (the thread itself, 0) when it cannot be told."""
    with suppress(OSError), open(f"/proc/{tid}/status", "rb", buffering=0) as file:
        found = FAMILY.search(file.read(4096))
        if found is not None:
            return int(found[1]), int(found[2])
    return tid, 0


def command_line(pid: int) -> tuple[str, ...]:
    """What a process was started with, as it shows it; empty when it cannot be told."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return tuple(os.fsdecode(each) for each in file.read(4096).split(b"\0")[:-1])
    return ()


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
