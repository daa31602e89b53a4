"""The doors of a cage that has no network namespace, isolation = "landlock": its connections are handed over.

Nothing listens in the host's network. The supervisor, which decides every connect of the cage, makes a connection for
each one to a door, and sends its other end here (csrc/host/emulate/door.h). So there is no port that another process
could find, and no credential that one could steal.
"""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack

from pysandbox.descriptors.sockets import socket_pair
from pysandbox.policy.endpoint import MAPPED
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan
    from pysandbox.live.init import CageInit

HANDED = "handed"  # Door.protocol
QUEUE = 1 << 14  # bytes for connections on their way, a handful: descriptors in flight are counted for the whole user


def handed_doors(live: CageInit, net: NetPlan) -> dict[tuple[str, str], socket.socket]:
    """Opens them: the sockets at which connections arrive, by kind and protocol. Raises OSError; nothing is left open
    then."""
    with ExitStack() as undo:
        doors = {}
        for door in net.doors:
            if door.protocol != HANDED:
                continue
            near, sink = socket_pair()
            undo.callback(near.close)
            with sink:
                sink.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, QUEUE)
                address = MAPPED + socket.inet_aton(door.address)
                if not live.services.open_door(address, door.port, sink.fileno()):
                    raise OSError(errno.ENOSYS, "nobody decides the connects of this cage")
            doors[door.kind, HANDED] = near
        undo.pop_all()
        return doors


def receive(door: socket.socket) -> socket.socket:
    """The next connection. Raises OSError: BlockingIOError when there is none, ConnectionResetError when none will come
    any more."""
    word, fds, _, _ = socket.recv_fds(door, 1, 1, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
    if not word:
        raise ConnectionResetError(errno.ECONNRESET, "the cage has ended")
    if not fds:
        raise OSError(errno.EMFILE, "no descriptor was left for it")
    return socket.socket(fileno=fds[0])
