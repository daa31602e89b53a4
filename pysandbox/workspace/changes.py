"""What a cage has changed: the entries of an upper beside what the tree has under the same names now.

The list is made of the two trees alone; nothing that a cage says of itself is believed. A file that was copied up and
holds what it held is no change, whatever its times say; one whose size and times were put back is read to its end. A
directory that replaces the tree's own is told name by name, as if each had been changed by itself. What a reviewer must
see first comes first.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence

from pysandbox.launch.below import open_below
from pysandbox.shapes import Literal, NamedTuple
from pysandbox.workspace.content import digest, same_content, user_attributes
from pysandbox.workspace.links import leaves
from pysandbox.workspace.risk import by_name, is_written_by_name_alone, marks
from pysandbox.workspace.upper import Kind, Tree, Upper, UpperEntry
from pysandbox.workspace.walk import KINDS, read_link

ChangeKind = Literal["added", "modified", "deleted", "renamed", "type", "metadata"]
PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
COMPARISON = 64 << 10  # what one costs beside the bytes that it reads
MOST_COMPARED = 8 << 30  # bytes, to find renames: a cage may make any number of files that look like one that is gone
MOST_LOOKED_AT = 200_000  # names below one removed directory that are looked at for renames


class State(NamedTuple):
    """What one name is: in the tree (`before`) or in the workspace (`after`)."""

    kind: Kind
    mode: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    dev: int
    ino: int
    nlink: int
    blocks: int = 0
    ctime_ns: int = 0  # of the tree alone
    xattrs: Mapping[str, bytes] = {}  # of the workspace alone

    @classmethod
    def of(cls, found: os.stat_result) -> State:
        return cls(
            KINDS[stat.S_IFMT(found.st_mode)], stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_size,
            found.st_mtime_ns, found.st_dev, found.st_ino, found.st_nlink, found.st_blocks,
            found.st_ctime_ns,
        )  # fmt: skip

    @property
    def identity(self) -> tuple[int, int, int, int]:
        """Another file under the name, or other content in it, has another one; a rename has not."""
        return self.dev, self.ino, self.size if self.kind != "dir" else 0, self.mtime_ns if self.kind != "dir" else 0


class Change(NamedTuple):
    """One name that differs. `path` is relative to the tree (`os.fsencode` gives its bytes); `risk` are words of
    `pysandbox.workspace.risk.MARKS`; `digest` is the SHA-256 of the new content, where it was asked for.
    `tree`: the directory of the host."""

    path: str
    kind: ChangeKind
    before: State | None
    after: State | None
    risk: tuple[str, ...] = ()
    renamed_from: str = ""
    digest: str = ""
    copied_up: bool = False
    tree: str = ""

    @property
    def size(self) -> int:
        """The size of the new content, or of the old one where it was removed."""
        state = self.after or self.before
        return state.size if state is not None and state.kind in ("file", "symlink") else 0


def changes_of(upper: Upper, *, digests: bool = False) -> list[Change]:
    """What is different now, the risky ones first, each part by path. Raises OSError."""
    found = _with_renames(upper, list(_compared(upper)))
    if digests:
        found = list(_with_digests(upper, found))
    return sorted(found, key=lambda each: (not each.risk, each.path))


def _with_digests(upper: Upper, found: Sequence[Change]) -> Iterator[Change]:
    """A file with several names is read once: a cage may give one as many as it likes."""
    known: dict[tuple[int, int], str] = {}
    for each in found:
        after = each.after
        if after is None or after.kind != "file":
            yield each
            continue
        which = after.dev, after.ino
        hashed = known.get(which) or digest(upper, each.path)
        if after.nlink > 1:
            known[which] = hashed
        yield each._replace(digest=hashed)


def before_of(tree: Tree, path: bytes) -> State | None:
    """What the tree has there now, None for nothing. Raises OSError for what cannot be looked at."""
    above, _, name = path.rpartition(b"/")
    try:
        fd = open_below(tree.fd, above, PLACE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _look(fd, os.fsdecode(name))
    finally:
        os.close(fd)


def nearest_above(tree: Tree, path: bytes) -> State:
    """The last directory on the way to a name that the tree has now. From the top, since below what is not there
    nothing is: a cage names as long a way as it likes. Raises OSError."""
    fd = os.dup(tree.fd)
    try:
        for name in path.split(b"/")[:-1]:
            try:
                inside = os.open(name, PLACE, dir_fd=fd)
            except (FileNotFoundError, NotADirectoryError):
                break
            os.close(fd)
            fd = inside
        return State.of(os.fstat(fd))
    finally:
        os.close(fd)


def below(tree: Tree, path: bytes) -> Iterator[tuple[bytes, State]]:
    """All that the tree has below one of its directories, a directory before what is in it. Raises OSError."""
    ahead = [path]
    while ahead:
        above = ahead.pop()
        fd = open_below(tree.fd, above, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for name in sorted(os.listdir(fd)):
                state = _look(fd, name)
                if state is not None:
                    inside = above + b"/" + os.fsencode(name) if above else os.fsencode(name)
                    if state.kind == "dir":
                        ahead.append(inside)
                    yield inside, state
        finally:
            os.close(fd)


def _look(directory: int, name: str) -> State | None:
    try:
        return State.of(os.stat(name, dir_fd=directory, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _compared(upper: Upper) -> Iterator[Change]:
    """Entry by entry; the tree's directory of the names in a row is opened once."""
    tree, above, fd = upper.tree, None, -1
    hidden: dict[bytes, set[bytes]] = {}  # opaque directories: what they name
    try:
        for entry in upper.walk():
            here, _, name = entry.path.rpartition(b"/")
            if here != above:
                fd = _reopened(fd, tree, here)
                above = here
            before = _look(fd, os.fsdecode(name)) if fd >= 0 else None
            if here in hidden:
                hidden[here].add(name)
            if entry.opaque and before is not None and before.kind == "dir":
                hidden[entry.path] = set()
            elif here in hidden and entry.kind == "dir" and before is not None and before.kind == "dir":
                hidden[entry.path] = set()  # overlayfs merges nothing below an opaque directory
            change = _change(upper, entry, before)
            if change is not None:
                yield change
    finally:
        if fd >= 0:
            os.close(fd)
    for path, named in hidden.items():
        yield from _left_out(tree, path, named)


