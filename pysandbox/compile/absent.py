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
from pysandbox.policy.way_out import way_out

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


def _by_any_way(asks: Callable[[Policy], object]) -> Callable[[Policy], bool]:
    """Also where only addresses are reached: what goes there is looked at by nobody."""
    return lambda policy: way_out(policy) == "proxy-only" and bool(asks(policy))


DEFAULTS = {each.name: each.default for each in fields(Policy)}
INSPECTION = "needs requests to be looked at, which this version cannot do"


def _differs(name: str) -> Callable[[Policy], bool]:
    return lambda policy: getattr(policy, name) != DEFAULTS[name]


SHAPE = "leave it out, which allows any request to the host, or run it without a network: --egress none"

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
        "network.dlp.enabled", _by_any_way(lambda policy: policy.dlp_enabled), INSPECTION, "leave [network.dlp] out",
    ),
    Part(
        "network.dlp.canary_tokens", _by_any_way(lambda policy: policy.dlp_canary_tokens), INSPECTION,
        "leave [network.dlp] out",
    ),
    *(
        Part(key, _by_any_way(_differs(name)), INSPECTION, "leave it out: nothing that is sent is scanned")
        for key, name in (
            ("network.dlp.max_decode_depth", "dlp_max_decode_depth"),
            ("network.dlp.decompress", "dlp_decompress"),
            ("network.dlp.dns_entropy_threshold", "dlp_dns_entropy_threshold"),
            ("network.dlp.session_entropy_budget", "dlp_session_entropy_budget"),
            ("network.dlp.extra_scopes", "dlp_extra_scopes"),
        )
    ),
    Part(
        "strict", _by_any_way(lambda policy: policy.strict),
        "a strict cage scans what is sent for credentials, which this version cannot do",
        f"leave strict out, or {NO_NETWORK}",
    ),
    *(
        Part(key, _by_any_way(_differs(name)), INSPECTION, "leave it out")
        for key, name in (
            ("proxy.max_buffered_body_bytes", "proxy_buffered_bytes"),
            ("proxy.max_streamed_body_bytes", "proxy_streamed_bytes"),
            ("proxy.upstream_request_timeout_ms", "proxy_timeout_ms"),
            ("proxy.upstream_scheme", "proxy_scheme"),
        )
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
        "strict", lambda policy: policy.egress == "direct" and policy.strict,
        "a strict cage scans what is sent for credentials, and in the host's own network nothing can be scanned",
        f"leave strict out, or {NO_NETWORK}",
    ),
    Part(
        "network.ports", lambda policy: policy.egress == "direct" and bool(policy.ports),
        "in the host's own network a port that a command opens is the host's", "leave ports out",
    ),
)  # fmt: skip

# What only a way out would give a meaning to.
OF_THE_WAY_OUT = (
    "allow_ips", "hosts", "contract_mode", "allow_host_loopback", "host_loopback_ports", "dns_ipv6",
    "dlp_enabled", "dlp_canary_tokens", "dlp_max_decode_depth",
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
    idle = [name for name in OF_THE_WAY_OUT if getattr(policy, name) != DEFAULTS[name]]
    if policy.egress == "direct":
        return ()
    if policy.isolation != "full" and policy.egress != "none":  # connects to addresses are decided without doors
        idle = [name for name in idle if name != "allow_ips"]
    if not has_way_out(policy):
        return _idle(idle, "there is no way out of this cage, so these say nothing")
    if reaches_hosts(policy):
        return ()
    return _idle([name for name in idle if name != "allow_ips"], "no host is reached by its name, so these say nothing")


def _idle(names: list[str], reason: str) -> tuple[Note, ...]:
    keys = ", ".join(described.toml_key for field, described in options() if field.name in names)
    return (Note(IDLE, "network.egress", f"{reason}: {keys}"),) if names else ()
