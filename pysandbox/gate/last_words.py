"""The last words of a process of ours that confines itself: where it failed, in a pipe that is read when it has ended.

It says the places and the class of the exception, and nothing of what it worked on: its messages may have a stranger's
bytes in them, or a secret. Whoever has taken it over may write anything there; so what is told of it is one line of
bounded length, in which everything is spelled out that a terminal or a log would take for its own.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import TracebackType

MOST = 1000  # bytes that are told: the last
MOST_PLACES = 8  # the innermost
PIPE = 1 << 16  # bytes: no more is read, however fast somebody writes


class LastWords:
    """The host's end; and the other's until it has begun."""

    def __init__(self) -> None:
        """Raises OSError."""
        self._near, self.other = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def begun(self) -> None:
        """The process has its own copy."""
        other, self.other = self.other, -1
        if other >= 0:
            os.close(other)

    def said(self) -> str:
        """What it has said until now, to stand behind how it ended; "" for nothing. Once."""
        said = b""
        with suppress(OSError):  # there is no more for now
            while len(said) < PIPE and (more := os.read(self._near, PIPE - len(said))):
                said += more
        lines = said[-MOST:].decode("ascii", "backslashreplace").split("\n")
        shown = "; ".join("".join(map(_spelled, line)) for line in lines if line)
        return f": {shown}" if shown else ""

    def close(self) -> None:
        """Idempotent."""
        self.begun()
        near, self._near = self._near, -1
        if near >= 0:
            os.close(near)


def _spelled(letter: str) -> str:
    return letter if letter.isprintable() else f"\\x{ord(letter):02x}"


# ---- in the process -------------------------------------------------------------------------------------------------


def say_last_words() -> None:
    """From now on this process says where it fails, and nothing else: no warning, no message."""
    sys.stderr = None
    sys.excepthook = tell_where


def tell_where(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    places: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}\n")
        trace = trace.tb_next
    said = "".join(places[-MOST_PLACES:]) + f"{kind.__name__}\n"
    with suppress(OSError):  # nobody listens
        os.write(2, said.encode("ascii", "backslashreplace")[-MOST:])
