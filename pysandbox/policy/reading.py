"""The one way in which a file that has a say in a policy is read: recipes, manifests, baselines, the record of trust.

Such a file may have been put there by a stranger, or by the code that ran in a cage a moment ago. So it is opened in a
way that waits for nobody (a FIFO without a writer, a lease that somebody holds), and counts only when what was opened
is a regular file of a bounded size. What is asked about it (whose it is, who may write it) is asked of the descriptor
whose bytes are used, so that no other file can take its place in between. Nothing else in `policy` and `cli` opens one:
`tests/meta/test_policy_files.py` holds that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from pysandbox.errors import PolicyError
from pysandbox.sha256 import sha256 as digest_of

LARGEST_FILE = 1 << 20  # bytes; a policy that people can review is a thousand times smaller
CHUNK = 1 << 16
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
BYTE_ORDER_MARK = "\ufeff"
REMOVE = "look where it came from, then remove it"

Check = Callable[[os.stat_result], None]  # raises PolicyError


def read_regular(file: str, check: Check | None = None) -> bytes:
    """The bytes of a regular file. PolicyError when it is none, is too large, or `check` refuses it; else OSError."""
    _check_regular(os.stat(file), file)  # before it is opened: the open of a device may do something by itself
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        _check_regular(found, file)
        if check is not None:
            check(found)
        return _bounded(descriptor, file)
    finally:
        os.close(descriptor)


def contents(file: str, check: Check | None = None) -> bytes:
    """As `read_regular`, but every failure is a PolicyError."""
    try:
        return read_regular(file, check)
    except PolicyError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PolicyError(f"cannot be read: {reason}", file=file, suggestion="give the path of a TOML file") from None


def decoded(content: bytes, file: str) -> str:
    """The text, without the mark of byte order that some editors begin with. Raises PolicyError."""
    try:
        return content.decode().removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PolicyError("is not UTF-8, which TOML must be", file=file, line=line) from None


def recipe_text(file: str) -> str:
    """The text of a file that may be a recipe. Raises PolicyError."""
    return decoded(contents(file), file)


def sha256(content: bytes) -> str:
    return str(digest_of(content).hexdigest())


def _check_regular(found: os.stat_result, file: str) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        raise PolicyError(f"is {KINDS.get(kind, 'something else')}, not a file", file=file, suggestion=REMOVE)


def _bounded(descriptor: int, file: str) -> bytes:
    """No more than the largest that is allowed, whatever size the file claims to have."""
    content = bytearray()
    while piece := os.read(descriptor, CHUNK):
        content += piece
        if len(content) > LARGEST_FILE:
            raise PolicyError(
                f"is larger than {LARGEST_FILE} bytes", file=file, suggestion="give the path of a TOML file"
            )
    return bytes(content)
