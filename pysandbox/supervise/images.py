"""What an execve must have become if it ran what was judged: the kernel's copy of its name and its arguments.

For a script the kernel puts the interpreter first, so its first line is read here, as is that of an interpreter that is
a script itself. Read before the call goes on; what is put in its place later does not match, and is killed.
"""

from __future__ import annotations

import os
import stat
from errno import EACCES, ENOENT, ESTALE

from pysandbox.handlers.shebang import AT_FDCWD, HEAD, MOST_LEVELS, Image, image_name, interpreter, script_arguments
from pysandbox.launch import native
from pysandbox.live.init import CageInit
from pysandbox.shapes import NamedTuple
from pysandbox.supervise.files import absolute


class Judged(NamedTuple):
    """Path and arguments of an execve as they were read, each ended by NUL; the directory of an execveat; the file that
    the path led to then."""

    raw: bytes
    directory: int
    device: int
    inode: int


class _FileImage(NamedTuple):
    line: tuple[bytes, ...] | None
    device: int
    inode: int


def image_of(live: CageInit, tid: int, judged: Judged) -> Image:
    """Raises PermissionError for a program that may be run but not read: what becomes of it could not be seen; and
    OSError (ESTALE) where the path leads to another file than was judged."""
    path, *argv = judged.raw.split(b"\0")[:-1]
    name = image_name(path, judged.directory)
    plain = Image(name, _joined(argv or [b""]), judged.device, judged.inode)
    lines: list[tuple[bytes, ...]] = []
    program = _open_image(live, tid, judged.directory, path)
    if program is not None and (program.device, program.inode) != (judged.device, judged.inode):
        raise OSError(ESTALE, os.strerror(ESTALE), path)
    while program is not None and program.line is not None and len(lines) < MOST_LEVELS:
        lines.append(program.line)
        program = _open_image(live, tid, AT_FDCWD, program.line[0])
    if program is None or not lines:
        return plain
    return plain._replace(
        script=_joined(script_arguments(name, argv, lines)), device=program.device, inode=program.inode
    )


def _joined(texts: list[bytes] | tuple[bytes, ...]) -> bytes:
    return b"".join(text + b"\0" for text in texts)


def _open_image(live: CageInit, tid: int, directory: int, path: bytes) -> _FileImage | None:
    """Opens the program for reading; None where it is no regular file, which the kernel will refuse."""
    try:
        held = _hold(live, tid, directory, os.fsdecode(path))
    except OSError:
        return None
    try:
        found = os.fstat(held)
        if not stat.S_ISREG(found.st_mode):
            return None
        return _FileImage(interpreter(_head(held)), found.st_dev, found.st_ino)
    finally:
        os.close(held)


def _hold(live: CageInit, tid: int, directory: int, path: str) -> int:
    """An O_PATH descriptor of the file: it may still be of any type, so it is not opened for reading."""
    if not path:
        return os.open(f"/proc/{tid}/fd/{directory}", os.O_PATH)
    root = live.open_root()
    try:
        return native.open_inside(root, absolute(tid, directory, path), os.O_PATH, resolve=native.RESOLVE_IN_ROOT)
    finally:
        os.close(root)


def _head(held: int) -> bytes:
    try:
        fd = os.open(f"/proc/self/fd/{held}", os.O_RDONLY)
    except PermissionError:
        raise
    except OSError as error:
        raise PermissionError(EACCES, os.strerror(error.errno or ENOENT)) from None
    try:
        return os.pread(fd, HEAD, 0)
    finally:
        os.close(fd)
