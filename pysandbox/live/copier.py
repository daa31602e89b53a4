"""Copying a tree that others may change meanwhile, into one that is ours alone.

Every directory is opened below the tree's own descriptor, no link is followed and no mount is crossed; every file is
opened without blocking, and what it is is asked of what was opened. What is gone, or another thing, when its turn comes
is left out: it was changed after the opening, so nothing is committed over it. Bytes are shared where the file system
can (FICLONE), else counted: what would be more than allowed ends the copying before it is written.

Left out are sockets and devices, which are no content. Names of one file stay names of one file. What the cage is not
to have is an empty name. A file that cannot be read is an error: a cage that found it empty might commit that.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pysandbox.errors import StartError
from pysandbox.launch import native
from pysandbox.launch.below import RESOLVE, open_below, opened_below
from pysandbox.launch.contents import PIECE, data_ranges, exactly, write_all

FICLONE = 0x40049409  # ioctl_ficlone(2)
BENEATH = RESOLVE | native.RESOLVE_NO_XDEV
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OVERLAYS_OWN = "user.overlay."
CHANGED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EAGAIN, errno.ENXIO)  # what a neighbour can make of a name
OF_THIS_FILE = (errno.EINVAL, errno.EPERM, errno.ETXTBSY)  # another one may be shared all the same
NOT_SHARED = (errno.EXDEV, errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS, *OF_THIS_FILE)
MIB = 1 << 20
PAGE = 4096
FEWEST_NAMES = 4096
LOOKS = 64 * MIB  # copied bytes between two looks at the room that is left


class CopyBudget:
    """What may still be copied, of all trees of a cage: bytes, and as many names as they have pages. `room_left` raises
    where the disk has too little left."""

    def __init__(self, most: int, room_left: Callable[[], object]) -> None:
        self.most, self.most_names = most, max(most // PAGE, FEWEST_NAMES)
        self.used = self.names = 0
        self._room_left, self._next_look = room_left, LOOKS

    def takes(self, size: int) -> bool:
        """Whether so many bytes more may be copied; they count from now on."""
        self.used += size
        if self.used >= self._next_look:
            self._next_look = self.used + LOOKS
            self._room_left()
        return self.used <= self.most

    def takes_name(self) -> bool:
        self.names += 1
        return self.names <= self.most_names


class TreeCopier:
    """Copies the open directory `source` into the empty one `sink`. `hollow`: paths that become empty names of these
    modes. `modes`: afterwards, of what has another mode in the copy, (there, in the tree)."""

    def __init__(self, path: str, source: int, sink: int, budget: CopyBudget, hollow: Mapping[bytes, int]) -> None:
        self._path, self._source, self._sink = path, source, sink
        self._budget, self._hollow = budget, hollow
        self._shares = True  # until the kernel says that it cannot
        self._keeps_owners = os.geteuid() == 0
        self._links: dict[tuple[int, int], bytes] = {}
        self.modes: dict[bytes, tuple[int, int]] = {}

    def copy(self) -> None:
        """Raises StartError where it is more than may be copied, or cannot be read, OSError."""
        ahead, done = [b""], []
        while ahead:
            above = ahead.pop()
            with self._both(above) as (source, sink):
                if source < 0:
                    continue
                done.append((above, os.fstat(source)))
                self._attributes(source, sink)
                for name in os.listdir(source):
                    path = above + b"/" + os.fsencode(name) if above else os.fsencode(name)
                    if self._one(source, sink, name, path):
                        ahead.append(path)
        for path, found in reversed(done):  # a directory without rights would keep us from what is in it
            with opened_below(self._sink, path, DIRECTORY, resolve=BENEATH) as sink:
                self._finish(sink, found, path, stat.S_IMODE(found.st_mode))

    def _one(self, source: int, sink: int, name: str, path: bytes) -> bool:
        """Whether it is a directory, to be entered."""
        try:
            found = os.stat(name, dir_fd=source, follow_symlinks=False)
        except OSError as error:
            return self._left_out(error, path)
        if not self._budget.takes_name():
            raise self._too_much(f"more than {self._budget.most_names:,} names")
        if path in self._hollow:
            self._make_hollow(sink, name, self._hollow[path], is_directory=stat.S_ISDIR(found.st_mode))
            return False
        if stat.S_ISDIR(found.st_mode):
            os.mkdir(name, 0o700, dir_fd=sink)
            return True
        if stat.S_ISREG(found.st_mode):
            self._file(source, sink, name, path)
        elif stat.S_ISLNK(found.st_mode):
            self._link(source, sink, name, path)
        elif stat.S_ISFIFO(found.st_mode):
            os.mkfifo(name, 0o600, dir_fd=sink)
            os.chmod(name, stat.S_IMODE(found.st_mode) & 0o777, dir_fd=sink)
            os.utime(name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=sink)
        return False

    def _file(self, source: int, sink: int, name: str, path: bytes) -> None:
        try:
            content = _open_file(source, name)
        except OSError as error:
            self._left_out(error, path)
            return
        try:
            found = os.fstat(content)
            if not stat.S_ISREG(found.st_mode):
                return
            first = self._links.setdefault((found.st_dev, found.st_ino), path) if found.st_nlink > 1 else path
            if first != path:
                with opened_below(self._sink, first.rpartition(b"/")[0], DIRECTORY, resolve=BENEATH) as there:
                    os.link(os.path.basename(os.fsdecode(first)), name, src_dir_fd=there, dst_dir_fd=sink)
                return
            made = os.open(name, NEW, 0o600, dir_fd=sink)
            try:
                self._content(content, made, found)
                self._attributes(content, made)
                self._finish(made, found, path, stat.S_IMODE(found.st_mode) & 0o777)
            finally:
                os.close(made)
        finally:
            os.close(content)

    def _content(self, content: int, made: int, found: os.stat_result) -> None:
        """No more than the size that it had, whoever writes to it meanwhile; holes stay holes."""
        size = found.st_size
        if not size or (self._shares and self._shared(content, made)):
            return
        if size <= PIECE and found.st_blocks * 512 >= size:
            self._take(size)
            write_all(made, exactly(content, size))
            return
        for start, end in data_ranges(content):
            at, end = start, min(end, size)
            os.lseek(made, start, os.SEEK_SET)
            while at < end:
                self._take(piece := min(end - at, LOOKS))
                sent = os.sendfile(made, content, at, piece)
                if not sent:  # cut off meanwhile
                    break
                at += sent
        os.truncate(made, size)

    def _take(self, size: int) -> None:
        if not self._budget.takes(size):
            raise self._too_much(f"more than {self._budget.most // MIB:,} MiB")

    def _shared(self, content: int, made: int) -> bool:
        try:
            fcntl.ioctl(made, FICLONE, content)
        except OSError as error:
            if error.errno not in NOT_SHARED:
                raise
            self._shares = error.errno in OF_THIS_FILE
            return False
        return True

    def _link(self, source: int, sink: int, name: str, path: bytes) -> None:
        try:
            target = os.readlink(name, dir_fd=source)
            found = os.stat(name, dir_fd=source, follow_symlinks=False)
        except OSError as error:
            if error.errno != errno.EINVAL:  # no link any more
                self._left_out(error, path)
            return
        os.symlink(target, name, dir_fd=sink)
        if self._keeps_owners:
            os.chown(name, found.st_uid, found.st_gid, dir_fd=sink, follow_symlinks=False)
        os.utime(name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=sink, follow_symlinks=False)

    @staticmethod
    def _make_hollow(sink: int, name: str, mode: int, *, is_directory: bool) -> None:
        if is_directory:
            os.mkdir(name, 0o700, dir_fd=sink)
            os.chmod(name, mode, dir_fd=sink)
            return
        fd = os.open(name, NEW, 0o600, dir_fd=sink)
        try:
            os.fchmod(fd, mode & 0o666)
        finally:
            os.close(fd)

    def _finish(self, made: int, found: os.stat_result, path: bytes, mode: int) -> None:
        if self._keeps_owners:
            os.fchown(made, found.st_uid, found.st_gid)
        os.fchmod(made, mode)
        os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))
        there = stat.S_IMODE(os.fstat(made).st_mode)
        if there != stat.S_IMODE(found.st_mode):
            self.modes[path] = there, stat.S_IMODE(found.st_mode)

    @staticmethod
    def _attributes(source: int, made: int) -> None:
        try:
            names = os.listxattr(source)
        except OSError as error:
            if error.errno != errno.ENOTSUP:
                raise
            return
        for name in names:
            if name.startswith("user.") and not name.startswith(OVERLAYS_OWN):
                os.setxattr(made, name, os.getxattr(source, name))

    @contextmanager
    def _both(self, path: bytes) -> Iterator[tuple[int, int]]:
        """A directory of the tree and of the copy; -1 for one that is gone, or no directory any more."""
        try:
            source = open_below(self._source, path, DIRECTORY, resolve=BENEATH)
        except OSError as error:
            self._left_out(error, path)
            yield -1, -1
            return
        try:
            with opened_below(self._sink, path, DIRECTORY, resolve=BENEATH) as sink:
                yield source, sink
        finally:
            os.close(source)

    def _left_out(self, error: OSError, path: bytes) -> bool:
        """What a neighbour has changed is left out; anything else is an error."""
        if error.errno in CHANGED:
            return False
        name = os.path.join(self._path, os.fsdecode(path))
        if error.errno in (errno.EACCES, errno.EPERM):
            raise StartError("upper", error.errno, name, "it cannot be read, so it cannot be copied: deny it "
                             "(filesystem.deny), which leaves an empty name, or make it readable")  # fmt: skip
        if error.errno == errno.EXDEV:
            raise StartError("upper", error.errno, name, "something is mounted there, and no copy crosses that: name "
                             "directories in filesystem.cow that hold no mount")  # fmt: skip
        raise StartError("upper", error.errno or 0, name)

    def _too_much(self, what: str) -> StartError:
        return StartError("upper", errno.EDQUOT, self._path, f"it holds {what}, and no more is copied for a cage "
                          f"(copy_mb is {self._budget.most // MIB}): raise copy_mb (--copy-mb), or name smaller "
                          "directories in filesystem.cow")  # fmt: skip


def _open_file(directory: int, name: str) -> int:
    """For reading, without a trace in its time of access where it is our own."""
    try:
        return native.open_inside(directory, name, READ | os.O_NOATIME, resolve=BENEATH)
    except PermissionError:
        return native.open_inside(directory, name, READ, resolve=BENEATH)
