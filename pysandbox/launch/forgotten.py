"""What its owner has forgotten is ended in a thread of its own.

A garbage collection may come at any line, also where its thread holds the lock of a sink or of the audit's file. To end
a command there is to wait for it and to record how it ended, which needs the same locks, and would wait for ever. So
nothing here has a lock either: what is under way is a list, which the interpreter changes in one piece.

What is forgotten later than that, as the interpreter ends, is the kernel's to end: a thread which starts when the
interpreter has waited for all of them may find it gone, and crashes the process (CPython 3.11).
"""

from __future__ import annotations

import _thread
import atexit
import os
import time
from collections.abc import Callable
from contextlib import suppress

PATIENCE = 5.0  # seconds, as for the last report of a command
LOOK = 0.002
_under_way: list[Callable[[], object]] = []
_waits = _is_late = False
os.register_at_fork(after_in_child=_under_way.clear)  # their threads are the original's


def end_forgotten(close: Callable[[], object]) -> None:
    """From a `__del__`. Where the interpreter starts no further thread, it is done here. Raises nothing. The end of the
    interpreter waits for it."""
    global _waits
    if _is_late:
        return
    if not _waits:
        _waits = True
        atexit.register(wait_for_forgotten)
    _under_way.append(close)
    try:
        _thread.start_new_thread(_end, (close,))  # `threading` has a lock of its own, which may be the one held
    except RuntimeError:
        _end(close)


def _end(close: Callable[[], object]) -> None:
    with suppress(Exception):
        close()
    with suppress(ValueError):  # in a forked copy
        _under_way.remove(close)


def wait_for_forgotten() -> None:
    """Until what was forgotten so far has been ended and recorded, or PATIENCE is over. Not for a `close` of theirs."""
    left, until = list(_under_way), time.monotonic() + PATIENCE
    while any(each in _under_way for each in left) and time.monotonic() < until:
        time.sleep(LOOK)


def _come_late() -> None:
    """Registered first, so that it is the last of what this package does at the end."""
    global _is_late
    wait_for_forgotten()
    _is_late = True


atexit.register(_come_late)
