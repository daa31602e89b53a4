"""Which packets of a routed cage pass, by the order of the rules; what the kernel makes of them is tried in tests/e2e
and tests/security."""

from __future__ import annotations

import pytest

from pysandbox import Policy
from pysandbox.compile import routed
from pysandbox.compile.routed import passages
from pysandbox.netfilter import nftables as nft
from pysandbox.policy.endpoint import parse_endpoint


def order(*texts: str) -> list[tuple[bytes, bool]]:
    return [(each.match, each.open) for each in passages(tuple(map(parse_endpoint, texts)))]


def place(rules: list[tuple[bytes, bool]], address: str, prefix: int, *, opens: bool) -> int:
    """Where the first rule of that kind about this destination stands."""
    looked_for = nft.destination(bytes(map(int, address.split("."))), prefix)
    return next(at for at, (match, through) in enumerate(rules) if match.startswith(looked_for) and through is opens)


def test_an_empty_list_opens_nothing() -> None:
    assert not any(opens for _, opens in order())


def test_other_cages_are_refused_before_anything_is_opened() -> None:
    rules = order("10.143.0.2", "10.0.0.0/8", "0.0.0.0/0")
    assert place(rules, "10.143.0.0", 16, opens=False) == 0


def test_a_single_address_comes_before_what_is_guarded_and_a_wide_range_behind_it() -> None:
    rules = order("0.0.0.0/1", "169.254.169.254", "10.0.0.0/8")
    metadata = place(rules, "169.254.0.0", 16, opens=False)
    local = rules.index((nft.not_unicast(), False))
    assert place(rules, "169.254.169.254", 32, opens=True) < local
    assert local < place(rules, "10.0.0.0", 8, opens=True) < metadata < place(rules, "0.0.0.0", 1, opens=True)


@pytest.mark.parametrize("wide", ["0.0.0.0/0", "8.0.0.0/6", "168.0.0.0/5", "192.0.0.0/9"])
def test_a_range_around_a_guarded_one_is_not_within_it(wide: str) -> None:
    rules = order(wide)
    opened = [at for at, (_, opens) in enumerate(rules) if opens]
    refused = [at for at, (_, opens) in enumerate(rules) if not opens]
    assert max(refused) < min(opened)


def test_an_ipv6_address_opens_nothing() -> None:
    assert order("2001:db8::1", "::/0") == order()


def test_echo_is_part_of_an_address_and_not_of_a_port() -> None:
    def echoes(text: str) -> bool:
        return any(match.endswith(nft.echo_request()) for match, _ in order(text))

    assert echoes("192.0.2.7")
    assert not any(map(echoes, ("192.0.2.7/tcp", "192.0.2.7:53", "192.0.2.7:1-65535/udp")))


@pytest.mark.parametrize("slot", [0, 63, 64, 16383])
def test_the_addresses_of_a_pair_are_one_network_of_four(slot: int) -> None:
    from pysandbox.gate.routed import AddressSlot

    gateway, cage = AddressSlot(slot).gateway, AddressSlot(slot).cage
    assert gateway[:2] == cage[:2] == routed.NETWORK[:2]
    assert (cage[3] & 3, gateway[3] & 3) == (2, 1)
    assert gateway[2] == cage[2] == slot // 64  # 10.143.<cage>.<endpoint>
    assert len(AddressSlot(slot).device) < 16  # IFNAMSIZ


def test_a_range_that_does_not_begin_with_the_bytes_of_the_guarded_one_is_compared_by_bits() -> None:
    guarded = {text: place(order(text), text.partition("/")[0], int(text.partition("/")[2]), opens=True)
               for text in ("172.16.0.0/12", "172.31.0.0/16", "100.127.0.0/16")}  # fmt: skip
    assert all(at < len(order(text)) for text, at in guarded.items())
    assert order("172.32.0.0/16")[2:3] != order("172.31.0.0/16")[2:3]


@pytest.mark.parametrize("name", ["", "-x", "a" * 16, "br/0", "br 0", "..", "br\0"])
def test_a_bridge_is_named_as_an_interface_may_be(name: str) -> None:
    with pytest.raises(ValueError, match=r"network\.bridge"):
        Policy(bridge=name)
