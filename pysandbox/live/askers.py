"""Who a process of a cage is, for the record of what it was refused: looked up in /proc when that is recorded.

A process that has ended by then cannot be told (`Asker` without leaders), and another one may have its number: the
kernel gives numbers away in turn, so that takes as many new processes as the host has numbers (pid_max).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pysandbox.denial import Denial
from pysandbox.errors import UnsupportedError
from pysandbox.launch.proctext import number, numbers
from pysandbox.live.commands import Asker, Commands
from pysandbox.live.processes import children, command_line, status_of
from pysandbox.shapes import replace

MOST_ANCESTORS = 256

Status = dict[bytes, bytes]


def asker_of(tid: int, init_pid: int, argv: tuple[str, ...] = (), session: int = 0, *, ascends: bool = True) -> Asker:
    """The process of a thread, by the host's number of it. `argv` where it is known already; `session` is what it was
    in when it asked, by the host's number, for a process that has ended meanwhile. `ascends`: its ancestors are looked
    at, which takes 70 us for each of up to MOST_ANCESTORS; else it is known by its session alone."""
    status = _status(tid)
    if not status:
        return Asker(tid, argv, _led_by(session))
    pid = number(status.get(b"Tgid", b"")) or tid
    leaders = _last(status.get(b"NSsid", b"")), _eldest(status, init_pid) if ascends else 0
    return Asker(pid, argv or command_line(pid), tuple(each for each in leaders if each))


def asker_below(pid: int, eldest: int) -> Asker:
    """A process of which the eldest ancestor below cage-init is known, by the host's numbers of both."""
    status = _status(pid)
    leaders = _last(status.get(b"NSsid", b"")), _last(_status(eldest).get(b"NSpid", b""))
    return Asker(pid, command_line(pid), tuple(each for each in leaders if each))


def _led_by(session: int) -> tuple[int, ...]:
    status = _status(session) if session > 0 else {}
    leader = _last(status.get(b"NSpid", b""))
    return (leader,) if leader and leader == _last(status.get(b"NSsid", b"")) else ()


def _eldest(status: Status, init_pid: int) -> int:
    """The number in the cage of the eldest ancestor below cage-init, or of the process itself; 0 when it is unknown."""
    for _ in range(MOST_ANCESTORS):
        parent = number(status.get(b"PPid", b""))
        if parent == init_pid:
            return _last(status.get(b"NSpid", b""))
        if parent <= 1 or not (status := _status(parent)):
            return 0
    return 0


def _status(pid: int) -> Status:
    with suppress(OSError):
        return status_of(pid)
    return {}


def _last(words: bytes) -> int:
    """The number in the innermost namespace."""
    return (numbers(words) or [0])[-1]


def gone(commands: Commands, init_pid: int) -> Iterable[int]:
    """The commands of which no process is left, as far as that can be told now."""
    try:
        return commands.gone([_last(_status(child).get(b"NSpid", b"")) for child in children(init_pid)])
    except (OSError, UnsupportedError):
        return ()


# ---- what was recorded ------------------------------------------------------------------------------------------


def attributed(recorded: Iterable[tuple[Denial, Asker]], commands: Commands) -> tuple[Denial, ...]:
    """Each with its command, as far as it is known by now; what is the same of one command is one, with its count."""
    merged: dict[tuple[str, str, str, int | None], Denial] = {}
    for denial, asker in recorded:
        command = denial.command if denial.command is not None else commands.of(asker)
        key = denial.kind, denial.target, denial.rule, command
        known = merged.get(key)
        count = denial.count + (known.count if known is not None else 0)
        merged[key] = replace(known or denial, command=command, count=count)
    return tuple(merged.values())
