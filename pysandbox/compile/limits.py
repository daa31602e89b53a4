"""The resource limits of every process of a cage, by setrlimit. Soft and hard are equal: none can be raised again.

What only a cgroup could hold (memory, CPU) is not here: `degrade` says so.
"""

from __future__ import annotations

from collections.abc import Callable

from pysandbox.compile.plan import Limit
from pysandbox.policy.model import Policy

DEFAULT_PIDS = 4096
GIB = 1 << 30

# RLIMIT_NPROC counts every process of the user id in the cage's user namespace (5.14), the cage's init among them.
LIMITS: tuple[tuple[str, Callable[[Policy], int | None]], ...] = (
    ("NPROC", lambda policy: DEFAULT_PIDS if policy.max_pids is None else policy.max_pids + 1),
    ("AS", lambda policy: policy.address_space_gb * GIB or None),
    ("NOFILE", lambda policy: policy.open_files),
    ("FSIZE", lambda policy: policy.file_size_gb * GIB or None),
    ("CORE", lambda policy: 0),
)


def limits(policy: Policy) -> tuple[Limit, ...]:
    return tuple(Limit(resource, value(policy)) for resource, value in LIMITS)
