"""Parts of the policy that this version can read, merge and show, and cannot carry out: refused by name, here.

A recipe may speak of a part that is still to come; a cage that would need the part is not made, for a rule that is
ignored is worse than a rule that is missing. To add the part, remove its row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import NamedTuple

from pysandbox.compile.plan import Note
from pysandbox.errors import SandboxCompileError
from pysandbox.policy.model import Policy, options

NO_NETWORK = 'run it without a network: --egress none (egress = "none" in [network])'


class Part(NamedTuple):
    key: str
    used: Callable[[Policy], bool]
    message: str
    suggestion: str


PARTS: tuple[Part, ...] = (
    Part(
        "host", lambda policy: policy.egress == "proxy-only" and bool(policy.hosts),
        "a way to hosts needs the network gatekeeper, which this version does not have", NO_NETWORK,
    ),
    Part(
        "host", lambda policy: policy.egress == "direct" and bool(policy.hosts),
        "in the host's own network nothing holds a host to its contract",
        f"{NO_NETWORK}, or leave the [[host]] blocks out",
    ),
    Part(
        "network.dlp.enabled", lambda policy: policy.egress == "direct" and policy.dlp_enabled,
        "in the host's own network nothing can be scanned", f"{NO_NETWORK}, or leave [network.dlp] out",
    ),
    Part(
        "network.allow_host_loopback", lambda policy: policy.egress == "proxy-only" and policy.allow_host_loopback,
        "the way to the host's loopback needs the network gatekeeper, which this version does not have", NO_NETWORK,
    ),
    Part(
        "network.ports", lambda policy: bool(policy.ports),
        "publishing a port needs the network gatekeeper, which this version does not have", "leave ports out",
    ),
)  # fmt: skip

# What only a way out would give a meaning to.
OF_THE_WAY_OUT = (
    "hosts", "contract_mode", "allow_host_loopback", "dlp_enabled", "dlp_canary_tokens", "dlp_max_decode_depth",
    "dlp_decompress", "dlp_dns_entropy_threshold", "dlp_session_entropy_budget", "dlp_extra_scopes",
    "proxy_buffered_bytes", "proxy_streamed_bytes", "proxy_timeout_ms", "proxy_scheme",
)  # fmt: skip
IDLE = "network.idle"


def refuse_absent(policy: Policy) -> None:
    """PolicyError for the first part that the policy needs and this version lacks."""
    for part in PARTS:
        if part.used(policy):
            raise SandboxCompileError(part.message, key=part.key, suggestion=part.suggestion)
    for field, described in options():
        sentence = dict(described.absent).get(getattr(policy, field.name)) if described.absent else None
        if sentence is not None:
            raise SandboxCompileError(sentence, key=described.toml_key)


def idle_notes(policy: Policy) -> tuple[Note, ...]:
    """Whoever names hosts probably meant to reach them."""
    defaults = {each.name: each.default for each in fields(Policy)}
    idle = [name for name in OF_THE_WAY_OUT if getattr(policy, name) != defaults[name]]
    if policy.egress == "direct" or not idle:
        return ()
    keys = ", ".join(described.toml_key for field, described in options() if field.name in idle)
    return (Note(IDLE, "network.egress", f"there is no way out of this cage, so these say nothing: {keys}"),)
