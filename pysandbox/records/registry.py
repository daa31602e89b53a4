"""The records of live cages: one small file for each, so that other processes of this user can see and reach them.

They lie in $XDG_RUNTIME_DIR/pysandbox or /run/user/UID/pysandbox, else in /tmp/pysandbox-UID, and where somebody else
has taken that name, or nothing can be written there, in ~/.local/state/pysandbox/cages: a directory of mode 0700 that
is checked (owner, mode, no symlink) at every use and that no cage is ever shown (`private_paths` are denied inside of
every grant). A record says what was true when it was written; whoever acts on one looks first whether the process in it
still is the cage-init that it was (`is_live`), and signals it through a pidfd only.
"""

from __future__ import annotations

import os
import stat
from contextlib import AbstractContextManager, suppress

from pysandbox.launch.owner import Owner
from pysandbox.launch.private import is_private, make_private, naming, opened_private
from pysandbox.shapes import Any, asdict, dataclass

SUFFIX = ".json"
LARGEST = 16384  # bytes of a record
LONGEST_ARGV = 4096  # bytes of the command line that are kept
INIT_CMDLINE = b"cage-init\0"  # argv of every cage-init (csrc/setup/become_init.c)
TEMPORARY = "/tmp"
ELSEWHERE = "set XDG_RUNTIME_DIR to a directory that is yours alone"


@dataclass(frozen=True, slots=True)
class CageRecord:
    """One live cage. `argv` is empty for a session; `host` holds the cage open: when it ends, so does the cage."""

    id: str
    init: Owner
    host: Owner
    argv: tuple[str, ...]
    digest: str
    started: float  # seconds since the epoch
    cgroup: str = ""
    scratch: str = ""
    detached: bool = False
    key: str = ""  # of a detached cage: who knows it may talk to the shim

    @property
    def is_live(self) -> bool:
        """Whether cage-init runs. A name in a record proves nothing: the process must look like one, too."""
        return not self.init.gone and self.init.known and _cmdline(self.init.pid) == INIT_CMDLINE


def private_directory() -> str:
    """Where the records are; it may not exist yet."""
    for runtime in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"):
        if runtime.startswith("/"):
            with suppress(OSError):
                if os.stat(runtime).st_uid == os.geteuid() and os.access(runtime, os.W_OK | os.X_OK):
                    return os.path.join(os.path.realpath(runtime), "pysandbox")
    shared = f"{TEMPORARY}/pysandbox-{os.geteuid()}"
    return shared if _may_be_ours(shared) else _at_home() or shared


def _may_be_ours(path: str) -> bool:
    """Anybody may have made something of that name there; and a /tmp may be read-only."""
    try:
        found = os.lstat(path)
    except OSError:
        return os.access(TEMPORARY, os.W_OK | os.X_OK)
    return stat.S_ISDIR(found.st_mode) and is_private(found) and os.access(path, os.W_OK | os.X_OK)


def _at_home() -> str:
    """Empty where there is no home directory of ours."""
    from pysandbox.policy.user_home import home

    with suppress(OSError):
        if os.stat(home()).st_uid == os.geteuid():
            folder = os.path.join(os.path.realpath(home()), ".local", "state", "pysandbox", "cages")
            make_private(os.path.dirname(folder))
            return folder
    return ""


def private_paths() -> tuple[str, ...]:
    """What no cage may be shown: the directory, which is made if it can be, and those that this user's programs have
    which were started with another environment (a cron job has no XDG_RUNTIME_DIR). Not where something else has the
    name, which then gets no record and is no business of ours."""
    path = private_directory()
    with suppress(OSError):
        os.mkdir(path, 0o700)
    user = os.geteuid()
    private = []
    for each in dict.fromkeys((path, *_by_user(user))):
        with suppress(OSError):
            found = os.lstat(each)
            if stat.S_ISDIR(found.st_mode) and found.st_uid == user and (each == path or not found.st_mode & 0o077):
                private.append(each)
    return tuple(private)


