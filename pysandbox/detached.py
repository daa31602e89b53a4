"""A command that outlives the program that started it: the handle on it, and the way to its shim.

The shim (shim.py) is a small process that holds the cage and writes its output to files. It listens at a socket in
the spool, a directory beside the cage's record that only this user may enter. A message counts only with the key of
the record: whoever can connect but not read the record, such as a command in Landlock mode, is turned away. When the
command ends, the shim leaves `outcome.json` in the spool and goes; the spool stays until `close`.

A talk is one message: {"key": ..., "do": "signal" | "end" | "wait", ...}. The answer is DONE, or for "wait" the end of
the connection when the shim goes.
"""

from __future__ import annotations

import errno
import json
import os
import signal as signals
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from pysandbox.denial import Denial
from pysandbox.descriptors.polling import is_over, wait_readable
from pysandbox.errors import CageClosedError, PolicyError, StartError, UnsupportedError
from pysandbox.launch.stdio import DEVNULL, PIPE, File
from pysandbox.live import processes
from pysandbox.note import Note
from pysandbox.records import orphans, registry
from pysandbox.records.orphans import SPOOL
from pysandbox.records.registry import CageRecord
from pysandbox.result import Reason, Result, Usage
from pysandbox.shapes import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pysandbox.command import Command
    from pysandbox.launcher import Launcher

SOCKET, OUTCOME = "socket", "outcome.json"
STREAMS = ("stdout", "stderr")
DONE = b"done"
LARGEST = 4096  # bytes of a message
END_PATIENCE = 5.0  # seconds beyond the policy's grace period, for a shim to end its cage

# The shim is started in any directory, also one that holds a module named like ours or like Python's own: -P. Of the
# directory that holds our package it takes the package, and what nobody else has: Python's own modules come first.
STARTER = """
import sys
from importlib.util import find_spec, module_from_spec
sys.path.insert(0, sys.argv[1])
ours = find_spec("pysandbox")
sys.path.append(sys.path.pop(0))
sys.modules["pysandbox"] = module_from_spec(ours)
ours.loader.exec_module(sys.modules["pysandbox"])
from pysandbox.shim import main
main()
"""


