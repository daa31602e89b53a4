"""Sockets of a cage's own network, which the gatekeeper serves or speaks through. What is wanted together is made in
one visit to the cage."""

from __future__ import annotations

import os
import socket
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pysandbox.launch import netns

if TYPE_CHECKING:
    from pysandbox.launch.live import LiveInit

K = TypeVar("K", bound=Hashable)


def sockets_inside(live: LiveInit, wanted: Sequence[tuple[str, str, int]]) -> list[socket.socket]:
    """Each of `wanted` is a protocol, an address and a port, as `netns.sockets_inside` takes them. Non-blocking, the
    caller's to close. Raises CageClosedError, StartError; then nothing is open."""
    pidfd = live.pin()
    try:
        made = netns.sockets_inside(pidfd, wanted)
    finally:
        os.close(pidfd)
    return list(as_sockets(dict(enumerate(made))).values())


def as_sockets(fds: Mapping[K, int]) -> dict[K, socket.socket]:
    """Raises OSError, and then all of them are closed: a socket that could not be made does not own its descriptor."""
    made: dict[K, socket.socket] = {}
    try:
        for key, fd in fds.items():
            made[key] = socket.socket(fileno=fd)
    except BaseException:
        for key, fd in fds.items():
            if key in made:
                made[key].close()
            else:
                os.close(fd)
        raise
    return made
