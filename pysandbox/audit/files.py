"""Where a stream lives: one directory of mode 0700, the file that is written now, the full ones, the head file.

events.jsonl                 written now
events.jsonl.000000001234    full; the number of its last record, so names sort as the records do
events.jsonl.head            number and hash of the last record and the size of the file that holds it; writers
                             take turns by a lock on it
"""

from __future__ import annotations

import os
import stat

from pysandbox.audit.chain import START, Link
from pysandbox.errors import AuditError
from pysandbox.launch.private import is_private, make_private
from pysandbox.probe.state import audit_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

NAME = "events.jsonl"
OFF = "off"  # as a value of VARIABLE
VARIABLE = "PYSANDBOX_AUDIT"
DIGITS = 12


def default_path() -> str:
    return os.path.join(audit_directory(), NAME)


def chosen_path() -> str | None:
    """The stream that the environment asks for, else the default one; None when it says off."""
    asked = os.environ.get(VARIABLE, "")
    if asked == OFF:
        return None
    return asked or default_path()


def head_path(path: str) -> str:
    return f"{path}.head"


def full_path(path: str, last: Link) -> str:
    return f"{path}.{last.seq:0{DIGITS}}"


def all_files(path: str) -> list[str]:
    """The files of a stream that exist, the oldest first."""
    directory, name = os.path.split(os.path.abspath(path))
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    begin = f"{name}."
    full = sorted(each for each in names if each.startswith(begin) and _is_number(each.removeprefix(begin)))
    return [os.path.join(directory, each) for each in (*full, *([name] if name in names else []))]


def _is_number(text: str) -> bool:
    """In ASCII: to `str.isdigit` a superscript is a digit, too."""
    return text.isascii() and text.isdigit()


def open_stream(path: str) -> IO[bytes]:
    """Opens a file of a stream for reading, and waits for nobody. Raises AuditError for what is no file, OSError."""
    require_file(os.stat(path), path)  # to open a device may do something by itself
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        require_file(os.fstat(fd), path)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def require_file(found: os.stat_result, path: str) -> None:
    """Raises AuditError for a directory, a pipe, a device."""
    if stat.S_ISDIR(found.st_mode):
        raise AuditError("is a directory", None, path, f"name the stream in it, as {os.path.join(path, NAME)}")
    if not stat.S_ISREG(found.st_mode):
        raise AuditError("is no regular file", None, path, "name the file that holds the stream")


def make_directory(directory: str) -> None:
    """Makes it if need be. Raises AuditError unless it is ours alone: who else can write there can rewrite the past."""
    try:
        make_private(directory)
        found = os.stat(directory)
    except OSError as error:
        raise AuditError(
            "cannot be made", error.errno, directory, f"choose another file with {VARIABLE}, or {VARIABLE}=off"
        ) from None
    if not is_private(found):
        hint = f"chmod 700 {directory}, or choose a directory that is yours alone"
        raise AuditError("is open to other users", None, directory, hint)


def head_text(last: Link, size: int) -> bytes:
    """Always the same length, so that one write replaces another."""
    return f"{last.seq:020} {last.hash} {size:020}\n".encode()


def read_head(text: bytes) -> tuple[Link, int] | None:
    """(last record, size of the current file), None for anything but what `head_text` writes."""
    parts = text.split()
    if len(parts) != 3 or not (parts[0].isdigit() and parts[2].isdigit()):
        return None
    last, size = Link(int(parts[0]), parts[1].decode("ascii", "replace")), int(parts[2])
    return (last, size) if head_text(last, size) == text else None


HEAD_SIZE = len(head_text(START, 0))
