"""What is watched of files and refused calls, for whoever asks why a command fails (`why`), and under monitor. Pure.

A watched call goes on as it would without: the supervisor looks at the paths that it names, and answers nothing
(csrc/host/notify/paths.c). What the filter refuses is handed over instead, counted, and refused with the same errno.
"""

from __future__ import annotations

from pysandbox.policy.model import Policy

# The calls of the class PATH: those of csrc/host/notify/path_calls.c that are not of EXEC or OPEN. One that this
# machine does not have is not in its filter.
PATH_CALLS = (
    "access", "chmod", "chown", "faccessat", "faccessat2", "fchmodat", "fchownat", "lchown", "link", "linkat", "lstat",
    "mkdir", "mkdirat", "mknod", "mknodat", "newfstatat", "readlink", "readlinkat", "rename", "renameat", "renameat2",
    "rmdir", "stat", "statx", "symlink", "symlinkat", "truncate", "unlink", "unlinkat", "utimensat",
)  # fmt: skip

# The class RENAME, where Python moves directories (`supervise.moving`); else they are of PATH.
RENAME_CALLS = ("rename", "renameat", "renameat2")


def watches_files(policy: Policy) -> bool:
    return policy.why or policy.monitor


def denial_of(policy: Policy) -> str:
    """What a refused call meets where a supervisor hears of it: a row of `seccomp.DENIALS`. Strict kills at once, and
    is asked nothing."""
    return "kill" if policy.strict else "told" if policy.why else "errno"
