"""A workspace on disk: what it holds of one or more trees, so that another process can decide later.

    bundle.json   the trees, their openings, what the policy denies: written last, and only then it is one
    entries-0     one line for each entry of the first tree's upper
    content-0-7   the bytes of the seventh of them
    own.json      what commits of it have left in the trees already

A bundle is an upper like any other: the same code lists it and commits it. It lies with the user's own state, where no
cage reaches, and is read as strictly as if it did not.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator, Sequence

from pysandbox.launch import native
from pysandbox.launch.contents import copy_content
from pysandbox.launch.ids import new_id
from pysandbox.launch.private import naming
from pysandbox.probe.opening import Opening
from pysandbox.shapes import Any, NamedTuple
from pysandbox.workspace import store
from pysandbox.workspace.conflict import Stamp
from pysandbox.workspace.moves import inode
from pysandbox.workspace.plan import SPARE
from pysandbox.workspace.upper import Quota, Tree, Upper, UpperEntry, require_still

INDEX, OWN = "bundle.json", "own.json"
AT_FDCWD = -100  # openat(2)
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Kept(NamedTuple):
    """One bundle, as a list shows it."""

    id: str
    trees: tuple[str, ...]
    kept: float  # seconds since the epoch
    command: str = ""


class BundleUpper(Upper):
    """One tree's part of a bundle."""

    def __init__(self, tree: Tree, directory: int, number: int) -> None:
        self.tree, self._fd, self._number = tree, directory, number
        self._contents: dict[bytes, str] = {}
        self._links: dict[bytes, bytes] = {}

    def walk(self) -> Iterator[UpperEntry]:
        fd = os.open(f"entries-{self._number}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._fd)
        with open(fd, "rb") as file:
            for line in file:
                yield self._entry(json.loads(line))

    def _entry(self, said: dict[str, Any]) -> UpperEntry:
        values = list(said["entry"])
        values[0] = os.fsencode(values[0])
        values[-1] = {name: bytes.fromhex(value) for name, value in values[-1].items()}
        entry = UpperEntry(*values)
        if "content" in said:
            self._contents[entry.path] = str(said["content"])
        if "target" in said:
            self._links[entry.path] = os.fsencode(said["target"])
        return entry

    def open(self, path: bytes) -> int:
        if not self._contents:
            list(self.walk())
        name = self._contents.get(path)
        if name is None or "/" in name:
            raise FileNotFoundError(errno.ENOENT, "not in the bundle", os.fsdecode(path))
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._fd)

    def readlink(self, path: bytes) -> bytes:
        if not self._links:
            list(self.walk())
        return self._links[path]

    def quota(self) -> Quota:
        entries = list(self.walk())
        return Quota(sum(each.blocks * 512 for each in entries), used_inodes=len(entries))

    def is_still(self) -> bool:
        return True

    def drop(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            os.close(self.tree.fd)
            self.tree = self.tree._replace(fd=-1)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.drop()


def write_bundle(
    uppers: Sequence[Upper], *, command: str = "", cage: str = "", own: frozenset[Stamp] = frozenset()
) -> str:
    """Copies them to disk; the id. Raises CommitError where a cage has run meanwhile, OSError; nothing is left then."""
    name = new_id()
    with store.opened_one(name, make=True) as place, naming(f"{store.directory()}/{name}"):
        try:
            for number, upper in enumerate(uppers):
                _write_entries(place, number, upper)
            write_own(place, own)
            trees = [_tree(each.tree) for each in uppers]
            index = {"trees": trees, "kept": time.time(), "command": command, "cage": cage}
            native.sync_file_system(place)
            require_still(uppers)
            _write(place, f"{INDEX}.new", json.dumps(index).encode())
            os.rename(f"{INDEX}.new", INDEX, src_dir_fd=place, dst_dir_fd=place)
            native.sync_file_system(place)
        except BaseException:
            store.remove(name)
            raise
    return name


def _tree(tree: Tree) -> dict[str, Any]:
    return {
        "path": tree.path, "id": inode(os.fstat(tree.fd)), "opening": tree.opening,
        "denied": [os.fsdecode(each) for each in tree.denied], "unguarded": tree.unguarded,
        "patterns": tree.patterns,
    }  # fmt: skip


def _write_entries(place: int, number: int, upper: Upper) -> None:
    """A file with several names is copied once: a cage may give one as many as it has room for names."""
    copied: dict[tuple[int, int], str] = {}
    fd = os.open(f"entries-{number}", NEW, 0o600, dir_fd=place)
    with open(fd, "w", encoding="ascii") as file:
        for at, entry in enumerate(upper.walk()):
            said: dict[str, Any] = {"entry": [os.fsdecode(entry.path), *entry[1:-1],
                                              {name: value.hex() for name, value in entry.xattrs.items()}]}  # fmt: skip
            if entry.kind == "symlink":
                said["target"] = os.fsdecode(upper.readlink(entry.path))
            if entry.kind == "file":
                first = copied.get((entry.dev, entry.ino))
                said["content"] = first or f"content-{number}-{at}"
                if first is None:
                    _copy(upper, entry, place, said["content"])
                if entry.nlink > 1:
                    copied[entry.dev, entry.ino] = said["content"]
            file.write(json.dumps(said) + "\n")


def _copy(upper: Upper, entry: UpperEntry, place: int, name: str) -> None:
    source = upper.open(entry.path)
    try:
        sink = os.open(name, NEW, 0o600, dir_fd=place)
        try:
            if entry.size <= entry.blocks * 512 + SPARE:  # more is a claim: no commit takes it
                copy_content(source, sink, entry.size)
        finally:
            os.close(sink)
    finally:
        os.close(source)


def write_own(place: int, own: frozenset[Stamp]) -> None:
    _write(place, f"{OWN}.new", json.dumps(sorted(own)).encode())
    os.rename(f"{OWN}.new", OWN, src_dir_fd=place, dst_dir_fd=place)


def _write(place: int, name: str, data: bytes) -> None:
    fd = os.open(name, NEW & ~os.O_EXCL | os.O_TRUNC, 0o600, dir_fd=place)
    with open(fd, "wb") as file:
        file.write(data)


def bundles() -> list[Kept]:
    """By age. Raises PermissionError."""
    found = []
    for name in store.names():
        try:
            with store.opened_one(name) as place:
                index = _read(place, INDEX)
                trees = tuple(str(each["path"]) for each in index["trees"])
                found.append(Kept(name, trees, float(index["kept"]), str(index["command"])))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a commit's, or one that is being written
    return found


def cage_of(name: str) -> str:
    """The id of the cage that has written it. Raises OSError, ValueError."""
    with store.opened_one(name) as place:
        return str(_read(place, INDEX).get("cage", ""))


def open_bundle(name: str) -> tuple[tuple[BundleUpper, ...], frozenset[Stamp]]:
    """Raises OSError: ESTALE where a tree has moved or was replaced; ValueError for what no bundle is."""
    uppers: list[BundleUpper] = []
    with store.opened_one(name) as place:
        try:
            index = _read(place, INDEX)
            for number, each in enumerate(index["trees"]):
                uppers.append(_opened_upper(each, place, number))
            own = frozenset((int(a), int(b), int(c)) for a, b, c in _read(place, OWN))
        except BaseException as error:
            for upper in uppers:
                upper.drop()
            if isinstance(error, (KeyError, TypeError)):
                raise ValueError(f"{store.directory()}/{name} is no workspace") from None
            raise
    return tuple(uppers), own


def _opened_upper(said: dict[str, Any], place: int, number: int) -> BundleUpper:
    tree = _opened_tree(said)
    try:
        return BundleUpper(tree, os.dup(place), number)
    except BaseException:
        os.close(tree.fd)
        raise


def _opened_tree(said: dict[str, Any]) -> Tree:
    path = str(said["path"])
    identity, opening = tuple(said["id"]), Opening(*map(int, said["opening"]))
    denied = tuple(os.fsencode(each) for each in said["denied"])
    unguarded, patterns = (tuple(map(str, said.get(name, ()))) for name in ("unguarded", "patterns"))
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    fd = native.open_inside(AT_FDCWD, path, flags, resolve=native.RESOLVE_NO_SYMLINKS)
    if inode(os.fstat(fd)) != identity:
        os.close(fd)
        raise OSError(errno.ESTALE, "this tree has moved, or was replaced, since the workspace was opened", path)
    return Tree(path, fd, opening, denied, unguarded, patterns)


def _read(place: int, name: str) -> Any:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    with open(fd, "rb") as file:
        return json.load(file)
