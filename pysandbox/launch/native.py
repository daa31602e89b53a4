"""The only importer of the C extension beside `probe.kernel`: Plans and orders in, descriptors and reports out.

What Python and C must agree on is declared once, in csrc/abi.h; this file names fields and never counts bytes. A
failure comes back as {step, errno, path} and leaves here as StartError. Cheap to import: a start that needs no compiler
(`launch.image`) comes through here.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from _socket import AF_INET, AF_INET6, inet_pton

from pysandbox._native import ffi, lib
from pysandbox.errors import StartError
from pysandbox.launch.numbers import (
    CLONE_NEW,
    LANDLOCK_ACCESS_FS,
    LANDLOCK_ACCESS_NET,
    LANDLOCK_SCOPE,
    MOUNT_ATTR,
    RLIM_INFINITY,
    mask,
    rlimit,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pysandbox.compile.plan import MountStep, NetPlan, Plan
    from pysandbox.launch.live import LiveInit

PACKAGE = os.path.dirname(os.path.dirname(__file__))
INIT_PATH = f"{PACKAGE}/cage-init"
UNCAGED_INIT_PATH = f"{PACKAGE}/uncaged-init"  # the same, under a name to which no security policy is attached
BPF_INSTRUCTION_SIZE = 8  # struct sock_filter, linux/filter.h
LONGEST_MS = 2**32 - 1  # of struct psb_exec: 49 days, and as good as for ever for a command

WALL = 0x40000000  # __WALL, wait(2): children with another exit signal than SIGCHLD
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH, RESOLVE_IN_ROOT = 0x02, 0x04, 0x08, 0x10  # openat2(2)

HINTS = {
    ("clone", errno.EPERM): "this host forbids user namespaces: run `pysandbox check`, or use isolation = \"landlock\"",
    ("clone", errno.EACCES): "a security module forbids user namespaces: run `pysandbox check`",
    ("clone", errno.ENOSPC): "the limit of namespaces is reached: raise user.max_user_namespaces",
    ("setgroups", errno.EACCES): "this host takes the power from user namespaces: run `pysandbox check`",
    ("clone", errno.EBUSY): "the cage's cgroup has controllers for groups below it, so no process may enter it",
    ("uid_map", errno.EPERM): "this host forbids mapping ids in a user namespace: run `pysandbox check`",
    ("propagation", errno.EACCES): "a security module forbids mounts: run `pysandbox check`",
    ("proc", errno.EPERM): "/proc of this host is masked (a container?): give it an unmasked /proc, or use "
    "isolation = \"landlock\"",
    ("source", errno.EACCES): "the path may not be read by you, so it cannot be granted",
    ("source_changed", errno.ESTALE): "it was replaced while the cage was being made; try again",
    ("chdir", errno.ENOENT): "the working directory is not visible in the cage: grant it, or pass cwd=",
    ("listener", errno.EBUSY): "this process lives under a supervisor of its own, and the kernel allows only one",
    ("door_enter", errno.EPERM): "a security module keeps this program from entering the cage's network namespace",
    ("exec", errno.ENOENT): "no such program in the cage: is its directory granted, and its interpreter?",
    ("exec", errno.ENOTDIR): "a part of the path is not a directory",
    ("exec", errno.EACCES): "the program is not executable in the cage: see its mode, and process.allow_execve",
    ("exec", errno.ENOEXEC): "not a program: a script needs a #! line",
    ("exec", errno.E2BIG): "the arguments and environment exceed the kernel's limit",
    ("fork", errno.EAGAIN): "the cage is at its process limit (process.max_pids)",
    ("terminal", errno.ENOTTY): "descriptor 0 is not a terminal",
}  # fmt: skip


# A setting of the host or a security module refuses these; which one, is looked up when it has.
REFUSED_BY_HOST = frozenset(("clone", "setgroups", "uid_map", "gid_map", "hostname", "propagation", "root"))
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSPC)


def start_error(error: Any) -> StartError:
    """A StartError from a struct psb_error."""
    step = ffi.string(lib.psb_step_name(error.step)).decode()
    path = ffi.string(error.path).decode(errors="surrogateescape") or None
    return StartError(step, error.number, path, _hint(step, error.number))


def _hint(step: str, number: int) -> str | None:
    if step in REFUSED_BY_HOST and number in REFUSALS:
        from pysandbox.probe.restriction import find_restriction

        if (cause := find_restriction()) is not None:
            return cause
    return HINTS.get((step, number))


class NativePlan:
    """A Plan as C structs, made once per plan and used for every cage of it."""

    def __init__(self, plan: Plan, uid: int, gid: int) -> None:
        self.plan = plan
        self._keep: list[Any] = []  # what the structs point to lives as long as this object
        mounts = ffi.new("struct psb_mount[]", len(plan.mounts) or 1)
        for index, step in enumerate(plan.mounts):
            self._fill_mount(mounts[index], step)
        self._struct = ffi.new("struct psb_plan *")
        self._keep.append(mounts)
        self._struct.namespaces = mask(CLONE_NEW, plan.namespaces)
        self._struct.inside_uid = uid if plan.inside_uid < 0 else plan.inside_uid
        self._struct.inside_gid = gid if plan.inside_gid < 0 else plan.inside_gid
        self._struct.outside_uid, self._struct.outside_gid = uid, gid
        self._struct.loopback = plan.loopback
        self._struct.unconfined = plan.isolation == "none"
        self._struct.staging = self._text(plan.staging)
        self._struct.mounts, self._struct.n_mounts = mounts, len(plan.mounts)
        self._fill_landlock(self._struct.landlock)
        self.without_namespaces = not plan.namespaces
        self.listens = plan.notify is not None
        scoped = bool(plan.landlock and "SIGNAL" in plan.landlock.scoped)
        self._struct.scope_signals = self.without_namespaces and scoped
        self._setup = self._setup_message(scoped)

    @classmethod
    def restored(cls, struct: Any, setup: bytes, keep: list[Any]) -> NativePlan:
        """One that `launch.image` had put away; it has no scratch directory, no listener and no Plan."""
        carried = cls.__new__(cls)
        carried.listens = False
        carried._struct, carried._setup, carried._keep = struct, setup, keep
        return carried

    def _text(self, text: str) -> Any:
        held = ffi.new("char[]", os.fsencode(text))
        self._keep.append(held)
        return held

    def _fill_mount(self, out: Any, step: MountStep) -> None:
        out.kind = getattr(lib, f"PSB_MOUNT_{step.kind.value}")
        out.flags = (
            (lib.PSB_OPTIONAL if step.optional else 0)
            | (lib.PSB_INSIDE_BIND if step.inside_bind else 0)
            | (lib.PSB_VERIFY if step.ino else 0)
        )
        out.mode, out.dev, out.ino = step.mode, step.dev, step.ino
        out.attrs = mask(MOUNT_ATTR, tuple(attr.value for attr in step.attrs))
        out.source, out.target, out.data = self._text(step.source), self._text(step.target), self._text(step.data)

    def _fill_landlock(self, out: Any) -> None:
        wanted = self.plan.landlock
        if wanted is None:
            return
        rules = ffi.new("struct psb_rule[]", len(wanted.rules) or 1)
        self._keep.append(rules)
        for index, rule in enumerate(wanted.rules):
            rules[index].path = self._text(rule.path)
            rules[index].access = mask(LANDLOCK_ACCESS_FS, rule.access)
            rules[index].optional, rules[index].dev, rules[index].ino = rule.optional, rule.dev, rule.ino
        out.enabled = 1
        out.handled_fs = mask(LANDLOCK_ACCESS_FS, wanted.handled_fs)
        out.handled_net = mask(LANDLOCK_ACCESS_NET, wanted.handled_net)
        out.scoped = mask(LANDLOCK_SCOPE, wanted.scoped)
        out.rules, out.n_rules = rules, len(wanted.rules)

    def _place_scratch(self, plan: Any, path: Any) -> list[Any]:
        """Copies of the arrays in which the placeholder stands, with the path in its place."""
        from pysandbox.compile.plan import SCRATCH

        mounts = ffi.new("struct psb_mount[]", max(1, plan.n_mounts))
        ffi.memmove(mounts, plan.mounts, plan.n_mounts * ffi.sizeof("struct psb_mount"))
        for index, step in enumerate(self.plan.mounts):
            if step.source == SCRATCH:
                mounts[index].source = path
        plan.mounts = mounts
        wanted = self.plan.landlock.rules if self.plan.landlock else ()
        rules = ffi.new("struct psb_rule[]", max(1, len(wanted)))
        ffi.memmove(rules, plan.landlock.rules, len(wanted) * ffi.sizeof("struct psb_rule"))
        for index, rule in enumerate(wanted):
            if rule.path == "" and not self.plan.namespaces:
                rules[index].path = path
        plan.landlock.rules = rules
        return [mounts, rules]

    def _setup_message(self, scoped: bool) -> bytes:
        setup = ffi.new("struct psb_setup *")
        setup.kind = lib.PSB_MESSAGE_SETUP
        setup.filter_count = len(self.plan.seccomp) // BPF_INSTRUCTION_SIZE
        if self.plan.filter_early:
            setup.flags |= lib.PSB_SETUP_FILTER_EARLY
        if self.listens:
            setup.flags |= lib.PSB_SETUP_LISTENER
        if self.plan.landlock is not None:
            setup.flags |= lib.PSB_SETUP_LANDLOCK
        if self.without_namespaces:
            setup.flags |= lib.PSB_SETUP_SUBREAPER | (lib.PSB_SETUP_SCOPED if scoped else 0)
        return bytes(ffi.buffer(setup)) + self.plan.seccomp

    def open(self, init_fd: int, hostname: str, scratch: str, cgroup_fd: int = -1) -> Opened:
        """Starts one cage: its init is set up and waits for orders. Raises StartError; nothing is left behind then.

        `scratch` is the host directory that stands for SCRATCH in the plan; "" where the plan has none. The cage is
        born in the cgroup `cgroup_fd`; -1 leaves it in the caller's.
        """
        held = [ffi.new("char[]", hostname.encode()), ffi.new("char[]", os.fsencode(scratch))]
        plan = ffi.new("struct psb_plan *", self._struct[0])
        plan.hostname, plan.cgroup_fd = held[0], cgroup_fd
        if scratch:
            held += self._place_scratch(plan, held[1])
        opened = ffi.new("struct psb_opened *", {"pid": -1, "pidfd": -1, "control": -1})
        try:
            if lib.psb_open_cage(plan, init_fd, opened):
                raise start_error(opened.error)
            _send_setup(opened.control, self._setup)
            listener = self._take_listener(opened)
            return Opened(opened, listener)
        except BaseException:  # Ctrl-C and want of memory as well
            _undo(opened)
            raise

    def _take_listener(self, opened: Any) -> int:
        """The listener of the cage's filter, -1 where it has none. Raises StartError."""
        if not self.listens:
            return -1
        listener = int(lib.psb_take_listener(opened.control, opened.pidfd))
        if listener < 0:
            raise StartError("listener", -listener, None, HINTS.get(("listener", -listener)))
        return listener


