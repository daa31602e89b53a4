"""What the gatekeeper holds a host against: the grants of one cage as they are now, which only ever get narrower. Pure.

Three kinds of grant, and none speaks for another: names and patterns permit names, `allow_ips` permits addresses, and
the alias of the host's loopback permits itself. An address is never permitted by a name, nor a name by a range. What an
allowed name leads to is held against `special`: an address there is reached only where it is listed, for all or, in a
private network, for the grant of this name that decides at this port. An empty list allows nothing.
"""

from __future__ import annotations

from itertools import pairwise

from pysandbox.compile.plan import ANY_MESSAGE, ANY_REQUEST, Contract, HostGrant, NetPlan
from pysandbox.compile.pools import nearest
from pysandbox.handlers import fix
from pysandbox.handlers.network_rules import NetworkRules, holds
from pysandbox.policy.endpoint import MAPPED, PROTOCOLS, Endpoint
from pysandbox.policy.names import HOST_ALIAS, IPAddress, matches, plain
from pysandbox.policy.parent import ParentProxy
from pysandbox.shapes import NamedTuple, dataclass, replace


class Decision(NamedTuple):
    """`rule` is the policy key behind it, `fix` the TOML that would allow it (`handlers.fix`), empty where none does.
    `inspect`: each request is held against a contract."""

    allowed: bool
    rule: str
    fix: str
    direct: bool = False
    inspect: bool = False


@dataclass(frozen=True, slots=True)
class GateRules:
    """`listed`: what the policy says of addresses; `left`: what is left of it since the cage was tightened. A refusal
    names the one that refuses."""

    hosts: tuple[HostGrant, ...]
    listed: NetworkRules
    loopback_ports: tuple[int, ...] | None
    left: NetworkRules
    secrets: tuple[str, ...] = ()  # names and patterns that a secret may be sent to
    parent: ParentProxy | None = None
    scans: bool = False  # so that no address can be listed

    @classmethod
    def of(cls, net: NetPlan) -> GateRules:
        listed = NetworkRules.of_list(net.endpoints)
        held = net.inspection.secrets if net.inspection is not None else ()
        secrets = tuple(host for each in held for host in each.hosts)
        scans = net.inspection is not None and net.inspection.scan is not None
        return cls(net.hosts, listed, net.loopback_ports, listed, secrets, net.parent, scans)

    @property
    def closed(self) -> bool:
        """Nothing is left."""
        return not self.left.named

    def name(self, name: str, port: int | None) -> Decision:
        """Whether a canonical name may be reached at a port; without a port, whether it may be resolved."""
        if self.closed:
            return Decision(False, "policy_fn", "")
        if name == HOST_ALIAS:
            return self._alias(port)
        if self.parent is not None and name == self.parent.host:  # it would be asked for anything
            return Decision(False, "proxy.parent", "")
        named = nearest(self.hosts, name)
        found = _at(named, port)
        if found:
            looked_at = bool(self.secrets) or any(each.contract is not None for each in found)
            inspect = looked_at and self.contract(name, port or 0) is not None
            return Decision(True, "host", "", direct=not self._relays(name, port), inspect=inspect)
        if named:
            return Decision(False, "host.ports", fix.of_host(name, port))
        return Decision(False, "host", fix.of_host(name) if name != "localhost" else "")

    def contract(self, host: str, port: int) -> Contract | None:
        """What requests to a canonical name are held to: of its most specific grant, or nothing; where a secret is for
        it, they are looked at in any case."""
        held = _at(nearest(self.hosts, host), port or None)
        contract = next((each.contract for each in held if each.contract is not None), None)
        if contract is None and any(matches(each, host) for each in self.secrets):
            return ANY_MESSAGE if any(each.websocket for each in held) else ANY_REQUEST
        return contract

    def may_name_at_address(self, name: str, port: int) -> bool:
        """Whether a listed address may be spoken to under this name: not under one whose requests are looked at."""
        decision = self.name(name, port)
        return decision.allowed and not decision.inspect

    def address(self, address: IPAddress, port: int, protocol: str, *, own: bool) -> Decision:
        """Whether an address may be reached that was asked for as such. `own`: it is this host's."""
        asked = sixteen(address), port, PROTOCOLS[protocol]
        if self._is_parent(address, port):
            return Decision(False, "proxy.parent", "")
        if not self.listed.grants_address(*asked, own=own):
            return Decision(False, "network.allow_ips", _allow_ips(address, port, protocol))
        return _left(self.left.grants_address(*asked, own=own))

    def resolved(self, name: str, address: IPAddress, port: int, protocol: str = "tcp", *, own: bool) -> Decision:
        """Whether an address may be reached that an allowed name was resolved to; the alias leads to the loopback."""
        asked = sixteen(address), port, PROTOCOLS[protocol]
        if name == HOST_ALIAS:
            return _left(holds(self.left.named, *asked))
        if self._is_parent(address, port):
            return Decision(False, "proxy.parent", "")
        deciding = _at(nearest(self.hosts, name), port)
        private = tuple(line for each in deciding for line in each.private)
        if not self.listed.grants_resolved(*asked, own=own, private=private):
            return self._refuse_resolved(name, deciding, address, (port, protocol), own=own)
        return _left(self.left.grants_resolved(*asked, own=own, private=private))

    def _refuse_resolved(
        self, name: str, deciding: list[HostGrant], address: IPAddress, at: tuple[int, str], *, own: bool
    ) -> Decision:  # fmt: skip
        """What is least is offered: an address for this name alone, where a name can have it."""
        from pysandbox.gate.contract import private_fix
        from pysandbox.policy.private_networks import is_private

        if deciding and at[1] == "tcp" and is_private(sixteen(address)):
            patch = private_fix(name, deciding, str(plain(address)), scans=self.scans)
            return Decision(False, _of_private(plain(address), own), patch)
        if self.scans and not address.is_loopback:
            return Decision(False, _of_scanned(address), "")
        rule = _of_loopback(at[0]) if address.is_loopback else "network.allow_ips"
        return Decision(False, rule, _allow_ips(address, *at))

    def by_parent(self, name: str) -> bool:
        """Whether a canonical name is asked of the parent proxy: not one whose packets find their way themselves."""
        if self.parent is None or name == HOST_ALIAS or any(matches(each, name) for each in self.parent.without):
            return False
        return not any(each.direct for each in nearest(self.hosts, name))

    def through_parent(self) -> Decision:
        """In the place of `resolved`: nobody here knows the address. So since the cage was told to reach only some
        addresses, nothing is left."""
        return _left(self.left is self.listed)

    def direct_ports(self, name: str) -> tuple[tuple[int, int], ...]:
        """Ranges of ports at which every grant of a name does without a relay."""
        named = [each for each in self.hosts if matches(each.pattern, name)]
        relayed = {port for each in named if not each.direct for port in each.ports}
        if self.closed or any(not each.direct and not each.ports for each in named):
            return ()
        deciding = nearest(self.hosts, name)
        if all(each.ports for each in deciding):
            return tuple((port, port) for port in sorted({port for each in deciding for port in each.ports} - relayed))
        edges = [0, *sorted(relayed), 65536]
        return tuple((low + 1, high - 1) for low, high in pairwise(edges) if low + 1 < high)

    def _relays(self, name: str, port: int | None) -> bool:
        """Whether any grant of a name wants it relayed at this port, also one that does not decide."""
        named = (each for each in self.hosts if matches(each.pattern, name))
        return any(not each.direct and (port is None or not each.ports or port in each.ports) for each in named)

    def tightened(self, endpoints: tuple[Endpoint, ...]) -> GateRules:
        """Only these addresses, out of what was allowed before."""
        return replace(self, left=self.left.narrowed(endpoints))

    def _is_parent(self, address: IPAddress, port: int) -> bool:
        return self.parent is not None and (str(address), port) == (self.parent.host, self.parent.port)

    def _alias(self, port: int | None) -> Decision:
        ports = self.loopback_ports
        if ports is None:
            return Decision(False, "network.allow_host_loopback", fix.text(allow_host_loopback=True))
        if port is not None and ports and port not in ports:
            return Decision(False, "network.host_loopback_ports", fix.text(host_loopback_ports=(port,)))
        return Decision(True, "network.allow_host_loopback", "")


