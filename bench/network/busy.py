"""What it costs a connection that the host program's own Python is busy: it holds the interpreter's lock.

What it is compared with is the same loop in another process, which takes as much of the machine, and holds nothing.
"""

from __future__ import annotations

import multiprocessing
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BAR = 1.3


def spin(over: threading.Event) -> None:
    while not over.is_set():
        for _ in range(1000):
            pass


@contextmanager
def busy(*, here: bool) -> Iterator[None]:
    """A loop of Python runs meanwhile, in this process or in another one."""
    context = multiprocessing.get_context("spawn")
    over = threading.Event() if here else context.Event()
    made = threading.Thread if here else context.Process
    spinning = made(target=spin, args=(over,), daemon=True)
    spinning.start()
    try:
        yield
    finally:
        over.set()
        spinning.join()


def busy_rows(label: str, sample: Callable[[], list[int]], rounds: int, tell: Callable[[str, str], None]) -> None:
    """`sample` gives nanoseconds."""
    kept: dict[bool, list[int]] = {False: [], True: []}
    for _ in range(rounds):
        for here, times in kept.items():
            with busy(here=here):
                times += sample()
    idle, held = (statistics.median(kept[here]) for here in (False, True))
    ratio = held / idle
    tell(label, f"{idle / 1e3:12.1f} {held / 1e3:12.1f} {ratio:7.2f}  <= {BAR:g} {'ok' if ratio <= BAR else 'MISSED'}")
