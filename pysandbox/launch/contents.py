"""The bytes of one open file into another, with their holes, and never more of them held than a piece."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

PIECE = 1 << 20


def exactly(fd: int, size: int) -> bytes:
    """So many bytes from where it stands, fewer at its end. Raises OSError."""
    data = os.read(fd, size)
    while len(data) < size and (more := os.read(fd, size - len(data))):
        data += more
    return data


def data_ranges(fd: int) -> Iterator[tuple[int, int]]:
    """Where a file has data, as (start, end)."""
    at, size = 0, os.fstat(fd).st_size
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            if error.errno == errno.EINVAL:  # a file system without holes
                yield at, size
                return
            raise
        yield start, at


def copy_content(source: int, sink: int, most: int) -> None:
    """All data of an open file into an empty one, holes left out. Raises OSError, EFBIG where the size that the file
    claims is more than `most`."""
    found = os.fstat(source)
    if found.st_size > most:
        raise OSError(errno.EFBIG, f"claims {found.st_size} bytes, and no file of more than {most} is written")
    if found.st_size <= PIECE and found.st_blocks * 512 >= found.st_size:
        write_all(sink, exactly(source, found.st_size))
        return
    for start, end in data_ranges(source):
        os.lseek(sink, start, os.SEEK_SET)
        at = start
        while at < end:
            sent = os.sendfile(sink, source, at, min(end - at, 1 << 30))
            if not sent:
                break
            at += sent
    os.truncate(sink, found.st_size)


def write_all(fd: int, data: bytes) -> None:
    """Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