class Opened:
    """A waiting cage-init: its pid and pidfd in the host, and the control socket whose closing ends the cage.

    Whoever takes them over says `given`; otherwise the cage ends with this object, or with `undo`.
    """

    def __init__(self, opened: Any, listener: int = -1) -> None:
        self._held = opened
        self.pid: int = opened.pid
        self.pidfd: int = opened.pidfd
        self.control: int = opened.control
        self.listener = listener  # of its filter, -1 when nothing is decided at run time

    def given(self) -> None:
        self._held = None

    def __del__(self) -> None:
        self.undo()

    def undo(self) -> None:
        """Ends the cage, unless it was given to somebody."""
        held, self._held = getattr(self, "_held", None), None
        if held is not None:
            _undo(held)
            if self.listener >= 0:
                os.close(self.listener)


def _send_setup(control: int, setup: bytes) -> None:
    try:
        send(control, setup, ())
    except OSError as error:  # killed meanwhile, by whoever is short of memory
        raise StartError("control", error.errno or 0, None, "cage-init was killed while it started") from None


def _undo(opened: Any) -> None:
    """Ends what `psb_open_cage` has started, if it has; once."""
    control, pidfd, opened.control = opened.control, opened.pidfd, -1
    if control < 0:
        return
    os.close(control)
    try:
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | WALL)
    except ChildProcessError:
        pass  # the host waits for any child
    os.close(pidfd)


