"""Cutting connections: every socket of the cage's processes whose peer is not allowed any more.

A socket is reset through a duplicate, so that both ends learn of it and what it had still to send is dropped. One that
is still connecting shows no peer, and is reset whatever its peer would be. Descriptors are looked for in every thread's
table, and in the messages that wait in unix sockets (unix(7), SCM_RIGHTS), including connections that nobody has
accepted yet. A message can only be examined by receiving it, so its receiver loses it.

The descriptors of a process that is not dumpable are not listed: a command before its first exec is one, and any may
become one. Each number is tried then, as the user may to whom the cage belongs; where that fails, or something is on
its way to such a process, it is killed.

A process that is stopped may be killed and waited for all the same, and its number be another's then. So each is named
by a pidfd of which it is known that it is of the cage (live/stopping.py), and what was got by a number is of it if it
lives still.

A socket counts once, by its cookie, however many descriptors name it and however often a cage is looked at: one of UDP
that has been cut looks as it did before.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EBADF
from signal import SIGKILL, pidfd_send_signal
from stat import S_ISSOCK

from pysandbox.descriptors.polling import is_over, is_readable
from pysandbox.descriptors.sockets import shared_socket
from pysandbox.errors import CageClosedError
from pysandbox.handlers.address import PROTOCOL_BITS, Address
from pysandbox.launch.proctext import table
from pysandbox.live.processes import threads_of
from pysandbox.live.stopping import held_below
from pysandbox.policy.endpoint import MAPPED, Endpoint
from pysandbox.shapes import Protocol
from pysandbox.supervise.wire import close_borrowed, cut_socket, get_fd

MOST_MESSAGES = 1 << 16  # of one socket; its buffer holds far fewer
MOST_NUMBERS = 1 << 16  # of descriptors that are tried
MOMENT = 0.05  # seconds in which cage-init takes what the host has sent it
SO_LOCK_FILTER, SO_COOKIE = 44, 57  # <asm-generic/socket.h>
COOKIE_SIZE = 8
TCP_SYN_SENT, TCP_LISTEN = 2, 10  # <net/tcp_states.h>, the first byte of TCP_INFO

Verdict = Callable[[Address, int], bool]  # (peer, protocol) -> may stay


class BelowInit(Protocol):
    """The processes below one: a cage's (live/init.py)."""

    pid: int

    def pin(self) -> int:
        """A pidfd of that one, to be closed. Raises CageClosedError, OSError."""


class Cutting:
    """One tightening of a cage: only these endpoints may stay. Called with stopped processes, again if some of them
    ran."""

    def __init__(self, endpoints: tuple[Endpoint, ...], live: BelowInit) -> None:
        self._endpoints, self._live = endpoints, live
        self._cut: set[bytes] = set()

    def __call__(self, pids: Iterable[int]) -> int:
        """Cuts every IP socket whose peer is not among the endpoints; returns how many that were not cut before.
        Raises OSError, UnsupportedError."""
        before, killed = len(self._cut), 0
        try:
            init = self._live.pin()
        except CageClosedError:  # nothing of it is left, or in a moment
            return 0
        try:
            with held_below(self._live.pid, init, pids) as pidfds:
                for pid, pidfd in pidfds.items():
                    killed += self._cut_all(pid, pidfd)
        finally:
            os.close(init)
        return len(self._cut) - before + killed

    def _cut_all(self, pid: int, pidfd: int) -> bool:
        """Whether the process had to be killed instead."""
        try:
            for held in _sockets_of(pid, pidfd):
                if _cut(held, self._may_stay, bool(self._endpoints)):
                    self._cut.add(held.getsockopt(socket.SOL_SOCKET, SO_COOKIE, COOKIE_SIZE))
        except PermissionError:
            _kill(pidfd)
            return True
        return False

    def _may_stay(self, peer: Address, protocol: int) -> bool:
        bit = PROTOCOL_BITS.get(protocol, 0)
        return any(each.holds(peer.packed, peer.port, bit) for each in self._endpoints)


def _kill(pidfd: int) -> None:
    """Kills a process whose descriptors cannot be looked at: it may hold any socket."""
    with suppress(ProcessLookupError):
        pidfd_send_signal(pidfd, SIGKILL)


