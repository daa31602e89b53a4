"""What is said to the reader, from when it is said until its channel takes it, in order.

A channel that is full takes more when the reader has read. Where the kernel is short of something (`SHORTAGE`), which
other cages may have taken, it is tried again: a shortage ends no reader. Descriptors that cannot be passed on for a
while are given up, with what they belong to, so that all that was said after them does not wait for a cage.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable

from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import AGAIN, SHORTAGE, ChannelRecord
from pysandbox.shapes import Any, NamedTuple

PATIENCE = 1.0  # seconds for descriptors to be passed on, while others have too many on their way


class UnsaidRecord(NamedTuple):
    record: ChannelRecord
    said: bytes
    fds: tuple[int, ...]


class Outbox:
    """Belongs to a loop. `lost` is told what was given up, `failed`, once, what has ended the channel; neither hears
    anything after `close`, when another channel may have taken the place of this one."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, near: socket.socket, lost: Callable[[ChannelRecord], object],
        failed: Callable[[str], object],
    ) -> None:  # fmt: skip
        self._loop, self._near, self._lost, self._failed = loop, near, lost, failed
        self._queue: deque[UnsaidRecord] = deque()
        self._again: asyncio.TimerHandle | None = None
        self._has_failed = self._is_closed = False
        self._until = 0.0  # when descriptors are given up, the first of all that wait; 0: none have waited

    def say(self, record: ChannelRecord, fds: tuple[int, ...] = ()) -> None:
        """Does not wait. The descriptors stay the caller's. Raises ValueError for what is too long, OSError where they
        cannot be duplicated. Nothing is said to a channel that has ended."""
        said = channel.encode(record)
        if self._has_failed or self._is_closed:
            return
        self._queue.append(UnsaidRecord(record, said, _duplicates(fds)))
        if self._again is None:
            self._flush()

    def close(self) -> None:
        """Drops what waits. Idempotent."""
        self._is_closed = True
        if self._again is not None:
            self._again.cancel()
        self._drop()

    def _drop(self) -> None:
        while self._queue:
            _close(self._queue.popleft().fds)

    def _flush(self) -> None:
        self._again = None
        while self._queue:
            _, said, fds = self._queue[0]
            try:
                channel.pass_on(self._near, said, fds)
            except BlockingIOError:
                self._loop.add_writer(self._near.fileno(), self._flush)
                return
            except OSError as error:
                if error.errno not in SHORTAGE:
                    self._fail(str(error))
                    return
                if not self._is_given_up():
                    self._again = self._loop.call_later(AGAIN, self._flush)
                    break
                self._soon(self._lost, self._queue[0].record)
            else:
                self._until = 0.0 if fds else self._until
            _close(self._queue.popleft().fds)
        if not self._queue:
            self._until = 0.0
        self._loop.remove_writer(self._near.fileno())

    def _fail(self, why: str) -> None:
        """Later: whoever says something is in the middle of what that was for."""
        self._has_failed = True
        self._loop.remove_writer(self._near.fileno())
        self._drop()
        self._soon(self._failed, why)

    def _soon(self, told: Callable[[Any], object], what: object) -> None:
        self._loop.call_soon(lambda: None if self._is_closed else told(what))

    def _is_given_up(self) -> bool:
        """Whether the first of the queue has waited for long enough: once for all that wait behind it, too, until
        descriptors go again, so that none of them waits a time of its own."""
        if not self._queue[0].fds:
            return False
        now = self._loop.time()
        self._until = self._until or now + PATIENCE
        return now >= self._until


def _duplicates(fds: tuple[int, ...]) -> tuple[int, ...]:
    made: list[int] = []
    try:
        made.extend(os.dup(fd) for fd in fds)  # those made before an error are in it
    except OSError:
        _close(tuple(made))
        raise
    return tuple(made)


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)