def send(control: int, message: bytes, fds: Sequence[int]) -> None:
    """One message to cage-init. Raises BrokenPipeError and other OSErrors when it is gone."""
    result = -errno.EINTR
    while result == -errno.EINTR:
        result = lib.psb_send(control, message, len(message), fds, len(fds))
    if result < 0:
        raise OSError(-result, os.strerror(-result))


# ---- the cage's network -----------------------------------------------------------------------------------------

BACKLOG = 256  # connections that wait at a listener; a cage that makes more is its own loss
_TYPES = {"tcp": 1, "udp": 2, "raw": 3}  # SOCK_STREAM, SOCK_DGRAM, SOCK_RAW


def sockets_inside(
    pidfd: int, wanted: Sequence[tuple[str, str, int]], *, routes: bytes = b"", redirect: bytes = b""
) -> list[int]:
    """Sockets in the network namespace of the cage whose init has this pidfd: close-on-exec, non-blocking, the caller's
    to close. Each of `wanted` is a protocol ("tcp" listens), an address and a port; with port 0 it is neither bound nor
    listening, and the address only says of which family it is. "raw" hears datagrams that go elsewhere, and is -1 where
    the host refuses such sockets. `routes` and `redirect` are netlink messages, sent
    there first. Raises StartError; then nothing is open."""
    held = [(ffi.new("char[]", f"{at}:{port}/{protocol}".encode())) for protocol, at, port in wanted]
    sockets = ffi.new("struct psb_socket[]", len(wanted) or 1)
    for socket, name, (protocol, address, port) in zip(sockets, held, wanted, strict=False):
        socket.name, socket.type, socket.port = name, _TYPES[protocol], port
        socket.family = AF_INET6 if ":" in address else AF_INET
        packed = inet_pton(socket.family, address)
        ffi.memmove(socket.address, packed, len(packed))
        socket.backlog = BACKLOG if protocol == "tcp" and port else 0
    messages = [ffi.from_buffer(routes), ffi.from_buffer(redirect)]
    inside = ffi.new("struct psb_inside *", {
        "routes": messages[0], "routes_size": len(routes), "redirect": messages[1], "redirect_size": len(redirect),
        "sockets": sockets, "n_sockets": len(wanted),
    })  # fmt: skip
    if lib.psb_inside(pidfd, inside):
        raise start_error(inside.error)
    return [socket.fd for socket in sockets[0 : len(wanted)]]


