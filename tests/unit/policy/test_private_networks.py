"""What `[[host]] private_addresses` may list, and what it never means."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.errors import PolicyError
from pysandbox.gate.rules import sixteen
from pysandbox.policy.model import Policy
from pysandbox.policy.private_networks import is_private, leads_into

PRIVATE = [ip_network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")]
CLOUDS = ("fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1", "fd00:100::100:200")
NEVER = [ip_network(each) for each in ("100.100.100.200", "fd00:ec2::/32", *CLOUDS)]


def leads(listed: str, address: str, *, own: bool = False) -> bool:
    return leads_into((listed,), sixteen(ip_address(address)), own=own)


@pytest.mark.parametrize(
    "text",
    ["10.1.2.3", "10.0.0.0/8", "172.16.0.0/12", "192.168.7.0/24", "100.64.0.0/10", "fc00::/7", "fd00:1::7",
     "[fd00:1::7]", "::ffff:10.1.2.3"],
)  # fmt: skip
def test_an_address_or_a_network_is_taken(text: str) -> None:
    policy = Policy(hosts=[{"domain": "a.example", "private_addresses": [text]}])
    assert policy.hosts[0].private_addresses == (text,)
    assert Policy.parse(policy.to_toml()) == policy == Policy.from_json(policy.to_json())


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("0.0.0.0/0", "no address of a private network"), ("::/0", "no address"), ("10.0.0.0/7", "no address"),
        ("8.8.8.8", "no address"), ("127.0.0.1", "no address"), ("::1", "no address"), ("fe80::1", "no address"),
        ("169.254.169.254", "no address"), ("169.254.0.0/16", "no address"), ("198.18.0.1", "no address"),
        ("0.0.0.0", "no address"), ("64:ff9b::a01:203", "no address"), ("2002:a01:203::", "no address"),
        ("224.0.0.1", "no address"), ("fec0::1", "no address"), ("::ffff:127.0.0.1", "no address"),
        ("::ffff:0.0.0.0/96", "no address"), ("168.63.129.16", "no address"), ("192.0.0.192", "no address"),
        ("100.100.100.200", "metadata"), ("fd00:ec2::254", "metadata"), ("fd00:ec2::/32", "metadata"),
        *((each, "metadata") for each in CLOUDS), ("10.1.2.3:443", "ports"), ("10.1.2.3/tcp", "ports"),
        ("10.1.2.3/16", "behind its prefix"), ("api.corp", "not an address"), ("167838211", "not appear"),
        ("012.1.2.3", "does not appear"), ("10.1", "does not appear"), ("", "must not be empty"),
    ],
)  # fmt: skip
def test_what_is_no_private_network_is_refused(text: str, word: str) -> None:
    with pytest.raises(PolicyError, match=word) as caught:
        Policy(hosts=[{"domain": "a.example", "private_addresses": [text]}])
    assert "private_addresses" in str(caught.value)


def test_one_text_is_no_list() -> None:
    with pytest.raises(PolicyError, match="list of addresses"):
        Policy(hosts=[{"domain": "a.example", "private_addresses": "10.1.2.3"}])


@given(st.ip_addresses())
def test_what_is_private_is_so_by_another_reading_too(address: object) -> None:
    there = ip_address(str(address))
    bare = getattr(there, "ipv4_mapped", None) or there
    within = [any(bare in each for each in several) for several in (PRIVATE, NEVER)]
    assert is_private(sixteen(there)) == (within == [True, False])


@given(st.sampled_from(PRIVATE).flatmap(lambda each: st.ip_addresses(network=each)), st.integers(0, 128))
def test_a_network_leads_to_what_is_in_it_and_not_to_a_cloud_s_metadata(address: object, bits: int) -> None:
    there = ip_address(str(address))
    network = next(each for each in PRIVATE if there in each)
    listed = ip_network((str(there), max(network.prefixlen, min(bits, there.max_prefixlen))), strict=False)
    never = any(there in each for each in NEVER)
    assert leads(str(listed), str(there)) is not never
    other = ip_address(int(listed.network_address) - 1) if int(listed.network_address) else ip_address("8.8.8.8")
    assert not leads(str(listed), str(other))
    assert leads(str(listed), str(there), own=True) is (listed.prefixlen == there.max_prefixlen and not never)


@pytest.mark.parametrize(("listed", "address"), [
    ("100.64.0.0/10", "100.100.100.200"), ("100.100.100.200/31", "100.100.100.200"), ("fc00::/7", "fd00:ec2::254"),
    ("fc00::/7", "fd00:ec2::23"), *(("fc00::/7", each) for each in CLOUDS),
    *((str(ip_network((each, 64), strict=False)), each) for each in CLOUDS),
])  # fmt: skip
def test_a_range_around_a_metadata_service_is_not_a_word_for_it(listed: str, address: str) -> None:
    assert not leads(listed, address)


def test_an_address_has_one_reading() -> None:
    assert leads("10.1.2.3", "::ffff:10.1.2.3") and leads("::ffff:10.1.2.3", "10.1.2.3")
    carried = ("64:ff9b::a01:203", "2002:a01:203::", "::a01:203", "64:ff9b:1::a01:203", "2001:0:a01:203::")
    assert not any(leads("10.0.0.0/8", each) for each in carried)
