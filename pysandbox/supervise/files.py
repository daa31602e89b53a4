"""Opening a file for a caged process: inside the root of the cage, by the path that was judged.

The supervisor opens with the host's own powers, so what the kernel would decide by the caller is decided here: of
procfs a caller gets what is its own or open to all, never another process's memory (the host could trace it), and the
controlling terminal (/dev/tty) is nobody's. A FIFO is refused: waiting for its other end would keep the supervisor.
Nothing is opened with a capability of the host's, and nothing waits (O_NONBLOCK, put right after). Descriptors by name
(/dev/fd/N, /proc/self/fd/N) are duplicated, never reopened with more rights.
"""

from __future__ import annotations

import fcntl
import os
import posixpath
import re
import stat
from collections.abc import Sequence
from dataclasses import replace
from errno import EACCES, ENOENT, ENXIO
from typing import Any

from pysandbox.handlers.call import Call
from pysandbox.handlers.verdict import InjectFd
from pysandbox.launch import native
from pysandbox.launch.live import LiveInit
from pysandbox.supervise import wire
from pysandbox.supervise.tasks import status_of

AT_FDCWD = -100
# The places of (directory, path, flags, mode) among the arguments; None: there is none.
ARGUMENTS: dict[str, tuple[int | None, int, int | None, int | None]] = {
    "open": (None, 0, 1, 2),
    "creat": (None, 0, None, 1),
    "openat": (0, 1, 2, 3),
}
CREAT_FLAGS = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
LONGEST_PATH = 4096  # PATH_MAX
TMPFILE = os.O_TMPFILE & ~os.O_DIRECTORY  # the bit that makes the difference
LINKED_TO_SELF = {"/proc/mounts": "/proc/self/mounts", "/proc/net": "/proc/self/net", "/dev/fd": "/proc/self/fd"}
PROC_SUPER_MAGIC = 0x9FA0
TTY = os.makedev(5, 0)
OPEN_TO_ALL = frozenset({"stat", "status", "statm", "cmdline", "comm", "cgroup", "task", "mountinfo", "mounts", ""})
OWN_TO_WRITE = frozenset({"comm", "oom_score_adj", "coredump_filter", "timerslack_ns"})
NEVER_OWN = frozenset({"mem"})
BY_NAME = re.compile(r"/proc/\d+/(?:task/\d+/)?fd/(\d+)")
STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


def writes(flags: int) -> bool:
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))


def complete(call: Call, args: Sequence[int]) -> Call:
    """The call with the absolute path that it means, its flags and its mode. Raises OSError."""
    directory, path_at, flags_at, mode_at = ARGUMENTS[call.syscall]
    path = os.fsdecode(wire.read_text(call.pid, args[path_at], LONGEST_PATH))
    if not path:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
    flags = CREAT_FLAGS if flags_at is None else register_int(args[flags_at])
    mode = args[mode_at] & 0o1777 if flags & (os.O_CREAT | TMPFILE) and mode_at is not None else 0
    where = AT_FDCWD if directory is None else register_int(args[directory])
    return replace(call, path=absolute(call.pid, where, path), flags=flags, mode=mode)


def register_int(register: int) -> int:
    """As the kernel reads an int."""
    low = register & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low


def absolute(tid: int, directory: int, path: str) -> str:
    """Relative to the caller's directory; /proc/self spelled out, since it would be ours."""
    if not path.startswith("/"):
        base = os.readlink(f"/proc/{tid}/cwd" if directory == AT_FDCWD else f"/proc/{tid}/fd/{directory}")
        path = f"{base}/{path}"
    plain = posixpath.normpath(path) if ".." not in path.split("/") else path
    plain = plain.replace("//", "/")
    for link, target in LINKED_TO_SELF.items():  # they lead through /proc/self, which is not ours to follow
        if plain == link or plain.startswith(link + "/"):
            plain = target + plain[len(link) :]
    for name in ("self", "thread-self"):
        start = f"/proc/{name}"
        if plain == start or plain.startswith(start + "/"):
            return f"/proc/{_inner(tid, name)}{plain[len(start) :]}"
    return plain


