"""Who writes the records of this host's cages (registry.py): the background worker, of those cages that last.

Writing and removing a file takes a fifth of what a cold start costs this process. No caller waits for it: the worker
does it when a cage has lasted a little, and a command that is over by then, as most are, has no record. Once, before
its first record, it looks what earlier hosts have left behind: stale records go, everything else is only told
(LIFE-07).
"""

from __future__ import annotations

import threading
import time
from functools import partial

from pysandbox.compile.plan import Plan
from pysandbox.events import NOTE, UNTRACKED, Event, Sink
from pysandbox.launch.owner import owner_of, this_process
from pysandbox.launch.worker import Worker
from pysandbox.live.init import CageInit
from pysandbox.records import orphans, registry
from pysandbox.records.registry import CageRecord, shortened
from pysandbox.shapes import NamedTuple

LASTING = 0.01  # seconds
LONGEST_WRITE = 5.0  # seconds that the end of the host waits for a record, where a disk hangs


class Waiting(NamedTuple):
    """A cage that may get a record."""

    live: CageInit
    argv: tuple[str, ...]
    plan: Plan
    started: float


class Recorder:
    """`add` is cheap and may be called by any thread."""

    def __init__(self, worker: Worker, sink: Sink) -> None:
        self._worker = worker
        self._sink = sink
        self._lock = threading.Lock()
        self._waiting: list[Waiting] = []
        self._looked = False
        self._ended = False
        self._writing = threading.Lock()

    def add(self, live: CageInit, argv: tuple[str, ...], plan: Plan) -> None:
        """`argv` is that of the only command, empty for a session."""
        waiting = Waiting(live, argv, plan, time.time())
        with self._lock:
            self._waiting.append(waiting)
            if len(self._waiting) > 1:
                return
        self._worker.put_off(self._write_all, LASTING, self._any_lasts)

    def stop(self) -> None:
        """No more records: the host ends. The one that is being written is waited for, so that it goes, too."""
        self._ended = True
        if self._writing.acquire(timeout=LONGEST_WRITE):
            self._writing.release()

    def _any_lasts(self) -> bool:
        """Most are over before anything is written, and the worker is not woken for them."""
        with self._lock:
            before, self._waiting = self._waiting, [each for each in self._waiting if not each.live.closed]
            any_lasts = bool(self._waiting)
        del before  # what ends with it ends without the lock
        return any_lasts

    def _write_all(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        lasting = [each for each in waiting if not each.live.closed]
        if not lasting or self._ended:
            return
        try:
            if not self._looked:
                self._look_around()
            for each in lasting:
                self._write(each)
        except OSError as error:
            self._sink(Event(NOTE.name, {"key": "registry", "reason": f"no record is kept of this cage: {error}"}))

    def _write(self, waiting: Waiting) -> None:
        with self._writing:
            if not self._ended:
                write_record(waiting.live, waiting.argv, waiting.plan.digest, waiting.started)

    def _look_around(self) -> None:
        self._looked = True
        for orphan in orphans.untold(orphans.sweep()):
            self._sink(Event(UNTRACKED.name, {"kind": orphan.kind, "path": orphan.path, "pid": orphan.pid}))


def write_record(live: CageInit, argv: tuple[str, ...], digest: str, started: float) -> None:
    """The record of a cage that runs, which goes with it. Raises OSError."""
    init = owner_of(live.pid)
    if init is None or live.closed:
        return
    registry.write(
        CageRecord(
            id=live.id, init=init, host=this_process(), argv=shortened(argv), digest=digest,
            started=started, cgroup=str(getattr(live.cgroup, "path", "")),
            scratch=live.scratch if live.owns_scratch else "",
        )
    )  # fmt: skip
    live.recorded(partial(registry.remove, live.id))  # a closure would keep a forgotten cage alive
