"""What of a policy's paths a cage that root starts may not write at all, and what must be mapped to its user and cannot
be: looked at and tried, for each anew. What the cage has of its own, and is not granted, is neither.

Mapped is what the cage is to write, and what it could not reach else: a tree that only root may enter, a socket that
only root may connect to. What everybody may read is read without.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from pysandbox.compile.view import why_own
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.paths_wanted import absolute, changed_trees
from pysandbox.probe.facts import PathFacts
from pysandbox.probe.kernel import unmapped
from pysandbox.probe.mounted import find_not_for_root
from pysandbox.shapes import replace

FOR_ALL = {stat.S_IFDIR: 0o005, stat.S_IFREG: 0o004, stat.S_IFSOCK: 0o002}  # what everybody needs, to use one


def seen_by_root(policy: Policy, seen: PathFacts, *, maps: bool) -> PathFacts:
    """`seen`, completed with `not_for_root` and, where this root `maps` ids, with `unmapped`. Raises StartError."""
    full = policy.isolation == "full"
    facts = (seen[path] for path in changed_trees(policy, seen.cwd))
    written = [fact.real for fact in facts if fact.kind != "missing" and not (full and why_own(fact.real))]
    seen = replace(seen, not_for_root=find_not_for_root(written))
    if not (full and maps):
        return seen
    wanted = [*written, *_private(policy, (*policy.allow, *policy.unix_sockets), seen)]
    if policy.state == "scratch":
        from pysandbox.launch.scratch import scratch_parent  # threads, for the one policy in a hundred that asks

        wanted.append(os.path.realpath(scratch_parent()))
    return replace(seen, unmapped=unmapped(dict.fromkeys(wanted)))


def _private(policy: Policy, grants: tuple[Grant, ...], seen: PathFacts) -> Iterator[str]:
    """What is read, and only root may. Another user's private tree is closed to root's id too, without capabilities."""
    read = (seen.cwd,) if policy.workdir == "read" else ()
    for path in (*read, *(absolute(grant.path, seen.cwd) for grant in grants)):
        fact = seen.facts.get(path)
        if fact is not None and not why_own(fact.real) and _is_root_s_alone(fact.real):
            yield fact.real


def _is_root_s_alone(path: str) -> bool:
    with suppress(OSError):
        found = os.stat(path, follow_symlinks=False)
        needed = FOR_ALL.get(stat.S_IFMT(found.st_mode), 0)
        return found.st_mode & needed != needed and 0 in (found.st_uid, found.st_gid)
    return False
