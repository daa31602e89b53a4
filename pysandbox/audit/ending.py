"""What the audit says of a command that is over: the records of its end, in their order.

One list for both ways a command is run: `process.Process` emits them as events, the launcher (csrc/launcher/trail.c)
writes the same. So the names of events stand here as text; `events.py` is too much to import. Pure.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SPAWN, LIMITS_SKIPPED, START_FAILED = "subagent.spawn", "subagent.spawn.limits_skipped", "cage.start_failed"
KILLED, VIOLATION, EXIT = "subagent.killed", "policy.violation", "subagent.exit"
PLANTED, UNGUARDED = "sandbox.planted", "filesystem.unguarded"

# Reasons of a Result for which a command did not end by itself, the word for each, and the limit that it hit.
FORCED = {"timeout": "walltime_exceeded", "seccomp": "seccomp", "cancelled": "cancelled", "oom": "oom"}
LIMITS = {"timeout": "walltime", "seccomp": "seccomp", "oom": "memory"}


def end_records(
    which: Mapping[str, object],
    limits: Mapping[str, object],
    outcome: Mapping[str, object],
    *,
    limit: str = "",
    session_ended: bool = False,
    refused_forks: bool = False,
) -> Iterator[tuple[str, dict[str, object]]]:
    """`which` names the command, `limits` has the value of each limit, `outcome` the fields of EXIT; `limit` is what
    its reason does not say."""
    reason = str(outcome["reason"])
    if session_ended or reason in FORCED:
        yield KILLED, {**which, "reason": "session_ended" if session_ended else FORCED[reason]}
        if limit := LIMITS.get(reason, limit):
            yield VIOLATION, _violation(which, limit, limits)
    if refused_forks:
        yield VIOLATION, _violation(which, "pids", limits)
    yield EXIT, {**which, **outcome}


def _violation(which: Mapping[str, object], limit: str, limits: Mapping[str, object]) -> dict[str, object]:
    value = {"value": limits[limit]} if limits.get(limit) is not None else {}
    return {"invocation_id": which["invocation_id"], "limit": limit, **value}


def planted_record(which: Mapping[str, object], paths: Sequence[str], reason: str) -> dict[str, object]:
    """The fields of PLANTED; `key` is the option that says that they are meant to be written."""
    return {**which, "key": UNGUARDED, "paths": list(paths), "reason": reason}


def failed_record(which: Mapping[str, object], step: str, number: int | None, path: object) -> dict[str, object]:
    """The fields of START_FAILED."""
    return {**which, "step": step, "errno": number, "path": path}
