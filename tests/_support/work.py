"""How much an interpreter does, as a number that no other program changes: the bytecodes that it executes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def bytecodes(act: Callable[[], object]) -> int:
    """How many of Python code `act` runs in this thread."""
    done = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal done
        frame.f_trace_opcodes = True
        done += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return done


def growth(act: Callable[[int], object], size: int) -> float:
    """How many times as much is done for twice as much: 2 where the work is in proportion, 4 where each looks at all
    others."""
    act(size)  # whatever is read or compiled once
    return bytecodes(lambda: act(2 * size)) / bytecodes(lambda: act(size))
