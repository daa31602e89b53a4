"""probe/netlink.py: the bytes are those that ip and nft would send. The oracles are nft itself and pyroute2."""

from __future__ import annotations

import socket
import struct
import subprocess

import pytest
from pyroute2.netlink.nfnetlink.nftsocket import nft_rule_msg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from pysandbox.probe.netlink import REDIRECT, ROUTES, redirect

RULES = """
table ip pysandbox {
    %s
    chain output {
        type nat hook output priority -100; policy accept;
        ip daddr 127.0.0.0/8 return
        ip daddr 198.18.0.1 return
        %s
        udp dport 53 dnat to 198.18.0.1:53
        tcp dport 53 dnat to 198.18.0.1:53
        meta l4proto tcp dnat to 198.18.0.1:3129
    }
}
"""
RESOLVERS = [(bytes((192, 0, 2, 53)), 32), (bytes((203, 0, 113, 0)), 25)]
LISTED = "set resolvers { type ipv4_addr; flags interval; elements = { 192.0.2.53, 203.0.113.0/25 } }"
ASKED = """
        meta l4proto udp ip daddr @resolvers udp dport 53 return
        meta l4proto tcp ip daddr @resolvers tcp dport 53 dnat to 198.18.0.1:3129
"""
LOAD = """
import socket, subprocess, sys
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as kernel:
    for each in sys.argv[1:]:
        kernel.send(bytes.fromhex(each))
"""
SHOW = "import subprocess; subprocess.run(['nft', '--debug=netlink', '-nn', 'list', 'ruleset'], check=True)"


def in_a_network_of_its_own(*argv: str, said: str = "") -> str:
    done = subprocess.run(["unshare", "-Urn", *argv], input=said, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("batch", "more"),
    [(REDIRECT, ("", "")), (redirect(RESOLVERS), (LISTED, ASKED))],
    ids=["plain", "with resolvers"],
)
def test_the_redirect_is_what_nft_makes_of_the_same_rules(batch: bytes, more: tuple[str, str]) -> None:
    ours = in_a_network_of_its_own("/usr/bin/python3", "-I", "-S", "-c", LOAD + SHOW, *map(bytes.hex, batches(batch)))
    theirs = in_a_network_of_its_own(
        "/bin/sh", "-c", "nft -f - && exec nft --debug=netlink -nn list ruleset", said=RULES % more
    )
    assert ours == theirs
    assert ours.count("dnat") >= 3


def batches(said: bytes) -> list[bytes]:
    """Each transaction for itself, as they are sent."""
    found = [b""]
    for kind, message in messages(said):
        found[-1] += message
        if kind == 17:  # NFNL_MSG_BATCH_END
            found.append(b"")
    return found[:-1]


def messages(batch: bytes) -> list[tuple[int, bytes]]:
    """(type, bytes) of each."""
    found = []
    while batch:
        length, kind = struct.unpack_from("=IH", batch)
        found.append((kind, batch[:length]))
        batch = batch[length:]
    return found


def test_each_rule_reads_as_one() -> None:
    rules = [nft_rule_msg(message) for kind, message in messages(REDIRECT) if kind & 0xFF == 6]
    assert len(rules) == 5
    for rule in rules:
        rule.decode()
        assert (rule.get_attr("NFTA_RULE_TABLE"), rule.get_attr("NFTA_RULE_CHAIN")) == ("pysandbox", "output")
        names = [each.get_attr("NFTA_EXPR_NAME") for each in rule.get_attr("NFTA_RULE_EXPRESSIONS")]
        assert names[-1] in ("immediate", "nat") and set(names) <= {"payload", "cmp", "immediate", "meta", "nat"}


def test_every_message_of_both_asks_for_an_answer() -> None:
    flags = [struct.unpack_from("=H", message, 6)[0] for kind, message in messages(ROUTES + REDIRECT) if kind > 17]
    assert len(flags) == 8 and all(each & 0x4 for each in flags)


def test_the_route_reads_as_one() -> None:
    route = rtmsg(ROUTES)
    route.decode()
    assert (route["family"], route["dst_len"], route["table"], route["type"]) == (socket.AF_INET, 0, 255, 2)
    assert route.get_attr("RTA_OIF") == 1
