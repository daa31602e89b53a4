"""What the processes of one cage use, seen from the host through the cage's own /proc: memory and CPU time.

The cage's /proc lists the processes of its PID namespace and no other; without namespaces the children of cage-init,
who adopts its orphans, are followed. Memory is private and shared memory with each page counted once (PSS), plus what
lies in the cage's own memory file systems and memory files; files of the host in the page cache are not counted, since
the kernel can drop them. A process that ends meanwhile counts nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from itertools import islice

from pysandbox.compile.plan import WatchPlan
from pysandbox.launch import native

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
KIB = 1024
UTIME, CSTIME = 11, 14  # of /proc/PID/stat, counted from the state, the first field after the name
ANONYMOUS = frozenset({"Pss_Anon", "SwapPss", "Private_Hugetlb", "Shared_Hugetlb"})

Inode = tuple[int, int]


class Tree:
    """The processes below one cage-init. Any thread may look and any may close; `close()` is idempotent."""

    def __init__(self, init_pid: int, plan: WatchPlan, *, own_proc: bool) -> None:
        """Raises OSError. Opened before the cage gets its first order: its paths still mean what the plan says."""
        self._init = init_pid
        self._memfds = plan.memfds
        self._lock = threading.Lock()
        self._tmpfs: list[int] = []
        self._proc = -1
        try:
            self._open(plan, own_proc)
        except BaseException:
            self.close()
            raise

    def _open(self, plan: WatchPlan, own_proc: bool) -> None:
        self._own_proc = own_proc
        if not own_proc:
            self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            root = os.open(f"/proc/{self._init}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._proc = _below(root, "/proc", os.O_RDONLY)
                for path in plan.tmpfs:
                    self._tmpfs.append(_below(root, path, os.O_PATH))
            finally:
                os.close(root)
        self._devices = frozenset(os.fstat(fd).st_dev for fd in self._tmpfs)
        self._memfd_device = _device_of_memfds() if plan.memfds else -1

    def close(self) -> None:
        with self._lock:
            for fd in (*self._tmpfs, self._proc):
                if fd >= 0:
                    os.close(fd)
            self._tmpfs, self._proc = [], -1

    def abandon(self) -> None:
        """In a forked copy of the host, where another thread may have been looking: close all the same."""
        self._lock = threading.Lock()
        self.close()

    def memory(self, limit: int) -> int | None:
        """Bytes in use, as exactly as it takes to tell whether they are more than `limit`; None once closed."""
        with self._lock:
            return None if self._proc < 0 else self._weigh(limit)

    def cpu(self) -> float | None:
        """CPU seconds used by everything that runs or was waited for; None once closed."""
        with self._lock:
            return None if self._proc < 0 else sum(map(self._cpu_of, self._pids()))

    def is_idle(self) -> bool:
        """Whether there is nothing but cage-init; also once closed."""
        with self._lock:
            return self._proc < 0 or len(list(islice(self._pids(), 2))) < 2

    # ---- memory -------------------------------------------------------------------------------------------------

    def _weigh(self, limit: int) -> int:
        """Three looks, each dearer and closer than the one before: resident pages; PSS; PSS of each mapping."""
        pids = list(self._pids())
        memory_files = self._memory_files(pids) if self._memfds else {}
        files = sum(map(_used, self._tmpfs)) + sum(memory_files.values())
        resident = sum(map(self._resident, pids)) + files
        if resident <= limit:
            return resident
        anonymous, shared = map(sum, zip(*map(self._pss, pids), strict=True))
        least, most = anonymous + max(shared, files), anonymous + shared + files
        if most <= limit or least > limit:
            return most if most <= limit else least
        return most - sum(self._mapped_from(pid, memory_files) for pid in pids)

    def _resident(self, pid: str) -> int:
        fields = self._read(pid, "statm").split()
        return int(fields[1]) * PAGE if len(fields) > 1 else 0

    def _pss(self, pid: str) -> tuple[int, int]:
        """(private, shared memory) of a process, a page of n processes counted as an n-th."""
        rows = dict(_rows(self._read(pid, "smaps_rollup")))
        if not rows:  # it ended, or it may not be looked into
            return self._resident(pid) - self._shared(pid), 0
        return sum(rows.get(name, 0) for name in ANONYMOUS), rows.get("Pss_Shmem", 0)

    def _shared(self, pid: str) -> int:
        fields = self._read(pid, "statm").split()
        return int(fields[2]) * PAGE if len(fields) > 2 else 0

    def _memory_files(self, pids: list[str]) -> dict[Inode, int]:
        """Every memory file that a process of the cage has open, and its size in memory."""
        found: dict[Inode, int] = {}
        for pid in pids:
            for name in self._listed(f"{pid}/fd"):
                try:
                    seen = os.stat(f"{pid}/fd/{name}", dir_fd=self._proc)
                except OSError:
                    continue
                if seen.st_dev == self._memfd_device:
                    found[seen.st_dev, seen.st_ino] = seen.st_blocks * 512
        return found

    def _mapped_from(self, pid: str, memory_files: dict[Inode, int]) -> int:
        """The part of a process's PSS that lies in files which are counted already."""
        total, counted = 0, False
        for line in self._read(pid, "smaps", 1 << 24).splitlines():
            words = line.split()
            if not words[0].endswith(":"):
                inode = _device(words[3]), int(words[4])
                counted = inode[0] in self._devices or inode in memory_files
            elif counted and words[0] == "Pss:":
                total += int(words[1]) * KIB
            elif counted and words[0] == "Anonymous:":  # copied on write: no longer the file's
                total -= int(words[1]) * KIB
        return max(0, total)

    # ---- the processes ------------------------------------------------------------------------------------------

    def _pids(self) -> Iterator[str]:
        return filter(str.isdigit, self._listed(".")) if self._own_proc else self._descendants()

    def _descendants(self) -> Iterator[str]:
        ahead = [str(self._init)]
        while ahead:
            pid = ahead.pop()
            yield pid
            for task in self._listed(f"{pid}/task"):
                ahead += self._read(pid, f"task/{task}/children").split()

    def _cpu_of(self, pid: str) -> float:
        fields = self._read(pid, "stat").rpartition(")")[2].split()
        return sum(map(int, fields[UTIME : CSTIME + 1])) / TICKS

    def _listed(self, path: str) -> list[str]:
        try:
            if path == ".":
                return os.listdir(self._proc)
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return []
        try:
            return os.listdir(fd)
        except OSError:
            return []
        finally:
            os.close(fd)

    def _read(self, pid: str, name: str, most: int = 1 << 16) -> str:
        try:
            fd = os.open(f"{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return ""
        try:
            return _whole(fd, most).decode(errors="replace")
        except OSError:
            return ""
        finally:
            os.close(fd)


def _whole(fd: int, most: int) -> bytes:
    text = b""
    while len(text) < most and (more := os.read(fd, 1 << 16)):
        text += more
    return text


def _rows(text: str) -> Iterator[tuple[str, int]]:
    """`Name:   123 kB` lines, in bytes."""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "kB":
            yield words[0][:-1], int(words[1]) * KIB


def _used(fd: int) -> int:
    seen = os.statvfs(fd)
    return (seen.f_blocks - seen.f_bfree) * seen.f_frsize


def _device(text: str) -> int:
    major, _, minor = text.partition(":")
    return os.makedev(int(major, 16), int(minor, 16))


def _device_of_memfds() -> int:
    """All memory files are on one mount of the kernel's own."""
    fd = os.memfd_create("pysandbox-device", os.MFD_CLOEXEC)
    try:
        return os.fstat(fd).st_dev
    finally:
        os.close(fd)


def _below(root: int, path: str, flags: int) -> int:
    """A directory of the cage, by a path that no symlink bends."""
    resolve = native.RESOLVE_IN_ROOT | native.RESOLVE_NO_SYMLINKS
    return native.open_inside(root, path, flags | os.O_DIRECTORY, resolve=resolve)
