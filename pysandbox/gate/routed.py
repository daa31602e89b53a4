"""The routed back end: an interface for a cage, in the network of a host process that is root there.

    bridge kaged-br0 ── kaged-vh-N ══ kaged-vc-N    10.143.<cage>.<endpoint>/30, N = 64 * cage + endpoint / 4
                        (in the host)   (in the cage)

`route` gives a waiting cage its pair, `Attachment.end` takes it away; the names are document 000's, shortened to the
15 bytes of an interface's name. The rules are `compile.routed`'s, and come before what they hold: until a pair is up,
nothing passes it. What is made inside the cage is made by the short-lived child that makes its doors.

The table of a cage (netdev, named like its interface) is made first and removed last. It is the lock, since the kernel
refuses a second one of that name, so two host processes never hold the same addresses; and it says whose it is, so what
a killed process left is known and removed when the next one starts. The only importer of pyroute2.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pysandbox.compile import routed as rules
from pysandbox.errors import SandboxNetworkError, UnsupportedError
from pysandbox.events import NOTE, Event, Sink, ignore
from pysandbox.gate.transaction import refused, send
from pysandbox.launch import netns
from pysandbox.launch.owner import Owner, this_process
from pysandbox.live.services import CageService
from pysandbox.netfilter import nftables as nft
from pysandbox.policy.endpoint import TCP, UDP
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan, Plan
    from pysandbox.live.init import CageInit

SLOTS = 1 << 14  # of /30 in 10.143.0.0/16
PREFIX = 30
MARK = "02:6b:61:67:65:64"  # the address of a bridge of ours, from its birth; it also keeps it from changing with ports
OUTSIDE, INSIDE = "kaged-vh-", "kaged-vc-"
ECHO = "/proc/sys/net/ipv4/ping_group_range"
GONE = (errno.ENODEV, errno.ENOENT, errno.EADDRNOTAVAIL)

_NO_IPV6 = {"attrs": [("AF_INET6", {"attrs": [("IFLA_INET6_ADDR_GEN_MODE", 1)]})]}
_ready: set[tuple[str, int]] = set()  # bridges, each with the process that has looked after it
_making = threading.Lock()


class AddressSlot(NamedTuple):
    number: int

    @property
    def device(self) -> str:
        return f"{OUTSIDE}{self.number}"

    @property
    def gateway(self) -> bytes:
        return rules.NETWORK[:2] + struct.pack(">H", self.number << 2 | 1)

    @property
    def cage(self) -> bytes:
        return rules.NETWORK[:2] + struct.pack(">H", self.number << 2 | 2)


class Attachment(CageService):
    """A cage's interface. `address` is the cage's."""

    def __init__(self, slot: AddressSlot, undo: ExitStack) -> None:
        self.slot = slot
        self.address = socket.inet_ntoa(slot.cage)
        self._undo = undo

    @property
    def leaves_files(self) -> bool:
        return True  # the address and the table, which the kernel keeps

    def end(self) -> None:
        """Removes the pair, its address and its rules. Idempotent; raises OSError when one of them stays."""
        self._undo.close()

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: forgets the interface, which belongs to the original."""
        self._undo.pop_all()


def route(live: CageInit, plan: Plan, tell: Sink) -> None:
    """Gives a cage that has not run anything yet its interface. Raises what `attach` does; the cage ends then."""
    try:
        live.services.add(attach(live, plan, tell))
    except BaseException:
        live.close()
        raise


