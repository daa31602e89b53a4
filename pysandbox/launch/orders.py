"""What is said to a waiting cage-init, and what it says: orders and signals out, reports in.

An order's strings are joined here and nothing is interpreted; csrc/init/orders.c takes them apart.
"""

from __future__ import annotations

import errno
import os
import struct
import sys

from pysandbox._native import ffi, lib
from pysandbox.descriptors.polling import is_readable
from pysandbox.errors import StartError
from pysandbox.launch import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pysandbox.shapes import Any

LONGEST_MS = 2**32 - 1  # of struct psb_exec: 49 days, and as good as for ever for a command

# The fields of struct psb_exec, all uint32_t, in the order of the C declaration (which a test holds this to).
EXEC_FIELDS = (
    "kind", "flags", "id", "n_fds", "n_limits", "n_paths", "n_argv", "n_env", "body_size", "walltime_ms", "grace_ms",
    "pad",
)  # fmt: skip
_EXEC_STRUCT = struct.Struct(f"={len(EXEC_FIELDS)}I")
_FOUR_NUMBERS = struct.Struct("=4I")
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_EXEC, _ONESHOT, _TERMINAL = lib.PSB_MESSAGE_EXEC, lib.PSB_EXEC_ONESHOT, lib.PSB_EXEC_TERMINAL
_BODY_FD, _QUIET = lib.PSB_EXEC_BODY_FD, lib.PSB_EXEC_QUIET
_MAX_INLINE, _MAX_BODY = lib.PSB_MAX_INLINE, lib.PSB_MAX_BODY

MOST_FDS: int = lib.PSB_MAX_FDS  # of one command, stdin, stdout and stderr included


DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def candidates(program: str, path: str) -> list[str]:
    """Where a command's program is looked for: what execvp would try, in order."""
    if "/" in program:
        return [program]
    return [os.path.join(directory or ".", program) for directory in path.split(":")]


class ExecMessage:
    """One command, encoded. With `body_in_fd` the body is too long for a message and travels in a memfd."""

    __slots__ = ("body", "body_in_fd", "header")

    def __init__(self, header: bytes, body: bytes, body_in_fd: bool) -> None:
        self.header, self.body, self.body_in_fd = header, body, body_in_fd


def encode_exec(
    *,
    argv: Sequence[str],
    env: Sequence[str],
    paths: Sequence[str],
    cwd: str,
    targets: Sequence[int],
    limits: bytes,
    n_limits: int,
    walltime: float | None,
    grace: float,
    command_id: int,
    oneshot: bool,
    terminal: bool,
    quiet: bool,
) -> ExecMessage:
    """The struct psb_exec and its body. Strings must hold no NUL (checked by the caller, who knows their names)."""
    n_fds = len(targets)
    texts = "\0".join((cwd, *paths, *argv, *env, "")).encode(_ENCODING, _ERRORS)
    if n_fds == 3:  # as most commands have
        numbers = _FOUR_NUMBERS.pack(*targets, 0)
    else:
        padded = [*targets, 0] if n_fds & 1 else targets
        numbers = struct.pack(f"={len(padded)}I", *padded)
    body = numbers + limits + texts
    size = len(body)
    in_fd = size > _MAX_INLINE
    if size > _MAX_BODY:
        raise StartError("exec", errno.E2BIG, None, native.HINTS["exec", errno.E2BIG])
    flags = (
        (_ONESHOT if oneshot else 0)
        | (_TERMINAL if terminal else 0)
        | (_BODY_FD if in_fd else 0)
        | (_QUIET if quiet else 0)
    )
    walltime_ms = 0 if walltime is None else min(max(1, round(walltime * 1000)), LONGEST_MS)
    grace_ms = min(round(grace * 1000), LONGEST_MS)
    header = _EXEC_STRUCT.pack(
        _EXEC, flags, command_id, n_fds, n_limits, len(paths), len(argv), len(env), size, walltime_ms, grace_ms, 0
    )  # EXEC_FIELDS
    return ExecMessage(header, body, in_fd)


def send_exec(control: int, order: ExecMessage, report_fd: int, fds: Sequence[int]) -> None:
    """Sends a command; its reports come on the pipe whose write end is `report_fd`."""
    if not order.body_in_fd:
        native.send(control, order.header + order.body, (report_fd, *fds))
        return
    body_fd = os.memfd_create("pysandbox-order", os.MFD_CLOEXEC)
    try:
        rest = memoryview(order.body)
        while rest:
            rest = rest[os.write(body_fd, rest) :]
        native.send(control, order.header, (report_fd, body_fd, *fds))
    finally:
        os.close(body_fd)


wake_hint: Callable[[int], int] = lib.psb_wake_hint
"""Tells the cage-init of a control socket that an order follows at once. Only a hint: what becomes of it shows when the
order is sent."""


def send_signal(control: int, command_id: int, number: int, scope: str) -> None:
    """`scope`: "one" process, its "session", or "all" of the cage."""
    message = ffi.new("struct psb_signal *")
    message.kind = lib.PSB_MESSAGE_SIGNAL
    message.id, message.signal = command_id, number
    message.scope = getattr(lib, f"PSB_SIGNAL_{scope.upper()}")
    native.send(control, bytes(ffi.buffer(message)), ())


def ask_written(control: int) -> bool:
    """Whether cage-init was asked; a dead one is not."""
    try:
        native.send(control, struct.pack("=I", lib.PSB_MESSAGE_WRITTEN), ())
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def read_written(control: int) -> int | None:
    """The answer, in bytes; None while there is none."""
    if not is_readable(control):
        return None
    record = ffi.new("struct psb_written *")
    try:
        said = os.read(control, ffi.sizeof("struct psb_written"))
    except ConnectionResetError:
        return None
    if len(said) < ffi.sizeof("struct psb_written"):
        return None
    ffi.memmove(record, said, len(said))
    return int(record.blocks) * 512 if record.kind == lib.PSB_MESSAGE_WRITTEN else None


class Report:
    """One record of cage-init about one command; `kind` is "failed", "started" or "exited". Times in seconds."""

    __slots__ = (
        "error",
        "killed_others",
        "kind",
        "max_rss_kb",
        "no_route",
        "pid",
        "status",
        "system_time",
        "timed_out",
        "user_time",
    )  # fmt: skip

    def __init__(self, record: Any) -> None:
        self.kind: str = _KINDS[record.kind]
        self.pid: int = record.pid
        self.status: int = record.status
        self.timed_out = bool(record.timed_out)
        self.killed_others: int = record.killed_others
        self.user_time: float = record.user_us / 1e6
        self.system_time: float = record.system_us / 1e6
        self.max_rss_kb: int = record.max_rss_kb
        self.no_route = bool(record.no_route)
        self.error = native.start_error(record.error) if record.error.step else None


_KINDS = {lib.PSB_REPORT_FAILED: "failed", lib.PSB_REPORT_STARTED: "started", lib.PSB_REPORT_EXITED: "exited"}


def read_report(fd: int) -> Report | None:
    """The next record (blocks until there is one), None when cage-init is gone. BlockingIOError on an O_NONBLOCK fd."""
    record = ffi.new("struct psb_report *")
    result = -errno.EINTR
    while result == -errno.EINTR:
        result = lib.psb_read_report(fd, record)
    if result == 0:
        return None
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return Report(record)
