"""Channels: a queue in each direction between two domains, each with a cap in bytes. Nothing here waits: a full queue
is EAGAIN for the sender, an empty one for the receiver.

A pair is (the app's own side, its peer): what is sent on (a, b) is received on (b, a).
"""

from __future__ import annotations

import errno
import os
from collections import Counter, deque
from collections.abc import Callable

from pysandbox.apps.kernel.owned import OwnedHandles
from pysandbox.shapes import cast

QUEUE_BYTES = 1 << 18
MOST_QUEUES = 128  # that one app makes and that are in use: who may open any pair could make them without end
MESSAGE_COST = 64  # an empty message is one, too
KIND = "channel"

Value = int | str | bytes


class Queue:
    """`maker`: the app that counts it; `users`: how many channels it is open in."""

    def __init__(self, key: tuple[str, str], maker: str, most: int) -> None:
        self.key, self.maker, self.users = key, maker, 0
        self._messages: deque[tuple[Value, int]] = deque()
        self._size, self._most = 0, most

    @property
    def is_left(self) -> bool:
        return not self.users and not self._messages

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
    def __init__(self, sending: Queue, receiving: Queue, forget: Callable[[Queue], None]) -> None:
        self.sending, self.receiving, self._forget = sending, receiving, forget
        for queue in (sending, receiving):
            queue.users += 1

    def close(self) -> None:
        """A queue that holds something stays: what was sent can still be received."""
        for queue in (self.sending, self.receiving):
            queue.users -= 1
            if queue.is_left:
                self._forget(queue)


class ChannelWrappers:
    def __init__(self, owned: OwnedHandles, queue_bytes: int = QUEUE_BYTES) -> None:
        self._owned, self._most = owned, queue_bytes
        self._queues: dict[tuple[str, str], Queue] = {}
        self._made: Counter[str] = Counter()

    def open(self, owner: str, own: str, peer: str) -> int:
        missing = len({(own, peer), (peer, own)} - self._queues.keys())
        if self._made[owner] + missing > MOST_QUEUES:
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))
        sending, receiving = self._queue(owner, own, peer), self._queue(owner, peer, own)
        return self._owned.issue(owner, KIND, Channel(sending, receiving, self._forget))

    def _queue(self, maker: str, sender: str, receiver: str) -> Queue:
        queue = self._queues.get((sender, receiver))
        if queue is None:
            queue = self._queues[sender, receiver] = Queue((sender, receiver), maker, self._most)
            self._made[maker] += 1
        return queue

    def _forget(self, queue: Queue) -> None:
        if self._queues.get(queue.key) is queue:
            del self._queues[queue.key]
            self._made[queue.maker] -= 1

    def send(self, owner: str, handle: int, value: Value) -> None:
        self._channel(owner, handle).sending.put(value)

    def recv(self, owner: str, handle: int) -> Value:
        return self._channel(owner, handle).receiving.take()

    def close(self, owner: str, handle: int) -> None:
        self._owned.close(owner, handle, KIND)

    def _channel(self, owner: str, handle: int) -> Channel:
        return cast(Channel, self._owned.find(owner, handle, KIND))
