"""The doors of a cage without a cage: served in a thread by the gatekeeper's own parts, over loopback.

Every name leads to 127.0.0.1, by way of a hosts file, so that a test's servers stand for the world. The transparent
door listens at an address of its own, which stands for one name, as synthetic addresses do inside.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from _support.gate import ServedSession, net_plan
from _support.sockets import PATIENCE
from pysandbox.events import Event
from pysandbox.gate.dns.resolver import Resolver
from pysandbox.gate.ledger import Ledger
from pysandbox.gate.tcp.relay import SocketRelay
from pysandbox.gate.tcp.streams import serve
from pysandbox.gate.threads import in_loop

ALLOWED = "example.com"
ALSO_ALLOWED = "other.example.com"
SYNTHETIC = "127.77.0.1"  # stands for ALLOWED at the transparent door

T = TypeVar("T")


class Doors:
    """`ports` of the http and the socks door; the transparent one is where `transparent` puts it."""

    def __init__(self, hosts: Path, patterns: tuple[str, ...] = (ALLOWED, ALSO_ALLOWED)) -> None:
        names = (ALLOWED, ALSO_ALLOWED, "evil.com")
        hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in names))
        self.events: list[Event] = []
        self._listeners: list[socket.socket] = []
        self._loop = asyncio.new_event_loop()
        relay = SocketRelay(self._loop)
        plan = net_plan(*patterns, ips=("127.0.0.1",))
        upstream = Resolver(("127.0.0.1:9",), hosts=str(hosts))
        ledger = Ledger("cage", self.events.append)
        self.session = ServedSession("cage", plan, ledger, self._loop, upstream, relay)
        self._relay = relay
        known = self.session.names.name_of
        self.session.names.name_of = (  # type: ignore[method-assign]
            lambda address: ALLOWED if str(address) == SYNTHETIC else known(address)
        )
        self._thread = threading.Thread(target=self._loop.run_forever, name="pysandbox-test-loop")
        self._thread.start()
        self.ports = {kind: self._door(kind, ("127.0.0.1", 0)) for kind in ("http", "socks")}

    def transparent(self, port: int) -> None:
        """A connection to (SYNTHETIC, port) is one to (ALLOWED, port) from now on."""
        self._door("tcp", (SYNTHETIC, port))

    def denied(self) -> list[str]:
        """Targets, as far as the events tell."""
        return [str(each.data["target"]) for each in self.events if each.type.endswith("denied")]

    def connections(self) -> int:
        return self.call(lambda: len(self.session.connections))

    def call(self, call: Callable[[], T]) -> T:
        return in_loop(self._loop, call)

    def _door(self, kind: str, address: tuple[str, int]) -> int:
        listener = socket.create_server(address, backlog=512)
        self._listeners.append(listener)
        self.call(lambda: self.session.start(self._keep(kind, listener)))
        return int(listener.getsockname()[1])

    async def _keep(self, kind: str, listener: socket.socket) -> None:
        with listener:
            await serve(self.session, kind, listener)

    def close(self) -> None:
        self.call(self.session.close)
        self._run(_settled())
        self.call(self._relay.stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()
        for listener in self._listeners:
            listener.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)


async def _settled() -> None:
    """Every other task has ended."""
    others = asyncio.all_tasks() - {task for task in [asyncio.current_task()] if task is not None}
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def server(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """A TCP server on loopback that has `answer` speak with each client; its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    listener.settimeout(PATIENCE)
    threads: list[threading.Thread] = []

    def converse(client: socket.socket) -> None:
        client.settimeout(PATIENCE)
        with client, suppress(OSError):
            answer(client)

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=converse, args=[client]))
            threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in [accepting, *threads]:
            thread.join(PATIENCE)
