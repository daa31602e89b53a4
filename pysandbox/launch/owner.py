"""Who something on the host belongs to: a process, named so that no later process can be mistaken for it.

A pid comes round again; a pid with the time it started does not, as long as the machine runs. Both mean something in
one PID namespace only, so that is part of the name: an owner in another one (a container that shares /tmp) can be
neither found nor missed from here. Directories carry the name of their owner, records of cages hold it.
"""

from __future__ import annotations

import os

from pysandbox.launch.proctext import after_name, field
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pysandbox.errors import UnsupportedError

PARTS = 3


class Owner(NamedTuple):
    """`str` gives "namespace-pid-start", which `parse` reads."""

    namespace: int  # inode of the PID namespace
    pid: int
    start: int  # clock ticks from the machine's start to the process's

    def __str__(self) -> str:
        return "-".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        numbers = text.split("-")
        if len(numbers) != PARTS or not all(each.isascii() and each.isdigit() and len(each) < 20 for each in numbers):
            return None
        return cls(*map(int, numbers))

    @property
    def known(self) -> bool:
        """Whether this process can tell what became of that one."""
        return self.namespace == _namespace()

    @property
    def gone(self) -> bool:
        """Whether it is certain that the process has ended."""
        return self.known and _start(self.pid) != self.start


def owner_of(pid: int) -> Owner | None:
    """The process that has this pid now; None when there is none, or it is dead and only waits to be reaped."""
    start = _start(pid)
    return None if start is None else Owner(_namespace(), pid, start)


_self: Owner | None = None


def this_process() -> Owner:
    """Read once; a forked copy reads its own. Raises UnsupportedError where it may not look at itself."""
    global _self
    if _self is None or _self.pid != os.getpid():
        try:
            _self = owner_of(os.getpid())
        except PermissionError as error:
            raise _hidden(error) from None
        if _self is None:
            raise FileNotFoundError("/proc is not mounted: a process cannot be named; mount -t proc proc /proc")
    return _self


def _hidden(error: PermissionError) -> UnsupportedError:
    from pysandbox.errors import UnsupportedError

    return UnsupportedError(
        f"this process may not read {error.filename}, its own, as in a cage of isolation = \"landlock\": no cage is "
        "made inside of one",
        feature="proc", fix="start both from outside; a program that is confined already needs no second cage",
    )  # fmt: skip


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _start(pid: int) -> int | None:
    fields = stat_fields(pid)
    return None if fields is None or fields[0] in (b"Z", b"X") else field(fields, 19)


def stat_fields(pid: int, task: int | None = None) -> list[bytes] | None:
    """proc_pid_stat(5) from the state on (field 3 is [0]); None when there is no such process or thread."""
    path = f"/proc/{pid}/stat" if task is None else f"/proc/{pid}/task/{task}/stat"
    try:
        with open(path, "rb", buffering=0) as file:
            text = file.read(4096)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return after_name(text) or None
