"""Claim: a cage that may reach one host by name reaches nothing else by any other road: not by address, by another
resolver, by UDP, ICMP or IPv6, by a flag of connect or a protocol beside TCP.
"""

from __future__ import annotations

import pytest

from _support.internet import Host, Internet, places

from .network import REFUSALS, attack, control

HOSTS = ("origin.example",)

# Each is tried with a cage that may reach the origin by name, and must be answered by one of REFUSALS.
ROADS = """
    says("address", direct, DENIED, ECHO)
    says("address of the listed host", direct, ORIGIN, ECHO)
    says("metadata service", direct, METADATA, 80)
    says("private network", direct, PRIVATE, ECHO)
    says("address nobody was told", direct, "198.18.77.7", ECHO)
    says("sixth version", direct, SIX, ECHO, socket.SOCK_STREAM, socket.AF_INET6)
    says("mapped", direct, "::ffff:" + DENIED, ECHO, socket.SOCK_STREAM, socket.AF_INET6)
    says("SOCKS, address", socks, socket.inet_aton(DENIED), ECHO, 1)
    says("SOCKS, address of the listed host", socks, socket.inet_aton(ORIGIN), ECHO, 1)
    says("SOCKS, sixth version", socks, socket.inet_pton(socket.AF_INET6, SIX), ECHO, 4)
    says("SOCKS, mapped", socks, bytes(10) + b"\\xff\\xff" + socket.inet_aton(DENIED), ECHO, 4)
    says("SOCKS, own synthetic", socks, socket.inet_aton("198.18.77.7"), ECHO, 1)
    says("CONNECT, address", connect, DENIED.encode(), ECHO)

    def fast(option):
        with socket.socket() as s:
            s.settimeout(PATIENCE)
            if option:
                s.setsockopt(socket.IPPROTO_TCP, 30, 1)
                s.connect((DENIED, ECHO))
                s.send(b"x")
            else:
                s.sendto(b"x", 0x20000000, (DENIED, ECHO))
            return "reached" if s.recv(10) else "closed"
    says("TCP_FASTOPEN_CONNECT", fast, True)
    says("MSG_FASTOPEN", fast, False)

    def after_unspec():
        with socket.create_connection((socket.gethostbyname("origin.example"), ECHO), PATIENCE) as s:
            call("connect", s.fileno(), bytes(16), 16)
            s.connect((DENIED, ECHO))
            return echoes(s)
    says("connected again", after_unspec)

    def source_route():
        with socket.socket() as s:
            s.settimeout(PATIENCE)
            s.setsockopt(0, 4, bytes([131, 7, 4]) + socket.inet_aton(DENIED) + bytes(1))
            s.connect((ORIGIN, ECHO))
            return echoes(s)
    says("source route", source_route)
"""
# Sent, never answered: a datagram is gone without a word.
DATAGRAMS = """
    def send(address, port, family=socket.AF_INET, **options):
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.settimeout(0.3)
            for (level, name), value in options.pop("options", {}).items():
                s.setsockopt(level, name, value)
            s.sendto(b"anybody?", (address, port))
            return "reached" if s.recv(100) else "closed"
    says("UDP", send, DENIED, ECHO)
    says("UDP to the listed host", send, ORIGIN, ECHO)
    says("UDP to its synthetic address", lambda: send(socket.gethostbyname("origin.example"), ECHO))
    says("UDP, metadata service", send, METADATA, ECHO)
    says("UDP, sixth version", send, SIX, ECHO, socket.AF_INET6)
    says("QUIC", lambda: send(socket.gethostbyname("origin.example"), 443))
    says("multicast", send, MULTICAST, 5353)
    says("multicast, sixth version", send, "ff02::fb", 5353, socket.AF_INET6)
    says("broadcast", lambda: send("255.255.255.255", ECHO, options={(1, 6): 1}))
"""
KINDS = {
    "mptcp": (2, 1, 262), "sctp": (2, 1, 132), "icmp datagram": (2, 2, 1), "icmp raw": (2, 3, 1), "raw": (2, 3, 255),
    "packet": (17, 3, 768), "vsock": (40, 1, 0), "netlink netfilter": (16, 3, 12), "icmp v6": (10, 2, 58),
}  # fmt: skip
RESOLVERS = """
    for name, at in (("own", None), ("other", OTHER), ("listed host", ORIGIN), ("public", "8.8.8.8")):
        for word, tcp in (("UDP", False), ("TCP", True)):
            says(f"{name}, {word}, listed", dns, b"origin.example", 1, at, tcp)
            says(f"{name}, {word}, other", dns, b"denied.example", 1, at, tcp)
"""
NAMES = {
    name: getattr(places, name)
    for name in ("ORIGIN", "DENIED", "METADATA", "PRIVATE", "SIX", "ECHO", "MULTICAST")
}  # fmt: skip
SERVERS = (places.ORIGIN, places.DENIED, places.METADATA, places.PRIVATE, places.SIX, places.MULTICAST,
           places.OTHER_RESOLVER, "8.8.8.8", "255.255.255.255", "198.18.0.1", "ff02::fb")  # fmt: skip
NOT_SENT = (*REFUSALS, "silence")


