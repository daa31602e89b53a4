"""What the workers of a template may reach, in the cage: a Landlock domain for each, and a directory of its own in it.

In its domain a worker can neither signal nor read the template and its siblings. The template opens the places that all
of them have once, and makes directory and ruleset of the next worker while nobody waits.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import time
from contextlib import suppress

LIBC = ctypes.CDLL(None, use_errno=True)
CREATE_RULESET, ADD_RULE = 444, 445  # landlock(7), on every architecture
PATH_BENEATH, ABI_REQUEST, SCOPES = 1, 1, 3  # LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, LANDLOCK_SCOPE_SIGNAL
RIGHTS_OF_ABI_6 = (1 << 16) - 1
TO_READ = 1 << 0 | 1 << 2 | 1 << 3  # EXECUTE, READ_FILE, READ_DIR
ON_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # all that a rule on a file may hold
OCTAL = re.compile(rb"\\([0-7]{3})")  # a space, a tab, a line's end or a backslash in proc_pid_mountinfo(5)
READ_ALONE = frozenset(("/proc",))  # /proc/PID of a sibling has files to write to: oom_score_adj, comm, timerslack_ns
SET_SECCOMP, MODE_FILTER = 22, 2  # prctl(2)
OWN_OF_EACH = {"/": ("tmp", "scratch", "dev"), "/dev": ("shm", "mqueue", "pts")}  # where siblings could meet
REMOVING_SECONDS = 2.0  # until what a worker has left stays where it is: the template hears nobody meanwhile


class RefusedError(Exception):
    """This cannot be forked; the text says why."""


def call(number: int, *arguments: object) -> int:
    result: int = LIBC.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class WorkerRules:
    """The places that every worker has, opened once; the directory of its own is added for each."""

    def __init__(self) -> None:
        self._of_the_cage = os.lstat("/").st_dev
        if call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(ABI_REQUEST)) < 6:
            raise RefusedError(
                "this kernel's Landlock has no scope for signals (Linux 6.12): workers could end each other"
            )
        self.rules: list[bytes] = []  # struct landlock_path_beneath_attr
        for directory, own in OWN_OF_EACH.items():
            for name in sorted(set(os.listdir(directory)) - set(own)):
                self._open(os.path.join(directory, name))
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
        is_shared = path in READ_ALONE or os.lstat(path).st_dev == self._of_the_cage  # /var/tmp, a home: of all workers
        of_directory = TO_READ if is_shared else RIGHTS_OF_ABI_6
        self.rules.append(beneath(fd, of_directory if os.path.isdir(path) else ON_FILES))

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


def install_filter(program: bytes) -> None:
    """In this process and all that it forks. Raises RefusedError."""
    instructions = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))  # struct sock_fprog
    if LIBC.prctl(SET_SECCOMP, MODE_FILTER, described, 0, 0) < 0:
        raise RefusedError(
            f"workers cannot be kept from their siblings by a filter: {os.strerror(ctypes.get_errno())}; "
            "let the policy allow prctl"
        )


def granted_below() -> list[str]:
    """What the policy shows: mounts of their own, also below what is the cage's and every worker's to read."""
    not_granted = {"/", *(os.path.join(at, name) for at, names in OWN_OF_EACH.items() for name in names)}
    with open("/proc/self/mountinfo", "rb") as file:
        points = [os.fsdecode(OCTAL.sub(lambda found: bytes([int(found[1], 8)]), line.split()[4])) for line in file]
    return sorted(each for each in {*points} - not_granted if not f"{each}/".startswith("/proc/"))


class OwnPlaces:
    """The directory and the ruleset of each worker; those of the next one are made ahead."""

    def __init__(self) -> None:
        self._rules = WorkerRules()
        self._ahead: tuple[int, int] = (0, -1)  # its number, and its ruleset

    def prepare(self, number: int) -> None:
        """What fails here fails again, and is told, when that worker is wanted."""
        try:
            self._ahead = (number, self._made(number))
        except OSError:
            self._ahead = (0, -1)

    def take(self, number: int) -> int:
        """The ruleset of a worker, which the caller closes. Raises OSError."""
        (prepared, ruleset), self._ahead = self._ahead, (0, -1)
        if prepared == number:
            return ruleset
        if ruleset >= 0:
            os.close(ruleset)
            remove(own_place(prepared))
        return self._made(number)

    def _made(self, number: int) -> int:
        own = own_place(number)
        os.mkdir(own, 0o700)
        try:
            return self._rules.ruleset(own)
        except OSError:
            os.rmdir(own)
            raise


def own_place(number: int) -> str:
    return f"/tmp/{number}"


def remove(own: str) -> None:
    """As far as it can be; not for longer than REMOVING_SECONDS."""
    try:
        os.rmdir(own)  # most leave it empty
    except OSError:
        with suppress(OSError):
            empty(own)
            os.rmdir(own)


def empty(own: str) -> None:
    """However deep it is, and without recursion: what lies in a directory is moved up, until that is empty. No link is
    followed: whoever has outlived the worker may still put one there. Raises OSError."""
    until = time.monotonic() + REMOVING_SECONDS
    top = _opened(own)
    try:
        while (names := os.listdir(top)) and time.monotonic() < until:
            for name in names:
                try:
                    os.unlink(name, dir_fd=top)
                except IsADirectoryError:
                    _move_up(name, top)
    finally:
        os.close(top)


def _move_up(name: str, top: int) -> None:
    fd = _opened(name, top)
    try:
        for each in os.listdir(fd):
            try:
                os.unlink(each, dir_fd=fd)
            except IsADirectoryError:
                os.close(_opened(each, fd))  # one that may not be written cannot be moved
                os.rename(each, os.urandom(8).hex(), src_dir_fd=fd, dst_dir_fd=top)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=top)


def _opened(name: str, at: int | None = None) -> int:
    """A directory, whatever its mode was. Raises OSError."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)
        return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(found)
