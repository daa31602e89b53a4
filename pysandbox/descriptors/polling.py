"""poll(2) of one descriptor: whether it is ready, at once or within a time."""

from __future__ import annotations

import select
import time

from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from socket import socket

# Seconds. CPython looks for signals between two instructions: one that comes after that look, and before poll(2)
# sleeps, is only seen when poll returns. So nobody sleeps for longer (Ctrl-C, `drain_on_sigterm`).
LONGEST_POLL = 1.0
TRIES = 8  # of a poll that the kernel had no memory for


def is_readable(fd: int | socket, seconds: float = 0) -> bool:
    """Whether a read would not block (an end, a hang-up and a process that is over count), now or within that time."""
    return _is_ready(fd, select.POLLIN, seconds)


def is_over(pidfd: int, seconds: float = 0) -> bool:
    """Whether the process has ended, or does within that time (pidfd_open(2))."""
    return _is_ready(pidfd, select.POLLIN, seconds)


def is_writable(fd: int | socket) -> bool:
    """Whether a short write would not block, or would fail at once."""
    return _is_ready(fd, select.POLLOUT, 0)


def wait_readable(fd: int | socket, seconds: float | None) -> bool:
    """As `is_readable`; None waits without an end. Signals are seen meanwhile, within a second."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        left = LONGEST_POLL if deadline is None else max(0.0, deadline - time.monotonic())
        if is_readable(fd, min(left, LONGEST_POLL)):
            return True
        if deadline is not None and left <= LONGEST_POLL:
            return False


def _is_ready(fd: int | socket, events: int, seconds: float) -> bool:
    """Raises OSError: whoever asks whether a process is over holds what goes with it, so it is not given up at once."""
    poller = select.poll()
    poller.register(fd, events)
    tries = TRIES
    while True:
        try:
            return bool(poller.poll(seconds * 1000))
        except OSError:
            tries -= 1
            if not tries:
                raise
