"""Between the extension's structs and Python: the calls of csrc/host/notify/notify.h, and a `Call` from what was told.

Nothing else of `supervise` imports the extension.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence

from pysandbox._native import ffi, lib
from pysandbox.compile.syscalls import names, table
from pysandbox.handlers.call import Call
from pysandbox.handlers.network_rules import NetworkRules
from pysandbox.handlers.shebang import Image
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple, NewType, Protocol
from pysandbox.supervise.missed import Missed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysandbox.compile.plan import SocketGrant

KINDS = tuple(
    name.removeprefix("PSB_CALL_")
    for name in ("PSB_CALL_CONNECT", "PSB_CALL_BIND", "PSB_CALL_LISTEN", "PSB_CALL_SENDTO", "PSB_CALL_SENDMSG",
                 "PSB_CALL_EXEC", "PSB_CALL_OPEN", "PSB_CALL_OTHER", "PSB_CALL_NEVER", "PSB_CALL_PATH",
                 "PSB_CALL_RENAME")
)  # fmt: skip
if [getattr(lib, f"PSB_CALL_{name}") for name in KINDS] != list(range(lib.PSB_CALL_CLASSES)):
    raise ImportError("the extension knows other classes of calls than pysandbox: install pysandbox again")

ASKED, PASSED, REFUSED, LATE = lib.PSB_EVENT_ASKED, lib.PSB_EVENT_PASSED, lib.PSB_EVENT_REFUSED, lib.PSB_EVENT_LATE
NOT_REPLACEABLE, MISSED = lib.PSB_EVENT_NOT_REPLACEABLE, lib.PSB_EVENT_MISSED
MOST_DENIALS = 64  # kinds of them that the C half tells apart for each cage
MACHINE = os.uname().machine


Notifier = NewType("Notifier", object)  # struct psb_notifier *


class EncodedRules(NamedTuple):
    """A struct psb_rules *, and what it points to: that is freed with this value, not before."""

    struct: Any
    pointed_to: tuple[Any, ...]

    def of_cage(self, init_pid: int, user: int) -> EncodedRules:
        """A copy of the rules for another cage."""
        struct = ffi.new("struct psb_rules *", self.struct[0])
        struct.init_pid, struct.user = init_pid, user
        return EncodedRules(struct, self.pointed_to)


class Answered(Protocol):
    """The fields that psb_event and psb_denial have in common."""

    call: int
    number: int
    pid: int
    protocol: int
    address: object
    address_size: int
    session: int


class ReportedCall(Answered, Protocol):
    """struct psb_event (csrc/host/notify/notify.h)."""

    cage: int
    kind: int
    serial: int
    pending: int
    asked: int
    args: Sequence[int]
    wanted: int
    refusal: int
    directory: int
    text: object
    text_size: int


def new_notifier() -> Notifier:
    """Makes a notifier. `free` it after the loop and every `next_event` have returned. Raises OSError."""
    made = lib.psb_notifier_new()
    if made == ffi.NULL:
        raise OSError(errno.ENOMEM, "no memory or descriptors for a supervisor")
    return Notifier(made)


def run(notifier: Notifier) -> str:
    """Runs the loop; returns "" after `stop`, else why it ended."""
    result = lib.psb_notifier_run(notifier)
    return "" if result == 0 else os.strerror(-result)


def stop(notifier: Notifier) -> None:
    lib.psb_notifier_stop(notifier)


def free(notifier: Notifier) -> None:
    lib.psb_notifier_free(notifier)


def add(notifier: Notifier, listener: int, rules: EncodedRules) -> int:
    number = lib.psb_notifier_add(notifier, listener, rules.struct)
    if number < 0:
        raise OSError(-number, os.strerror(-number))
    return int(number)


def replace_rules(notifier: Notifier, number: int, rules: EncodedRules) -> None:
    """The cage may have ended meanwhile, which is no error. Raises OSError."""
    result = lib.psb_notifier_rule(notifier, number, rules.struct)
    if result < 0 and result != -errno.ENOENT:
        raise OSError(-result, os.strerror(-result))


def encode_rules(
    actions: Mapping[str, str],
    network: NetworkRules,
    *,
    init_pid: int,
    deadline: float,
    no_external_reach: bool,
    abstract: bool,
    refuse_control: bool,
    leads_out: bool = False,
    landlock_denies_bind: bool = False,
    on_host: bool = False,
    keeps_ports: bool = False,
    doors: bool = False,
    sockets: Sequence[SocketGrant] = (),
    verdicts: bytes = b"",
    watches_paths: bool = False,
    moves: bool = False,
    user: int = 0,
) -> EncodedRules:
    """A struct psb_rules, and what it points to. Classes and actions are named as in csrc/host/notify/notify.h.
    `leads_out`: the cage may be given sockets of the host's network."""
    rules = ffi.new("struct psb_rules *")
    table, count = _encode_network(network)
    files = ffi.new("struct psb_granted[]", [(each.dev, each.ino) for each in sockets])
    for name, action in actions.items():
        rules.action[getattr(lib, f"PSB_CALL_{name}")] = getattr(lib, f"PSB_ACTION_{action}")
    rules.no_external_reach, rules.abstract, rules.refuse_control = no_external_reach, abstract, refuse_control
    rules.landlock_denies_bind, rules.grants = landlock_denies_bind, leads_out
    rules.user, rules.watches_paths, rules.moves = user, watches_paths, moves
    rules.init_pid, rules.deadline_ms = init_pid, max(1, round(deadline * 1000))
    rules.on_host, rules.keeps_ports, rules.doors = on_host, keeps_ports, doors
    rules.endpoints, rules.n_endpoints = table, count
    rules.sockets, rules.n_sockets = files, len(sockets)
    program = ffi.from_buffer("uint8_t[]", verdicts)
    rules.verdicts, rules.verdicts_size = program, len(verdicts)
    return EncodedRules(rules, (table, files, program))


