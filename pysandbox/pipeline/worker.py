"""Runs in the cage, with the standard library alone (`booted`): a template that has its modules loaded, and forks.

    PREPARE   imports what is named; what would not survive a fork is refused by name: threads, children, shared memory
    FORK      a worker, in its own session, limits, directory and Landlock domain (`walls`); it answers one call and ends
    KILL      a worker, with what it started

Nothing of a worker reaches the template, which hears the host alone. It is a subreaper: a process that outlives its
worker becomes a child of the template, which ends it as soon as it sees it. Its garbage is frozen before the first
fork, so that no collection writes to the pages that all of them share.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import traceback
from contextlib import suppress

from pysandbox.pipeline import inside, walls
from pysandbox.pipeline.walls import RefusedError

LONGEST = 1 << 16
FOR_ANSWERS = ("dataclasses", "datetime", "decimal", "enum", "pathlib", "uuid")  # loaded once, for all


# ---- preparing ---------------------------------------------------------------------------------------------------


def prepare(control: socket.socket, order: dict[str, object]) -> None:
    """Raises RefusedError, and whatever the modules raise."""
    gc.disable()
    for name in FOR_ANSWERS:
        importlib.import_module(name)
    sys.path[:0] = list(order["paths"])  # type: ignore[call-overload]
    for name in order["modules"]:  # type: ignore[attr-defined]
        importlib.import_module(name)
        require_alone(f"importing {name}")
    if order["preload"]:
        inside.made(control)
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


def require_alone(what: str) -> None:
    threads = [name for name in os.listdir("/proc/self/task") if int(name) != os.getpid()]
    if threads:
        names = ", ".join(f"{comm(name)!r}" for name in threads)
        raise RefusedError(f"{what} started threads, which no fork copies: {names}; start them in the function")
    if found := children():
        raise RefusedError(f"{what} started processes, which every worker would share: {found}; end them in preload")


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
    def __init__(self, control: socket.socket, cradle: walls.Cradle) -> None:
        self.control, self.cradle = control, cradle
        self.around = {name: each for name, each in sys.modules.items() if "." not in name}
        self.workers: dict[int, int] = {}  # pid to number
        self.woken, waking = socket.socketpair()
        self.woken.setblocking(False)
        waking.setblocking(False)
        self.waking = waking
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        cradle.prepare(1)

    def serve(self) -> None:
        """Until the host is gone."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.woken, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
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
            for pid in [pid for pid, number in self.workers.items() if number == order["kill"]]:
                os.kill(pid, signal.SIGKILL)
        return True

    def fork(self, number: int, sock: socket.socket) -> None:
        try:
            self.workers[self.cradle.fork(number, sock.fileno(), self.around)] = number
        except OSError:
            self.say({"exited": number, "status": -1})
        sock.close()
        self.cradle.prepare(number + 1)

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                break
            number = self.workers.pop(pid, None)
            if number is not None:
                remove(f"/tmp/{number}")
                self.say({"exited": number, "status": status})
        for pid in set(children()) - self.workers.keys():  # whoever outlives its worker
            os.kill(pid, signal.SIGKILL)

    def say(self, what: dict[str, object]) -> None:
        self.control.send(json.dumps(what).encode())


def remove(own: str) -> None:
    try:
        os.rmdir(own)  # most leave it empty
    except OSError:
        shutil.rmtree(own, ignore_errors=True)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    walls.adopt_orphans()
    order = json.loads(control.recv(LONGEST))
    try:
        cradle = walls.Cradle(order)
        prepare(control, order)
        template = ForkServer(control, cradle)
    except BaseException as error:
        said = str(error) if isinstance(error, RefusedError) else traceback.format_exc()[-(LONGEST // 4) :]
        control.send(json.dumps({"failed": said}).encode())
        return
    control.send(json.dumps({"ready": len(sys.modules)}).encode())
    template.serve()
