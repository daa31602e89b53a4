"""Tightening a policy: `Policy.narrow` may change a field only towards less, and this table says what less means.

Grants shrink by exact path, not by prefix: `/proj/src` lies below `/proj` by its letters, yet as a symlink it may lead
anywhere, and nothing here may look. Every field of Policy has a row; a field without one fails the suite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pysandbox.policy.host import HostRule
from pysandbox.policy.model import Policy, options
from pysandbox.policy.option import Grant
from pysandbox.policy.refusal import Refused, shown

Tighter = Callable[[Any, Any, Policy], bool]  # (old value, new value, old policy) -> the new one grants no more
_EQUAL_CPU_WEIGHT = 100  # cpu.weight of a cgroup that nobody set (cgroup-v2.rst)


def _paths(grants: tuple[Grant, ...]) -> set[str]:
    return {grant.path for grant in grants}


def _reads_less(old: tuple[Grant, ...], new: tuple[Grant, ...], policy: Policy) -> bool:
    return _paths(new) <= _paths(old) | _paths(policy.allow_write)


def _writes_less(old: tuple[Grant, ...], new: tuple[Grant, ...], policy: Policy) -> bool:
    return _paths(new) <= _paths(old)


def _hides_more(old: tuple[Grant, ...], new: tuple[Grant, ...], policy: Policy) -> bool:
    kept = {grant.path: grant.optional for grant in new}
    return all(grant.path in kept and (grant.optional or not kept[grant.path]) for grant in old)


def _shrinks(old: tuple[Any, ...], new: tuple[Any, ...], policy: Policy) -> bool:
    return set(new) <= set(old)


def _grows(old: tuple[Any, ...], new: tuple[Any, ...], policy: Policy) -> bool:
    return set(new) >= set(old)


def _executes_less(old: tuple[str, ...], new: tuple[str, ...], policy: Policy) -> bool:
    return not old or (bool(new) and set(new) <= set(old))  # an empty list allows every executable


def _dials_less(old: tuple[str, ...], new: tuple[str, ...], policy: Policy) -> bool:
    """Beside egress = "direct" an empty list allows every address, else none."""
    return _executes_less(old, new, policy) if policy.egress == "direct" else set(new) <= set(old)


def _serves_less(old: tuple[int, ...], new: tuple[int, ...], policy: Policy) -> bool:
    """A list of ports beside `allow_host_loopback` holds it to these; without it, it opens them."""
    if policy.allow_host_loopback:
        return not old or (bool(new) and set(new) <= set(old))
    return set(new) <= set(old)


def _falls(old: float | None, new: float | None, policy: Policy) -> bool:
    return old is None or (new is not None and new <= old)


def _falls_from_lifted(old: int, new: int, policy: Policy) -> bool:
    return old == 0 or 0 < new <= old  # 0 lifts the limit


def _weighs_less(old: int | None, new: int | None, policy: Policy) -> bool:
    return (new or _EQUAL_CPU_WEIGHT) <= (old or _EQUAL_CPU_WEIGHT)


def _rises(old: int, new: int, policy: Policy) -> bool:
    return new >= old


def _same(old: Any, new: Any, policy: Policy) -> bool:
    return bool(old == new)


def _unless_asked(asked: bool) -> Tighter:
    """Three values: the tighter of the two that can be asked for, or what was there."""
    return lambda old, new, policy: new == old or new is asked


def _lists_less(old: Any, new: Any, policy: Policy) -> bool:
    """Against a profile whose lists are not known here nothing counts as less."""
    before, after = dict(old), dict(new)
    allowed, refused = set(after.get("allow", ())), set(after.get("deny", ()))
    return (
        bool(old) and bool(new) and allowed <= set(before.get("allow", ())) and refused >= set(before.get("deny", ()))
    )


def _sends_to_fewer(old: Any, new: Any, policy: Policy) -> bool:
    before = dict(old)
    return all(set(domains) <= set(before.get(name, ())) for name, domains in new)


def _reaches_less(old: tuple[HostRule, ...], new: tuple[HostRule, ...], policy: Policy) -> bool:
    before, after = ({rule.domain: rule for rule in rules} for rules in (old, new))
    gone = before.keys() - after.keys()
    return all(
        rule.domain in before
        and _demands_more(before[rule.domain], rule)
        and not any(_holds_for(rule, name) for name in gone)
        for rule in new
    )


def _holds_for(rule: HostRule, domain: str) -> bool:
    """Whether a block also decides for a name whose own block was taken away."""
    parent = rule.domain.removeprefix("**.").removeprefix("*.")
    return (rule.include_subdomains or parent != rule.domain) and domain.endswith(f".{parent}")


def _demands_more(old: HostRule, new: HostRule) -> bool:
    def shape(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
        return not before or (bool(after) and set(after) <= set(before))  # an empty list allows any

    return (
        shape(old.methods, new.methods)
        and shape(old.content_types, new.content_types)
        and shape(old.paths, new.paths)
        and (old.max_request_bytes is None or _caps(old.max_request_bytes, new.max_request_bytes))
        and shape(old.ports, new.ports)
        and new.direct <= old.direct
        and set(new.allow_credentials) <= set(old.allow_credentials)
        and new.contract_mode in (old.contract_mode, "strict")
        and new.include_subdomains <= old.include_subdomains
    )


def _caps(old: int, new: int | None) -> bool:
    return new is not None and new <= old


def _towards(*names: str | bool | None) -> Tighter:
    """A choice may only move towards the first, the tightest, of these."""
    return lambda old, new, policy: names.index(new) <= names.index(old)


TIGHTER: Mapping[str, Tighter] = {
    "allow": _reads_less,  # a path that was writable may become readable only
    "allow_write": _writes_less,
    "deny": _hides_more,
    "mask": _hides_more,
    "workdir": _towards("none", "read", "cow", "write"),
    "unguarded": _shrinks,
    "base": _towards(False, True),
    "state": _towards("ephemeral", "scratch"),
    "env": _shrinks,
    "env_passthrough": _shrinks,
    "allow_execve": _executes_less,
    "max_pids": _falls,
    "run_as": _towards("nobody", "self", "root"),
    "memory_mb": _falls,
    "cpu_percent": _falls,
    "cpu_shares": _weighs_less,
    "walltime_sec": _falls,
    "grace_sec": _falls,
    "address_space_gb": _falls_from_lifted,
    "open_files": _falls,
    "file_size_gb": _falls_from_lifted,
    "write_mb": _falls,
    "tmp_mb": _falls,
    "output_mb": _falls,
    "limits_required": _towards(True, False),
    "seccomp": _towards("seed-187", "baseline", "default", "relaxed"),
    "seccomp_mode": _towards("allow-list", "deny-list"),
    "allow_syscalls": _shrinks,
    "deny_syscalls": _grows,
    "syscall_lists": _lists_less,
    "notifier": _towards(True, None, False),
    "scm_rights": _towards("deny", "allow"),
    "egress": _towards("none", "proxy-only", "direct"),
    "allow_ips": _dials_less,
    "unsafe_direct": _towards(False, True),
    "contract_mode": _towards("strict", "relaxed"),
    "ports": _shrinks,
    "allow_host_loopback": _towards(False, True),
    "host_loopback_ports": _serves_less,
    "unix_sockets": _writes_less,
    "network_backend": _towards("doors", "routed"),
    "bridge": _same,
    "dns_ipv6": _towards("nxdomain", "nodata", "resolve"),
    "dlp_enabled": _towards(True, False),
    "dlp_canary_tokens": _unless_asked(True),
    "dlp_max_decode_depth": _rises,
    "dlp_decompress": _towards(True, False),
    "dlp_dns_entropy_threshold": _falls,
    "dlp_session_entropy_budget": _falls,
    "dlp_extra_scopes": _sends_to_fewer,
    "proxy_buffered_bytes": _rises,  # a body that is scanned as a whole is looked at more closely
    "proxy_streamed_bytes": _falls,
    "proxy_timeout_ms": _falls,
    "proxy_scheme": _same,
    "hosts": _reaches_less,
    "strict": _towards(True, False),
    "monitor": _towards(False, True),
    "isolation": _towards("full", "landlock"),
    "caged": _towards(True, False),
}


def narrow(policy: Policy, tighter: Mapping[str, Any]) -> Policy:
    """`policy` with these fields; PolicyError names the first of them that would grant more than before."""
    narrowed = replace(policy, **tighter)
    for field, described in options():
        old, new = getattr(policy, field.name), getattr(narrowed, field.name)
        if old != new and not TIGHTER[field.name](old, new, policy):
            message = f"may only be tightened; {shown(new)} is looser than {shown(old)}"
            raise Refused(message, "make a new Policy to grant more").error(described.toml_key)
    return narrowed
