"""Cutting what is connected already: every socket of the cage's processes that leads where it may no longer.

A socket is reset through a duplicate, so that both ends learn of it and what it had still to send is dropped. One whose
connect is still under way shows no peer, and is reset whatever its peer would be. Descriptors are looked for in every
thread's table, and in unix sockets that carry some on their way (unix(7), SCM_RIGHTS), connections that nobody has
accepted yet among them: those are received in the receiver's stead, and dropped, since they cannot be looked at
without.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from signal import SIGKILL

from pysandbox.handlers.address import PROTOCOL_BITS, Address
from pysandbox.launch.proctext import table
from pysandbox.policy.endpoint import MAPPED, Endpoint
from pysandbox.supervise.tasks import threads_of
from pysandbox.supervise.wire import close_borrowed, cut_socket, get_fd

MOST_MESSAGES = 1 << 16  # of one socket; its buffer holds far fewer
SO_LOCK_FILTER = 44  # <asm-generic/socket.h>
TCP_SYN_SENT, TCP_LISTEN = 2, 10  # <net/tcp_states.h>, the first byte of TCP_INFO

Verdict = Callable[[Address, int], bool]  # (peer, protocol) -> may stay


def cut_connections(pids: Iterable[int], endpoints: tuple[Endpoint, ...]) -> int:
    """Ends every IP socket of these processes, which are stopped, whose peer is not among the endpoints; how many."""

    def may_stay(peer: Address, protocol: int) -> bool:
        bit = PROTOCOL_BITS.get(protocol, 0)
        return any(each.holds(peer.packed, peer.port, bit) for each in endpoints)

    cut = 0
    for pid in pids:
        try:
            cut += sum(_cut(held, may_stay, bool(endpoints)) for held in _sockets_of(pid))
        except PermissionError:
            cut += _kill(pid)
    return cut


def _kill(pid: int) -> int:
    """A process that has made itself unreadable (PR_SET_DUMPABLE) may hold anything."""
    with suppress(ProcessLookupError):
        os.kill(pid, SIGKILL)
    return 1


@contextmanager
def _borrowed(fd: int) -> Iterator[socket.socket]:
    """A socket of the cage's, whose close may be the last one, and keeps nobody. Raises OSError for what is none."""
    try:
        held = socket.socket(fileno=fd)
    except OSError:
        close_borrowed(fd)
        raise
    try:
        yield held
    finally:
        close_borrowed(held.detach())


def _sockets_of(pid: int) -> Iterator[socket.socket]:
    """Raises PermissionError for a process that may not be looked into."""
    for tid in threads_of(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            for name in os.listdir(f"/proc/{tid}/fd"):
                if os.readlink(f"/proc/{tid}/fd/{name}").startswith("socket:"):
                    with _borrowed(get_fd(tid, int(name))) as held:
                        yield held
                        yield from _in_flight(held)


def _in_flight(held: socket.socket) -> Iterator[socket.socket]:
    """The sockets inside the messages of a unix socket, also in a unix socket that is inside one."""
    if held.family != socket.AF_UNIX:
        return
    listens = held.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    for _ in range(MOST_MESSAGES):
        if not _carries(held):
            return
        if listens:
            yield from _unaccepted(held)
        else:
            yield from _received(held)


def _unaccepted(listener: socket.socket) -> Iterator[socket.socket]:
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    if poller.poll(0):
        with suppress(OSError), _borrowed(listener.accept()[0].detach()) as connection:
            yield from _in_flight(connection)


def _received(held: socket.socket) -> Iterator[socket.socket]:
    """Of one message. An error of the socket's (its peer has gone) comes before its messages, once."""
    with suppress(OSError):
        _, control, _, _ = held.recvmsg(1 << 16, socket.CMSG_SPACE(253 * 4), socket.MSG_DONTWAIT)
        for level, kind, fds in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                for place in range(0, len(fds) - 3, 4):
                    yield from _adopted(int.from_bytes(fds[place : place + 4], "little"))


def _adopted(fd: int) -> Iterator[socket.socket]:
    with suppress(OSError), _borrowed(fd) as held:
        yield held
        yield from _in_flight(held)


def _carries(held: socket.socket) -> bool:
    with suppress(OSError), open(f"/proc/self/fdinfo/{held.fileno()}", "rb") as file:
        return table(file.read()).get(b"scm_fds", 0) > 0
    return False


def _cut(held: socket.socket, may_stay: Verdict, anybody: bool) -> int:
    """`anybody`: there is somebody left whom a listener may serve."""
    if held.family not in (socket.AF_INET, socket.AF_INET6):
        return 0
    state = _tcp_state(held)
    if state == TCP_SYN_SENT or (state == TCP_LISTEN and not anybody):
        return _end(held)
    try:
        host, port, *_ = held.getpeername()
    except OSError:
        return _deafen(held)
    packed = socket.inet_pton(held.family, host.partition("%")[0])
    peer = Address(packed if len(packed) == 16 else MAPPED + packed, port)
    if may_stay(peer, held.proto):
        return 0
    return _end(held)


def _deafen(held: socket.socket) -> int:
    """Connected to nobody, a socket's next send or connect is decided anew. One of the host's network over UDP hears,
    by the filter it was given for good (csrc/host/direct_filter.c), whoever was listed then."""
    if held.proto != socket.IPPROTO_UDP or not held.getsockopt(socket.SOL_SOCKET, SO_LOCK_FILTER):
        return 0
    with suppress(OSError):
        cut_socket(held.fileno())
    return 1


def _tcp_state(held: socket.socket) -> int:
    """0 for what is not TCP."""
    return held.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] if held.proto == socket.IPPROTO_TCP else 0


def _end(held: socket.socket) -> int:
    with suppress(OSError):
        cut_socket(held.fileno())
    with suppress(OSError):  # of UDP: nothing is sent, nor heard; a TCP socket is closed by now
        held.shutdown(socket.SHUT_RDWR)
    return 1
