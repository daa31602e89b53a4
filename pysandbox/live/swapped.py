"""What the kernel has moved from a process's own memory to swap: it is in no count of its pages.

A process may ask for that itself (MADV_PAGEOUT), and would then have as much as the host has swap. Of a host without
swap nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pysandbox.launch.proctext import sizes

AREAS = "/proc/swaps"  # a line of headings, and one for each area


def has_swap(areas: str = AREAS) -> bool:
    """True where that cannot be told."""
    try:
        with open(areas, "rb") as file:
            return file.read().count(b"\n") > 1
    except OSError:
        return True


def swapped(places: Iterable[str], read: Callable[[str], bytes], *, areas: str = AREAS) -> int:
    """Bytes, each page as often as there are processes that have it. `places`: where below /proc they are; `read`: a
    file there."""
    if not has_swap(areas):
        return 0
    return sum(sizes(read(f"{place}/status")).get(b"VmSwap", 0) for place in places)
