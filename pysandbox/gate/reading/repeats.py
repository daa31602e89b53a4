"""What was said at a door before, and what it meant: the loop waits in csrc/host/repeats, which answers who says the
same again, and has the relay's thread connect him. Python reads what is new, and whatever is not as expected there.

`RepeatSelector` is where the loop waits. `RepeatDoor` is one door: what it has learned, and how many clients it may
have there. For each the descriptors are taken in advance, and given back when nobody has come for a while; a client
that is Python's to go on with takes its own along.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import math
import os
import selectors
import socket
from collections import Counter
from collections.abc import Callable
from select import EPOLLIN, EPOLLOUT

from pysandbox._native import ffi, lib
from pysandbox.gate.doors import Repeat, RepeatClient
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.reading.host_end import HostEnd, Received
from pysandbox.gate.reading.kinds import Verb
from pysandbox.gate.shares import Share
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.shapes import Any

AT_ONCE = 256  # descriptors of which the loop hears in one round
PLACES = 16  # of a door: a cage has no more connections at the relay's thread
PART = 16  # of all descriptors one in so many is the most that a cage has in advance, at all its doors
IDLE = 5.0  # seconds, after which they are given back


class RepeatSelector(selectors.EpollSelector):
    def __init__(self) -> None:
        super().__init__()
        self._repeats: Any = lib.psb_repeat_new(self.fileno())
        if self._repeats == ffi.NULL:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        self._events = ffi.new("struct psb_repeat_event[]", AT_ONCE)
        self._keys: dict[int, selectors.SelectorKey] = {}
        self.unanswered: Callable[[], int] = lambda: 0
        self.handed_back: Callable[[], object] = lambda: None

    @property
    def repeats(self) -> Any:
        return self._repeats

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        self._keys[key.fd] = key
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().modify(fileobj, events, data)
        self._keys[key.fd] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        self._keys.pop(key.fd, None)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        patience = -1 if timeout is None else 0 if timeout <= 0 else math.ceil(timeout * 1e3)
        count = lib.psb_repeat_wait(self._repeats, patience, self.unanswered(), self._events, AT_ONCE)
        if count < 0:
            raise OSError(-count, os.strerror(-count))
        if lib.psb_repeat_has_back(self._repeats):
            self.handed_back()
        ready = []
        for each in self._events[0:count]:
            key, events = self._keys.get(each.fd), each.events
            if key is not None:
                there = (events & ~EPOLLIN and selectors.EVENT_WRITE) | (events & ~EPOLLOUT and selectors.EVENT_READ)
                ready.append((key, there & key.events))
        return ready

    def close(self) -> None:
        if self._repeats is not None:
            lib.psb_repeat_free(self._repeats)
            self._repeats = None
        super().close()


class RepeatDoors:
    """The doors of all cages, as they are known there."""

    def __init__(self, selector: RepeatSelector, relay: HostEnd, loop: asyncio.AbstractEventLoop) -> None:
        self._repeats, self._relay, self._loop = selector.repeats, relay, loop
        self._numbers = itertools.count(1)
        self._doors: dict[int, RepeatDoor] = {}
        self._held: Counter[int] = Counter()  # descriptors, by cage
        if failed := lib.psb_repeat_offer_at(self._repeats, relay.fileno()):
            raise OSError(-failed, os.strerror(-failed))
        selector.unanswered = lambda: relay.unanswered
        selector.handed_back = lambda: loop.call_soon(self.take_back)
        relay.elsewhere = lambda: int(lib.psb_repeat_clients(selector.repeats)) if selector.repeats else 0
        relay.stray = self._answered

    def open(
        self, cage: int, share: Share, each: int, listener: socket.socket, go_on: Callable[[RepeatClient], object],
        *, redirected: bool = False,
    ) -> RepeatDoor | None:  # fmt: skip
        """A door of a cage; a client of it takes `each` of its share. `go_on` gets who is to be gone on with here. None
        for want of memory."""
        number = next(self._numbers)
        if lib.psb_repeat_open(self._repeats, number, listener.fileno(), int(redirected)):
            return None
        door = self._doors[number] = RepeatDoor(self, self._repeats, number, cage, share, each, go_on, self._loop)
        return door

    def shut(self, number: int) -> None:
        """Whoever is there is handed back first."""
        lib.psb_repeat_shut(self._repeats, number)
        self.take_back()
        del self._doors[number]

    def forget(self, cage: int) -> None:
        """What was said at its doors is read anew."""
        for door in self._doors.values():
            if door.cage == cage:
                door.forget()

    def held(self, cage: int, more: int = 0) -> int:
        """How many descriptors a cage has here in advance, and so many more from now on."""
        self._held[cage] += more
        return self._held[cage] or self._held.pop(cage)

    def take_back(self) -> None:
        client = ffi.new("struct psb_repeat_client *")
        while lib.psb_repeat_take(self._repeats, client):
            asked, words = (
                bytes(ffi.buffer(said, size)) if size else b""
                for said, size in ((client.asked, client.asked_size), (client.words, client.words_size))
            )
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=client.fd)
            self._doors[client.door].handed_back(
                RepeatClient(sock, client.call, bool(client.is_greeted), bool(client.has_spoken), asked, words)
            )

    def _answered(self, received: Received) -> bool:
        """Whether the answer of the relay's thread to a call that was made there needs nobody here."""
        number = received.record.number
        if received.record.kind is Verb.OVER and lib.psb_repeat_over(self._repeats, number):
            return True
        lib.psb_repeat_give_back(self._repeats, number)
        self.take_back()
        return False


