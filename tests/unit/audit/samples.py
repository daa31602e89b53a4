"""Runs made by hand: an ordinary one, and one whose every name wants to be markup or a command to the terminal."""

from __future__ import annotations

from typing import Any

from pysandbox.audit.read import AuditRecord
from pysandbox.audit.runs import Run, run_of

ID = "01HXABCDEFGHJKMNPQRSTVWXYZ"
HOSTILE = "\"'><script>alert(1)</script><img src=http://example.invalid/x onerror=alert(1)>\x1b[2J\u202e\udc80&amp;"


def record(seq: int, second: float, type: str, **data: Any) -> AuditRecord:
    return AuditRecord(seq, f"2026-01-01T00:00:{second:09.6f}Z", 1, type, {"invocation_id": ID, **data}, "", "")


def spawned(seq: int, second: float, command: int, *argv: str, **data: Any) -> AuditRecord:
    given = {
        "cwd": "/proj", "cage_summary": "cage[x@01HXAB] fs=rw:. net=none state=ephemeral mem=64mb walltime=9s",
        "effective_cage_hash": "ab12", "recipes": ["python"], "limits": {"memory_mb": 64, "walltime_sec": 9},
        "grants": {"base": ["the system's programs"], "read": ["/data"], "write": ["/proj"], "deny": ["/proj/.env"],
                   "mask": [], "network": ["none"]},
        "notes": [{"event": "sandbox.degraded", "key": "isolation", "reason": "no second wall"}],
    }  # fmt: skip
    return record(seq, second, "subagent.spawn", command=command, argv=list(argv), **(given | data))


def exited(seq: int, second: float, command: int, code: int = 0, **data: Any) -> AuditRecord:
    used = {"duration_ms": 1500, "user_ms": 200, "system_ms": 100, "max_rss_kb": 32768, "reason": "exited"}
    return record(seq, second, "subagent.exit", command=command, exit_code=code, **(used | data))


def denied(seq: int, second: float, target: str, **data: Any) -> AuditRecord:
    given = {"kind": "open", "rule": "filesystem.allow", "fix": f'filesystem.allow = ["{target}"]', "count": 1}
    return record(seq, second, "cage.denied", target=target, **(given | data))


def ordinary() -> Run:
    return run_of(ID, [
        spawned(1, 1, 1, "pytest", "-q"), denied(2, 1.2, "/etc/shadow"), denied(3, 1.3, "/etc/shadow", count=2),
        denied(4, 1.4, "/usr/bin/curl", kind="exec", rule="process.allow_execve",
               fix='process.allow_execve = ["/usr/bin/curl"]'),
        exited(5, 2.5, 1, 1), spawned(6, 2.6, 2, "ruff", "check"), exited(7, 4, 2),
    ])  # fmt: skip


def hostile() -> Run:
    grants = {kind: [HOSTILE] for kind in ("base", "read", "write", "deny", "mask", "network")}
    return run_of(ID, [
        spawned(1, 1, 1, HOSTILE, HOSTILE, cwd=HOSTILE, cage_summary=HOSTILE, effective_cage_hash=HOSTILE,
                recipes=[HOSTILE], grants=grants, notes=[{"key": HOSTILE, "reason": HOSTILE}], limits={HOSTILE: 1}),
        denied(2, 1.1, HOSTILE, kind=HOSTILE, rule=HOSTILE, fix=HOSTILE),
        record(3, 1.2, "gatekeeper.tcp_allowed", target=HOSTILE, port=1),
        record(4, 1.3, "cage.file_opened", target=HOSTILE, access="read"),
        record(5, 1.4, "policy.violation", limit=HOSTILE, value=HOSTILE),
        record(6, 1.5, "workspace.kept", workspace=HOSTILE, trees=[HOSTILE], counts={HOSTILE: 3}, paths=[HOSTILE],
               digest=HOSTILE, reason=HOSTILE),
        record(6, 1.5, "subagent.killed", command=1, reason=HOSTILE),
        exited(7, 2, 1, 137, reason=HOSTILE),
    ])  # fmt: skip


def silent() -> Run:
    """A command that was started, and of which nothing more is known."""
    return run_of(ID, [spawned(1, 1, 1, "sleep", "9", grants={}, limits={}, notes=[], recipes=[])])
