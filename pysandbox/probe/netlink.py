"""The netlink messages that turn a cage's network namespace into one with doors, as bytes. START HERE: the tables.

    ROUTES    every IPv4 address is local to the cage: nothing it sends can leave, all of it can be answered
    REDIRECT  what is sent out of 127.0.0.0/8 arrives at a door instead: one batch of nf_tables messages

The probe tries the very bytes that a cage will get, which is why they live here and not in `compile`. Pure; the
numbers are those of linux/netlink.h, rtnetlink.h, netfilter/nfnetlink.h and nf_tables.h. Headers are in native byte
order, what an attribute of nf_tables holds is big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

DOORS = "198.18.0.1"  # RFC 2544: addresses that no real host has
DNS_PORT, TCP_PORT = 53, 3129

REQUEST, ACK, CREATE, APPEND, EXCL = 0x1, 0x4, 0x400, 0x800, 0x200  # NLM_F_*
NESTED = 0x8000  # NLA_F_NESTED

AF_UNSPEC, AF_INET = 0, 2
TCP, UDP = 6, 17  # IPPROTO_*

# ---- rtnetlink ------------------------------------------------------------------------------------------------

RTM_NEWROUTE, RTA_OIF = 24, 4
TABLE_LOCAL, PROTOCOL_BOOT, SCOPE_HOST, TYPE_LOCAL = 255, 3, 254, 2
LOOPBACK_INDEX = 1  # of lo, in every network namespace


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body


# ip route add local 0.0.0.0/0 dev lo table local
ROUTES = _message(
    RTM_NEWROUTE, REQUEST | ACK | CREATE | EXCL, 1,
    struct.pack("=BBBBBBBBI", AF_INET, 0, 0, 0, TABLE_LOCAL, PROTOCOL_BOOT, SCOPE_HOST, TYPE_LOCAL, 0)
    + _attribute(RTA_OIF, struct.pack("=I", LOOPBACK_INDEX)),
)  # fmt: skip

# ---- nf_tables: attributes and expressions ---------------------------------------------------------------------

BATCH_BEGIN, BATCH_END, NFTABLES = 16, 17, 10
NEWTABLE, NEWCHAIN, NEWRULE = 0, 3, 6
TABLE_NAME, CHAIN_NAME = b"pysandbox", b"output"
HOOK_OUTPUT, PRIORITY_DSTNAT = 3, -100
VERDICT, REG_1, REG_2 = 0, 1, 2  # NFT_REG_*
EQUAL = 0  # NFT_CMP_EQ
NETWORK_HEADER, TRANSPORT_HEADER = 1, 2  # NFT_PAYLOAD_*
META_L4PROTO = 16
NAT_DNAT, RANGE_PROTO_SPECIFIED = 1, 2
NFT_RETURN = -5

DESTINATION = 16  # where an IPv4 header has it
DESTINATION_PORT = 2  # where a TCP or UDP header has it


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack(">i", value))


def _nest(kind: int, *attributes: bytes) -> bytes:
    return _attribute(kind | NESTED, b"".join(attributes))


def _text(kind: int, value: bytes) -> bytes:
    return _attribute(kind, value + b"\0")


def _expression(name: bytes, *attributes: bytes) -> bytes:
    return _nest(1, _text(1, name), _nest(2, *attributes))


def _load(header: int, offset: int, length: int) -> bytes:
    """length bytes of a header into register 1."""
    return _expression(b"payload", _number(1, REG_1), _number(2, header), _number(3, offset), _number(4, length))


def _is(value: bytes) -> bytes:
    """The rule goes on when register 1 holds this."""
    return _expression(b"cmp", _number(1, REG_1), _number(2, EQUAL), _nest(3, _attribute(1, value)))


def _immediate(register: int, value: bytes) -> bytes:
    return _expression(b"immediate", _number(1, register), _nest(2, _attribute(1, value)))


def _protocol(number: int) -> bytes:
    return _expression(b"meta", _number(2, META_L4PROTO), _number(1, REG_1)) + _is(bytes((number,)))


def _port(number: int) -> bytes:
    return _load(TRANSPORT_HEADER, DESTINATION_PORT, 2) + _is(struct.pack(">H", number))


def _to(address: bytes) -> bytes:
    """The destination begins with these bytes."""
    return _load(NETWORK_HEADER, DESTINATION, len(address)) + _is(address)


_LEAVE = _expression(b"immediate", _number(1, VERDICT), _nest(2, _nest(2, _number(1, NFT_RETURN))))


def _dnat(address: bytes, port: int) -> bytes:
    return (
        _immediate(REG_1, address)
        + _immediate(REG_2, struct.pack(">H", port))
        + _expression(
            b"nat", _number(1, NAT_DNAT), _number(2, AF_INET), _number(3, REG_1), _number(5, REG_2),
            _number(7, RANGE_PROTO_SPECIFIED),
        )
    )  # fmt: skip


# ---- nf_tables: the batch --------------------------------------------------------------------------------------


def _rules(address: bytes) -> Sequence[bytes]:
    """Names are asked of the DNS door, whichever server they are asked of; every other TCP connection arrives at the
    TCP door. The cage's own loopback, and the doors themselves, are left alone: dnat and not redirect, which would
    lead into 127.0.0.0/8."""
    return (
        _to(b"\x7f") + _LEAVE,
        _to(address) + _LEAVE,
        _protocol(UDP) + _port(53) + _dnat(address, DNS_PORT),
        _protocol(TCP) + _port(53) + _dnat(address, DNS_PORT),
        _protocol(TCP) + _dnat(address, TCP_PORT),
    )


def _batch(rules: Sequence[bytes]) -> bytes:
    hook = _nest(4, _number(1, HOOK_OUTPUT), _number(2, PRIORITY_DSTNAT))
    accept = _number(5, 1)
    bodies = (
        (NEWTABLE, 0, _text(1, TABLE_NAME)),
        (NEWCHAIN, CREATE, _text(1, TABLE_NAME) + _text(3, CHAIN_NAME) + _text(7, b"nat") + accept + hook),
        *((NEWRULE, CREATE | APPEND, _text(1, TABLE_NAME) + _text(2, CHAIN_NAME) + _nest(4, rule)) for rule in rules),
    )
    messages = [
        _message(NFTABLES << 8 | kind, REQUEST | ACK | flags, sequence, struct.pack(">BBH", AF_INET, 0, 0) + body)
        for sequence, (kind, flags, body) in enumerate(bodies, start=1)
    ]
    edge = struct.pack(">BBH", AF_UNSPEC, 0, NFTABLES)
    return b"".join((
        _message(BATCH_BEGIN, REQUEST, 0, edge), *messages, _message(BATCH_END, REQUEST, len(messages) + 1, edge)
    ))  # fmt: skip


REDIRECT = _batch(_rules(bytes(map(int, DOORS.split(".")))))