def attach(live: CageInit, plan: Plan, tell: Sink = ignore) -> Attachment:
    """An interface for a cage that waits for its first message. What is made is undone when a later part fails. Not to
    be called from a running event loop.

    Raises SandboxNetworkError, also where this process is not root, and UnsupportedError without pyroute2.
    """
    net = plan.net
    assert net is not None and net.bridge
    with _network() as network, ExitStack() as undo:
        bridge = _bridge(network, net.bridge)
        slot = _take(undo)
        link = _pair(network, live, slot, undo)
        send(rules.ingress(slot.device, slot.device, slot.cage, net.endpoints), slot.device)
        _address(network, bridge, slot, undo)
        network.link("set", index=link["index"], master=bridge, IFLA_AF_SPEC=_NO_IPV6)
        network.brport("set", index=link["index"], isolated=1)  # ports do not hear each other
        network.link("set", index=link["index"], state="up")
        inside = rules.interface(link.get_attr("IFLA_LINK"), slot.cage, slot.gateway, PREFIX)
        netns.sockets_inside(live.pidfd, (), routes=inside)
        _allow_echo(live, plan, net, tell)
        return Attachment(slot, undo.pop_all())


@contextmanager
def _network() -> Iterator[Any]:
    """An rtnetlink socket of the host's network; an error of the kernel is raised with its meaning."""
    try:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError
    except ImportError:
        message = 'backend = "routed" needs the package pyroute2'
        raise UnsupportedError(message, feature="routed", fix="pip install 'pysandbox[routed]'") from None
    try:
        with IPRoute() as network:
            yield network
    except NetlinkError as error:
        raise refused(error.code) from error


# ---- the bridge ---------------------------------------------------------------------------------------------------


def _bridge(network: Any, name: str) -> int:
    """The index of the bridge, with its table; made once, and found again by every later process."""
    with _making:
        if (name, os.getpid()) not in _ready or not network.link_lookup(ifname=name):
            _remove_leftovers(network, name)
            _make_bridge(network, name)
            send(rules.around(name), name)
            _ready.add((name, os.getpid()))
        return int(network.link_lookup(ifname=name)[0])


def _make_bridge(network: Any, name: str) -> None:
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        network.link("add", ifname=name, kind="bridge", address=MARK)
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise
    link = network.link("get", ifname=name)[0]
    if link.get_attr("IFLA_ADDRESS") != MARK or link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") != "bridge":
        hint = "there is an interface of this name that is not ours: remove it, or name another one (network.bridge)"
        raise SandboxNetworkError("network", errno.EEXIST, name, hint)
    _check_room(network, link["index"])
    network.link("set", index=link["index"], IFLA_AF_SPEC=_NO_IPV6)
    network.link("set", index=link["index"], state="up")


def _check_room(network: Any, bridge: int) -> None:
    """Raises where the host has a network of these addresses already: the kernel could not tell the two apart."""
    for each in network.get_addr(family=socket.AF_INET):
        taken = each.get_attr("IFA_ADDRESS")
        if socket.inet_aton(taken)[:2] == rules.NETWORK[:2] and each["index"] != bridge:
            hint = "10.143.0.0/16 is what cages get, and an interface of this host has an address in it"
            raise SandboxNetworkError("network", errno.EADDRINUSE, taken, hint)


# ---- one cage -----------------------------------------------------------------------------------------------------


def _take(undo: ExitStack) -> AddressSlot:
    """Takes a free slot at random: packets to the last cage of a slot may still be on their way."""
    first, owner = secrets.randbelow(SLOTS), str(this_process())
    for offset in range(SLOTS):
        slot = AddressSlot((first + offset) % SLOTS)
        locked = nft.batch(nft.NETDEV, [nft.new_table(slot.device, owner, only=True)])
        if send(locked, slot.device, unless=errno.EEXIST):
            undo.callback(_untable, slot.device)
            return slot
    raise SandboxNetworkError("network", errno.ENOSPC, "10.143.0.0/16", f"there are {SLOTS} cages on this host")


def _untable(name: str) -> None:
    send(nft.batch(nft.NETDEV, [nft.delete_table(name)]), name, unless=errno.ENOENT)


