"""Claim: a TLS connection that was let through because of the name in its hello stays that name's, whatever follows the
hello: a second one that the server has asked for (HelloRetryRequest), early data before it, one that is sent unasked.

The server serves every name, has no use for the key in a first hello, and writes down each name that it is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.internet import Host, Internet, places

from .network import attack, control

LISTED, OTHER = "origin.example", "denied.example"
PORT = 8452
RULE = {"domain": LISTED, "ports": [PORT]}
SERVER = Path(__file__).with_name("attacks") / "names_of_hellos.py"

HELLOS = Path(__file__).with_name("attacks").joinpath("hellos.py").read_text()
SHAKING = """
    CHANGE, EARLY = b"\\x14\\3\\3\\0\\1\\1", b"\\x17\\3\\3" + vector(2, b"e" * 200)

    def shake(s, first, between, second, at_once, pieces):
        s.settimeout(PATIENCE)
        opening = hello(first, X25519)
        said, heard = between + hello(second, P256), b""
        if at_once:
            opening, said = opening + said, b""
        while opening:
            s.sendall(opening[:pieces])
            opening = opening[pieces:]
        if said:
            heard = s.recv(100, socket.MSG_WAITALL)
            assert heard[0] == 22, heard  # the retry
        while said:
            s.sendall(said[:pieces])
            said = said[pieces:]
        while part := s.recv(65536):
            heard += part
            if len(heard) > 600:  # a certificate
                return "reached"
        return "closed"

    def by_socks(*said):
        s, answer = through_socks(LISTED.encode(), PORT)
        assert answer[:2] == b"\\5\\0"
        return shake(s, *said)

    def by_connect(*said):
        s, status = through_connect(LISTED.encode(), PORT)
        assert status == "200"
        return shake(s, *said)

    def by_address(*said):
        return shake(socket.create_connection((LISTED, PORT), PATIENCE), *said)

    for way in WAYS:
        for name, said in TRIED.items():
            between = {"": b"", "change": CHANGE, "early": EARLY * 3}[said[1]]
            says(f"{way}, {name}", globals()[way], said[0], between, said[2], *said[3:])
"""
WAYS = ("by_socks", "by_connect", "by_address")
# The name of the first hello, what comes between, the name of the second, whether it waits for no answer, piece size.
HONEST = {
    "the same name": (LISTED, "", LISTED, False, 9999),
    "as most clients say it": (LISTED, "change", LISTED, False, 9999),
    "in small pieces": (LISTED, "change", LISTED, False, 40),
}
ATTACKS = {
    "another name": (LISTED, "", OTHER, False, 9999),
    "another one, as most clients say it": (LISTED, "change", OTHER, False, 9999),
    "another one at once": (LISTED, "", OTHER, True, 9999),
    "another one in small pieces": (LISTED, "change", OTHER, False, 7),
    "another one after early data": (LISTED, "early", OTHER, False, 9999),
    "one without a name": (LISTED, "change", None, False, 9999),
}


@pytest.fixture
def log(net: Internet, tmp_path: Path) -> Iterator[Path]:
    """The names that the server was asked for."""
    tls, file = net.top / "tls", net.top / f"names-{tmp_path.name}"
    file.touch()
    argv = [sys.executable, str(SERVER), str(tls / "origin.crt"), str(tls / "origin.key"), str(file),
            f"{places.ORIGIN}:{PORT}"]  # fmt: skip
    with net.serving(argv):
        yield file


def names(log: Path) -> list[str]:
    return log.read_text().split()


def test_uncaged_the_server_follows_the_second_hello(net_host: Host, log: Path) -> None:
    said = control(net_host, HELLOS, SHAKING, names={"TRIED": {"another": ATTACKS["another name"]}, "LISTED": LISTED,
                                            "PORT": PORT, "WAYS": ["by_address"]})  # fmt: skip

    assert said["by_address, another"] == "reached"
    assert names(log) == [LISTED, OTHER]


def test_a_second_hello_for_the_same_name_is_served(net_host: Host, log: Path) -> None:
    said = attack(
        net_host, HELLOS, SHAKING, names={"TRIED": HONEST, "LISTED": LISTED, "PORT": PORT, "WAYS": WAYS}, hosts=[RULE]
    )

    assert set(said.values.values()) == {"reached"}, said.values
    assert names(log) == [LISTED] * 2 * len(said.values)
    assert said.answer.refused() == set()


@pytest.mark.parametrize("way", WAYS)
def test_a_second_hello_for_another_name_is_not(way: str, net_host: Host, log: Path) -> None:
    said = attack(net_host, HELLOS, SHAKING, names={"TRIED": ATTACKS, "LISTED": LISTED, "PORT": PORT, "WAYS": [way]},
                  hosts=[RULE, OTHER])  # fmt: skip

    assert len(said.values) == len(ATTACKS) and "reached" not in said.values.values(), said.values
    assert set(names(log)) == {LISTED}
    assert said.answer.refused() == {LISTED}
    assert any(f"a second hello names {OTHER}" in str(each["rule"]) for each in said.answer.denials)


LATER = """
    s, answer = through_socks(LISTED.encode(), PORT)
    s.settimeout(PATIENCE)
    said = hello(LISTED, X25519)
    if GREETED:
        assert s.recv(100)
    else:
        s.sendall(said[:1])
        assert s.recv(1) == said[:1]  # it went ahead
        said = said[1:]
    def rest():
        s.sendall(said)
        return "reached" if s.recv(1) else "closed"
    says("the rest", rest)
"""


@pytest.mark.parametrize("greeted", [True, False], ids=["after the server's words", "after its first byte"])
def test_no_hello_goes_where_the_answer_is_not_seen(greeted: bool, net_host: Host, net: Internet) -> None:
    """Where bytes flow already, nobody would see the server ask for another hello."""
    port = places.GREET if greeted else places.ECHO
    names = {"GREETED": greeted, "TRIED": {}, "WAYS": [], "LISTED": LISTED, "PORT": port}
    said = attack(net_host, HELLOS, SHAKING, LATER, names=names, hosts=[{"domain": LISTED, "ports": [port]}])

    assert said["the rest"] in ("closed", "reset")
    assert any("a TLS hello in pieces" in str(each["rule"]) for each in said.answer.denials), said.answer
