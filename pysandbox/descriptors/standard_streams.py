"""The descriptors 0, 1 and 2, where a program has closed one. Cheap to import.

The next descriptor that anybody opens gets the lowest number that is free. One of ours that came to stand there would
be taken for a standard stream, and handed to a command: the socket to a cage-init, or the listener of a supervisor. So
they are filled, here and before a cage is started (`standard_streams.c`), and what is no standard stream is not handed
on.
"""

from __future__ import annotations

import os


def fill() -> None:
    """Opens the null device in place of each that is closed."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            if opened > fd:  # another thread was faster
                os.close(opened)


def is_inherited(fd: int) -> bool:
    """Whether a child of this process would have it: it is open, and not closed by an exec (FD_CLOEXEC, fcntl(2)), as
    all is that we open, and that Python opens."""
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False
