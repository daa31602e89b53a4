"""Cutting what is connected already: every socket of the cage's processes that leads where it may no longer.

A socket is shut down (shutdown(2)) through a duplicate, so both ends learn of it. Descriptors are looked for in every
thread's table, and in unix sockets that carry some on their way (unix(7), SCM_RIGHTS): those are received in the
receiver's stead, and dropped, since they cannot be looked at without.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

from pysandbox.handlers.address import PROTOCOL_BITS, Address
from pysandbox.launch.live import LiveInit
from pysandbox.policy.endpoint import MAPPED, Endpoint
from pysandbox.supervise.tasks import Stopped, threads_of
from pysandbox.supervise.wire import get_fd

Verdict = Callable[[Address, int], bool]  # (peer, protocol) -> may stay


def cut_connections(live: LiveInit, endpoints: tuple[Endpoint, ...], pids: frozenset[int] | None = None) -> int:
    """Shuts down every IP socket of the cage (or of these processes) whose peer is not among the endpoints; how many.

    The cage is stopped meanwhile.
    """

    def may_stay(peer: Address, protocol: int) -> bool:
        bit = PROTOCOL_BITS.get(protocol, 0)
        return any(each.holds(peer.packed, peer.port, bit) for each in endpoints)

    with Stopped(live) as stopped:
        wanted = [pid for pid in stopped.processes if pids is None or pid in pids]
        return sum(_cut(held, may_stay) for pid in wanted for held in _sockets_of(pid))


def _sockets_of(pid: int) -> Iterator[socket.socket]:
    for tid in threads_of(pid):
        with suppress(OSError):
            for name in os.listdir(f"/proc/{tid}/fd"):
                with suppress(OSError):
                    if os.readlink(f"/proc/{tid}/fd/{name}").startswith("socket:"):
                        with socket.socket(fileno=get_fd(tid, int(name))) as held:
                            yield held
                            yield from _in_flight(held, tid, name)


def _in_flight(held: socket.socket, tid: int, name: str) -> Iterator[socket.socket]:
    """The sockets inside unhandled messages of a unix socket: /proc/PID/fdinfo counts the descriptors (scm_fds)."""
    if held.family != socket.AF_UNIX:
        return
    for _ in range(256):
        if not _carries(tid, name):
            return
        try:
            _, control, _, _ = held.recvmsg(1 << 16, socket.CMSG_SPACE(253 * 4), socket.MSG_DONTWAIT)
        except OSError:
            return
        for level, kind, data in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                for place in range(0, len(data) - 3, 4):
                    yield from _adopted(int.from_bytes(data[place : place + 4], "little"))


def _adopted(fd: int) -> Iterator[socket.socket]:
    try:
        held = socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        return
    with held:
        yield held


def _carries(tid: int, name: str) -> bool:
    with suppress(OSError), open(f"/proc/{tid}/fdinfo/{name}", encoding="ascii") as file:
        return any(line.startswith("scm_fds:") and int(line.split()[1]) > 0 for line in file)
    return False


def _cut(held: socket.socket, may_stay: Verdict) -> int:
    if held.family not in (socket.AF_INET, socket.AF_INET6):
        return 0
    try:
        host, port, *_ = held.getpeername()
    except OSError:
        return 0  # connected to nobody: a later connect is decided anew
    packed = socket.inet_pton(held.family, host.partition("%")[0])
    peer = Address(packed if len(packed) == 16 else MAPPED + packed, port)
    if may_stay(peer, held.proto):
        return 0
    with suppress(OSError):
        held.shutdown(socket.SHUT_RDWR)
    return 1
