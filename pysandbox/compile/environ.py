"""The environment of a caged command: fixed variables, what is passed through by name, what the policy sets.

Nothing else is inherited (PROC-03, T44). Later wins: a name passed through replaces a fixed one, `env` replaces both.
Where a cage has doors, the proxy variables name them: the host's own, passed through, would lead nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.compile.doors import PROXY_VARIABLES, has_way_out
from pysandbox.compile.monitor import inherited
from pysandbox.compile.plan import SCRATCH
from pysandbox.compile.view import View
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import HostFacts, PathFacts

PATH = "/usr/local/bin:/usr/bin:/bin"

Environment = tuple[tuple[str, str], ...]


def environment(policy: Policy, host: HostFacts, paths: PathFacts, view: View) -> Environment:
    own = {"PATH": PATH, **_places(policy, paths, view)}
    variables = dict(own)
    for name in inherited(policy, host):
        if name in host.env and (name in policy.env_passthrough or name not in own):
            variables[name] = host.env[name]
    if has_way_out(policy):
        variables.update(PROXY_VARIABLES)
    variables.update(policy.env)
    return tuple(variables.items())


def uncaged_environment(policy: Policy, inherited: Mapping[str, str]) -> Environment:
    """All of the caller's, then what the policy sets."""
    return tuple({**inherited, **dict(policy.env)}.items())


def _places(policy: Policy, paths: PathFacts, view: View) -> dict[str, str]:
    """Where a program may keep its files: the cage's own home or /tmp, or without a view of its own the scratch."""
    if policy.isolation == "full":
        return {"HOME": "/tmp" if policy.run_as == "nobody" else paths.home}
    home = paths.home if view.shows(paths[paths.home].real) else SCRATCH
    return {"HOME": home, "TMPDIR": SCRATCH}
