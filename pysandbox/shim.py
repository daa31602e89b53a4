"""The shim of one detached cage: the process that holds it, when the one that asked for it is gone.

Started by `detached.detach`, the order on its stdin. It forks once, so that it is nobody's child, starts the
command, says its id on stdout, and from then on owns three things until the command ends: the cage, the files of its
output, and a socket at which this user may send a signal, ask for the end, or wait. Killed by whatever, it takes the
cage with it, as any host does. It reads nothing of what the command writes: it only counts the bytes.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import selectors
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from pysandbox.cage import PIPE, Cage
from pysandbox.detached import DONE, LARGEST, OUTCOME, SOCKET, STREAMS
from pysandbox.errors import CageError, PolicyError, StartError, UnsupportedError
from pysandbox.launch.owner import Owner, owner_of, this_process
from pysandbox.launch.private import naming
from pysandbox.policy.model import Policy
from pysandbox.process import Process
from pysandbox.records import registry
from pysandbox.records.orphans import SPOOL, remove_spool
from pysandbox.records.registry import CageRecord, shortened
from pysandbox.runtime.runtime import Runtime
from pysandbox.shapes import IO, Any, asdict

MOST_TALKS = 64  # connections at a time; more are turned away
CHUNK = 65536
RESERVED = 8192  # bytes for how it ended, held from the start: its output may fill the disk


def main() -> None:
    """Never returns to its caller in the process that keeps."""
    order = json.load(sys.stdin.buffer)
    if os.fork():
        os._exit(0)
    os.chdir("/")
    runtime = Runtime(warm=0, register=False)
    try:
        process, grace, digest = _spawn(order, runtime)
        shim = _or_close(process, lambda: Shim(process, order["argv"], digest))
    except (CageError, OSError, ValueError, TypeError) as error:
        _say(_described(error))
        sys.exit(1)
    signal.signal(signal.SIGTERM, lambda number, frame: shim.end())
    _say({"id": process.cage_id, "grace": grace, "notes": [asdict(note) for note in process.notes]})
    _leave_the_terminal()
    shim.serve()
    runtime.drain()


def _spawn(order: dict[str, Any], runtime: Runtime) -> tuple[Process, float, str]:
    policy, directory = Policy.from_json(order["policy"]), order["directory"]
    runtime.plans.remember_written(order["written"])
    digest = runtime.prepare(policy, directory).plan.digest
    cage = Cage(policy, cwd=directory, runtime=runtime)
    stdin: int | None = order["stdin"]
    process = cage.spawn(
        order["argv"], stdin=stdin, stdout=PIPE, stderr=PIPE, env=order["env"], cwd=order["cwd"]
    )  # fmt: skip
    if stdin is not None:
        os.close(stdin)  # the command has its own by now, or a thread here serves it
    return process, policy.grace_sec, digest


def _or_close(process: Process, make: Callable[[], Shim]) -> Shim:
    try:
        return make()
    except BaseException:
        process.close()
        for remove in (remove_spool, registry.remove):
            with suppress(OSError):  # it is the first error that is told
                remove(process.cage_id)
        raise


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()


def _described(error: Exception) -> dict[str, Any]:
    if isinstance(error, StartError):
        return {
            "kind": "start",
            "step": error.step,
            "errno": error.errno,
            "path": error.filename,
            "hint": error.hint,
        }
    if isinstance(error, PolicyError):
        return {"kind": "policy", "message": error.message, "key": error.key, "suggestion": error.suggestion}
    if isinstance(error, UnsupportedError):
        message = str(error).removesuffix(f"; {error.fix}")
        return {"kind": "unsupported", "message": message, "feature": error.feature, "fix": error.fix}
    if isinstance(error, OSError):
        path = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else None
        return {"kind": "other", "errno": error.errno or 0, "message": error.strerror or str(error), "path": path}
    return {"kind": "other", "errno": 0, "message": str(error), "path": None}


def _leave_the_terminal() -> None:
    """Whoever started us waits for the end of our stdout, and may close the terminal."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


class Spooled:
    """One output on its way to its file, up to the policy's cap."""

    def __init__(self, source: IO[bytes], file: int, cap: int) -> None:
        self.source, self.truncated = source, False
        self.is_over = False  # all of it has come
        self._file, self._room = file, cap
        os.set_blocking(source.fileno(), False)

    def move(self) -> bool:
        """Takes one piece; False when there is none now."""
        try:
            piece = os.read(self.source.fileno(), CHUNK)
        except BlockingIOError:
            return False
        self.truncated = self.truncated or len(piece) > self._room
        kept = piece[: self._room]
        while kept:
            try:
                written = os.write(self._file, kept)
            except OSError:  # the disk is full: the command goes on all the same
                self.truncated, self._room = True, 0
                break
            kept, self._room = kept[written:], self._room - written
        self.is_over = not piece
        return bool(piece)


