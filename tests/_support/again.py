"""A cage without a cage whose doors are served by a reader that remembers what it was told, or by one that does not.

The doors are sockets on loopback: SOCKS, HTTP, and one to which clients are "redirected", at an address that stands for
a name. The reader is the real one, in a thread of the test's, so that it can be looked into, or in its own process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pytest

from _support.admitted import Live, runtime_of_cages
from _support.gate import net_plan
from _support.sockets import PATIENCE
from pysandbox.events import ignore
from pysandbox.gate import confined
from pysandbox.gate.gatekeeper import Gatekeeper, admit
from pysandbox.gate.reading.repeats import RepeatSelector
from pysandbox.gate.reading.serving import Reader
from pysandbox.policy.names import HOST_ALIAS

NAME = HOST_ALIAS.encode()
SYNTHETIC = "127.77.0.1"
GREETING, METHOD = b"\5\1\0", b"\5\0"
KINDS = ("socks", "http", "tcp")

T = TypeVar("T")


class ReaderThread:
    """In the place of its process."""

    pid = -1

    def __init__(self, fds: tuple[int, ...], remembers: bool) -> None:
        self._socks = [socket.socket(fileno=os.dup(fd)) for fd in fds]
        self._remembers = remembers
        self.reader: Any = None
        self.loop: Any = None
        self._thread = threading.Thread(target=self._run, name="pysandbox-test-reader")
        self._thread.start()

    def _run(self) -> None:
        selector = RepeatSelector()
        self.loop = loop = asyncio.SelectorEventLoop(selector)
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(lambda *_: None)
        host, dials = self._socks
        self.reader = Reader(host, dials, loop, selector)
        if not self._remembers:
            self.reader._repeats.open = lambda *_, **__: None
        loop.run_until_complete(self.reader.run())
        loop.run_until_complete(_end_all())
        loop.close()

    def call(self, call: Callable[[], T]) -> T:
        """In its thread."""

        async def called() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(PATIENCE)

    def kill(self) -> None:
        for each in self._socks:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def wait(self, _: float | None = None) -> int:
        self._thread.join(PATIENCE)
        for each in self._socks:
            each.close()
        return 0


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class EchoService:
    """Says again what it is told, on loopback. `alive` connections have not ended."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = int(self.listener.getsockname()[1])
        self.alive = self.seen = 0
        self.heard = bytearray()
        self._changed = threading.Condition()
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                there = self.listener.accept()[0]
                with self._changed:
                    self.alive, self.seen = self.alive + 1, self.seen + 1
                threading.Thread(target=self._echo, args=(there,), daemon=True).start()

    def _echo(self, there: socket.socket) -> None:
        with there, suppress(OSError):
            while said := there.recv(65536):
                self.heard += said
                there.sendall(said)
        with self._changed:
            self.alive -= 1
            self._changed.notify_all()

    def is_left_alone(self) -> bool:
        """Waits until every connection has ended."""
        with self._changed:
            return self._changed.wait_for(lambda: self.alive == 0, PATIENCE)

    def close(self) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self.listener.close()
        assert self.is_left_alone()


class AgainDoors:
    """The doors of one cage; `thread` is its reader, where that is one."""

    def __init__(self, runtime: Any, port: int) -> None:
        self.port = port
        self.listeners = {kind: socket.create_server(("127.0.0.1", 0), backlog=512) for kind in ("socks", "http")}
        self.listeners["tcp"] = socket.create_server((SYNTHETIC, port), backlog=512)
        self.places = {kind: each.getsockname() for kind, each in self.listeners.items()}
        live: Any = Live()
        for kind, each in self.listeners.items():
            live._doors[kind, "tcp"] = each.detach()
        admit(runtime, live, net_plan(loopback=(port,)))
        self.live, self.session = live, live.session
        known = self.session.names.name_of
        self.session.names.name_of = lambda address: HOST_ALIAS if str(address) == SYNTHETIC else known(address)
        self.keeper = runtime.shared.find(Gatekeeper)

    @property
    def thread(self) -> ReaderThread:
        return self.session.reader.process  # type: ignore[no-any-return]

    @property
    def remote(self) -> Any:
        """The session at the reader. Call it in its thread."""
        return self.thread.reader._cages[self.session.number]

    def served(self) -> int:
        """How many clients were served without Python."""
        from pysandbox._native import lib

        def count() -> int:
            doors = self.thread.reader._repeats
            return sum(lib.psb_repeat_served(doors._repeats, each) for each in doors._doors)

        return self.thread.call(count)

    # ---- clients ------------------------------------------------------------------------------------------------

    def request(self) -> bytes:
        return b"\5\1\0\3" + bytes([len(NAME)]) + NAME + self.port.to_bytes(2, "big")

    def head(self) -> bytes:
        at = b"%s:%d" % (NAME, self.port)
        return b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (at, at)

    def knock(self, kind: str) -> socket.socket:
        return socket.create_connection(self.places[kind], PATIENCE)

    def asks(self, kind: str) -> socket.socket:
        """One who has asked for the server, and was told that it is there. Raises ConnectionError."""
        return self._with(kind, lambda client: self._ask(kind, client))

    def speaks(self, kind: str, said: bytes = b"12345\n") -> socket.socket:
        """One who was heard by the server. Raises ConnectionError."""

        def speak(client: socket.socket) -> bool:
            if not self._ask(kind, client):
                return False
            client.sendall(said)
            return client.recv(len(said)) == said

        return self._with(kind, speak)

    def _with(self, kind: str, does: Callable[[socket.socket], bool]) -> socket.socket:
        client = self.knock(kind)
        try:
            if not does(client):
                raise ConnectionError("it was refused, or cut")
        except BaseException:
            client.close()
            raise
        return client

    def _ask(self, kind: str, client: socket.socket) -> bool:
        """Whether it was told that it has what it asked for."""
        if kind == "socks":
            client.sendall(GREETING)
            if client.recv(2) != METHOD:
                return False
            client.sendall(self.request())
            return client.recv(10)[:2] == METHOD
        if kind == "http":
            client.sendall(self.head())
            return b" 200 " in client.recv(4096)
        return True

    def teach(self, *kinds: str) -> None:
        """Until what is said there is known."""
        for kind in kinds or KINDS:
            for _ in range(4):
                self.speaks(kind).close()


@contextmanager
def again_doors(
    server: EchoService, patch: pytest.MonkeyPatch, *, remembers: bool = True, in_thread: bool = True
) -> Iterator[AgainDoors]:
    with runtime_of_cages() as runtime:
        runtime.sink = ignore  # nobody takes note, so names are dialled by the relay's thread
        if in_thread:
            patch.setattr(confined, "start", lambda _, fds: ReaderThread(fds, remembers))
        made = AgainDoors(runtime, server.port)
        yield made
        made.session.end()
