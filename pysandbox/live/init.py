"""A live cage-init: the only handle on a running cage. It sends orders and signals, and ends the cage.

Owns three things and closes each once: the control socket (closing it is what ends the cage), the pidfd, and the
child that must be reaped. Any thread may use it; after `close` every call raises CageClosedError. One that nobody
holds any more closes itself.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from _thread import allocate_lock  # threading's Lock, without its imports
from contextlib import suppress

from pysandbox.descriptors.polling import is_over, is_writable
from pysandbox.errors import CageClosedError
from pysandbox.launch import native, orders
from pysandbox.launch.forgotten import end_forgotten
from pysandbox.live.commands import Commands
from pysandbox.live.last_steps import LastSteps, remove_scratch
from pysandbox.live.new_names import NewNames
from pysandbox.live.served import CageServices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pysandbox.live.cgroup import CageCgroup
    from pysandbox.live.kill_reason import KillReason
    from pysandbox.live.processes import Standing
    from pysandbox.live.tree import ProcessTree
    from pysandbox.live.uppers import OpenedUppers

STOPS = frozenset({signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
KILL_PATIENCE = 10.0  # seconds until a killed init is given up on; only the kernel can be that slow


class CageInit:
    """One cage-init and everything below it. Takes over what `opened` owns."""

    def __init__(
        self,
        opened: native.Opened,
        cage_id: str,
        scratch: str = "",
        *,
        owns_scratch: bool = False,
        cgroup: CageCgroup | None = None,
        tree: ProcessTree | None = None,
        doors: dict[tuple[str, str], int] | None = None,
        uppers: OpenedUppers | None = None,
    ) -> None:
        self.id = cage_id
        self.hostname = self.layers = ""  # its own, and the host directory behind LAYERS, where it has them
        self.cgroup = cgroup  # the cage's own; removed with it
        self.tree = tree  # what the watchdog looks at, when the plan has it watch
        self.kill_reason: KillReason | None = None  # why the watchdog has killed the cage
        self.tightened: dict[str, int] = {}  # limits that were lowered while it runs, named as in `KillReason`
        self.orders = 0  # commands that were asked of it
        self.on_command: list[Callable[[], object]] = []  # to be called when there is something to be watched again
        self.paused = False  # it is paused: the watchdog then neither stops it nor lets it go on
        self.stopped_by_hand = False  # one command was: whoever did it decides when that goes on
        self.standing_still = allocate_lock()  # held while all of it is stopped, or let go on
        self.stood: Standing | None = None  # what stood still when it was paused: `stopping.stands_still`
        self.scratch, self.owns_scratch = scratch, owns_scratch  # the host directory behind SCRATCH, where there is one
        self.trusted: object = None  # what stands for TRUST in it, by which it is told from others of its plan
        self.pid = opened.pid
        self.user = opened.user  # whom it is outside, where root has started it as another; else 0
        self.listener = opened.listener  # until a supervisor takes it over
        self.uppers = uppers  # of its copy-on-write trees, where it has any
        self.doors = doors or {}  # sockets in its network namespace, by kind and protocol; until `take_doors`
        self.services = CageServices()  # what else begins and ends with it
        self.placeholders: Mapping[str, str] = {}  # variables of its commands that stand for secrets
        self.canaries: Mapping[str, str] = {}  # and false credentials
        self.commands = Commands()  # that were asked of it
        self.planted = NewNames()  # what was planted in its writable trees, and has been told
        self._forks_told, self._asked = 0, False  # refused by the cgroup; whether `ask_written` waits for an answer
        self._lock, self._last_steps = allocate_lock(), LastSteps()
        self._forget_record: Callable[[], None] | None = None
        self._owner = os.getpid()
        self.pidfd, self._control = opened.pidfd, opened.control  # of cage-init; closed here and nowhere else
        self._end = select.poll()  # of cage-init; asked under the lock, as it serves one thread at a time
        self._end.register(self.pidfd, select.POLLIN)
        self._reaped = False  # from here on it is ours to close
        opened.release()

    @property
    def closed(self) -> bool:
        return self._control < 0 or os.getpid() != self._owner  # `abandoned`

    def wake_hint(self) -> None:
        """An order follows within microseconds: cage-init wakes up meanwhile. A dead or closed cage is no error."""
        with self._lock:
            if self._control >= 0 and os.getpid() == self._owner:
                orders.wake_hint(self._control)

    def execute(self, order: orders.ExecMessage, report_fd: int, fds: Sequence[int]) -> None:
        """Sends a command. Raises CageClosedError when the cage is closed or its init is dead."""
        with self._lock:
            self._require_open()
            self.orders += 1
            try:
                orders.send_exec(self._control, order, report_fd, fds)
            except (BrokenPipeError, ConnectionResetError):
                raise CageClosedError(f"cage {self.id}: its init is dead; open another cage") from None
        self.wake()

    def wake(self) -> None:
        """Something was ordered or has begun to run, and is to be watched."""
        for wake in self.on_command:
            wake()

    def signal(self, command_id: int, number: int, scope: str) -> None:
        """`scope` is "one" (the command's process), its "session", or "all" of the cage. A dead cage is no error."""
        with self._lock:
            if number == signal.SIGCONT or (number in STOPS and scope != "all"):
                self.stopped_by_hand = number != signal.SIGCONT
            if self.closed:
                return
            try:
                orders.send_signal(self._control, command_id, number, scope)
            except (BrokenPipeError, ConnectionResetError):
                return

    def signal_at_once(self, number: int) -> bool:
        """A signal to all of the cage, without waiting for anybody; whether it was sent. For the watchdog."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self.closed or not is_writable(self._control):
                return False
            orders.send_signal(self._control, 0, number, "all")
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False
        finally:
            self._lock.release()

    def ask_written(self) -> int | None:
        """Bytes that processes wrote which cage-init has reaped, as it last said; None where it has said nothing new.
        Asks again, and waits for nobody. For the watchdog."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self.closed:
                return None
            said = orders.read_written(self._control) if self._asked else None
            if said is not None or not self._asked:
                self._asked = is_writable(self._control) and orders.ask_written(self._control)
            return said
        finally:
            self._lock.release()

    def kill_at_once(self) -> None:
        """SIGKILL from the kernel, whatever cage-init is at, without waiting for anybody. For the watchdog."""
        if self._lock.acquire(blocking=False):
            try:
                if not self._reaped and not self.abandoned:
                    self._kill()
            finally:
                self._lock.release()

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel or the watchdog has killed for want of memory. To be asked before the cage is reaped."""
        out_of_memory = self.kill_reason is not None and self.kill_reason.reason == "oom"
        return out_of_memory or (self.cgroup is not None and self.cgroup.oom_kills() > 0)

    def new_refused_forks(self, command: int) -> int:
        """How many forks beyond pids.max the kernel has counted since this was asked last, where they can only be of
        this command; without a cgroup nobody counts them."""
        if self.cgroup is None:
            return 0
        before, self._forks_told = self._forks_told, self.cgroup.forks_refused()
        return self._forks_told - before if self.commands.sole() == command else 0

    def end(self, *, wait: bool = True) -> None:
        """Closes the control socket: cage-init kills everything and exits. Idempotent; does not wait for that, and
        without `wait` not even for another thread that is busy with the cage."""
        if not self._lock.acquire(blocking=wait):
            return
        try:
            control, self._control = self._control, -1
            if control >= 0:
                os.close(control)
        finally:
            self._lock.release()

    def reap(self) -> bool:
        """Waits until the cage is gone and collects it; call after `end` or after the end was reported.

        Returns False when even SIGKILL did not end it within KILL_PATIENCE seconds: something in it hangs in the
        kernel.
        """
        if self.abandoned:
            self.abandon()
            return True
        return self._last_steps.take(self._collect)

    def _collect(self) -> bool:
        """Waits for cage-init; whether it is gone."""
        with self._lock:
            if self._reaped:
                return True
            if not is_over(self.pidfd, 1.0):
                self._kill()
                if not is_over(self.pidfd, KILL_PATIENCE):
                    return False
            native.take_report(self.pidfd)
            closed = [each.close for each in (self.tree, self.cgroup) if each is not None]
            scratch = [lambda: remove_scratch(self.scratch)] if self.owns_scratch else []
            self._last_steps.plan(*closed, self._close_untaken, self.services.end, *scratch, self._drop_record)
            self._reaped = True  # before: a copy that is forked in between then closes nothing twice
            os.close(self.pidfd)
            return True

    def _close_untaken(self) -> None:
        with self._lock:
            self._close_descriptors()

    def _kill(self) -> None:
        if self.cgroup is not None:
            self.cgroup.kill()
        _send_kill(self.pidfd)

    def _close_descriptors(self) -> None:
        """What no service has taken over."""
        doors, self.doors = self.doors, {}
        listener, self.listener = self.listener, -1
        for fd in (*doors.values(), listener):
            if fd >= 0:
                os.close(fd)
        uppers, self.uppers = self.uppers, None
        if uppers is not None:
            uppers.close()

    def take_doors(self) -> dict[tuple[str, str], int]:
        """The doors, from now on the caller's to close. Raises CageClosedError."""
        with self._lock:
            self._require_open()
            taken, self.doors = self.doors, {}
            return taken

    def take_uppers(self) -> OpenedUppers | None:
        """The descriptors of its copy-on-write trees, from now on the caller's to close; None where it has none."""
        with self._lock:
            taken, self.uppers = self.uppers, None
            return taken

    def recorded(self, forget: Callable[[], None]) -> None:
        """A record of this cage was written; `forget` removes it when the cage is gone, at once if it already is."""
        with self._lock:
            self._forget_record = forget
            if self._reaped:
                self._drop_record()

    def _drop_record(self) -> None:
        forget, self._forget_record = self._forget_record, None
        if forget is not None:
            with suppress(OSError):  # the directory is no longer ours: nor is the record
                forget()

    def unrecord(self) -> None:
        """The host ends, and the cage with it."""
        with self._lock:
            self._drop_record()

    def close(self) -> bool:
        """Ends the cage and waits for it. Idempotent."""
        self.services.let_go()
        self.end()
        return self.reap()

    def __del__(self, _ends_here: Callable[[], bool] = sys.is_finalizing) -> None:
        if _ends_here():  # then the kernel ends it, and the modules that would are half gone
            return
        if not getattr(self, "_reaped", True) or getattr(self, "_last_steps", False):
            end_forgotten(self.close)

    def await_end(self) -> None:
        """Waits a little until nothing of a cage is left whose init is going."""
        with self._lock:
            if not self._reaped and not self.abandoned:
                is_over(self.pidfd, 1.0)

    def is_dead(self, *, wait: bool = True) -> bool:
        """Whether cage-init is gone although nobody ended it; without `wait` False while another thread is at it."""
        if not self._lock.acquire(blocking=wait):
            return False
        try:
            return self._reaped or bool(self._end.poll(0))
        except OSError:  # a poll that the kernel had no memory for is tried again there
            return is_over(self.pidfd)
        finally:
            self._lock.release()

    @property
    def abandoned(self) -> bool:
        """Whether this is a forked copy of the host: the cage is the original's, and not to be touched."""
        return os.getpid() != self._owner

    def abandon(self) -> None:
        """In a forked copy of the host: forget the cage without touching it."""
        self._lock, self._last_steps = allocate_lock(), LastSteps()  # a thread of the original may have held them
        self.standing_still = allocate_lock()
        if not self._reaped:
            os.close(self.pidfd)
            self._reaped = True
            if self.tree is not None:
                self.tree.abandon()
            if self.cgroup is not None:
                self.cgroup.abandon()
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
        self._close_descriptors()
        self.services.after_fork_in_child()
        self.commands.after_fork_in_child()
        self.planted = NewNames()

    def pin(self) -> int:
        """A pidfd of cage-init, the caller's to close; waits for nobody. Raises CageClosedError, OSError."""
        self._require_open()
        fd = os.dup(self.pidfd)  # close-on-exec
        if self._reaped:  # which is said before the pidfd is closed: the number may have been another one's by then
            os.close(fd)
            raise CageClosedError(f"cage {self.id} is gone")
        return fd

    def open_root(self) -> int:
        """A descriptor (O_PATH) of the cage's root directory, for openat2(RESOLVE_IN_ROOT)."""
        with self._lock:
            self._require_open()
            return os.open(f"/proc/{self.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def _require_open(self) -> None:
        if self._control < 0 or os.getpid() != self._owner:  # `closed`
            raise CageClosedError(f"cage {self.id} is closed")


def _send_kill(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return
