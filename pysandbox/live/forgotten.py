"""What its owner has forgotten is ended in a thread of its own.

A garbage collection may come at any line, also where its thread holds the lock of a sink or of the audit's file. To end
a command there is to wait for it and to record how it ended, which needs the same locks, and would wait for ever.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from contextlib import suppress


def end_forgotten(close: Callable[[], object]) -> None:
    """From a `__del__`. Where the interpreter starts no further thread, it is done here. Raises nothing."""
    try:
        _thread.start_new_thread(_quietly, (close,))  # `threading` has a lock of its own, which may be the one held
    except RuntimeError:
        _quietly(close)


def _quietly(close: Callable[[], object]) -> None:
    with suppress(Exception):
        close()