def _by_user(user: int) -> tuple[str, str]:
    return f"/run/user/{user}/pysandbox", f"{TEMPORARY}/pysandbox-{user}"


def asked_paths() -> tuple[str, ...]:
    """The names on which it depends what `private_paths` says, beside what it says."""
    runtime, user = os.environ.get("XDG_RUNTIME_DIR", ""), os.geteuid()
    given = (runtime, f"{runtime}/pysandbox") if runtime.startswith("/") else ()
    return (*given, f"/run/user/{user}", *_by_user(user))


def opened(*, make: bool = False) -> AbstractContextManager[int]:
    """A descriptor of the directory. Raises FileNotFoundError, PermissionError when it is not ours alone."""
    return opened_private(private_directory(), make=make, elsewhere=ELSEWHERE)


def write(record: CageRecord) -> None:
    """Adds or replaces a record: it appears whole or not at all. Raises OSError."""
    from json import dumps

    data = dumps(asdict(record)).encode()
    name, fresh = f"{record.id}{SUFFIX}", f".{record.id}"
    with naming(private_directory(), ELSEWHERE), opened(make=True) as folder:
        write_whole(folder, fresh, data)
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)


def write_whole(folder: int, fresh: str, data: bytes) -> None:
    """A new file with all of it, or none: a disk that is full, and a limit on the size of files, take the beginning of
    what is written. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd, size = os.open(fresh, flags, 0o600, dir_fd=folder), len(data)
    try:
        while data:
            data = data[os.write(fd, data) :]
        os.ftruncate(fd, size)  # only now: what the file holds is room that nobody else can take
    except OSError as error:
        os.unlink(fresh, dir_fd=folder)
        raise OSError(error.errno, error.strerror, fresh) from None
    finally:
        os.close(fd)


def remove(cage_id: str) -> None:
    """Idempotent. Raises OSError when the directory is no longer ours."""
    with suppress(FileNotFoundError), opened() as folder:
        os.unlink(f"{cage_id}{SUFFIX}", dir_fd=folder)


def read(cage_id: str) -> CageRecord | None:
    """The record of this very id, None where there is none or it cannot be read."""
    with suppress(FileNotFoundError), opened() as folder:
        return _read(folder, f"{cage_id}{SUFFIX}")
    return None


def records() -> list[CageRecord]:
    """All that can be read, by age; the dead ones too. Raises PermissionError when the directory is not ours alone."""
    with suppress(FileNotFoundError), opened() as folder:
        found = (_read(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(SUFFIX))
        return [record for record in found if record is not None]
    return []


def live() -> list[CageRecord]:
    """The records of cages that run."""
    return [record for record in records() if record.is_live]


def shortened(argv: tuple[str, ...]) -> tuple[str, ...]:
    """As much of a command line as a record keeps."""
    kept: list[str] = []
    room = LONGEST_ARGV
    for each in argv:
        if room <= 0:
            return (*kept, "...")
        text = each.encode(errors="replace")[:room].decode(errors="ignore")
        kept.append(text)
        room -= len(text.encode()) + 1
    return tuple(kept)


def _read(folder: int, name: str) -> CageRecord | None:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return parse(os.read(fd, LARGEST + 1), name.removesuffix(SUFFIX))
    finally:
        os.close(fd)


def parse(data: bytes, cage_id: str) -> CageRecord | None:
    """A record from its text, which must be of this id; None for anything else."""
    from json import loads

    try:
        values: dict[str, Any] = loads(data)
        values["init"], values["host"] = Owner(*map(int, values["init"])), Owner(*map(int, values["host"]))
        values["argv"] = tuple(map(str, values["argv"]))
        record = CageRecord(**values)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = (record.id, record.digest, record.cgroup, record.scratch, record.key)
    sound = all(isinstance(each, str) for each in texts) and isinstance(record.started, (int, float))
    return record if sound and record.id == cage_id else None


def _cmdline(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            return file.read(64)
    except OSError:
        return b""