def _pair(network: Any, live: CageInit, slot: AddressSlot, undo: ExitStack) -> Any:
    """Makes the pair. The cage's end is made in the cage's namespace, so that it never is one of the host's."""
    namespace = os.open(f"/proc/{live.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if live.is_dead() or os.path.samestat(os.fstat(namespace), os.stat("/proc/self/ns/net")):
            raise SandboxNetworkError("network", errno.ESRCH, live.id, "the cage ended before it had its network")
        peer = {"ifname": f"{INSIDE}{slot.number}", "net_ns_fd": namespace}
        undo.callback(_unlink, slot.device)
        network.link("add", ifname=slot.device, kind="veth", peer=peer)
    finally:
        os.close(namespace)
    return network.link("get", ifname=slot.device)[0]


def _unlink(name: str) -> None:
    with _network() as network, _unless_gone():
        network.link("del", ifname=name)


def _address(network: Any, bridge: int, slot: AddressSlot, undo: ExitStack) -> None:
    address = {"index": bridge, "address": socket.inet_ntoa(slot.gateway), "prefixlen": PREFIX}
    network.addr("add", **address)
    undo.callback(_unaddress, address)


def _unaddress(address: dict[str, Any]) -> None:
    with _network() as network, _unless_gone():
        network.addr("del", **address)


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Ignores what is gone already: the kernel removes a pair with its namespace, and addresses with the bridge."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except NetlinkError as error:
        if error.code not in GONE:
            raise


def _allow_echo(live: CageInit, plan: Plan, net: NetPlan, tell: Sink) -> None:
    """Allows ping(8) without a capability, for the cage's only group. Where that fails, the rest still works."""
    if not any(_is_whole(each) for each in net.endpoints):
        return
    group = os.getegid() if plan.inside_gid < 0 else plan.inside_gid
    try:
        netns.setting_inside(live.pidfd, ECHO, f"{group} {group}")
    except OSError as error:
        tell(Event(NOTE.name, {"key": "network.allow_ips", "reason": f"no ICMP echo: {error}"}))


def _is_whole(endpoint: Any) -> bool:
    return (endpoint.first_port, endpoint.last_port, endpoint.protocols) == (*rules.ANY_PORT, TCP | UDP)


# ---- what killed processes have left ------------------------------------------------------------------------------


def _remove_leftovers(network: Any, bridge: str) -> None:
    """Removes the addresses and tables of dead host processes; their cages, and with them the pairs, are gone. What a
    process in another PID namespace made is left alone, because it may still live."""
    for slot, handle in list(_orphans()):
        with ExitStack() as undo:
            if not _take_over(slot, handle, undo):
                continue  # by another process, which does the rest
            for index in network.link_lookup(ifname=bridge):
                address = socket.inet_ntoa(slot.gateway)
                undo.callback(_unaddress, {"index": index, "address": address, "prefixlen": PREFIX})
            undo.callback(_unlink, slot.device)


def _orphans() -> Iterator[tuple[AddressSlot, int]]:
    """The slots of dead processes, each with the handle of its table, which is never given out again."""
    from pyroute2.nftables.main import NFTables

    with NFTables(nfgen_family=nft.NETDEV) as tables:
        for table in tables.get_tables():
            name, told = table.get_attr("NFTA_TABLE_NAME"), table.get_attr("NFTA_TABLE_USERDATA")
            number = name.removeprefix(OUTSIDE)
            owner = Owner.parse(told or "")
            if name.startswith(OUTSIDE) and number.isdecimal() and int(number) < SLOTS and owner and owner.gone:
                yield AddressSlot(int(number)), table.get_attr("NFTA_TABLE_HANDLE")


def _take_over(slot: AddressSlot, handle: int, undo: ExitStack) -> bool:
    """Takes over a table in one transaction that lets nothing pass meanwhile. Whether it was still there."""
    mine = [nft.delete_table(slot.device, handle), nft.new_table(slot.device, str(this_process()), only=True)]
    for closed in ([rules.closed(slot.device, slot.device)], []):  # the second where the pair is gone already
        if send(nft.batch(nft.NETDEV, [*mine, *closed]), slot.device, unless=errno.ENOENT):
            undo.callback(_untable, slot.device)
            return True
    return False
