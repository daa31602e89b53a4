"""The unix sockets that a cage without namespaces may connect to, held open for as long as it lives.

The C half recognises a granted socket by device and inode (csrc/host/emulate/unix.c). The kernel reuses an inode number
once its file is gone, and a cage may be able to remove the file: so it is held open here until the cage has ended.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from errno import ESTALE

from pysandbox.compile.plan import SocketGrant

PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def hold(sockets: Sequence[SocketGrant]) -> ExitStack:
    """Opens the granted sockets. Raises OSError where one is not the file any more that was looked at. Close the result
    when the cage has ended."""
    with ExitStack() as held:
        for each in sockets:
            descriptor = os.open(each.path, PLACE)
            held.callback(os.close, descriptor)
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) != (each.dev, each.ino):
                raise OSError(ESTALE, "it was replaced while the cage was being made", each.path)
        return held.pop_all()