def _encode_network(network: NetworkRules) -> tuple[Any, int]:
    """Every list of the value as one table, whose entries say which list they are of."""
    lists = (
        (lib.PSB_REACH_LOCAL, network.local), (lib.PSB_REACH_GRANT, network.grants),
        (lib.PSB_REACH_NAMED, network.named), (lib.PSB_REACH_OWN, network.own),
    )  # fmt: skip
    entries = [(reach, endpoint) for reach, listed in lists for endpoint in listed]
    table = ffi.new("struct psb_endpoint[]", max(1, len(entries)))
    for place, (reach, endpoint) in enumerate(entries):
        table[place].reach = reach
        table[place].address = endpoint.address
        table[place].prefix, table[place].protocols = endpoint.prefix, endpoint.protocols
        table[place].first_port, table[place].last_port = endpoint.first_port, endpoint.last_port
    return table, len(entries)


def grant_address(
    notifier: Notifier, number: int, synthetic: bytes, real: bytes, ports: tuple[int, int], ms: int
) -> None:
    """The cage may have ended meanwhile, which is no error. Raises OSError."""
    result = lib.psb_grant_address(notifier, number, synthetic, real, *ports, ms)
    if result < 0 and result != -errno.ENOENT:
        raise OSError(-result, os.strerror(-result))


def open_door(notifier: Notifier, number: int, address: bytes, port: int, sink: int) -> None:
    """Takes over the sink, also when it fails. Raises OSError."""
    result = lib.psb_open_door(notifier, number, address, port, sink)
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def remove(notifier: Notifier, number: int) -> None:
    lib.psb_notifier_remove(notifier, number)


def new_event() -> ReportedCall:
    made: ReportedCall = ffi.new("struct psb_event *")
    return made


def next_event(notifier: Notifier, told: ReportedCall) -> bool:
    return bool(lib.psb_notifier_next(notifier, told))


