"""Events to the standard library's logging: one message an event, its fields on the record.

    Runtime(audit=AuditLog(), sink=to_logging())

A handler finds the type in `record.event` and the fields in `record.fields`. What was refused, ended by force or made
weaker is a warning; the rest is information.
"""

from __future__ import annotations

import logging

from pysandbox.audit.canonical import canonical
from pysandbox.events import (
    COMPILE_ERROR,
    DEGRADED,
    DENIED,
    DNS_DENIED,
    KILLED,
    LEFTOVER,
    LIMITS_NOT_ENFORCED,
    LIMITS_SKIPPED,
    PLANTED,
    POLICY_VIOLATION,
    SPAWN_UNCAGED,
    START_FAILED,
    TCP_DENIED,
    UPSTREAM_UNREACHABLE,
    Event,
    Sink,
)

__all__ = ["to_logging"]

WARNINGS = frozenset(
    each.name
    for each in (
        COMPILE_ERROR, DEGRADED, DENIED, DNS_DENIED, KILLED, LEFTOVER, LIMITS_NOT_ENFORCED, LIMITS_SKIPPED, PLANTED,
        POLICY_VIOLATION, SPAWN_UNCAGED, START_FAILED, TCP_DENIED, UPSTREAM_UNREACHABLE,
    )
)  # fmt: skip


def to_logging(logger: logging.Logger | None = None) -> Sink:
    """A sink for `logger`, by default the one named "pysandbox"."""
    target = logger or logging.getLogger("pysandbox")

    def sink(event: Event) -> None:
        level = logging.WARNING if event.type in WARNINGS else logging.INFO
        if target.isEnabledFor(level):
            fields = canonical(dict(event.data))
            target.log(level, "%s %s", event.type, fields, extra={"event": event.type, "fields": dict(event.data)})

    return sink
