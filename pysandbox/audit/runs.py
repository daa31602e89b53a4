"""Records -> Run: what one cage did, gathered from the stream for whoever tells it (explain, the report).

A Run holds only what was recorded. What nobody watched is absent: a Run without files says nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pysandbox.audit.read import AuditRecord, records
from pysandbox.errors import AuditError
from pysandbox.events import (
    DENIED,
    DNS_ALLOWED,
    DNS_DENIED,
    EXIT,
    FILE_OPENED,
    KILLED,
    PLANTED,
    POLICY_VIOLATION,
    SPAWN,
    SPAWN_UNCAGED,
    START_FAILED,
    TCP_ALLOWED,
    TCP_DENIED,
    UPSTREAM_UNREACHABLE,
    WORKSPACE_ABORTED,
    WORKSPACE_COMMITTED,
    WORKSPACE_KEPT,
)
from pysandbox.policy.edit import as_also
from pysandbox.shapes import Any, dataclass, field, replace

__all__ = ["CommandRun", "Contact", "Refusal", "Run", "all_runs", "find_run"]


@dataclass(slots=True)
class CommandRun:
    """One command of a run. `exit_code` None: no end was recorded."""

    number: int
    argv: tuple[str, ...]
    cwd: str
    began: str
    ended: str = ""
    exit_code: int | None = None
    reason: str = ""
    duration_ms: int | None = None
    user_ms: int = 0
    system_ms: int = 0
    max_rss_kb: int = 0
    killed: str = ""
    failed: str = ""  # why it never ran


@dataclass(frozen=True, slots=True)
class Refusal:
    """One denial. `fix` is the table [[also]] that would allow it, "" where there is none."""

    time: str
    kind: str
    target: str
    rule: str
    fix: str
    count: int = 1
    argv: tuple[str, ...] = ()
    command: object = None  # its number, where it was known


@dataclass(frozen=True, slots=True)
class Contact:
    """Something outside that was reached or looked up, or a file that was opened."""

    time: str
    target: str
    access: str  # name, connect, read, write
    count: int = 1


@dataclass(frozen=True, slots=True)
class WrittenApart:
    """What became of what was written to copy-on-write directories: kept, committed or aborted, of which trees.
    `paths`: each with the kind of its change, the first of them; `digest`: of all."""

    time: str
    became: str
    workspace: str
    trees: tuple[str, ...]
    counts: dict[str, int] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    digest: str = ""
    commit: str = ""
    reason: str = ""


@dataclass(slots=True)
class Run:
    id: str
    caged: bool = True
    summary: str = ""
    digest: str = ""
    why_uncaged: str = ""
    recipes: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    grants: dict[str, list[str]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    notes: list[tuple[str, str]] = field(default_factory=list)  # (key, what is less than was asked)
    commands: list[CommandRun] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    contacts: list[Contact] = field(default_factory=list)
    files: list[Contact] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)  # faults of the host's name servers, and of a parent proxy
    planted: list[str] = field(default_factory=list)  # what it made that programs of the host act on
    apart: list[WrittenApart] = field(default_factory=list)
    violations: list[tuple[str, str, str]] = field(default_factory=list)  # (time, limit, value)
    counts: dict[str, int] = field(default_factory=dict)  # of what was counted, written or not
    records: int = 0


SPAWNS = (SPAWN.name, SPAWN_UNCAGED.name)
_NAMES = ("project_id", "session_id", "subagent_name")


def run_of(invocation: str, records_of: Iterable[AuditRecord]) -> Run:
    gathered = _Gathered(Run(invocation))
    for record in records_of:
        gathered.run.records += 1
        take = _TAKE.get(record.type)
        if take is not None:
            take(gathered, record)
    return gathered.run


class _Gathered:
    """A run so far, and where in it is what later records speak of: a cage may have any number of commands, and each
    of them any number of denials."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._commands: dict[object, CommandRun] = {}
        self._counted: dict[tuple[str, str, object], tuple[int, int]] = {}  # the first of these refusals; their sum

    def add_command(self, command: CommandRun) -> None:
        self.run.commands.append(command)
        self._commands.setdefault(command.number, command)

    def command(self, number: object) -> CommandRun | None:
        return self._commands.get(number) if isinstance(number, int) else None

    def add_refusal(self, refusal: Refusal) -> None:
        key = _key(refusal)
        first, count = self._counted.get(key, (len(self.run.refusals), 0))
        self._counted[key] = first, count + refusal.count
        self.run.refusals.append(refusal)

    def sum_up(self, summed: Refusal) -> None:
        """The end of a command tells how often each denial came; what came again had no event of its own."""
        nobodys = (summed.kind, summed.target, None)
        same = [each for each in (nobodys, _key(summed)) if each in self._counted]
        if not same:
            self.add_refusal(summed)
            return
        missing = summed.count - sum(self._counted[each][1] for each in dict.fromkeys(same))
        if missing > 0:
            key = min(same, key=lambda each: self._counted[each][0])
            at, count = self._counted[key]
            self._counted[key] = at, count + missing
            self.run.refusals[at] = replace(self.run.refusals[at], count=self.run.refusals[at].count + missing)


