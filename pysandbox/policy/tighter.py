"""What "less" means for a value of a policy: the rules that declarations name, and `Policy.narrow` asks.

Each is called with the old value, the new one and the old policy, and says whether the new one grants no more.

Grants shrink by exact path, not by prefix: `/proj/src` lies below `/proj` by its letters, yet as a symlink it may lead
anywhere, and nothing here may look. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.policy.host import HostRule, is_relaxed
from pysandbox.policy.option import Grant, Tighter
from pysandbox.shapes import Any

_EQUAL_CPU_WEIGHT = 100  # cpu.weight of a cgroup that nobody set (cgroup-v2.rst)
USUAL_PROCESSES = 4096  # of a cage whose policy says nothing of them (RLIMIT_NPROC)


def _paths(grants: tuple[Grant, ...]) -> set[str]:
    return {grant.path for grant in grants}


def reads_less(old: tuple[Grant, ...], new: tuple[Grant, ...], policy: Any) -> bool:
    return _paths(new) <= _paths(old) | _paths(policy.allow_write) | _paths(policy.cow)


def keeps_apart(old: tuple[Grant, ...], new: tuple[Grant, ...], policy: Any) -> bool:
    """What may be written may be written to a layer apart."""
    return _paths(new) <= _paths(old) | _paths(policy.allow_write)


def writes_less(old: tuple[Grant, ...], new: tuple[Grant, ...], policy: Any) -> bool:
    return _paths(new) <= _paths(old)


def hides_more(old: tuple[Grant, ...], new: tuple[Grant, ...], policy: Any) -> bool:
    kept = {grant.path: grant.optional for grant in new}
    return all(grant.path in kept and (grant.optional or not kept[grant.path]) for grant in old)


def shrinks(old: tuple[Any, ...], new: tuple[Any, ...], policy: Any) -> bool:
    return set(new) <= set(old)


def grows(old: tuple[Any, ...], new: tuple[Any, ...], policy: Any) -> bool:
    return set(new) >= set(old)


def executes_less(old: tuple[str, ...], new: tuple[str, ...], policy: Any) -> bool:
    return not old or (bool(new) and set(new) <= set(old))  # an empty list allows every executable


def leaves_less(old: str, new: str, policy: Any) -> bool:
    """An egress: "direct" that addresses hold to themselves reaches none of the hosts, and not the host's loopback,
    which the same policy would reach by "proxy-only"."""
    return new in (old, "none") or (old == "direct" and new == "proxy-only" and not policy.allow_ips)


def dials_less(old: tuple[str, ...], new: tuple[str, ...], policy: Any) -> bool:
    """Beside egress = "direct" an empty list allows every address, else none."""
    return executes_less(old, new, policy) if policy.egress == "direct" else set(new) <= set(old)


def serves_less(old: tuple[int, ...], new: tuple[int, ...], policy: Any) -> bool:
    """A list of ports beside `allow_host_loopback` holds it to these; without it, it opens them."""
    if policy.allow_host_loopback:
        return not old or (bool(new) and set(new) <= set(old))
    return set(new) <= set(old)


def falls(old: float | None, new: float | None, policy: Any) -> bool:
    return old is None or (new is not None and new <= old)


def falls_from_lifted(old: int, new: int, policy: Any) -> bool:
    return old == 0 or 0 < new <= old  # 0 lifts the limit


def fewer_processes(old: int | None, new: int | None, policy: Any) -> bool:
    """None is no limit of the whole cage's, beside one of each user that every cage has."""
    return new is not None and new <= (old or USUAL_PROCESSES)


def no_more_weight(old: int | None, new: int | None, policy: Any) -> bool:
    return (new or _EQUAL_CPU_WEIGHT) <= (old or _EQUAL_CPU_WEIGHT)


def rises(old: int, new: int, policy: Any) -> bool:
    return new >= old


def same(old: Any, new: Any, policy: Any) -> bool:
    return bool(old == new)


def says_nothing(old: Any, new: Any, policy: Any) -> bool:
    """An option that only tells something grants nothing, whatever it holds."""
    return True


def unless_asked(asked: bool) -> Tighter:
    """Three values: the tighter of the two that can be asked for, or what was there."""
    return lambda old, new, policy: new == old or new is asked


def lists_less(old: Any, new: Any, policy: Any) -> bool:
    """Against a profile whose lists are not known here nothing counts as less."""
    before, after = dict(old), dict(new)
    allowed, refused = set(after.get("allow", ())), set(after.get("deny", ()))
    return (
        bool(old) and bool(new) and allowed <= set(before.get("allow", ())) and refused >= set(before.get("deny", ()))
    )


def sends_to_fewer(old: Any, new: Any, policy: Any) -> bool:
    before = dict(old)
    return all(set(domains) <= set(before.get(name, ())) for name, domains in new)


def reaches_less(old: tuple[HostRule, ...], new: tuple[HostRule, ...], policy: Any) -> bool:
    before, after = ({rule.domain: rule for rule in rules} for rules in (old, new))
    gone = {pattern for _, pattern in _said(before) - _said(after)}
    if gone and is_relaxed(policy):  # reached anyway, and held no more
        return False
    return all(
        rule.domain in before
        and _requires_more(before[rule.domain], rule)
        and not any(_holds_for(rule, name) for name in gone)
        for rule in new
    )


def _holds_for(rule: HostRule, domain: str) -> bool:
    """Whether a block also decides for a name, or for one below it, whose own block was taken away."""
    below = _below(rule.domain)
    if rule.include_subdomains or rule.domain == below:
        return domain.endswith(below.removeprefix("**"))
    return rule.domain.startswith("*.") and not domain.startswith("**.") and domain.endswith(rule.domain[1:])


def _said(rules: Mapping[str, HostRule]) -> set[tuple[str, str]]:
    """Each block, with each pattern that it speaks of."""
    below = {(domain, _below(domain)) for domain, rule in rules.items() if rule.include_subdomains}
    return {(domain, domain) for domain in rules} | below


def _below(domain: str) -> str:
    """The pattern of every name that `include_subdomains` adds."""
    return f"**.{domain.removeprefix('**.').removeprefix('*.')}"


def _requires_more(old: HostRule, new: HostRule) -> bool:
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
        and new.is_inspected >= old.is_inspected  # relaxed looks at requests, strict at those of which a block speaks
        and new.include_subdomains <= old.include_subdomains
        and new.websocket <= old.websocket
        and set(new.private_addresses) <= set(old.private_addresses)  # a narrower one may be this host's own address
        and _TLS.index(new.tls) <= _TLS.index(old.tls)
    )


_TLS = ("inspect", None, "auto", "pass")


def _caps(old: int, new: int | None) -> bool:
    return new is not None and new <= old


def towards(*names: str | bool | None) -> Tighter:
    """A choice may only move towards the first, the tightest, of these."""
    return lambda old, new, policy: names.index(new) <= names.index(old)
