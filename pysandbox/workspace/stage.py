"""Writing what a commit brings beside its place in the tree, under names that nothing else has.

Every directory is opened below the tree's own descriptor without following a link; every name is made anew (O_EXCL).
Nothing is in its place yet: what fails here is removed again.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pysandbox.launch.contents import copy_content
from pysandbox.launch.removal import remove_below
from pysandbox.shapes import NamedTuple
from pysandbox.workspace.changes import Change
from pysandbox.workspace.content import open_lower
from pysandbox.workspace.journal import Move, Trait
from pysandbox.workspace.moves import Moved, Places, identity, inode, joined, look_below, naming
from pysandbox.workspace.plan import SPARE, Step, mode_of
from pysandbox.workspace.upper import Upper
from pysandbox.workspace.walk import attributes_of

ACCESS = "system.posix_acl_access"
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Source(NamedTuple):
    """Where the bytes come from: the upper, unless `contents` has others for a path (chosen hunks)."""

    upper: Upper
    contents: Mapping[str, bytes]


def stage_all(source: Source, steps: Sequence[Step], moves: Sequence[Move], where: Places) -> list[Move]:
    """The moves with what is known of each now. Raises Moved, OSError."""
    links: dict[tuple[int, int], str] = {}
    found: list[Move] = []
    for step, move in zip(steps, moves, strict=True):
        fd = where.place(move)
        if move.kind != "take":
            _stage(source, step, move, where, links)
            fd = where.place(move)
            move = move._replace(staged_id=identity(fd, move.staged))
        if move.kind != "put":
            move = move._replace(old_id=identity(fd, move.name), below=_below(fd, move, step.change))
        found.append(move)
    return found


def _below(fd: int, move: Move, change: Change) -> tuple[int, int] | None:
    was_directory = change.before is not None and change.before.kind == "dir"
    return look_below(fd, move.name) if was_directory else None


def _stage(source: Source, step: Step, move: Move, where: Places, links: dict[tuple[int, int], str]) -> None:
    top = joined(move.directory, move.staged)
    _write(source, step.change, top, where, links)
    folders = [(top, step.change)] if step.change.after is not None and step.change.after.kind == "dir" else []
    for each in step.inside:
        place = top + each.path[len(step.path) :]
        _write(source, each, place, where, links)
        if each.after is not None and each.after.kind == "dir":
            folders.append((place, each))
    for place, change in reversed(folders):
        _finish_directory(change, place, where)


def _write(source: Source, change: Change, place: str, where: Places, links: dict[tuple[int, int], str]) -> None:
    above, _, name = place.rpartition("/")
    fd, after = where.open(above), change.after
    assert after is not None
    if after.kind == "dir":
        os.mkdir(name, 0o700, dir_fd=fd)
    elif after.kind == "symlink":
        os.symlink(source.upper.readlink(os.fsencode(change.path)), os.fsencode(name), dir_fd=fd)
        os.utime(name, ns=(after.mtime_ns, after.mtime_ns), dir_fd=fd, follow_symlinks=False)
    elif (first := links.get((after.dev, after.ino))) and change.path not in source.contents:
        _link(where, first, fd, name)
    else:
        _write_file(source, change, fd, name)
        if after.nlink > 1 and change.path not in source.contents:
            links[after.dev, after.ino] = place


def _link(where: Places, first: str, fd: int, name: str) -> None:
    """A second name of a file that was staged before, in whichever directory."""
    above, _, old = first.rpartition("/")
    held = os.dup(fd)
    try:
        os.link(old, name, src_dir_fd=where.open(above), dst_dir_fd=held, follow_symlinks=False)
    finally:
        os.close(held)


def _write_file(source: Source, change: Change, fd: int, name: str) -> None:
    after, path = change.after, os.fsencode(change.path)
    assert after is not None
    sink = os.open(name, NEW, 0o600, dir_fd=fd)
    try:
        if change.path in source.contents:
            with open(sink, "wb", closefd=False) as file:
                file.write(source.contents[change.path])
        else:
            content = source.upper.open(path)
            try:
                copy_content(content, sink, after.blocks * 512 + SPARE)
            finally:
                os.close(content)
        with naming(change.path):
            _dress(source, change, sink)
    finally:
        os.close(sink)


def _dress(source: Source, change: Change, sink: int) -> None:
    """Owner, mode, attributes and time of a file; the access list of the one that it replaces."""
    after, before = change.after, change.before
    assert after is not None
    if before is not None and before.kind == "file":
        _keep_owner(source, change, sink)
    _set_attributes(sink, after.xattrs)
    os.fchmod(sink, mode_of(change))
    os.utime(sink, ns=(after.mtime_ns, after.mtime_ns))


def _keep_owner(source: Source, change: Change, sink: int) -> None:
    before = change.before
    assert before is not None
    made = os.fstat(sink)
    if (made.st_uid, made.st_gid) != (before.uid, before.gid):
        with suppress(PermissionError):
            os.fchown(sink, before.uid, before.gid)
    with suppress(OSError):
        old = open_lower(source.upper.tree, os.fsencode(change.renamed_from or change.path))
        try:
            os.setxattr(sink, ACCESS, os.getxattr(old, ACCESS))
        finally:
            os.close(old)


def _set_attributes(fd: int, attributes: Mapping[str, bytes]) -> None:
    """Left out on a file system that has none of users."""
    for name, value in attributes.items():
        try:
            os.setxattr(fd, name, value)
        except OSError as error:
            if error.errno != errno.ENOTSUP:
                raise


def _finish_directory(change: Change, place: str, where: Places) -> None:
    fd, after = where.open(place), change.after
    assert after is not None
    with naming(change.path):
        _set_attributes(fd, after.xattrs)
        os.fchmod(fd, mode_of(change, os.fstat(fd).st_mode))
        os.utime(fd, ns=(after.mtime_ns, after.mtime_ns))


def unstage(tree: int, moves: Sequence[Move]) -> bool:
    """Removes whatever lies under the staged names; what has gone is no error. Whether every directory was reached."""
    reached = True
    where = Places(tree)
    try:
        for move in moves:
            try:
                remove_below(where.place(move), move.staged)
            except (Moved, OSError):
                reached = False
    finally:
        where.close()
    return reached


def trait_of(change: Change, where: Places) -> Trait:
    """What changes of a directory of the tree where it is. Raises OSError."""
    after = change.after
    assert after is not None
    fd = where.open(change.path)
    found = os.fstat(fd)
    mode = stat.S_IMODE(found.st_mode)
    old = {name: value.hex() for name, value in attributes_of(f"/proc/self/fd/{fd}").items()}
    new = {name: value.hex() for name, value in after.xattrs.items()}
    return Trait(change.path, inode(found), mode, mode_of(change, mode), old, new)