def _inner(tid: int, name: str) -> str:
    """The numbers of a thread in its own PID namespace."""
    status = status_of(tid)
    group, thread = status["NStgid"].split()[-1], status["NSpid"].split()[-1]
    return group if name == "self" else f"{group}/task/{thread}"


def inject(notifier: Any, ticket: int, live: LiveInit, call: Call, verdict: InjectFd) -> None:
    """Opens it and answers; an error becomes the caller's errno."""
    try:
        fd = _open(live, call, verdict)
    except OSError as error:
        wire.answer(notifier, ticket, "ERRNO", error.errno or EACCES)
        return
    try:
        wire.answer(notifier, ticket, "INJECT", fd, verdict.flags & os.O_CLOEXEC)
    finally:
        os.close(fd)


def _open(live: LiveInit, call: Call, verdict: InjectFd) -> int:
    number = _descriptor_named(call, verdict.path)
    if number is not None:
        return _duplicate(call.pid, number, verdict.flags)
    root = live.open_root()
    try:
        _look_first(root, call, verdict)
        mode = verdict.mode & ~int(status_of(call.pid).get("Umask", "022"), 8)
        flags = verdict.flags | os.O_NOCTTY | os.O_NONBLOCK
        fd = native.open_inside(
            root, verdict.path, flags, mode if verdict.mode else 0, resolve=native.RESOLVE_IN_ROOT, powerless=True
        )
    finally:
        os.close(root)
    try:
        _judge(fd, call, verdict.flags)  # what was opened, whatever the path meant before
        if not verdict.flags & os.O_NONBLOCK:
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _look_first(root: int, call: Call, verdict: InjectFd) -> None:
    """Opening a FIFO or a terminal has an effect by itself."""
    follow = os.O_NOFOLLOW if verdict.flags & os.O_NOFOLLOW else 0
    try:
        fd = native.open_inside(root, verdict.path, os.O_PATH | follow, resolve=native.RESOLVE_IN_ROOT)
    except FileNotFoundError:
        return
    try:
        _judge(fd, call, verdict.flags)
    finally:
        os.close(fd)


def _judge(fd: int, call: Call, flags: int) -> None:
    """Raises OSError for what the caller may not have."""
    found = os.fstat(fd)
    if stat.S_ISFIFO(found.st_mode):
        raise PermissionError(EACCES, "a FIFO cannot be opened for a caller")
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == TTY:
        raise OSError(ENXIO, "no controlling terminal")
    if native.file_system(fd) == PROC_SUPER_MAGIC:
        _judge_proc(os.readlink(f"/proc/self/fd/{fd}"), call, flags)


def _judge_proc(path: str, call: Call, flags: int) -> None:
    parts = path.removeprefix("/proc/").split("/")
    if not parts[0].isdigit():
        if writes(flags):
            raise PermissionError(EACCES, path)
        return
    own = parts[0] == _inner(call.pid, "self")
    name = parts[1] if len(parts) > 1 else ""
    if name == "task":
        name = parts[3] if len(parts) > 3 else ""
    allowed = (own and name not in NEVER_OWN) or name in OPEN_TO_ALL
    if not allowed or (writes(flags) and not (own and name in OWN_TO_WRITE)):
        raise PermissionError(EACCES, path)


def _descriptor_named(call: Call, path: str) -> int | None:
    if path in STANDARD:
        return STANDARD[path]
    found = BY_NAME.fullmatch(path)
    if found is None or path.split("/")[2] != _inner(call.pid, "self"):
        return None
    return int(found[1])


def _duplicate(tid: int, number: int, flags: int) -> int:
    fd = wire.get_fd(tid, number)
    has = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
    if has not in (os.O_RDWR, flags & os.O_ACCMODE):
        os.close(fd)
        raise PermissionError(EACCES, "a descriptor is not opened again with more rights")
    return fd
