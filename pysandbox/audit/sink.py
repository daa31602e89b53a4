"""AuditLog: a Sink that keeps events as one sealed stream of JSON lines (chain.py), shared by any number of processes.

    Runtime(audit=AuditLog())                 beside a sink of your own: Runtime(audit=..., sink=...)

A record is in the file when the call returns, and survives the end of this process. What EventType.durable marks (that
a command was started) is on the disk as well, with all before it. What is marked frequent is counted, and written at
`allow_rate`.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock  # threading's Lock, without its imports

from pysandbox.audit import files
from pysandbox.audit.stream import AuditStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Mapping

    from pysandbox.events import Event
    from pysandbox.shapes import Self

CAGES_COUNTED = 4096  # the counters of the cage that began first go first
ROTATE_MB = 64


def now() -> str:
    moment = time.time_ns() // 1000
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment // 1_000_000)) + f".{moment % 1_000_000:06}Z"


class AuditLog:
    """Thread-safe; a forked copy goes on by itself. `path` None: $XDG_STATE_HOME/pysandbox/audit/events.jsonl.

    The directory is made with mode 0700, and refused when others may enter it. A file of `rotate_mb` MiB is full; full
    files are never removed. Raises AuditError, also from each call: whoever cannot be recorded is not started.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, allow_rate: float = 0.0, rotate_mb: float = ROTATE_MB
    ) -> None:
        if not 0 <= allow_rate <= 1:
            raise ValueError(f"allow_rate must be between 0 and 1, not {allow_rate!r}")
        if not rotate_mb > 0:
            raise ValueError(f"rotate_mb must be more than 0, not {rotate_mb!r}")
        self._chosen = os.fspath(path) if path is not None else files.default_path()
        self._rate, self._credit = allow_rate, 0.0
        self._counts: dict[object, dict[str, int]] = {}
        self._lock, self._pid = allocate_lock(), os.getpid()
        self._stream = AuditStream(os.path.abspath(self._chosen), int(rotate_mb * (1 << 20)), now)

    @property
    def path(self) -> str:
        return self._stream.path

    @property
    def directory(self) -> str:
        """What no cage may reach: a Runtime that has this log keeps it out of every policy."""
        return self._stream.directory

    def __call__(self, event: Event) -> None:
        from pysandbox.events import EXIT, TYPES

        kind = TYPES.get(event.type)
        data, invocation = event.data, event.data.get("invocation_id")
        if not self._counted(event.type, invocation, frequent=kind is not None and kind.frequent):
            return
        if event.type == EXIT.name and (counts := self._brought(invocation, data.get("counts"))):
            data = {**data, "counts": counts}
        self.append(event.type, data, durable=kind is not None and kind.durable)

    def append(self, type: str, data: Mapping[str, object], *, durable: bool = False) -> None:
        """One record, neither counted nor sampled; `durable`: on the disk when this returns."""
        with self._turn():
            position = self._stream.append(type, data)
        if durable:
            self._stream.sync(position)

    def counts(self, invocation_id: object) -> Mapping[str, int]:
        """How often each thing happened in one cage, written or not; without what every run has. What repeats has no
        event, and is here once a command of the cage has ended: then it is what `Result.network` says."""
        with self._turn():
            return dict(self._counts.get(invocation_id, ()))

    def _brought(self, invocation: object, told: object) -> Mapping[str, int]:
        """The counts, with those of whoever counted all of it, and knows better."""
        with self._turn():
            if isinstance(told, dict) and told:
                self._room_for(invocation).update(told)
            return dict(self._counts.get(invocation, ()))

    def _room_for(self, invocation: object) -> dict[str, int]:
        if invocation not in self._counts and len(self._counts) >= CAGES_COUNTED:
            del self._counts[next(iter(self._counts))]
        return self._counts.setdefault(invocation, {})

    def _counted(self, type: str, invocation: object, *, frequent: bool) -> bool:
        """Counts an event; whether it is to be written."""
        if not frequent and not type.endswith(("denied", "unreachable")):
            return True
        with self._turn():
            counts = self._room_for(invocation)
            counts[type] = counts.get(type, 0) + 1
            if not frequent:
                return True
            self._credit += self._rate
            if self._credit < 1:
                return False
            self._credit -= 1
            return True

    def _turn(self) -> LockType:
        if self._pid != os.getpid():  # a thread that this process does not have may have held the lock
            self._lock, self._pid = allocate_lock(), os.getpid()
        return self._lock

    def close(self) -> None:
        """Idempotent. What was written stays; what comes later is refused. Of commands that nobody holds any more the
        ends are recorded first."""
        forgotten = sys.modules.get("pysandbox.launch.forgotten")  # not loaded where there was no cage
        if forgotten is not None:
            forgotten.wait_for_forgotten()
        with self._turn():
            self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        stream = getattr(self, "_stream", None)
        if stream is not None:
            stream.close()
