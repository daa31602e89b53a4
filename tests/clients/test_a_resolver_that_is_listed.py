"""A resolver in allow_ips is asked itself; any other one is the door, whoever is addressed."""

from __future__ import annotations

import pytest

from _support.internet import Host, Internet, places
from _support.internet.space import demand

LISTED = f"{places.OTHER_RESOLVER}:53"
DIG = "dig +short +time=5 +tries=1 {more} @{at} denied.example"


@pytest.mark.parametrize("more", ["", "+tcp"])
@pytest.mark.parametrize(
    ("at", "listed", "answer"),
    [
        (places.OTHER_RESOLVER, [LISTED], places.DENIED),
        (places.OTHER_RESOLVER, [places.OTHER_RESOLVER], places.DENIED),
        (places.OTHER_RESOLVER, ["199.43.133.0/24:53"], places.DENIED),
        (places.OTHER_RESOLVER, [f"{places.OTHER_RESOLVER}:54-65535"], ""),
        (places.OTHER_RESOLVER, [f"{places.ORIGIN}:53"], ""),
        (places.RESOLVER, [LISTED], ""),
    ],
)
def test_dig(at: str, listed: list[str], answer: str, more: str, net_host: Host, net: Internet) -> None:
    demand("dig")
    said = net_host.run(["sh", "-c", DIG.format(at=at, more=more)], hosts=["origin.example"], allow_ips=listed)
    assert (said.exit_code, said.stdout.strip()) == (0, answer), said
    assert net.questions() == (["denied.example"] if answer else [])


BOUND = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.bind(("", 0))
question = bytes.fromhex("123401000001000000000000") + b"\\x06denied\\x07example\\0" + bytes((0, 1, 0, 1))
s.sendto(question, (sys.argv[1], 53))
print(".".join(map(str, s.recv(999)[-4:])))
"""


def test_also_by_a_socket_that_is_bound_before(net_host: Host, net: Internet) -> None:
    argv = ["/usr/bin/python3", "-I", "-S", "-c", BOUND, places.OTHER_RESOLVER]
    said = net_host.run(argv, hosts=["origin.example"], allow_ips=[LISTED])
    assert (said.exit_code, said.stdout.strip()) == (0, places.DENIED), said
