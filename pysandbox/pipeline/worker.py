"""Runs in the cage, with the standard library alone (`booted`): a template that has loaded modules, and its workers.

    PREPARE   imports what is named; what would not survive a fork is refused by name: threads, children, shared memory
    FORK      a worker, by the process that stays as it was then (`zygote`), in a place of its own (`walls`)
    KILL      a worker, with what it started

Nothing of a worker reaches the template, which hears the host alone. It is a subreaper: a process that outlives its
worker becomes a child of the template, which ends it as soon as it sees it. Its garbage is frozen before the first
fork, so that no collection writes to the pages that all of them share.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import sys
from collections import deque
from contextlib import suppress

from pysandbox.pipeline import inside, walls, zygote
from pysandbox.pipeline.walls import RefusedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer

FORK = os.fork  # what a preload does with the name is its own business
LONGEST = 1 << 16
MOST_TOLD = LONGEST // 13  # letters of why a template failed: each may take 12 bytes of JSON
FOR_ANSWERS = ("dataclasses", "datetime", "decimal", "enum", "pathlib", "traceback", "uuid")  # loaded once, for all


# ---- preparing ---------------------------------------------------------------------------------------------------


class KeptOutput(io.FileIO):
    """Memory of a fixed size: what comes after that is dropped, as of a command."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except PermissionError:
            return memoryview(data).nbytes


