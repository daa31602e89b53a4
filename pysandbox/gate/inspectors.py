"""The inspectors of a Runtime: which one a cage has, and what those that scan know of it besides.

What scans is a process of its own: nobody else waits for a scan, or has its modules. It is told the false credentials
of a cage before its first connection, once.
"""

from __future__ import annotations

import socket
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ESHUTDOWN

from pysandbox.errors import StartError
from pysandbox.events import Sink
from pysandbox.gate.held import HeldConnection, Served, canaries_of
from pysandbox.gate.inspector import ASKED_EVERY, InspectorProcess
from pysandbox.runtime.prepared import TrustedFile
from pysandbox.shapes import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan
    from pysandbox.runtime.prepared import Prepared
    from pysandbox.runtime.runtime import Runtime

R = TypeVar("R")


class ScanningInspector(InspectorProcess):
    """One that looks for credentials in what is sent."""

    scans = True

    def __init__(self, sink: Sink, asked_every: float = ASKED_EVERY) -> None:
        super().__init__(sink, asked_every)
        self._told: weakref.WeakKeyDictionary[Served, tuple[int, int]] = weakref.WeakKeyDictionary()

    def open(
        self, held: HeldConnection, said: bytes, client: socket.socket, server: socket.socket, *, proxied: bool
    ) -> int:
        """As the other's. A process that was started anew, and a cage that has another number, is told again."""
        session = held.session
        with self._lock:
            if self._told.get(session) != (told := (self._starts, session.number)):
                self.say(canaries_of(session), patience=0.0)
                self._told[session] = told
            return super().open(held, said, client, server, proxied=proxied)


class AskingInspector(ScanningInspector):
    """One that also asks the host program, and waits for its answer: so do those alone whose cages have a callback."""


def join_inspector(runtime: Runtime, net: NetPlan, join: Callable[[InspectorProcess], R], *, asks: bool = False) -> R:
    """What `join` returns of the Runtime's inspector, which is made here and started when it is first asked. What scans
    is one of its own: nobody else waits for a scan, or has its modules. So is what `asks` a callback of the host."""
    scans = net.inspection is not None and net.inspection.scan is not None
    kind = AskingInspector if asks else ScanningInspector if scans else InspectorProcess
    return runtime.shared.join(kind, lambda: kind(runtime.sink), join)


@contextmanager
def trusting(runtime: Runtime, prepared: Prepared, *, asks: bool = False) -> Iterator[TrustedFile]:
    """While a cage of this plan is opened and admitted: the file with the certificates that it is to trust, of whoever
    looks into its TLS, who does not retire. Another thread may open one that somebody else looks into. Raises
    StartError."""
    assert prepared.plan.net is not None
    net = prepared.plan.net
    inspector = join_inspector(runtime, net, lambda inspector: inspector.expect(net, 1), asks=asks)
    try:
        try:
            trusted = prepared.trusted[asks] = TrustedFile(inspector.trust(net), inspector.hold)
        except OSError as error:
            text = f"the inspector, which [[host]] contracts need, was not to be had: {error}"
            raise StartError("network", error.errno or ESHUTDOWN, None, text) from error
        yield trusted
    finally:
        inspector.expect(net, -1)
