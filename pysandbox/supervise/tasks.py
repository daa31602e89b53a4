"""The processes of a cage, found from outside: /proc as the host sees it, below cage-init (proc(5)).

Reading a tree that changes is only ever a snapshot. Who must miss nothing stops the cage first (`while_stopped`). What
is read is bytes, whatever a process calls itself (launch/proctext.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from pysandbox.launch.proctext import lines, numbers

FAMILY = re.compile(rb"\nTgid:\t(\d+)\n.*?\nPPid:\t(\d+)\n", re.DOTALL)


def threads_of(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return []


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for tid in threads_of(pid):
        with suppress(OSError), open(f"/proc/{pid}/task/{tid}/children", "rb") as file:
            found += numbers(file.read())
    return found


def below(pid: int) -> Iterator[int]:
    """Every process below `pid`, parents first; without itself."""
    waiting, seen = [pid], {pid}
    while waiting:
        for child in children_of(waiting.pop()):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                yield child


def status_of(pid: int) -> dict[bytes, bytes]:
    """The lines of /proc/PID/status; empty when it is gone."""
    with suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        return {key: value.strip() for key, _, value in (line.partition(b":") for line in lines(file.read()))}
    return {}


def family_of(tid: int) -> tuple[int, int]:
    """(the process of a thread, that process's parent); (the thread itself, 0) when it is gone."""
    with suppress(OSError), open(f"/proc/{tid}/status", "rb", buffering=0) as file:
        found = FAMILY.search(file.read(4096))
        if found is not None:
            return int(found[1]), int(found[2])
    return tid, 0


def parent_of(pid: int) -> int:
    return family_of(pid)[1]


def group_of(tid: int) -> int:
    return family_of(tid)[0]


def command_line(pid: int) -> tuple[str, ...]:
    """What a process was started with, as it shows it; empty when it is gone."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return tuple(os.fsdecode(each) for each in file.read(4096).split(b"\0")[:-1])
    return ()
