"""Sockets of a cage's own network, which the gatekeeper serves or speaks through. What is wanted together is made in
one visit to the cage."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pysandbox.launch import netns

if TYPE_CHECKING:
    from pysandbox.launch.live import LiveInit


def sockets_inside(live: LiveInit, wanted: Sequence[tuple[str, str, int]]) -> list[socket.socket]:
    """Each of `wanted` is a protocol, an address and a port, as `netns.sockets_inside` takes them. Non-blocking, the
    caller's to close. Raises CageClosedError, StartError; then nothing is open."""
    pidfd = live.pin()
    try:
        return [socket.socket(fileno=fd) for fd in netns.sockets_inside(pidfd, wanted)]
    finally:
        os.close(pidfd)
