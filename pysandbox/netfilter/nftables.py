"""The words in which nf_tables is told of rules, as bytes: what `netlink` and `compile.routed` write their rules with.

An expression is bytes, a rule the sum of its expressions, a batch one transaction: the kernel takes all of it or
nothing. Registers and attributes are those of linux/netfilter/nf_tables.h; what is for the kernel's own header is in
native byte order, what an attribute of nf_tables holds is big-endian. Knows nothing of cages. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

REQUEST, ACK, EXCL, CREATE, APPEND = 0x1, 0x4, 0x200, 0x400, 0x800  # NLM_F_*
NESTED = 0x8000  # NLA_F_NESTED
BATCH_BEGIN, BATCH_END, NFTABLES = 16, 17, 10  # NFNL_MSG_BATCH_*, NFNL_SUBSYS_NFTABLES
NEWTABLE, DELTABLE, NEWCHAIN, NEWRULE, NEWSET, NEWSETELEM = 0, 2, 3, 6, 9, 12  # NFT_MSG_*
UNSPEC, IPV4, NETDEV = 0, 2, 5  # NFPROTO_*
TABLE_NAME, TABLE_HANDLE, TABLE_USERDATA = 1, 4, 6  # NFTA_TABLE_*

ICMP, TCP, UDP = 1, 6, 17  # IPPROTO_*
ETHERTYPE_IP, ETHERTYPE_ARP = b"\x08\x00", b"\x08\x06"
ECHO_REQUEST = b"\x08"

_REGISTER = 1  # the one that every expression here uses
_NETWORK, _TRANSPORT = 1, 2  # NFT_PAYLOAD_*
_INTERNET_CHECKSUM = 1  # NFT_PAYLOAD_CSUM_INET
_EQ, _NEQ, _LT, _LTE, _GT, _GTE = range(6)  # NFT_CMP_*
_META = {"protocol": 1, "iifname": 6, "oifname": 7, "l4proto": 16}  # NFT_META_*
_FIB_TYPE, _FIB_DESTINATION, _UNICAST = 3, 2, struct.pack("=I", 1)  # NFT_FIB_*, RTN_UNICAST in the host's byte order
_CT_STATE, _ESTABLISHED_OR_RELATED = 0, struct.pack("=I", 2 | 4)  # NFT_CT_STATE


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    """struct nlmsghdr and what follows it."""
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack(">i", value))


def _text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def _nest(kind: int, *attributes: bytes) -> bytes:
    return attribute(kind | NESTED, b"".join(attributes))


def _expression(name: str, *attributes: bytes) -> bytes:
    return _nest(1, _text(1, name), _nest(2, *attributes))


# ---- looking ------------------------------------------------------------------------------------------------------


def _load(header: int, offset: int, length: int) -> bytes:
    return _expression(
        "payload", _number(1, _REGISTER), _number(2, header), _number(3, offset), _number(4, length)
    )  # fmt: skip


def _store(header: int, offset: int, length: int, checksum: int) -> bytes:
    """What was loaded, written into the packet, whose checksum is mended at its place in the same header."""
    return _expression(
        "payload", _number(2, header), _number(3, offset), _number(4, length), _number(5, _REGISTER),
        _number(6, _INTERNET_CHECKSUM), _number(7, checksum),
    )  # fmt: skip


def _compare(how: int, value: bytes) -> bytes:
    """The rule goes on when the register compares so to this."""
    return _expression("cmp", _number(1, _REGISTER), _number(2, how), _nest(3, attribute(1, value)))


def _masked(mask: bytes) -> bytes:
    return _expression(
        "bitwise", _number(1, _REGISTER), _number(2, _REGISTER), _number(3, len(mask)), _nest(4, attribute(1, mask)),
        _nest(5, attribute(1, bytes(len(mask)))),
    )  # fmt: skip


def _meta(key: str) -> bytes:
    return _expression("meta", _number(2, _META[key]), _number(1, _REGISTER))


def interface(key: str, name: str, *, other: bool = False) -> bytes:
    """`key` is iifname or oifname; `other`: any interface but this one."""
    return _meta(key) + _compare(_NEQ if other else _EQ, name.encode().ljust(16, b"\0"))


def is_ip(*, other: bool = False) -> bytes:
    return _meta("protocol") + _compare(_NEQ if other else _EQ, ETHERTYPE_IP)


def arp_from(address: bytes) -> bytes:
    """ARP whose sender (RFC 826: behind 14 bytes) says it has this address."""
    return _meta("protocol") + _compare(_EQ, ETHERTYPE_ARP) + _load(_NETWORK, 14, 4) + _compare(_EQ, address)


def source(address: bytes, prefix: int = 32, *, other: bool = False) -> bytes:
    return _within(12, address, prefix, other)


def destination(address: bytes, prefix: int = 32) -> bytes:
    return _within(16, address, prefix, False)


def destination_in(name: str) -> bytes:
    """The rule goes on when the set of the table holds the destination."""
    return _load(_NETWORK, 16, 4) + _expression("lookup", _text(1, name), _number(2, _REGISTER))


def _within(offset: int, address: bytes, prefix: int, other: bool) -> bytes:
    if prefix == 0:
        return b""
    whole, rest = divmod(prefix, 8)
    if not rest:
        return _load(_NETWORK, offset, whole) + _compare(_NEQ if other else _EQ, address[:whole])
    mask = ((1 << 32) - (1 << (32 - prefix))).to_bytes(4, "big")
    return _load(_NETWORK, offset, 4) + _masked(mask) + _compare(_NEQ if other else _EQ, address)


def protocol(number: int) -> bytes:
    return _meta("l4proto") + _compare(_EQ, bytes((number,)))


def ports(first: int, last: int) -> bytes:
    """The destination port of TCP or UDP. A fragment behind the first has none, and never matches."""
    low, high = struct.pack(">H", first), struct.pack(">H", last)
    if first == last:
        return _load(_TRANSPORT, 2, 2) + _compare(_EQ, low)
    return _load(_TRANSPORT, 2, 2) + _compare(_GTE, low) + _compare(_LTE, high)


def any_port_but(port: int) -> bytes:
    return _load(_TRANSPORT, 2, 2) + _compare(_NEQ, struct.pack(">H", port))


def echo_request() -> bytes:
    return protocol(ICMP) + _load(_TRANSPORT, 0, 1) + _compare(_EQ, ECHO_REQUEST)


def later_fragment() -> bytes:
    """A fragment that is not the first of its datagram: it is of no use to anybody without that one."""
    return _load(_NETWORK, 6, 2) + _masked(b"\x1f\xff") + _compare(_NEQ, b"\0\0")


def answer() -> bytes:
    """What belongs to a connection that is known already."""
    loaded = _expression("ct", _number(1, _REGISTER), _number(2, _CT_STATE))
    return loaded + _masked(_ESTABLISHED_OR_RELATED) + _compare(_NEQ, bytes(4))


def not_unicast() -> bytes:
    """The destination is an address of the machine itself, a broadcast or multicast one, or one it has no way to."""
    asked = _expression("fib", _number(1, _REGISTER), _number(2, _FIB_TYPE), _number(3, _FIB_DESTINATION))
    return asked + _compare(_NEQ, _UNICAST)


# ---- deciding -----------------------------------------------------------------------------------------------------


def _verdict(code: int) -> bytes:
    return _expression("immediate", _number(1, 0), _nest(2, _nest(2, _number(1, code))))


DROP, ACCEPT, RETURN = _verdict(0), _verdict(1), _verdict(-5)
COUNT = _expression("counter")
MASQUERADE = _expression("masq")


def dnat(address: bytes, port: int) -> bytes:
    """Towards this address and port instead."""
    held = [_expression("immediate", _number(1, register), _nest(2, attribute(1, value)))
            for register, value in ((1, address), (2, struct.pack(">H", port)))]  # fmt: skip
    nat = _expression("nat", _number(1, 1), _number(2, IPV4), _number(3, 1), _number(5, 2), _number(7, 2))
    return b"".join(held) + nat


def note_destination() -> bytes:
    """Copies where a TCP connection was meant to go to where its first packet (SYN alone) says nothing: the number of
    an acknowledgement, and the urgent pointer (RFC 9293, 3.1). Whoever hears of it behind a `dnat` reads it there."""
    address = _load(_NETWORK, 16, 4) + _store(_TRANSPORT, 8, 4, 16)
    return address + _load(_TRANSPORT, 2, 2) + _store(_TRANSPORT, 18, 2, 16)


# ---- messages -----------------------------------------------------------------------------------------------------

Body = tuple[int, int, bytes]  # the kind of a message, its flags, its attributes


def new_table(name: str, comment: str = "", *, only: bool = False) -> Body:
    """`only`: EEXIST when there is one of that name."""
    noted = comment.encode() + b"\0"
    told = attribute(TABLE_USERDATA, bytes((0, len(noted))) + noted) if comment else b""  # NFTNL_UDATA_TABLE_COMMENT
    return NEWTABLE, CREATE | (EXCL if only else 0), _text(TABLE_NAME, name) + told


def delete_table(name: str, handle: int | None = None) -> Body:
    """With a handle: this table, and not a later one of the same name."""
    by = _text(TABLE_NAME, name) if handle is None else attribute(TABLE_HANDLE, struct.pack(">Q", handle))
    return DELTABLE, 0, by


def base_chain(
    table: str, name: str, kind: str, hook: int, priority: int, *, accept: bool, device: str = ""
) -> Body:  # fmt: skip
    where = _nest(4, _number(1, hook), _number(2, priority), _text(3, device) if device else b"")
    return NEWCHAIN, CREATE, _text(1, table) + _text(3, name) + _text(7, kind) + _number(5, int(accept)) + where


def rules(table: str, chain: str, each: Iterable[bytes]) -> tuple[Body, ...]:
    return tuple((NEWRULE, CREATE | APPEND, _text(1, table) + _text(2, chain) + _nest(4, rule)) for rule in each)


_INTERVAL, _INTERVAL_END = 4, 1  # NFT_SET_INTERVAL, NFT_SET_ELEM_INTERVAL_END
_IPV4_ADDRESS = 7  # how nft(8) shows the elements
_ELEMENTS = 500  # ranges in one message: the length of an attribute has 16 bits


def new_set(table: str, name: str) -> Body:
    """A new, empty set for ranges of IPv4 addresses."""
    about = _number(3, _INTERVAL) + _number(4, _IPV4_ADDRESS) + _number(5, 4) + _number(10, 1)
    return NEWSET, CREATE, _text(1, table) + _text(2, name) + about


def elements(table: str, name: str, ranges: Sequence[tuple[int, int]]) -> tuple[Body, ...]:
    """`ranges` are first and last addresses, none inside or beside another."""
    return tuple(
        (NEWSETELEM, CREATE, _text(1, table) + _text(2, name) + _nest(3, *map(_range, ranges[at : at + _ELEMENTS])))
        for at in range(0, len(ranges), _ELEMENTS)
    )


def nothing_below(table: str, name: str) -> Body:
    """What nft(8) puts before a first range that does not begin with the first address of all."""
    return NEWSETELEM, CREATE, _text(1, table) + _text(2, name) + _nest(3, _element(0, end=True))


def _range(each: tuple[int, int]) -> bytes:
    """Where it begins, and where it has ended; a range up to the last address of all has no end."""
    first, last = each
    return _element(first) + (_element(last + 1, end=True) if last + 1 < 1 << 32 else b"")


def _element(address: int, *, end: bool = False) -> bytes:
    key = _nest(1, attribute(1, address.to_bytes(4, "big")))
    return _nest(1, key, _number(3, _INTERVAL_END)) if end else _nest(1, key)


def batch(family: int, bodies: Sequence[Body], *, answered: bool = False) -> bytes:
    """One transaction. A refusal is told for each message, the acknowledgement for the last alone unless each is to be
    `answered`: the kernel has room for a few hundred answers, and a list may be longer."""
    messages = [
        message(
            NFTABLES << 8 | kind, REQUEST | flags | (ACK if answered or sequence == len(bodies) else 0), sequence,
            struct.pack(">BBH", family, 0, 0) + body,
        )
        for sequence, (kind, flags, body) in enumerate(bodies, start=1)
    ]  # fmt: skip
    edge = struct.pack(">BBH", UNSPEC, 0, NFTABLES)
    return b"".join((
        message(BATCH_BEGIN, REQUEST, 0, edge), *messages, message(BATCH_END, REQUEST, len(messages) + 1, edge)
    ))  # fmt: skip
