"""The unix sockets that a cage without namespaces may connect to, held open for as long as it lives.

The C half knows a granted socket by device and inode (csrc/host/behalf_unix.c). A number is given to another file once
its own is gone, and a cage may be able to remove it: so the file is kept, here, until the cage has ended.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from errno import ESTALE

from pysandbox.compile.plan import SocketGrant

PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def hold(sockets: Sequence[SocketGrant]) -> ExitStack:
    """Raises OSError where one is not the file any more that was looked at. Close it when the cage has ended."""
    with ExitStack() as held:
        for each in sockets:
            descriptor = os.open(each.path, PLACE)
            held.callback(os.close, descriptor)
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) != (each.dev, each.ino):
                raise OSError(ESTALE, "it was replaced while the cage was being made", each.path)
        return held.pop_all()
