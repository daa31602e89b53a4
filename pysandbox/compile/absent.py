"""Parts of the policy that this version can read, merge and show, and cannot carry out: refused by name, here.

A recipe may speak of a part that is still to come; a cage that would need the part is not made, for a rule that is
ignored is worse than a rule that is missing. To add the part, remove its row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import NamedTuple

from pysandbox.compile.doors import has_way_out, reaches_hosts
from pysandbox.compile.plan import Note
from pysandbox.errors import SandboxCompileError
from pysandbox.policy.host import HostRule
from pysandbox.policy.model import Policy, options

STREAMED_BYTES = next(each.default for each in fields(Policy) if each.name == "proxy_streamed_bytes")
NO_NETWORK = 'run it without a network: --egress none (egress = "none" in [network])'


class Part(NamedTuple):
    key: str
    used: Callable[[Policy], bool]
    message: str
    suggestion: str


def _through_doors(asks: Callable[[Policy], object]) -> Callable[[Policy], bool]:
    return lambda policy: reaches_hosts(policy) and bool(asks(policy))


def _some_host(asks: Callable[[HostRule], object]) -> Callable[[Policy], bool]:
    return _through_doors(lambda policy: any(map(asks, policy.hosts)))


INSPECTION = "needs requests to be looked at, which this version cannot do"
SHAPE = "leave it out, which allows any request to the host"

PARTS: tuple[Part, ...] = (
    Part("host.methods", _some_host(lambda rule: rule.methods), INSPECTION, SHAPE),
    Part("host.content_types", _some_host(lambda rule: rule.content_types), INSPECTION, SHAPE),
    Part("host.paths", _some_host(lambda rule: rule.paths), INSPECTION, SHAPE),
    Part("host.max_request_bytes", _some_host(lambda rule: rule.max_request_bytes is not None), INSPECTION, SHAPE),
    Part(
        "host.allow_credentials", _some_host(lambda rule: rule.allow_credentials), INSPECTION,
        "leave it out: nothing that is sent is scanned",
    ),
    Part(
        "host.contract_mode", _some_host(lambda rule: rule.contract_mode == "relaxed"), INSPECTION,
        "leave it out: a host without a block is refused",
    ),
    Part(
        "network.contract_mode", _through_doors(lambda policy: policy.contract_mode == "relaxed"), INSPECTION,
        "leave it out, and give each host that is needed a [[host]] block",
    ),
    Part(
        "network.dlp.enabled", _through_doors(lambda policy: policy.dlp_enabled), INSPECTION, "leave [network.dlp] out",
    ),
    Part(
        "network.dlp.canary_tokens", _through_doors(lambda policy: policy.dlp_canary_tokens), INSPECTION,
        "leave [network.dlp] out",
    ),
    Part(
        "strict", _through_doors(lambda policy: policy.strict and policy.hosts),
        "a strict cage scans what is sent for credentials, which this version cannot do", "leave strict out",
    ),
    Part(
        "proxy.max_streamed_body_bytes",
        _through_doors(lambda policy: policy.proxy_streamed_bytes != STREAMED_BYTES), INSPECTION, "leave it out",
    ),
    Part(
        "proxy.upstream_scheme", _through_doors(lambda policy: policy.proxy_scheme), INSPECTION, "leave it out",
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
        "network.ports", lambda policy: policy.egress == "direct" and bool(policy.ports),
        "in the host's own network a port that a command opens is the host's", "leave ports out",
    ),
)  # fmt: skip

# What only a way out would give a meaning to.
OF_THE_WAY_OUT = (
    "hosts", "contract_mode", "allow_host_loopback", "host_loopback_ports", "dns_ipv6",
    "dlp_enabled", "dlp_canary_tokens", "dlp_max_decode_depth",
    "dlp_decompress", "dlp_dns_entropy_threshold", "dlp_session_entropy_budget", "dlp_extra_scopes",
    "proxy_buffered_bytes", "proxy_streamed_bytes", "proxy_timeout_ms", "proxy_scheme",
)  # fmt: skip
# Of these, what only the inspection of requests would give a meaning to, and is no denial: those are refused above.
OF_INSPECTION = frozenset((
    "dlp_max_decode_depth", "dlp_decompress", "dlp_dns_entropy_threshold", "dlp_session_entropy_budget",
    "dlp_extra_scopes", "proxy_buffered_bytes", "proxy_timeout_ms",
))  # fmt: skip
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
    if policy.egress == "direct":
        return ()
    if not has_way_out(policy):
        return _idle(idle, "there is no way out of this cage, so these say nothing")
    if reaches_hosts(policy):
        return _idle([name for name in idle if name in OF_INSPECTION], "no request is looked at, so these say nothing")
    return _idle([name for name in idle if name != "dns_ipv6"], 'egress is "none", so these say nothing')


def _idle(names: list[str], reason: str) -> tuple[Note, ...]:
    keys = ", ".join(described.toml_key for field, described in options() if field.name in names)
    return (Note(IDLE, "network.egress", f"{reason}: {keys}"),) if names else ()
