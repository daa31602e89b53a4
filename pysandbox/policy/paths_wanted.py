"""Which host paths a policy wants looked at: the one list that `probe.paths.look` walks and `compile` asks for again.

Both sides spell a path the same way (`absolute`), so that a fact looked up is a fact that was taken. Pure: nothing is
looked at here, nothing is decided. The working directory, the home directory and the staging candidates are always
looked at and need not be wanted.
"""

from __future__ import annotations

from pysandbox.errors import PolicyError
from pysandbox.policy.model import Policy

# What steers the next run, or code of the host, from inside a project. The first are never seen by a cage, the second
# never written by it: a hook, or a configuration that names a command (core.fsmonitor, core.pager, an alias), runs on
# the host; config.worktree, commondir and a .git that is a file lead git to another configuration.
POLICY_FILES = ("pysandbox.toml", ".pysandbox")
GIT_FILES = (".git", ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir")


def wanted_paths(policy: Policy, cwd: str) -> tuple[str, ...]:
    """Every absolute path that compiling `policy` in `cwd` asks a fact of, each once."""
    lists = (policy.allow, policy.allow_write, policy.deny, policy.mask)
    named = [absolute(grant.path, cwd) for grants in lists for grant in grants]
    guards = [f"{tree}/{name}" for tree in guarded_trees(policy, cwd) for name in (*POLICY_FILES, *GIT_FILES)]
    return tuple(dict.fromkeys((*named, *guards)))


def guarded_trees(policy: Policy, cwd: str) -> tuple[str, ...]:
    """The granted paths inside which the files named above are protected: the workdir and whatever is writable."""
    workdir = () if policy.workdir == "none" else (cwd,)
    return (*workdir, *(absolute(grant.path, cwd) for grant in policy.allow_write))


def absolute(path: str, cwd: str) -> str:
    """`path` from the working directory. Dots and links stay as they are: only the look knows where they lead."""
    if path.startswith("/"):
        return path
    if path[:1] in "$~":  # as a name below cwd it would be absent, and a denial of it would deny nothing
        raise PolicyError(f"{path!r} was not expanded", suggestion='write "./" before a name that begins so')
    return f"{cwd}/{path}"
