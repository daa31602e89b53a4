"""Runs in the cage, with the standard library alone (`booted`): a template that has its modules loaded, and forks.

    PREPARE   imports what is named; what would not survive a fork is refused by name: threads, children, shared memory
    FORK      a worker: its own session, limits, directory, seeds, and a Landlock domain in which it can neither signal
              nor read the template and its siblings; it reports READY, answers one call and ends
    KILL      a worker, with what it started

Nothing of a worker reaches the template, which hears the host alone. It is a subreaper: a process that outlives its
worker becomes a child of the template, which ends it as soon as it sees it. Its garbage is frozen before the first
fork, so that no collection writes to the pages that all of them share.
"""

from __future__ import annotations

import _signal  # signal(2) without the enums of `signal`, whose pages each worker would copy
import ctypes
import gc
import importlib
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import struct
import sys
import traceback
from contextlib import suppress

from pysandbox.pipeline import inside

FORK = os.fork  # what a preload does with the name is its own business
LIBC = ctypes.CDLL(None, use_errno=True)
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # landlock(7), on every architecture
PATH_BENEATH, ABI_REQUEST, SCOPES = 1, 1, 3  # LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, LANDLOCK_SCOPE_SIGNAL
CLOSE_RANGE, MOST_DESCRIPTORS = 436, (1 << 32) - 1  # close_range(2), on every architecture
RIGHTS_OF_ABI_6 = (1 << 16) - 1
ON_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # all that a rule on a file may hold
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
LONGEST = 1 << 16
FOR_ANSWERS = ("dataclasses", "datetime", "decimal", "enum", "pathlib", "resource", "uuid")  # loaded once, for all
OCTAL = re.compile(rb"\\([0-7]{3})")  # a space, a tab, a line's end or a backslash in proc_pid_mountinfo(5)
OWN_OF_EACH = {"/": ("tmp", "scratch", "dev"), "/dev": ("shm", "mqueue")}  # where siblings could meet


class RefusedError(Exception):
    """This cannot be forked; the text says why."""


def call(number: int, *arguments: object) -> int:
    result: int = LIBC.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


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


# ---- the walls between workers -----------------------------------------------------------------------------------


class WorkerWalls:
    """The places that every worker has, opened once; the directory of its own is added for each."""

    def __init__(self) -> None:
        if call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(ABI_REQUEST)) < 6:
            raise RefusedError(
                "this kernel's Landlock has no scope for signals (Linux 6.12): workers could end each other"
            )
        self.rules: list[bytes] = []  # struct landlock_path_beneath_attr
        for directory, own in OWN_OF_EACH.items():
            for name in sorted(set(os.listdir(directory)) - set(own)):
                self._open(f"{directory}/{name}")
        for place in granted_below():
            self._open(place)

    def _open(self, path: str) -> None:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return
        if os.path.islink(path):
            os.close(fd)
            return
        self.rules.append(beneath(fd, RIGHTS_OF_ABI_6 if os.path.isdir(path) else ON_FILES))

    def enter(self, own: str) -> None:
        attributes = struct.pack("=QQQ", RIGHTS_OF_ABI_6, 0, SCOPES)
        ruleset = call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
        for rule in (*self.rules, beneath(os.open(own, os.O_PATH), RIGHTS_OF_ABI_6)):
            call(ADD_RULE, ruleset, PATH_BENEATH, rule, ctypes.c_uint(0))
        call(RESTRICT_SELF, ruleset, ctypes.c_uint(0))


def beneath(fd: int, rights: int) -> bytes:
    return struct.pack("=Qi", rights, fd)


def granted_below() -> list[str]:
    """What the policy shows in those places: mounts of their own, as good as those elsewhere."""
    all_own = {os.path.join(directory, name) for directory, names in OWN_OF_EACH.items() for name in names}
    own = tuple(f"{each}/" for each in all_own - OWN_OF_EACH.keys())
    with open("/proc/self/mountinfo", "rb") as file:
        points = [os.fsdecode(OCTAL.sub(lambda found: bytes([int(found[1], 8)]), line.split()[4])) for line in file]
    return [each for each in points if each.startswith(own)]


# ---- a worker ----------------------------------------------------------------------------------------------------


def work(sock: socket.socket, number: int, order: dict[str, object], walls: WorkerWalls, around: inside.Names) -> None:
    """Everything between the fork and READY; then one call. Whatever it touches is a page that it copies."""
    _signal.set_wakeup_fd(-1)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    LIBC.prctl(SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
    LIBC.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what it leaves alone stays below it while it lives
    os.setsid()
    own = f"/tmp/{number}"
    os.mkdir(own, 0o700)
    os.chdir(own)
    os.environ["HOME"] = os.environ["TMPDIR"] = own
    limit(order)
    walls.enter(own)
    drop_descriptors(sock.fileno())
    reseed()
    gc.enable()
    inside.answer_one(sock, around)


def limit(order: dict[str, object]) -> None:
    import resource

    for name in ("AS", "CPU"):
        value = int(str(order[name]))
        if value:
            most = value + (name == "CPU")  # first SIGXCPU, which says why, then SIGKILL
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, most))


def drop_descriptors(kept: int) -> None:
    """All but the three streams and this one."""
    for first, last in ((3, kept - 1), (kept + 1, MOST_DESCRIPTORS)):
        if first <= last:
            call(CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(last), ctypes.c_uint(0))


def reseed() -> None:
    """Python and OpenSSL do it by themselves for what is theirs; these do not."""
    random.seed()
    if "tempfile" in sys.modules:
        setattr(sys.modules["tempfile"], "tempdir", None)  # noqa: B010
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(list(struct.unpack("4I", os.urandom(16))))
    if "torch" in sys.modules:
        sys.modules["torch"].seed()


# ---- the template ------------------------------------------------------------------------------------------------


class ForkServer:
    def __init__(self, control: socket.socket, order: dict[str, object], walls: WorkerWalls) -> None:
        self.control, self.order, self.walls = control, order, walls
        self.around = {name: each for name, each in sys.modules.items() if "." not in name}
        self.workers: dict[int, int] = {}  # pid to number
        self.woken, waking = socket.socketpair()
        self.woken.setblocking(False)
        waking.setblocking(False)
        self.waking = waking
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)

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
            pid = FORK()
        except OSError as error:
            self.say({"exited": number, "status": -1, "why": str(error)})
            sock.close()
            return
        if not pid:
            begin(sock, number, self.order, self.walls, self.around)
        self.workers[pid] = number
        sock.close()

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
                shutil.rmtree(f"/tmp/{number}", ignore_errors=True)
                self.say({"exited": number, "status": status})
        for pid in set(children()) - self.workers.keys():  # whoever outlives its worker
            os.kill(pid, signal.SIGKILL)

    def say(self, what: dict[str, object]) -> None:
        self.control.send(json.dumps(what).encode())


def begin(sock: socket.socket, number: int, order: dict[str, object], walls: WorkerWalls, around: inside.Names) -> None:
    """Never returns: what a worker does not catch must not reach the loop of the template."""
    status = 1
    try:
        work(sock, number, order, walls, around)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    LIBC.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    order = json.loads(control.recv(LONGEST))
    try:
        walls = WorkerWalls()
        prepare(control, order)
        template = ForkServer(control, order, walls)
    except BaseException as error:
        said = str(error) if isinstance(error, RefusedError) else traceback.format_exc()[-(LONGEST // 4) :]
        control.send(json.dumps({"failed": said}).encode())
        return
    control.send(json.dumps({"ready": len(sys.modules)}).encode())
    template.serve()