class RepeatDoor:
    def __init__(
        self, doors: RepeatDoors, repeats: Any, number: int, cage: int, share: Share, each: int,
        go_on: Callable[[RepeatClient], object], loop: asyncio.AbstractEventLoop,
    ) -> None:  # fmt: skip
        self._doors, self._repeats, self._number, self.cage = doors, repeats, number, cage
        self._share, self._each, self._go_on, self._loop = share, each, go_on, loop
        self._places = self._served = 0
        self._sweeping: asyncio.TimerHandle | None = None

    def learn(self, what: Repeat, said: bytes, answer: bytes) -> bool:
        """What cannot be kept is read each time."""
        kept = lib.psb_repeat_learn(self._repeats, self._number, what, said, len(said), answer, len(answer))
        return int(kept) == 0

    def learn_offer(self, what: Repeat, said: bytes, asked: DialTarget, answer: bytes) -> None:
        fields = str(self.cage).encode(), asked.host.encode(), str(asked.port).encode(), answer
        kept = self.learn(what, said, channel.encode(ChannelRecord(Verb.OFFER, 0, fields)))
        places = min(PLACES, self._room())
        if kept and not self._places and places > 0 and self._share.take(places * self._each):
            self._allow(places)
            if self._sweeping is None:  # places may go while it waits
                self._sweeping = self._loop.call_later(IDLE, self._sweep)

    def forget(self, said: bytes | None = None) -> None:
        lib.psb_repeat_forget(self._repeats, self._number, ffi.NULL if said is None else said, len(said or b""))

    def end(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._doors.shut(self._number)
        self._share.give(self._places * self._each)
        self._hold(-self._places)

    # ---- places -------------------------------------------------------------------------------------------------

    def handed_back(self, client: RepeatClient) -> None:
        self._hold(-1)  # it has its own
        self._go_on(client)

    def make_up(self) -> None:
        """For one that was handed back there is room for another."""
        if 0 < self._places < PLACES and self._room() > 0 and self._share.take(self._each):
            self._allow(1)

    def _room(self) -> int:
        """How many places the cage may still have."""
        return (self._share.all // PART - self._doors.held(self.cage)) // self._each

    def _hold(self, places: int) -> None:
        self._places += places
        self._doors.held(self.cage, places * self._each)

    def _allow(self, places: int) -> None:
        self._hold(places)
        lib.psb_repeat_allow(self._repeats, self._number, places)

    def _sweep(self) -> None:
        """Gives the places back that nobody has needed."""
        self._sweeping, served = None, lib.psb_repeat_served(self._repeats, self._number)
        if served == self._served and lib.psb_repeat_free_places(self._repeats, self._number) == self._places:
            self._share.give(self._places * self._each)
            self._allow(-self._places)
        elif self._places:
            self._sweeping = self._loop.call_later(IDLE, self._sweep)
        self._served = served
