"""Between the extension's structs and Python: the calls of csrc/host/notify.h, and a `Call` from what was told.

Nothing else of `supervise` imports the extension.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from pysandbox._native import ffi, lib
from pysandbox.compile.syscalls import names, table
from pysandbox.handlers.call import Call
from pysandbox.handlers.shebang import Image
from pysandbox.policy.endpoint import Endpoint

if TYPE_CHECKING:
    from pysandbox.compile.plan import SocketGrant

KINDS = tuple(
    name.removeprefix("PSB_CALL_")
    for name in ("PSB_CALL_CONNECT", "PSB_CALL_BIND", "PSB_CALL_LISTEN", "PSB_CALL_SENDTO", "PSB_CALL_SENDMSG",
                 "PSB_CALL_EXEC", "PSB_CALL_OPEN", "PSB_CALL_OTHER", "PSB_CALL_NEVER")
)  # fmt: skip
assert tuple(getattr(lib, f"PSB_CALL_{name}") for name in KINDS) == tuple(range(len(KINDS)))

ASKED, PASSED, REFUSED, LATE = lib.PSB_TOLD_ASKED, lib.PSB_TOLD_PASSED, lib.PSB_TOLD_REFUSED, lib.PSB_TOLD_LATE
STRANDED = lib.PSB_TOLD_STRANDED
MOST_DENIALS = 64  # kinds of them that the C half tells apart for each cage
MACHINE = os.uname().machine
_KEPT: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # what a struct points to lives as long as the struct


def new_notifier() -> Any:
    """`free` it after the loop and every `next_told` have returned. Raises OSError."""
    made = lib.psb_notifier_new()
    if made == ffi.NULL:
        raise OSError(errno.ENOMEM, "no memory or descriptors for a supervisor")
    return made


def run(notifier: Any) -> str:
    """The loop; "" after `stop`, else why it ended."""
    result = lib.psb_notifier_run(notifier)
    return "" if result == 0 else os.strerror(-result)


def stop(notifier: Any) -> None:
    lib.psb_notifier_stop(notifier)


def free(notifier: Any) -> None:
    lib.psb_notifier_free(notifier)


def add(notifier: Any, listener: int, rules: Any) -> int:
    number = lib.psb_notifier_add(notifier, listener, rules)
    if number < 0:
        raise OSError(-number, os.strerror(-number))
    return int(number)


def replace_rules(notifier: Any, number: int, rules: Any) -> None:
    """The cage may have ended meanwhile, which is no error. Raises OSError."""
    result = lib.psb_notifier_rule(notifier, number, rules)
    if result < 0 and result != -errno.ENOENT:
        raise OSError(-result, os.strerror(-result))


def encode_rules(
    actions: Mapping[str, str],
    endpoints: Sequence[Endpoint],
    *,
    init_pid: int,
    deadline: float,
    sealed: bool,
    abstract: bool,
    refuse_control: bool,
    grants: Sequence[Endpoint] | None = None,
    named: Sequence[Endpoint] = (),
    own: Sequence[Endpoint] = (),
    walled: bool = False,
    on_host: bool = False,
    keeps_ports: bool = False,
    sockets: Sequence[SocketGrant] = (),
    verdicts: bytes = b"",
    user: int = 0,
) -> Any:
    """A struct psb_rules, and what it points to. Classes and actions are named as in csrc/host/notify.h. `grants`: None
    for a cage that is given no socket of the host's network; `own`: those of them that may be this host's addresses."""
    rules = ffi.new("struct psb_rules *")
    ways = (
        (lib.PSB_WAY_LOCAL, endpoints),
        (lib.PSB_WAY_GRANT, grants or ()),
        (lib.PSB_WAY_NAMED, named),
        (lib.PSB_WAY_OWN, own),
    )
    entries = [(way, endpoint) for way, listed in ways for endpoint in listed]
    table = ffi.new("struct psb_endpoint[]", max(1, len(entries)))
    files = ffi.new("struct psb_granted[]", [(each.dev, each.ino) for each in sockets])
    for name, action in actions.items():
        rules.action[getattr(lib, f"PSB_CALL_{name}")] = getattr(lib, f"PSB_ACTION_{action}")
    for place, (way, endpoint) in enumerate(entries):
        table[place].ways = way
        table[place].address = endpoint.address
        table[place].prefix, table[place].protocols = endpoint.prefix, endpoint.protocols
        table[place].first_port, table[place].last_port = endpoint.first_port, endpoint.last_port
    rules.sealed, rules.abstract, rules.refuse_control = sealed, abstract, refuse_control
    rules.walled, rules.grants = walled, grants is not None
    rules.user = user
    rules.init_pid, rules.deadline_ms = init_pid, max(1, round(deadline * 1000))
    rules.on_host, rules.keeps_ports = on_host, keeps_ports
    rules.endpoints, rules.n_endpoints = table, len(entries)
    rules.sockets, rules.n_sockets = files, len(sockets)
    program = ffi.from_buffer("uint8_t[]", verdicts)
    rules.verdicts, rules.verdicts_size = program, len(verdicts)
    _KEPT[rules] = table, files, program
    return rules


def grant_address(notifier: Any, number: int, synthetic: bytes, real: bytes, ports: tuple[int, int], ms: int) -> None:
    """The cage may have ended meanwhile, which is no error. Raises OSError."""
    result = lib.psb_grant_address(notifier, number, synthetic, real, *ports, ms)
    if result < 0 and result != -errno.ENOENT:
        raise OSError(-result, os.strerror(-result))


def remove(notifier: Any, number: int) -> None:
    lib.psb_notifier_remove(notifier, number)


def new_told() -> Any:
    return ffi.new("struct psb_told *")


def next_told(notifier: Any, told: Any) -> bool:
    return bool(lib.psb_notifier_next(notifier, told))


def answer(notifier: Any, ticket: int, kind: str, value: int = 0, flags: int = 0) -> bool:
    """False when the call does not wait any more. Raises OSError for an answer that it cannot have."""
    result = lib.psb_answer(notifier, ticket, getattr(lib, f"PSB_ANSWER_{kind}"), value, flags)
    if result < 0 and result != -errno.ENOENT:
        raise OSError(-result, os.strerror(-result))
    return bool(result == 0)


def execute(notifier: Any, ticket: int, expected: bytes, image: Image) -> int:
    """Lets an execve go on whose path and arguments are still `expected`, and sees to it that it becomes the image. 0,
    or ENOENT (it does not wait any more), EPERM (they were changed), EACCES (it cannot be traced): it runs nothing."""
    texts = [ffi.from_buffer("char[]", text) for text in (image.name + b"\0", image.arguments, image.script)]
    wanted = ffi.new("struct psb_image *", {"device": image.device, "inode": image.inode})
    wanted.program_device, wanted.program_inode = image.program_device, image.program_inode
    wanted.name, wanted.arguments, wanted.arguments_size = texts[0], texts[1], len(image.arguments)
    if image.script:
        wanted.script, wanted.script_size = texts[2], len(image.script)
    return -int(lib.psb_answer_exec(notifier, ticket, expected, len(expected), wanted))


def last_told(notifier: Any, number: int) -> int:
    """The serial of what was told last of a cage; 0 when it is gone."""
    return max(0, int(lib.psb_last_told(notifier, number)))


def waits(notifier: Any, ticket: int) -> bool:
    return bool(lib.psb_waits(notifier, ticket))


def read_exec(pid: int, number: int, args: Any) -> bytes:
    """Path and arguments of an execve as the caller's memory has them now, each ended by NUL. Raises OSError."""
    room = 1 << 12  # most are shorter; a larger buffer has to be cleared first
    while True:
        text = ffi.new("char[]", room)
        size = lib.psb_read_exec(pid, number, args, text, room)
        if size == -errno.E2BIG and room < MOST_ARGUMENTS:
            room <<= 3
            continue
        if size < 0:
            raise OSError(-size, os.strerror(-size))
        return bytes(ffi.buffer(text, size))


