"""Names whose grants list the same ports lie in one network, and no two networks meet."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from pysandbox.compile import pools
from pysandbox.compile.plan import HostGrant
from pysandbox.gate.dns.names import DOORS, NAMES_KEPT, SYNTHETIC
from pysandbox.policy.names import HOST_ALIAS

HOSTS = (
    HostGrant("any.example", (), False), HostGrant("web.example", (443, 80), False),
    HostGrant("**.example", (443,), False), HostGrant("git.test", (22,), False),
)  # fmt: skip


def test_every_list_of_ports_has_a_pool_and_the_first_is_for_any() -> None:
    assert pools.port_lists(HOSTS, (5432,)) == ((), (22,), (80, 443), (443,), (5432,))
    assert pools.port_lists((), None) == ((),)


@pytest.mark.parametrize(
    ("name", "ports"),
    [
        ("git.test", (22,)), ("a.example", (443,)), ("web.example", (80, 443)), ("any.example", ()),
        (HOST_ALIAS, (5432,)), ("unknown.test", ()),
    ],
)  # fmt: skip
def test_a_name_lies_where_all_its_ports_are(name: str, ports: tuple[int, ...]) -> None:
    assert pools.port_lists(HOSTS, (5432,))[pools.pool_of(name, HOSTS, (5432,))] == ports


def test_a_name_whose_ports_are_no_list_of_one_grant_is_decided_at_the_door() -> None:
    hosts = (HostGrant("a.test", (80,), False), HostGrant("*.test", (443,), False), HostGrant("a.test", (22,), False))
    assert pools.pool_of("a.test", hosts, None) == 0


def test_lists_that_are_many_or_long_are_decided_at_the_door() -> None:
    many = tuple(HostGrant(f"n{port}.test", (port,), False) for port in range(1, 40))
    long = HostGrant("long.test", tuple(range(1, 100)), False)
    assert len(pools.port_lists(many, None)) == pools.MOST_POOLS
    assert pools.pool_of("n39.test", many, None) == 0
    assert pools.port_lists((long,), None) == ((),) and pools.pool_of("long.test", (long,), None) == 0


@pytest.mark.parametrize("count", range(1, pools.MOST_POOLS + 1))
def test_pools_lie_in_the_network_of_names_apart_and_have_room(count: int) -> None:
    networks = [IPv4Network(pools.network(place, count)) for place in range(count)]
    assert all(each.subnet_of(SYNTHETIC) and each.num_addresses - DOORS - 1 > NAMES_KEPT for each in networks)
    assert not any(one.overlaps(other) for place, one in enumerate(networks) for other in networks[:place])
