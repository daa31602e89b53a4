"""Claim: the authority of a cage signs for the names that its inspected hosts are called by, and for nothing else that
a connection may be asked for by: an address, the alias of the host's loopback, a name that is refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from _support.internet import Host, Internet, places

from .network import Said, attack, control

LISTED = "origin.example"
NAMES = {"LISTED": LISTED, "ORIGIN": places.ORIGIN}
ASKS = """
    import ssl
    AUTHORITY = b"pysandbox, for this cage alone"

    def shown(s, name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        s.settimeout(PATIENCE)
        with context.wrap_socket(s, server_hostname=name) as tls:
            return "signed here" if AUTHORITY in tls.getpeercert(True) else "the server's own"

    def straight(host, name):
        return shown(socket.create_connection((host, 443), PATIENCE), name)
"""
CONTROL = """
    says("by name", straight, LISTED, LISTED)
    says("by address", straight, ORIGIN, None)
"""
ATTACKS = """
    def by_connect(host, name):
        s, status = through_connect(host.encode(), 443)
        return shown(s, name) if status == "200" else status
    def by_socks(host, name):
        kind = 1 if host[0].isdigit() else 3
        s, said = through_socks(socket.inet_aton(host) if kind == 1 else host.encode(), 443, kind)
        return shown(s, name) if said[1:2] == b"\\0" else f"SOCKS {said[1]}"

    says("the control by CONNECT", by_connect, LISTED, LISTED)
    for way in (straight, by_connect, by_socks):
        for host in (ORIGIN, "host.pysandbox.internal", "denied.example"):
            for name in (None, host if host[0].isalpha() else LISTED):
                says(f"{way.__name__} {host} as {name}", way, host, name)
"""


def run(net_host: Host, net: Internet, **policy: Any) -> Said:
    block = {"domain": LISTED, "methods": ["GET"]}
    return attack(net_host, ASKS, CONTROL.splitlines()[1] + "\n", ATTACKS, names=NAMES, hosts=[block],
                  proxy_upstream_ca=[net.ca], **policy)  # fmt: skip


def test_uncaged_the_server_shows_its_own(net_host: Host, net: Internet) -> None:
    assert set(control(net_host, ASKS, CONTROL, names=NAMES).values.values()) == {"the server's own"}


@pytest.mark.parametrize(
    "grants",
    [{}, {"allow_ips": [f"{places.ORIGIN}:443"]}, {"allow_host_loopback": True}, {"allow_ips": ["0.0.0.0/0"]}],
)
def test_nothing_but_the_name_is_signed_for(grants: dict[str, Any], net_host: Host, net: Internet) -> None:
    said = run(net_host, net, **grants)

    assert said["by name"] == said["the control by CONNECT"] == "signed here"
    others = {name: value for name, value in said.values.items() if "by name" not in name and "control" not in name}
    assert len(others) == 18 and "signed here" not in others.values(), others
