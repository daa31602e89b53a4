"""Hand-made plans, and the bare cage that carries one out: what every test in this folder starts from.

`plan(...)` is a full cage with the host's programs in it, `bare(...)` one with nothing but what is named, `flat(...)`
one without namespaces. `opened(plan)` hands one to `launch.structs` and `launch.native`, and gives an `Init`: orders,
signals and any other bytes go in, records come out. Nothing here compiles a policy, and nothing waits for longer than
PATIENCE.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import select
import signal
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pysandbox.compile.plan import LandlockPlan, MountKind, MountStep, Plan
from pysandbox.errors import StartError
from pysandbox.launch import native, orders
from pysandbox.launch.structs import encode_plan
from pysandbox.probe.kernel import landlock_abi

ABI = landlock_abi()
SCOPES_SINCE = 6
PYTHON = "/usr/bin/python3"
PATIENCE = 20.0  # seconds until whatever a test waits for counts as hanging
WALL = 0x40000000  # __WALL, wait(2)
EVERY = ("USER", "PID", "NS", "IPC", "UTS", "CGROUP", "NET")
FS = ("EXECUTE", "READ_FILE", "READ_DIR", "WRITE_FILE", "MAKE_REG")

Refusal = tuple[str, str, str | None]  # step, name of the errno, path

ROOT = MountStep(MountKind.TMPFS, "/", data="mode=755,size=16m")
PROC = MountStep(MountKind.PROC, "/proc")
NULL = MountStep(MountKind.BIND, "/dev/null", source="/dev/null")


def programs() -> Iterator[MountStep]:
    """What the programs of this host need, as this host has it."""
    for path in ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"):
        if os.path.islink(path):
            yield MountStep(MountKind.SYMLINK, path, source=os.readlink(path))
        elif os.path.exists(path):
            yield step("BIND", path, source=path)


EMPTY = Plan(
    isolation="full", namespaces=EVERY, inside_uid=1000, inside_gid=1000, hostname_prefix="", staging="/mnt",
    mounts=(), loopback=False, landlock=None, seccomp=b"", seccomp_late=b"", notify=None, limits=(), env=(), cwd="/",
    walltime=None, grace=5.0, output_cap=0, notes=(),
)  # fmt: skip


def bare(*mounts: MountStep, **changes: Any) -> Plan:
    return replace(EMPTY, mounts=mounts, **changes)


def plan(*mounts: MountStep, **changes: Any) -> Plan:
    return bare(ROOT, *programs(), NULL, MountStep(MountKind.DIR, "/tmp", mode=0o1777), PROC, *mounts, **changes)


def flat(*, scoped: bool = ABI >= SCOPES_SINCE, **changes: Any) -> Plan:
    """Landlock mode. Where `scoped`, cage-init has a domain of its own, which no signal leaves: by default wherever the
    kernel can do that. (Elsewhere nobody is offered this mode; what cage-init does in it holds all the same.)"""
    landlock = LandlockPlan(("MAKE_SYM",), (), ("SIGNAL",) if scoped else (), ())
    return replace(EMPTY, **{"isolation": "landlock", "namespaces": (), "landlock": landlock, **changes})


def step(kind: str, target: str, **fields: Any) -> MountStep:
    """A step; what is bound is what it is now, unless the test says otherwise."""
    if kind == "BIND" and "ino" not in fields and not fields["source"].startswith("/dev/"):
        fields |= seen(fields["source"]) if os.path.exists(fields["source"]) else {"dev": 1, "ino": 1}
    return MountStep(MountKind[kind], target, **fields)


def seen(path: str | os.PathLike[str]) -> dict[str, int]:
    """The `dev` and `ino` by which a step verifies its source."""
    found = os.stat(path, follow_symlinks=False)
    return {"dev": found.st_dev, "ino": found.st_ino}


def refusal(error: StartError) -> Refusal:
    return error.step, errno.errorcode[error.errno or 0], error.filename


def readable(fd: int, seconds: float = PATIENCE) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(seconds * 1000))


@dataclass
class Command:
    """One command, known by the read end of its report pipe."""

    id: int
    reports: int

    def record(self) -> orders.Report | None:
        """The next record; None at end-of-file."""
        assert readable(self.reports), "no record: cage-init hangs"
        return orders.read_report(self.reports)

    def expect(self, kind: str) -> orders.Report:
        record = self.record()
        assert record is not None and record.kind == kind, f"expected {kind!r}, got {record}"
        return record

    def nothing_more(self) -> bool:
        return self.record() is None


@dataclass(frozen=True)
class Outcome:
    """A command that ran to its end."""

    said: str
    complained: str
    started: orders.Report | None
    exited: orders.Report

    @property
    def code(self) -> int:
        return os.waitstatus_to_exitcode(self.exited.status)

    @property
    def result(self) -> tuple[int, str]:
        return self.code, self.said + self.complained


@dataclass
class Init:
    """A cage-init that waits for orders."""

    opened: native.Opened
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    commands: list[Command] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.opened.pid

    @property
    def root(self) -> str:
        """Where the host sees the cage's root."""
        return f"/proc/{self.pid}/root"

    def status(self, name: str) -> str:
        """A field of /proc/<pid>/status of cage-init itself."""
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith(f"{name}:"))

    def mounts(self) -> dict[str, tuple[str, frozenset[str]]]:
        """What is mounted where in the cage: type and options, the last mount on a point winning."""
        found = {}
        with open(f"/proc/{self.pid}/mountinfo", encoding="utf-8") as file:
            for line in file:
                left, _, right = line.partition(" - ")
                found[left.split()[4]] = right.split()[0], frozenset(left.split()[5].split(","))
        return found

    def send(self, message: bytes, fds: Sequence[int] = ()) -> None:
        native.send(self.opened.control, message, fds)

    def signal(self, command: Command | None, number: int, scope: str = "one") -> None:
        orders.send_signal(self.opened.control, command.id if command else 0, number, scope)

    def order(
        self, argv: Sequence[str], fds: Mapping[int, int], **options: Any
    ) -> tuple[orders.ExecMessage, list[int]]:
        """The encoded order and its descriptors; `fds` maps numbers in the cage to descriptors of this process."""
        given = {
            "env": ("PATH=/usr/bin:/bin",), "paths": argv[:1], "cwd": "/", "limits": b"", "n_limits": 0,
            "walltime": None, "grace": 5.0, "command_id": 1, "oneshot": False, "terminal": False, "quiet": False,
            **options,
        }  # fmt: skip
        encoded = orders.encode_exec(argv=argv, targets=list(fds), **given)
        return encoded, list(fds.values())

    def deliver(self, send: Any) -> Command:
        """Calls `send(report_fd)` with the write end of a new command's report pipe, and closes it here."""
        reports, report = os.pipe2(os.O_CLOEXEC)
        self.commands.append(Command(0, reports))
        try:
            send(report)
        finally:
            os.close(report)
        return self.commands[-1]

    def start(self, *argv: str, fds: Mapping[int, int] | None = None, **options: Any) -> Command:
        number = next(self.ids)
        order, sources = self.order(argv, fds or {}, command_id=number, **options)
        command = self.deliver(lambda report: orders.send_exec(self.opened.control, order, report, sources))
        command.id = number
        return command

    def run(self, *argv: str, fds: Mapping[int, int] | None = None, quiet: bool = False, **options: Any) -> Outcome:
        """Runs a command to its end; what it wrote to its stdout and stderr is kept in memory."""
        out, err = os.memfd_create("stdout"), os.memfd_create("stderr")
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            command = self.start(*argv, fds={0: null, 1: out, 2: err, **(fds or {})}, quiet=quiet, **options)
            started = None if quiet else command.expect("started")
            exited = command.expect("exited")
            assert command.nothing_more()
            return Outcome(_text(out), _text(err), started, exited)
        finally:
            for fd in (out, err, null):
                os.close(fd)

    def sh(self, script: str, **options: Any) -> Outcome:
        return self.run("/bin/sh", "-c", script, **options)

    def python(self, source: str, **options: Any) -> Outcome:
        return self.run(PYTHON, "-I", "-S", "-c", source, **options)

    def attempt(self, expression: str, **options: Any) -> str:
        """What the expression prints in the cage, or the name of its errno."""
        source = f"""
import ctypes, errno, os, resource, signal, socket, sys
try:
    print({expression})
except OSError as error:
    print(errno.errorcode[error.errno])
"""
        outcome = self.python(source, **options)
        assert (outcome.code, outcome.complained) == (0, ""), outcome
        return outcome.said.strip()

    def refused(self, *argv: str, **options: Any) -> Refusal:
        """Why the command never ran; the cage goes on."""
        command = self.start(*argv, **options)
        record = command.expect("failed")
        assert command.nothing_more() and record.error is not None
        return refusal(record.error)

    def ended(self, seconds: float = PATIENCE) -> bool:
        """Whether cage-init is gone."""
        return readable(self.opened.pidfd, seconds)

    def close(self) -> int:
        """Ends the cage as the launcher does, collects it, and gives its exit status as wait(2) has it."""
        os.close(self.opened.control)
        for command in self.commands:
            os.close(command.reports)
        gone = self.ended()
        if not gone:
            signal.pidfd_send_signal(self.opened.pidfd, signal.SIGKILL)
        info = os.waitid(os.P_PIDFD, self.opened.pidfd, os.WEXITED | WALL)
        os.close(self.opened.pidfd)
        assert gone and info is not None, "the cage outlived its control socket"
        return info.si_status


