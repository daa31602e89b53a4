"""The sockets that the processes of a cage have open, for a cage without a network namespace, which would count them.

Each counts once, however many have it open. A table of descriptors that threads share is read once: two tables of as
many descriptors are taken for one where a descriptor chosen at random is the same in both. It is another one at every
look, so what differs much is found at once, and what differs little counts little. What may not be looked into counts
in full. Not seen are sockets on their way through another one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from contextlib import suppress

from pysandbox.launch.proctext import GONE, names_below

FEW = 512  # descriptors of all threads together, below which nothing is looked at


def count_open_sockets(proc: int, pids: Iterable[str], enough: int) -> int:
    """How many, or some number above `enough`. `proc`: an open /proc. Raises OSError."""
    threads = (f"{pid}/task/{each}/fd" for pid in pids for each in names_below(proc, f"{pid}/task") or ())
    tables = [(place, _size(proc, place)) for place in threads]
    sockets: set[str] = set()
    last: dict[str, str] = {}  # the table that was read last: most often it is the next thread's, too
    hidden = 0
    for place, size in tables if sum(size for _, size in tables) > FEW else ():
        probe = random.choice([*last]) if last and len(last) == size else ""
        if probe and _led_to(proc, place, probe) == last[probe]:
            continue
        names = names_below(proc, place)
        hidden += size if names is None else 0
        last = {name: _led_to(proc, place, name) for name in names or ()}
        sockets.update(to for to in last.values() if to.startswith("socket:"))
        if len(sockets) + hidden > enough:
            break
    return len(sockets) + hidden


def _size(proc: int, place: str) -> int:
    """How many descriptors; 0 when it is gone, and before Linux 6.2."""
    try:
        return os.stat(place, dir_fd=proc).st_size
    except OSError as error:
        if error.errno in GONE:
            return 0
        raise


def _led_to(proc: int, place: str, name: str) -> str:
    with suppress(OSError):  # closed meanwhile
        return os.readlink(f"{place}/{name}", dir_fd=proc)
    return ""