def test_uncaged_every_address_answers(net_host: Host, net: Internet) -> None:
    reached = control(net_host, *[
        f"says('{name}', direct, {address!r}, {places.ECHO})" for name, address in NAMES.items()
        if name in ("ORIGIN", "DENIED", "METADATA", "PRIVATE")
    ], f"says('v6', direct, {places.SIX!r}, {places.ECHO}, socket.SOCK_STREAM, socket.AF_INET6)",
       f"says('udp', direct, {places.DENIED!r}, {places.ECHO}, socket.SOCK_DGRAM)",
       f"says('resolver', dns, b'denied.example', 1, {places.OTHER_RESOLVER!r})")  # fmt: skip

    assert reached["resolver"] == [0, places.DENIED]
    assert {name: value for name, value in reached.values.items() if name != "resolver"} == dict.fromkeys(
        ("ORIGIN", "DENIED", "METADATA", "PRIVATE", "v6", "udp"), "reached"
    )


def test_no_road_but_the_name_leads_out(net_host: Host, net: Internet) -> None:
    said = attack(net_host, ROADS, names=NAMES, hosts=HOSTS)

    assert said.let_through() == {}
    assert {each["to"] for each in net.arrivals_at(*SERVERS)} <= {places.ORIGIN}
    assert len(net.arrivals_at(places.ORIGIN)) <= 1  # the connection that is to be connected again
    assert {places.DENIED, places.METADATA, places.PRIVATE} <= {
        each.partition(":")[0] for each in said.answer.refused()
    }
    assert said.answer.denials


@pytest.mark.parametrize("body", [ROADS, DATAGRAMS, RESOLVERS])
def test_whoever_asks_why_opens_nothing(body: str, net_host: Host, net: Internet) -> None:
    """A cage without a way out has doors then, and all of them refuse. No variable leads there."""
    said = attack(net_host, body, names={**NAMES, "OTHER": places.OTHER_RESOLVER}, why=True)

    no_name = {name for name, value in said.values.items() if value == [3]}
    unled = {name for name, value in said.values.items() if value == "no door"}
    assert unled == ({"CONNECT, address"} if body is ROADS else set())
    assert said.let_through((*NOT_SENT, *["EAI_NONAME"] * (body is not RESOLVERS))).keys() <= no_name | unled
    assert net.arrivals_at(*SERVERS) == [] and net.questions() == []
    assert said.answer.denials


def test_no_datagram_leaves(net_host: Host, net: Internet) -> None:
    said = attack(net_host, DATAGRAMS, names=NAMES, hosts=HOSTS)

    assert said.let_through(NOT_SENT) == {}
    assert net.arrivals_at(*SERVERS) == []
    told = {each["target"] for each in said.answer.denials if each["kind"] == "udp"}
    assert told >= {*(f"{each}:{places.ECHO}" for each in (places.DENIED, places.ORIGIN, places.METADATA)),
                    f"origin.example:{places.ECHO}", "origin.example:443"}  # fmt: skip


def test_no_other_kind_of_socket_exists(net_host: Host) -> None:
    said = attack(
        net_host, "for name, kind in KINDS.items(): says(name, lambda: os.close(call('socket', *kind)))",
        names={"KINDS": KINDS}, hosts=HOSTS,
    )  # fmt: skip

    assert dict(said.values) == dict.fromkeys(KINDS, "EPERM")


def test_every_resolver_is_the_door_or_silent(net_host: Host, net: Internet) -> None:
    """A question to another resolver gets the door's answer or none: it never arrives where it was sent."""
    said = attack(net_host, RESOLVERS, names={**NAMES, "OTHER": places.OTHER_RESOLVER}, hosts=HOSTS)

    assert [said[f"own, {word}, listed"][0] for word in ("UDP", "TCP")] == [0, 0]
    assert [said[f"own, {word}, other"] for word in ("UDP", "TCP")] == [[3], [3]]
    for name, value in said.values.items():
        assert not isinstance(value, list) or not value[1:] or value[1].startswith("198.18."), (name, value)
    assert net.arrivals_at(*SERVERS) == []
    assert set(net.questions()) <= {"origin.example"}
    assert said.answer.refused() >= {"denied.example"}


@pytest.mark.parametrize("egress", ["proxy-only"])
def test_the_host_s_loopback_is_the_cage_s_own(egress: str, net_host: Host, net: Internet) -> None:
    roads = """
        says("loopback", direct, "127.0.0.1", ECHO)
        says("another loopback", direct, "127.0.0.2", ECHO)
        says("loopback, sixth version", direct, "::1", ECHO, socket.SOCK_STREAM, socket.AF_INET6)
        says("any", direct, "0.0.0.0", ECHO)
        says("SOCKS", socks, b"localhost", ECHO)
        says("SOCKS, address", socks, socket.inet_aton("127.0.0.1"), ECHO, 1)
        says("CONNECT", connect, b"127.0.0.1", ECHO)
        says("alias", socks, b"host.pysandbox.internal", ECHO)
    """
    said = attack(net_host, roads, names=NAMES, hosts=HOSTS, egress=egress)

    assert said.let_through() == {}
    assert [each for each in net.arrivals_at("127.0.0.1", "::1", "127.0.0.2") if each["port"] == places.ECHO] == []


def test_the_cage_s_own_loopback_is_free(net_host: Host) -> None:
    """Any port of it, also those that the doors have elsewhere."""
    said = attack(net_host, """
        for port in (1053, 1080, 3128, 3129, 8080, 8443):
            with socket.create_server(("127.0.0.1", port)) as server:
                with socket.create_connection(("127.0.0.1", port), PATIENCE) as s:
                    peer = server.accept()[0]
                    peer.sendall(b"own")
                    say(str(port), s.recv(10).decode())
    """, hosts=HOSTS)  # fmt: skip

    assert set(said.values.values()) == {"own"} and len(said.values) == 6