def _at(grants: list[HostGrant], port: int | None) -> list[HostGrant]:
    """The grants that hold at a port; all of them without one."""
    return [each for each in grants if port is None or not each.ports or port in each.ports]


def sixteen(address: IPAddress) -> bytes:
    """An address as endpoints keep it."""
    return address.packed if address.version == 6 else MAPPED + address.packed


def _of_loopback(port: int) -> str:
    """No list and no name leads there from a cage, which has a loopback of its own; so there is no fix to apply."""
    return (f"network.host_loopback_ports: the name leads to the host's loopback, which a sandbox reaches as "
            f"{HOST_ALIAS}:{port} alone, with --host-loopback-port {port}")  # fmt: skip


def _of_private(address: IPAddress, own: bool) -> str:
    whose = "this host's own, which its block does not list by itself" if own else "which its block does not list"
    return f"host.private_addresses: the name leads to {address}, an address of a private network, {whose}"


def _of_scanned(address: IPAddress) -> str:
    """Where what is sent is scanned no list of addresses is taken, since what is sent to them is not."""
    return (f"network.dlp.enabled: the name leads to {address}, which is an address of this host or of its own "
            "networks, and a sandbox whose requests are scanned reaches none of these")  # fmt: skip


def _left(allowed: bool) -> Decision:
    return Decision(True, "network.allow_ips", "") if allowed else Decision(False, "policy_fn", "")


def _allow_ips(address: IPAddress, port: int, protocol: str) -> str:
    return fix.of_address(sixteen(address), port, protocol, own_network=True)
