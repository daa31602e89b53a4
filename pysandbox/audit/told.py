"""What the audit says of a command that starts: what runs, where, under which policy, with which limits and gaps.

Whoever reads the trail later must be able to judge a run without asking the host, so the record holds the grants and
limits themselves beside document 000's summary and hash. Values of variables are never in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pysandbox.compile.limits import held_by
from pysandbox.events import SPAWN, SPAWN_UNCAGED, Event
from pysandbox.note import weaker
from pysandbox.policy.model import Policy, options
from pysandbox.policy.option import Grant
from pysandbox.policy.summary import summary
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.command import LaunchRequest
    from pysandbox.runtime.prepared import Prepared

# What only the caller knows of a cage.
LABELS = (
    "invocation_id", "project_id", "session_id", "subagent_name", "recipes", "cage_summary", "effective_cage_hash",
)  # fmt: skip
LIMITS = tuple(field.name for field, described in options() if described.recorded == "limit")
VIOLATIONS = tuple((field.name, each.violation) for field, each in options() if each.violation)
GRANTS = tuple((field.name, each.recorded) for field, each in options() if each.recorded not in ("", "limit"))


def labels_of(given: Mapping[str, object] | None, session: object) -> dict[str, object]:
    """The labels of a cage; a session's name is its session_id. Raises ValueError for a label that no event has."""
    labels: dict[str, object] = {"session_id": session} if isinstance(session, str) else {}
    labels |= given or {}
    for name in labels:
        if name not in LABELS:
            raise ValueError(f"labels: no event has {name!r}; there are {', '.join(LABELS)}")
    return labels


def spawn_event(policy: Policy, start: LaunchRequest, labels: Mapping[str, object], reason: str) -> Event:
    """`reason` is why there is no cage, where there is none."""
    invocation, argv = start.live.id, start.command.argv
    name = str(labels.get("subagent_name") or os.path.basename(argv[0]))
    told = spawn_record(policy, start.prepared, caged=start.caged)
    data: dict[str, object] = {"cage_summary": summary(policy, name, invocation), **told}
    data |= labels
    data |= {"invocation_id": invocation, "command": start.id, "argv": argv}
    data["cwd"] = os.path.normpath(os.path.join(start.prepared.plan.cwd, start.command.cwd or ""))
    return Event(SPAWN.name, data) if start.caged else Event(SPAWN_UNCAGED.name, data | {"reason": reason})


def spawn_record(policy: Policy, prepared: Prepared, *, caged: bool) -> dict[str, object]:
    """What is the same for every command under one plan; made once, as the hash reads all of it."""
    told = prepared.spawn_record
    if not told:
        plan = prepared.plan
        if caged:
            told |= {"effective_cage_hash": plan.digest, "grants": _grants(policy, plan.cwd)}
            told["enforcement"] = held_by(policy, plan)
        told |= {"project_id": None, "session_id": None}  # said also where nobody gave them: labels take their place
        told["limits"] = {name: getattr(policy, name) for name in _limits(policy, caged=caged)}
        told["notes"] = [{"event": note.event, "key": note.key, "reason": note.message} for note in weaker(plan.notes)]
    return told


def _limits(policy: Policy, *, caged: bool) -> list[str]:
    names = LIMITS if caged else ("walltime_sec",)
    return [name for name in names if getattr(policy, name) is not None]


def limit_values(policy: Policy) -> Mapping[str, object]:
    """What `policy.violation` tells of each limit that can be hit."""
    return {violation: getattr(policy, name) for name, violation in VIOLATIONS}


def _grants(policy: Policy, cwd: str) -> dict[str, list[str]]:
    """As the policy wrote them; the directory of the run under its own name."""
    grants = {"base": ["the system's programs"] if policy.base else []}
    grants |= {word: _spelled(getattr(policy, name)) for name, word in GRANTS}
    if policy.workdir in grants:
        grants[policy.workdir].append(cwd)
    return grants


def _spelled(value: object) -> list[str]:
    if not isinstance(value, tuple):
        return [str(value)]
    return [each.path if isinstance(each, Grant) else str(each) for each in value]