def setting_inside(pidfd: int, path: str, value: str) -> None:
    """Writes a setting below /proc/sys/net in the network namespace of that cage. Raises OSError."""
    result = lib.psb_setting_inside(pidfd, path.encode(), value.encode())
    if result < 0:
        raise OSError(-result, os.strerror(-result), path)


def open_doors(pidfd: int, net: NetPlan) -> dict[tuple[str, str], int]:
    """The doors of a cage by kind and protocol, once its namespace leads to them. Raises StartError."""
    if not net.doors:
        return {}
    wanted = [(door.protocol, door.address, door.port) for door in net.doors]
    fds = sockets_inside(pidfd, wanted, routes=net.routes, redirect=net.redirect)
    return {(door.kind, door.protocol): fd for door, fd in zip(net.doors, fds, strict=True) if fd >= 0}


# struct psb_exec is all uint32_t: its field names, in order, come from the C declaration.
_EXEC_FIELDS = tuple(name for name, _ in ffi.typeof("struct psb_exec").fields)
_EXEC_STRUCT = struct.Struct(f"={len(_EXEC_FIELDS)}I")
_EXEC, _ONESHOT, _TERMINAL = lib.PSB_MESSAGE_EXEC, lib.PSB_EXEC_ONESHOT, lib.PSB_EXEC_TERMINAL
_BODY_FD, _QUIET, _MAX_INLINE = lib.PSB_EXEC_BODY_FD, lib.PSB_EXEC_QUIET, lib.PSB_MAX_INLINE


MOST_FDS: int = lib.PSB_MAX_FDS  # of one command, stdin, stdout and stderr included


class Order:
    """One command, encoded. With `body_in_fd` the body is too long for a message and travels in a memfd."""

    __slots__ = ("body", "body_in_fd", "header")

    def __init__(self, header: bytes, body: bytes, body_in_fd: bool) -> None:
        self.header, self.body, self.body_in_fd = header, body, body_in_fd


