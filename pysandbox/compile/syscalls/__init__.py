"""System calls by name: the one place that turns a name into a number.

The tables beside this file are written by tools/gen_syscalls.py and imported on first use, so that a shipped filter
costs none of them. Nothing here allows or refuses anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pysandbox.errors import UnsupportedError
from pysandbox.shapes import NamedTuple

MACHINES = ("x86_64", "aarch64")


class Table(NamedTuple):
    """One machine: its AUDIT_ARCH_* word and its numbers."""

    audit_arch: int
    numbers: Mapping[str, int]


@cache
def table(machine: str) -> Table:
    if machine == "x86_64":
        from pysandbox.compile.syscalls import x86_64

        return Table(x86_64.AUDIT_ARCH, x86_64.NUMBERS)
    if machine == "aarch64":
        from pysandbox.compile.syscalls import aarch64

        return Table(aarch64.AUDIT_ARCH, aarch64.NUMBERS)
    raise UnsupportedError(
        f"there is no table of system calls for {machine!r}",
        feature="seccomp_filter",
        fix=f"run on one of {', '.join(MACHINES)}",
    )


@cache
def names(machine: str) -> Mapping[int, str]:
    """The other way: what a number in a seccomp report is called."""
    return {number: name for name, number in table(machine).numbers.items()}


def is_name(name: str) -> bool:
    """Whether any machine has a system call of this name."""
    from pysandbox.compile.syscalls import elsewhere

    return name in elsewhere.NAMES or any(name in table(machine).numbers for machine in MACHINES)


def closest(name: str) -> str | None:
    """The known name that a misspelled one was probably meant to be."""
    from difflib import get_close_matches

    candidates = sorted({known for machine in MACHINES for known in table(machine).numbers})
    return next(iter(get_close_matches(name.lower(), candidates, 1)), None)
