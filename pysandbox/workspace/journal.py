"""The journal of a commit: what will be done to a tree, on the disk before it is done.

    {"tree": ..., "moves": [...]}   written before anything is staged; a kill from here on is undone
    {"apply": [...]}                everything is staged and on the disk; a kill from here on is finished
    {"back": true}                  it failed; a kill from here on is undone
    {"done": true}                  every name is in place and on the disk; what was replaced may still be undone
    {"saved": true}                 and that has left the tree: `recover` has nothing to look for

One line each, with fsync. A move has three kinds: `put` a staged name in a place that is free, `swap` it with what is
there, `take` what is there away to the staged name. Each is one renameat2(2), so that whoever comes after a kill sees
from the inodes which moves were made. The journal lies with the user's own state, where no cage reaches.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pysandbox.shapes import Any, Literal, NamedTuple

Identity = tuple[int, int, int, int]  # device, inode, size, mtime: `State.identity`


SAVED = {"saved": True}


class Move(NamedTuple):
    """One rename in one directory of the tree. `directory` and the names are texts as `os.fsdecode` gives them.

    `place` is device and inode of that directory. `staged_id` is what lies under the staged name before (put, swap),
    `old_id` what lies under the name (swap, take); `below`, of a directory: how many names are in it, and the latest
    ctime of them.
    """

    kind: Literal["put", "swap", "take"]
    directory: str
    name: str
    staged: str
    place: tuple[int, int] = (0, 0)
    staged_id: Identity | None = None
    old_id: Identity | None = None
    below: tuple[int, int] | None = None

    @property
    def number(self) -> int:
        """The number in the staged name, and in the name of what is saved of it."""
        return int(self.staged.rpartition("-")[2])


class Trait(NamedTuple):
    """Mode and attributes of one directory of the tree, changed where it is; attributes by name, in hexadecimal."""

    path: str
    identity: tuple[int, int]
    old_mode: int
    new_mode: int
    old: dict[str, str]
    new: dict[str, str]


class JournalRecord(NamedTuple):
    """What a journal says: how far its commit has come, and what it is. `origin`: for an undo, the directory of the
    commit whose saved files are its staged ones; they go back there. `group`: of a commit to several trees the ids of
    all, in the order in which their lines are written; the line of the last one that it applies decides for all."""

    id: str
    tree: str
    tree_id: tuple[int, int]
    moves: tuple[Move, ...]
    traits: tuple[Trait, ...]
    phase: Literal["stage", "apply", "done"] = "stage"
    origin: str = ""
    group: tuple[str, ...] = ()


class CommitJournal:
    """The journal of one commit, in its directory `fd`, which it borrows."""

    NAME = "journal"

    def __init__(self, fd: int) -> None:
        self._directory = fd

    def begin(self, written: JournalRecord) -> None:
        """Raises OSError."""
        self._append(dict(written._asdict()), os.O_CREAT | os.O_EXCL)
        os.fsync(self._directory)

    def apply(self, moves: Sequence[Move]) -> None:
        """With what is known of each name now that all is staged. Raises OSError."""
        self._append({"apply": moves})

    def back(self) -> None:
        """Raises OSError."""
        self._append({"back": True})

    def done(self) -> None:
        """Raises OSError."""
        self._append({"done": True})

    def saved(self) -> None:
        """What was replaced is kept. The file's time stays that of `done`, from which an undo counts. Raises
        OSError."""
        found = os.stat(self.NAME, dir_fd=self._directory, follow_symlinks=False)
        self._append(SAVED)
        times = found.st_atime_ns, found.st_mtime_ns
        os.utime(self.NAME, ns=times, dir_fd=self._directory, follow_symlinks=False)

    def is_over(self) -> bool:
        """Whether nothing is left to be done, by its last line alone. Raises OSError."""
        try:
            fd = os.open(self.NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory)
        except FileNotFoundError:
            return False
        try:
            end = b"\n" + json.dumps(SAVED).encode() + b"\n"
            return os.pread(fd, len(end), max(0, os.fstat(fd).st_size - len(end))) == end
        finally:
            os.close(fd)

    def forget(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.NAME, dir_fd=self._directory)
        os.fsync(self._directory)

    def _append(self, value: object, flags: int = 0) -> None:
        data = json.dumps(value).encode() + b"\n"
        fd = os.open(self.NAME, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600,
                     dir_fd=self._directory)  # fmt: skip
        try:
            while data:
                data = data[os.write(fd, data) :]
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self) -> JournalRecord | None:
        """What was written before a kill; None where not even the first line is whole. Raises OSError, ValueError."""
        lines = list(self._lines())
        if not lines:
            return None
        found = _written(lines[0])
        for line in lines[1:]:
            if "apply" in line:
                found = found._replace(moves=tuple(map(_move, line["apply"])), phase="apply")
            elif "back" in line:
                found = found._replace(phase="stage")
            elif "done" in line:
                found = found._replace(phase="done")
        return found

    def _lines(self) -> Iterator[dict[str, Any]]:
        """A line that was not written to its end ends the journal."""
        try:
            fd = os.open(self.NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory)
        except FileNotFoundError:
            return
        with open(fd, "rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    return
                yield json.loads(line)


def _written(line: dict[str, Any]) -> JournalRecord:
    first, second = line["tree_id"]
    return JournalRecord(
        str(line["id"]), str(line["tree"]), (int(first), int(second)), tuple(map(_move, line["moves"])),
        tuple(Trait(each[0], tuple(each[1]), *each[2:]) for each in line["traits"]), origin=str(line["origin"]),
        group=tuple(map(str, line.get("group", ()))),
    )  # fmt: skip


def _move(values: list[Any]) -> Move:
    kind, directory, name, staged, place, staged_id, old_id, below = values
    return Move(kind, directory, name, staged, tuple(place), _id(staged_id), _id(old_id), _id(below))


def _id(values: list[int] | None) -> Any:
    return None if values is None else tuple(values)
