"""Why a program is not found in a cage, from where it lies on the host, and what to type instead.

Only a run that can work is proposed. The first line of a script is looked at, and nothing is executed.
"""

from __future__ import annotations

import os
import shlex
from stat import S_ISREG

HEAD = 256  # bytes of a file that the kernel reads for #!


def why(program: str) -> str:
    """One line."""
    found = _on_the_host(program)
    if found is None:
        return f"{program!r} was not found in the cage, nor is it on this host; check the name"
    interpreter = _interpreter(found)
    if interpreter is not None and not os.path.exists(interpreter):
        return f"{program!r} is a script, and its interpreter {interpreter!r} does not exist"
    places = _places(found) + ([] if interpreter is None else _places(interpreter))
    if not places:
        return f"{program!r} was not found in the cage; check the PATH and the grants of the policy"
    flags = " ".join(f"--allow {shlex.quote(place)}" for place in dict.fromkeys(places))
    what = f"{found!r}" if interpreter is None else f"{found!r}, or its interpreter {interpreter!r},"
    return f"{program!r} was not found in the cage, which does not show {what} ({flags} -- {shlex.quote(found)})"


def _on_the_host(program: str) -> str | None:
    directories = [""] if "/" in program else (os.environ.get("PATH") or os.defpath).split(":")
    for directory in directories:
        path = os.path.abspath(os.path.join(directory, program))
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _places(path: str) -> list[str]:
    """What has to be seen for this file to be reached: the directory of the name, and of what it leads to; of the home
    directory, and what holds it, the file alone."""
    from pysandbox.policy.match import covers
    from pysandbox.policy.search import SYSTEM_PROGRAMS

    places = dict.fromkeys(each if _is_wide(os.path.dirname(each)) else os.path.dirname(each)
                           for each in (path, os.path.realpath(path)))  # fmt: skip
    return [each for each in places if not any(covers(system, each) for system in (*SYSTEM_PROGRAMS, "/usr"))]


def _is_wide(directory: str) -> bool:
    """Whether too much lies there to be granted for one program."""
    from pysandbox.policy.match import covers

    return covers(os.path.realpath(directory), os.path.realpath(os.path.expanduser("~")))


def _interpreter(path: str) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        head = os.read(descriptor, HEAD) if S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return None
    finally:
        os.close(descriptor)
    words = head[2:].split(b"\n", 1)[0].split() if head.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else None
