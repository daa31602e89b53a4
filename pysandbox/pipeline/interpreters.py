"""Interpreters that wait in cages of their own for one call each. When one is taken, the next is started meanwhile."""

from __future__ import annotations

import os
import socket
import sys
import threading
import weakref
from contextlib import suppress

from pysandbox.cage import PIPE, STDOUT, Cage
from pysandbox.descriptors.polling import is_readable
from pysandbox.descriptors.sockets import socket_pair
from pysandbox.errors import CageError
from pysandbox.pipeline.booted import BOOT, given_code
from pysandbox.pipeline.exchange import ended_by
from pysandbox.pipeline.memory import send_call
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pysandbox.process import Process
    from pysandbox.result import Reason

    Piece = bytes | memoryview


class Interpreter:
    """One that waits, or is about to; a `CallWorker`."""

    says_ready = True

    def __init__(self, process: Process[bytes], sock: socket.socket, has_begun: Callable[[], None]) -> None:
        self.process, self.sock, self.how = process, sock, ""
        self.has_begun = has_begun
        self._output = process.state.streams.readers()["stdout"]
        self._read_to_its_end = False

    def output_fd(self) -> int:
        return -1 if self._read_to_its_end else self._output.fd

    def end_fd(self) -> int:
        return self.process.fileno()

    def begin(self) -> list[int]:
        return []

    def read_output(self) -> bool:
        if not self._output.read() and not self._output.open:
            self._read_to_its_end = True
        return not self._read_to_its_end

    def printed(self) -> bytes:
        return bytes(self._output.data)

    def finish(self) -> None:
        self.end("cancelled")

    def end(self, reason: Reason | None) -> str:
        if reason is not None or self.process.poll() is None:
            self.process.stop(reason or "cancelled")
        self._output.read_available()
        result = self.process.state.result()
        self.how = "" if reason is not None else ended_by(result.reason, result.returncode)
        return result.reason

    def close(self) -> None:
        self.process.close()
        self.sock.close()

    def drop(self) -> None:
        self.sock.close()


class Interpreters:
    """At most `ahead` wait. Any thread may take one; `close` ends those that nobody took, and then none waits ahead.

    `preparations` are calls that each makes before its own, while it waits.
    """

    def __init__(self, cage: Cage, ahead: int, preparations: Sequence[Sequence[Piece]] = ()) -> None:
        self._cage = cage
        self._ahead = ahead
        self._preparations = preparations
        self._waiting: list[Interpreter] = []
        self._starting: set[threading.Thread] = set()
        self._closed = False
        self._lock = threading.Lock()
        _ALL.add(self)

    def take(self) -> Interpreter:
        """Raises CageError."""
        with self._lock:
            found = self._waiting.pop(0) if self._waiting else None
        if found is None or not is_readable(found.sock):
            self.refill()  # else when its call is sent, which waits for nobody
        if found is not None and not found.process.state.live.services.cover:
            found.close()  # what its cage covered was replaced on the host while it waited
            found = None
        return found or self._start()

    def refill(self) -> None:
        """Starts what is missing of those that wait, beside the caller."""
        with self._lock:
            missing = 0 if self._closed else self._ahead - len(self._waiting) - len(self._starting)
            for _ in range(missing):
                thread = threading.Thread(target=self._start_another, name="pysandbox-interpreter", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no further thread: whoever needs one starts it himself
                    return
                self._starting.add(thread)

    def close(self) -> None:
        with self._lock:
            waiting, self._waiting, self._closed = self._waiting, [], True
            starting = list(self._starting)
        for each in waiting:
            each.close()
        for thread in starting:  # which ends what it has started
            thread.join()

    def after_fork_in_child(self) -> None:
        """The interpreters that wait are the original's."""
        self._lock, self._waiting, self._starting = threading.Lock(), [], set()

    def _start_another(self) -> None:
        started = None
        with suppress(CageError, OSError):  # whoever needs one starts it himself, and is told why it cannot be
            started = self._start()
        with self._lock:
            self._starting.discard(threading.current_thread())
            if started is not None and not self._closed:
                self._waiting.append(started)
                return
        if started is not None:
            started.close()

    def _start(self) -> Interpreter:
        host, inside = socket_pair()
        try:
            with inside, given_code() as code:
                argv = [sys.executable, "-I", "-c", BOOT, str(code), str(inside.fileno()), str(len(self._preparations))]
                process = self._cage.spawn(argv, stdout=PIPE, stderr=STDOUT, pass_fds=[inside.fileno(), code])
        except BaseException:
            host.close()
            raise
        for pieces in self._preparations:
            send_call(host, 0, pieces)
        return Interpreter(process, host, self.refill)


_ALL: weakref.WeakSet[Interpreters] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for each in _ALL:
        each.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
