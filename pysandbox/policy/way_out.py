"""What a policy's egress comes to: proxy-only without anything to reach is none (T06).

Whether there is a way out, and whether what goes there is looked at, is asked of every policy; what it takes is for
`compile.doors`, which a policy without one does not load. Pure.
"""

from __future__ import annotations

from operator import attrgetter

from pysandbox.policy.host import is_relaxed
from pysandbox.policy.model import Policy
from pysandbox.shapes import replace

REACHED = attrgetter("hosts", "allow_ips", "allow_host_loopback", "host_loopback_ports")  # each by itself


def effective_egress(policy: Policy) -> str:
    """ "none", "proxy-only" or "direct". An empty list never means that everything is allowed."""
    if policy.egress == "proxy-only" and not _reaches_anything(policy):
        return "none"
    return policy.egress


def _reaches_anything(policy: Policy) -> bool:
    """Without any of it there is no way out, whatever else is set."""
    return policy.egress == "proxy-only" and (any(REACHED(policy)) or is_relaxed(policy))


def loopback_ports(policy: Policy) -> tuple[int, ...] | None:
    """The ports of the host's own services that the alias leads to; () is any, None is none (T60)."""
    if policy.host_loopback_ports:
        return policy.host_loopback_ports
    return () if policy.allow_host_loopback else None


def reaches_names(policy: Policy) -> bool:
    """Whether a host, or the alias of this one's loopback, may be reached by its name."""
    named = bool(policy.hosts or policy.allow_host_loopback or policy.host_loopback_ports)
    return policy.egress == "proxy-only" and (named or is_relaxed(policy))


def has_way_out(policy: Policy) -> bool:
    """Whether anything outside may be reached through doors."""
    return _reaches_anything(policy) and may_have_doors(policy)


def has_doors(policy: Policy) -> bool:
    """Whether the cage is served: for its way out, or so that what it would have reached has a name (`why`)."""
    return policy.egress == "proxy-only" and (policy.why or _reaches_anything(policy)) and may_have_doors(policy)


def reaches_hosts(policy: Policy) -> bool:
    """Whether any of it is reached by a name."""
    return reaches_names(policy) and may_have_doors(policy)


def inspects(policy: Policy) -> bool:
    """Whether requests to some host are looked at."""
    if not reaches_hosts(policy):
        return False
    held = (
        scanning(policy).dlp_enabled
        or is_relaxed(policy)
        or policy.secrets
        or any(rule.is_inspected for rule in policy.hosts)
    )
    return bool(held)


def scanning(policy: Policy) -> Policy:
    """With what strict implies: where anything leaves, all of it is scanned."""
    if not policy.strict or policy.dlp_enabled or effective_egress(policy) != "proxy-only":
        return policy
    return replace(policy, dlp_enabled=True)


def any_bearer(policy: Policy) -> bool:
    """Whether whatever follows the word Bearer is a credential: strict says so too."""
    return policy.strict or policy.dlp_bearer == "any"


def may_have_doors(policy: Policy) -> bool:
    return policy.caged and policy.egress != "direct" and (policy.isolation == "full" or is_proxied(policy))


def is_proxied(policy: Policy) -> bool:
    """Without namespaces, whether there are doors: for hosts alone, and for programs that know a proxy."""
    return policy.isolation == "landlock" and policy.egress == "proxy-only" and bool(policy.hosts)
