"""What of a policy's paths must be mapped to the user of a cage that root starts, and cannot be: tried, for each anew.

That is what the cage is to write, and what it could not reach else: a tree that only root may enter, a socket that only
root may connect to. What everybody may read is read without.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.paths_wanted import absolute, changed_trees
from pysandbox.probe.facts import PathFacts
from pysandbox.probe.kernel import unmapped
from pysandbox.shapes import replace

FOR_ALL = {stat.S_IFDIR: 0o005, stat.S_IFREG: 0o004, stat.S_IFSOCK: 0o002}  # what everybody needs, to use one


def with_unmapped(policy: Policy, seen: PathFacts) -> PathFacts:
    """`seen`, completed with `unmapped`: the paths that the cage may write and whose owner cannot be mapped."""
    if not policy.caged or policy.isolation != "full":
        return seen
    written = (seen[path] for path in changed_trees(policy, seen.cwd))
    wanted = [fact.real for fact in written if fact.kind != "missing"]
    wanted += _private(policy, (*policy.allow, *policy.unix_sockets), seen)
    if policy.state == "scratch":
        from pysandbox.launch.scratch import scratch_parent  # threads, for the one policy in a hundred that asks

        wanted.append(os.path.realpath(scratch_parent()))
    return replace(seen, unmapped=unmapped(dict.fromkeys(wanted)))


def _private(policy: Policy, grants: tuple[Grant, ...], seen: PathFacts) -> Iterator[str]:
    read = (seen.cwd,) if policy.workdir == "read" else ()
    for path in (*read, *(absolute(grant.path, seen.cwd) for grant in grants)):
        fact = seen.facts.get(path)
        with suppress(OSError):
            mode = os.stat(fact.real, follow_symlinks=False).st_mode if fact is not None else 0
            needed = FOR_ALL.get(stat.S_IFMT(mode), 0)
            if fact is not None and mode & needed != needed:
                yield fact.real