@contextmanager
def _borrowed(fd: int) -> Iterator[socket.socket]:
    """A socket of the cage as an object. Its close may be the last one, and does not block. Raises OSError for what is
    no socket."""
    try:
        held = shared_socket(fd)
    except OSError:
        close_borrowed(fd)
        raise
    try:
        yield held
    finally:
        close_borrowed(held.detach())


def _sockets_of(pid: int, pidfd: int) -> Iterator[socket.socket]:
    """The sockets of a process. Raises PermissionError for one whose descriptors may not be looked at."""
    for tid in threads_of(pid):
        thread = f"/proc/{pid}/task/{tid}"
        table_of = f"{thread}/fd"
        with suppress(FileNotFoundError, ProcessLookupError):
            names = _listed(table_of)
            for fd in _numbered(tid, f"{thread}/status") if names is None else _named(tid, table_of, names):
                with _borrowed(fd) as held:
                    if not os.path.exists(table_of) or is_over(pidfd):
                        break  # whose it is cannot be known
                    yield held
                    if names is not None:
                        yield from _in_flight(held)
                    elif _keeps(held):
                        raise PermissionError("what is on its way to it cannot be looked at")


def _listed(table_of: str) -> list[str] | None:
    """None for a process that is not dumpable."""
    try:
        return os.listdir(table_of)
    except PermissionError:
        return None


def _named(tid: int, table_of: str, names: Iterable[str]) -> Iterator[int]:
    for name in names:
        if os.readlink(f"{table_of}/{name}").startswith("socket:"):
            yield get_fd(tid, int(name))


def _numbered(tid: int, status: str) -> Iterator[int]:
    """The sockets among all numbers that its table has room for. Raises PermissionError."""
    with open(status, "rb") as file:
        room = table(file.read()).get(b"FDSize", MOST_NUMBERS + 1)
    if room > MOST_NUMBERS:
        raise PermissionError("it has too many descriptors")
    for number in range(room):
        try:
            fd = get_fd(tid, number)
        except OSError as error:
            if error.errno != EBADF:
                raise
            continue
        if S_ISSOCK(os.fstat(fd).st_mode):
            yield fd
        else:
            close_borrowed(fd)


def _keeps(held: socket.socket) -> bool:
    """Whether descriptors are on their way to it. A command that has executed nothing shares the socket of cage-init,
    whose messages are nobody else's to receive: they are gone in a moment."""
    until = time.monotonic() + MOMENT
    while held.family == socket.AF_UNIX and _carries(held):
        if time.monotonic() > until:
            return True
        time.sleep(MOMENT / 50)
    return False


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
    if is_readable(listener):
        with suppress(OSError), _borrowed(listener.accept()[0].detach()) as connection:
            yield from _in_flight(connection)


def _received(held: socket.socket) -> Iterator[socket.socket]:
    """The sockets that one message carries. A pending error of the socket (its peer has gone) is read first, once."""
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


def _cut(held: socket.socket, may_stay: Verdict, anybody: bool) -> bool:
    """Cuts one socket; whether it did. `anybody`: there are addresses left that may connect to a listener."""
    if held.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    state = _tcp_state(held)
    if state == TCP_SYN_SENT or (state == TCP_LISTEN and not anybody):
        return _end(held)
    try:
        host, port, *_ = held.getpeername()
    except OSError:
        return _deafen(held)
    packed = socket.inet_pton(held.family, host.partition("%")[0])
    peer = Address(packed if len(packed) == 16 else MAPPED + packed, port)
    return not may_stay(peer, held.proto) and _end(held)


def _deafen(held: socket.socket) -> bool:
    """Judges an unconnected socket. Its next send or connect is decided anew, so most are left alone. A UDP socket of
    the host's network receives from whoever its locked filter lists (csrc/host/emulate/direct_filter.c): it is cut."""
    if held.proto != socket.IPPROTO_UDP or not held.getsockopt(socket.SOL_SOCKET, SO_LOCK_FILTER):
        return False
    with suppress(OSError):
        cut_socket(held.fileno())
    return True


def _tcp_state(held: socket.socket) -> int:
    """The state of a TCP socket; 0 for any other."""
    return held.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] if held.proto == socket.IPPROTO_TCP else 0


def _end(held: socket.socket) -> bool:
    with suppress(OSError):
        cut_socket(held.fileno())
    with suppress(OSError):  # of UDP: nothing is sent, nor heard; a TCP socket is closed by now
        held.shutdown(socket.SHUT_RDWR)
    return True
