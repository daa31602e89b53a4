"""Whether a connection may stay that was made before its cage was tightened."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import pytest

from _support.gate import net_plan
from pysandbox.gate.rules import GateRules
from pysandbox.gate.tcp import target as targets
from pysandbox.gate.tcp.target import DialTarget, may_stay
from pysandbox.policy.endpoint import parse_endpoint
from pysandbox.policy.names import HOST_ALIAS
from pysandbox.policy.parent import ParentProxy

PUBLIC, LISTED, PORT = "203.0.113.7", "198.51.100.9", 443
ALL = GateRules.of(net_plan("name.example", ips=(LISTED,), loopback=(PORT,)))
PARENT = replace(ALL, parent=ParentProxy("proxy.example", 3128, "", ()))


@pytest.mark.parametrize(
    ("rules", "host", "address", "rule"),
    [
        (ALL, "name.example", PUBLIC, ""),
        (ALL, "name.example", "10.0.0.1", "host.private_addresses"),  # a special one, which no list has
        (ALL, "name.example", "169.254.1.1", "network.allow_ips"),
        (replace(ALL, hosts=()), "name.example", PUBLIC, "host"),
        (ALL.tightened(()), "name.example", PUBLIC, "policy_fn"),
        (ALL.tightened((parse_endpoint(LISTED),)), "name.example", PUBLIC, "policy_fn"),
        (ALL, LISTED, LISTED, ""),
        (ALL, PUBLIC, PUBLIC, "network.allow_ips"),
        (ALL.tightened((parse_endpoint(PUBLIC),)), LISTED, LISTED, "policy_fn"),
        (ALL, HOST_ALIAS, "127.0.0.1", ""),
        (replace(ALL, loopback_ports=None), HOST_ALIAS, "127.0.0.1", "network.allow_host_loopback"),
        (PARENT, "name.example", "10.0.0.1", ""),  # the parent's own address, which says nothing of the name
        (replace(PARENT, hosts=()), "name.example", "10.0.0.1", "host"),
        (PARENT.tightened((parse_endpoint("10.0.0.1"),)), "name.example", "10.0.0.1", "policy_fn"),
    ],
)
def test_what_the_rules_are_now_decides(rules: GateRules, host: str, address: str, rule: str,
                                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(targets, "is_own", lambda _: False)
    session: Any = SimpleNamespace(rules=rules)
    decision = may_stay(session, DialTarget(host, PORT), ip_address(address))
    key = decision.rule.partition(":")[0]
    assert (decision.allowed, "" if decision.allowed else key) == (rule == "", rule)


def test_an_address_that_has_become_this_host_s_is_asked_for_again_where_it_is_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranged: Any = SimpleNamespace(rules=GateRules.of(net_plan(ips=("203.0.113.0/24",))))
    for is_own in (False, True):
        monkeypatch.setattr(targets, "is_own", lambda _, is_own=is_own: is_own)
        assert may_stay(ranged, DialTarget(PUBLIC, PORT), ip_address(PUBLIC)).allowed is not is_own
