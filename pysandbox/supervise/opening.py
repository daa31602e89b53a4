"""Opening a file for a caged process: what the kernel would open for it, by the path that was judged, and no more.

The supervisor opens with the host's own powers and without the cage's Landlock rules, so what the kernel would decide
by the caller is decided here, on the file that was found and not on its name: the file is found first (O_PATH), held
against the rules, and what is opened is what was found. A new file is made in a directory that was found the same way.

Of procfs a caller gets what is its own, what is open to all, and of the rest what is the same for everybody: the kernel
shows sysctls and System V objects by the namespaces of who opens them, which would be the host's. The controlling
terminal (/dev/tty) is opened for no caller. A FIFO is refused: waiting for its other end would block the supervisor.
Nothing is opened with a capability of the host's, and nothing waits (O_NONBLOCK, put right after). Descriptors by name
(/dev/fd/N, /proc/self/fd/N) are duplicated, never reopened with more rights.
"""

from __future__ import annotations

import fcntl
import os
import posixpath
import re
import stat
from errno import EACCES, EEXIST, EISDIR, ELOOP, ENOENT, ENXIO

from pysandbox.compile.plan import LandlockPlan
from pysandbox.handlers.call import Call
from pysandbox.handlers.verdict import InjectFd
from pysandbox.launch import native
from pysandbox.launch.proctext import number
from pysandbox.live.init import CageInit
from pysandbox.live.processes import status_of
from pysandbox.shapes import Any
from pysandbox.supervise import wire
from pysandbox.supervise.files import inner, writes
from pysandbox.supervise.rights import TMPFILE, require_rights, rights

PROC_SUPER_MAGIC = 0x9FA0
TTY = os.makedev(5, 0)
OPEN_TO_ALL = frozenset({"stat", "status", "statm", "cmdline", "comm", "cgroup", "task", "mountinfo", "mounts", ""})
OWN_TO_WRITE = frozenset({"comm", "oom_score_adj", "coredump_filter", "timerslack_ns"})
NEVER_OWN = frozenset({"mem"})
# The names in /proc and below /proc/sys that show every namespace the same (directories of processes aside).
THE_SAME_FOR_ALL = frozenset({
    "", "buddyinfo", "bus", "cgroups", "cmdline", "consoles", "cpuinfo", "crypto", "devices", "diskstats", "driver",
    "execdomains", "fb", "filesystems", "interrupts", "irq", "loadavg", "meminfo", "misc", "modules", "partitions",
    "pressure", "schedstat", "softirqs", "stat", "swaps", "sys", "tty", "uptime", "version", "vmstat", "zoneinfo",
})  # fmt: skip
SYSCTLS = frozenset({"", "debug", "dev", "fs", "kernel", "vm"})
OF_A_NAMESPACE = re.compile(r"fs/mqueue|kernel/(?:shm|msg|sem|auto_msgmni|keys|ns_last_pid|pid_max|cad_pid)")
BY_NAME = re.compile(r"/proc/\d+/(?:task/\d+/)?fd/(\d+)")
STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
MOST_LINKS = 40  # as the kernel


def inject(notifier: Any, pending: int, live: CageInit, landlock: LandlockPlan | None, call: Call,
           verdict: InjectFd) -> None:  # fmt: skip
    """Opens a file for the caller and answers its call; an error becomes the caller's errno."""
    try:
        fd = _JudgedOpening(live, landlock, call, verdict, wire.WaitingCaller(notifier, pending)).open()
        try:
            wire.answer(notifier, pending, "INJECT", fd, verdict.flags & os.O_CLOEXEC)
        finally:
            os.close(fd)
    except OSError as error:  # of the file, or of the caller's table of descriptors (EMFILE)
        wire.answer(notifier, pending, "ERRNO", error.errno or EACCES)


