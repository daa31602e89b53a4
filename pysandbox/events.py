"""Everything that can happen, by name: the only place event types are spelled.

Types with a `subagent.`, `sandbox.` or `policy.` prefix are document 000's, kept verbatim; the others are ours. An
Event is a fact about the past: it never carries an instruction, and a denial is an event, not an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventType:
    """One kind of event: its name on the wire, what it means, and the fields it carries."""

    name: str
    doc: str
    fields: tuple[str, ...]


SPAWN = EventType(
    "subagent.spawn",
    "A command was started in a cage.",
    ("invocation_id", "project_id", "session_id", "cage_summary", "effective_cage_hash", "argv"),
)
SPAWN_UNCAGED = EventType(
    "subagent.spawn.uncaged",
    "A command was started without a cage, because the policy or the host said so.",
    ("invocation_id", "subagent_name", "project_id", "session_id", "reason", "argv"),
)
EXIT = EventType("subagent.exit", "A command ended.", ("invocation_id", "exit_code", "duration_ms", "reason"))
KILLED = EventType(
    "subagent.killed",
    "A command was ended by force: walltime_exceeded, oom, seccomp, session_ended or cancelled.",
    ("invocation_id", "reason"),
)
COMPILE_ERROR = EventType(
    "sandbox.compile_error", "A policy could not be compiled.", ("invocation_id", "error_code", "details")
)
LIMITS_NOT_ENFORCED = EventType(
    "sandbox.limits_not_enforced", "A limit that was asked for is not in force on this host.", ("key", "reason")
)
LIMITS_SKIPPED = EventType(
    "subagent.spawn.limits_skipped",
    "A command was started without a limit it should have.",
    ("invocation_id", "reason"),
)
POLICY_VIOLATION = EventType("policy.violation", "A limit of the cage was hit.", ("invocation_id", "limit", "value"))
GRANT_SKIPPED = EventType("cage.grant_skipped", "An optional grant could not be made.", ("key", "reason"))
NOTE = EventType("cage.note", "The cage does less than, or other than, the policy says.", ("key", "reason"))
LEFTOVER = EventType("cage.leftover", "A cage did not end although it was killed.", ("invocation_id", "pid"))
UNTRACKED = EventType(
    "cage.untracked",
    "Something that an earlier host left behind was found; it is neither ended nor removed (pysandbox orphans).",
    ("kind", "path", "pid"),
)

TYPES: Mapping[str, EventType] = {
    each.name: each
    for each in (
        SPAWN, SPAWN_UNCAGED, EXIT, KILLED, COMPILE_ERROR, LIMITS_NOT_ENFORCED, LIMITS_SKIPPED, POLICY_VIOLATION,
        GRANT_SKIPPED, NOTE, LEFTOVER, UNTRACKED,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `data` holds the fields of its type; a field that does not apply is left out."""

    type: str
    data: Mapping[str, object]


Sink = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The default sink."""
