"""Sockets in a cage's own network namespace, which the gatekeeper listens at or connects with. Those that are wanted
together are made by one child that enters the namespace."""

from __future__ import annotations

import os
import socket
from collections.abc import Hashable, Mapping, Sequence

from pysandbox.launch import netns
from pysandbox.shapes import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pysandbox.live.init import CageInit

K = TypeVar("K", bound=Hashable)


def netns_sockets(live: CageInit, wanted: Sequence[tuple[str, str, int]]) -> list[socket.socket]:
    """Each of `wanted` is a protocol, an address and a port, as `netns.sockets_inside` takes them. Non-blocking, the
    caller's to close. Raises CageClosedError, StartError; then nothing is open."""
    pidfd = live.pin()
    try:
        made = netns.sockets_inside(pidfd, wanted)
    finally:
        os.close(pidfd)
    return list(as_sockets(dict(enumerate(made))).values())


def as_sockets(fds: Mapping[K, int]) -> dict[K, socket.socket]:
    """Makes socket objects of the descriptors, that do not block: asyncio's debug mode asks the object. Raises OSError,
    and then all descriptors are closed."""
    made: dict[K, socket.socket] = {}
    try:
        for key, fd in fds.items():
            made[key] = socket.socket(fileno=fd)
            made[key].setblocking(False)
    except BaseException:
        for key, fd in fds.items():
            if key in made:
                made[key].close()
            else:
                os.close(fd)
        raise
    return made
