"""A live cage-init: the only handle on a running cage. It sends orders and signals, and ends the cage.

Owns three things and closes each once: the control socket (closing it is what ends the cage), the pidfd, and the
child that must be reaped. Any thread may use it; after `close` every call raises CageClosedError. One that nobody
holds any more closes itself.
"""

from __future__ import annotations

import os
import select
from _thread import allocate_lock  # threading's Lock, without its imports

from pysandbox.errors import CageClosedError
from pysandbox.launch import native, orders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Literal

    from pysandbox.launch.cgroup import Cgroup
    from pysandbox.launch.tree import Tree

KILL_PATIENCE = 10.0  # seconds until a killed init is given up on; only the kernel can be that slow


class Condemned:
    """Why a cage was killed: the Result's reason, the limit as in `policy.violation`, and what is to be said of it."""

    __slots__ = ("limit", "message", "reason")

    def __init__(self, reason: Literal["oom", "cancelled"], limit: str, message: str = "") -> None:
        self.reason, self.limit, self.message = reason, limit, message


OUT_OF_MEMORY = Condemned("oom", "memory", "the cage used more than memory_mb and was ended")
OUT_OF_SCRATCH = Condemned("cancelled", "scratch", "the cage wrote more than tmp_mb to its scratch and was ended")
TOO_MANY = Condemned("cancelled", "pids", "the cage had more than max_pids processes and threads and was ended")
WROTE = Condemned("cancelled", "write", "the cage wrote more than write_mb to files of the host and was ended")
WROTE_UNSEEN = Condemned(
    "cancelled", "write", "programs of the cage wrote, and ended without anybody waiting for them (SIGCHLD ignored?): "
    "what they wrote cannot be counted for write_mb, and the cage was ended",
)  # fmt: skip
FOUGHT = Condemned(
    "cancelled", "cpu", "the cage went on running whenever it was stopped for cpu_percent (SIGCONT?) and was ended"
)


def unwatched(error: BaseException) -> Condemned:
    """Its limits cannot be seen to be kept."""
    return Condemned(
        "cancelled", "watchdog", f"the watchdog cannot see the cage's limits kept: {type(error).__name__}: {error}"
    )


