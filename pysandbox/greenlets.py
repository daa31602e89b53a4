"""Whether this process has threads and polls of its own, or those of gevent or eventlet in their place.

Where `monkey.patch_all()` has been there, a "thread" is a greenlet of the thread that started it, and one that waits in
C holds up all of them. Commands, pipelines, templates and functions wait in poll(2) alone and go well with that; what
serves a cage while it runs, doors and callbacks, needs a thread, and would hang the program without one.
"""

from __future__ import annotations

import sys

from pysandbox.errors import UnsupportedError

NEEDED = ("thread", "threading", "select", "socket")
PATCHERS = (("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched"))
ADVICE = (
    "open such cages in a process that is not patched, or grant what needs nobody to serve it: no hosts, published "
    "ports, callbacks, lists of programs or copy-on-write directories"
)


def patched_by() -> str | None:
    """Who has put greenlets in the place of threads, polls or sockets. Asks nobody who is not imported."""
    for module, question in PATCHERS:
        is_patched = getattr(sys.modules.get(module), question, None)
        if is_patched is not None and any(is_patched(each) for each in NEEDED):
            return module.partition(".")[0]
    return None


def require_threads(what: str) -> None:
    """Raises UnsupportedError."""
    if (patcher := patched_by()) is not None:
        raise UnsupportedError(
            f"{what} needs a thread of its own, and {patcher} has put greenlets in the place of threads",
            feature="threads",
            fix=ADVICE,
        )
