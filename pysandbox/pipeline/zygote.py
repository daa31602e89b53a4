"""The process that workers are forked from, in the cage: it has loaded everything, and does next to nothing since then.

A page that either side of a fork writes to is copied, and a worker keeps the old one for itself alone. So what goes on
between two forks decides what a worker which waits costs; in an interpreter that reads orders and tidies up it is some
two hundred pages. Here it is a row of system calls, whose arguments are made once:

    an order, with a socket and a ruleset  ->  fork(2)  ->  BORN pid
    SIGCHLD, by signalfd(2)                ->  waitpid(2)  ->  ENDED pid, status

All else is the template's (`worker`), whose child it is. A worker begins in `enter_walls`, a row of system calls again,
and waits for its call. What os.fork() would have done at once, the interpreter's locks, hooks and seeds, is done when
that has come: until then a worker runs nothing that would need it.
"""

from __future__ import annotations

import _signal  # signal(2) without the enums of `signal`, whose pages each worker would copy
import _socket
import ctypes
import gc
import os
import resource
import socket
import struct
import sys
import traceback

from pysandbox.pipeline import calls, inside

HELD = ctypes.PyDLL(None)  # calls that keep the interpreter's lock, which nobody could hand back after a fork
FORK, SYSCALL, POLL, EXIT = (
    HELD.fork,
    HELD.syscall,
    HELD.poll,
    HELD._exit,
)  # a preload may do with os.fork what it likes
CLOSE, DUP2, SEND, WAITPID, CHDIR = HELD.close, HELD.dup2, HELD.send, HELD.waitpid, HELD.chdir
RECVMSG, READ, MASK, COPY, GETPPID = HELD.recvmsg, HELD.read, HELD.sigprocmask, HELD.memcpy, HELD.getppid
BEFORE_FORK, IN_CHILD = ctypes.pythonapi.PyOS_BeforeFork, ctypes.pythonapi.PyOS_AfterFork_Child
RESTRICT_SELF, CLOSE_RANGE = 446, 436  # landlock(7), close_range(2), on every architecture
MOST_DESCRIPTORS = ctypes.c_uint((1 << 32) - 1)
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
POLLIN, WNOHANG, NO_SIGNAL, CLOEXEC = 1, 1, 0x4000, 0x40000000
SOCKET = 3  # the descriptor of a worker's socket, after the three streams
BORN, ENDED = 1, 2
TOLD = struct.Struct("=iii")  # BORN, pid (-1: there was none), 0; ENDED, pid, wait status
LONGEST_PATH = 64  # of "/tmp/N"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    Step = tuple[Callable[..., int], tuple[object, ...]]  # a system call and its arguments


def adopt_orphans() -> None:
    HELD.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def send_order(zygote: socket.socket, own: str, sock: int, ruleset: int) -> None:
    """Raises OSError."""
    calls.send_with(zygote, own.encode() + b"\0", [sock, ruleset])


def limits(order: dict[str, object]) -> list[Step]:
    """As steps of `enter_walls`."""
    found: list[Step] = []
    for name in ("AS", "CPU"):
        value = int(str(order[name]))
        if value:
            most = value + (name == "CPU")  # first SIGXCPU, which says why, then SIGKILL
            found.append(_limit(getattr(resource, f"RLIMIT_{name}"), value, most))
    half = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2  # so none can put as many on their way as stop a template
    return [*found, _limit(resource.RLIMIT_NOFILE, half, half)]


def _limit(which: int, soft: int, hard: int) -> Step:
    return HELD.prlimit, (0, which, ctypes.create_string_buffer(struct.pack("=QQ", soft, hard), 16), None)