class LiveInit:
    """One cage-init and everything below it. Takes over what `opened` owns."""

    def __init__(
        self,
        opened: native.Opened,
        cage_id: str,
        scratch: str = "",
        *,
        owns_scratch: bool = False,
        cgroup: Cgroup | None = None,
        tree: Tree | None = None,
        doors: dict[tuple[str, str], int] | None = None,
    ) -> None:
        self.id = cage_id
        self.hostname = ""  # of the cage, where it has one of its own
        self.cgroup = cgroup  # the cage's own; removed with it
        self.tree = tree  # what the watchdog looks at, when the plan has it watch
        self.condemned: Condemned | None = None  # why the watchdog has killed the cage
        self.tightened: dict[str, int] = {}  # limits that were lowered while it runs, named as in `Condemned`
        self.orders = 0  # commands that were asked of it
        self.woken: list[Callable[[], object]] = []  # to be called when there is something to be watched again
        self.held = False  # it is paused: the watchdog then neither stops it nor lets it go on
        self.scratch = scratch  # the host directory behind SCRATCH, "" if the plan has none
        self.owns_scratch = owns_scratch
        self.pid = opened.pid
        self.user = opened.user  # whom it is outside, where root has started it as another; else 0
        self.listener = opened.listener  # until a supervisor takes it over
        self.doors = doors or {}  # sockets in its network namespace, by kind and protocol; until `take_doors`
        self.admission: Any = None  # what serves them; set by the layer that makes it
        self.attachment: Any = None  # its interface in the host's network; set by the layer that makes it
        self.supervision: Any = None  # what decides its calls at run time; set by the layer that makes it
        self._told: frozenset[str] = frozenset()  # what was planted and has been told
        self._last_id = 0
        self._asked = False  # what was written, and the answer is still to come
        self._lock = allocate_lock()
        self._forget_record: Callable[[], None] | None = None
        self._owner = os.getpid()
        self._pidfd, self._control = opened.pidfd, opened.control
        self._reaped = False  # from here on it is ours to close
        opened.given()

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
                orders.nudge(self._control)

    def execute(self, order: orders.Order, report_fd: int, fds: Sequence[int]) -> None:
        """Sends a command. Raises CageClosedError when the cage is closed or its init is dead."""
        with self._lock:
            self._demand_open()
            self.orders += 1
            try:
                orders.send_order(self._control, order, report_fd, fds)
            except (BrokenPipeError, ConnectionResetError):
                raise CageClosedError(f"cage {self.id}: its init is dead; open another cage") from None
        self.wake()

    def wake(self) -> None:
        """Something was ordered or has begun to run, and is to be watched."""
        for wake in self.woken:
            wake()

    def new_command_id(self) -> int:
        with self._lock:
            self._last_id += 1
            return self._last_id

    def signal(self, command_id: int, number: int, scope: str) -> None:
        """`scope` is "one" (the command's process), its "session", or "all" of the cage. A dead cage is no error."""
        with self._lock:
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
            if self.closed or not _takes_a_message(self._control):
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
                self._asked = _takes_a_message(self._control) and orders.ask_written(self._control)
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
        return self.condemned is OUT_OF_MEMORY or (self.cgroup is not None and self.cgroup.oom_kills() > 0)

    def refused_forks(self) -> bool:
        """Whether the kernel has counted a fork beyond pids.max."""
        return self.cgroup is not None and self.cgroup.forks_refused() > 0

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
        with self._lock:
            if self._reaped:
                return True
            if not self._gone(1.0):
                self._kill()
                if not self._gone(KILL_PATIENCE):
                    return False
            try:
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | native.WALL)
            except ChildProcessError:
                pass  # the host waited for any child, or ignores SIGCHLD
            self._reaped = True  # before: a copy that is forked in between then closes nothing twice
            os.close(self._pidfd)
            if self.tree is not None:
                self.tree.close()
            if self.cgroup is not None:
                self.cgroup.close()
            self._end_supervision()
            self._end_admission()
            if self.owns_scratch:
                from pysandbox.launch.removal import remove_tree

                remove_tree(self.scratch)
            self._drop_record()
            return True

    def _kill(self) -> None:
        if self.cgroup is not None:
            self.cgroup.kill()
        _send_kill(self._pidfd)

    def _end_supervision(self) -> None:
        listener, self.listener = self.listener, -1
        if listener >= 0:
            os.close(listener)
        if self.supervision is not None:
            self.supervision.end()

    def take_doors(self) -> dict[tuple[str, str], int]:
        """The doors, from now on the caller's to close. Raises CageClosedError."""
        with self._lock:
            self._demand_open()
            taken, self.doors = self.doors, {}
            return taken

    def _end_admission(self) -> None:
        self._close_doors()
        if self.admission is not None:
            self.admission.end()
        if self.attachment is not None:
            self.attachment.close()

    def _close_doors(self) -> None:
        doors, self.doors = self.doors, {}
        for fd in doors.values():
            os.close(fd)

    def recorded(self, forget: Callable[[], None]) -> None:
        """A record of this cage was written; `forget` removes it when the cage is gone, at once if it already is."""
        with self._lock:
            self._forget_record = forget
            if self._reaped:
                self._drop_record()

    def _drop_record(self) -> None:
        forget, self._forget_record = self._forget_record, None
        if forget is not None:
            try:
                forget()
            except OSError:
                return  # the directory is no longer ours: nor is the record

    def unrecord(self) -> None:
        """The host ends, and the cage with it."""
        with self._lock:
            self._drop_record()

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
            try:
                self.close()
            except Exception:
                return

    def await_end(self) -> None:
        """Waits a little until nothing of a cage is left whose init is going."""
        with self._lock:
            if not self._reaped and not self.abandoned:
                self._gone(1.0)

    def not_told(self, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Those that are new since it was asked last."""
        if not paths:
            return ()
        with self._lock:
            new = tuple(path for path in paths if path not in self._told)
            self._told |= frozenset(new)
        return new

    def is_dead(self) -> bool:
        """Whether cage-init is gone although nobody has ended it."""
        with self._lock:
            return self._reaped or self._gone(0)

    def seems_dead(self) -> bool:
        """The same, without waiting for anybody: False while another thread is busy with the cage."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._reaped or self._gone(0)
        finally:
            self._lock.release()

    @property
    def abandoned(self) -> bool:
        """Whether this is a forked copy of the host: the cage is the original's, and not to be touched."""
        return os.getpid() != self._owner

    def abandon(self) -> None:
        """In a forked copy of the host: forget the cage without touching it."""
        self._lock = allocate_lock()  # the original may have been held by another thread at the fork
        if not self._reaped:
            os.close(self._pidfd)
            self._reaped = True
            if self.tree is not None:
                self.tree.abandon()
            if self.cgroup is not None:
                self.cgroup.abandon()
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
        if self.listener >= 0:
            os.close(self.listener)
            self.listener = -1
        self._close_doors()
        if self.attachment is not None:
            self.attachment.forget()

    def kill_process(self, pid: int) -> None:
        """SIGKILL to one process of the cage, as the host numbers it."""
        import signal

        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return

    def pin(self) -> int:
        """A pidfd of cage-init, the caller's to close. Raises CageClosedError."""
        with self._lock:
            self._demand_open()
            if self._reaped:
                raise CageClosedError(f"cage {self.id} is gone")
            return os.dup(self._pidfd)  # close-on-exec

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

    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return


def _takes_a_message(control: int) -> bool:
    """Whether a short message can be sent without waiting for cage-init to read."""
    poller = select.poll()
    poller.register(control, select.POLLOUT)
    return bool(poller.poll(0))
