"""Sockets at which the gatekeeper hears packets of a cage that arrive nowhere (tcp.refused, udp.lost), and what of them
is not recorded yet: a look at the refusals is true only when it waits for that."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from pysandbox.descriptors.polling import is_readable
from pysandbox.gate.threads import in_loop
from pysandbox.shapes import TypeAlias

Record: TypeAlias = Callable[[socket.socket], None]  # of what has arrived at one of them


class Monitors:
    """The monitors of one cage. Belongs to the gatekeeper's loop, but for `catch_up`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._records: dict[socket.socket, Record] = {}
        self._in_hand = 0  # those that record what they have read

    @contextmanager
    def listening(self, monitor: socket.socket, record: Record) -> Iterator[None]:
        """While this lasts, `catch_up` asks for a record of what is still queued there; so does its end."""
        self._records[monitor] = record
        try:
            yield
        finally:
            del self._records[monitor]
            record(monitor)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """While this lasts, packets may have been read that are in no ledger yet."""
        self._in_hand += 1
        try:
            yield
        finally:
            self._in_hand -= 1

    def catch_up(self) -> None:
        """Returns when all that has arrived until now is recorded. Any thread but the loop's."""
        for monitor in list(self._records):
            with suppress(RuntimeError, TimeoutError, ValueError):  # the gatekeeper has ended, or is closing it
                if is_readable(monitor) or self._in_hand:  # in this order: what was read is in hand before
                    in_loop(self._loop, partial(self._record, monitor))

    def record_all(self) -> None:
        """Records what has arrived until now. In the loop."""
        for monitor in list(self._records):
            self._record(monitor)

    def _record(self, monitor: socket.socket) -> None:
        if monitor in self._records:
            self._records[monitor](monitor)
