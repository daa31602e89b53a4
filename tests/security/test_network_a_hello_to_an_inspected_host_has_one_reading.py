"""Claim: of a TLS hello to a host with a contract, cut and padded as it may be, one name is read, and it is that of the
connection; what names another one, several, none or an address gets no certificate, and no server hears of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from _support.internet import Host, Internet, places

from .network import attack, control

LISTED, OTHER = "origin.example", "denied.example"
RULE = {"domain": LISTED, "methods": ["GET"]}
HELLOS = Path(__file__).with_name("attacks").joinpath("hellos.py").read_text()
SAID = """
    def said_of(names, padding, size):
        before = [extension(0x7A00 + at, bytes(min(16000, padding - at * 16000)))
                  for at in range(-(-padding // 16000))]
        named = [server_name(*names)] if names else []
        return records(message(X25519, *before, *named), size)

    def shake(s, said, pieces):
        s.settimeout(PATIENCE)
        while said:
            s.sendall(said[:pieces])
            said = said[pieces:]
        heard = b""
        while part := s.recv(65536):
            heard += part
            if len(heard) > 600:  # a certificate
                return "reached"
        return "closed"

    def by_socks(*said):
        s, answer = through_socks(LISTED.encode(), 443)
        assert answer[:2] == b"\\5\\0"
        return shake(s, *said)

    def by_connect(*said):
        s, status = through_connect(LISTED.encode(), 443)
        assert status == "200"
        return shake(s, *said)

    def by_address(*said):
        return shake(socket.create_connection((LISTED, 443), PATIENCE), *said)

    for way in WAYS:
        for name, (names, padding, size, pieces) in TRIED.items():
            says(f"{way}, {name}", globals()[way], said_of(names, padding, size), pieces)
"""
WAYS = ("by_socks", "by_connect", "by_address")
# The names in it, bytes of other extensions before them, the size of its records, and of what is sent at once.
SOUND = {
    "as ever": ([LISTED], 0, 16384, 99999),
    "in forty records": ([LISTED], 0, 6, 99999),
    "the name after 1,024 bytes": ([LISTED], 1200, 16384, 99999),
    "the name after 16 KiB": ([LISTED], 20000, 16384, 99999),
    "a byte in each segment": ([LISTED], 0, 16384, 1),
}
ATTACKS = {
    "another name": ([OTHER], 0, 16384, 99999),
    "another one in forty records": ([OTHER], 0, 6, 99999),
    "another one after 16 KiB": ([OTHER], 20000, 16384, 99999),
    "another one, a byte in each segment": ([OTHER], 0, 16384, 1),
    "two names": ([LISTED, OTHER], 0, 16384, 99999),
    "no name": ([], 0, 16384, 99999),
    "an address": ([places.ORIGIN], 0, 16384, 99999),
    "a name below it": ([f"www.{LISTED}"], 0, 16384, 99999),
}


def test_uncaged_any_name_is_answered(net_host: Host, net: Internet) -> None:
    tried = {"another name": ATTACKS["another name"]}
    said = control(net_host, HELLOS, SAID, names={"TRIED": tried, "LISTED": LISTED, "WAYS": ["by_address"]})

    assert said["by_address, another name"] == "reached"


@pytest.mark.parametrize("way", WAYS)
def test_a_sound_hello_is_served_however_it_is_cut(way: str, net_host: Host, net: Internet) -> None:
    said = attack(net_host, HELLOS, SAID, names={"TRIED": SOUND, "LISTED": LISTED, "WAYS": [way]}, hosts=[RULE],
                  proxy_upstream_ca=[net.ca])  # fmt: skip

    assert set(said.values.values()) == {"reached"}, said.values


@pytest.mark.parametrize("way", WAYS)
def test_any_other_gets_no_certificate(way: str, net_host: Host, net: Internet) -> None:
    said = attack(net_host, HELLOS, SAID, names={"TRIED": ATTACKS, "LISTED": LISTED, "WAYS": [way]},
                  hosts=[RULE, OTHER], proxy_upstream_ca=[net.ca])  # fmt: skip

    assert len(said.values) == len(ATTACKS) and "reached" not in said.values.values(), said.values
    assert net.requests("origin") == net.requests("denied") == []
    assert said.answer.refused() == {LISTED}
