"""The network rule, asked of each who decides by it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple, TypeVar

from pysandbox._native import ffi, lib

from pysandbox.compile.plan import NetPlan
from pysandbox.gate.rules import GateRules, sixteen
from pysandbox.handlers.call import Call
from pysandbox.handlers.network import reach_of
from pysandbox.handlers.network_rules import NetworkRules
from pysandbox.policy.endpoint import MAPPED, PROTOCOLS, Endpoint, parse_list
from pysandbox.policy.names import IPAddress
from pysandbox.supervise import wire

T = TypeVar("T")
GRANT = int(lib.PSB_REACH_GRANT)
NUMBERS = {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP}


class Asked(NamedTuple):
    """`own`: the address is this host's; `narrowed`: the lines that the cage was tightened to, None for not at all."""

    address: IPAddress
    port: int
    protocol: str = "tcp"
    own: bool = False
    narrowed: tuple[str, ...] | None = None


def sockaddr(address: IPAddress, port: int, *, mapped: bool = False, scope: int = 0) -> bytes:
    """As a program of the cage writes it; `mapped`: an IPv4 address for a socket of IPv6."""
    if isinstance(address, IPv4Address) and not mapped:
        return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s", port, address.packed) + bytes(8)
    six = address.packed if isinstance(address, IPv6Address) else MAPPED + address.packed
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI16s", port, 0, six) + struct.pack("=I", scope)


def in_c_half(
    rules: NetworkRules, raw: bytes, protocol: int, *, own: bool | int = False, host_netns: bool = False,
    real: bytes | None = None,
) -> int:  # fmt: skip
    encoded = wire.encode_rules(
        {}, rules, init_pid=1, deadline=1, no_external_reach=False, abstract=False, refuse_control=False, leads_out=True
    )
    kept = [ffi.from_buffer("uint8_t[]", each) for each in (raw, real or b"")]
    asked = ffi.new("struct psb_asked *", {"address": kept[0], "size": len(raw), "protocol": protocol})
    asked.own, asked.host_netns, asked.real = own, host_netns, kept[1] if real is not None else ffi.NULL
    return int(lib.psb_reach_of(encoded.struct, asked))


# ---- every evaluator of a list, as one question: does the list grant this address in the host's network? -------------


def _narrowed(rules: T, asked: Asked, narrow: Callable[[T, tuple[Endpoint, ...]], T]) -> T:
    return rules if asked.narrowed is None else narrow(rules, parse_list(asked.narrowed))


def _network(lines: tuple[str, ...], asked: Asked) -> NetworkRules:
    return _narrowed(NetworkRules.of_list(parse_list(lines), named=()), asked, NetworkRules.narrowed)


def by_c(lines: tuple[str, ...], asked: Asked) -> bool:
    raw = sockaddr(asked.address, asked.port)
    return in_c_half(_network(lines, asked), raw, NUMBERS[asked.protocol], own=asked.own) == GRANT


def by_c_mapped(lines: tuple[str, ...], asked: Asked) -> bool:
    """By a socket of IPv6, and with a scope."""
    raw = sockaddr(asked.address, asked.port, mapped=True, scope=7)
    return in_c_half(_network(lines, asked), raw, NUMBERS[asked.protocol], own=asked.own) == GRANT


def by_rule(lines: tuple[str, ...], asked: Asked) -> bool:
    packed, bit = sixteen(asked.address), PROTOCOLS[asked.protocol]
    return _network(lines, asked).reach(packed, asked.port, bit, own=asked.own) == "grant"


def by_handler(lines: tuple[str, ...], asked: Asked) -> bool:
    """It cannot tell whose an address is: the C half asks again (`by_c`)."""
    raw = sockaddr(asked.address, asked.port)
    call = Call("CONNECT", "connect", 1, protocol=NUMBERS[asked.protocol], address=raw)
    return reach_of(call, _network(lines, asked)) == "grant" and (not asked.own or by_c(lines, asked))


def by_gatekeeper(lines: tuple[str, ...], asked: Asked) -> bool:
    net = NetPlan((), b"", b"nft", (), parse_list(lines), (), None, "", "nodata")
    rules = _narrowed(GateRules.of(net), asked, GateRules.tightened)
    return bool(rules.address(asked.address, asked.port, asked.protocol, own=asked.own).allowed)


EVALUATORS = {each.__name__: each for each in (by_c, by_c_mapped, by_rule, by_handler, by_gatekeeper)}


def by_name(lines: tuple[str, ...], asked: Asked) -> bool:
    """What the gatekeeper says of an address to which an allowed name has led."""
    net = NetPlan((), b"", b"nft", (), parse_list(lines), (), None, "", "nodata")
    rules = _narrowed(GateRules.of(net), asked, GateRules.tightened)
    return bool(rules.resolved("a.example", asked.address, asked.port, asked.protocol, own=asked.own).allowed)
