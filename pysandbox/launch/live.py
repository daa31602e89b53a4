"""A live cage-init: the only handle on a running cage. It sends orders and signals, and ends the cage.

Owns three things and closes each once: the control socket (closing it is what ends the cage), the pidfd, and the
child that must be reaped. Any thread may use it; after `close` every call raises CageClosedError. One that nobody
holds any more closes itself.
"""

from __future__ import annotations

import itertools
import os
import select
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pysandbox.errors import CageClosedError
from pysandbox.launch import native
from pysandbox.launch.scratch import remove_scratch

KILL_PATIENCE = 10.0  # seconds until a killed init is given up on; only the kernel can be that slow


class LiveInit:
    """One cage-init and everything below it."""

    def __init__(self, opened: native.Opened, cage_id: str, scratch: str = "", *, owns_scratch: bool = False) -> None:
        self.id = cage_id
        self.scratch = scratch  # the host directory behind SCRATCH, "" if the plan has none
        self.owns_scratch = owns_scratch
        self.pid = opened.pid
        self._pidfd = opened.pidfd
        self._control = opened.control
        self.listener = opened.listener  # until a supervisor takes it over
        self.supervision: Any = None  # what decides its calls at run time; set by the layer that makes it
        self._command_ids = itertools.count(1)
        self._lock = threading.Lock()
        self._reaped = False
        self._owner = os.getpid()

    @property
    def pidfd(self) -> int:
        """Of cage-init; owned by this object."""
        return self._pidfd

    @property
    def closed(self) -> bool:
        return self._control < 0 or self.abandoned

    def nudge(self) -> None:
        """An order follows within microseconds: cage-init wakes up meanwhile. A dead or closed cage is no error."""
        with self._lock:
            if not self.closed:
                native.nudge(self._control)

    def execute(self, order: native.Order, report_fd: int, fds: Sequence[int]) -> None:
        """Sends a command. Raises CageClosedError when the cage is closed or its init is dead."""
        with self._lock:
            self._demand_open()
            try:
                native.send_order(self._control, order, report_fd, fds)
            except (BrokenPipeError, ConnectionResetError):
                raise CageClosedError(f"cage {self.id}: its init is dead; open another cage") from None

    def new_command_id(self) -> int:
        return next(self._command_ids)

    def signal(self, command_id: int, number: int, scope: str) -> None:
        """`scope` is "one" (the command's process), its "session", or "all" of the cage. A dead cage is no error."""
        with self._lock, suppress(BrokenPipeError, ConnectionResetError):
            if not self.closed:
                native.send_signal(self._control, command_id, number, scope)

    def end(self) -> None:
        """Closes the control socket: cage-init kills everything and exits. Does not wait; idempotent."""
        with self._lock:
            if self._control >= 0:
                os.close(self._control)
                self._control = -1

    def reap(self) -> bool:
        """Waits until the cage is gone and collects it; call after `end` or after the end was reported.

        Returns False when even SIGKILL did not end it within KILL_PATIENCE seconds: something in it hangs in the
        kernel.
        """
        if self.abandoned:
            self.abandon()
            return True
        with self._lock:
            if self._reaped:
                return True
            if not self._gone(1.0):
                with suppress(ProcessLookupError):
                    _send_kill(self._pidfd)
                if not self._gone(KILL_PATIENCE):
                    return False
            with suppress(ChildProcessError):  # the host waited for any child, or ignores SIGCHLD
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | native.WALL)
            os.close(self._pidfd)
            self._reaped = True
            self._end_supervision()
            if self.owns_scratch:
                remove_scratch(self.scratch)
            return True

    def _end_supervision(self) -> None:
        if self.listener >= 0:
            os.close(self.listener)
            self.listener = -1
        if self.supervision is not None:
            self.supervision.end()

    def _gone(self, seconds: float) -> bool:
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    def close(self) -> bool:
        """Ends the cage and waits for it. Idempotent."""
        self.end()
        return self.reap()

    def __del__(self) -> None:
        if not getattr(self, "_reaped", True):
            with suppress(Exception):
                self.close()

    def is_dead(self) -> bool:
        """Whether cage-init is gone although nobody has ended it."""
        with self._lock:
            return self._reaped or self._gone(0)

    @property
    def abandoned(self) -> bool:
        """Whether this is a forked copy of the host: the cage is the original's, and not to be touched."""
        return os.getpid() != self._owner

    def abandon(self) -> None:
        """In a forked copy of the host: forget the cage without touching it."""
        self._lock = threading.Lock()  # the original may have been held by another thread at the fork
        if not self._reaped:
            os.close(self._pidfd)
            self._reaped = True
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
        if self.listener >= 0:
            os.close(self.listener)
            self.listener = -1

    def kill_process(self, pid: int) -> None:
        """SIGKILL to one process of the cage, as the host numbers it."""
        import signal

        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)

    def open_root(self) -> int:
        """A descriptor (O_PATH) of the cage's root directory, for openat2(RESOLVE_IN_ROOT)."""
        with self._lock:
            self._demand_open()
            return os.open(f"/proc/{self.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def _demand_open(self) -> None:
        if self.closed:
            raise CageClosedError(f"cage {self.id} is closed")


def _send_kill(pidfd: int) -> None:
    import signal

    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
