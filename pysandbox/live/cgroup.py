"""A cage's own cgroup v2 directory: made before the cage, which is born in it, and removed after it.

The directory carries its owner in its name, as scratch directories do, so that what a killed host has left is told from
what is in use: it is listed, and removed on request only (`orphans`). Nothing here knows what a limit is; the files and
values come with the CgroupPlan.
"""

from __future__ import annotations

import errno
import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress

from pysandbox.compile.plan import CgroupPlan, Setting
from pysandbox.errors import StartError
from pysandbox.launch.owner import this_process
from pysandbox.launch.proctext import lines
from pysandbox.shapes import dataclass

PREFIX = "pysandbox-"
LEAF = "pysandbox-host"  # where a process goes that has to leave its own group to the groups below it
PATIENCE = 5.0  # seconds the kernel may take to freeze, empty or thaw a group
FIX = "run `pysandbox check`, or set resources.required = false to run without limits"


@dataclass(frozen=True, slots=True)
class CgroupStats:
    """What a cage uses; None where the group has no such controller."""

    memory: int | None  # bytes now
    cpu_usec: int | None
    io_bytes: int | None  # read and written
    pids: int | None


class CageCgroup:
    """One directory of the tree. `path` names it, `fd` is open on it. `close()` removes it; idempotent."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def make(cls, plan: CgroupPlan, cage_id: str) -> CageCgroup:
        """A new, empty group below the plan's parent, with its settings. Raises StartError; nothing is left then."""
        path = f"{plan.parent}/{PREFIX}{this_process()}-{cage_id}"
        try:
            _hand_down(plan)
            group = cls._new(path)
        except OSError as error:
            raise StartError("cgroup", error.errno or 0, error.filename or path, FIX) from None
        try:
            group.apply(plan.settings)
        except OSError as error:
            group.close()
            raise StartError("cgroup", error.errno or 0, error.filename or path, FIX) from None
        return group

    @classmethod
    def _new(cls, path: str) -> CageCgroup:
        os.mkdir(path, 0o700)
        try:
            return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except BaseException:
            os.rmdir(path)
            raise

    @classmethod
    def of(cls, pid: int, point: str) -> CageCgroup:
        """The group a process was put in by somebody else; `point` is where the tree is mounted. Raises OSError."""
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            found = [line[3:] for line in lines(file.read()) if line.startswith(b"0::")]
        if not found:
            raise OSError(errno.ENOENT, "the process is in no cgroup v2", f"/proc/{pid}/cgroup")
        own = os.fsdecode(found[0])
        path = f"{point}{own}"
        return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def apply(self, settings: Iterable[Setting]) -> None:
        """Writes them. Raises OSError, but for an optional one that this kernel does not have."""
        for setting in settings:
            try:
                self._write(setting.file, setting.value)
            except FileNotFoundError:
                if not setting.optional:
                    raise

    # ---- acting -------------------------------------------------------------------------------------------------

    def adopt(self, pid: int) -> None:
        """Moves a process in that could not be born here. Raises OSError."""
        self._write("cgroup.procs", str(pid))

    def freeze(self) -> None:
        """Holds every process still and returns when none runs any more. Raises OSError.

        cage-init is held still as well: until `thaw` it does not notice that its host has gone.
        """
        self._write("cgroup.freeze", "1")
        self._await("frozen", 1)

    def thaw(self) -> None:
        """Lets a frozen group run on. Raises OSError."""
        self._write("cgroup.freeze", "0")
        self._await("frozen", 0)

    def is_frozen(self) -> bool:
        return self._table("cgroup.events").get("frozen") == 1

    def kill(self) -> None:
        """SIGKILL to every process at once, frozen ones and those being born included. A group that is gone is no
        error."""
        try:
            self._write("cgroup.kill", "1")  # 5.14
        except FileNotFoundError:
            self._kill_one_by_one()
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise

    def _kill_one_by_one(self) -> None:
        with suppress(OSError):
            for pid in self._read("cgroup.procs").split():
                os.kill(int(pid), signal.SIGKILL)

    # ---- looking ------------------------------------------------------------------------------------------------

    def stats(self) -> CgroupStats:
        return CgroupStats(
            self._number("memory.current"),
            self._table("cpu.stat").get("usage_usec"),
            self._io_bytes(),
            self._number("pids.current"),
        )

    def oom_kills(self) -> int:
        """How many processes of this group the kernel has killed for want of memory."""
        return self._table("memory.events").get("oom_kill", 0)

    def holds(self, controller: str) -> bool:
        """Whether the kernel enforces limits of this controller here."""
        return controller in self._read("cgroup.controllers").split()

    def limit(self, file: str) -> int | None:
        """The limit in force; None is no limit."""
        return self._number(file)

    def forks_refused(self) -> int:
        """How often pids.max was met."""
        return self._table("pids.events").get("max", 0)

    def is_empty(self) -> bool:
        return self._table("cgroup.events").get("populated", 0) == 0

    # ---- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Kills what is left, waits until it is gone, removes the directory. Idempotent."""
        if self.fd < 0:
            return
        with suppress(OSError):
            if not self.is_empty():
                self.kill()
                self._await("populated", 0)
        with suppress(OSError):  # it is an orphan then
            os.rmdir(self.path)
        self.abandon()

    def abandon(self) -> None:
        """Lets go of the directory without touching it: in a forked copy of the host. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    # ---- its files ----------------------------------------------------------------------------------------------

    def _write(self, name: str, value: str) -> None:
        _write(f"{self.path}/{name}", name, value, dir_fd=self.fd)

    def _read(self, name: str) -> str:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return os.read(fd, 1 << 16).decode()
        finally:
            os.close(fd)

    def _number(self, name: str) -> int | None:
        try:
            return int(self._read(name))
        except (OSError, ValueError):
            return None

    def _table(self, name: str) -> dict[str, int]:
        """A flat keyed file (cgroup-v2.rst); empty when there is none."""
        try:
            rows = [line.split() for line in self._read(name).split("\n")]
        except OSError:
            return {}
        return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}

    def _io_bytes(self) -> int | None:
        try:
            words = self._read("io.stat").split()
        except OSError:
            return None
        return sum(int(word[7:]) for word in words if word.startswith(("rbytes=", "wbytes=")))

    def _await(self, key: str, value: int) -> None:
        """Waits until cgroup.events says so; the kernel wakes whoever polls that file (POLLPRI). Raises OSError."""
        fd = os.open("cgroup.events", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            poller = select.poll()
            poller.register(fd, select.POLLPRI)
            while f"{key} {value}" not in os.pread(fd, 4096, 0).decode():
                if not poller.poll(PATIENCE * 1000):
                    raise OSError(errno.ETIMEDOUT, f"the cgroup did not become {key} {value}", self.path)
        finally:
            os.close(fd)


def _write(path: str, name: str, value: str, *, dir_fd: int | None = None) -> None:
    """One write(2) to a control file. Raises OSError with its path."""
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=dir_fd)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        error.filename = path
        raise


# ---- the parent ----------------------------------------------------------------------------------------------------


def _hand_down(plan: CgroupPlan) -> None:
    """Has the plan's controllers handed down from the parent to the groups below it. Raises OSError."""
    if missing := _missing(plan):
        if plan.way == "leave":
            _leave(plan.parent)
        file = f"{plan.parent}/cgroup.subtree_control"
        _write(file, file, " ".join(f"+{name}" for name in missing))


def _missing(plan: CgroupPlan) -> list[str]:
    if not plan.controllers:
        return []
    with open(f"{plan.parent}/cgroup.subtree_control", encoding="utf-8") as file:
        enabled = file.read().split()
    return [name for name in plan.controllers if name not in enabled]


def _leave(parent: str) -> None:
    """Moves everything in the parent to a leaf below it: a group hands nothing down while it has processes.

    The probe has seen that they are this process and what it started.
    """
    with suppress(FileExistsError):
        os.mkdir(f"{parent}/{LEAF}")
    with open(f"{parent}/cgroup.procs", encoding="utf-8") as file:
        members = file.read().split()
    for pid in members:
        with suppress(ProcessLookupError):
            _write(f"{parent}/{LEAF}", f"{parent}/{LEAF}/cgroup.procs", pid)
