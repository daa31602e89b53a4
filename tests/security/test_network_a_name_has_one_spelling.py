"""Claim: whatever way a name or an address is spelled, and at whichever door, it is the listed host or it is refused.

Each spelling goes to the DNS, SOCKS and HTTP doors as bytes. Behind every address of the internet listens the same echo
server, so a spelling that leads anywhere is "reached"; the tap then has the packet.
"""

from __future__ import annotations

import socket

import pytest

from _support.internet import Host, Internet, places

from .network import REFUSALS, attack, control

ALLOWED = ("origin.example", "xn--bcher-kva.example")
PACKED = int.from_bytes(socket.inet_aton(places.DENIED), "big")
FIRST, SECOND, THIRD, FOURTH = socket.inet_aton(places.DENIED)

# The listed host, in other letters.
SAME = {
    "as listed": b"origin.example",
    "upper case": b"ORIGIN.EXAMPLE",
    "mixed case": b"oRiGiN.eXaMpLe",
    "trailing dot": b"origin.example.",
    "A-label": b"XN--BCHER-KVA.example",
}
# May be the listed host or refused; never anything else.
EITHER = {
    "U-label": "b\u00fccher.example".encode(),
    "full width": "\uff4frigin.example".encode(),
    "ideographic dot": "origin\u3002example".encode(),
    "soft hyphen": "ori\u00adgin.example".encode(),
}
# Another host; the first few are of a server that would answer.
OTHER = {
    "another": b"denied.example",
    "listed as the beginning": b"origin.example.evil.test",
    "listed as the end": b"evilorigin.example",
    "a subdomain": b"www.origin.example",
    "NUL and a listed end": b"denied.example\0.origin.example",
    "NUL after the listed": b"origin.example\0.denied.example",
    "a listed end after #": b"denied.example#.origin.example",
    "a listed end after /": b"denied.example/.origin.example",
    "a listed end after ?": b"denied.example?.origin.example",
    "a listed end after a backslash": b"denied.example\\.origin.example",
    "userinfo": b"origin.example@denied.example",
    "userinfo, reversed": b"denied.example@origin.example",
    "space": b"origin.example denied.example",
    "tab": b"denied.example\torigin.example",
    "newline": b"denied.example\n.origin.example",
    "carriage return": b"origin.example\rdenied.example",
    "percent": b"denied.example%2eorigin.example",
    "percent NUL": b"denied.example%00.origin.example",
    "two dots": b"origin..example",
    "leading dot": b".origin.example",
    "two trailing dots": b"origin.example..",
    "wildcard": b"*.example",
    "a long label": b"a" * 64 + b".origin.example",
    "a long name": b".".join([b"a" * 60] * 4),
    "homograph": "\u043erigin.example".encode(),
    "not UTF-8": b"\xff\xfe.example",
    "empty": b"",
    "dot": b".",
    "address": places.DENIED.encode(),
    "decimal": b"%d" % PACKED,
    "hexadecimal": b"0x%08x" % PACKED,
    "octal parts": b"0%o.0%o.0%o.0%o" % (FIRST, SECOND, THIRD, FOURTH),
    "hexadecimal parts": b"0x%x.0x%x.0x%x.0x%x" % (FIRST, SECOND, THIRD, FOURTH),
    "three parts": b"%d.%d.%d" % (FIRST, SECOND, THIRD << 8 | FOURTH),
    "two parts": b"%d.%d" % (FIRST, PACKED & 0xFFFFFF),
    "decimal with a dot": b"%d." % PACKED,
    "mapped": b"::ffff:" + places.DENIED.encode(),
    "mapped in brackets": b"[::ffff:" + places.DENIED.encode() + b"]",
    "mapped in hexadecimal": b"[::ffff:%x:%x]" % (PACKED >> 16, PACKED & 0xFFFF),
    "sixth version": b"[" + places.SIX.encode() + b"]",
    "zone": b"[::1%lo]",
    "loopback": b"127.0.0.1",
    "short loopback": b"127.1",
    "loopback as a number": b"2130706433",
    "loopback in octal": b"0177.0.0.1",
    "any": b"0.0.0.0",
    "zero": b"0",
    "localhost": b"localhost",
    "localhost below": b"localhost.origin.example",
    "metadata": places.METADATA.encode(),
    "metadata as a number": b"2852039166",
}
RESOLVED_BY_LIBC = ("decimal", "hexadecimal", "octal parts", "hexadecimal parts", "three parts", "two parts", "address")

