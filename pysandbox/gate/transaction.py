"""One transaction of nf_tables in the network namespace of this process, and the kernel's verdict on it.

By a plain socket: pyroute2 sends each rule as a transaction of its own, and a cage's wall shall be there as a whole or
not at all. What is sent is made by `netfilter.nftables`.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator

from pysandbox.errors import SandboxNetworkError

HINTS = {
    errno.EPERM: 'run as root (CAP_NET_ADMIN in this network namespace), or leave backend = "routed" out',
    errno.ENOENT: "its nf_tables lacks a part: modprobe nft_fib_netdev nft_masq nft_ct",
    errno.EXFULL: "a bridge has room for 1023 cages: name another one (network.bridge)",
}
_NETFILTER = 12  # NETLINK_NETFILTER
_HEADER, _ERRNO = struct.Struct("=IHHII"), struct.Struct("=i")  # struct nlmsghdr, and what begins struct nlmsgerr
_NLMSG_ERROR = 2


def refused(number: int, what: str | None = None) -> SandboxNetworkError:
    return SandboxNetworkError("network", number, what, HINTS.get(number))


def send(batch: bytes, what: str, *, unless: int = 0) -> bool:
    """False when it was refused with the errno `unless`; SandboxNetworkError for any other refusal."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETFILTER) as kernel:
        try:
            kernel.send(batch)
            verdicts = list(_verdicts(kernel))
        except OSError as error:
            raise refused(error.errno or errno.EIO, what) from error
    number = next(filter(None, verdicts), 0)
    if number and number == unless:
        return False
    if number or not verdicts:
        raise refused(number or errno.EPROTO, what)
    return True


def _verdicts(kernel: socket.socket) -> Iterator[int]:
    """The kernel answers before it lets the sender go on."""
    while True:
        try:
            answer = kernel.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if _HEADER.unpack_from(answer)[1] == _NLMSG_ERROR:
            yield -_ERRNO.unpack_from(answer, _HEADER.size)[0]