def digest(text: bytes) -> int:
    """Of a path as it was written, the same that the C half tells (csrc/host/program.c)."""
    total = 0xCBF29CE484222325
    for byte in text:
        total = (total ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return total


MOST_ARGUMENTS = 1 << 22  # bytes; the kernel's own limit is a quarter of the stack, 2 MiB as a rule


class Refusals(NamedTuple):
    """What the C half has refused: each kind of call with its count; and by class how many there was no room for."""

    calls: list[tuple[Call, int]]
    lost: Mapping[str, int]


def denials(notifier: Any, number: int) -> Refusals | None:
    """None when the cage is gone."""
    table = ffi.new("struct psb_denial[]", MOST_DENIALS)
    lost = ffi.new("uint64_t[]", len(KINDS))
    count = lib.psb_denials(notifier, number, table, MOST_DENIALS, lost)
    if count < 0:
        return None
    calls = [(call_of(table[place]), int(table[place].count)) for place in range(count)]
    return Refusals(calls, {name: int(each) for name, each in zip(KINDS, lost, strict=True) if each})


def call_of(told: Any) -> Call:
    """The Call in a struct psb_told or psb_denial."""
    return Call(
        kind=KINDS[told.call],
        syscall=names(MACHINE).get(told.number, str(told.number)),
        pid=told.pid,
        domain=getattr(told, "domain", 0),
        protocol=told.protocol,
        address=bytes(ffi.buffer(told.address, told.address_size)),
    )


def text_of(told: Any) -> str:
    return os.fsdecode(bytes(ffi.buffer(told.text, told.text_size)))


def get_fd(pid: int, fd: int) -> int:
    """A duplicate of another process's descriptor, close-on-exec. Raises OSError."""
    taken = lib.psb_get_fd(pid, fd)
    if taken < 0:
        raise OSError(-taken, os.strerror(-taken))
    return int(taken)


def cut_socket(fd: int) -> None:
    """Ends the connection of an IP socket, and drops what it has not sent yet. Raises OSError."""
    result = lib.psb_cut_socket(fd)
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def close_borrowed(fd: int) -> None:
    """Closes a caged process's descriptor, and does not wait for what that process has set (SO_LINGER)."""
    lib.psb_close_borrowed(fd)


def number_of(syscall: str) -> int:
    return table(MACHINE).numbers[syscall]


def read_text(pid: int, address: int, room: int) -> bytes:
    """A NUL-terminated text of another process's. Raises OSError (EFAULT, ENAMETOOLONG)."""
    text = ffi.new("char[]", room)
    size = lib.psb_read_text(pid, address, text, room)
    if size < 0:
        raise OSError(-size, os.strerror(-size))
    return bytes(ffi.buffer(text, size))
