"""Claim: a range that is written as IPv6 lets no IPv4 address be reached, although that has an IPv6 spelling."""

from __future__ import annotations

from _support.internet import Host, Internet, places

from .network import attack, control

WAYS = """
    says("address", direct, ORIGIN, PORT)
    says("mapped", direct, "::ffff:" + ORIGIN, PORT, socket.SOCK_STREAM, socket.AF_INET6)
    says("socks", socks, socket.inet_aton(ORIGIN), PORT, 1) if CAGED else None
    says("socks, mapped", socks, socket.inet_pton(socket.AF_INET6, "::ffff:" + ORIGIN), PORT, 4) if CAGED else None
"""
NAMES = {"ORIGIN": places.ORIGIN, "PORT": places.ECHO, "CAGED": True}


def test_uncaged_the_address_is_reached(net_host: Host, net: Internet) -> None:
    said = control(net_host, WAYS, names={**NAMES, "CAGED": False})

    assert dict(said.values) == dict.fromkeys(("address", "mapped"), "reached")


def test_every_ipv6_address_is_no_ipv4_address(net_host: Host, net: Internet) -> None:
    said = attack(net_host, WAYS, names=NAMES, allow_ips=["::/0", "::/1"])

    assert said.let_through() == {}
    assert net.arrivals_at(places.ORIGIN) == []


def test_every_ipv4_address_is(net_host: Host, net: Internet) -> None:
    said = attack(net_host, WAYS, names=NAMES, allow_ips=["0.0.0.0/0"])

    assert set(said.values.values()) == {"reached"}