def keep_output() -> None:
    """By lines: what was printed is told of a worker that is killed, too."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        errors = getattr(sys, name).errors
        stream = io.TextIOWrapper(io.BufferedWriter(KeptOutput(fd, "w", closefd=False)), "utf-8", errors,
                                  line_buffering=True)  # fmt: skip
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def prepare(control: socket.socket, order: dict[str, object]) -> None:
    """Raises RefusedError, and whatever the modules raise."""
    gc.disable()
    keep_output()
    for name in FOR_ANSWERS:
        importlib.import_module(name)
    sys.path[:0] = list(order["paths"])  # type: ignore[call-overload]
    for name in order["modules"]:  # type: ignore[attr-defined]
        importlib.import_module(name)
        require_alone(f"importing {name}")
    if order["preload"]:
        inside.made(control, loaded())
        require_alone("preload")
    require_nothing_shared()
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, AttributeError):  # it was closed, or is something else
            stream.flush()  # else each worker would print it
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if callable(signal.getsignal(number)) and number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.umask(0o077)
    os.chdir("/")
    gc.collect()
    gc.freeze()


def loaded() -> dict[str, object]:
    """What a function sees besides what its own module defines."""
    return {name: each for name, each in sys.modules.items() if "." not in name}


def require_alone(what: str) -> None:
    threads = [name for name in os.listdir("/proc/self/task") if int(name) != os.getpid()]
    if threads:
        names = ", ".join(f"{thread_name(name)!r}" for name in threads)
        raise RefusedError(f"{what} started threads, which no fork copies: {names}; start them in the function")
    if found := children():
        raise RefusedError(f"{what} started processes, which every worker would share: {found}; end them in preload")


def thread_name(thread: str) -> str:
    """Python's own; the kernel's of one that Python does not know."""
    known = sys.modules["threading"].enumerate() if "threading" in sys.modules else []
    found = [each.name for each in known if each.native_id == int(thread)]
    return found[0] if found else comm(thread)


def comm(thread: str) -> str:
    with open(f"/proc/self/task/{thread}/comm", "rb") as file:
        return file.read().decode(errors="replace").strip()


def children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
        return [int(each) for each in file.read().split()]


def require_nothing_shared() -> None:
    """A writable shared mapping would be one for all workers and the template."""
    with open("/proc/self/maps", "rb") as maps:
        shared = [line.split(None, 5) for line in maps if line.split(None, 2)[1][1:4:2] == b"ws"]
    if shared:
        names = ", ".join(sorted({(part[5:] or [b"anonymous"])[0].decode(errors="replace").strip() for part in shared}))
        raise RefusedError(f"memory is mapped shared and writable, so that workers could change each other's: {names}")


# ---- the template ------------------------------------------------------------------------------------------------


class ForkServer:
    def __init__(
        self, control: socket.socket, order: dict[str, object], places: walls.OwnPlaces, hooks: zygote.SparedHooks
    ) -> None:  # fmt: skip
        self.control, self.places = control, places
        self.workers: dict[int, int] = {}  # pid to number
        self.unborn: deque[int] = deque()  # numbers, in the order of their orders
        self.killed_unborn: set[int] = set()  # of those, whoever is to be ended at once
        self.zygote, self.zygote_pid = start_zygote(order, hooks)
        self.woken, self.waking = socket.socketpair()
        for each in (self.woken, self.waking):
            each.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.waking.fileno(), warn_on_full_buffer=False)
        places.prepare(1)

    def serve(self) -> None:
        """Until the host, or the zygote, is gone."""
        poll = select.poll()
        for each in (self.control, self.zygote, self.woken):
            poll.register(each, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self.zygote.fileno() in ready and not self.receive():
                return
            if self.woken.fileno() in ready:
                self.woken.recv(4096)
                self.reap()
            if self.control.fileno() in ready and not self.obey():
                return

    def obey(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self.control, LONGEST, 8)
        if not data:
            return False
        order = json.loads(data)
        if "fork" in order:
            self.fork(int(order["fork"]), socket.socket(fileno=fds[0]))
        elif "kill" in order:
            self.kill(int(order["kill"]))
        return True

    def fork(self, number: int, sock: socket.socket) -> None:
        with sock:
            try:
                ruleset = self.places.take(number)
            except OSError:
                self.say({"exited": number, "status": -1})
                return
            try:
                zygote.send_order(self.zygote, walls.own_place(number), sock.fileno(), ruleset)
            except OSError:  # as many descriptors are on their way as the kernel lets this user have
                walls.remove(walls.own_place(number))
                self.say({"exited": number, "status": -1})
                return
            finally:
                os.close(ruleset)
        self.unborn.append(number)
        self.places.prepare(number + 1)

    def kill(self, number: int) -> None:
        if number in self.unborn:
            self.killed_unborn.add(number)
        for pid in [pid for pid, each in self.workers.items() if each == number]:
            end(pid)

    def receive(self) -> bool:
        """What the zygote tells; False where it has ended."""
        data = self.zygote.recv(zygote.TOLD.size)
        if not data:
            return False
        what, pid, status = zygote.TOLD.unpack(data)
        if what == zygote.ENDED:
            self.over(self.workers.pop(pid), status)
            return True
        number = self.unborn.popleft()
        if pid < 0:
            self.over(number, -1)
        else:
            self.workers[pid] = number
            if number in self.killed_unborn:
                end(pid)
        self.killed_unborn.discard(number)
        return True

    def over(self, number: int, status: int) -> None:
        self.end_orphans()
        walls.remove(walls.own_place(number))
        self.say({"exited": number, "status": status})

    def reap(self) -> None:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        self.end_orphans()

    def end_orphans(self) -> None:
        """Whoever has outlived a worker is a child of ours now."""
        for pid in children():
            if pid != self.zygote_pid:
                end(pid)

    def say(self, what: dict[str, object]) -> None:
        self.control.send(json.dumps(what).encode())


def end(pid: int) -> None:
    with suppress(ProcessLookupError):  # the zygote may have seen its end, which we have not read yet
        os.kill(pid, signal.SIGKILL)


def start_zygote(order: dict[str, object], hooks: zygote.SparedHooks) -> tuple[socket.socket, int]:
    """The socket to it, and its pid."""
    around = loaded()
    ours, inside_ = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with inside_:
        pid = FORK()
        if not pid:
            zygote.run(inside_, order, around, hooks)
    return ours, pid


def told(error: BaseException) -> str:
    """What it is first; then where, in what is not ours."""
    if isinstance(error, RefusedError):
        return str(error)
    name, message, trace = inside.told(error)
    return f"the template could not be loaded: {name}: {message}\n\n{trace}".rstrip()


def shortened(text: str) -> str:
    """Keeps the beginning of a text, which says what was raised, and its end, which says where."""
    half = MOST_TOLD // 2
    return text if len(text) <= MOST_TOLD else f"{text[:half]}\n[...]\n{text[-half:]}"


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    zygote.adopt_orphans()
    order = json.loads(control.recv(LONGEST))
    try:
        places = walls.OwnPlaces()
        with zygote.SparedHooks() as hooks:
            prepare(control, order)
        walls.install_filter(bytes.fromhex(str(order["filter"])))
        template = ForkServer(control, order, places, hooks)
    except BaseException as error:
        control.send(json.dumps({"failed": shortened(told(error))}).encode())
        return
    control.send(json.dumps({"ready": len(sys.modules)}).encode())
    template.serve()