def _reopened(fd: int, tree: Tree, path: bytes) -> int:
    """The tree's directory of that path, -1 where it has none; the last one is closed."""
    if fd >= 0:
        os.close(fd)
    try:
        return open_below(tree.fd, path, PLACE)
    except OSError:  # also where the host has put a link meanwhile: then the name is one that the tree has not
        return -1


def _left_out(tree: Tree, path: bytes, named: set[bytes]) -> Iterator[Change]:
    fd = open_below(tree.fd, path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in os.listdir(fd):
            state = _look(fd, name)
            inside = path + b"/" + os.fsencode(name)
            if state is not None and os.fsencode(name) not in named:
                yield _made("deleted", inside, state, None, tree)
    finally:
        os.close(fd)


def _change(upper: Upper, entry: UpperEntry, before: State | None) -> Change | None:
    if entry.kind == "whiteout":
        return None if before is None else _made("deleted", entry.path, before, None, upper.tree)
    after = State(entry.kind, entry.mode, entry.uid, entry.gid, entry.size, entry.mtime_ns, entry.dev, entry.ino,
                  entry.nlink, entry.blocks, 0, entry.xattrs)  # fmt: skip
    target = upper.readlink(entry.path) if entry.kind == "symlink" else None
    kind = "added" if before is None else _kind(upper, entry, before, target)
    if kind is None:
        return None
    return _made(kind, entry.path, before, after, upper.tree, target, entry.copied_up)


def _kind(upper: Upper, entry: UpperEntry, before: State, target: bytes | None) -> ChangeKind | None:
    if before.kind != entry.kind:
        return "type"
    if entry.kind == "dir":
        same = before.mode == entry.mode and user_attributes(upper.tree, entry.path) == entry.xattrs
        return None if same else "metadata"
    if entry.kind == "symlink":
        return None if read_link(upper.tree.fd, entry.path) == target else "modified"
    if entry.kind != "file":
        return None
    if before.size != entry.size or not same_content(upper, entry):
        return "modified"
    same = before.mode == entry.mode and before.mtime_ns == entry.mtime_ns
    return None if same and user_attributes(upper.tree, entry.path) == entry.xattrs else "metadata"


TYPES = {**{kind: type_ for type_, kind in KINDS.items()}, "deep": stat.S_IFDIR}


def _made(kind: ChangeKind, path: bytes, before: State | None, after: State | None, tree: Tree,
          target: bytes | None = None, copied_up: bool = False) -> Change:  # fmt: skip
    risk = marks(
        path, None if before is None else before.mode | TYPES[before.kind],
        None if after is None else after.mode | TYPES[after.kind],
        target is not None and leaves(tree.fd, path, target), tree.unguarded,
    )  # fmt: skip
    return Change(os.fsdecode(path), kind, before, after, risk, copied_up=copied_up, tree=tree.path)


# ---- renames -------------------------------------------------------------------------------------------------------


def _with_renames(upper: Upper, found: list[Change]) -> list[Change]:
    """A file that is new and one that is gone are the same renamed, where size, time and content are. What is written
    only where it is named stays removed, and its copy new: who writes the new name has not named the old one."""
    gone = dict(_gone(upper.tree, found))
    by_look: dict[tuple[int, int], list[str]] = {}
    for path, state in gone.items():
        if (
            state.kind == "file"
            and state.size
            and not is_written_by_name_alone(os.fsencode(path), upper.tree.unguarded)
        ):
            by_look.setdefault((state.size, state.mtime_ns), []).append(path)
    if not by_look:
        return found
    renamed: dict[str, Change] = {}
    compared = 0
    for each in found:
        if each.kind != "added" or each.after is None or each.after.kind != "file":
            continue
        names = by_look.get((each.after.size, each.after.mtime_ns), [])
        for old in names:
            compared += COMPARISON + each.after.size
            if compared > MOST_COMPARED:
                break
            if same_content(upper, each.path, old):
                names.remove(old)
                risk = tuple(dict.fromkeys((*each.risk, *by_name(os.fsencode(old), upper.tree.unguarded))))
                renamed[each.path] = each._replace(kind="renamed", before=gone[old], renamed_from=old, risk=risk)
                break
    taken = {each.renamed_from for each in renamed.values()}
    return [renamed.get(each.path, each) for each in found if not (each.kind == "deleted" and each.path in taken)]


def _gone(tree: Tree, found: list[Change]) -> Iterator[tuple[str, State]]:
    if not any(each.kind == "added" for each in found):
        return
    looked = 0
    for each in found:
        if each.kind != "deleted" or each.before is None:
            continue
        yield each.path, each.before
        if each.before.kind == "dir":
            for path, state in below(tree, os.fsencode(each.path)):
                if (looked := looked + 1) > MOST_LOOKED_AT:
                    return
                yield os.fsdecode(path), state


def counted(found: Sequence[Change]) -> Mapping[str, int]:
    """How many there are of each kind."""
    counts: dict[str, int] = {}
    for each in found:
        counts[each.kind] = counts.get(each.kind, 0) + 1
    return counts
