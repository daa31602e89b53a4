"""Channels: a queue in each direction between two domains, each with a cap in bytes. Nothing here waits: a full queue
is EAGAIN for the sender, an empty one for the receiver.

A pair is (the app's own side, its peer): what is sent on (a, b) is received on (b, a).
"""

from __future__ import annotations

import errno
import os
from collections import deque

from pysandbox.apps.kernel.owned import OwnedHandles
from pysandbox.shapes import cast

QUEUE_BYTES = 1 << 18
MOST_QUEUES = 256  # of a kernel: who may open any pair could make them without end
MESSAGE_COST = 64  # an empty message is one, too
KIND = "channel"

Value = int | str | bytes


class Queue:
    def __init__(self, most: int) -> None:
        self._messages: deque[tuple[Value, int]] = deque()
        self._size, self._most = 0, most

    def put(self, value: Value) -> None:
        cost = MESSAGE_COST + (len(value) if isinstance(value, bytes) else len(str(value).encode()))
        if self._size + cost > self._most:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self._messages.append((value, cost))
        self._size += cost

    def take(self) -> Value:
        if not self._messages:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        value, cost = self._messages.popleft()
        self._size -= cost
        return value


class Channel:
    def __init__(self, sending: Queue, receiving: Queue) -> None:
        self.sending, self.receiving = sending, receiving

    def close(self) -> None:
        """The queues stay: what was sent can still be received."""


class ChannelWrappers:
    def __init__(self, owned: OwnedHandles, queue_bytes: int = QUEUE_BYTES) -> None:
        self._owned, self._most = owned, queue_bytes
        self._queues: dict[tuple[str, str], Queue] = {}

    def open(self, owner: str, own: str, peer: str) -> int:
        return self._owned.issue(owner, KIND, Channel(self._queue(own, peer), self._queue(peer, own)))

    def _queue(self, sender: str, receiver: str) -> Queue:
        queue = self._queues.get((sender, receiver))
        if queue is None:
            if len(self._queues) >= MOST_QUEUES:
                raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))
            queue = self._queues[sender, receiver] = Queue(self._most)
        return queue

    def send(self, owner: str, handle: int, value: Value) -> None:
        self._channel(owner, handle).sending.put(value)

    def recv(self, owner: str, handle: int) -> Value:
        return self._channel(owner, handle).receiving.take()

    def close(self, owner: str, handle: int) -> None:
        self._owned.close(owner, handle, KIND)

    def _channel(self, owner: str, handle: int) -> Channel:
        return cast(Channel, self._owned.find(owner, handle, KIND))
