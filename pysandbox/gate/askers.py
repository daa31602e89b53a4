"""Who is at a door: the process of the cage that holds the other end of a socket.

A connection is known by both its ends. The kernel lists it with its inode (proc_pid_net(5)), in the cage's network, and
whoever holds a socket of that inode is at the door. A datagram is known by where it came from; a socket that has been
closed since, and whose port another one has taken meanwhile, is what this cannot tell apart. Where several processes
hold a socket, their command is told, and no process.

Looked up when a refusal is recorded, in the gatekeeper's loop, and so bounded: by descriptors for each look, and by a
share of the loop's time for each cage. What is beyond is not told (`Asker()`).
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
from pysandbox.live.askers import asker_of
from pysandbox.live.commands import Asker
from pysandbox.live.processes import descendants
from pysandbox.shapes import NamedTuple

MOST_DESCRIPTORS = 8192  # of one look
TABLE_MOST = 1 << 20  # bytes of a table of sockets: some 7,000
CREDIT, SHARE = 0.25, 0.05  # seconds of looks at once, and for each second later on
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


class Askers:
    """Tells who asks in one cage. In the loop; `now` raises nothing."""

    def __init__(self, init_pid: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._init, self._clock = init_pid, clock
        self._credit, self._at = CREDIT, clock()

    def now(self) -> Asker:
        """Who asks for what this task serves."""
        found, began = _asking.get(), self._clock()
        self._credit = min(CREDIT, self._credit + (began - self._at) * SHARE)
        self._at = began
        if found is None or self._credit <= 0:
            return Asker()
        try:
            with suppress(OSError, UnsupportedError):
                peer = found()
                return self._holder(peer) if peer is not None else Asker()
            return Asker()
        finally:
            self._credit -= self._clock() - began

    def _holder(self, peer: DoorClient) -> Asker:
        inode = _inode(self._init, peer)
        askers = [asker_of(pid, self._init) for pid in _holders(self._init, inode)] if inode else []
        if len(askers) == 1:
            return askers[0]
        eldest = {asker.leaders[-1:] for asker in askers}
        return Asker(leaders=askers[0].leaders) if len(eldest) == 1 else Asker()


def _inode(init_pid: int, peer: DoorClient) -> int:
    """The inode of the socket that it can only be; 0 where there is none, or more than one."""
    found: set[int] = set()
    for name in (peer.protocol, f"{peer.protocol}6"):
        for line in lines(read_below(None, f"/proc/{init_pid}/net/{name}", TABLE_MOST) or b"")[1:]:
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


def _holders(init_pid: int, inode: int) -> list[int]:
    """The processes of the cage that hold a socket; none where there are too many descriptors to look at."""
    wanted, left, found = f"socket:[{inode}]", MOST_DESCRIPTORS, []
    for pid in descendants(init_pid):
        names = names_below(None, f"/proc/{pid}/fd") or []
        left -= len(names)
        if left < 0:
            return []
        if any(_link(f"/proc/{pid}/fd/{name}") == wanted for name in names):
            found.append(pid)
    return found


def _link(path: str) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""
