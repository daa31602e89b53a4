"""The talk with a running command: feed its stdin, drain its stdout and stderr, see its end. One poll loop, no thread.

The command may close its ends, stall, flood, or leave background processes that hold them open: the loop ends when the
command has ended and what was in the pipes at that moment is read. Output beyond the cap is read and dropped, so a
flood neither blocks the command nor fills the host's memory.
"""

from __future__ import annotations

import errno
import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.process import Process

READ_SIZE = 65536
MOST_LEFT = 64  # reads of what is left in a pipe at the end: more is being written by what still runs
LONGEST_POLL = 2**31 - 1  # milliseconds, poll(2)


class Drain:
    """One output pipe being read up to a cap."""

    def __init__(self, fd: int, cap: int) -> None:
        self.fd = fd
        self.cap = cap
        self.data = bytearray()
        self.truncated = False
        self.open = True
        self.failure: OSError | None = None  # it could not be read: what was would pass for all of it

    def read(self) -> bool:
        """Takes what one read gives; False when nothing is there now, or ever again. See `failure`."""
        try:
            chunk = os.read(self.fd, READ_SIZE)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: the other end of a terminal is gone
                self.failure = error
            chunk = b""
        if not chunk:
            self.open = False
            return False
        room = self.cap - len(self.data)
        self.data += chunk[:room] if room < len(chunk) else chunk
        self.truncated = self.truncated or room < len(chunk)
        return True

    def rest(self) -> None:
        """Takes what is still in the pipe, without waiting for writers that may never close it, or never pause."""
        for _ in range(MOST_LEFT):
            if not self.open or not self.read():
                return


class Feed:
    """The command's stdin being written."""

    def __init__(self, fd: int, data: bytes | None) -> None:
        self.fd = fd
        self.rest = memoryview(data or b"")

    def write(self) -> bool:
        """Writes what fits; False when all is written or nobody reads."""
        try:
            self.rest = self.rest[os.write(self.fd, self.rest[:READ_SIZE]) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return bool(self.rest)


def exchange(process: Process, data: bytes | None, timeout: float | None) -> None:
    """Runs the talk to its end and leaves the output in `process`. Raises TimeoutError; what was read stays read."""
    stdio = process._stdio
    if timeout is None and stdio.stdin < 0 and stdio.stdout < 0 and stdio.stderr < 0:
        while process._ended is None:  # nothing to talk about: one blocking read is the whole wait
            process._read_report()
        return
    drains = drains_of(process)
    for drain in drains.values():
        os.set_blocking(drain.fd, False)
    feed = _feed(process, data)
    try:
        _loop(process, drains, feed, None if timeout is None else time.monotonic() + timeout)
    finally:
        keep(process, drains)


def drains_of(process: Process) -> dict[str, Drain]:
    """A drain for each pipe, with as much room as an earlier talk has left."""
    ends = {name: getattr(process._stdio, name) for name in ("stdout", "stderr")}
    room = {name: process._order.output_cap - len(process._captured.get(name, b"")) for name in ends}
    return {name: Drain(fd, room[name]) for name, fd in ends.items() if fd >= 0}


def keep(process: Process, drains: dict[str, Drain]) -> None:
    """Takes what is still in the pipes and leaves everything in `process`. Raises OSError when one was not readable."""
    for name, drain in drains.items():
        drain.rest()
        process._captured[name] = process._captured.get(name, b"") + bytes(drain.data)
        process._truncated = process._truncated or drain.truncated or drain.failure is not None
    for drain in drains.values():
        if drain.failure is not None:
            raise drain.failure


def _feed(process: Process, data: bytes | None) -> Feed | None:
    fd = process._stdio.stdin
    if fd < 0:
        return None
    if data:
        os.set_blocking(fd, False)
        return Feed(fd, data)
    _close_stdin(process)
    return None


def _close_stdin(process: Process) -> None:
    file = process._files.pop("stdin", None)
    fd, process._stdio.stdin = process._stdio.stdin, -1
    with suppress(OSError):
        if file is not None:
            file.close()
        elif fd >= 0:
            os.close(fd)


def _loop(process: Process, drains: dict[str, Drain], feed: Feed | None, deadline: float | None) -> None:
    poller = select.poll()
    poller.register(process.fileno(), select.POLLIN)
    by_fd = {drain.fd: drain for drain in drains.values()}
    for fd in by_fd:
        poller.register(fd, select.POLLIN)
    if feed is not None:
        poller.register(feed.fd, select.POLLOUT)
    while process._ended is None:
        left = None if deadline is None else min((deadline - time.monotonic()) * 1000, LONGEST_POLL)
        if left is not None and left <= 0:
            raise TimeoutError(f"{process.argv[0]!r} still runs")
        for fd, _ in poller.poll(left):
            if fd == process.fileno():
                process._read_report()
            elif feed is not None and fd == feed.fd:
                if not feed.write():
                    poller.unregister(fd)
                    _close_stdin(process)
                    feed = None
            elif not by_fd[fd].read() and not by_fd[fd].open:
                poller.unregister(fd)
