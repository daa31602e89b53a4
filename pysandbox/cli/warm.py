"""`pysandbox run` when the same command line was compiled before: its plan comes from disk, and no compiler is loaded.

This is the whole of a warm start, and imports next to nothing: that is what it is for. What it may not do is decide.
`cli.keep` put the entry there, after a run by the long way, with everything that the plan depended on; here each of
these is looked at again, and whatever is not as it was makes `run_again` answer None: the long way then starts from
nothing, so also every error is reported by it. From the start of the command on there is no way back.
"""

from __future__ import annotations

import os
import sys
import time
from select import POLLIN

from pysandbox.cli import console
from pysandbox.cli.attend import OUT_OF_TIME, Attendance, Signals
from pysandbox.cli.descriptors import at_a_terminal, fill_standard_descriptors, input_of_ours
from pysandbox.cli.warm_trail import Trail
from pysandbox.errors import CageError
from pysandbox.launch import ids, native, orders, plans
from pysandbox.launch.image import plan_of
from pysandbox.launch.live import LiveInit
from pysandbox.launch.lookup import DEFAULT_PATH, candidates
from pysandbox.launch.stdio import open_stdio
from pysandbox.probe.kernel import landlock_abi, still_there
from pysandbox.probe.planted import Absences, told
from pysandbox.probe.searched import as_searched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from pysandbox.launch.relay import Relay
    from pysandbox.launch.stdio import Stdio

SIGKILL = 9
LASTS = 0.1  # seconds: a command that runs for longer gets a record, for `pysandbox ps`
KILLED = 128 + SIGKILL


