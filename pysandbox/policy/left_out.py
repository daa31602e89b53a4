"""What shipped recipes ask of the network that is not held where they are used: left out, and named in the policy.

A shipped recipe says which requests a host may be sent, which credentials, or that all that is sent is scanned; and it
is for any cage. Requests are held in full isolation, behind doors. A recipe that wants a scan, by its word or because
it says which credentials may go where, has it: then all is scanned that the cage sends. It has none where something
else that the cage was given could not be scanned (an address, a published port), nor beside a host by a pattern; and no
host by a pattern is opened, for below it a cage makes up the names that it asks for, up to a budget (`gate.dns.asked`).

To open a host to anything would be more than the recipe says, and to refuse it all would take away what it grants
besides. So a host of which it says what is not held is left out (`network.left_out` names it, and `compile.absent`
tells whoever starts a command); where a recipe wants to scan by its word and cannot, every host of a shipped recipe is.
What a user writes, in a flag or a file of his own, is never left out: it is held, opens a whole host, or is refused by
name. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pysandbox.policy.declared.inspection import InspectionOptions
from pysandbox.policy.host import HostRule
from pysandbox.shapes import Any, NamedTuple, fields

OF_REQUESTS = ("methods", "content_types", "paths", "max_request_bytes", "contract_mode")
OF_CREDENTIALS = ("allow_credentials",)
CONTRACT = (*OF_REQUESTS, *OF_CREDENTIALS)
INSPECTION = frozenset(field.name for field in fields(InspectionOptions))
SCANNING = "network.dlp.enabled"  # stands in the list for the scan that a recipe wants


# Words of a layer beside which not all that a cage sends could be scanned: `compile.absent` refuses both together.
UNSCANNED = ("allow_ips", "allow_host_loopback", "host_loopback_ports", "ports")
OF_THE_CAGE = ("isolation", "network_backend", "egress")


class Holding(NamedTuple):
    """What is held of the hosts of shipped recipes in one policy. `scan_wanted`: one of these recipes says that all is
    scanned; `scanned`: it is."""

    requests: bool
    scanned: bool
    scan_wanted: bool

    @classmethod
    def of(cls, said: Iterable[Mapping[str, Any]], ours: Iterable[Mapping[str, Any]]) -> Holding:
        """`said` by all layers, left to right; `ours` are the recipes that ship."""
        layers, shipped = list(said), list(ours)
        last = {name: given[name] for given in layers for name in OF_THE_CAGE if name in given}
        requests = looks_at_requests(**last)
        wanted = any(given.get("dlp_enabled") for given in shipped)
        asked = any(given.get("dlp_enabled") for given in layers if given not in shipped)
        if last.get("egress") != "none":
            asked = asked or any(given.get("strict") for given in layers)  # which implies it
        names = wanted or any(rule.allow_credentials for given in shipped for rule in given.get("hosts", ()))
        free = last.get("egress") != "none" and not any(is_in_the_way(given, given in shipped) for given in layers)
        return cls(requests, requests and (asked or (names and free)), wanted)

    def holds(self, rule: HostRule) -> bool:
        if self.scan_wanted and not self.scanned:
            return False
        if self.scanned and not is_scannable(rule):
            return False
        given = rule.given
        if any(name in given for name in OF_CREDENTIALS):
            return self.scanned
        return self.requests or not has_contract(rule)


def is_in_the_way(given: Mapping[str, Any], is_shipped: bool) -> bool:
    """Whether a layer opens something that could not be scanned. Hosts of shipped recipes are left out instead."""
    hosts: tuple[HostRule, ...] = () if is_shipped else given.get("hosts", ())
    return any(given.get(name) for name in UNSCANNED) or not all(map(is_scannable, hosts))


def is_scannable(rule: HostRule) -> bool:
    """Whether all that is sent to such a host can be scanned, and nothing said in the names that are asked for."""
    by_name = "*" not in rule.domain and not rule.include_subdomains
    return by_name and not (rule.direct or rule.tls == "pass")


def looks_at_requests(isolation: str = "full", network_backend: str = "doors", egress: str = "proxy-only") -> bool:
    """Whether somebody could, in such a cage."""
    return isolation == "full" and network_backend == "doors" and egress != "direct"


def held(given: Mapping[str, Any], holding: Holding) -> Mapping[str, Any]:
    """What a shipped recipe gives, without what is not held, and with the scan that what is held takes."""
    hosts: tuple[HostRule, ...] = given.get("hosts", ())
    kept = tuple(filter(holding.holds, hosts))
    left = [rule.domain for rule in hosts if rule not in kept]
    wants = given.get("dlp_enabled") or any(rule.allow_credentials for rule in hosts)
    if given.get("dlp_enabled") and not holding.scanned:
        left.append(SCANNING)
    scan = {"dlp_enabled": True} if wants and holding.scanned else {}
    if not (left or scan):
        return given
    rest = {name: value for name, value in given.items() if name != "hosts"}
    if not holding.scanned:
        rest = {name: value for name, value in rest.items() if name not in INSPECTION}
    return {**rest, **scan, **({"hosts": kept} if kept else {}), **({"left_out": tuple(left)} if left else {})}


def has_contract(rule: HostRule) -> bool:
    """Whether the block says anything of requests that only looking at them could hold."""
    given: Mapping[str, Any] = rule.given
    return any(name in given for name in CONTRACT)