class Detached:
    """One detached command, by the id of its cage. Any number of handles may be open; none keeps it alive."""

    def __init__(
        self, cage_id: str, argv: tuple[str, ...], grace: float = 5.0, notes: tuple[Note, ...] = ()
    ) -> None:  # fmt: skip
        self.id = cage_id
        self.argv = argv
        self.notes = notes  # what is weaker than its policy asks, where it was started; later those of the Result
        self._grace = grace

    @classmethod
    def attach(cls, cage_id: str) -> Self:
        """The command of that id, running or ended. Raises CageClosedError when this user has none."""
        record = registry.read(cage_id)
        if record is not None and record.detached:
            return cls(cage_id, record.argv)
        outcome = _outcome(cage_id)
        if outcome is not None:
            return cls(cage_id, tuple(outcome["argv"]))
        raise CageClosedError(f"no detached cage {cage_id}: see `pysandbox ps` and `pysandbox orphans`")

    # ---- what became of it --------------------------------------------------------------------------------------

    def poll(self) -> int | None:
        """The return code (-n for signal n), None while it runs."""
        return None if self._record() is not None else self._returncode()

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end. Raises TimeoutError; it runs on."""
        if self._ask(timeout, do="wait") is None:
            raise TimeoutError(f"{self.argv[0]!r} still runs after {timeout:g} s")
        return self._returncode()

    def result(self) -> Result[bytes]:
        """Waits for the end and tells everything about it; the output as bytes."""
        self.wait()
        outcome = _outcome(self.id) or {}
        usage = Usage(*outcome["usage"]) if "usage" in outcome else Usage()
        reason: Reason = outcome.get("reason", "cancelled")
        return Result(
            self.argv, self._returncode(), reason, self.output("stdout"), self.output("stderr"),
            bool(outcome.get("truncated")), float(outcome.get("duration", 0.0)), usage,
            tuple(_denial(each) for each in outcome.get("denials", ())), True, _notes(outcome.get("notes", ())),
            outcome.get("network", {}),
        )  # fmt: skip

    def output(self, stream: str = "stdout", offset: int = 0) -> bytes:
        """What it has written so far, from `offset` on. Raises FileNotFoundError after `close`."""
        with _spool(self.id) as spool:
            fd = os.open(_known(stream), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=spool)
            with open(fd, "rb", buffering=0) as file:
                file.seek(offset)
                return file.readall()

    # ---- what to do with it -------------------------------------------------------------------------------------

    def signal(self, number: int, *, tree: bool = False) -> None:
        """To the command, with `tree` to everything in its cage. Nothing when it is over."""
        if not 0 < number < signals.NSIG:
            raise ValueError(f"{number} is not a signal; use signal.SIGTERM and the like")
        if self._ask(END_PATIENCE, do="signal", number=number, tree=tree) != DONE and self._record() is not None:
            raise self._silence()

    def terminate(self) -> None:
        self.signal(signals.SIGTERM)

    def kill(self) -> None:
        self.signal(signals.SIGKILL, tree=True)

    def close(self) -> None:
        """Ends it (SIGTERM, the policy's grace period, SIGKILL), and removes its output and its outcome. Idempotent."""
        self._ask(END_PATIENCE, do="end")
        if self._ask(self._grace + END_PATIENCE, do="wait") is None:
            self._kill_shim()
        registry.remove(self.id)
        orphans.remove_spool(self.id)

    def _kill_shim(self) -> None:
        """Ends the cage of a shim that does not answer, without it."""
        for each in orphans.find_orphans():
            if each.id == self.id and each.kind == "detached":
                orphans.remove(each)

    # ---- the shim -----------------------------------------------------------------------------------------------

    def _record(self) -> CageRecord | None:
        """None when the shim is gone: it goes last, when the outcome is written."""
        record = registry.read(self.id)
        return record if record is not None and not record.host.gone else None

    def _returncode(self) -> int:
        """A shim that was killed has left no outcome, and has taken the cage with it."""
        outcome = _outcome(self.id)
        if outcome is None and not self._shim_ends():
            raise self._silence()
        return -signals.SIGKILL if outcome is None else int(outcome["returncode"])

    def _shim_ends(self) -> bool:
        """Whether the shim ends: its socket closes a moment before it is gone."""
        record = self._record()
        pidfd = processes.pin(record.host) if record is not None else None
        if pidfd is None:
            return True
        try:
            return is_over(pidfd, END_PATIENCE)
        finally:
            os.close(pidfd)

    def _silence(self) -> CageClosedError:
        return CageClosedError(f"the shim of cage {self.id} does not answer; `pysandbox orphans --remove` ends it")

    def _ask(self, timeout: float | None, **message: object) -> bytes | None:
        """The shim's answer, None when it takes too long. b"" from one that goes, or is gone: nothing needs doing."""
        record = self._record()
        if record is None:
            return b""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as talk:
            try:
                with _spool(self.id) as spool:
                    talk.connect(f"/proc/self/fd/{spool}/{SOCKET}")  # a path may be longer than an address
                talk.send(json.dumps({"key": record.key, **message}).encode())
            except (FileNotFoundError, ConnectionRefusedError, BrokenPipeError, ConnectionResetError):
                return b""  # it ends at this moment
            ready = wait_readable(talk, timeout)
            with suppress(ConnectionResetError):
                return talk.recv(LARGEST) if ready else None
            return b""


def detach(launcher: Launcher, command: Command, stdin: File = None) -> Detached:
    """Starts the shim, which is nobody's child, and with it the command. Raises what `Cage.spawn` does."""
    from pysandbox.open_cage import require_nothing_apart

    if not launcher.policy.caged:
        raise PolicyError("without a cage nothing can be kept", key="caged", suggestion="use nohup(1)")
    require_nothing_apart(launcher.policy)
    directory, policy = launcher.directory_to_detach(), launcher.policy_for(command)
    source = _source(stdin)
    written = launcher.runtime.plans.written_before(policy, directory)
    order = {"policy": policy.to_json(), "directory": directory, "argv": command.argv, "env": dict(command.env),
             "cwd": command.cwd, "stdin": source, "written": written}  # fmt: skip
    try:
        return _start(order, command.argv, source)
    finally:
        if source is not None:
            os.close(source)


def _source(stdin: File) -> int | None:
    """A duplicate of what the command is to read, for the shim, which passes it on; None for nothing. Raises
    ValueError."""
    if stdin is None or stdin == DEVNULL:
        return None
    fd = stdin if isinstance(stdin, int) else stdin.fileno()
    kind = os.fstat(fd).st_mode if stdin != PIPE else 0
    if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
        raise ValueError("stdin: a detached command outlives whoever would write to it; pass a file or an open pipe")
    return os.dup(fd)


def _start(order: Mapping[str, object], argv: tuple[str, ...], stdin: int | None) -> Detached:
    if not sys.executable:
        raise UnsupportedError("there is no interpreter for the shim", feature="python", fix="set sys.executable")
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    started = subprocess.run(
        [sys.executable, "-P", "-c", STARTER, here], input=json.dumps(order).encode(), stdout=subprocess.PIPE,
        start_new_session=True, check=False, pass_fds=() if stdin is None else (stdin,),
    )  # fmt: skip
    try:
        answer = json.loads(started.stdout)
    except ValueError:
        raise StartError(
            "shim", errno.ESRCH, None, f"the shim ended with {started.returncode}; see its stderr"
        ) from None
    if "id" in answer:
        return Detached(answer["id"], argv, answer["grace"], _notes(answer["notes"]))
    raise _error(answer)


def _denial(fields: dict[str, Any]) -> Denial:
    return Denial(**{**fields, "argv": tuple(fields["argv"])})


def _notes(listed: Sequence[dict[str, Any]]) -> tuple[Note, ...]:
    return tuple(Note(**fields) for fields in listed)


def _error(answer: dict[str, Any]) -> Exception:
    """What the shim ran into, as the error it was there."""
    kind, fields = answer.pop("kind"), answer
    if kind == "start":
        return StartError(fields["step"], fields["errno"], fields["path"], fields["hint"])
    if kind == "policy":
        return PolicyError(**fields)
    if kind == "unsupported":
        return UnsupportedError(**fields)
    return OSError(fields["errno"], fields["message"], fields["path"])


def _known(stream: str) -> str:
    if stream not in STREAMS:
        raise ValueError(f"{stream!r} is not an output: {' or '.join(STREAMS)}")
    return stream


@contextmanager
def _spool(cage_id: str) -> Iterator[int]:
    """A descriptor of the spool. Raises FileNotFoundError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with registry.opened() as folder:
        fd = os.open(f"{cage_id}{SPOOL}", flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _outcome(cage_id: str) -> dict[str, Any] | None:
    with suppress(FileNotFoundError, ValueError), _spool(cage_id) as spool:
        fd = os.open(OUTCOME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=spool)
        with open(fd, "rb") as file:
            read: dict[str, Any] = json.load(file)
            return read
    return None
