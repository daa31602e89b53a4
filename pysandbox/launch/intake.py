"""Input on its way from a pipe or a stream socket of the host's to a command that must not hold it.

Whoever holds the reading end of a pipe opens the writing end by /proc/self/fd: what a command writes there is read by
whoever reads next, and that may be the shell that started us, which takes it for its own next line. So the command
reads from a pipe of its own, and what it did not read is still in the host's when it has ended: a loop that reads lines
and starts commands goes on as if there were nothing in between (csrc/host/relay/intake.c).
"""

from __future__ import annotations

import _signal as signal
import os
from _thread import allocate_lock, start_new_thread

from pysandbox.launch import native

PATIENCE = 2.0  # seconds for what takes microseconds


class Intake:
    """From a duplicate of `source` to `sink`. Owns both."""

    def __init__(self, source: int, sink: int, null: int) -> None:
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            self._source = os.dup(source)
        except OSError:
            os.close(self._stop)
            raise
        self._sink, self._null = sink, null
        self._lock = allocate_lock()  # of the descriptors
        self._runs = allocate_lock()
        self._served = False
        os.set_blocking(sink, False)

    def serve(self) -> None:
        """From now on a thread does it, until the end of one of the two, and closes. Raises RuntimeError."""
        self._runs.acquire()
        self._served = True
        try:
            start_new_thread(self._run, ())
        except RuntimeError:  # the user has as many threads as they may
            self._served = False
            self._runs.release()
            raise

    def wait_flushed(self) -> None:
        """The command has ended: what it has read is taken off the host's pipe, and nothing more. Any thread may call
        it, also later."""
        if not self._served:
            return
        with self._lock:
            if self._source >= 0:
                os.eventfd_write(self._stop, 1)
        if self._runs.acquire(timeout=PATIENCE):
            self._runs.release()

    def close(self) -> None:
        """Closes an intake that no thread serves (a thread closes its own). Idempotent."""
        if not self._served:
            self._close()

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGPIPE,))  # to write where nobody reads is no reason to end
        try:
            native.take_in(self._source, self._sink, self._stop, self._null)
        finally:
            self._close()
            self._runs.release()

    def _close(self) -> None:
        with self._lock:
            source, self._source = self._source, -1
            if source >= 0:
                for fd in (source, self._sink, self._stop):
                    os.close(fd)