def _text(fd: int) -> str:
    return os.pread(fd, os.fstat(fd).st_size, 0).decode() if stat.S_ISREG(os.fstat(fd).st_mode) else ""


def carry_out(wanted: Plan, *, uid: int | None = None, gid: int | None = None, hostname: str = "cage",
              first: bytes | None = None, program: str = native.INIT_PATH) -> Init:  # fmt: skip
    """Opens a cage. `first` replaces its first message, `program` is executed in place of cage-init."""
    carried = encode_plan(wanted, os.getuid() if uid is None else uid, os.getgid() if gid is None else gid)
    if first is not None:
        carried.setup = first
    init_fd = os.open(program, os.O_PATH | os.O_CLOEXEC)
    try:
        opened = carried.open(init_fd, hostname, "")
        opened.release()
        return Init(opened)
    finally:
        os.close(init_fd)


@contextlib.contextmanager
def opened(wanted: Plan, **options: Any) -> Iterator[Init]:
    init = carry_out(wanted, **options)
    try:
        yield init
    finally:
        init.close()


def why_not(wanted: Plan, **options: Any) -> Refusal:
    """Why this cage does not start."""
    try:
        init = carry_out(wanted, **options)
    except StartError as error:
        return refusal(error)
    init.close()
    raise AssertionError("the cage started")
