"""Everything that can happen, by name: the only place event types are spelled.

Those that document 000 names are kept verbatim; `cage.`, `audit.` and the further `sandbox.` ones are ours. An Event is
a fact about the past: it never carries an instruction, and a denial is an event, not an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pysandbox.shapes import dataclass

__all__ = ["TYPES", "Event", "EventType"]


@dataclass(frozen=True, slots=True)
class EventType:
    """One kind of event: its name on the wire, what it means, and the fields it carries.

    `durable`: an audit has it on the disk before whoever emits it goes on. `frequent`: what was allowed, far more often
    than what was refused; an audit counts each and writes as many as it was told to.
    """

    name: str
    doc: str
    fields: tuple[str, ...]
    durable: bool = False
    frequent: bool = False


# What a spawn tells beside document 000's fields: all that a reader needs to judge the run without asking the host.
_RUN = ("command", "argv", "cwd", "recipes", "grants", "limits", "enforcement", "notes")

SPAWN = EventType(
    "subagent.spawn",
    "A command was started in a cage.",
    ("invocation_id", "project_id", "session_id", "subagent_name", "cage_summary", "effective_cage_hash", *_RUN),
    durable=True,
)
SPAWN_UNCAGED = EventType(
    "subagent.spawn.uncaged",
    "A command was started without a cage, because the policy or the host said so.",
    ("invocation_id", "subagent_name", "project_id", "session_id", "reason", "cage_summary", *_RUN),
    durable=True,
)
EXIT = EventType(
    "subagent.exit",
    "A command ended.",
    (
        "invocation_id",
        "command",
        "exit_code",
        "duration_ms",
        "reason",
        "user_ms",
        "system_ms",
        "max_rss_kb",
        "denials",
        "counts",
    ),
)
KILLED = EventType(
    "subagent.killed",
    "A command was ended by force: walltime_exceeded, oom, seccomp, session_ended or cancelled.",
    ("invocation_id", "command", "reason"),
)
START_FAILED = EventType(
    "cage.start_failed",
    "A command that had been ordered never ran.",
    ("invocation_id", "command", "step", "errno", "path"),
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
POLICY_VIOLATION = EventType(
    "policy.violation",
    "A limit of the cage was hit: `value` is that limit as the policy has it (memory: MiB, pids, walltime: seconds, "
    "scratch: MiB, cpu: percent), the profile for seccomp; none for watchdog, which could not look.",
    ("invocation_id", "limit", "value"),
)
DENIED = EventType(
    "cage.denied",
    "The cage refused something; `fix` is the TOML that would allow it. `monitor`: it was let through.",
    ("invocation_id", "command", "kind", "target", "rule", "fix", "pid", "argv", "count", "call", "errno", "monitor"),
)
FILE_OPENED = EventType(
    "cage.file_opened",
    "A command opened a file, where opening was watched; `access` is read or write.",
    ("invocation_id", "command", "category", "target", "access", "pid", "argv", "count"),
    frequent=True,
)
DNS_ALLOWED = EventType(
    "gatekeeper.dns_allowed",
    "A name was resolved for a cage.",
    ("invocation_id", "hostname", "resolved_ip"),
    frequent=True,
)
DNS_DENIED = EventType(
    "gatekeeper.dns_denied",
    "A name was not resolved, because no rule allows it.",
    ("invocation_id", "command", "hostname", "rule", "fix", "pid", "argv"),
)
TCP_ALLOWED = EventType(
    "gatekeeper.tcp_allowed", "A connection was let through.", ("invocation_id", "target", "port"), frequent=True
)
TCP_DENIED = EventType(
    "gatekeeper.tcp_denied",
    "A connection was refused, because no rule allows it.",
    ("invocation_id", "command", "target", "port", "rule", "fix", "pid", "argv"),
)
UPSTREAM_UNREACHABLE = EventType(
    "gatekeeper.upstream_unreachable",
    "The host's own resolver, or the parent proxy, did not answer, or not as it should.",
    ("invocation_id", "error"),
)
CREDENTIAL_FOUND = EventType(
    "gatekeeper.credential_found",
    "A credential was found in what a cage was sending: `shown` is how it begins and a fingerprint, never the value. "
    "`verdict`: blocked; warned (monitor lets it pass); home (it belongs to this host); listed (allow_credentials).",
    ("invocation_id", "host", "detector", "place", "shown", "verdict"),
)
UNKNOWN_CONTRACT = EventType(
    "gatekeeper.unknown_host_contract",
    "A request passed to a host of which contract_mode says relaxed: one without a [[host]] block, or with one that "
    'says so. `content_type` is that of its body, "" where it has none; of the path the query is left out.',
    ("invocation_id", "host", "port", "method", "path", "content_type"),
)
CROWDED = EventType(
    "gatekeeper.crowded",
    "A cage had to wait, or to go without: it has its share of the descriptors of this process that cages may have "
    "(half of them, all together), or of the questions to the name servers.",
    ("invocation_id", "what", "held"),
)
GATEKEEPER_FAILED = EventType(
    "gatekeeper.failed",
    "Serving doors failed: one door, which is closed, or all of them, which cuts the cages off that have doors. Of a "
    "process of ours that has ended, `reason` says where it failed; one that was taken over may say anything there.",
    ("reason",),
)
GRANT_SKIPPED = EventType("sandbox.grant_skipped", "Something that was granted is not in the view.", ("key", "reason"))
NOT_COVERABLE = EventType(
    "sandbox.not_coverable", "A name that does not exist cannot be covered before the cage creates it.",
    ("key", "reason"),
)  # fmt: skip
PLANTED = EventType(
    "sandbox.planted",
    "What programs of the host act on (.envrc, .git) was there when a command had ended, and not before: over a name "
    "that is absent nothing can be laid.",
    ("invocation_id", "command", "key", "paths", "reason"),
)
WIDE_GRANT = EventType(
    "sandbox.wide_grant", "What was asked for is more than was probably meant.", ("key", "reason")
)  # fmt: skip
DEGRADED = EventType(
    "sandbox.degraded", "A second wall, or a check, that this host or version does not have.", ("key", "reason")
)
MONITOR = EventType("sandbox.monitor", "What monitor lets pass that the policy would refuse.", ("key", "reason"))
ISOLATION_GAP = EventType(
    "sandbox.isolation_gap", 'What isolation = "landlock" leaves open.', ("key", "reason")
)  # fmt: skip
NOTE = EventType("cage.note", "The cage does less than, or other than, the policy says.", ("key", "reason"))
LEFTOVER = EventType("cage.leftover", "A cage did not end although it was killed.", ("invocation_id", "pid"))
UNTRACKED = EventType(
    "cage.untracked",
    "Something that an earlier host left behind was found; it is neither ended nor removed (pysandbox orphans).",
    ("kind", "path", "pid"),
)
AUDIT_ROTATED = EventType(
    "audit.rotated", "The stream goes on in this file; `before` is the one that was full.", ("before",)
)
AUDIT_RESUMED = EventType(
    "audit.resumed",
    "A writer found the stream torn or shortened, by a crash or by a hand, and goes on from what is there.",
    ("torn_bytes", "lost"),
)

FLAGGED = EventType(
    "cage.flagged",
    "A callback let a call pass and asked for a record of it.",
    ("invocation_id", "kind", "target", "pid"),
)
CALLBACK_FAILED = EventType(
    "cage.callback_failed",
    "A callback raised, answered nonsense or missed its deadline; the call was refused.",
    ("invocation_id", "syscall", "pid", "reason"),
)
RESTRICTED = EventType("cage.restricted", "A live cage was tightened.", ("invocation_id", "what", "value"))
UNSTOPPABLE = EventType(
    "cage.unstoppable",
    "Processes of a cage went on running whenever they were stopped to be tightened, and were ended for it.",
    ("invocation_id", "pids"),
)
SUPERVISOR_FAILED = EventType(
    "cage.supervisor_failed",
    "Deciding calls failed: of one call, which is refused then, or altogether, which ends the cages that need it.",
    ("reason",),
)
APP_DENIED = EventType(
    "app.denied",
    "An instruction of an app was denied: the first of each opcode, operands and reason; all are in the app's log.",
    (
        "tick",
        "app_id",
        "opcode",
        "args_summary",
        "deny_reason",
        "required_capability",
        "granted_capabilities_snapshot",
    ),
)
APP_ENDED = EventType(
    "app.ended",
    "An app has run to its end.",
    ("app_id", "version", "package", "mode", "ended", "ticks", "denials", "granted_capabilities_snapshot"),
)
APP_INSTALLED = EventType(
    "app.installed",
    "An app was granted what it may do.",
    ("app_id", "version", "package", "granted", "key_id"),
    durable=True,
)
APP_REVOKED = EventType(
    "app.revoked",
    "The grant of an app was taken away.",
    ("app_id", "version"),
    durable=True,
)
_CHANGES = ("trees", "counts", "paths", "digest")  # SHA-256 of the list of changes with the digests of their contents
WORKSPACE_KEPT = EventType(
    "workspace.kept",
    "What a cage wrote to its copy-on-write trees was kept on disk; `reason`: why it was not committed as asked.",
    ("invocation_id", "workspace", *_CHANGES, "reason"),
)
WORKSPACE_COMMITTED = EventType(
    "workspace.committed",
    "Changes of a copy-on-write workspace were written to the tree; `commit` undoes it.",
    ("invocation_id", "commit", "workspace", *_CHANGES),
    durable=True,
)
WORKSPACE_RECOVERED = EventType(
    "workspace.recovered",
    "A commit that a kill had interrupted was finished or undone; `outcome` says which, or why it was left.",
    ("commit", "tree", "outcome"),
    durable=True,
)
WORKSPACE_ABORTED = EventType(
    "workspace.aborted",
    "What a cage wrote to its copy-on-write trees was forgotten.",
    ("invocation_id", "workspace", "trees"),
)

TYPES: Mapping[str, EventType] = {
    each.name: each
    for each in (
        SPAWN, SPAWN_UNCAGED, EXIT, KILLED, START_FAILED, COMPILE_ERROR, LIMITS_NOT_ENFORCED, LIMITS_SKIPPED,
        POLICY_VIOLATION, DENIED, FILE_OPENED, DNS_ALLOWED, DNS_DENIED, TCP_ALLOWED, TCP_DENIED, UPSTREAM_UNREACHABLE,
        CREDENTIAL_FOUND, UNKNOWN_CONTRACT, CROWDED, GATEKEEPER_FAILED, GRANT_SKIPPED, NOT_COVERABLE, PLANTED,
        WIDE_GRANT, DEGRADED, MONITOR, ISOLATION_GAP, NOTE, LEFTOVER, UNTRACKED, AUDIT_ROTATED, AUDIT_RESUMED,
        APP_DENIED, APP_ENDED, APP_INSTALLED, APP_REVOKED,
        FLAGGED, CALLBACK_FAILED, RESTRICTED, UNSTOPPABLE, SUPERVISOR_FAILED, WORKSPACE_KEPT, WORKSPACE_COMMITTED,
        WORKSPACE_ABORTED, WORKSPACE_RECOVERED,
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


def said_elsewhere(event: Event) -> None:
    """The sink of whoever hears of no event and says the notes of a plan in another way: no warning is made of them."""


def in_turn(*sinks: Sink) -> Sink:
    """One sink that gives each event to several, the first one first; what one raises, the later ones do not see."""

    def each(event: Event) -> None:
        for sink in sinks:
            sink(event)

    return each
