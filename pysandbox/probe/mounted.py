"""What is mounted below a directory (proc_pid_mountinfo(5), and by numbers, since a path may be mounted over), what it
lies on, and what of that root gives to no cage."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from errno import EIO

from pysandbox.errors import StartError
from pysandbox.policy.below import covers
from pysandbox.probe import kernel
from pysandbox.probe.file_systems import of_magic

MOUNTS = "/proc/self/mountinfo"
# Whoever has root's id sets the kernel through these, without any capability.
OF_THE_KERNEL = frozenset(
    b"binfmt_misc bpf cgroup cgroup2 configfs debugfs efivarfs fusectl nfsd proc pstore resctrl rpc_pipefs securityfs "
    b"selinuxfs smackfs sysfs tracefs xenfs".split()
)
ESCAPED = re.compile(rb"\\([0-7]{3})")  # as the kernel writes a space, a tab, a newline or a backslash


def find_mounts_below(trees: Iterable[str]) -> tuple[str, ...]:
    """The mount points inside these directories (real paths) that are mounted on what each of them lies on. Where
    /proc tells nothing, there are none."""
    wanted = [(tree, number) for tree in trees if (number := _mount_of(tree)) is not None]
    found: dict[str, None] = {}
    if not wanted:
        return ()
    with suppress(OSError), open(MOUNTS, "rb") as file:
        for line in file:
            fields = line.split(b" ", 5)
            above, place = int(fields[1]), os.fsdecode(unescaped(fields[4]))
            if any(above == number and place != tree and covers(tree, place) for tree, number in wanted):
                found[place] = None
    return tuple(found)


def find_not_for_root(trees: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The real paths among these that lie on, or hold, what only root may set of the kernel, or what another user
    answers for; with why. Raises StartError: of what cannot be looked at, nobody knows."""
    wanted = [(tree, _mount_of(tree)) for tree in trees]
    found: dict[str, str] = {}
    if not wanted:
        return ()
    try:
        with open(MOUNTS, "rb") as file:
            lines = file.readlines()
    except OSError as error:
        raise StartError("idmap", error.errno or EIO, MOUNTS) from None
    for line in lines:
        why, number, place = _why_not_for_root(line), int(line.split(b" ", 1)[0]), unescaped(line.split(b" ", 5)[4])
        at = os.fsdecode(place)
        for tree, lies_on in wanted:
            if why and (number == lies_on or covers(tree, at)):
                found.setdefault(tree, f"{at!r} is {why}")
    return tuple(found.items())


def _why_not_for_root(line: bytes) -> str:
    kind, _, options = line.partition(b" - ")[2].rstrip().split(b" ", 2)
    if kind in OF_THE_KERNEL:
        return f"an interface to the kernel ({kind.decode()})"
    owner = next((each[8:] for each in options.split(b",") if each.startswith(b"user_id=")), b"0")
    return f"a file system that user {owner.decode()} answers for" if kind.startswith(b"fuse") and owner != b"0" else ""


def find_not_overlaid(trees: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The directories (real paths) that no overlay can be laid over, with the name of their file system.
    What cannot be opened is left to whoever takes it."""
    found = []
    for tree in trees:
        with suppress(OSError):
            fd = os.open(tree, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                kind = of_magic(kernel.file_system(fd))
            finally:
                os.close(fd)
            if not kind.takes_overlay:
                found.append((tree, kind.name))
    return tuple(found)


def unescaped(text: bytes) -> bytes:
    return ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), text)


def _mount_of(path: str) -> int | None:
    """The number of the mount that a path lies on."""
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
            return next((int(line[7:]) for line in file if line.startswith(b"mnt_id:")), None)
    except OSError:
        return None
    finally:
        os.close(fd)
