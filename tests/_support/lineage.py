"""Which processes are this run's: a mark that every descendant inherits and that nobody else bears.

The leak guard counts what the suite itself has started, not what the account runs besides: an editor, a cage of the
user's own, a second run of the suite. The mark is the process's oom_score_adj (proc(5)): it passes on at fork, survives
execve, new namespaces, a change of ids and the death of the parent, and anyone may read it, also of a process that is
not dumpable. To raise it needs no privilege.
"""

from __future__ import annotations

import os

LOWEST, SPAN = 100, 399  # the mark lies above what sessions and services start with
IN_A_CAGE, MOST = 500, 1000  # what cage-init adds for what it runs (csrc/init/main.c); so no mark is another's and this

_mark: int | None = None


def mark_this_process() -> None:
    """From here on whatever this process starts is told from everything else. Keeps a mark that is high enough."""
    global _mark
    before = _score("self")
    _mark = max(before, LOWEST + os.getpid() % SPAN)
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(_mark))


def is_ours(pid: str | int) -> bool:
    """Whether the process bears the mark. OSError when there is no such process any more."""
    return _mark is not None and _score(pid) in (_mark, min(_mark + IN_A_CAGE, MOST))


def is_foreign(pid: str | int) -> bool:
    """Whether a process of that number lives and is not ours; never where nothing has been marked."""
    try:
        return _mark is not None and not is_ours(pid)
    except OSError:
        return False


def _score(pid: str | int) -> int:
    with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as file:
        return int(file.read())