def answer(notifier: Notifier, pending: int, kind: str, value: int = 0, flags: int = 0) -> bool:
    """False when the call does not wait any more. Raises OSError for an answer that it cannot have."""
    result = lib.psb_answer(notifier, pending, getattr(lib, f"PSB_ANSWER_{kind}"), value, flags)
    if result < 0 and result != -errno.ENOENT:
        raise OSError(-result, os.strerror(-result))
    return bool(result == 0)


def execute(
    notifier: Notifier, pending: int, expected: bytes, image: Image, record: Callable[[int], Callable[[], object]]
) -> None:  # fmt: skip
    """Continues an execve whose path and arguments are still `expected`, and checks that it becomes that image.

    One that runs nothing is told to `record` before its caller learns of it: EPERM where it has changed, EACCES where
    it cannot be traced. What that returns is called afterwards: until then the process is traced, and its cage cannot
    end. One that does not wait any more is no concern of anybody's.
    """
    texts = [ffi.from_buffer("char[]", text) for text in (image.name + b"\0", image.arguments, image.script)]
    wanted = ffi.new("struct psb_image *", {"device": image.device, "inode": image.inode})
    wanted.program_device, wanted.program_inode = image.program_device, image.program_inode
    wanted.name, wanted.arguments, wanted.arguments_size = texts[0], texts[1], len(image.arguments)
    if image.script:
        wanted.script, wanted.script_size = texts[2], len(image.script)
    refused = ffi.new("struct psb_refused_exec *")
    number = -int(lib.psb_answer_exec(notifier, pending, expected, len(expected), wanted, refused))
    if number not in (errno.EPERM, errno.EACCES):
        return
    try:
        tell = record(number)
    finally:
        lib.psb_refuse_exec(notifier, refused)
    tell()


def last_event(notifier: Notifier, number: int) -> int:
    """The serial number of the last event of a cage; 0 when it is gone."""
    return max(0, int(lib.psb_last_event(notifier, number)))