SOCKS = "for name, spelled in NAMES.items(): says(name, socks, spelled, PORT)"
CONNECT = "for name, spelled in NAMES.items(): says(name, connect, spelled, PORT)"
ABSOLUTE = r"""
    for name, spelled in NAMES.items():
        at = spelled + b":%d" % PORT
        says(name, http, b"GET http://" + at + b"/ HTTP/1.1\r\nHost: " + at + b"\r\n\r\n")
"""
TRANSPARENT = """
    for name, spelled in NAMES.items():
        if b"\\0" in spelled:  # Python has no such name, and libc would hear its beginning
            say(name, "no name in Python")
            continue
        try:
            socket.getaddrinfo(spelled, PORT, socket.AF_INET, socket.SOCK_STREAM)
        except socket.gaierror as error:
            say(name, NO_NAME[error.errno])
        else:
            says(name, direct, spelled, PORT)
"""
QUESTIONS = """
    for name, spelled in NAMES.items():
        says(name, dns, spelled)
        says(name + ", over TCP", dns, spelled, 1, None, True)
"""
ENTRANCES = {"socks": SOCKS, "connect": CONNECT, "transparent": TRANSPARENT}
UNSPEAKABLE = "no name in Python"
NOT_ASKED = ("EAI_NONAME", "EAI_AGAIN", "EAI_FAIL", UNSPEAKABLE)  # of a name that libc is to find: `transparent` alone
UNREACHED = (places.DENIED, places.METADATA, places.SIX, "127.0.0.1", "::1")


def nothing_came(net: Internet) -> bool:
    """Nothing at the other addresses, not even a question for another name."""
    return net.arrivals_at(*UNREACHED) == [] and set(net.questions()) <= set(ALLOWED)


def test_uncaged_the_spellings_lead_there(net_host: Host, net: Internet) -> None:
    names = {name: OTHER[name] for name in RESOLVED_BY_LIBC} | {"another": OTHER["another"]}

    reached = control(net_host, TRANSPARENT, names={"NAMES": names, "PORT": places.ECHO})

    assert dict(reached.values) == dict.fromkeys(names, "reached")
    assert len(net.arrivals_at(places.DENIED)) == len(names)


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_the_listed_host_is_reached_in_any_case(entrance: str, net_host: Host, net: Internet) -> None:
    said = attack(net_host, ENTRANCES[entrance], names={"NAMES": SAME, "PORT": places.ECHO}, hosts=ALLOWED)

    assert dict(said.values) == dict.fromkeys(SAME, "reached")
    assert said.answer.refused() == set()


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_what_may_be_the_listed_host_is_never_another(entrance: str, net_host: Host, net: Internet) -> None:
    said = attack(net_host, ENTRANCES[entrance], names={"NAMES": EITHER, "PORT": places.ECHO}, hosts=ALLOWED)

    assert said.let_through({*REFUSALS, *NOT_ASKED, "reached"}) == {}
    assert nothing_came(net)


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_no_spelling_leads_to_another(entrance: str, net_host: Host, net: Internet) -> None:
    said = attack(net_host, ENTRANCES[entrance], names={"NAMES": OTHER, "PORT": places.ECHO}, hosts=ALLOWED)

    assert said.let_through({*REFUSALS, *NOT_ASKED}) == {}
    assert nothing_came(net)
    assert "denied.example" in said.answer.refused()
    assert said.answer.denials


def test_no_spelling_leads_to_another_in_a_request(net_host: Host, net: Internet) -> None:
    said = attack(net_host, ABSOLUTE, names={"NAMES": OTHER, "PORT": 80}, hosts=ALLOWED)

    assert said.let_through() == {}
    assert nothing_came(net) and net.requests("denied") == net.requests("origin") == []
    assert "denied.example" in said.answer.refused()


def test_no_spelling_has_an_answer_of_the_resolver(net_host: Host, net: Internet) -> None:
    """Refused is everything but NOERROR; what is asked upstream is the listed name at most."""
    asked = {name: each for name, each in OTHER.items() if all(len(label) < 64 for label in each.split(b"."))}

    said = attack(net_host, QUESTIONS, names={"NAMES": asked}, hosts=ALLOWED)

    answered = {name: value[1] for name, value in said.values.items() if isinstance(value, list) and value[1:]}
    own = {name: answered.pop(name) for name in ("localhost", "localhost, over TCP")}
    assert set(own.values()) == {"127.0.0.1"}  # the cage's, as everywhere (RFC 6761, 6.3)
    as_listed = ("two trailing dots", "two dots", "leading dot")  # empty labels, which `encoded` leaves out
    assert {name.removesuffix(", over TCP") for name in answered} <= set(as_listed)
    assert nothing_came(net)


def test_an_empty_list_lets_nothing_through(net_host: Host, net: Internet) -> None:
    for options in ({}, {"hosts": []}, {"allow_ips": []}, {"egress": "proxy-only"}):
        said = attack(net_host, "says('direct', direct, AT, PORT)", "say('doors', sorted(os.environ))",
                      names={"AT": places.ORIGIN, "PORT": places.ECHO}, **options)  # fmt: skip
        assert said["direct"] in REFUSALS
        assert not [name for name in said["doors"] if name.lower().endswith("_proxy")]
    assert net.arrivals_at(places.ORIGIN) == []
