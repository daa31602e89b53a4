"""What a program that failed cannot do without, and a cage does not give by itself, as its name or its end tells. Pure.

A debugger needs ptrace(2), which the ordinary profiles refuse. git ends with 128 where it could not do what it was
told, and from a worktree, a submodule or a directory further down it cannot write to the repository, which is shown
read-only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from pysandbox.compile.notes import TO_COMMIT
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.compile.plan import Plan
    from pysandbox.policy.model import Policy

TRACERS = frozenset({"gdb", "gdbserver", "lldb", "ltrace", "strace"})  # as csrc/launcher/failure.c has them
GIT_FAILED = 128


def tracing(argv: Sequence[str], policy: Policy) -> str:
    """ "" where it is no debugger, or may trace."""
    name = os.path.basename(argv[0])
    if name not in TRACERS or policy.seccomp == "relaxed" or policy.seccomp_mode != "allow-list":
        return ""
    if "ptrace" in (*policy.allow_syscalls, *policy.deny_syscalls):
        return ""
    return f"{name} traces programs, which the sandbox refuses; to allow it: --allow-syscall ptrace"


def repository(code: int, plan: Plan) -> str:
    """ "" where no repository of the working directory was left read-only."""
    if code != GIT_FAILED:
        return ""
    return next((note.message for note in plan.notes if TO_COMMIT in note.message), "")
