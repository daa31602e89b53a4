"""What no cage may change, looked at before and after each turn: files and their metadata, sockets that nobody may
reach, a process that nobody may touch, kernel objects, mounts; and what the host itself holds: descriptors, threads,
memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import socket
import subprocess
import time
from pathlib import Path

from bench.soak.canary import heard
from pysandbox.testing import drain

GROWTH_MB = 64
SETTLES = 5.0  # seconds that a thread or a descriptor of a cage may outlive it
SYSV = ("shm", "sem", "msg")


class Outside:
    """A context manager. `granted` is writable for the cage, the program's directory readable; all else is kept."""

    def __init__(self, top: Path) -> None:
        self.granted, self.kept, self.program = top / "granted", top / "kept", top / "program" / "guest"
        for directory in (self.granted, self.kept, self.program.parent, self.kept / "directory"):
            directory.mkdir()
            (directory / "file").write_text("as it was")
        (self.kept / "link").symlink_to("file")
        os.mkfifo(self.kept / "pipe")
        self._files = {
            name: os.open(self.kept / name, os.O_RDONLY) for name in (".", "file", "directory", "directory/file")
        }
        self._listeners = {"tcp": socket.create_server(("127.0.0.1", 0)), "unix": socket.socket(socket.AF_UNIX),
                           "abstract": socket.socket(socket.AF_UNIX)}  # fmt: skip
        self._listeners["unix"].bind(str(self.kept / "socket"))
        self._listeners["abstract"].bind(f"\0psb-fuzz-{os.getpid()}")
        for each in self._listeners.values():
            each.listen()
            each.setblocking(False)
        self._process = subprocess.Popen(["/bin/sleep", "100000"])
        resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
        self._held: dict[str, int] = {}
        self._resident = 0.0

    def __enter__(self) -> Outside:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for each in self._listeners.values():
            each.close()
        for fd in self._files.values():
            os.close(fd)

    @property
    def paths(self) -> list[str]:
        """What a guest is told of: what it may write, and what it may not."""
        return [
            str(self.granted / "file"), str(self.granted / "new"), str(self.program),
            *(str(self.kept / name) for name in ("file", "directory", "link", "pipe", "socket")),
        ]  # fmt: skip

    def seen(self, isolation: str) -> dict[str, object]:
        """Without namespaces chmod, chown, times and attributes by path are open, and named among the gaps: what they
        change is put back, and not looked at."""
        if isolation == "landlock":
            self.put_back()
        files = {name: _described(fd, whole=isolation != "landlock") for name, fd in self._files.items()}
        return {
            "files": files,
            "names": sorted(os.listdir(self._files["."])),
            "program": hashlib.sha256(self.program.read_bytes()).hexdigest(),
            "reached": [name for name, each in self._listeners.items() if heard(each)],
            "process": _of_process(self._process.pid),
            "ourselves": (os.nice(0), sorted(os.sched_getaffinity(0)), socket.gethostname(), os.getcwd(), _limits()),
            "kernel objects": {name: _own_objects(name) for name in SYSV},
            "mounts": len(Path("/proc/self/mountinfo").read_bytes().splitlines()),
            "guests": living(self.program),
            "cores": _cores(self.granted, self.kept, Path.cwd(), Path("/tmp")),
        }  # fmt: skip

    def put_back(self) -> None:
        for name, fd in self._files.items():
            os.fchmod(fd, 0o644 if name.endswith("file") else 0o755)
            os.utime(fd, (1, 1))
            for attribute in os.listxattr(fd):
                with contextlib.suppress(OSError):
                    os.removexattr(fd, attribute)
        self.program.chmod(0o755)

    def tidy(self) -> None:
        """What the last guest left where it may write; a file that it took the modes of is still ours."""
        self.granted.chmod(0o700)
        subprocess.run(["chmod", "-R", "u+rwX", str(self.granted)], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["find", str(self.granted), "-mindepth", "1", "-delete"], check=True)
        self.granted.chmod(0o755)
        (self.granted / "file").write_text("as it was")

    def grown(self) -> list[str]:
        """What the host holds now and did not hold after its first turns; threads and descriptors may take a moment."""
        deadline = time.monotonic() + SETTLES
        while True:
            drain()
            now = held()
            more = [name for name in now if name in self._held and now[name] > self._held[name]]
            if not more or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        found = [f"the host's {name} went from {self._held[name]} to {now[name]}" for name in more]
        resident = memory_mb()
        if self._resident and resident > self._resident + GROWTH_MB:
            found.append(f"the host grew from {self._resident:.0f} to {resident:.0f} MB")
        return found

    def remember(self) -> None:
        """From now on the host has what it needs."""
        drain()
        self._held = held()
        self._resident = memory_mb()


def _described(fd: int, *, whole: bool) -> tuple[object, ...]:
    found = os.fstat(fd)
    content = os.pread(fd, 100, 0) if os.path.isfile(f"/proc/self/fd/{fd}") else b""
    told: tuple[object, ...] = (content, found.st_uid, found.st_gid, found.st_nlink, found.st_size)
    if whole:
        told += (found.st_mode, found.st_mtime_ns, found.st_ctime_ns, tuple(os.listxattr(fd)))
    return told


def _of_process(pid: int) -> tuple[object, ...]:
    """Its state, signals that wait, its nice value, processors and limits."""
    status = Path("/proc", str(pid), "status").read_text()
    told = [
        line
        for line in status.splitlines()
        if line.startswith(("State", "SigPnd", "ShdPnd", "TracerPid", "Cpus_allowed:"))
    ]
    return *told, os.getpriority(os.PRIO_PROCESS, pid), Path("/proc", str(pid), "limits").read_text()


def _own_objects(kind: str) -> int:
    """How many objects of System V (shared memory, semaphores or messages) this user has."""
    head, *rows = (line.split() for line in Path("/proc/sysvipc", kind).read_text().splitlines())
    return sum(row[head.index("uid")] == str(os.getuid()) for row in rows)


def _cores(*places: Path) -> list[str]:
    found = []
    for place in places:
        with contextlib.suppress(OSError):  # a guest has taken the mode of its grant
            found += [str(each) for each in place.glob("core*") if each.stat().st_uid == os.getuid()]
    return sorted(found)


def _limits() -> list[tuple[int, int]]:
    return [resource.getrlimit(each) for each in range(16)]


def living(program: Path) -> int:
    """Processes that run the guest, in whatever cage."""
    found = 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found += os.fsencode(program) in Path("/proc", entry, "cmdline").read_bytes()
    return found


def held() -> dict[str, int]:
    """Descriptors, threads and children of this process, of whichever thread."""
    threads, children = os.listdir("/proc/self/task"), 0
    for each in threads:
        with contextlib.suppress(OSError):  # it has ended
            children += len(Path("/proc/self/task", each, "children").read_text().split())
    return {"descriptors": len(os.listdir("/proc/self/fd")), "threads": len(threads), "children": children}


def memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)
