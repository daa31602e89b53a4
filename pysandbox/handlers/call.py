"""A `Call`: one intercepted system call, with copies of all that a decision may rest on. Plain frozen data."""

from __future__ import annotations

from pysandbox.shapes import dataclass

NETWORK = frozenset({"CONNECT", "BIND", "LISTEN", "SENDTO", "SENDMSG"})


@dataclass(frozen=True, slots=True)
class Call:
    """`kind` is a call class of csrc/host/notify/notify.h without PSB_CALL_; `syscall` the name of the call itself.

    `address` is the struct sockaddr that was read, and that will be used if the call is done; `protocol` is the
    socket's (IPPROTO_*), 0 where there is none. `argv` (with `path` before it, as execve has them) and `path` are
    copies too, and what runs is held against them. `pid` is the calling thread as the host sees it.
    """

    kind: str
    syscall: str
    pid: int
    domain: int = 0
    protocol: int = 0
    address: bytes = b""
    path: str = ""
    argv: tuple[str, ...] = ()
    flags: int = 0  # of an open
    mode: int = 0
    marks: frozenset[int] = frozenset()  # of Rules.by_mark, whose lists bind it
