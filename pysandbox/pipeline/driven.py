"""Calls that run beside one another, driven by one thread: who starts them, who answers, whose time is over.

Nothing here starts a thread or takes a lock: the descriptors of all calls are in one poll(2), which is told of a call
when it begins and when it is over. `dispatch` has one in its thread, for calls that others submit; a caller that waits
for all of its calls anyway drives them himself (`mapping`).
"""

from __future__ import annotations

import select
import time

from pysandbox.pipeline.exchange import CallExchange
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pysandbox.pipeline.exchange import ReceivedAnswer

    Outcome = tuple[CallExchange, ReceivedAnswer | Exception]


class DrivenCalls:
    """For one thread. Those that are over are closed; `close` ends the others. What becomes readable at `wakes` ends a
    wait: `was_woken` tells so."""

    def __init__(self, wakes: int = -1) -> None:
        self.was_woken = False
        self._wakes = wakes
        self._poll = select.poll()
        if wakes >= 0:
            self._poll.register(wakes, select.POLLIN)
        self._watched: dict[CallExchange, list[int]] = {}
        self._of: dict[int, CallExchange] = {}

    def __len__(self) -> int:
        return len(self._watched)

    def add(self, exchange: CallExchange) -> None:
        self._watch(exchange, exchange.watched())

    def advance(self, longest: float) -> Iterator[Outcome]:
        """What has become of each that is over now, or within `longest` seconds."""
        ready = self._poll.poll(self._patience(longest) * 1000)
        self.was_woken = any(fd == self._wakes for fd, _ in ready)
        now = time.monotonic()
        late = [(-1, each) for each in self._watched if (each.due() or now + 1) <= now]
        for fd, exchange in [*((fd, self._of[fd]) for fd, _ in ready if fd in self._of), *late]:
            if exchange in self._watched and (outcome := self._listened(exchange, fd)) is not None:
                yield exchange, outcome

    def remove(self, exchange: CallExchange) -> None:
        """Drives a call no more: it is over, or whoever asks ends it."""
        self._forget(self._watched.pop(exchange))

    def close(self) -> None:
        for exchange in list(self._watched):
            self.remove(exchange)
            exchange.close()

    def _patience(self, longest: float) -> float:
        due = min((each for each in (exchange.due() for exchange in self._watched) if each is not None), default=None)
        return longest if due is None else max(0.0, min(due - time.monotonic(), longest))

    def _listened(self, exchange: CallExchange, fd: int) -> ReceivedAnswer | Exception | None:
        before = self._watched[exchange]
        try:
            outcome: ReceivedAnswer | Exception | None = exchange.advance(fd)
        except Exception as error:
            outcome = error
        except BaseException:  # it has closed itself
            self.remove(exchange)
            raise
        if outcome is not None:
            self.remove(exchange)
        elif (after := exchange.watched()) != before:
            self._forget(before)
            self._watch(exchange, after)
        return outcome

    def _watch(self, exchange: CallExchange, fds: list[int]) -> None:
        self._watched[exchange] = fds
        for fd in fds:
            self._poll.register(fd, select.POLLIN)
            self._of[fd] = exchange

    def _forget(self, fds: list[int]) -> None:
        """Whether or not they are closed by now: their numbers are the next ones'."""
        for fd in fds:
            self._poll.unregister(fd)
            del self._of[fd]