class Shim:
    """Everything of one detached cage; `serve` returns when it is over."""

    def __init__(self, process: Process, argv: list[str], digest: str) -> None:
        self._process = process
        self._key = secrets.token_hex(16)
        self._began = time.time()
        self._selector = selectors.DefaultSelector()
        self._talks: dict[socket.socket, bool] = {}  # by age; whether it has shown the key
        self._write_record(tuple(argv), digest)  # first: a spool without a record is taken for a leftover
        self._spool = self._make_spool()
        self._outputs = [self._open_output(name) for name in STREAMS]
        self._listener = self._listen()

    def _make_spool(self) -> int:
        name = f"{self._process.cage_id}{SPOOL}"
        with naming(registry.private_directory(), registry.ELSEWHERE), registry.opened(make=True) as folder:
            os.mkdir(name, 0o700, dir_fd=folder)
            spool = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            registry.write_whole(spool, f".{OUTCOME}", bytes(RESERVED))
            return spool

    def _open_output(self, name: str) -> Spooled:
        source: IO[bytes] = getattr(self._process, name)
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._spool)
        spooled = Spooled(source, file, self._process.output_cap)
        self._selector.register(source, selectors.EVENT_READ, lambda: self._on_output(spooled))
        return spooled

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        old = os.umask(0o177)
        try:
            listener.bind(f"/proc/self/fd/{self._spool}/{SOCKET}")
        finally:
            os.umask(old)
        listener.listen(MOST_TALKS)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, self._on_connection)
        return listener

    def _write_record(self, argv: tuple[str, ...], digest: str) -> None:
        init = owner_of(self._process.init_pid) or Owner(0, 0, 0)  # it is over already
        registry.write(
            CageRecord(
                id=self._process.cage_id, init=init, host=this_process(), argv=shortened(argv), digest=digest,
                started=self._began, detached=True, key=self._key,
            )
        )  # fmt: skip

    # ---- until the end ------------------------------------------------------------------------------------------

    def serve(self) -> None:
        self._selector.register(self._process, selectors.EVENT_READ, lambda: None)
        while self._process.poll() is None:
            for key, _ in self._selector.select():
                key.data()
        for spooled in self._outputs:
            while spooled.move():
                pass
        try:
            self._write_outcome()
        finally:
            self._process.close()
            registry.remove(self._process.cage_id)

    def _write_outcome(self) -> None:
        """Appears whole, and before the record goes."""
        result = self._process.result()
        usage = result.usage
        outcome = {
            "argv": shortened(result.argv),
            "returncode": result.returncode,
            "reason": result.reason,
            "truncated": any(spooled.truncated for spooled in self._outputs),
            "duration": result.duration,
            "usage": (usage.user_time, usage.system_time, usage.max_rss_kb),
            "denials": [asdict(each) for each in result.denials],
            "notes": [asdict(each) for each in result.notes],
            "network": dict(result.network),
        }
        registry.write_whole(self._spool, f".{OUTCOME}", json.dumps(outcome).encode())
        os.rename(f".{OUTCOME}", OUTCOME, src_dir_fd=self._spool, dst_dir_fd=self._spool)

    def _on_output(self, spooled: Spooled) -> None:
        spooled.move()
        if spooled.is_over:
            self._selector.unregister(spooled.source)

    # ---- talks --------------------------------------------------------------------------------------------------

    def _on_connection(self) -> None:
        talk, _ = self._listener.accept()
        talk.setblocking(False)
        if _uid(talk) != os.geteuid() or not self._make_room():
            talk.close()
            return
        self._talks[talk] = False
        self._selector.register(talk, selectors.EVENT_READ, lambda: self._on_message(talk))

    def _make_room(self) -> bool:
        """Whoever has said nothing yet keeps nobody out."""
        if len(self._talks) < MOST_TALKS:
            return True
        silent = next((talk for talk, trusted in self._talks.items() if not trusted), None)
        if silent is not None:
            self._hang_up(silent)
        return silent is not None

    def _on_message(self, talk: socket.socket) -> None:
        """What is not a message with the key ends the connection; so does what was asked, but for waiting."""
        if talk not in self._talks:  # it was hung up on in this very round
            return
        message = self._read(talk)
        if message.get("do") == "wait":
            self._talks[talk] = True
            return
        if message.get("do") == "signal":
            self._signal(message)
        elif message.get("do") == "end":
            self.end()
        if message:
            with suppress(OSError):
                talk.send(DONE)
        self._hang_up(talk)

    def end(self) -> None:
        """Has the command ended, with its grace period; does not wait."""
        threading.Thread(target=self._process.end, name="pysandbox-end", daemon=True).start()

    def _read(self, talk: socket.socket) -> dict[str, Any]:
        try:
            message = json.loads(talk.recv(LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        key = message.get("key") if isinstance(message, dict) else None
        if not isinstance(key, str) or not key.isascii():
            return {}
        return message if hmac.compare_digest(key, self._key) else {}

    def _signal(self, message: dict[str, Any]) -> None:
        number = message.get("number")
        if isinstance(number, int) and 0 < number < signal.NSIG:
            self._process.signal(number, tree=message.get("tree") is True)

    def _hang_up(self, talk: socket.socket) -> None:
        del self._talks[talk]
        self._selector.unregister(talk)
        talk.close()


def _uid(talk: socket.socket) -> int:
    _, uid, _ = struct.unpack("iII", talk.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)
