"""Put in front of every Python attack by `harness.program`: how an attack calls the kernel and says what came back.

Runs inside the cage under `python3 -I -S`, so it may use the standard library only. `NR` (system call name to
number) and the attack's own names are defined above this text.

Only the kernel refuses: what counts is an errno of its own. An attack that never came so far (a path that is too long
for Python, a name that cannot be encoded, a slip of the attack's) has shown nothing. It says so by a line that no test
can read as evidence (`harness.read_report`).
"""

# ruff: noqa: F821
# mypy: ignore-errors
import ctypes
import errno
import json
import os
import signal  # noqa: F401  (for the attacks)
import sys
import threading
import traceback

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
SILENCE = "silence"  # nobody answered for as long as the attack would wait: neither done nor refused


def tell(**line):
    os.write(1, json.dumps(line).encode() + b"\n")


def broke_off(*error):
    """An exception that nobody takes, in any thread and in any child: no test may pass."""
    try:
        tell(**{"try": "", "broke": "".join(traceback.format_exception(*error))})
    except OSError:
        pass
    sys.__excepthook__(*error)


sys.excepthook = broke_off
threading.excepthook = lambda args: broke_off(*args[:3])


def say(name, value=None, number=0):
    """One line of evidence. A number of 0 means that it worked."""
    known = errno.errorcode.get(number, str(number)) if number else None
    tell(**{"try": name, "errno": known, "value": value})


def word_of(error):
    """What the kernel said by this error: the name of its errno, or that nobody answered. Raises what it is given
    where neither is so: Python or libc gave up before."""
    if isinstance(error, TimeoutError) and error.errno is None:
        return SILENCE
    if error.errno not in errno.errorcode:
        raise error
    return errno.errorcode[error.errno]


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
    """Try it and say how it went; only what JSON can hold is said as the value. Raises what no kernel said."""
    try:
        value = action(*arguments, **keywords)
    except OSError as error:
        tell(**{"try": name, "errno": word_of(error), "value": None})
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