def encode_order(
    *,
    argv: Sequence[bytes],
    env: Sequence[bytes],
    paths: Sequence[bytes],
    cwd: bytes,
    targets: Sequence[int],
    limits: bytes,
    n_limits: int,
    walltime: float | None,
    grace: float,
    command_id: int,
    oneshot: bool,
    terminal: bool,
    quiet: bool,
) -> Order:
    """The struct psb_exec and its body. Strings must hold no NUL (checked by the caller, who knows their names)."""
    padded = [*targets, 0] if len(targets) & 1 else targets
    fds = b"".join(target.to_bytes(4, "little") for target in padded)
    body = b"\0".join((fds + limits + cwd, *paths, *argv, *env, b""))
    in_fd = len(body) > _MAX_INLINE
    if len(body) > lib.PSB_MAX_BODY:
        raise StartError("exec", errno.E2BIG, None, HINTS["exec", errno.E2BIG])
    fields = {
        "kind": _EXEC,
        "flags": (_ONESHOT if oneshot else 0)
        | (_TERMINAL if terminal else 0)
        | (_BODY_FD if in_fd else 0)
        | (_QUIET if quiet else 0),
        "id": command_id,
        "n_fds": len(targets),
        "n_limits": n_limits,
        "n_paths": len(paths),
        "n_argv": len(argv),
        "n_env": len(env),
        "body_size": len(body),
        "walltime_ms": 0 if walltime is None else min(max(1, round(walltime * 1000)), LONGEST_MS),
        "grace_ms": min(round(grace * 1000), LONGEST_MS),
        "pad": 0,
    }
    return Order(_EXEC_STRUCT.pack(*map(fields.__getitem__, _EXEC_FIELDS)), body, in_fd)


def encode_limits(plan: Plan) -> bytes:
    limits = ffi.new("struct psb_limit[]", len(plan.limits) or 1)
    for index, limit in enumerate(plan.limits):
        limits[index].resource = rlimit(limit.resource)
        limits[index].value = RLIM_INFINITY if limit.value is None else limit.value
    return bytes(ffi.buffer(limits))[: len(plan.limits) * ffi.sizeof("struct psb_limit")]


def send_order(control: int, order: Order, report_fd: int, fds: Sequence[int]) -> None:
    """Sends a command; its reports come on the pipe whose write end is `report_fd`."""
    if not order.body_in_fd:
        send(control, order.header + order.body, (report_fd, *fds))
        return
    body_fd = os.memfd_create("pysandbox-order", os.MFD_CLOEXEC)
    try:
        rest = memoryview(order.body)
        while rest:
            rest = rest[os.write(body_fd, rest) :]
        send(control, order.header, (report_fd, body_fd, *fds))
    finally:
        os.close(body_fd)


def nudge(control: int) -> None:
    """Tells cage-init that an order follows at once. Only a hint: what becomes of it shows when the order is sent."""
    lib.psb_nudge(control)


def send_signal(control: int, command_id: int, number: int, scope: str) -> None:
    """`scope`: "one" process, its "session", or "all" of the cage."""
    message = ffi.new("struct psb_signal *")
    message.kind = lib.PSB_MESSAGE_SIGNAL
    message.id, message.signal = command_id, number
    message.scope = getattr(lib, f"PSB_SIGNAL_{scope.upper()}")
    send(control, bytes(ffi.buffer(message)), ())


class Report:
    """One record of cage-init about one command; `kind` is "failed", "started" or "exited". Times in seconds."""

    __slots__ = (
        "error",
        "killed_others",
        "kind",
        "max_rss_kb",
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
        self.error = start_error(record.error) if record.error.step else None


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


def abi() -> bytes:
    """A digest of what the extension and cage-init must agree on."""
    return bytes(ffi.string(lib.psb_abi()))


def file_system(fd: int) -> int:
    """The magic number of the file system behind a descriptor (statfs(2))."""
    return int(lib.psb_file_system(fd))


def real_path(live: LiveInit, path: str) -> str:
    """Where a path of the cage leads, as the cage names it. Raises OSError, CageClosedError."""
    root = live.open_root()
    try:
        fd = open_inside(root, path, os.O_PATH, resolve=RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
    finally:
        os.close(root)
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def cover_path(live: LiveInit, path: str) -> str:
    """Mounts an unreadable file or directory over a path of a running cage; what it really is. Raises OSError."""
    real = real_path(live, path)
    root = live.open_root()
    try:
        fd = open_inside(root, real, os.O_PATH, resolve=RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS)
    finally:
        os.close(root)
    try:
        directory = stat.S_ISDIR(os.fstat(fd).st_mode)
    finally:
        os.close(fd)
    result = lib.psb_cover(live.pidfd, os.fsencode(real), directory)
    if result < 0:
        raise OSError(-result, os.strerror(-result), path)
    return real


def open_inside(root_fd: int, path: str, flags: int, mode: int = 0, *, resolve: int, powerless: bool = False) -> int:
    """openat2(2) below `root_fd`; `powerless`: with no capability in effect. Raises OSError with the path."""
    how = lib.psb_open_powerless if powerless else lib.psb_open_inside
    fd = how(root_fd, os.fsencode(path), flags, mode, resolve)
    if fd < 0:
        raise OSError(-fd, os.strerror(-fd), path)
    return int(fd)
