"""Directories that no cage may reach, whatever its policy grants: the audit trail, the records of cages, what the user
trusts. `probe.kept.protected_directories` names them, `view` takes them out of every grant; here is what is refused.

A closed one inside a wider grant is one more denial, under the laws of every denial (its parents cannot be renamed
away; without mounts it refuses the wider grant). A grant of the directory, or of something in it, is an error. Pure.
"""

from __future__ import annotations

from pysandbox.errors import PolicyError
from pysandbox.policy.match import covers
from pysandbox.policy.model import GRANTING, Policy, options
from pysandbox.policy.paths_wanted import absolute
from pysandbox.probe.facts import PathFacts

KEYS = {each.name: described.toml_key for each, described in options() if each.name in GRANTING}


def refuse_protected(policy: Policy, paths: PathFacts) -> None:
    """Raises PolicyError for the first grant that leads into a closed one."""
    closed = [
        (paths[kept.path].real, kept) for kept in paths.kept if kept.closed and paths[kept.path].kind != "missing"
    ]
    asked = [(KEYS[name], absolute(grant.path, paths.cwd)) for name in KEYS for grant in getattr(policy, name)]
    if policy.workdir != "none":
        asked.append(("filesystem.workdir", paths.cwd))
    for key, path in asked:
        for real, kept in closed:
            if covers(real, paths[path].real):
                message = f"{path!r} is in {kept.what} ({kept.path}), which no cage may reach"
                raise PolicyError(message, key=key, suggestion="grant a copy of what is needed")
