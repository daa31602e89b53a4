"""A program that was typed by its name and calls for a recipe is found in the cage by that name too.

What the user's PATH leads to on the host lies, say, in ~/.cargo/bin: its recipe shows that directory, but the PATH of a
cage holds the system's own. So the directory comes first there, as it may on the host; but only one that the policy
shows, and that the cage cannot write: what runs by a name must not be what the last command left. A policy that says a
PATH of its own keeps it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from pysandbox.policy.expand import Surroundings
from pysandbox.policy.match import covers
from pysandbox.policy.model import Policy
from pysandbox.policy.option import Grant
from pysandbox.policy.refusal import Refused

if TYPE_CHECKING:
    from pysandbox.policy.search import Search

INSIDE = "/usr/local/bin:/usr/bin:/bin"  # as `launch.lookup.DEFAULT_PATH`


def with_path(policy: Policy, search: Search, name: str) -> Policy:
    """The policy, with the directory of this program first in PATH where it has to be."""
    if "/" in name or "PATH" in (*dict(policy.env), *policy.env_passthrough):
        return policy
    directory = _directory(policy, search, name)
    if directory is None:
        return policy
    return replace(policy, env=(*policy.env, ("PATH", f"{directory}:{INSIDE}")))


def _directory(policy: Policy, search: Search, name: str) -> str | None:
    found = search.found(name)
    if found is None:
        return None
    shown, writable = (_expanded(grants, search) for grants in (policy.allow, policy.allow_write))
    if policy.workdir in ("write", "cow"):
        writable.append(os.path.realpath(search.cwd))
    for path in (found, os.path.realpath(found)):
        directory = os.path.dirname(path)
        if os.path.basename(path) != name or ":" in directory or not os.path.isabs(directory):
            continue
        real = os.path.realpath(directory)
        if any(covers(each, place) for each in writable for place in (directory, real)):
            continue
        if any(covers(each, directory) for each in shown):
            return directory
    return None


def _home() -> str:
    """Where ~ leads in a grant: by the user database, as where the policy is expanded (`probe.paths`)."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir or "/tmp"
    except KeyError:
        return "/tmp"


def _expanded(grants: tuple[Grant, ...], search: Search) -> list[str]:
    around = Surroundings(search.env, search.cwd, _home())
    found = []
    for grant in grants:
        try:
            path = around.absolute(grant.path)
        except Refused:
            continue  # told where the policy is expanded
        found += [path, os.path.realpath(path)]
    return found
