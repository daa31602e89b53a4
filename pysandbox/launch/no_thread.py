"""Why this program gets no thread, and what to do.

A filter of system calls that answers clone3 with EPERM, as those of old container engines do, keeps a program from
threads altogether: libc takes the older call only where the answer is ENOSYS. Python keeps the errno to itself.
"""

from __future__ import annotations

import errno

PYTHON_S = "can't start new thread"
_FILTER = (
    "a filter of system calls refuses clone3 (a container of Docker before 20.10.10, or with an old libseccomp): "
    "update the engine, or give the container a newer profile (--security-opt seccomp=FILE)"
)
_LIMIT = (
    "the limit of processes is reached (ulimit -u, or pids.max of the group or container that this runs in): raise it, "
    "or end some"
)
WHY = {errno.EPERM: _FILTER, errno.EAGAIN: _LIMIT}


def explained(error: RuntimeError) -> str | None:
    """What to say of an error of Python's that is of this kind; None: it is another."""
    if str(error) != PYTHON_S:
        return None
    return f"this program may start no thread: either {_LIMIT}; or {_FILTER}"