class _JudgedOpening:
    """One open. Raises OSError."""

    def __init__(
        self, live: CageInit, landlock: LandlockPlan | None, call: Call, verdict: InjectFd, caller: wire.WaitingCaller
    ) -> None:
        self._live, self._landlock, self._call, self._caller = live, landlock, call, caller
        self._path, self._flags, self._mode = verdict.path, verdict.flags, verdict.mode

    def open(self) -> int:
        number = _descriptor_named(self._call, self._path)
        if number is not None:
            return _duplicate(self._caller, number, self._flags)
        root = self._live.open_root()
        try:
            fd = self._open_below(root)
        finally:
            os.close(root)
        if not self._flags & os.O_NONBLOCK:
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)
        return fd

    def _open_below(self, root: int) -> int:
        path = self._path
        for _ in range(MOST_LINKS):
            held = self._find(root, path)
            if held >= 0:
                return self._open_found(held)
            if not self._flags & os.O_CREAT:
                self._judge_above(root, path)
                raise FileNotFoundError(ENOENT, os.strerror(ENOENT), path)
            fd, path = self._make(root, path)
            if fd >= 0:
                return fd
        raise OSError(ELOOP, os.strerror(ELOOP), path)

    def _find(self, root: int, path: str) -> int:
        """A descriptor (O_PATH) of the file, -1 where there is none."""
        exclusive = self._flags & os.O_CREAT and self._flags & os.O_EXCL
        follow = os.O_NOFOLLOW if exclusive else self._flags & os.O_NOFOLLOW
        try:
            return native.open_inside(
                root, path, os.O_PATH | follow, resolve=native.RESOLVE_IN_ROOT, powerless=True, user=self._live.user
            )
        except FileNotFoundError:
            return -1

    def _judge_above(self, root: int, path: str) -> None:
        """Judges the nearest existing directory above a path that is missing. In procfs, which is looked up in the
        namespaces of this process, a missing name tells as much as one that may not be opened: both are refused
        alike."""
        above = os.path.dirname(path.rstrip("/"))
        while above.strip("/"):
            try:
                held = native.open_inside(
                    root, above, os.O_PATH, resolve=native.RESOLVE_IN_ROOT, powerless=True, user=self._live.user
                )
            except FileNotFoundError:
                above = os.path.dirname(above)
                continue
            try:
                if native.file_system(held) == PROC_SUPER_MAGIC:
                    _judge_proc(os.readlink(f"/proc/self/fd/{held}"), self._call, self._flags)
                return
            finally:
                os.close(held)

    def _open_found(self, held: int) -> int:
        try:
            if self._flags & os.O_CREAT and self._flags & os.O_EXCL:
                raise FileExistsError(EEXIST, os.strerror(EEXIST), self._path)
            self._judge(held)
            unnamed = self._flags & TMPFILE
            flags = self._flags & ~(os.O_CREAT | os.O_NOFOLLOW | (0 if unnamed else os.O_EXCL))
            flags, mode = flags | os.O_NOCTTY | os.O_NONBLOCK, self._mode_of_new() if unnamed else 0
            name = f"/proc/self/fd/{held}"
            return native.open_inside(held, name, flags, mode, resolve=0, powerless=True, user=self._live.user)
        finally:
            os.close(held)

    def _judge(self, held: int) -> None:
        """Judges the file that was opened, whatever its path means by now."""
        found = os.fstat(held)
        if stat.S_ISLNK(found.st_mode):  # it was not to be followed
            raise OSError(ELOOP, os.strerror(ELOOP), self._path)
        if stat.S_ISDIR(found.st_mode) and self._flags & os.O_CREAT:
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR), self._path)
        if stat.S_ISFIFO(found.st_mode):
            raise PermissionError(EACCES, "a FIFO cannot be opened for a caller")
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == TTY:
            raise OSError(ENXIO, "no controlling terminal")
        real = os.readlink(f"/proc/self/fd/{held}")
        if native.file_system(held) == PROC_SUPER_MAGIC:
            _judge_proc(real, self._call, self._flags)
        require_rights(self._landlock, real, rights(self._flags, stat.S_ISDIR(found.st_mode)))

    def _make(self, root: int, path: str) -> tuple[int, str]:
        """Makes a new file: (its descriptor, ""), or (-1, the path to try next) where a dangling link has this name."""
        parent, name = posixpath.split(path)
        if not name or self._flags & os.O_DIRECTORY:
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR), path)
        directory = native.open_inside(
            root,
            parent,
            os.O_PATH | os.O_DIRECTORY,
            resolve=native.RESOLVE_IN_ROOT,
            powerless=True,
            user=self._live.user,
        )
        try:
            real = os.readlink(f"/proc/self/fd/{directory}").rstrip("/")
            asked = {"MAKE_REG", *rights(self._flags & ~os.O_TRUNC, directory=False)}
            require_rights(self._landlock, f"{real}/{name}", asked)
            flags = self._flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK
            resolve = native.RESOLVE_BENEATH | native.RESOLVE_NO_SYMLINKS
            return native.open_inside(
                directory, name, flags, self._mode_of_new(), resolve=resolve, powerless=True, user=self._live.user
            ), ""
        except FileExistsError:
            if self._flags & os.O_EXCL:
                raise
            return -1, _target(directory, real, name)
        finally:
            os.close(directory)

    def _mode_of_new(self) -> int:
        umask = number(status_of(self._call.pid).get(b"Umask", b"022"), 8)
        self._caller.require()
        return self._mode & ~umask


def _target(directory: int, real: str, name: str) -> str:
    """Where a link leads; the path itself where there is none any more."""
    try:
        return posixpath.join(real, os.readlink(name, dir_fd=directory))
    except OSError:
        return f"{real}/{name}"


def _judge_proc(path: str, call: Call, flags: int) -> None:
    """Judges a path in procfs. Raises PermissionError for what the caller may not open."""
    first, *rest = path.removeprefix("/proc").removeprefix("/").split("/")
    if not first.isdigit():
        if writes(flags) or not _is_the_same_for_all(first, rest):
            raise PermissionError(EACCES, os.strerror(EACCES), path)
        return
    own = first == inner(call.pid, "self")
    name = rest[0] if rest else ""
    if name == "task":
        name = rest[2] if len(rest) > 2 else ""
    allowed = (own and name not in NEVER_OWN) or name in OPEN_TO_ALL
    if not allowed or (writes(flags) and not (own and name in OWN_TO_WRITE)):
        raise PermissionError(EACCES, os.strerror(EACCES), path)


def _is_the_same_for_all(first: str, rest: list[str]) -> bool:
    if first != "sys" or not rest:
        return first in THE_SAME_FOR_ALL
    return rest[0] in SYSCTLS and not OF_A_NAMESPACE.match("/".join(rest))


def _descriptor_named(call: Call, path: str) -> int | None:
    if path in STANDARD:
        return STANDARD[path]
    found = BY_NAME.fullmatch(path)
    if found is None or path.split("/")[2] != inner(call.pid, "self"):
        return None
    return int(found[1])


def _duplicate(caller: wire.WaitingCaller, number: int, flags: int) -> int:
    fd = caller.take_fd(number)
    has = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
    if has not in (os.O_RDWR, flags & os.O_ACCMODE):
        os.close(fd)
        raise PermissionError(EACCES, "a descriptor is not opened again with more rights")
    return fd
