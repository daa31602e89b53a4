"""Who is at a door: the process of the cage that holds the other end of a socket.

A connection is known by both its ends. The kernel lists it with its inode (proc_pid_net(5)), in the cage's network, and
whoever holds a socket of that inode is at the door. A datagram is known by where it came from; a socket that has been
closed since, and whose port another one has taken meanwhile, is what this cannot tell apart. Where several processes
hold a socket, their command is told, and no process.

Looked up when a refusal is recorded, in the gatekeeper's loop, and so bounded: by descriptors and time for each look,
and by a share of the loop's time for each cage. What is beyond is not told (`Asker()`). Each process is looked at once,
from cage-init down: how long a chain of forks is that it ends costs nothing.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from pysandbox.errors import UnsupportedError
from pysandbox.launch.proctext import lines, names_below, number, read_below
from pysandbox.live.askers import asker_below
from pysandbox.live.commands import Asker
from pysandbox.live.look_credit import LookCredit
from pysandbox.live.processes import lineages
from pysandbox.shapes import NamedTuple

MOST_DESCRIPTORS = 8192  # of one look
MOST_SECONDS = 0.02  # ... of this thread's time: some 400 processes
TABLE_MOST = 1 << 20  # bytes of a table of sockets: some 7,000
MAPPED = "0000000000000000FFFF0000"  # an IPv4 address as one of IPv6, as the kernel writes it
ANYWHERE = ("00000000", "0" * 32)
LOCAL, REMOTE, INODE = 1, 2, 9  # columns


class DoorClient(NamedTuple):
    """Where somebody asks from, by protocol, and where to (None: it does not matter)."""

    protocol: str
    local: tuple[str, int]
    remote: tuple[str, int] | None = None


Found = Callable[[], DoorClient | None]
_asking: ContextVar[Found | None] = ContextVar("asking", default=None)


def serve_for(found: Found) -> None:
    """From now on this task serves somebody who is found so."""
    _asking.set(found)


@contextmanager
def served(peer: DoorClient | None) -> Iterator[None]:
    """What is refused meanwhile is refused to that peer."""
    token = _asking.set(lambda: peer)
    try:
        yield
    finally:
        _asking.reset(token)


def asking() -> DoorClient | None:
    """The peer that this task serves; None where it cannot be told."""
    found = _asking.get()
    return found() if found is not None else None


class TooMuchToLookAt(Exception):
    """Nobody has the time to say who it was."""


class Askers:
    """Tells who asks in one cage. In the loop; `now` raises nothing."""

    def __init__(self, init_pid: int) -> None:
        self._init, self._credit = init_pid, LookCredit()

    def now(self) -> Asker:
        """Who asks for what this task serves."""
        found = _asking.get()
        if found is None or not self._credit.is_left:
            return Asker()
        with self._credit.spent(), suppress(OSError, UnsupportedError, TooMuchToLookAt):
            peer = found()
            return self._holder(peer) if peer is not None else Asker()
        return Asker()

    def _holder(self, peer: DoorClient) -> Asker:
        inode = _inode(self._init, peer)
        return _asker(self._init, inode) if inode else Asker()


def _inode(init_pid: int, peer: DoorClient) -> int:
    """The inode of the socket that it can only be; 0 where there is none, or more than one."""
    found: set[int] = set()
    port = b":%04X " % peer.local[1]
    for name in (peer.protocol, f"{peer.protocol}6"):
        for line in lines(read_below(None, f"/proc/{init_pid}/net/{name}", TABLE_MOST) or b"")[1:]:
            if port not in line:
                continue
            words = line.decode("ascii", "replace").split()
            if len(words) > INODE and _is(words[LOCAL], peer.local, peer) and _leads(words[REMOTE], peer):
                found.add(number(words[INODE].encode()))
    found.discard(0)
    return found.pop() if len(found) == 1 else 0


def _leads(word: str, peer: DoorClient) -> bool:
    return peer.remote is None or _is(word, peer.remote, peer)


def _is(word: str, place: tuple[str, int], peer: DoorClient) -> bool:
    address, _, port = word.partition(":")
    if port != f"{place[1]:04X}":
        return False
    written = f"{int.from_bytes(socket.inet_aton(place[0]), sys.byteorder):08X}"
    return address in (written, MAPPED + written) or (peer.protocol == "udp" and address in ANYWHERE)


def _asker(init_pid: int, inode: int) -> Asker:
    """Who holds a socket. Raises TooMuchToLookAt."""
    held = _holders(init_pid, inode)
    first, shared = next(held, None), False
    if first is None:
        return Asker()
    for _, eldest in held:
        if eldest != first[1]:
            return Asker()
        shared = True
    asker = asker_below(*first)
    return Asker(leaders=asker.leaders) if shared else asker


def _holders(init_pid: int, inode: int) -> Iterator[tuple[int, int]]:
    """The processes of the cage that hold a socket, each with its eldest ancestor. Raises TooMuchToLookAt."""
    wanted, left, until = f"socket:[{inode}]", MOST_DESCRIPTORS, time.thread_time() + MOST_SECONDS
    for line in lineages(init_pid):
        if time.thread_time() > until:
            raise TooMuchToLookAt
        if line is None:
            continue
        names = names_below(None, f"/proc/{line[0]}/fd") or []
        left -= len(names)
        if left < 0:
            raise TooMuchToLookAt
        if any(_link(f"/proc/{line[0]}/fd/{name}") == wanted for name in names):
            yield line


def _link(path: str) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""
