"""What a process of ours that is to confine itself sets for itself, before it can set nothing any more."""

from __future__ import annotations

import resource


def set_own_limits() -> None:
    """As many descriptors as the host program may have, and no core dump: it would hold what others have said."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
