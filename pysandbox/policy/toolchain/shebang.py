"""The `#!` line of a script, as the kernel reads it; and what pip and uv write where that line would be too long for
it, a script of sh(1) that is one of Python too. Nothing is executed.
"""

from __future__ import annotations

import os
from stat import S_ISREG

HEAD = 256  # BINPRM_BUF_SIZE: what the kernel reads of a #! line
EXEC = b"'''exec' "  # how the second line of such a script begins
LONGEST = 4096 + 256


def first_bytes(path: str, most: int = LONGEST) -> bytes:
    """The beginning of a regular file; b"" for all else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(descriptor, most) if S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def interpreter(path: str) -> tuple[str, str] | None:
    """(the program of the `#!` line, the name that env(1) is to look for there or ""); None for what is no script."""
    head = first_bytes(path)
    if not head.startswith(b"#!"):
        return None
    words = [os.fsdecode(word) for word in head[2:HEAD].split(b"\n", 1)[0].split(b"\0", 1)[0].split()]
    if not words:
        return None
    second = head.split(b"\n", 2)[1:2]
    if second and second[0].startswith(EXEC) and os.path.basename(words[0]) in ("sh", "bash"):
        return _executed(os.fsdecode(second[0][len(EXEC) :]), path), ""
    return words[0], _searched(words[1:]) if os.path.basename(words[0]) == "env" else ""


def _executed(line: str, path: str) -> str:
    """The program of `exec PROGRAM "$0" "$@"`; of one that is looked for beside the script, the name is the last."""
    import re
    import shlex

    if line.startswith('"$('):
        beside = re.search(r"\)\"?/'?([\w.-]+)", line)
        return os.path.join(os.path.dirname(path), beside[1]) if beside else ""
    try:
        words = shlex.split(line)
    except ValueError:
        return ""
    return words[0] if words else ""


def _searched(words: list[str]) -> str:
    """The name that `env [-S] [NAME=VALUE ...] NAME` searches for."""
    for word in words:
        if word != "-S" and "=" not in word:
            return word.removeprefix("-S")
    return ""
