"""RunStop: ends a run from outside, between two instructions, so that its log and its journal are whole."""

from __future__ import annotations

import os
import select
import socket
import weakref
from contextlib import suppress

from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.process import Process

STOPPED = "stopped"  # how such a run ends


class RunStop:
    """`ask` may be called in any thread, and in the handler of a signal: it takes no lock. For one run, once."""

    def __init__(self) -> None:
        self.asked = False
        self._port: socket.socket | None = None
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        weakref.finalize(self, os.close, self._fd)

    def ask(self) -> None:
        self.asked = True
        os.eventfd_write(self._fd, 1)
        if (port := self._port) is not None:
            _shut(port)

    def watch(self, port: socket.socket) -> None:
        """Whoever waits for a request there sees the end instead."""
        self._port = port
        if self.asked:
            _shut(port)

    def await_end(self, process: Process) -> None:
        """Until the process has ended, or this was asked."""
        poll = select.poll()
        for fd in (self._fd, process.fileno()):
            poll.register(fd, select.POLLIN)
        poll.poll()


def _shut(port: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        port.shutdown(socket.SHUT_RDWR)
