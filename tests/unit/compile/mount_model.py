"""A model of what mounts do, small enough to be believed: carries out a list of MountSteps and answers for any path.

A mount hides whatever was mounted at or below its target before; a path belongs to the mount with the longest target
above it; PROTECT changes every mount that exists at or below its target at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pysandbox.compile.plan import Attr, MountKind, MountStep

MOUNTS = {MountKind.BIND, MountKind.PIN, MountKind.TMPFS, MountKind.PROC, MountKind.DEVPTS, MountKind.MQUEUE,
          MountKind.MASK_FILE, MountKind.MASK_DIR, MountKind.DENY_FILE, MountKind.DENY_DIR}  # fmt: skip


@dataclass
class Mount:
    target: str
    kind: MountKind
    source: str
    attrs: frozenset[Attr] = frozenset()


class Mounts:
    def __init__(self, steps: Iterable[MountStep]) -> None:
        self.table: list[Mount] = []
        for step in steps:
            if step.kind in MOUNTS:
                self.table = [each for each in self.table if not below(each.target, step.target)]
                source = step.source
                kind = step.kind
                if kind is MountKind.PIN:  # what is there already, as a mount of its own
                    kind, source = self.at(step.target).kind, step.target
                self.table.append(Mount(step.target, kind, source, frozenset(step.attrs)))
            elif step.kind is MountKind.PROTECT:
                for each in self.table:
                    if below(each.target, step.target):
                        each.attrs |= frozenset(step.attrs)
            elif step.kind is MountKind.UNPROTECT_ROOT:
                root = next(each for each in self.table if each.target == "/")
                root.attrs -= {Attr.RDONLY}

    def at(self, path: str) -> Mount:
        return max((each for each in self.table if below(path, each.target)), key=lambda each: len(each.target))

    def is_mount_point(self, path: str) -> bool:
        return any(each.target == path for each in self.table)

    def shows(self, path: str) -> str:
        """What the host's `path` is in the cage: "write", "read", "masked", "denied" or "unseen"."""
        mount = self.at(path)
        if mount.kind is MountKind.BIND and below(path, mount.source):
            return "read" if Attr.RDONLY in mount.attrs else "write"
        if mount.kind in (MountKind.DENY_FILE, MountKind.DENY_DIR):
            return "denied"
        return "masked" if mount.kind in (MountKind.MASK_FILE, MountKind.MASK_DIR) else "unseen"


def below(path: str, tree: str) -> bool:
    """At or below, by component."""
    return tree == "/" or path == tree or path.startswith(f"{tree}/")
