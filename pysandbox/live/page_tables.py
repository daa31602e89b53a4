"""What the kernel keeps to find the pages of a process: memory of the cage that is in no count of its pages.

A page that is only read is the kernel's one page of zeros and counts nothing, yet 4 KiB of page tables lead to it; one
byte read in every 2 MiB of reserved address space takes as much memory as the kernel has. The tables of a process are
never more than a 512th of its address space, so they are looked at where that could matter for the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pysandbox.launch.proctext import sizes

SHARE = 512  # of the address space, for a table of the lowest level; those above are a 512th of that again
FEW = 1 << 16  # bytes of tables that a process has whatever it does
UNSEEN = 16  # the part of the limit that may be missed


def page_tables(spaces: Mapping[str, int], limit: int, read: Callable[[str], bytes]) -> int:
    """Bytes. `spaces`: where below /proc a process is, and the size of its address space; `read`: a file there."""
    if sum(spaces.values()) // SHARE <= limit // UNSEEN:
        return 0
    large = (place for place, size in spaces.items() if size // SHARE > FEW)
    return sum(sizes(read(f"{place}/status")).get(b"VmPTE", 0) for place in large)
