"""Whom a cage is outside. A user's cage is its user. Root's cage is nobody (PSB_OUTSIDE, csrc/abi.h), and its grants
are mapped, so that it reads and writes root's files all the same; where that cannot be had it is root, which is said.

A second wall: no process of a cage reaches anything of the host's by its id but what it was granted. It counts where
another wall has a hole, and for what is handed in (descriptors, sockets that ask who is there).
"""

from __future__ import annotations

from pysandbox.compile.degrade import root_stays
from pysandbox.compile.notes import WORKDIR
from pysandbox.errors import SandboxCompileError
from pysandbox.note import Note
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import HostFacts, PathFacts
from pysandbox.shapes import replace


def resolve_identity(policy: Policy, host: HostFacts, paths: PathFacts) -> tuple[HostFacts, tuple[Note, ...]]:
    """The host as this cage has it: `root` is "swapped" only where the cage is to be nobody. Raises UnsupportedError
    where a strict policy would be root's, SandboxCompileError where any would be given too much."""
    if paths.not_for_root:
        raise _refused(*paths.not_for_root[0], paths)
    why = _why_root(policy, host, paths) if host.root else ""
    return (replace(host, root="stays"), (root_stays(policy, why),)) if why else (host, ())


def _why_root(policy: Policy, host: HostFacts, paths: PathFacts) -> str:
    if policy.isolation != "full":
        return 'isolation = "landlock" has no mounts that could be mapped'
    if host.root != "swapped":
        return "this root lacks the powers for another (a container's?), or its kernel the mapping of ids"
    if paths.unmapped:
        return f"{', '.join(paths.unmapped)} could not be written otherwise: its file system cannot be mapped"
    return ""


def _refused(tree: str, why: str, paths: PathFacts) -> SandboxCompileError:
    key = WORKDIR if tree == paths[paths.cwd].real else "filesystem.allow_write"
    message = f"a cage that root starts cannot be let write {tree!r}: {why}, which no other id can be put before"
    suggestion = "grant it for reading, or a directory beside it; or start the cage as an ordinary user"
    return SandboxCompileError(message, key=key, suggestion=suggestion)