class Zygote:
    """Everything that its loop touches, made before the first fork."""

    def __init__(
        self, sock: socket.socket, order: dict[str, object], around: inside.Names, hooks: SparedHooks
    ) -> None:  # fmt: skip
        self.sock, self.around, self.hooks = sock.fileno(), around, hooks
        _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD,))
        self.no_signals = ctypes.create_string_buffer(128)
        chld = ctypes.create_string_buffer(128)
        HELD.sigaddset(chld, int(_signal.SIGCHLD))
        self.signals: int = HELD.signalfd(-1, chld, os.O_CLOEXEC | os.O_NONBLOCK)
        self.polled = ctypes.create_string_buffer(
            struct.pack("=ihhihh", self.sock, POLLIN, 0, self.signals, POLLIN, 0), 16
        )
        self.is_ordered, self.has_ended = (ctypes.c_short.from_buffer(self.polled, at) for at in (6, 14))
        self.path = ctypes.create_string_buffer(LONGEST_PATH)
        self.rights = ctypes.create_string_buffer(24)  # struct cmsghdr, and two descriptors
        self.given, self.ruleset = (ctypes.c_int.from_buffer(self.rights, at) for at in (16, 20))
        self.pieces = ctypes.create_string_buffer(struct.pack("@PN", ctypes.addressof(self.path), LONGEST_PATH - 1), 16)
        self.empty = struct.pack(
            "@PIPNPNi4x", 0, 0, ctypes.addressof(self.pieces), 1, ctypes.addressof(self.rights), 24, 0
        )
        self.message = ctypes.create_string_buffer(len(self.empty))  # struct msghdr
        self.told = (ctypes.c_int * 3)()
        self.status = ctypes.c_int.from_buffer(self.told, 8)
        self.drained = ctypes.create_string_buffer(1024)
        self.waiting = ctypes.create_string_buffer(struct.pack("=ihh", SOCKET, POLLIN, 0), 8)
        self.pid = os.getpid()
        self.steps: list[Step] = [
            (HELD.setsid, ()),
            (HELD.prctl, (SET_PDEATHSIG, int(_signal.SIGKILL), 0, 0, 0)),
            (HELD.prctl, (SET_CHILD_SUBREAPER, 1, 0, 0, 0)),  # what it leaves alone stays below it while it lives
            (MASK, (_signal.SIG_SETMASK, self.no_signals, None)),
            *limits(order),
        ]

    def serve(self) -> None:
        """Until the template is gone. Returns in a worker alone, whose call has come."""
        self.hooks.are_spared = True
        BEFORE_FORK()  # once: it is always about to fork
        while True:
            if POLL(self.polled, 2, -1) < 0:
                continue
            if self.has_ended.value:
                READ(self.signals, self.drained, 1024)
                self.tell_endings()
            if self.is_ordered.value and self.fork():
                return

    def tell_endings(self) -> None:
        while (pid := WAITPID(-1, ctypes.byref(self.status), WNOHANG)) > 0:
            self.tell(ENDED, pid)

    def tell(self, what: int, pid: int) -> None:
        self.told[0], self.told[1] = what, pid
        SEND(self.sock, self.told, 12, NO_SIGNAL)

    def fork(self) -> bool:
        """Whether this is the worker."""
        COPY(self.message, self.empty, len(self.empty))
        count = RECVMSG(self.sock, self.message, CLOEXEC)
        if count <= 0:
            EXIT(0)
        pid: int = FORK()
        if not pid:
            self.enter_walls()
            return True
        CLOSE(self.given.value)
        CLOSE(self.ruleset.value)
        self.tell(BORN, pid)
        return False

    def enter_walls(self) -> None:
        """Everything between the fork and the call. Whatever it touches is a page that a waiting worker owns."""
        for step, arguments in self.steps:
            if step(*arguments) < 0:
                EXIT(1)
        if CHDIR(self.path) < 0 or SYSCALL(RESTRICT_SELF, self.ruleset.value, 0) < 0:
            EXIT(1)
        if DUP2(self.given.value, SOCKET) < 0 or SYSCALL(CLOSE_RANGE, SOCKET + 1, MOST_DESCRIPTORS, 0) < 0:
            EXIT(1)
        if GETPPID() != self.pid:  # it had ended before its worker asked to end with it
            EXIT(1)
        while POLL(self.waiting, 1, -1) < 0:
            pass


def run(sock: socket.socket, order: dict[str, object], around: inside.Names, hooks: SparedHooks) -> None:
    """In the child that is to be the zygote. Never returns: what is not caught must not reach the template's loop."""
    status = 1
    try:
        HELD.prctl(SET_PDEATHSIG, int(_signal.SIGKILL), 0, 0, 0)
        HELD.prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)  # what outlives a worker becomes the template's
        for first, last in ((SOCKET, sock.fileno() - 1), (sock.fileno() + 1, (1 << 32) - 1)):
            if first <= last:
                SYSCALL(CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(last), 0)
        zygote = Zygote(sock, order, around, hooks)
        zygote.serve()
        answer(zygote)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        EXIT(status)


class SparedHooks:
    """Hooks of fork that make locks anew which other threads may have held, those of the standard library. Between the
    zygote, which has one thread, and its workers there is nothing to make anew, and to do it takes a quarter of the
    pages that a worker copies. Every other fork has them: of a preload, and of what a worker runs."""

    OF = frozenset(("logging", "threading"))

    def __init__(self) -> None:
        self.are_spared = False
        self._register = os.register_at_fork

    def __enter__(self) -> Self:
        os.register_at_fork = self.register  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        os.register_at_fork = self._register

    def register(self, **hooks: Callable[[], object]) -> None:
        """For os.register_at_fork."""
        if any(getattr(hook, "__module__", None) in self.OF for hook in hooks.values()):
            hooks = {when: self._unless_spared(hook) for when, hook in hooks.items()}
        self._register(**hooks)

    def _unless_spared(self, hook: Callable[[], object]) -> Callable[[], object]:
        return lambda: None if self.are_spared else hook()


def answer(zygote: Zygote) -> None:
    """A worker, from its call to its answer."""
    IN_CHILD()
    zygote.hooks.are_spared = False
    if "threading" in sys.modules:
        sys.modules["threading"].main_thread()._set_native_id()
    _signal.set_wakeup_fd(-1)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    os.environ["HOME"] = os.environ["TMPDIR"] = zygote.path.value.decode()
    reseed()
    gc.enable()
    inside.answer_call(_socket.socket(fileno=SOCKET), zygote.around)


def reseed() -> None:
    """Python (`random`, by its hook of fork) and OpenSSL do it by themselves for what is theirs; these do not."""
    if "tempfile" in sys.modules:
        setattr(sys.modules["tempfile"], "tempdir", None)  # noqa: B010
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(list(struct.unpack("4I", os.urandom(16))))
    if "torch" in sys.modules:
        sys.modules["torch"].seed()
