"""What the processes of one cage use, seen from the host through the cage's own /proc: memory and CPU time.

The cage's /proc lists the processes of its PID namespace and no other; without namespaces the children of cage-init,
who adopts its orphans, are followed. Memory is private and shared memory with each page counted once (PSS), plus what
lies in the cage's own memory file systems and memory files, and the page tables that lead to it; files of the host in
the page cache are not counted, since the kernel can drop them. A process that ends meanwhile counts nothing; one
that cannot be looked into counts in full, or not at all and raises: whoever asks must not take silence for an answer.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from pysandbox.compile.plan import WatchPlan
from pysandbox.launch import native
from pysandbox.launch.proctext import (
    GONE,
    KIB,
    after_name,
    field,
    lines,
    names_below,
    number,
    numbers,
    read_below,
    sizes,
)
from pysandbox.live.inside import open_inside
from pysandbox.live.open_sockets import count_open_sockets
from pysandbox.live.page_tables import page_tables
from pysandbox.live.processes import children, descendants
from pysandbox.live.swapped import swapped
from pysandbox.live.unreadable import FLAGS, PF_FORKNOEXEC, Unreadable
from pysandbox.live.unwaited import Seen, Used
from pysandbox.live.write_counters import Counters
from pysandbox.live.written import Wrote
from pysandbox.policy.match import covers

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
UTIME, STIME, CUTIME, CSTIME = (
    11,
    12,
    13,
    14,
)  # of /proc/PID/stat, counted from the state
THREADS = 17
CPUS = os.cpu_count() or 1
MISCOUNT = max(32, 2 * CPUS) * CPUS * PAGE  # by which a count of pages may be wrong (percpu_counter, 6.2)
INODE = 1024  # bytes of the kernel's for a file of a tmpfs: its inode, its name
USUAL_DESCRIPTORS, DESCRIPTOR = 4096, 5 << 10  # half a pipe of two pages, and what it takes to keep it
USUAL_SOCKETS, SOCKET = 256, 212_992  # net.core.wmem_default: what a unix socket's messages may take
INET = {b"TCP": "tcp", b"TCPv6": "tcp6", b"UDP": "udp", b"UDPv6": "udp6"}  # of /proc/net/protocols, and its table
USUAL_INET, QUEUES = 8, 4  # sockets that are too few to matter; the column with what was sent and received
TABLE_MOST = 1 << 24  # bytes: some 100,000 sockets
ANONYMOUS = (b"Pss_Anon", b"SwapPss", b"Private_Hugetlb", b"Shared_Hugetlb")
SMAPS_MOST = 1 << 24  # bytes: what lies beyond is not subtracted, so it counts twice


Inode = tuple[int, int]


class ProcessTree:
    """The processes below one cage-init. Any thread may look and any may close; `close()` is idempotent."""

    def __init__(
        self, init_pid: int, plan: WatchPlan, *, own_proc: bool, own_net: bool = False,
        held: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Raises OSError. Opened before the cage gets its first order: its paths still mean what the plan says. Later,
        `held` has what was opened then, by path; it is closed with this."""
        self._init, self._held = init_pid, held
        self._own_net = own_net
        self._init_name = "1" if own_proc else str(init_pid)
        self._lock = threading.RLock()
        self._tmpfs, self._proc = list[int](), -1
        self._glance: Callable[[int], None] = _nothing
        self.rough = 0  # bytes that the cheapest look at the memory came to, which are never less than there are
        self.hides = False  # whether at the last look at the memory a process could not be asked
        try:
            self._open(plan, own_proc)
        except BaseException:
            self.close()
            raise

    def _open(self, plan: WatchPlan, own_proc: bool) -> None:
        self._own_proc = own_proc
        self._memfds, self._memfd_device = False, -1
        self._devices: frozenset[int] = frozenset()
        if self._held is not None:
            self._proc = self._held["/proc"]
        elif own_proc:
            [self._proc] = open_inside(self._init, ("/proc",), os.O_RDONLY)
        else:
            self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._writers = Unreadable(self._proc, self._init_name)
        self._holders = Unreadable(self._proc, self._init_name)
        self._writes = Counters(self._proc, self._writers)
        self.cover(plan)

    def ordered(self, at: float) -> None:
        """A command was ordered at that time (time.monotonic()), and starts some time after."""
        self._writers.ordered(at)
        self._holders.ordered(at)

    def cover(self, plan: WatchPlan) -> None:
        """Counts what this plan counts, too. Raises OSError."""
        with self._lock:
            if plan.memfds and not self._memfds:
                self._memfd_device, self._memfds = _device_of_memfds(), True
            if plan.tmpfs and not self._tmpfs and self._proc >= 0:
                self._open_tmpfs(plan.tmpfs)

    def _open_tmpfs(self, paths: tuple[str, ...]) -> None:
        if self._held is not None:
            self._tmpfs = [self._held[path] for path in paths]
        else:
            self._tmpfs.extend(open_inside(self._init, paths, os.O_PATH))
        self._devices = frozenset(os.fstat(fd).st_dev for fd in self._tmpfs)

    def close(self) -> None:
        with self._lock:
            for fd in (*self._tmpfs, self._proc):
                if fd >= 0:
                    os.close(fd)
            self._tmpfs, self._proc = [], -1

    def signal(self, number: int) -> bool:
        """To every process but cage-init, without waiting for it; False where a number below /proc may be somebody
        else's by now: without a PID namespace of its own. Raises OSError."""
        with self._lock:
            if its_own := self._proc >= 0 and self._own_proc:
                native.signal_below(self._proc, number)
            return its_own

    def abandon(self) -> None:
        """In a forked copy of the host, where another thread may have been looking: close all the same."""
        self._lock = threading.RLock()
        self.close()

    def memory(self, limit: int, glance: Callable[[int], None] | None = None) -> int | None:
        """Bytes in use, as exactly as it takes to tell whether they are more than `limit`; None once closed. `glance`
        is called before every few files, with the number of processes once that is known, else 0."""
        with self._lock:
            self._glance = glance or _nothing
            used = None if self._proc < 0 else self._weigh(limit)
            self._glance = _nothing
            return used

    def cpu(self) -> dict[str, Used] | None:
        """What each process that runs has used; None once closed."""
        with self._lock:
            return None if self._proc < 0 else {pid: self._cpu_of(pid) for pid in self._pids()}

    def used_by_known(self, before: Seen, now: Seen) -> float:
        """What those have used since that were there before; without cage-init, who waits for new ones too."""
        known = before.keys() & now.keys() - {self._init_name}
        return sum(max(0.0, sum(now[pid][:2]) - sum(before[pid][:2])) for pid in known)

    def threads(self) -> int | None:
        """Threads of all processes but cage-init; None once closed."""
        with self._lock:
            if self._proc < 0:
                return None
            return sum(field(after_name(self._read(f"{pid}/stat")), THREADS) for pid in self._pids()
                       if pid != self._init_name)  # fmt: skip

    def written(self) -> dict[str, Wrote] | None:
        """What each process but cage-init had written to storage, its waited-for children's bytes among it; None once
        closed. Raises PermissionError for one that hides it."""
        with self._lock:
            if self._proc < 0:
                return None
            return self._writes.look([pid for pid in self._pids() if pid != self._init_name])

    def is_idle(self) -> bool:
        """Whether there is nothing but cage-init; also once closed."""
        with self._lock:
            if self._proc < 0:
                return True
            return len(list(islice(self._pids(), 2))) < 2 if self._own_proc else not children(self._init, self._proc)

    # ---- memory -------------------------------------------------------------------------------------------------

    def _weigh(self, limit: int, again: int = 3) -> int:
        """Looks that are each dearer and closer than the one before: resident pages and swap; what no two processes can
        share; PSS; PSS of each mapping."""
        pids = list(self._pids())
        self._glance(len(pids))
        memory_files = self._memory_files(pids) if self._memfds else {}
        files = sum(map(_used, self._tmpfs)) + sum(memory_files.values())
        seen = dict(map(self._pages, pids))
        resident = {place: there for place, (there, _) in seen.items()}
        spaces = {place: space for place, (_, space) in seen.items()}
        files += self._buffers(pids, limit) + page_tables(spaces, limit, self._read)
        rough = self.rough = sum(resident.values()) + files + swapped(resident, self._read)
        if rough <= limit:
            return rough
        if (sure := self._sure(resident) + files) > limit:
            return sure
        anonymous, shared = map(sum, zip(*map(self._pss, resident), strict=True))
        least, most = anonymous + max(shared, files), anonymous + shared + files
        if most <= limit or least > limit:
            return most if most <= limit else least
        mapped = [self._mapped_from(place, memory_files) for place, size in resident.items() if size]
        weight = most - sum(each or 0 for each in mapped)
        if (None in mapped or weight > limit) and again:  # one that ended meanwhile was seen in parts: look once more
            return self._weigh(limit, again - 1)
        return weight

    def _buffers(self, pids: list[str], limit: int) -> int:
        """What the kernel may hold for descriptors and sockets, the usual number of each left out. Unix sockets are
        counted by their network namespace, those on their way through another one, too; without it, where they are
        open."""
        opened = [self._stat(f"{pid}/fd") for pid in pids]
        descriptors = sum(seen.st_size for seen in opened if seen is not None)  # 6.2
        held = max(0, descriptors - USUAL_DESCRIPTORS) * DESCRIPTOR
        if not self._own_net:
            sockets = count_open_sockets(self._proc, pids, USUAL_SOCKETS + limit // SOCKET)
            return held + max(0, sockets - USUAL_SOCKETS) * SOCKET
        rows = [line.split() for line in lines(self._read(f"{self._init_name}/net/protocols"))]
        sockets = sum(number(row[2]) for row in rows if len(row) > 2 and row[0].startswith(b"UNIX"))
        return held + max(0, sockets - USUAL_SOCKETS) * SOCKET + self._queued(rows)

    def _queued(self, rows: list[list[bytes]]) -> int:
        """What lies in TCP and UDP sockets, as the tables of the cage's network say it, once there are many."""
        inet = sum(number(row[2]) for row in rows if len(row) > 2 and row[0] in INET)
        if inet <= USUAL_INET:
            return 0
        total = 0
        for name in INET.values():
            table = read_below(self._proc, f"{self._init_name}/net/{name}", TABLE_MOST) or b""
            for words in map(bytes.split, lines(table)[1:]):
                sent, _, received = words[QUEUES].partition(b":") if len(words) > QUEUES else (b"", b"", b"")
                total += number(sent, 16) + number(received, 16)
        return total

    def _pages(self, pid: str) -> tuple[str, tuple[int, int]]:
        """Where below /proc the memory of a process shows, how much is there, and in how large an address space. When
        its first thread has ended it is empty-handed itself, and the others are not."""
        for place in self._places(pid):
            pages = self._read(f"{place}/statm").split()
            if field(pages, 1):
                return place, (field(pages, 1) * PAGE, field(pages, 0) * PAGE)
        return pid, (0, 0)

    def _places(self, pid: str) -> Iterator[str]:
        yield pid
        yield from (f"{pid}/task/{task}" for task in names_below(self._proc, f"{pid}/task") or ())

    def _sure(self, places: Iterable[str]) -> int:
        """Anonymous memory that is no other process's: of each that has executed a program, since whoever it forked has
        not; or of one that was forked. The kernel's counts may be a little too high."""
        executed = forked = 0
        for place in places:
            pages = numbers(self._read(f"{place}/statm"))
            own = max(0, (pages[1] - pages[2]) * PAGE - MISCOUNT) if len(pages) > 2 else 0
            if field(after_name(self._read(f"{place}/stat")), FLAGS) & PF_FORKNOEXEC:
                forked = max(forked, own)
            else:
                executed += own
        return max(executed, forked)

    def _pss(self, place: str) -> tuple[int, int]:
        """(private, shared memory) of a process, a page of n processes counted as an n-th."""
        self._glance(0)
        rows = sizes(read_below(self._proc, f"{place}/smaps_rollup") or b"")
        if not rows:  # it ended, or it may not be looked into: then what it shares counts in full
            rows = sizes(self._read(f"{place}/status"))
            return rows.get(b"RssAnon", 0) + rows.get(b"VmSwap", 0), rows.get(b"RssShmem", 0)
        return sum(rows.get(name, 0) for name in ANONYMOUS), rows.get(b"Pss_Shmem", 0)

    def _memory_files(self, pids: list[str]) -> dict[Inode, int]:
        """Every memory file that a process of the cage has open, and its size in memory. Raises PermissionError."""
        found: dict[Inode, int] = {}
        self._holders.begin()
        for pid in pids:
            for task in names_below(self._proc, f"{pid}/task") or ():  # each may have descriptors of its own
                place = f"{pid}/task/{task}"
                if not self._add_memory_files(place, found) and pid != self._init_name:
                    self._holders.saw(place)
        self.hides = self._holders.check("has made itself unreadable and may hold memory files")
        return found

    def unnamed(self, trees: Sequence[str]) -> int:
        """Bytes of files below these directories that have no name any more and that somebody has open; 0 once closed,
        and of what hides."""
        found: dict[Inode, int] = {}
        with self._lock:
            for pid in self._pids() if self._proc >= 0 else ():
                for task in names_below(self._proc, f"{pid}/task") or ():
                    with suppress(OSError):
                        self._add_unnamed(f"{pid}/task/{task}/fd", trees, found)
        return sum(found.values())

    def _add_unnamed(self, place: str, trees: Sequence[str], found: dict[Inode, int]) -> None:
        for name in names_below(self._proc, place) or ():
            with suppress(FileNotFoundError):
                path = os.readlink(f"{place}/{name}", dir_fd=self._proc)
                seen = self._stat(f"{place}/{name}") if any(covers(tree, path) for tree in trees) else None
                if seen is not None and seen.st_nlink == 0:
                    found[seen.st_dev, seen.st_ino] = seen.st_blocks * 512

    def _add_memory_files(self, place: str, found: dict[Inode, int]) -> bool:
        """False where that cannot be seen."""
        self._glance(0)
        names = names_below(self._proc, f"{place}/fd")
        try:
            for name in names or ():
                seen = self._stat(f"{place}/fd/{name}")
                if seen is not None and seen.st_dev == self._memfd_device:
                    found[seen.st_dev, seen.st_ino] = seen.st_blocks * 512
        except PermissionError:
            return False
        return names is not None

    def _stat(self, path: str) -> os.stat_result | None:
        """None when it is gone."""
        try:
            return os.stat(path, dir_fd=self._proc)
        except OSError as error:
            if error.errno in GONE:
                return None
            raise

    def _mapped_from(self, place: str, memory_files: dict[Inode, int]) -> int | None:
        """The part of a process's PSS that lies in files which are counted already; None when it has ended."""
        self._glance(0)
        total, counted = 0, False
        text = read_below(self._proc, f"{place}/smaps", SMAPS_MOST)
        if text == b"":
            return None
        for line in lines(text or b""):
            words = line.split(maxsplit=5)
            if len(words) >= 5 and not words[0].endswith(b":"):
                inode = _device(words[3]), number(words[4])
                counted = inode[0] in self._devices or inode in memory_files
            elif counted and len(words) > 1 and words[0] == b"Pss:":
                total += number(words[1]) * KIB
            elif counted and len(words) > 1 and words[0] == b"Anonymous:":  # copied on write: no longer the file's
                total -= number(words[1]) * KIB
        return max(0, total)

    # ---- the processes ------------------------------------------------------------------------------------------

    def _pids(self) -> Iterator[str]:
        if not self._own_proc:
            return map(str, (self._init, *descendants(self._init, self._proc)))
        return (name for name in names_below(self._proc, ".") or () if name.isascii() and name.isdigit())

    def _cpu_of(self, pid: str) -> Used:
        fields = after_name(self._read(f"{pid}/stat"))
        own, waited = field(fields, UTIME) + field(fields, STIME), field(fields, CUTIME) + field(fields, CSTIME)
        return Used(own / TICKS, waited / TICKS, fields[:1] == [b"R"])

    def _read(self, path: str) -> bytes:
        """What every process shows to everybody. Raises OSError."""
        self._glance(0)
        text = read_below(self._proc, path)
        if text is None:
            raise PermissionError(f"/proc/{path} is not shown")
        return text


def _nothing(_: int) -> None:
    """Nobody is told how a look goes on."""


def _used(fd: int) -> int:
    seen = os.statvfs(fd)
    return (seen.f_blocks - seen.f_bfree) * seen.f_frsize + (seen.f_files - seen.f_ffree) * INODE


def _device(text: bytes) -> int:
    major, _, minor = text.partition(b":")
    return os.makedev(number(major, 16) & 0xFFF, number(minor, 16) & 0xFFFFF)


def _device_of_memfds() -> int:
    """All memory files are on one mount of the kernel's own."""
    fd = os.memfd_create("pysandbox-device", os.MFD_CLOEXEC)
    try:
        return os.fstat(fd).st_dev
    finally:
        os.close(fd)
