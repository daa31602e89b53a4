"""The filter that the workers of a template have beside the one of their cage: what would reach a sibling.

In one PID namespace, under one user, the scheduling calls act on any process by its number, and System V and POSIX
objects are found by name; no Landlock domain binds either. So a worker has them as a process without namespaces has:
on its own thread, which is 0, and not at all. Nor does one bind who watches a directory, and would be told the names
in a sibling's. Installed once, before the first worker is forked.
"""

from __future__ import annotations

from functools import cache


@cache
def siblings_filter(machine: str) -> bytes:
    """`struct sock_filter[]`. Raises UnsupportedError."""
    from pysandbox.compile import bpf
    from pysandbox.compile.profiles import arguments
    from pysandbox.compile.seccomp import words
    from pysandbox.compile.syscalls import table

    known = table(machine)
    absent = dict.fromkeys((*arguments.OBJECTS_BY_NAME, *arguments.DIRECTORY_WATCHES), bpf.CallAction.ABSENT)
    rules = {**arguments.BY_NUMBER, **absent}
    held = {known.numbers[name]: rule for name, rule in rules.items() if name in known.numbers}
    rows = bpf.ranges(held, bpf.CallAction.ALLOW, [])
    return bpf.assemble(known.audit_arch, rows, words("errno"), lambda start, end: end - start)
