"""What hosts that were killed have left behind, and cages that were made to outlive theirs: found, told, removed only
on request (T46, LIFE-07).

The kernel ends the processes of a host that dies; files stay. Scratch directories and cgroups carry their owner in the
name, records in their text, so that what is in use by another host of this user is never taken for a leftover. What
belongs to another PID namespace cannot be judged from here and is not listed.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pysandbox.descriptors.polling import is_over
from pysandbox.launch.owner import Owner
from pysandbox.launch.removal import remove_below, remove_tree
from pysandbox.launch.scratch import PREFIX, scratch_parent, temporary_directory
from pysandbox.live import layers, processes
from pysandbox.records import registry
from pysandbox.records.registry import CageRecord, private_directory
from pysandbox.shapes import Literal, dataclass

Kind = Literal["detached", "cage", "record", "scratch", "cgroup", "spool", "commit", "layers"]
CGROUP_ROOTS = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
END_PATIENCE = 10.0  # seconds
TOLD = "told"  # beside the records: which leftovers the trail has already
SPOOL = ".spool"  # a detached cage's directory, beside its record


@dataclass(frozen=True, slots=True)
class Orphan:
    """One thing. `detached`: a cage that was told to outlive its host; `cage`: one that should not have; `commit`: of a
    workspace, interrupted (`workspace.recovery`); `layers`: what a cage wrote to copy-on-write directories on disk."""

    kind: Kind
    path: str  # the record's for a cage
    id: str = ""  # of the cage, where it is known
    pid: int = 0  # of cage-init, where it runs
    owner: int = 0  # pid of the host that made it
    detail: str = ""


def find_orphans() -> tuple[Orphan, ...]:
    """Everything of this user; reads only. Raises PermissionError when the registry is not this user's alone."""
    known = registry.records()
    return (*_cages(known), *_spools(known), *_scratches(), *_layers(), *_cgroups(known))


def remove(orphan: Orphan) -> None:
    """Ends a cage that still runs, removes anything else but a commit (`workspace.recovery.give_up`). What has gone
    meanwhile is no error. Raises OSError."""
    REMOVERS[orphan.kind](orphan)


def sweep() -> tuple[Orphan, ...]:
    """Removes the records that stand for nothing any more; gives the orphans that are left."""
    left = []
    for orphan in find_orphans():
        if orphan.kind == "record" and not orphan.detail:
            registry.remove(orphan.id)
        else:
            left.append(orphan)
    return tuple(left)


def untold(found: tuple[Orphan, ...]) -> list[Orphan]:
    """What no host of this user has told of yet; from now on it is told. Where that cannot be remembered, all
    of them."""
    keys = {f"{each.kind} {each.path} {each.id} {each.pid}": each for each in found}
    try:
        with registry.opened() as folder:
            before = set(_cgroups_in(folder))
            if before != keys.keys():
                _remember(folder, sorted(keys))
    except OSError:
        return list(found)
    return [each for key, each in keys.items() if key not in before]


