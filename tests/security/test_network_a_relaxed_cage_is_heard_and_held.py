"""Claim: `contract_mode = "relaxed"` opens hosts that nobody named to requests alone, each of which is told. It opens
no address, nothing of the host, nothing that is no request, and takes nothing away from the block of a host
that has one.
"""

from __future__ import annotations

from typing import Any

import pytest

from _support.internet import Host, Internet, places

from .network import REFUSALS, Said, attack, control

LISTED, UNKNOWN = "origin.example", "www.origin.example"
NO_NAME = "EAI_NONAME"
EVENT = "gatekeeper.unknown_host_contract"
BLOCK = {"domain": LISTED, "methods": ["GET"], "ports": [443]}
NAMES = {"LISTED": LISTED, "UNKNOWN": UNKNOWN, "ORIGIN": places.ORIGIN, "ECHO": places.ECHO}
ASKS = """
    import ssl

    def inside(name, head):
        s = socket.create_connection((name, 443), PATIENCE)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # for the control, which trusts nobody here
        with context.wrap_socket(s, server_hostname=name) as tls:
            tls.sendall(head.replace("NAME", name).encode())
            return status_of(tls.recv(4096))

    def clear(name, port):
        with socket.create_connection((name, port), PATIENCE) as s:
            s.sendall(f"GET /page HTTP/1.1\\r\\nHost: {name}\\r\\nConnection: close\\r\\n\\r\\n".encode())
            return status_of(s.recv(4096))

    GET = "GET /page?token=of-mine HTTP/1.1\\r\\nHost: NAME\\r\\nConnection: close\\r\\n\\r\\n"
    says("a host that nobody named", inside, UNKNOWN, GET)
    says("the same without TLS", clear, UNKNOWN, 80)
"""
ATTACKS = """
    def speaks(name, port):
        with socket.create_connection((name, port), PATIENCE) as s:
            return echoes(s)
    def tunnelled(name, said):
        s = socket.create_connection((name, 443), PATIENCE)
        with ssl.create_default_context().wrap_socket(s, server_hostname=name) as tls:
            tls.sendall(said)
            return status_of(tls.recv(4096))

    says("another method to the listed one", inside, LISTED, GET.replace("GET", "DELETE"))
    says("another port of the listed one", clear, LISTED, 80)
    says("no request, without TLS", speaks, "echo.example", ECHO)
    says("no request, inside of TLS", tunnelled, UNKNOWN, b"SSH-2.0-OpenSSH_9.2\\r\\n")
    says("another host in a request", inside, UNKNOWN, GET.replace("NAME", LISTED))
    says("its address", speaks, ORIGIN, ECHO)
    for name in ("rebind.example", "metadata.example", "private.example", "zero.example", "self.example", "localhost.",
                 "host.pysandbox.internal"):
        says(name, clear, name, 80)
"""


def run(net_host: Host, net: Internet, *bodies: str, **policy: Any) -> Said:
    return attack(net_host, ASKS, *bodies, names=NAMES, proxy_upstream_ca=[net.ca], hosts=[BLOCK], **policy)


def test_uncaged_and_strict(net_host: Host, net: Internet) -> None:
    """The controls: whoever may is answered, and without the word nobody may."""
    assert set(control(net_host, ASKS, names=NAMES).values.values()) <= {"200", "404"}
    before = len(net.requests("origin"))
    assert run(net_host, net).let_through({*REFUSALS, NO_NAME}) == {}
    assert len(net.requests("origin")) == before


def test_each_request_to_a_host_that_nobody_named_is_told(net_host: Host, net: Internet) -> None:
    said = run(net_host, net, contract_mode="relaxed")

    assert set(said.values.values()) <= {"200", "404"}
    assert said.answer.told("sandbox.wide_grant")
    told = [{name: each[name] for name in ("host", "port", "method", "path")} for each in said.answer.told(EVENT)]
    asked = {"host": UNKNOWN, "method": "GET", "path": "/page"}
    assert told == [{**asked, "port": 443}, {**asked, "port": 80}]
    assert "of-mine" not in str(said.answer.told(EVENT))


def test_nothing_else_is_opened(net_host: Host, net: Internet) -> None:
    said = run(net_host, net, ATTACKS, contract_mode="relaxed")

    let = said.let_through({*REFUSALS, NO_NAME})
    assert set(let) == {"a host that nobody named", "the same without TLS"}, said.values
    assert said["another method to the listed one"] == "415"
    assert len(said.answer.told(EVENT)) == 2


@pytest.mark.parametrize("says", ["strict", "relaxed"])
def test_a_block_that_says_it_is_told_and_held(says: str, net_host: Host, net: Internet) -> None:
    body = 'says("another method", inside, LISTED, GET.replace("GET", "DELETE"))\nsays("it", inside, LISTED, GET)'
    block = {"domain": LISTED, "methods": ["GET"], "contract_mode": says}
    said = attack(net_host, ASKS, "\n" + "\n".join("    " + each for each in body.splitlines()), names=NAMES,
                  proxy_upstream_ca=[net.ca], hosts=[block])  # fmt: skip

    assert said["another method"] == "415" and said["it"] in ("200", "404")
    assert said["a host that nobody named"] not in ("200", "404")
    assert [each["method"] for each in said.answer.told(EVENT)] == (["GET"] if says == "relaxed" else [])
