"""What a caged process means by a path: made absolute from its own directory, with its own /proc/self. `opening` opens
it for the process.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from errno import ENOENT

from pysandbox.handlers.call import Call
from pysandbox.live.processes import status_of
from pysandbox.shapes import replace
from pysandbox.supervise import wire
from pysandbox.supervise.rights import TMPFILE

AT_FDCWD = -100
# The places of (directory, path, flags, mode) among the arguments; None: there is none.
ARGUMENTS: dict[str, tuple[int | None, int, int | None, int | None]] = {
    "open": (None, 0, 1, 2),
    "creat": (None, 0, None, 1),
    "openat": (0, 1, 2, 3),
}
CREAT_FLAGS = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
LONGEST_PATH = 4096  # PATH_MAX
LINKED_TO_SELF = {"/proc/mounts": "/proc/self/mounts", "/proc/net": "/proc/self/net", "/dev/fd": "/proc/self/fd"}


def writes(flags: int) -> bool:
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))


def complete(call: Call, args: Sequence[int], caller: wire.WaitingCaller) -> Call:
    """The call with the absolute path that it means, its flags and its mode. Raises OSError."""
    directory, path_at, flags_at, mode_at = ARGUMENTS[call.syscall]
    path = os.fsdecode(caller.read_text(args[path_at], LONGEST_PATH))
    if not path:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
    flags = CREAT_FLAGS if flags_at is None else register_int(args[flags_at])
    flags |= os.O_DIRECTORY if path.endswith("/") else 0  # which is all that its last slash says
    mode = args[mode_at] & 0o1777 if flags & (os.O_CREAT | TMPFILE) and mode_at is not None else 0
    where = AT_FDCWD if directory is None else register_int(args[directory])
    return replace(call, path=absolute(call.pid, where, path), flags=flags, mode=mode)


def register_int(register: int) -> int:
    """A register as the kernel reads it for an argument of type int."""
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
            return f"/proc/{inner(tid, name)}{plain[len(start) :]}"
    return plain


def inner(tid: int, name: str) -> str:
    """The numbers of a thread in its own PID namespace."""
    status = status_of(tid)
    group, thread = (os.fsdecode(status[name].split()[-1]) for name in (b"NStgid", b"NSpid"))
    return group if name == "self" else f"{group}/task/{thread}"
