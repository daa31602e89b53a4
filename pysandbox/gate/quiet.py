"""Doors at which nobody has been yet: the kernel watches them, and neither the gatekeeper's loop nor the reader has
heard of their cage.

Most commands say nothing to the network, and what is made for a cage before it speaks is paid for by each of them. So
a cage's doors wait in one epoll instance for all cages, and its first packet has them handed over, all together; it
waits in the kernel's queue meanwhile, as it does while the reader begins. Whether something has arrived is looked at
once more by whoever asks what was refused, and when the cage ends.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from errno import ESHUTDOWN
from functools import partial

from pysandbox.gate.threads import in_loop
from pysandbox.shapes import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pysandbox.gate.cage_session import CageSession

Doors: TypeAlias = "Mapping[tuple[str, str], socket.socket]"  # by kind and protocol

AT_ONCE = 16  # cages that are handed over in one round of the loop


class QuietDoors:
    """`spoken` is called in the loop, once for each cage that speaks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, spoken: Callable[[CageSession, Doors], None]) -> None:
        """The loop does not run yet. Raises OSError."""
        self._loop, self._spoken = loop, spoken
        self._lock = threading.Lock()
        self._doors: dict[CageSession, Doors] = {}
        self._sessions: dict[int, CageSession] = {}  # by the descriptors of their doors
        self._epoll = select.epoll()
        loop.add_reader(self._epoll.fileno(), self._ready)

    @property
    def descriptors(self) -> int:
        """How many they are."""
        return len(self._sessions)

    def add(self, session: CageSession, doors: Doors) -> None:
        """The doors are watched from now on, and their session closes them. Any thread. Raises OSError: some are
        watched then, until they are taken."""
        fds = [door.fileno() for door in doors.values()]
        with self._lock:
            if self._epoll.closed:
                raise OSError(ESHUTDOWN, "the gatekeeper has ended")
            self._doors[session] = doors
            self._sessions.update(dict.fromkeys(fds, session))
            for fd in fds:
                self._epoll.register(fd, select.EPOLLIN)

    def take(self, session: CageSession, *, silent: bool = False) -> Doors | None:
        """The doors of a session, which are watched no longer; None where they are not, or, if `silent`, something has
        arrived at one of them. Any thread."""
        with self._lock:
            doors = self._doors.get(session)
            if doors is None or (silent and _has_arrived(doors)):
                return None
            del self._doors[session]
            for door in doors.values():
                if self._sessions.pop(door.fileno(), None) is not None:
                    with suppress(OSError, ValueError):  # one that could not be added; the loop has ended
                        self._epoll.unregister(door)
            return doors

    def hand_over(self, session: CageSession) -> bool:
        """Hands its doors over where something has arrived at one of them; whether it did. In the loop."""
        with self._lock:
            doors = self._doors.get(session)
            arrived = doors is not None and _has_arrived(doors)
        if not arrived or (doors := self.take(session)) is None:
            return False
        self._spoken(session, doors)
        return True

    def catch_up(self, session: CageSession) -> None:
        """Returns when the reader has the doors, where something has arrived until now. Any thread but the loop's."""
        with self._lock:
            doors = self._doors.get(session)
            if doors is not None and not _has_arrived(doors):
                return
        if session.reader is None:  # it does not know the cage yet
            with suppress(RuntimeError, TimeoutError):
                in_loop(self._loop, partial(self.hand_over, session))

    def _ready(self) -> None:
        for fd, _ in self._epoll.poll(0, AT_ONCE):
            session = self._sessions.get(fd)
            doors = self.take(session) if session is not None else None
            if session is not None and doors is not None:
                self._spoken(session, doors)

    def close(self) -> None:
        """The loop has ended."""
        with self._lock:
            self._doors.clear()
            self._sessions.clear()
            self._epoll.close()

    def after_fork_in_child(self) -> None:
        self._lock = threading.Lock()  # another thread may have held it at the fork
        self._epoll.close()  # the instance is the original's
        self._doors, self._sessions = {}, {}


def _has_arrived(doors: Doors) -> bool:
    """Whether something waits at one of them. That nobody can come to it any more, is nothing."""
    poller = select.poll()
    for door in doors.values():
        poller.register(door, select.POLLIN)
    return any(events != select.POLLHUP for _, events in poller.poll(0))
