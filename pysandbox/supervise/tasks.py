"""The processes of a cage, found from outside: /proc as the host sees it, below cage-init (proc(5)).

Reading a tree that changes is only ever a snapshot. Who must miss nothing stops the cage first (`Stopped`), process by
process until no new one is found: one with SIGSTOP pending finishes no fork (fork(2) restarts behind the signal). The
host does it itself: cage-init may be waiting for a command whose first execve waits for us, and a SIGSTOP that it sent
after our SIGCONT would stop the cage for good.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from signal import SIGCONT, SIGSTOP, pidfd_send_signal
from types import TracebackType
from typing import Self

from pysandbox.launch.live import LiveInit

STOP_PATIENCE = 2.0  # seconds until what does not stop (it waits in the kernel) is taken as stopped
FAMILY = re.compile(rb"\nTgid:\t(\d+)\n.*?\nPPid:\t(\d+)\n", re.DOTALL)


def threads_of(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return []


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for tid in threads_of(pid):
        with suppress(OSError), open(f"/proc/{pid}/task/{tid}/children", encoding="ascii") as file:
            found += map(int, file.read().split())
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


def status_of(pid: int) -> dict[str, str]:
    """The lines of /proc/PID/status; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return {key: value.strip() for key, _, value in (line.partition(":") for line in file)}
    except OSError:
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


class Stopped:
    """Within the block no process of the cage runs. Those that were stopped before stay so after."""

    def __init__(self, live: LiveInit) -> None:
        self._live = live
        self._before: set[int] = set()
        self.processes: list[int] = []

    def __enter__(self) -> Self:
        signalled: set[int] = set()
        deadline = time.monotonic() + STOP_PATIENCE
        while time.monotonic() < deadline:
            self.processes = list(below(self._live.pid))
            new = [pid for pid in self.processes if pid not in signalled]
            self._before |= {pid for pid in new if _is_stopped(pid)}
            cage = {self._live.pid, *self.processes}
            signalled.update(pid for pid in new if _stop(pid, cage))
            if not new and all(_is_still(pid) for pid in self.processes):
                break
            if not new:
                time.sleep(0.0005)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for pid in {*self.processes, *below(self._live.pid)}:
            if pid not in self._before:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, SIGCONT)


def _stop(pid: int, cage: set[int]) -> bool:
    """By a pidfd that is the process's whose parent was looked at: its number may belong to another one by now. False
    when it has a parent that is not of the cage, as far as that is known."""
    with suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            if parent_of(pid) not in cage:
                return False
            pidfd_send_signal(pidfd, SIGSTOP)
        finally:
            os.close(pidfd)
    return True


def _is_stopped(pid: int) -> bool:
    return status_of(pid).get("State", "Z")[0] in "Tt"


def _is_still(pid: int) -> bool:
    """Stopped, dead, or to be stopped as soon as it leaves the call in which it is held."""
    return all(_is_still_thread(status_of(tid)) for tid in threads_of(pid))


def _is_still_thread(status: dict[str, str]) -> bool:
    state = status.get("State", "Z")[0]
    return state in "TtZX" or (state == "D" and bool(int(status.get("ShdPnd", "0"), 16) >> (SIGSTOP - 1) & 1))
