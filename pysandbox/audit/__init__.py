"""The audit trail: what happened in cages, on disk before it is believed, and told again on demand.

    canonical.py  values -> one text      chain.py   record <-> line, each sealed over the one before it
    files.py      where a stream lives    sink.py    AuditLog: the only writer
    read.py       every record, verified  runs.py    records -> Run: what one cage did
    told.py       what a spawn says of its cage     ending.py   the records of a command's end
    tell.py       a Run in sentences    report/     a Run as one page of HTML
    log.py, otel.py   other places to send events

A writer is on the path of every spawn: canonical, chain, files and sink import only what costs nothing.
"""

from __future__ import annotations

from pysandbox.audit.sink import AuditLog

__all__ = ["AuditLog"]
