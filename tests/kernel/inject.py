"""Failures that no ordinary host shows: one system call answers with an errno, by a seccomp filter.

The filter belongs to one thread of its own and to what that thread clones: the cage's setup, cage-init, its commands.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import threading
from collections.abc import Callable
from typing import TypeVar

from pysandbox.compile.syscalls import table

NUMBERS = table(platform.machine()).numbers
T = TypeVar("T")

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000  # SECCOMP_RET_*; KILL ends the process
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
PR_SET_NO_NEW_PRIVS = 38

libc = ctypes.CDLL(None, use_errno=True)


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def instruction(code: int, k: int, otherwise: int = 0) -> bytes:
    """`otherwise`: how many instructions a comparison that fails skips."""
    return struct.pack("=HBBI", code, 0, otherwise, k & 0xFFFFFFFF)


ALLOW_ALL = instruction(RETURN, ALLOW)


def answering(action: int, call: str, arguments: dict[int, int]) -> bytes:
    """A filter that takes `action` on `call` when the low half of each of these arguments is as given."""
    tests = [(0, NUMBERS[call]), *((16 + 8 * index, value) for index, value in arguments.items())]
    code = b""
    for left, (offset, value) in zip(range(len(tests), 0, -1), tests, strict=True):
        code += instruction(LOAD, offset) + instruction(EQUAL, value, otherwise=2 * (left - 1) + 1)
    return code + instruction(RETURN, action) + ALLOW_ALL


def under(code: bytes, action: Callable[[], T]) -> T:
    """Calls `action` in a thread that lives under the filter; gives what it returned, raises what it raised."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def live() -> None:
        try:
            _install(code)
            outcome.append(action())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=live)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def _install(code: bytes) -> None:
    program = Program(len(code) // 8, code)
    for number, *arguments in (
        (NUMBERS["prctl"], PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (NUMBERS["seccomp"], 1, 0, ctypes.byref(program)),  # SECCOMP_SET_MODE_FILTER
    ):
        words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
        if libc.syscall(ctypes.c_long(number), *words) != 0:
            raise OSError(ctypes.get_errno(), "the filter was not installed")
