"""The files of an app: read once, as bytes, and named by one digest. What was digested is what runs: a package is never
opened again by its path.

Only regular files and directories are a package: a link, a device or a socket in it is refused, so is what is larger
than a program has to be.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping

from pysandbox.apps.manifest import FILES, AppManifest
from pysandbox.apps.scope import is_path
from pysandbox.errors import AppError
from pysandbox.policy.refusal import shown
from pysandbox.shapes import dataclass

MOST_FILES = 4096
MOST_BYTES = 64 << 20
DEEPEST = 16
OPENED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
FIX = "make it a directory of plain files"


@dataclass(frozen=True, slots=True)
class PackageFile:
    content: bytes
    executable: bool


@dataclass(frozen=True, slots=True)
class AppPackage:
    """`files` by their paths in the package, in order."""

    files: Mapping[str, PackageFile]

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> AppPackage:
        """Raises AppError, OSError."""
        path = os.path.realpath(directory)  # a link may lead to a package, and be no part of one
        found = dict(_walk(os.open(path, OPENED | os.O_DIRECTORY), "", 0))
        return cls({name: found[name] for name in sorted(found)})

    @property
    def digest(self) -> str:
        """SHA-256 over every path, mode and content, each with its length."""
        whole = hashlib.sha256(b"pysandbox app package 1\n")
        for path, file in self.files.items():
            name = path.encode()
            content = hashlib.sha256(file.content).hexdigest()
            whole.update(b"%d %s %d %s\n" % (len(name), name, file.executable, content.encode()))
        return whole.hexdigest()

    def manifest(self) -> AppManifest:
        """Raises AppError where there is none, or more than one; PolicyError for what is wrong with it."""
        there = [name for name in FILES if name in self.files]
        if len(there) != 1:
            raise AppError(f"the package has {len(there) or 'no'} manifests", f"write one of {' and '.join(FILES)}")
        return AppManifest.parse(self.files[there[0]].content, there[0])

    def write(self, directory: str) -> None:
        """As files that only this user reads and nobody writes, below a directory that is new."""
        for path, file in self.files.items():
            target = os.path.join(directory, path)
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as stream:
                stream.write(file.content)
                os.fchmod(fd, 0o500 if file.executable else 0o400)


def _walk(directory: int, above: str, depth: int) -> Iterator[tuple[str, PackageFile]]:
    """Closes `directory`."""
    count = size = 0
    try:
        for name in sorted(os.listdir(directory)):
            path = above + name
            if not is_path(path) or depth > DEEPEST:
                raise AppError(f"the package holds {shown(path)}, which no manifest could name", FIX)
            for each in _entry(directory, name, path, depth):
                count, size = count + 1, size + len(each[1].content)
                if count > MOST_FILES or size > MOST_BYTES:
                    raise AppError(f"the package has more than {MOST_FILES} files or {MOST_BYTES} bytes", FIX)
                yield each
    finally:
        os.close(directory)


def _entry(directory: int, name: str, path: str, depth: int) -> Iterator[tuple[str, PackageFile]]:
    try:
        fd = os.open(name, OPENED, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise AppError(f"{shown(path)} of the package is a link or no file", FIX) from None
        raise
    found = os.fstat(fd)
    if stat.S_ISDIR(found.st_mode):
        yield from _walk(fd, f"{path}/", depth + 1)
        return
    with open(fd, "rb") as stream:
        if not stat.S_ISREG(found.st_mode):
            raise AppError(f"{shown(path)} of the package is no file", FIX)
        yield path, PackageFile(stream.read(MOST_BYTES + 1), bool(found.st_mode & 0o100))
