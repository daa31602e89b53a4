"""Directories that no cage may reach, whatever its policy grants: the audit trail is not the cage's to read or edit.

Inside a wider grant such a directory is one more denial, under the laws of every denial (its parents cannot be renamed
away; without mounts it refuses the wider grant). A grant of the directory itself, or of something in it, is refused by
name. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pysandbox.errors import PolicyError
from pysandbox.policy.match import covers
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.paths_wanted import absolute
from pysandbox.probe.facts import PathFacts


def keep_out(policy: Policy, kept: Sequence[str]) -> Policy:
    """`kept` are real paths that exist."""
    if not policy.caged or not kept:
        return policy
    return replace(policy, deny=(*policy.deny, *(Grant(each) for each in kept)))


def refuse_kept(policy: Policy, paths: PathFacts, kept: Sequence[str]) -> None:
    """Raises PolicyError for the first grant that leads into a kept directory."""
    asked = [("filesystem.allow", absolute(grant.path, paths.cwd)) for grant in policy.allow]
    asked += [("filesystem.allow_write", absolute(grant.path, paths.cwd)) for grant in policy.allow_write]
    if policy.workdir != "none":
        asked.append(("filesystem.workdir", paths.cwd))
    for key, path in asked if policy.caged else ():
        for directory in kept:
            if covers(directory, paths[path].real):
                message = f"{path!r} is in the audit trail ({directory}), which no cage may reach"
                raise PolicyError(message, key=key, suggestion="grant a copy of what is needed")
