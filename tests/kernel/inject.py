"""Failures that no ordinary host shows: one system call answers with an errno, by a seccomp filter.

The filter belongs to one thread of its own and to what that thread clones: the cage's setup, cage-init, its commands.
"""

from __future__ import annotations

import ctypes
import fcntl
import platform
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pysandbox.compile.syscalls import table

NUMBERS = table(platform.machine()).numbers
T = TypeVar("T")

# SECCOMP_RET_*: KILL ends the process, HOLD (USER_NOTIF) stops it in the call until the listener is closed.
ALLOW, KILL, ERRNO, HOLD = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
NEW_LISTENER = 8  # SECCOMP_FILTER_FLAG_*
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
PR_SET_NO_NEW_PRIVS = 38

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def instruction(code: int, k: int, otherwise: int = 0) -> bytes:
    """`otherwise`: how many instructions a comparison that fails skips."""
    return struct.pack("=HBBI", code, 0, otherwise, k & 0xFFFFFFFF)


ALLOW_ALL = instruction(RETURN, ALLOW)


RECEIVE, SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_*
CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_*


@dataclass(frozen=True)
class Held:
    """A call that is held; answered with `go_on` or `fail`, once."""

    listener: int
    id: int
    number: int
    thread: int
    arguments: tuple[int, ...]

    @classmethod
    def receive(cls, listener: int) -> Held:
        """The next one; waits for it."""
        notice = bytearray(80)  # struct seccomp_notif: id, pid, flags, data (nr, arch, instruction_pointer, args[6])
        fcntl.ioctl(listener, RECEIVE, notice)
        call, thread, _, number, _, _, *arguments = struct.unpack("=QIIiIQ6Q", notice)
        return cls(listener, call, number, thread, tuple(arguments))

    def go_on(self) -> None:
        self._answer(0, CONTINUE)

    def fail(self, number: int) -> None:
        self._answer(-number, 0)

    def _answer(self, error: int, flags: int) -> None:
        fcntl.ioctl(self.listener, SEND, struct.pack("=QqiI", self.id, 0, error, flags))


def answering(action: int, call: str, arguments: dict[int, int]) -> bytes:
    """A filter that takes `action` on `call` when the low half of each of these arguments is as given."""
    tests = [(0, NUMBERS[call]), *((16 + 8 * index, value) for index, value in arguments.items())]
    code = b""
    for left, (offset, value) in zip(range(len(tests), 0, -1), tests, strict=True):
        code += instruction(LOAD, offset) + instruction(EQUAL, value, otherwise=2 * (left - 1) + 1)
    return code + instruction(RETURN, action) + ALLOW_ALL


def holding(calls: Sequence[str], action: Callable[[], T]) -> tuple[T, int]:
    """What `action` returned, and the listener: readable when something is held in one of `calls`, which fails with
    ENOSYS once the listener is closed. Not for calls of the setup: they would hold this very thread."""
    listener: list[int] = []
    code = b"".join(answering(HOLD, call, {})[: -len(ALLOW_ALL)] for call in calls) + ALLOW_ALL
    returned = _in_thread(lambda: listener.append(install(code, NEW_LISTENER)), action)
    return returned, listener[0]


def under(code: bytes, action: Callable[[], T]) -> T:
    """Calls `action` in a thread that lives under the filter; gives what it returned, raises what it raised."""
    return _in_thread(lambda: install(code), action)


def _in_thread(prepare: Callable[[], object], action: Callable[[], T]) -> T:
    outcome: list[T] = []
    failure: list[BaseException] = []

    def live() -> None:
        try:
            prepare()
            outcome.append(action())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=live)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def install(code: bytes, flags: int = 0) -> int:
    """What seccomp(2) returned: with NEW_LISTENER, its descriptor."""
    program = Program(len(code) // 8, code)
    one, mode_filter = 1, 1  # SECCOMP_SET_MODE_FILTER
    answer = 0
    for number, *arguments in (
        (NUMBERS["prctl"], PR_SET_NO_NEW_PRIVS, one, 0, 0, 0),
        (NUMBERS["seccomp"], mode_filter, flags, ctypes.byref(program)),
    ):
        words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
        answer = libc.syscall(ctypes.c_long(number), *words)
        if answer < 0:
            raise OSError(ctypes.get_errno(), "the filter was not installed")
    return answer
