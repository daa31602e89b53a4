"""Text under /proc that a program of the cage helps to write: names of mapped files, of threads, of groups.

All that reads it for a limit comes through here. It is bytes; a line ends with a newline and with nothing else (the
kernel escapes that one in names, and no other byte that `str.splitlines` splits at); what is not a number where one is
expected counts nothing. So no text makes these functions raise. Reading does, but for what has ended meanwhile: a limit
must not be thought kept because the host could not look.
"""

from __future__ import annotations

import errno
import os

from pysandbox.shapes import TypeVar

Text = TypeVar("Text", bytes, list[str])

KIB = 1024
MOST_DIGITS = 20  # of a number of 64 bits
GONE = frozenset({errno.ENOENT, errno.ESRCH})
CLOSED_TO_US = frozenset({errno.EACCES, errno.EPERM})  # it has made itself unreadable (PR_SET_DUMPABLE)


def read_below(directory: int | None, path: str, most: int = 1 << 16) -> bytes | None:
    """A file below an open /proc; b"" of what has ended, None of what is not ours to read. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
        try:
            return _whole(fd, most)
        finally:
            os.close(fd)
    except OSError as error:
        return _nothing(error, b"")


def names_below(directory: int | None, path: str) -> list[str] | None:
    """What a directory below an open /proc holds; [] and None as above. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            return os.listdir(fd)
        finally:
            os.close(fd)
    except OSError as error:
        return _nothing(error, [])


def _nothing(error: OSError, empty: Text) -> Text | None:
    if error.errno in GONE:
        return empty
    if error.errno in CLOSED_TO_US:
        return None
    raise error


def _whole(fd: int, most: int) -> bytes:
    text = b""
    while len(text) < most and (more := os.read(fd, 1 << 16)):
        text += more
    return text


def number(word: bytes, base: int = 10) -> int:
    """0 for what is none."""
    try:
        return int(word, base) if len(word) <= MOST_DIGITS else 0
    except ValueError:
        return 0


def numbers(text: bytes) -> list[int]:
    return [number(word) for word in text.split()]


def lines(text: bytes) -> list[bytes]:
    return text.split(b"\n")


def after_name(text: bytes) -> list[bytes]:
    """proc_pid_stat(5) from the state on (field 3 is [0]); the name before it may hold anything, `)` included."""
    return text.rpartition(b")")[2].split()


def field(fields: list[bytes], place: int) -> int:
    return number(fields[place]) if place < len(fields) else 0


def sizes(text: bytes) -> dict[bytes, int]:
    """`Name:   123 kB` lines, in bytes."""
    rows = (line.split() for line in lines(text))
    return {row[0].rstrip(b":"): number(row[1]) * KIB for row in rows if len(row) == 3 and row[2] == b"kB"}


def table(text: bytes) -> dict[bytes, int]:
    """`name 123` or `name: 123` lines."""
    rows = (line.split() for line in lines(text))
    return {row[0].rstrip(b":"): number(row[1]) for row in rows if len(row) == 2}


def runnable() -> int:
    """How many threads of the whole machine have a CPU or want one. Raises OSError."""
    with open("/proc/loadavg", "rb", buffering=0) as file:
        words = file.read(200).split()
    return number(words[3].partition(b"/")[0]) if len(words) > 3 else 1