def _cgroups_in(folder: int) -> list[str]:
    try:
        fd = os.open(TOLD, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return []
    with open(fd, encoding="utf-8", errors="surrogateescape") as stream:
        return [str(each) for each in stream.read().split("\0") if each]


def _remember(folder: int, keys: list[str]) -> None:
    draft = f"{TOLD}.{os.getpid()}"
    registry.write_whole(folder, draft, "\0".join(keys).encode(errors="surrogateescape"))
    os.replace(draft, TOLD, src_dir_fd=folder, dst_dir_fd=folder)


def remove_spool(cage_id: str) -> None:
    """The directory of a detached cage: its socket, its output, how it ended."""
    with suppress(FileNotFoundError), registry.opened() as folder:
        remove_below(folder, f"{cage_id}{SPOOL}")


def _cages(known: list[CageRecord]) -> Iterator[Orphan]:
    for record in known:
        kind = _kind(record)
        if kind is not None:
            path = os.path.join(private_directory(), f"{record.id}{registry.SUFFIX}")
            pid = 0 if kind == "record" else record.init.pid
            detail = _what_hangs_on(record) if kind == "record" else " ".join(record.argv)
            yield Orphan(kind, path, record.id, pid, record.host.pid, detail)


def _kind(record: CageRecord) -> Kind | None:
    """None for the cage of a host that lives, and for what cannot be judged from here."""
    if record.is_live:
        return "detached" if record.detached else "cage" if record.host.gone else None
    return "record" if record.host.gone else None


def _what_hangs_on(record: CageRecord) -> str:
    """What is still there of what a dead record names; empty when it may go unasked."""
    left = [path for path in (record.scratch, record.cgroup) if path and os.path.isdir(path)]
    return ", ".join(left)


def _spools(known: list[CageRecord]) -> Iterator[Orphan]:
    """Output and outcome of detached cages that have ended, and that nobody has closed."""
    running = {record.id for record in known if not record.host.gone}
    with suppress(FileNotFoundError), registry.opened() as folder:
        for name in sorted(os.listdir(folder)):
            cage_id = name.removesuffix(SPOOL)
            if name.endswith(SPOOL) and cage_id not in running:
                yield Orphan("spool", os.path.join(private_directory(), name), cage_id, detail="it has ended")


def _scratches() -> Iterator[Orphan]:
    for parent in sorted({os.path.realpath(place) for place in (scratch_parent(), temporary_directory())}):
        with suppress(OSError):
            for entry in os.scandir(parent):
                owner = _named_owner(entry.name)
                if owner is not None and owner.gone and _is_ours(entry.path):
                    yield Orphan("scratch", entry.path, owner=owner.pid)


def _layers() -> Iterator[Orphan]:
    with suppress(PermissionError):
        for each in layers.find_left():
            yield Orphan("layers", each.path, detail="it goes with the next cage that has copy-on-write directories")


def _named_owner(name: str) -> Owner | None:
    """From "pysandbox-namespace-pid-start-anything"."""
    return Owner.parse("-".join(name.removeprefix(PREFIX).split("-")[:3])) if name.startswith(PREFIX) else None


def _is_ours(path: str) -> bool:
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _cgroups(known: list[CageRecord]) -> Iterator[Orphan]:
    """Named by a dead record, or for an owner that is gone, below our own cgroup; empty ones only."""
    dead = {record.cgroup: record for record in known if record.cgroup and not record.is_live and record.host.gone}
    for path in sorted({*dead, *_below_our_cgroup()}):
        owner = dead[path].host if path in dead else _named_owner(os.path.basename(path))
        if owner is not None and owner.gone and os.path.basename(path).startswith(PREFIX) and _is_empty_cgroup(path):
            yield Orphan("cgroup", path, owner=owner.pid)


def _below_our_cgroup() -> set[str]:
    root = next((each for each in CGROUP_ROOTS if os.path.exists(f"{each}/cgroup.controllers")), "")
    with suppress(OSError), open("/proc/self/cgroup", encoding="utf-8") as file:
        own = next((line[3:].strip() for line in file if line.startswith("0::")), None)
        if root and own is not None:
            return {entry.path for entry in os.scandir(root + own.rstrip("/")) if entry.name.startswith(PREFIX)}
    return set()


def _is_empty_cgroup(path: str) -> bool:
    with suppress(OSError), open(f"{path}/cgroup.events", encoding="utf-8") as file:
        return "populated 0" in file.read() and any(path.startswith(root) for root in CGROUP_ROOTS)
    return False


def _end(orphan: Orphan) -> None:
    """SIGKILL to cage-init: the cage goes with it, then its shim, which leaves the output. Never to a process that
    has come by its pid."""
    record = registry.read(orphan.id)
    if record is None or not record.is_live:
        return
    with _pinned(record.init) as init, _pinned(record.host) as host:
        if init is not None:
            signal.pidfd_send_signal(init, signal.SIGKILL)
        for pidfd in (init, host if record.detached else None):
            if pidfd is not None and not is_over(pidfd, END_PATIENCE):
                raise TimeoutError(errno.ETIMEDOUT, "it was killed and does not end", orphan.path)
    if record.detached:
        remove_spool(orphan.id)


def _remove_cgroup(orphan: Orphan) -> None:
    with suppress(FileNotFoundError):
        os.rmdir(orphan.path)  # EBUSY while something runs in it


REMOVERS: dict[Kind, Callable[[Orphan], object]] = {
    "detached": _end,
    "cage": _end,
    "record": lambda orphan: registry.remove(orphan.id),
    "spool": lambda orphan: remove_spool(orphan.id),
    "scratch": lambda orphan: remove_tree(orphan.path),
    "layers": lambda orphan: layers.remove_left(os.path.basename(orphan.path)),
    "cgroup": _remove_cgroup,
}


@contextmanager
def _pinned(owner: Owner) -> Iterator[int | None]:
    pidfd = processes.pin(owner)
    try:
        yield pidfd
    finally:
        if pidfd is not None:
            os.close(pidfd)
