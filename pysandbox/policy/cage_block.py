"""Document 000's front door: a cage block becomes a Policy and an EffectiveCage, what the audit says of it.

Pure: it starts, opens and creates nothing. What needs the file system is decided from facts that the caller looked up
before (`named_paths` lists for which paths), so equal input gives equal output and a test can pretend any host. Only
names, the summary's short id and an ephemeral scratch directory depend on the invocation; the hash does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.errors import SandboxPathMissing
from pysandbox.policy.cage_shape import (
    CageBlock,
    FsEntry,
    identifier,
    one_of,
    read_block,
    refuse,
    resolved_root,
    ulid,
    user_id,
)
from pysandbox.policy.effective_cage import AuditBlock, CgroupBlock, EffectiveCage, FsMount, Netns, hash_of
from pysandbox.policy.expand import quote
from pysandbox.policy.match import covers
from pysandbox.policy.model import Policy
from pysandbox.policy.netallow import granted
from pysandbox.policy.option import Grant
from pysandbox.policy.refusal import shown
from pysandbox.policy.summary import NO_CAGE, label, line
from pysandbox.shapes import Any, Protocol, dataclass

NOBODY = 65534


class Fact(Protocol):
    """What `probe.facts.PathFact` says of one path."""

    @property
    def real(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def links(self) -> tuple[tuple[str, str], ...]: ...


class Facts(Protocol):
    """`probe.facts.PathFacts`, which stands in a layer above this one."""

    def __getitem__(self, path: str, /) -> Fact: ...


@dataclass(frozen=True, slots=True)
class _Spawn:
    """Whose cage it is: everything but the block, checked."""

    project_root: str
    project_id: str
    invocation_id: str
    session_id: str
    daemon_mode: str
    daemon_uid: int
    name: str

    @property
    def label(self) -> str:
        return label(self.name, self.invocation_id)


def named_paths(block: Mapping[str, Any], project_root: str) -> tuple[str, ...]:
    """The absolute paths whose facts `from_cage_block` will ask for."""
    root = resolved_root(project_root)
    read = read_block(block, root)
    return (root, *(each.resolved for each in read.fs if each.resolved != root)) if read else ()


def from_cage_block(
    block: Mapping[str, Any],
    *,
    project_root: str,
    project_id: str,
    invocation_id: str,
    session_id: str,
    daemon_mode: str,
    daemon_uid: int,
    paths: Facts,
    name: str | None = None,
    no_sandbox: bool = False,
    limits_required: bool = True,
) -> tuple[Policy, EffectiveCage]:
    """The policy and the effective cage of one block for one spawn.

    `name` is the subagent's in the summary, the project's unless given. `no_sandbox` makes every block a disabled
    one. Raises SandboxCompileError, or SandboxPathMissing for a path of the block that does not exist.
    """
    spawn = _Spawn(
        project_root=resolved_root(project_root),
        project_id=identifier("project_id", project_id),
        invocation_id=ulid("invocation_id", invocation_id),
        session_id=identifier("session_id", session_id),
        daemon_mode=one_of("daemon_mode", daemon_mode, ("user", "system")),
        daemon_uid=user_id("daemon_uid", daemon_uid),
        name=identifier("name", project_id if name is None else name),
    )
    read = read_block(block, spawn.project_root)
    if read is None or no_sandbox:
        return _uncaged(spawn, read, "daemon_no_sandbox" if no_sandbox else "dsl_disabled")
    _check_paths(read.fs, spawn.project_root, paths)
    return _caged(spawn, read, limits_required)


def _uncaged(spawn: _Spawn, block: CageBlock | None, reason: str) -> tuple[Policy, EffectiveCage]:
    """Empty plans, for the audit; of the limits only the wall time holds without a cage."""
    walltime = block.limits.walltime_sec if block else None
    policy = Policy(caged=False, base=False, walltime_sec=walltime)
    return policy, _effective(
        spawn,
        policy,
        uncaged_reason=reason,
        id_map=(spawn.daemon_uid, spawn.daemon_uid),
        netns=Netns(),
        cgroup=CgroupBlock(walltime_sec=walltime),
        seccomp_profile="",
        scratch_dir="",
        audit=AuditBlock(f"{spawn.label} {NO_CAGE}"),
    )


def _caged(spawn: _Spawn, block: CageBlock, limits_required: bool) -> tuple[Policy, EffectiveCage]:
    limits = block.limits
    hosts, addresses = granted(block.net_allow)
    policy = Policy(
        hosts=hosts,
        allow_ips=addresses,
        allow=_grants(block.fs, "ro"),
        allow_write=_grants(block.fs, "rw"),
        state=block.state,
        seccomp=block.seccomp,
        seccomp_mode="deny-list",  # both of the document's profiles list what is refused
        run_as="nobody",
        memory_mb=limits.memory_mb,
        cpu_shares=limits.cpu_shares,
        max_pids=limits.pids,
        walltime_sec=limits.walltime_sec,
        limits_required=limits_required,
    )
    cage = f"cage-{spawn.invocation_id}"
    return policy, _effective(
        spawn,
        policy,
        uncaged_reason="",
        id_map=(NOBODY, spawn.daemon_uid),
        netns=Netns(cage, block.net_allow, enabled=bool(block.net_allow)),
        cgroup=CgroupBlock(cage, limits.memory_mb, limits.cpu_shares, limits.pids, limits.walltime_sec),
        seccomp_profile=block.seccomp,
        scratch_dir=f"scratch-{spawn.session_id if block.state == 'scratch' else spawn.invocation_id}",
        audit=AuditBlock(
            _summary(spawn, block),
            tuple(FsMount(each.mode, each.resolved, each.resolved) for each in block.fs),
            block.net_allow,
        ),
    )


def _effective(
    spawn: _Spawn, policy: Policy, *, audit: AuditBlock, id_map: tuple[int, int], **rest: Any
) -> EffectiveCage:
    return EffectiveCage(
        invocation_id=spawn.invocation_id,
        project_id=spawn.project_id,
        session_id=spawn.session_id,
        daemon_mode=spawn.daemon_mode,
        id_map=id_map,
        audit=audit,
        effective_cage_hash=hash_of(policy, audit, id_map),
        name=spawn.name,
        **rest,
    )


def _grants(entries: tuple[FsEntry, ...], mode: str) -> tuple[Grant, ...]:
    return tuple(Grant(quote(each.resolved)) for each in entries if each.mode == mode)


def _summary(spawn: _Spawn, block: CageBlock) -> str:
    fs, limits = [(each.mode, each.path) for each in block.fs], block.limits
    return line(spawn.label, fs, block.net_allow, block.state, limits.memory_mb, limits.walltime_sec)


def _check_paths(entries: tuple[FsEntry, ...], root: str, paths: Facts) -> None:
    root_fact = _fact(paths, root, "project_root")
    if root_fact.kind != "dir":
        state = "does not exist" if root_fact.kind == "missing" else "is not a directory"
        raise refuse("project_root", f"{shown(root)} {state}", "create it, or name another")
    for index, each in enumerate(entries):
        key = f"cage.fs[{index}].path"
        fact = _fact(paths, each.resolved, key)
        _stays_inside(key, each, root, root_fact, fact)
        if fact.kind == "missing":
            raise SandboxPathMissing(
                f"{each.resolved} does not exist", key=key, suggestion="create it before the spawn"
            )


def _fact(paths: Facts, path: str, key: str) -> Fact:
    try:
        return paths[path]
    except KeyError:
        raise refuse(key, f"nobody has looked at {shown(path)}", "look at every path of named_paths()") from None


def _stays_inside(key: str, entry: FsEntry, root: str, root_fact: Fact, fact: Fact) -> None:
    """Neither where the path ends nor any link on the way may lie outside; the root's own links are its owner's."""
    links = [each for each in fact.links if each not in root_fact.links]
    for place in (*(link for link, _ in links), fact.real):
        if not covers(root, place) and not covers(root_fact.real, place):
            message = f"{shown(entry.path)} leads out of the project root, to {shown(place)}"
            raise refuse(key, message, "remove the symbolic link, or the entry")
