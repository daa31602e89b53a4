"""A system file that every cage is given, and that the host replaced between the look at it and its mount.

A package manager, a DHCP client or `useradd` replaces files of /etc by a rename at any moment, and means no cage by it.
Such a start may be made once more from a new look. What the user names is not among these: there a swap is an attack,
and stays the error that it is; so it does where anything else is not as it was at the first look.
"""

from __future__ import annotations

import os

from pysandbox.policy import base_grants
from pysandbox.policy.expand import expand
from pysandbox.policy.paths_wanted import wanted_paths
from pysandbox.policy.user_home import home
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.errors import StartError
    from pysandbox.policy.model import Policy
    from pysandbox.probe.facts import PathFacts
    from pysandbox.runtime.prepared import Prepared

STEP = "source_changed"  # csrc/steps.def


def may_be_made_again(error: StartError, policy: Policy, prepared: Prepared) -> bool:
    """Whether this start of `policy`, as its user wrote it, failed at nothing but such a file."""
    seen = prepared.paths
    return error.step == STEP and error.filename in {seen[path].real for path in _of_the_base_alone(policy, seen)}


def only_the_base_changed(policy: Policy, before: PathFacts, after: PathFacts) -> bool:
    """Whether two looks saw the same, but for such files."""
    loose = _of_the_base_alone(policy, before)
    was, now = ({path: fact for path, fact in each.facts.items() if path not in loose} for each in (before, after))
    return (was, before.executables, before.guards) == (now, after.executables, after.guards)


def _of_the_base_alone(policy: Policy, seen: PathFacts) -> frozenset[str]:
    """The grants of the base that lead to nothing that `policy` names."""
    mine = wanted_paths(expand(policy, env=os.environ, cwd=seen.cwd, home=home()), seen.cwd)
    named = {seen[path].real for path in (*mine, seen.cwd, seen.home) if path in seen.facts}
    base = [grant.path for grant in base_grants.ALLOW] if policy.base else []
    return frozenset(path for path in base if path in seen.facts and seen[path].real not in named)
