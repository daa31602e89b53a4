"""The environment of a caged command: fixed variables, what is passed through by name, what the policy sets.

Nothing else is inherited (PROC-03, T44). Later wins: a name passed through replaces a fixed one, `env` replaces both.
Where a cage has doors, the proxy variables name them, whatever else was said (T45): any other proxy would lead nowhere.
So do the variables that name the certificates to be trusted, where a host has a contract.
"""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.compile.monitor import inherited
from pysandbox.compile.network import NO_RETRIES
from pysandbox.compile.plan import SCRATCH
from pysandbox.compile.secrets import refuse_variables, withheld_variables
from pysandbox.compile.trust import trust_variables
from pysandbox.compile.view import View, nearest
from pysandbox.policy.model import Policy
from pysandbox.policy.way_out import has_way_out
from pysandbox.probe.facts import HostFacts, PathFacts

PATH = "/usr/local/bin:/usr/bin:/bin"
# What looks for leaks at the end of a program that was built with AddressSanitizer does so with ptrace(2), and where
# that is refused a program without a fault exits with 1.
NO_PTRACE = {"LSAN_OPTIONS": "detect_leaks=0"}

# Variables of which a cage has a value of its own, unless the caller's is passed through and there is one.
OWN = frozenset(("PATH", "HOME", "TMPDIR", *NO_RETRIES, *NO_PTRACE))

Environment = tuple[tuple[str, str], ...]


def environment(policy: Policy, host: HostFacts, paths: PathFacts, view: View) -> Environment:
    own = {"PATH": PATH, **_places(policy, paths, view)}
    way_out = has_way_out(policy)
    if policy.egress != "direct" and not way_out:
        own.update(NO_RETRIES)
    if "ptrace" not in policy.allow_syscalls:
        own.update(NO_PTRACE)
    variables = dict(own)
    withheld = withheld_variables(policy) if policy.secrets or policy.proxy_parent_credentials else frozenset()
    for name in inherited(policy, host) if policy.monitor else policy.env_passthrough:
        if name in host.env and name not in withheld and (name in policy.env_passthrough or name not in own):
            variables[name] = host.env[name]
    variables.update(policy.env)
    if way_out:
        variables.update(variables_of_doors(policy))
    if policy.secrets:
        refuse_variables(policy, variables)
    return tuple(variables.items())


def variables_of_doors(policy: Policy) -> Mapping[str, str]:
    """What is so whatever is set or passed through: the caller's own proxy may come with a password, and leads nowhere
    here."""
    if not has_way_out(policy):
        return {}
    from pysandbox.compile.doors import PROXY_VARIABLES

    return {**PROXY_VARIABLES, **trust_variables(policy)}


def uncaged_environment(policy: Policy, inherited: Mapping[str, str]) -> Environment:
    """All of the caller's, then what the policy sets."""
    return tuple({**inherited, **dict(policy.env)}.items())


def _places(policy: Policy, paths: PathFacts, view: View) -> dict[str, str]:
    """Where a program may keep its files: the cage's own home or /tmp, or without a view of its own the scratch."""
    if policy.isolation == "full":
        return {"HOME": "/tmp" if policy.run_as == "nobody" else paths.home}
    real = paths[paths.home].real
    home = paths.home if view.shows(real) and nearest(real, view.copies) is None else SCRATCH
    return {"HOME": home, "TMPDIR": SCRATCH}