def digest(text: bytes) -> int:
    """The digest of a path as it was written; csrc/host/notify/program.c computes the same."""
    total = 0xCBF29CE484222325
    for byte in text:
        total = (total ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return total


MOST_ARGUMENTS = 1 << 22  # bytes; the kernel's own limit is a quarter of the stack, 2 MiB as a rule


WANTED = {getattr(lib, f"PSB_WANTED_{name}"): name
          for name in ("LOOK", "READ", "WRITE", "CREATE", "MAKE", "CHANGE", "REMOVE", "RUN")}  # fmt: skip
MOST_PATHS = 4096  # kinds of looks that the C half tells apart for each cage


def missed_of(told: ReportedCall) -> Missed:
    """What a MISSED event tells."""
    return Missed(text_of(told), WANTED[told.wanted], told.refusal, bool(told.directory))


def path_counts(notifier: Notifier, number: int) -> tuple[Mapping[int, int], int]:
    """How often each kind of look was seen, by the key of its event; and how many there was no room for."""
    table, lost = ffi.new("struct psb_path_count[]", MOST_PATHS), ffi.new("uint64_t *")
    count = lib.psb_path_counts(notifier, number, table, MOST_PATHS, lost)
    return {int(table[at].key): int(table[at].count) for at in range(max(0, count))}, int(lost[0])


class WaitingCaller(NamedTuple):
    """The caller of a call that waits for an answer: the one way to its memory and its descriptors. Each look raises
    OSError (ENOENT, ESRCH) once it is gone, so that nothing is ever got of a process that has its number then."""

    notifier: Notifier
    pending: int

    def waits(self) -> bool:
        """Whether it still waits: then what was found by its number before, as in /proc, is its own."""
        return bool(lib.psb_waits(self.notifier, self.pending))

    def require(self) -> None:
        """Raises ProcessLookupError where it does not wait any more."""
        if not self.waits():
            raise ProcessLookupError(errno.ESRCH, "the caller is gone")

    def read_text(self, address: int, room: int) -> bytes:
        """A NUL-terminated string in its memory. Raises OSError (EFAULT, ENAMETOOLONG)."""
        text = ffi.new("char[]", room)
        size = _taken(lib.psb_read_text(self.notifier, self.pending, address, text, room))
        return bytes(ffi.buffer(text, size))

    def read_exec(self) -> bytes:
        """Path and arguments of its execve as its memory has them now, each ended by NUL. Raises OSError."""
        room = 1 << 12  # most are shorter; a larger buffer has to be cleared first
        while True:
            text = ffi.new("char[]", room)
            size = lib.psb_read_exec(self.notifier, self.pending, text, room)
            if size == -errno.E2BIG and room < MOST_ARGUMENTS:
                room <<= 3
                continue
            return bytes(ffi.buffer(text, _taken(size)))

    def look_at_paths(self, on_host: bool) -> list[Missed]:
        """The paths of its call which it would be refused; asks the disk, too."""
        looks = ffi.new("struct psb_look[]", lib.PSB_LOOKS)
        count = lib.psb_look_at_paths(self.notifier, self.pending, on_host, looks)
        return [Missed(os.fsdecode(ffi.string(looks[at].path)), WANTED[looks[at].wanted], looks[at].number,
                       bool(looks[at].directory)) for at in range(max(0, count))]  # fmt: skip

    def take_fd(self, fd: int) -> int:
        """A duplicate of its descriptor, close-on-exec. Raises OSError."""
        return _taken(lib.psb_take_fd(self.notifier, self.pending, fd))


class Refusals(NamedTuple):
    """What the C half has refused: each kind of call with the session of who made it, and its count; and by class how
    many were beyond the limit. The looks at files that it has counted, by key; and how many there was no room for."""

    calls: list[tuple[Call, int, int]]
    lost: Mapping[str, int]
    paths: Mapping[int, int] = {}
    paths_lost: int = 0


def denials(notifier: Notifier, number: int) -> Refusals | None:
    """The refusals of a cage; None when it is gone."""
    table = ffi.new("struct psb_denial[]", MOST_DENIALS)
    lost = ffi.new("uint64_t[]", len(KINDS))
    count = lib.psb_denials(notifier, number, table, MOST_DENIALS, lost)
    if count < 0:
        return None
    calls = [(call_of(each), int(each.session), int(each.count)) for each in table[0:count]]
    by_class = {name: int(each) for name, each in zip(KINDS, lost, strict=True) if each}
    return Refusals(calls, by_class, *path_counts(notifier, number))


def call_of(told: Answered) -> Call:
    """The Call in a struct psb_event or psb_denial."""
    return Call(
        kind=KINDS[told.call],
        syscall=names(MACHINE).get(told.number, str(told.number)),
        pid=told.pid,
        domain=getattr(told, "domain", 0),
        protocol=told.protocol,
        address=bytes(ffi.buffer(told.address, told.address_size)),
    )


def text_of(told: ReportedCall) -> str:
    return os.fsdecode(bytes(ffi.buffer(told.text, told.text_size)))


def get_fd(pid: int, fd: int) -> int:
    """A duplicate of a descriptor of whoever has this number now, close-on-exec. Raises OSError."""
    return _taken(lib.psb_get_fd(pid, fd))


def _taken(taken: int) -> int:
    if taken < 0:
        raise OSError(-taken, os.strerror(-taken))
    return int(taken)


def cut_socket(fd: int) -> None:
    """Resets the connection of an IP socket, and drops what it has not sent yet. Raises OSError."""
    result = lib.psb_cut_socket(fd)
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def close_borrowed(fd: int) -> None:
    """Closes a duplicate of a caged process's socket without blocking, whatever SO_LINGER that process has set."""
    lib.psb_close_borrowed(fd)


def number_of(syscall: str) -> int:
    return table(MACHINE).numbers[syscall]
