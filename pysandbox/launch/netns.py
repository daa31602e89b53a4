"""What the host makes in the network namespace of a running cage: sockets, doors, settings (csrc/host/net/netns.c)."""

from __future__ import annotations

import os
from _socket import AF_INET, AF_INET6, inet_pton

from pysandbox._native import ffi, lib
from pysandbox.launch import native
from pysandbox.shapes import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pysandbox.compile.plan import Door, NetPlan

BACKLOG = 256  # connections that wait at a listener; a cage that makes more is its own loss
_TYPES = {"tcp": 1, "udp": 2, "raw": 3, "syn": 3}  # SOCK_STREAM, SOCK_DGRAM, SOCK_RAW
_MONITORED = {"raw": 17, "syn": 6}  # IPPROTO_UDP, IPPROTO_TCP


class DescribedSocket(NamedTuple):
    """What struct psb_socket says of one."""

    name: str
    family: int
    type: int
    address: bytes
    port: int
    backlog: int


def described_socket(protocol: str, address: str, port: int) -> DescribedSocket:
    family = AF_INET6 if ":" in address else AF_INET
    return DescribedSocket(
        f"{address}:{port}/{protocol}", family, _TYPES[protocol], inet_pton(family, address),
        _MONITORED.get(protocol, port), BACKLOG if protocol == "tcp" and port else 0,
    )  # fmt: skip


def sockets_inside(
    pidfd: int, wanted: Sequence[tuple[str, str, int]], *, routes: bytes = b"", redirect: bytes = b""
) -> list[int]:
    """Sockets in the network namespace of the cage whose init has this pidfd: close-on-exec, non-blocking, the caller's
    to close. Each of `wanted` is a protocol ("tcp" listens), an address and a port; with port 0 it is neither bound nor
    listening, and the address only says of which family it is. "raw" hears datagrams that go elsewhere, "syn" TCP that
    arrives at the address; both are -1 where the host refuses such sockets. `routes` and `redirect` are netlink
    messages, sent there first. Raises StartError; then nothing is open."""
    described = [described_socket(*each) for each in wanted]
    held = [(ffi.new("char[]", each.name.encode())) for each in described]
    sockets = ffi.new("struct psb_socket[]", len(wanted) or 1)
    for socket, name, each in zip(sockets, held, described, strict=False):
        socket.name, socket.family, socket.type = name, each.family, each.type
        socket.port, socket.backlog = each.port, each.backlog
        ffi.memmove(socket.address, each.address, len(each.address))
    messages = [ffi.from_buffer(routes), ffi.from_buffer(redirect)]
    inside = ffi.new("struct psb_inside *", {
        "routes": messages[0], "routes_size": len(routes), "redirect": messages[1], "redirect_size": len(redirect),
        "sockets": sockets, "n_sockets": len(wanted),
    })  # fmt: skip
    if lib.psb_inside(pidfd, inside):
        raise native.start_error(inside.error)
    return [socket.fd for socket in sockets[0 : len(wanted)]]


def setting_inside(pidfd: int, path: str, value: str) -> None:
    """Writes a setting below /proc/sys/net in the network namespace of that cage. Raises OSError."""
    result = lib.psb_setting_inside(pidfd, path.encode(), value.encode())
    if result < 0:
        raise OSError(-result, os.strerror(-result), path)


def open_doors(pidfd: int, net: NetPlan) -> dict[tuple[str, str], int]:
    """The doors in a cage's namespace by kind and protocol, once its namespace leads to them. Raises StartError."""
    inside = doors_inside(net)
    if not inside:
        return {}
    wanted = [(door.protocol, door.address, door.port) for door in inside]
    fds = sockets_inside(pidfd, wanted, routes=net.routes, redirect=net.redirect)
    return {(door.kind, door.protocol): fd for door, fd in zip(inside, fds, strict=True) if fd >= 0}


def doors_inside(net: NetPlan) -> list[Door]:
    """The doors that are sockets in the cage's namespace."""
    return [door for door in net.doors if door.protocol != "handed"]