def run_again(arguments: list[str]) -> int | None:
    """The exit code, or None when nothing was started."""
    flags, argv = split(arguments)
    if not argv or not argv[0]:
        return None
    fill_standard_descriptors()
    key = key_of(flags, argv[0])
    entry = plans.recall(key) if key is not None else None
    if entry is None or not still_holds(entry):
        return None
    with Signals() as signals:
        try:
            command = WarmCommand(entry, argv)
        except (CageError, OSError):
            return None
        console.weaker(entry["weaker"])
        try:
            return _attend(command, signals, entry)
        finally:
            command.close()


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The flags and the command, without knowing any flag; no command where only a parser could tell."""
    if arguments and not arguments[0].startswith("-"):
        return [], arguments
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


# ---- what a plan depends on ----------------------------------------------------------------------------------


def key_of(flags: list[str], program: str) -> tuple[Any, ...] | None:
    """What is the same whenever an entry is to be found. The secret it is signed with ends with this boot. None where
    it cannot be told: the directory is gone, or a security module hides the namespaces."""
    try:
        spaces = [os.stat(f"/proc/self/ns/{name}").st_ino for name in ("user", "mnt")]
        directory = os.getcwd()
    except OSError:
        return None
    return (
        __file__,  # another installation may know more, and its files are not those whose stamps were kept
        sys.version,
        os.uname().release,
        os.geteuid(),
        os.getegid(),
        *spaces,  # a container shares the cache, and can do less
        landlock_abi(),
        directory,
        tuple(flags),
        program,
        at_a_terminal(),
    )


def still_holds(entry: dict[str, Any]) -> bool:
    """Whether the variables, the files that were read and the paths that were looked at are as they were."""
    if any(os.environ.get(name) != value for name, value in entry["variables"]):
        return False
    if any(stamp(path) != was for path, was in entry["stamps"]):
        return False
    if any(leads_to(path) != real for path, real in entry["programs"]):
        return False
    if any(place(path) != was for path, was in entry["places"]):
        return False
    return still_there(entry["seen"])() and as_searched(entry["searched"])


def leads_to(path: str) -> str | None:
    """The program behind a path, as `policy.search` sees it."""
    return os.path.realpath(path) if os.path.isfile(path) and os.access(path, os.X_OK) else None


def place(path: str) -> tuple[Any, ...]:
    """Where a directory really is, and whose; not what is in it."""
    try:
        found = os.stat(path)
    except OSError:
        return (os.path.realpath(path),)
    return os.path.realpath(path), found.st_dev, found.st_ino, found.st_uid, found.st_mode


def stamp(path: str) -> tuple[int, ...]:
    """What changes with a file's content, and when another takes its place; empty when there is no such name. A link
    that leads nowhere is a name."""
    try:
        found = os.stat(path)
    except OSError:
        try:
            found = os.lstat(path)
        except OSError:
            return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


# ---- the run -------------------------------------------------------------------------------------------------


class WarmCommand:
    """One command in a cage of its own: a Process with what the command line asks of it, and no more."""

    def __init__(self, entry: dict[str, Any], argv: list[str]) -> None:
        """Returns when the command runs. Raises CageError and OSError; nothing is left behind then."""
        self.stdio: Stdio | None = None
        self._report_fd = -1
        self._argv, self._digest, self._started = tuple(argv), entry["digest"], time.time()
        self._absences = Absences(entry["absent"])
        self._trail = Trail(entry["audit"], argv)  # first: whoever cannot be recorded is not started
        try:
            self._live = _open(entry)
        except BaseException:
            self._trail.close()
            raise
        try:
            self._start(entry, argv)
        except BaseException:
            self.close()
            raise

    def _start(self, entry: dict[str, Any], argv: list[str]) -> None:
        self._live.nudge()
        self._id = self._live.new_command_id()
        self.stdio = _streams(self._live, pty=entry["pty"])
        order = _order(entry, argv, self._id, [number for _, number in self.stdio.child])
        self._trail.began(self._live.id, self._id)
        self._report_fd, write = os.pipe2(os.O_CLOEXEC)
        try:
            self._live.execute(order, write, [fd for fd, _ in self.stdio.child])
        finally:
            os.close(write)
        self.stdio.given()
        first = orders.read_report(self._report_fd)
        if first is None or first.kind != "started":
            self._trail.ended(first)
            raise CageError("the long way tells why")
        self.stdio.serve_input()

    def fileno(self) -> int:
        return self._report_fd

    def register(self) -> None:
        """The record of this cage, for other processes of this user. Without a place for it there is none."""
        from pysandbox.launch.recorder import write_record

        try:
            write_record(self._live, self._argv, self._digest, self._started)
        except OSError:
            return

    def signal(self, number: int) -> None:
        self._live.signal(self._id, number, "one")

    def blame(self, reason: Literal["timeout", "cancelled"], seconds: float | None = None) -> None:
        self._trail.blamed(reason, seconds)

    def kill(self) -> None:
        self._live.signal(self._id, SIGKILL, "all")

    def wait(self) -> int:
        """The exit code, as a shell would see it."""
        final = orders.read_report(self._report_fd)
        if final is None and self._absences:
            self._live.await_end()
        planted = self._absences()
        self._trail.ended(final, planted)
        if planted:
            from pysandbox.cli import console

            console.warning(told(planted))
        if final is None:  # cage-init was killed, and everything with it
            return KILLED
        code = os.waitstatus_to_exitcode(final.status)
        return OUT_OF_TIME if final.timed_out else code if code >= 0 else 128 - code

    def close(self) -> None:
        """Returns when nothing of the cage is left."""
        if self.stdio is not None:
            self.stdio.close()
        if self._report_fd >= 0:
            os.close(self._report_fd)
        self._live.close()
        self._trail.close()


def _open(entry: dict[str, Any]) -> LiveInit:
    cage_id = ids.new_id()
    init = os.open(native.INIT_PATH, os.O_PATH | os.O_CLOEXEC)
    try:
        opened = plan_of(entry["image"]).open(init, ids.hostname(entry["hostname_prefix"], cage_id), "")
    finally:
        os.close(init)
    return LiveInit(opened, cage_id)


def _streams(live: LiveInit, *, pty: bool) -> Stdio:
    if not pty:
        return open_stdio(input_of_ours(), None, None, (), user=live.user)
    root = live.open_root()
    try:
        stdio = open_stdio(None, None, None, (), pty=True, root_fd=root, user=live.user)
    finally:
        os.close(root)
    from pysandbox.cli.terminal import copy_size

    copy_size(1, stdio.terminal)  # before anything runs there
    return stdio


def _order(entry: dict[str, Any], argv: list[str], command_id: int, targets: list[int]) -> orders.Order:
    passed = {name: os.environ[name] for name in entry["passed"] if name in os.environ}
    env = {**entry["env"], **passed}
    return orders.encode_order(
        argv=[os.fsencode(each) for each in argv],
        env=[os.fsencode(f"{name}={value}") for name, value in env.items()],
        paths=[os.fsencode(each) for each in candidates(argv[0], env.get("PATH", DEFAULT_PATH))],
        cwd=os.fsencode(entry["cwd"] or "/"),
        targets=targets,
        limits=entry["limits"],
        n_limits=entry["n_limits"],
        walltime=entry["walltime"],
        grace=entry["grace"],
        command_id=command_id,
        oneshot=True,
        terminal=entry["pty"],
        quiet=False,
    )


def _attend(command: WarmCommand, signals: Signals, entry: dict[str, Any]) -> int:
    attendance = Attendance(command, signals, grace=entry["grace"], timeout=entry["timeout"])
    attendance.after(LASTS, command.register)
    if command.stdio is None or command.stdio.terminal < 0:
        outlets = command.stdio.relays if command.stdio is not None else []
        for outlet in outlets:
            outlet.serve() if outlet.is_pipe else _serve(attendance, outlet)  # a pipe may be full for long
        attendance.until_end()
        code = command.wait()
        attendance.let_through(outlets)
        if command.stdio is not None:
            command.stdio.settle_input()
    else:
        from pysandbox.cli.terminal import RawMode, Relay

        with RawMode(0):
            relay = Relay(attendance, command.stdio.terminal)
            attendance.until_end()
            code = command.wait()
            relay.drain()
    failure = command.stdio.failure if command.stdio is not None else None
    return console.told_of_loss(failure, attendance.code(code))


def _serve(attendance: Attendance, relay: Relay) -> None:
    fd = relay.source

    def pass_on(events: int) -> None:
        if not relay.step():
            attendance.forget(fd)

    attendance.watch(fd, POLLIN, pass_on)
