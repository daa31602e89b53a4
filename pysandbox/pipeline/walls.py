"""A worker from its fork to its call, in the cage: what it has of its own, made so that a worker which waits owns little.

    prepare   its directory, and the ruleset of its Landlock domain: by the template, while nobody waits
    fork      fork(2) itself, and a row of system calls, each with its arguments made before: the walls
    (waits)   for its CALL, in poll(2)
    wake      what os.fork() would have done at once: the interpreter's locks, its hooks, its seeds; then the call

Every page that a worker touches it copies, and a page that it copies is one that it no longer shares. The interpreter
touches some two hundred to find itself after a fork, and a worker that waits needs none of it: it runs nothing of anybody's
before its call, and there its walls have long been there.
"""

from __future__ import annotations

import _signal  # signal(2) without the enums of `signal`, whose pages each worker would copy
import ctypes
import gc
import os
import re
import resource
import socket
import struct
import sys
import traceback

from pysandbox.pipeline import inside

LIBC = ctypes.CDLL(None, use_errno=True)
HELD = ctypes.PyDLL(None)  # calls that keep the interpreter's lock, which nobody could hand back after a fork
FORK, SYSCALL, POLL, EXIT = HELD.fork, HELD.syscall, HELD.poll, HELD._exit  # a preload may do with os.fork what it likes
BEFORE_FORK, IN_PARENT, IN_CHILD = (
    getattr(ctypes.pythonapi, f"PyOS_{each}") for each in ("BeforeFork", "AfterFork_Parent", "AfterFork_Child")
)
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # landlock(7), on every architecture
PATH_BENEATH, ABI_REQUEST, SCOPES = 1, 1, 3  # LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, LANDLOCK_SCOPE_SIGNAL
CLOSE_RANGE = 436  # close_range(2), on every architecture
MOST_DESCRIPTORS = ctypes.c_uint((1 << 32) - 1)
RIGHTS_OF_ABI_6 = (1 << 16) - 1
ON_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # all that a rule on a file may hold
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
SOCKET = 3  # the descriptor of its socket, after the three streams
OCTAL = re.compile(rb"\\([0-7]{3})")  # a space, a tab, a line's end or a backslash in proc_pid_mountinfo(5)
OWN_OF_EACH = {"/": ("tmp", "scratch", "dev"), "/dev": ("shm", "mqueue")}  # where siblings could meet


class RefusedError(Exception):
    """This cannot be forked; the text says why."""


def call(number: int, *arguments: object) -> int:
    result: int = LIBC.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def adopt_orphans() -> None:
    LIBC.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# ---- what every worker may reach ---------------------------------------------------------------------------------


class WorkerRules:
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

    def ruleset(self, own: str) -> int:
        """A descriptor. Raises OSError."""
        attributes = struct.pack("=QQQ", RIGHTS_OF_ABI_6, 0, SCOPES)
        place = os.open(own, os.O_PATH | os.O_CLOEXEC)
        try:
            made = call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
            for rule in (*self.rules, beneath(place, RIGHTS_OF_ABI_6)):
                call(ADD_RULE, made, PATH_BENEATH, rule, ctypes.c_uint(0))
        finally:
            os.close(place)
        return made


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


class Cradle:
    """Forks workers. The directory and the ruleset of the next one are made ahead."""

    def __init__(self, order: dict[str, object]) -> None:
        self._rules = WorkerRules()
        self._steps: list[tuple[object, ...]] = [
            (HELD.setsid,),
            (HELD.prctl, SET_PDEATHSIG, int(_signal.SIGKILL), 0, 0, 0),
            (HELD.prctl, SET_CHILD_SUBREAPER, 1, 0, 0, 0),  # what it leaves alone stays below it while it lives
            *limits(order),
        ]
        self._next: tuple[int, int] = (0, -1)  # its number, and its ruleset

    def prepare(self, number: int) -> None:
        """What fails here fails again, and is told, when that worker is forked."""
        try:
            self._next = (number, self._made(number))
        except OSError:
            self._next = (0, -1)

    def fork(self, number: int, sock: int, around: inside.Names) -> int:
        """Its pid. Raises OSError."""
        (prepared, ruleset), self._next = self._next, (0, -1)
        if prepared != number:
            self._drop(prepared, ruleset)
            ruleset = self._made(number)
        steps = self._of_one(number, sock, ruleset)
        parent = os.getpid()
        BEFORE_FORK()
        pid: int = FORK()
        if not pid:
            settle(steps, parent)
            live(f"/tmp/{number}", around)
        IN_PARENT()
        os.close(ruleset)
        if pid < 0:
            raise OSError("no process can be forked")
        return pid

    def _made(self, number: int) -> int:
        own = f"/tmp/{number}"
        os.mkdir(own, 0o700)
        try:
            return self._rules.ruleset(own)
        except OSError:
            os.rmdir(own)
            raise

    def _drop(self, number: int, ruleset: int) -> None:
        if ruleset >= 0:
            os.close(ruleset)
            os.rmdir(f"/tmp/{number}")

    def _of_one(self, number: int, sock: int, ruleset: int) -> list[tuple[object, ...]]:
        """The descriptors last: nothing of the template stays open."""
        return [
            *self._steps,
            (HELD.chdir, f"/tmp/{number}".encode()),
            (SYSCALL, RESTRICT_SELF, ruleset, 0),
            (HELD.dup2, sock, SOCKET),
            (SYSCALL, CLOSE_RANGE, SOCKET + 1, MOST_DESCRIPTORS, 0),
        ]


def limits(order: dict[str, object]) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for name in ("AS", "CPU"):
        value = int(str(order[name]))
        if value:
            most = value + (name == "CPU")  # first SIGXCPU, which says why, then SIGKILL
            limit = ctypes.create_string_buffer(struct.pack("=QQ", value, most))
            found.append((HELD.prlimit, 0, getattr(resource, f"RLIMIT_{name}"), limit, None))
    return found


def settle(steps: list[tuple[object, ...]], parent: int) -> None:
    """Everything between the fork and the call. Whatever it touches is a page that a waiting worker owns."""
    for step, *arguments in steps:
        if step(*arguments) < 0:  # type: ignore[operator]
            EXIT(1)
    if HELD.getppid() != parent:  # the template had ended before its worker asked to end with it
        EXIT(1)
    waiting = ctypes.create_string_buffer(struct.pack("=ihh", SOCKET, 1, 0), 8)  # struct pollfd, POLLIN
    while POLL(waiting, 1, -1) < 0:
        pass


def live(own: str, around: inside.Names) -> None:
    """Never returns: what a worker does not catch must not reach the loop of the template."""
    status = 1
    try:
        IN_CHILD()
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        os.environ["HOME"] = os.environ["TMPDIR"] = own
        reseed()
        gc.enable()
        inside.answer_call(socket.socket(fileno=SOCKET), around)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def reseed() -> None:
    """Python (`random`, by its hook of fork) and OpenSSL do it by themselves for what is theirs; these do not."""
    if "tempfile" in sys.modules:
        setattr(sys.modules["tempfile"], "tempdir", None)  # noqa: B010
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(list(struct.unpack("4I", os.urandom(16))))
    if "torch" in sys.modules:
        sys.modules["torch"].seed()