def _key(refusal: Refusal) -> tuple[str, str, object]:
    command = refusal.command
    return refusal.kind, refusal.target, command if isinstance(command, int) else None if command is None else ""


def _spawned(told: _Gathered, record: AuditRecord) -> None:
    data, run = record.data, told.run
    run.caged = record.type == SPAWN.name
    run.summary, run.digest = str(data.get("cage_summary", "")), str(data.get("effective_cage_hash", ""))
    run.why_uncaged = str(data.get("reason", ""))
    run.recipes = _texts(data.get("recipes"))
    run.labels = {name: str(data[name]) for name in _NAMES if data.get(name) is not None}
    run.grants = {str(kind): list(_texts(each)) for kind, each in _table(data.get("grants")).items()}
    run.limits = {str(name): each for name, each in _table(data.get("limits")).items() if isinstance(each, int | float)}
    run.notes = [(str(_table(each).get("key")), str(_table(each).get("reason"))) for each in data.get("notes") or ()]
    number = data.get("command")
    told.add_command(CommandRun(
        number if isinstance(number, int) else 0, _texts(data.get("argv")), str(data.get("cwd", "")), record.time
    ))  # fmt: skip


def _ended(told: _Gathered, record: AuditRecord) -> None:
    command = told.command(record.data.get("command"))
    if command is None:
        return
    command.ended, command.reason = record.time, str(record.data.get("reason", ""))
    for name in ("exit_code", "duration_ms", "user_ms", "system_ms", "max_rss_kb"):
        value = record.data.get(name)
        if isinstance(value, int):
            setattr(command, name, value)
    for each in record.data.get("denials") or ():
        denial = {**_table(each), "command": command.number}
        kind, target = str(denial.get("kind", "")), str(denial.get("target", ""))
        told.sum_up(_refusal(record.time, denial, kind, target))
    told.run.counts |= {str(kind): each for kind, each in _table(record.data.get("counts")).items()}


def _killed(told: _Gathered, record: AuditRecord) -> None:
    command = told.command(record.data.get("command"))
    if command is not None:
        command.killed = str(record.data.get("reason", ""))


def _failed(told: _Gathered, record: AuditRecord) -> None:
    command = told.command(record.data.get("command"))
    if command is not None:
        step, number, path = (record.data.get(name) for name in ("step", "errno", "path"))
        command.ended, command.failed = record.time, f"{step}: errno {number}: {path}"


def _refused(told: _Gathered, record: AuditRecord) -> None:
    told.add_refusal(_refusal(record.time, record.data, *_KINDS[record.type](record.data)))


def _refusal(time: str, data: dict[str, Any], kind: str, target: str) -> Refusal:
    rule, count = str(data.get("rule", "")), data.get("count", 1)
    if data.get("monitor"):
        rule += " (only monitored: it was let through)"
    fix = str(data.get("fix", ""))
    number = count if isinstance(count, int) else 1
    argv, command = _texts(data.get("argv")), data.get("command")
    return Refusal(time, kind, target, rule, as_also(fix), number, argv, command)


_KINDS: dict[str, Any] = {
    DENIED.name: lambda data: (str(data.get("kind", "")), str(data.get("target", ""))),
    DNS_DENIED.name: lambda data: ("dns", str(data.get("hostname", ""))),
    TCP_DENIED.name: lambda data: ("tcp", _endpoint(data)),
}


