"""Secrets of a policy: what the Plan says of each, and what cannot be held.

A secret opens no host: a [[host]] block has to allow each of its names, and requests to it are looked at from then on.
Its value stays out of the cage by every way that a policy names: a variable that is passed through, a file that the
cage sees. A Plan says where a value is, never what it is. Pure.
"""

from __future__ import annotations

from pysandbox.compile.plan import SecretGrant
from pysandbox.errors import SandboxCompileError
from pysandbox.policy.host import HostRule
from pysandbox.policy.model import Policy
from pysandbox.policy.names import within
from pysandbox.policy.secret import Secret
from pysandbox.policy.way_out import reaches_names
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.compile.shown import View
    from pysandbox.probe.facts import PathFacts

KEY = "secret"


def secret_grants(policy: Policy) -> tuple[SecretGrant, ...]:
    """None where no host is reached by a name."""
    if not reaches_names(policy):
        return ()
    return tuple(SecretGrant(each.name, each.source, each.hosts, each.places) for each in policy.secrets)


def refuse_leaks(policy: Policy, paths: PathFacts, view: View) -> None:
    """Raises SandboxCompileError for the first secret that is to be sent where nobody looks, or that the cage would
    find without one."""
    if not reaches_names(policy):
        return
    for secret in policy.secrets:
        for host in secret.hosts:
            _refuse_unseen(policy, secret, host)
        kind, _, path = secret.source.partition(":")
        if kind == "file" and view.shows(paths[path].real):
            message = f"{secret.name}: the cage sees {path}, where the value is"
            raise SandboxCompileError(message, key=KEY, suggestion=f'deny it: deny = ["{path}"] in [filesystem]')


def _refuse_unseen(policy: Policy, secret: Secret, host: str) -> None:
    concerned = [rule for rule in policy.hosts if _overlap(rule, host)]
    if not any(_is_wider(rule, host) or within(rule.domain, host) for rule in concerned):
        message = f"{secret.name} is for {host}, which no [[host]] block allows"
        raise SandboxCompileError(message, key=KEY, suggestion=f'add [[host]] with domain = "{host}"')
    for rule in concerned:
        how = "direct" if rule.direct else 'tls = "pass"' if rule.tls == "pass" else ""
        if how:
            message = f"{secret.name} is for {host}, and nobody looks at requests to {rule.domain}: {how}"
            raise SandboxCompileError(message, key=KEY, suggestion=f"leave {how} of that [[host]] block out")


def _overlap(rule: HostRule, host: str) -> bool:
    below = f"**.{rule.domain.removeprefix('**.').removeprefix('*.')}"
    return _is_wider(rule, host) or within(rule.domain, host) or (rule.include_subdomains and within(below, host))


def _is_wider(rule: HostRule, host: str) -> bool:
    below = f"**.{rule.domain.removeprefix('**.').removeprefix('*.')}"
    return within(host, rule.domain) or (rule.include_subdomains and within(host, below))


def withheld_variables(policy: Policy) -> frozenset[str]:
    """Variables of the host that no cage gets: what a secret is called, and where its value is, or a password."""
    sources = (each.source.partition(":") for each in policy.secrets)
    parent = (policy.proxy_parent_credentials or "").partition(":")[2]
    return frozenset((
        *(each.name for each in policy.secrets), *(name for kind, _, name in sources if kind == "env"),
        *((parent,) if parent else ()),
    ))  # fmt: skip


def refuse_variables(policy: Policy, variables: dict[str, str]) -> None:
    """Raises SandboxCompileError where a variable of the cage has the name of a secret."""
    for secret in policy.secrets:
        if secret.name in variables:
            message = f"{secret.name} is a variable that this cage has already, and cannot be a secret's"
            raise SandboxCompileError(
                message, key=KEY, suggestion="leave it out of env, or give the secret another name"
            )
