"""Put in front of every Python attack by `harness.program`: how an attack calls the kernel and says what came back.

Runs inside the cage under `python3 -I -S`, so it may use the standard library only. `NR` (system call name to
number) and the attack's own names are defined above this text.
"""

# ruff: noqa: F821
# mypy: ignore-errors
import ctypes
import errno
import json
import os
import signal  # noqa: F401  (for the attacks)
import sys  # noqa: F401  (for the attacks)

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def say(name, value=None, number=0):
    """One line of evidence. A number of 0 means that it worked."""
    known = errno.errorcode.get(number, str(number)) if number else None
    os.write(1, json.dumps({"try": name, "errno": known, "value": value}).encode() + b"\n")


def call(name, *arguments):
    """The raw system call: nothing of libc between the attack and the filter. Raises OSError."""
    given = [
        ctypes.c_ulong(each & 0xFFFFFFFFFFFFFFFF) if isinstance(each, int)
        else os.fsencode(each) if isinstance(each, str)
        else each
        for each in arguments
    ]  # fmt: skip
    result = libc.syscall(ctypes.c_long(NR[name]), *given)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def attempt(name, action, *arguments, **keywords):
    """Try it and say how it went; only what JSON can hold is said as the value."""
    try:
        value = action(*arguments, **keywords)
    except OSError as error:
        say(name, None, error.errno)
        return None
    if isinstance(value, bytes):
        say(name, value.decode("latin-1"))
    else:
        say(name, value if isinstance(value, (str, int, list, dict)) else None)
    return value


def content(path):
    """What a file holds, opened with plain O_RDONLY."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def overwrite(path):
    """Opens for writing without creating; writes one byte."""
    fd = os.open(path, os.O_WRONLY)
    try:
        return os.write(fd, b"!")
    finally:
        os.close(fd)
