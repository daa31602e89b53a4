"""compile/notify.py: in the network of the host a list of addresses is all that is reached, whatever else is asked."""

from __future__ import annotations

import pytest

from golden.pretend import plan_of
from pysandbox import Policy
from pysandbox.errors import PolicyError, UnsupportedError
from pysandbox.policy.endpoint import parse_list

LISTED = "203.0.113.7"
DOORS = 111  # the prefix of the addresses that doors have (198.18.0.0/15, IPv4-mapped)
OTHERS = {
    "alone": {},
    "hosts": {"hosts": ["pypi.org"]},
    "watched files": {"why": True},
    "sockets": {"unix_sockets": ["/run/granted"]},
    "monitor": {"monitor": True},
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("isolation, egress", [
    ("full", {"egress": "direct", "unsafe_direct": True}),
    ("landlock", {"egress": "direct", "unsafe_direct": True}),
    ("landlock", {}),
])  # fmt: skip
def test_a_list_is_all_that_is_reached_in_the_network_of_the_host(
    isolation: str, egress: dict[str, object], other: str
) -> None:
    policy = Policy(isolation=isolation, allow_ips=[LISTED], **egress, **OTHERS[other])  # type: ignore[arg-type]
    try:
        notify = plan_of(policy, tree="/mnt/\n/usr/\n/home/ann/project/\n/run/granted=").notify
    except (PolicyError, UnsupportedError):
        assert other != "alone"
        return  # refused by name: nothing is reached
    assert notify is not None
    listed = set(parse_list([LISTED]))
    assert listed <= set(notify.endpoints)
    assert all(each in listed or each.prefix > DOORS for each in notify.endpoints), notify.endpoints
