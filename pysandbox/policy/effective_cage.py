"""EffectiveCage: what a cage block came to, as document 000 has it; plain frozen data for the runner and the audit."""

from __future__ import annotations

from pysandbox.policy.model import Policy
from pysandbox.shapes import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Netns:
    name: str = ""
    allow: tuple[str, ...] = ()
    enabled: bool = False


@dataclass(frozen=True, slots=True)
class CgroupBlock:
    """`walltime_sec` is kept by a watchdog; the kernel's cgroups know no wall time."""

    name: str = ""
    memory_mb: int | None = None
    cpu_shares: int | None = None
    pids: int | None = None
    walltime_sec: float | None = None


@dataclass(frozen=True, slots=True)
class FsMount:
    mode: str
    src_host: str
    dst_cage: str


@dataclass(frozen=True, slots=True)
class AuditBlock:
    summary: str
    fs_mounts: tuple[FsMount, ...] = ()
    net_allow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EffectiveCage:
    """What a block came to. `uncaged_reason` is empty for a cage, else dsl_disabled or daemon_no_sandbox."""

    invocation_id: str
    project_id: str
    session_id: str
    daemon_mode: str
    id_map: tuple[int, int]  # (inside, outside); the same id twice when there is no cage
    uncaged_reason: str
    netns: Netns
    cgroup: CgroupBlock
    seccomp_profile: str
    scratch_dir: str  # a name below the runtime directory; "" when there is no cage
    audit: AuditBlock
    effective_cage_hash: str
    name: str  # of the subagent; of the project where nobody gave one

    @property
    def labels(self) -> dict[str, str]:
        """What `Cage(labels=...)` takes, so that its events carry this spawn's names."""
        return {
            "invocation_id": self.invocation_id,
            "project_id": self.project_id,
            "session_id": self.session_id,
            "subagent_name": self.name,
            "cage_summary": self.audit.summary,
            "effective_cage_hash": self.effective_cage_hash,
        }

    @property
    def caged(self) -> bool:
        return not self.uncaged_reason


def hash_of(policy: Policy, audit: AuditBlock, id_map: tuple[int, int]) -> str:
    """SHA-256 (hex) of what the cage may do; whose it is and when it ran stay out."""
    import hashlib
    import json

    mounts = [asdict(each) for each in audit.fs_mounts]
    content = {"policy": policy.digest, "fs_mounts": mounts, "net_allow": audit.net_allow, "id_map": id_map}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("ascii")).hexdigest()
