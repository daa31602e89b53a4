"""What a policy's egress comes to: proxy-only without anything to reach is none (T06). Pure."""

from __future__ import annotations

from pysandbox.policy.model import Policy


def way_out(policy: Policy) -> str:
    """ "none", "proxy-only" or "direct". An empty list never means that everything is allowed."""
    if policy.egress == "proxy-only" and not (policy.allow_ips or reaches_names(policy)):
        return "none"
    return policy.egress


def reaches_names(policy: Policy) -> bool:
    """Whether a host, or the alias of this one's loopback, may be reached by its name."""
    named = bool(policy.hosts or policy.allow_host_loopback or policy.host_loopback_ports)
    return policy.egress == "proxy-only" and named
