"""What all cages of a gatekeeper use together, and how much of it one may have: descriptors of the host program,
questions to its name servers, and calls of the reader that wait for an answer.

Half of the descriptors that this process may have are for what cages have opened; the other half is the program's own,
whatever its cages do. A cage may take as much of it as stays free for the others: one cage alone has half, each of two
a third. So there is always something left for the next one, no number has to be configured, and no cage waits for what
others hold on to.

Before a descriptor is opened for a cage it is taken here, with `take` or `room`, or counted with `note` where it exists
already; the code that closes it gives it back.
"""

from __future__ import annotations

import asyncio
import resource
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

HOST_PART = 2  # the host program keeps one part in so many of its descriptors


def descriptors() -> int:
    """What cages may have of this process's descriptors, all together; a program may change it while it runs."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (1 << 30 if soft == resource.RLIM_INFINITY else soft) // HOST_PART


class Account:
    """What all shares of one event loop take from. `limit` is called each time, because it may change."""

    def __init__(self, limit: Callable[[], int] = descriptors) -> None:
        self._limit = limit
        self.taken = 0
        self._waiting: OrderedDict[Share, OrderedDict[asyncio.Future[None], int]] = OrderedDict()

    def share(self, most: int = 1 << 30, full: Callable[[int], object] = lambda _: None) -> Share:
        return Share(self, most, full)

    @property
    def limit(self) -> int:
        return self._limit()

    @property
    def free(self) -> int:
        return self._limit() - self.taken

    def wait(self, share: Share, count: int) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(share, OrderedDict())[turn] = count
        return turn

    def leave(self, share: Share, turn: asyncio.Future[None]) -> None:
        """Somebody does not wait any more."""
        queue = self._waiting.get(share)
        if queue is not None and queue.pop(turn, None) is not None and not queue:
            del self._waiting[share]

    def freed(self) -> None:
        """Serves those who wait: the first of each share in its order, and the shares in turn. A share with thousands
        who wait costs the others no more than one with a single one."""
        while sum(self._serve_first(share) for share in list(self._waiting)):
            pass

    def _serve_first(self, share: Share) -> bool:
        queue = self._waiting[share]
        turn, count = next(iter(queue.items()))
        if not turn.done():
            if not share.take(count):
                return False
            turn.set_result(None)
        self.leave(share, turn)
        if queue:
            self._waiting.move_to_end(share)
        return True


class Share:
    """What one cage takes of an account. `full` is called with the count it has, whenever a request waits or fails."""

    def __init__(self, account: Account, most: int, full: Callable[[int], object]) -> None:
        self._account, self._most, self._full = account, most, full
        self.taken = 0

    def beside(self) -> Share:
        """Another share of the same account, for what no cage has caused."""
        return self._account.share()

    @property
    def all(self) -> int:
        """What all shares of the account may have together."""
        return self._account.limit

    def take(self, count: int = 1) -> bool:
        """Takes `count` at once; False where that is more than the share may have."""
        after, free = self.taken + count, self._account.free - count
        if after > self._most or free < 0 or (self.taken and after > free):  # whoever has nothing may have what is left
            return False
        self.note(count)
        return True

    def take_or_tell(self, count: int = 1) -> bool:
        """As `take`; a refusal is reported with `full`."""
        taken = self.take(count)
        if not taken:
            self._full(self.taken)
        return taken

    async def room(self, count: int = 1) -> None:
        """Takes `count`, and waits until the share may have it."""
        if self.take_or_tell(count):
            return
        turn = self._account.wait(self, count)
        try:
            await turn
        except asyncio.CancelledError:
            self._account.leave(self, turn)
            if turn.done() and not turn.cancelled():
                self.give(count)
            raise

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Has one for as long as this lasts."""
        await self.room()
        try:
            yield
        finally:
            self.give()

    def note(self, count: int = 1) -> None:
        """Counts what exists already, even beyond the share: it cannot be refused any more."""
        self.taken += count
        self._account.taken += count

    def give(self, count: int = 1) -> None:
        self.taken -= count
        self._account.taken -= count
        self._account.freed()
