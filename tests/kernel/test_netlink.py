"""netfilter/netlink.py: the bytes are those that ip and nft would send. The oracles are nft itself and pyroute2."""

from __future__ import annotations

import socket
import struct
import subprocess

import pytest
from pyroute2.netlink.nfnetlink.nftsocket import nft_rule_msg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from pysandbox.netfilter.netlink import REDIRECT, ROUTES, Reached, redirect

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
        %s
        ip daddr 198.18.0.0/15 %s
        %s
        %s
    }
}
"""
USED = {"payload", "cmp", "bitwise", "immediate", "meta", "nat"}
REFUSE = "meta l4proto tcp tcp ackseq set @nh,128,32 dnat to 198.18.0.2:0"
# What nft(8) shows and does not read: that a port is written where another number stands.
PORT_NOTED = """
  [ payload load 2b @ transport header + 2 => reg 1 ]
  [ payload write reg 1 => 2b @ transport header + 18 csum_type 1 csum_off 16 csum_flags 0x0 ]"""
PORT_SHOWN = " tcp urgptr set tcp dport"
ANY_NAME = "ip daddr 198.18.0.0/15 meta l4proto tcp dnat to 198.18.0.1:3129"
RESOLVERS = [(bytes((192, 0, 2, 53)), 32), (bytes((203, 0, 113, 0)), 25)]
LISTED = "set resolvers { type ipv4_addr; flags interval; elements = { 192.0.2.53, 203.0.113.0/25 } }"
ASKED = """
        meta l4proto udp ip daddr @resolvers udp dport 53 return
        meta l4proto tcp ip daddr @resolvers tcp dport 53 dnat to 198.18.0.1:3129
"""
NAMES = [Reached(((bytes((198, 18, 0, 0)), 16),), ()), Reached(((bytes((198, 19, 0, 0)), 16),), ((80, 80), (443, 443)))]
BY_NAME = """
        ip daddr 198.18.0.0/16 meta l4proto tcp dnat to 198.18.0.1:3129
        ip daddr 198.19.0.0/16 tcp dport 80 dnat to 198.18.0.1:3129
        ip daddr 198.19.0.0/16 tcp dport 443 dnat to 198.18.0.1:3129
"""
ADDRESSES = [Reached(((bytes((192, 0, 2, 8)), 30),), ()), Reached(((bytes((203, 0, 113, 7)), 32),), ((80, 90),))]
SETS = """
    set listed-0 { type ipv4_addr; flags interval; elements = { 192.0.2.8/30 } }
    set listed-1 { type ipv4_addr; flags interval; elements = { 203.0.113.7 } }
"""
BY_LIST = """
        ip daddr @listed-0 meta l4proto tcp dnat to 198.18.0.1:3129
        ip daddr @listed-1 tcp dport 80-90 dnat to 198.18.0.1:3129
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
    [
        (REDIRECT, ("", "", ANY_NAME, "")),
        (redirect(RESOLVERS), (LISTED, ASKED, ANY_NAME, "")),
        (redirect(names=NAMES), ("", "", BY_NAME, "")),
        (redirect(listed=ADDRESSES), (SETS, "", ANY_NAME, BY_LIST)),
    ],
    ids=["plain", "with resolvers", "with names of some ports", "with addresses"],
)
def test_the_redirect_is_what_nft_makes_of_the_same_rules(batch: bytes, more: tuple[str, str, str, str]) -> None:
    ours = in_a_network_of_its_own("/usr/bin/python3", "-I", "-S", "-c", LOAD + SHOW, *map(bytes.hex, batches(batch)))
    said = RULES % (*more[:3], REFUSE, more[3], REFUSE)
    theirs = in_a_network_of_its_own(
        "/bin/sh", "-c", "nft -f - && exec nft --debug=netlink -nn list ruleset", said=said
    )
    assert ours.count(PORT_NOTED) == ours.count(PORT_SHOWN) == 2
    assert ours.replace(PORT_NOTED, "").replace(PORT_SHOWN, "") == theirs
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
    assert len(rules) == 7
    for rule in rules:
        rule.decode()
        assert (rule.get_attr("NFTA_RULE_TABLE"), rule.get_attr("NFTA_RULE_CHAIN")) == ("pysandbox", "output")
        names = [each.get_attr("NFTA_EXPR_NAME") for each in rule.get_attr("NFTA_RULE_EXPRESSIONS")]
        assert names[-1] in ("immediate", "nat") and set(names) <= USED


def test_every_message_of_both_asks_for_an_answer() -> None:
    flags = [struct.unpack_from("=H", message, 6)[0] for kind, message in messages(ROUTES + REDIRECT) if kind > 17]
    assert len(flags) == 10 and all(each & 0x4 for each in flags)


def test_the_route_reads_as_one() -> None:
    route = rtmsg(ROUTES)
    route.decode()
    assert (route["family"], route["dst_len"], route["table"], route["type"]) == (socket.AF_INET, 0, 255, 2)
    assert route.get_attr("RTA_OIF") == 1
