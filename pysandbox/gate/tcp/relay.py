"""Two connected sockets become one stream: the thread of csrc/host/relay/relay.c, and who waits for the end of which
pair.

One Relay for each gatekeeper. Bytes are moved in C, without the interpreter lock; Python hears of a pair once, when it
has ended. `hold` is for streams whose first bytes are looked at first: what the server says flows at once, what the
client says when it is released. It calls the extension itself, as `launch.native` and `supervise.wire` do.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import socket
import threading
from collections.abc import Callable

from pysandbox._native import ffi, lib
from pysandbox.shapes import Any, NamedTuple

ENDS = {lib.PSB_SPLICED_CLOSED: "closed", lib.PSB_SPLICED_RESET: "reset", lib.PSB_SPLICED_CUT: "cut"}
IDLE_MS = 10_000  # nobody is known to need more than a few
CAGES = 0xFFFFFF  # whose numbers are told apart
COLLECTED_AT_ONCE = 256  # ended pairs in one call of the loop: a flood of them lets others have their turn


class Spliced(NamedTuple):
    """A pair that has ended, its sockets closed."""

    number: int
    tag: object
    from_a: int  # bytes that `a` said here and `b` took
    from_b: int
    end: str  # "closed": both had said all; "reset": one was gone; "cut"


Done = Callable[[Spliced], None]


class SocketRelay:
    """`done` is called in the thread of `loop`. Made in that thread, or before the loop runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._relay: Any = lib.psb_relay_new()
        if self._relay == ffi.NULL:
            raise OSError(errno.ENOMEM, "no memory or descriptors for a relay")
        self._cages = itertools.count(1)
        self._waiting: dict[int, tuple[object, Done]] = {}
        self._lock = threading.Lock()  # the C struct lives while it is held
        self.dialler_failed: Callable[[], object] = lambda: None  # whoever asks it has ended, or makes no sense
        self._room = ffi.new("struct psb_spliced[]", COLLECTED_AT_ONCE)
        self._ended_fd: int = lib.psb_relay_ended_fd(self._relay)
        loop.add_reader(self._ended_fd, self._collect)
        self._thread = threading.Thread(target=self._run, args=(self._relay,), name="pysandbox-relay", daemon=True)
        self._thread.start()

    def new_cage(self) -> int:
        """A number that tells the pairs of one cage from those of others, for `splice`."""
        return next(self._cages) & CAGES

    def splice(
        self, a: socket.socket, b: socket.socket, tag: object, done: Done, *, hold: bool = False, said: bytes = b"",
        cage: int = 0,
    ) -> int:  # fmt: skip
        """Takes both over (also when it fails). `said` is what has been read of `a`; the pairs of one `cage` take turns
        with those of others. The pair's number, which is never used again. Raises OSError."""
        flags = (lib.PSB_RELAY_HOLD if hold else 0) | cage << lib.PSB_RELAY_CAGE_BITS
        with self._lock:
            if self._relay is None:
                a.close()
                b.close()
                raise OSError(errno.ESHUTDOWN, "the relay has ended")
            number = int(_checked(lib.psb_relay_add(self._relay, a.detach(), b.detach(), flags, said, len(said))))
            self._waiting[number] = (tag, done)  # before the lock is free: its end is not missed
        return number

    def say(self, number: int, said: bytes) -> None:
        """Passes on to `b` what was read of `a`; a held pair stays held. Does nothing for a pair that has ended."""
        with self._lock:
            if self._relay is not None:
                _checked(lib.psb_relay_say(self._relay, number, said, len(said)))

    def release(self, number: int, said: bytes) -> None:
        """Ends the hold of a pair; `said` is what was read of `a`. Does nothing for a pair that has ended."""
        with self._lock:
            if self._relay is not None:
                _checked(lib.psb_relay_release(self._relay, number, said, len(said)))

    def cut(self, number: int) -> None:
        """Resets both sockets of a pair. From any thread. Does nothing for a pair that has ended."""
        with self._lock:
            if self._relay is not None:
                _checked(lib.psb_relay_cut(self._relay, number))

    def wait_idle(self) -> None:
        """Returns when everything that was asked for before is done: a pair that was cut sends nothing more. Any
        thread, even that of the loop, because the relay's own has turns of bounded length. Raises TimeoutError."""
        with self._lock:
            relay = self._relay
            if relay is not None:
                _checked(lib.psb_relay_wait_idle(relay, IDLE_MS))

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of the dialler says (csrc/host/relay/dial.h); 0 when the relay has ended. Any thread."""
        with self._lock:
            return function(self._relay, *arguments) if self._relay is not None else 0

    def stop(self) -> None:
        """Cuts what is left, in the thread of the loop; each `done` has been called then. Twice is fine."""
        with self._lock:
            relay, self._relay = self._relay, None
        if relay is None:
            return
        lib.psb_relay_stop(relay)
        self._thread.join()
        self._loop.remove_reader(self._ended_fd)
        while self._take(relay):
            pass
        lib.psb_relay_free(relay)

    def _run(self, relay: Any) -> None:
        lib.psb_relay_run(relay)  # it ends by `stop`, or for want of a working epoll; every pair has been cut then
        with self._lock:
            if self._relay is not None:
                self._loop.call_soon_threadsafe(self.stop)

    def _collect(self) -> None:
        if self._relay is not None:
            self._take(self._relay)
            if lib.psb_dial_has_failed(self._relay):
                self.dialler_failed()

    def _take(self, relay: Any) -> int:
        count = int(lib.psb_relay_ended(relay, self._room, COLLECTED_AT_ONCE))
        for each in self._room[0:count]:
            with self._lock:
                tag, done = self._waiting.pop(each.number)
            done(Spliced(each.number, tag, each.from_a, each.from_b, ENDS[each.end]))
        return count


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
