"""Sockets that another process has as well, or will.

Whether a socket blocks is kept with the socket, not with the descriptor (O_NONBLOCK, fcntl(2)), and a program may have
said that none of its own does: `socket.setdefaulttimeout`, gevent. Python then changes each socket that it makes, and
each that it makes an object of. What others wait in is therefore made here.
"""

from __future__ import annotations

import os
import socket


class OwnedSocket(socket.socket):
    """Closed without a word where its owner was forgotten, also by the end of the interpreter: a ResourceWarning would
    name what no program has made, or could close."""

    def __del__(self) -> None:
        self.close()


def socket_pair(kind: int = socket.SOCK_SEQPACKET) -> tuple[socket.socket, socket.socket]:
    """A socketpair(2): ours, and the end for another process. Both wait. Raises OSError."""
    ours, theirs = (_owned(each) for each in socket.socketpair(socket.AF_UNIX, kind))
    ours.settimeout(None)
    os.set_blocking(theirs.fileno(), True)
    return ours, theirs


def _owned(made: socket.socket) -> socket.socket:
    return OwnedSocket(made.family, made.type, made.proto, made.detach())


def shared_socket(fd: int) -> socket.socket:
    """An object of a descriptor whose socket others use: it blocks or does not as before. The descriptor is the
    object's from now on. Raises OSError for what is no socket."""
    blocks = os.get_blocking(fd)
    made = socket.socket(fileno=fd)
    os.set_blocking(fd, blocks)
    return made
