"""What is left of a run: how it ended, its log and its journal; and what the audit trail is told of it."""

from __future__ import annotations

from pysandbox.apps.denials import DenialLog, DeniedInstruction
from pysandbox.events import APP_DENIED, APP_ENDED, Event
from pysandbox.shapes import TYPE_CHECKING, dataclass

if TYPE_CHECKING:
    from pysandbox.apps.grant import AppGrant
    from pysandbox.apps.journal import AppJournal
    from pysandbox.events import Sink

DIFFERENT = 1024  # denials of one run that the trail tells one by one; all of them are in the log


@dataclass(frozen=True, slots=True)
class AppOutcome:
    """`ended`: halt, exit and a code, ticks, log full, or trap and why. `log` has one record for each denied
    instruction."""

    ended: str
    ticks: int
    log: DenialLog
    written: AppJournal | None = None

    @property
    def journal(self) -> bytes:
        """All that came in, for `App.replay`; empty for a replay itself."""
        return self.written.text() if self.written is not None else b""

    @property
    def ok(self) -> bool:
        return self.ended in ("halt", "exit 0")


class Trail:
    """Tells a sink of denials: of each (opcode, operands, reason) once, however often it happens."""

    def __init__(self, sink: Sink, grant: AppGrant, mode: str) -> None:
        self._sink, self._grant, self._mode = sink, grant, mode
        self._told: set[tuple[str, str, str]] = set()

    def denied(self, record: DeniedInstruction) -> None:
        key = record.opcode, record.args_summary, record.deny_reason
        if key not in self._told and len(self._told) < DIFFERENT:
            self._told.add(key)
            self._sink(Event(APP_DENIED.name, record._asdict()))

    def ended(self, outcome: AppOutcome) -> None:
        grant = self._grant
        data = {"app_id": grant.app_id, "version": grant.version, "package": grant.package, "mode": self._mode,
                "ended": outcome.ended, "ticks": outcome.ticks, "denials": len(outcome.log),
                "granted_capabilities_snapshot": tuple(sorted(grant.granted))}  # fmt: skip
        self._sink(Event(APP_ENDED.name, data))