def _endpoint(data: dict[str, Any]) -> str:
    target = str(data.get("target", ""))
    return f"{f'[{target}]' if ':' in target else target}:{data['port']}" if "port" in data else target


def _reached(told: _Gathered, record: AuditRecord) -> None:
    if record.type == DNS_ALLOWED.name:
        told.run.contacts.append(Contact(record.time, str(record.data.get("hostname", "")), "name"))
    else:
        told.run.contacts.append(Contact(record.time, _endpoint(record.data), "connect"))


def _opened(told: _Gathered, record: AuditRecord) -> None:
    count = record.data.get("count", 1)
    target, access = str(record.data.get("target", "")), str(record.data.get("access", "read"))
    told.run.files.append(Contact(record.time, target, access, count if isinstance(count, int) else 1))


def _violated(told: _Gathered, record: AuditRecord) -> None:
    told.run.violations.append((record.time, str(record.data.get("limit", "")), str(record.data.get("value", ""))))


def _planted(told: _Gathered, record: AuditRecord) -> None:
    told.run.planted += _texts(record.data.get("paths"))


def _unanswered(told: _Gathered, record: AuditRecord) -> None:
    told.run.unanswered.append(str(record.data.get("error", "")))


def _written_apart(told: _Gathered, record: AuditRecord) -> None:
    data = record.data
    counts = {str(kind): each for kind, each in _table(data.get("counts")).items() if isinstance(each, int)}
    texts = (str(data.get(name, "")) for name in ("digest", "commit", "reason"))
    told.run.apart.append(WrittenApart(
        record.time, record.type.rpartition(".")[2], str(data.get("workspace", "")), _texts(data.get("trees")), counts,
        _texts(data.get("paths")), *texts,
    ))  # fmt: skip


_TAKE = {
    SPAWN.name: _spawned, SPAWN_UNCAGED.name: _spawned, EXIT.name: _ended, KILLED.name: _killed,
    START_FAILED.name: _failed, DENIED.name: _refused, DNS_DENIED.name: _refused, TCP_DENIED.name: _refused,
    DNS_ALLOWED.name: _reached, TCP_ALLOWED.name: _reached, FILE_OPENED.name: _opened, POLICY_VIOLATION.name: _violated,
    PLANTED.name: _planted, UPSTREAM_UNREACHABLE.name: _unanswered,
    WORKSPACE_KEPT.name: _written_apart, WORKSPACE_COMMITTED.name: _written_apart,
    WORKSPACE_ABORTED.name: _written_apart,
}  # fmt: skip


def _table(value: object) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


# ---- finding ---------------------------------------------------------------------------------------------------


def identities(path: str) -> Iterator[str]:
    """The runs of a stream by their cage's id, in the order of their first command."""
    seen: dict[str, None] = {}
    for record in records(path):
        if record.type in SPAWNS and record.invocation not in seen:
            seen[record.invocation] = None
            yield record.invocation


def all_runs(path: str) -> list[Run]:
    by_id: dict[str, list[AuditRecord]] = {}
    for record in records(path):
        if record.type in SPAWNS or record.invocation in by_id:
            by_id.setdefault(record.invocation, []).append(record)
    return [run_of(invocation, found) for invocation, found in by_id.items()]


def find_id(path: str, wanted: str | None) -> str:
    """The run whose id is, begins or ends with `wanted`; None is the last one. Raises AuditError."""
    known = list(identities(path))
    if not known:
        raise AuditError("holds no run", None, path, "run something first, or name another stream with --path")
    if wanted is None:
        return known[-1]
    letters = wanted.upper()
    found = [each for each in known if each == wanted] or [
        each for each in known if each.startswith(letters) or each.endswith(letters)
    ]
    if len(found) == 1:
        return found[0]
    what = f"no run {wanted!r}" if not found else f"{len(found)} runs that {wanted!r} may mean"
    raise AuditError(f"holds {what}", None, path, "`pysandbox audit list` shows them; give more letters of one")


def find_run(path: str, wanted: str | None) -> Run:
    invocation = find_id(path, wanted)
    return run_of(invocation, (each for each in records(path) if each.invocation == invocation))
