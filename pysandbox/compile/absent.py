"""Parts of the policy that this version can read, merge and show, and cannot carry out: refused by name, here.

A recipe may speak of a part that is still to come; a cage that would need the part is not made, for a rule that is
ignored is worse than a rule that is missing. To add the part, remove its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pysandbox.errors import SandboxCompileError
from pysandbox.note import ON_REQUEST, Note
from pysandbox.policy import left_out
from pysandbox.policy.host import HostRule, is_relaxed
from pysandbox.policy.left_out import SCANNING, looks_at_requests
from pysandbox.policy.model import Policy, options
from pysandbox.policy.names import within
from pysandbox.policy.way_out import effective_egress, has_way_out, inspects, reaches_hosts, scanning
from pysandbox.shapes import NamedTuple, fields, replace

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


def _leads_where_a_parent_says(policy: Policy) -> bool:
    """Whether a block lists addresses for a name that a parent proxy resolves."""
    asked = [rule for rule in policy.hosts if rule.private_addresses and not rule.direct]
    return policy.proxy_parent is not None and any(
        not any(within(rule.domain, each) for each in policy.proxy_no_parent) for rule in asked
    )


def _by_any_way(asks: Callable[[Policy], object]) -> Callable[[Policy], bool]:
    """True even where only addresses are granted: what is sent to an address is not inspected."""
    return lambda policy: effective_egress(policy) == "proxy-only" and bool(asks(policy))


DEFAULTS = {each.name: each.default for each in fields(Policy)}
HOW_IT_IS_SCANNED = (
    ("network.dlp.max_decode_depth", "dlp_max_decode_depth"), ("network.dlp.extra_scopes", "dlp_extra_scopes"),
    ("network.dlp.session_entropy_budget", "dlp_session_entropy_budget"), ("network.dlp.detector", "dlp_detectors"),
    ("network.dlp.packs", "dlp_packs"), ("network.dlp.bearer", "dlp_bearer"),
    ("network.dlp.decompress", "dlp_decompress"), ("network.dlp.dns_entropy_threshold", "dlp_dns_entropy_threshold"),
    ("proxy.max_buffered_body_bytes", "proxy_buffered_bytes"),
)  # fmt: skip
OF_SCANNING = HOW_IT_IS_SCANNED[:-1]
DLP, STRICT = "network.dlp.enabled", "strict"
RELAXED = "network.contract_mode"
BUDGET = "network.dlp.session_entropy_budget"
NO_SCAN = "or leave network.dlp.enabled out"


def _differs(name: str) -> Callable[[Policy], bool]:
    return lambda policy: getattr(policy, name) != DEFAULTS[name]


def _in_the_host_s_network(name: str) -> Callable[[Policy], bool]:
    return lambda policy: policy.egress == "direct" and _differs(name)(policy)


def _scanned(asks: Callable[[Policy], object]) -> Callable[[Policy], bool]:
    """Where what is sent is to be scanned, and this would let some of it pass."""
    return _by_any_way(lambda policy: policy.dlp_enabled and asks(policy))


def _unless_scanned(fix: str, *options: tuple[str, str]) -> Iterator[Part]:
    """Options that say how something is scanned, and so say nothing where nothing is."""

    def idle(name: str) -> Callable[[Policy], bool]:
        return _by_any_way(lambda policy: _differs(name)(policy) and not policy.dlp_enabled)

    return (Part(key, idle(name), "nothing that is sent is scanned, so this would hold nothing", fix)
            for key, name in options)  # fmt: skip


# Each way on which something leaves that nobody scans.
UNSCANNED: tuple[Part, ...] = (
    Part(
        DLP, _scanned(lambda policy: policy.isolation != "full"),
        "what is sent is scanned in full isolation alone", f'use isolation = "full", {NO_SCAN}',
    ),
    Part(
        DLP, _scanned(lambda policy: policy.allow_ips),
        "what is sent to a listed address is not scanned", f"name hosts in the place of allow_ips, {NO_SCAN}",
    ),
    Part(
        DLP, _scanned(lambda policy: policy.allow_host_loopback or policy.host_loopback_ports),
        "what is sent to this host's own services is not scanned",
        f"leave allow_host_loopback and host_loopback_ports out, {NO_SCAN}",
    ),
    Part(
        DLP, _scanned(lambda policy: policy.ports),
        "what is answered at a published port is not scanned", f"leave ports out, {NO_SCAN}",
    ),
    Part(
        DLP, _scanned(lambda policy: policy.network_backend == "routed"),
        "requests are scanned behind doors, and a routed cage has an interface", f"leave backend out, {NO_SCAN}",
    ),
    Part(
        "host.direct", _scanned(lambda policy: any(rule.direct for rule in policy.hosts)),
        "a direct connection is the kernel's own, and nothing scans what is sent", f"leave direct out, {NO_SCAN}",
    ),
    Part(
        "host.tls", _scanned(lambda policy: any(rule.tls == "pass" for rule in policy.hosts)),
        "what is said inside TLS is not scanned where it is let pass", f"leave tls out, {NO_SCAN}",
    ),
)  # fmt: skip


def _unless_parent(*options: tuple[str, str]) -> Iterator[Part]:
    """Options that are about the parent proxy."""
    why, fix = (
        "no parent proxy is named, so this would hold nothing",
        'leave it out, or write parent = "http://HOST:PORT"',
    )

    def about_nobody(name: str) -> Callable[[Policy], bool]:
        return _by_any_way(lambda policy: _differs(name)(policy) and policy.proxy_parent is None)

    return (Part(key, about_nobody(name), why, fix) for key, name in options)


def _unless_inspected(*options: tuple[str, str]) -> Iterator[Part]:
    """Options that hold requests, and so say nothing where no request is looked at."""
    why = "no [[host]] or [[secret]] block says anything of requests, so none is looked at, and this would hold nothing"
    fix = (
        'leave it out, or give a host a block with methods, paths, content_types, max_request_bytes or tls = "inspect"'
    )

    def held_by_nobody(name: str) -> Callable[[Policy], bool]:
        return lambda policy: (
            effective_egress(policy) == "proxy-only" and _differs(name)(policy) and not inspects(policy)
        )

    return (Part(key, held_by_nobody(name), why, fix) for key, name in options)


PARTS: tuple[Part, ...] = (
    *UNSCANNED,
    Part(
        "host", lambda policy: policy.isolation != "full" and inspects(policy),
        "which requests a host may be sent, and with what secret, is held in full isolation alone",
        "leave methods, paths, content_types, max_request_bytes, tls and [[secret]] out, or use isolation = \"full\"",
    ),
    Part(
        "host.direct", _some_host(lambda rule: rule.direct and rule.is_inspected),
        "a direct connection is the kernel's own, and nothing looks at its requests",
        "leave direct out, or what the block says of requests",
    ),
    Part(
        "host.tls", _some_host(lambda rule: rule.tls == "pass" and rule.is_inspected),
        "what is said inside TLS is not looked at where it is let pass, so nothing would hold the block's requests",
        "leave tls out, or methods, paths, content_types and max_request_bytes",
    ),
    Part(
        "network.backend", lambda policy: policy.network_backend == "routed" and inspects(policy),
        "requests are looked at behind doors, and a routed cage has an interface",
        "leave backend out, or what the blocks say of requests, and [[secret]]",
    ),
    Part(
        "host.allow_credentials",
        _through_doors(lambda policy: not policy.dlp_enabled and any(each.allow_credentials for each in policy.hosts)),
        "nothing that is sent is scanned, so every credential may be sent everywhere",
        "leave it out, or scan what is sent: network.dlp.enabled = true",
    ),
    Part(
        RELAXED, lambda policy: policy.strict and is_relaxed(policy),
        "strict lets nothing degrade, and relaxed opens every host, also one that nobody named",
        "leave contract_mode out, and give each host that is needed a [[host]] block, or leave strict out",
    ),
    Part(
        RELAXED, lambda policy: policy.isolation != "full" and is_relaxed(policy),
        "which requests a host is sent is told in full isolation alone",
        'leave contract_mode out, or use isolation = "full"',
    ),
    Part(
        RELAXED, lambda policy: policy.proxy_parent is not None and is_relaxed(policy),
        "a parent proxy resolves the names, so every name would lead anywhere, also inside of its network",
        "leave contract_mode out, and give each host that is needed a [[host]] block, or leave parent out",
    ),
    Part(
        "host.private_addresses", _through_doors(_leads_where_a_parent_says),
        "the parent proxy resolves this name, so nothing here knows where it leads, and this would hold nothing",
        "leave it out, or name the domain in no_parent of [proxy]",
    ),
    Part(
        "host.direct", _through_doors(
            lambda policy: is_relaxed(policy) and any(each.direct for each in policy.hosts)
        ),
        "relaxed looks at what is sent to every host, so nothing would be direct",
        "leave direct out, or contract_mode",
    ),
    Part(
        "network.dlp.canary_tokens", _by_any_way(lambda policy: policy.dlp_canary_tokens and not policy.dlp_enabled),
        "nothing that is sent is scanned, so this would hold nothing",
        "leave it out, or scan what is sent: network.dlp.enabled = true",
    ),
    *_unless_scanned("leave it out, or scan what is sent: network.dlp.enabled = true", *HOW_IT_IS_SCANNED),
    Part(
        "proxy.parent", _by_any_way(lambda policy: policy.strict and policy.proxy_parent is not None),
        "strict lets nothing degrade, and behind a parent proxy no address is checked that a name leads to",
        "leave parent out, or strict",
    ),
    Part(
        "proxy.parent", lambda policy: policy.egress == "direct" and policy.proxy_parent is not None,
        "in the host's own network nothing is asked of a proxy", f"{NO_NETWORK}, or leave parent out",
    ),
    *_unless_parent(
        ("proxy.parent_credentials", "proxy_parent_credentials"), ("proxy.no_parent", "proxy_no_parent"),
    ),
    Part(
        BUDGET, _by_any_way(lambda policy: policy.strict and _differs("dlp_session_entropy_budget")(policy)),
        "a strict cage sends no opaque bytes but to hosts that list generic_high_entropy, so this would hold nothing",
        "leave it out, or strict",
    ),
    Part(
        "proxy.upstream_scheme", _by_any_way(lambda policy: policy.strict and policy.proxy_scheme is not None),
        "strict lets nothing degrade, and requests would leave without TLS", "leave upstream_scheme out, or strict",
    ),
    *_unless_inspected(
        ("proxy.upstream_scheme", "proxy_scheme"),
        ("proxy.max_streamed_body_bytes", "proxy_streamed_bytes"),
        ("proxy.upstream_request_timeout_ms", "proxy_timeout_ms"),
        ("proxy.upstream_ca", "proxy_upstream_ca"),
    ),
    Part(
        "secret", lambda policy: policy.egress == "direct" and bool(policy.secrets),
        "in the host's own network nobody puts a value in the place of its placeholder",
        f"{NO_NETWORK}, or leave the [[secret]] blocks out",
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
    *(
        Part(
            key, _in_the_host_s_network(name),
            "in the host's own network nothing can be scanned", f"{NO_NETWORK}, or leave [network.dlp] out",
        )
        for key, name in (("network.dlp.canary_tokens", "dlp_canary_tokens"), *OF_SCANNING)
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
OF_THE_WAY_OUT = tuple(field.name for field, described in options() if described.idle_alone)
IDLE = "network.idle"
LEFT_OUT = "network.left_out"
GRANTS = {"hosts", "allow_ips", "allow_host_loopback", "host_loopback_ports"}
SHOWN = 4  # names of hosts in a line; the rest is counted


def refuse_absent(policy: Policy) -> None:
    """PolicyError for the first part that the policy needs and this version lacks. All of them are of what leaves, and
    most cages let nothing leave."""
    if effective_egress(policy) == "none":
        return
    asked = scanning(policy)
    for part in PARTS:
        if part.used(asked):
            part = part if asked is policy else _by_strict(part)
            raise SandboxCompileError(part.message, key=part.key, suggestion=part.suggestion)


def _by_strict(part: Part) -> Part:
    """Where nobody has asked for the scan but strict."""
    key = STRICT if part.key == DLP else part.key
    return part._replace(key=key, suggestion=part.suggestion.replace(DLP, STRICT))


def idle_notes(policy: Policy) -> tuple[Note, ...]:
    """Whoever names hosts probably meant to reach them."""
    idle = [name for name in OF_THE_WAY_OUT if getattr(policy, name) != DEFAULTS[name]]
    if policy.egress == "direct" or not idle:
        return ()
    if policy.isolation != "full" and policy.egress != "none":  # connects to addresses are decided without doors
        idle = [name for name in idle if name != "allow_ips"]
    if not has_way_out(policy):
        return _idle(idle, "there is no way out of this cage, so these say nothing", opening=_would_open(policy))
    if reaches_hosts(policy):
        return ()
    return _idle([name for name in idle if name != "allow_ips"], "no host is reached by its name, so these say nothing")


def _would_open(policy: Policy) -> bool:
    """Whether `egress = "proxy-only"` would be a way out that this version can carry out."""
    if policy.egress != "none" or policy.isolation != "full":
        return False
    opened = scanning(replace(policy, egress="proxy-only"))
    return not any(part.used(opened) for part in PARTS)


def left_out_notes(policy: Policy) -> tuple[Note, ...]:
    """What a shipped recipe asks of the network and does not get."""
    if policy.egress == "none":
        return ()
    found = []
    names = [name for name in policy.left_out if name != SCANNING and not _is_opened(policy, name)]
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        out = "they are" if len(names) > 1 else "it is"
        named = f"{', '.join(names[:SHOWN])}{more}"
        found.append(f"{_unheld(policy)} {named}; so {out} left out, and {_opens(policy, names)}")
    if SCANNING in policy.left_out and has_way_out(policy) and not policy.dlp_enabled:
        found.append("not held yet: nothing that leaves this cage is scanned for credentials")
    said = tuple(Note(LEFT_OUT, "network.left_out", sentence) for sentence in found)
    if opened := [name for name in policy.left_out if name not in (*names, SCANNING)]:
        whole = f"open as a whole, whatever a recipe says of requests: {', '.join(opened)}"
        return (*said, Note(LEFT_OUT, "network.left_out", whole, ON_REQUEST))
    return said


def _opens(policy: Policy, names: list[str]) -> str:
    """What its user can do about it."""
    if policy.dlp_enabled:
        return "--host NAME opens one name of it, with all that is sent there scanned"
    flag = "NAME" if len(names) > 1 else f"'{names[0]}'" if "*" in names[0] else names[0]
    return f"--host {flag} opens the whole host"


def _unheld(policy: Policy) -> str:
    """What keeps the hosts of a shipped recipe out."""
    if not looks_at_requests(policy.isolation, policy.network_backend, policy.egress):
        return "not held but in full isolation, behind doors: which requests may be sent to"
    if policy.dlp_enabled:
        return "not held yet: below a pattern much can be said in the names that are asked for, and so not"
    beside = _in_the_way(policy)
    if policy.strict or SCANNING in policy.left_out:
        what = "that all is scanned for credentials which is sent to"
    else:
        what = "which credentials may be sent to"
    return f"not held {f'beside {beside}' if beside else 'yet'}: {what}"


def _in_the_way(policy: Policy) -> str:
    """The key of what could not be scanned."""
    unscanned = [described.toml_key for field, described in options()
                 if field.name in left_out.UNSCANNED and getattr(policy, field.name)]  # fmt: skip
    return ", ".join(unscanned) or ("" if all(map(left_out.is_scannable, policy.hosts)) else "host")


def _is_opened(policy: Policy, name: str) -> bool:
    """Whether some block, which then is the user's own, opens the host."""
    from pysandbox.policy.names import matches

    return any(
        rule.domain == name
        or (not name.startswith("*") and matches(rule.domain, name))
        or (rule.include_subdomains and name.endswith(f".{rule.domain}"))
        for rule in policy.hosts
    )


def _idle(names: list[str], reason: str, *, opening: bool = False) -> tuple[Note, ...]:
    if not names:
        return ()
    keys = ", ".join(described.toml_key for field, described in options() if field.name in names)
    advice = "; --egress proxy-only opens one" if opening and set(names) & GRANTS else ""
    return (Note(IDLE, "network.egress", f"{reason}: {keys}{advice}"),)
